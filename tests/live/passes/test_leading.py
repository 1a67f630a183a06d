"""The decider of a leader: failed writes, own and foreign changes, rescales that it follows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hpabatch.cluster.objects.types import Change, HpaObject, Kind, ScaleKey, ScaleObject
from hpabatch.layout.records import HEAD_REC_COUNT, HEAD_REC_START, HEAD_UP_COUNT, HEAD_UP_START
from hpabatch.live.passes.decide import Decider
from hpabatch.live.passes.result import PassResult
from hpabatch.model.objects.hpa import Behavior, ScalingPolicy, ScalingRules
from hpabatch.model.versions import DEFAULT_K8S, ControllerFlags, profile_for
from tests.live import two_pods

KEY = ScaleKey("apps", "Deployment", "shop", "web")
NOW = two_pods.NOW_MS
STEP = two_pods.PERIOD_MS


class Led:
    """An HPA of two pods at twice their target, whose policy allows one pod a minute."""

    def __init__(self, leads: bool = True, attributed: bool = True) -> None:
        self.decider = Decider(profile_for(DEFAULT_K8S), ControllerFlags())
        self.decider.apply(_with_policy())
        self.decider.lanes.leads, self.decider.lanes.attributed = leads, attributed
        self.now = NOW

    def turn(self) -> PassResult:
        self.now += STEP
        return self.decider.decide(self.now, two_pods.responses(self.now))

    def shows(self, replicas: int) -> None:
        """Let the watch show a size."""
        scale = ScaleObject(KEY, replicas, replicas, "app=web")
        self.decider.apply([Change(Kind.scale, KEY, scale, self.now + 1)])

    def follows(self, replicas: int) -> None:
        """Let the watch show a size that another instance has written."""
        self.shows(replicas)
        (change,) = self.decider.lanes.foreign
        self.decider.lanes.book_rescale(*change)
        self.decider.lanes.foreign.clear()

    def writes(self, result: PassResult, certain: bool = True, late_ms: int = 0) -> tuple[int, int]:
        before, after = int(result.decisions.current[0]), int(result.ours_desired[0])
        at_ms = result.now_ms + late_ms
        self.decider.lanes.note_write(("shop", "web"), at_ms, before, after, certain)
        return before, after

    @property
    def events(self) -> int:
        return int(self.decider._memory.head[0, HEAD_UP_COUNT])

    @property
    def recommendations(self) -> list[int]:
        memory = self.decider._memory
        start, count = memory.head[0, HEAD_REC_START], memory.head[0, HEAD_REC_COUNT]
        return [int(value) for value in memory.recs.value[start : start + count]]


def _with_policy() -> list[Change]:
    found: list[Any] = []
    for change in two_pods.changes():
        if isinstance(change.thing, HpaObject):
            rules = ScalingRules(policies=(ScalingPolicy("Pods", 1, 60),))
            hpa = change.thing.hpa
            hpa = replace(hpa, spec=replace(hpa.spec, behavior=Behavior(scale_up=rules)))
            change = replace(change, thing=replace(change.thing, hpa=hpa))
        found.append(change)
    return found


@pytest.mark.parametrize("late_ms", [0, 10 * STEP])
def test_a_write_counts_from_its_response_and_at_the_next_pass(late_ms: int) -> None:
    """Also if it ended after the next pass, by a clock that was set back since."""
    led = Led()
    led.writes(led.turn(), late_ms=late_ms)
    led.shows(3)
    led.turn()
    at_ms = led.now - STEP if late_ms == 0 else led.now - 1
    memory = led.decider._memory
    assert led.events == 1
    assert int(memory.events.ms[memory.head[0, HEAD_UP_START]]) == at_ms


def test_a_failed_write_is_decided_again_as_one() -> None:
    led = Led()
    first = led.turn()
    again = led.decider.redecide({0: "no"})
    assert first.decisions.rescaled[0]
    assert again.binding(0) == "scale_write"
    assert not again.decisions.rescaled[0]
    (event,) = again.events(0)
    assert event.reason == "FailedRescale"
    assert event.message.startswith("New size: 3; reason: ")
    assert event.message.endswith("; error: no")
    conditions = {c.type: c for c in again.document(0).status.conditions}
    assert (conditions["AbleToScale"].status, conditions["AbleToScale"].reason) == (
        "False", "FailedUpdateScale",
    )  # fmt: skip
    recommended = led.recommendations
    led.turn()
    assert led.events == 0
    assert len(recommended) == len(set(recommended)) + recommended.count(2) - 1, "stored once"


def test_a_pass_decided_again_leaves_the_memory_of_other_lanes_as_it_was() -> None:
    led, other = Led(), Led()
    led.turn()
    other.turn()
    led.decider.redecide({})
    assert np.array_equal(led.decider._memory.head, other.decider._memory.head)
    assert np.array_equal(led.decider._memory.recs, other.decider._memory.recs)


@pytest.mark.parametrize("passes", [1, 9])
def test_an_own_write_that_no_watch_shows_is_forgotten(passes: int) -> None:
    """Otherwise a manual change to that size would count as it, weeks later."""
    led = Led()
    led.writes(led.turn(), certain=False)
    for _ in range(passes):
        led.writes(led.turn(), certain=False)
    lane = led.decider.lanes.get(("shop", "web"))
    assert lane is not None
    assert len(lane.own) == 1, "tried again in every pass, it is one"
    for _ in range(passes):
        led.turn()
    led.shows(3)
    assert len(led.decider.lanes.foreign) == (passes == 9)


@pytest.mark.parametrize("attributed", [True, False])
def test_a_rescale_that_is_followed_counts_as_recommended(attributed: bool) -> None:
    """Another instance saw a sample that wanted six; without it a window lets go at once."""
    led = Led(leads=False, attributed=attributed)
    led.turn()
    led.follows(6) if attributed else led.shows(6)
    led.turn()
    assert (max(led.recommendations) >= 6) is attributed


def test_following_down_cuts_recommendations() -> None:
    led = Led(leads=False)
    for _ in range(3):
        led.turn()
    led.follows(1)
    led.turn()
    assert led.recommendations[:-1] == [1] * (len(led.recommendations) - 1)


def test_a_recalled_change_is_not_followed() -> None:
    """Another leader's scale-down from before this process saw the size says nothing of now."""
    led = Led(leads=False)
    for _ in range(3):
        led.turn()
    before = led.recommendations
    led.decider.lanes.recall_change(("shop", "web"), two_pods._CREATED_MS - 1, 10, 1)
    led.turn()
    assert led.recommendations[: len(before)] == before
