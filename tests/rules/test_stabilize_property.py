"""The slot lists behind rings, stack and arrays are upstream's lists, slot by slot.

Sequences of syncs with irregular steps (also back), edited windows, both paths and restarts run
through the rules and through plain lists, which are compared after every step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpabatch.layout.records import (
    HEAD_DOWN_COUNT,
    HEAD_DOWN_START,
    HEAD_REC_COUNT,
    HEAD_UP_COUNT,
    HEAD_UP_START,
    Fleet,
    Memory,
)
from hpabatch.model.objects.hpa import Behavior, HPASpec, ScalingPolicy, ScalingRules
from hpabatch.model.versions import ControllerFlags, profile_for
from hpabatch.rules.behavior import forget_scale_events, replicas_changed_since, store_scale_event
from hpabatch.rules.stabilize import (
    forget_recommendations,
    record_recommendation,
    stabilize_legacy,
    stabilize_with_windows,
)
from tests.effort import effort
from tests.packed import LaneView, TickView, make_memory, pack_fleet

_SETTINGS = settings(derandomize=True, deadline=None, database=None, max_examples=effort(150))
_SECONDS = (0, 1, 15, 30, 60, 120, 300)
# Steps that meet window edges exactly, miss them by 1 ms, stand still, and go back.
_STEP_MS = (0, 1, 999, 1000, 14_999, 15_000, 15_000, 15_000, 15_001, 30_000, 60_000, 300_000)
_BACK_MS = (-1, -1000, -15_000, -120_000)


class Sync(NamedTuple):
    """One sync: where the clock goes, what is wished, and what is configured."""

    step_ms: int
    restart: bool
    windows_s: tuple[int, int] | None  # (up, down); None: no behavior
    current: int
    wish: int


def _syncs(steps: tuple[int, ...]) -> st.SearchStrategy[list[Sync]]:
    windows = st.tuples(st.sampled_from(_SECONDS), st.sampled_from(_SECONDS))
    sync = st.builds(
        Sync,
        step_ms=st.sampled_from(steps),
        restart=st.sampled_from((False,) * 15 + (True,)),
        windows_s=st.none() | windows,
        current=st.integers(0, 9),
        wish=st.integers(0, 9),
    )
    runs = st.lists(st.tuples(sync, st.integers(1, 12)), min_size=1, max_size=20)
    # Runs of the same configuration, as edits are rare; every wish stays its own.
    return runs.flatmap(_vary)


def _vary(runs: list[tuple[Sync, int]]) -> st.SearchStrategy[list[Sync]]:
    total = sum(length for _, length in runs)
    wishes = st.lists(st.integers(0, 9), min_size=total, max_size=total)
    return wishes.map(lambda values: _with_wishes(runs, values))


def _with_wishes(runs: list[tuple[Sync, int]], wishes: list[int]) -> list[Sync]:
    flat = [
        (sync._replace(restart=sync.restart and k == 0))
        for sync, length in runs
        for k in range(length)
    ]
    return [sync._replace(wish=wish) for sync, wish in zip(flat, wishes, strict=True)]


@dataclass
class NaiveList:
    """Upstream's recommendation list: scanned whole, the last too old slot is overwritten."""

    slots: list[tuple[int, int]] = field(default_factory=list)  # (value, ms)

    def record(self, value: int, now_ms: int, reusable: int | None) -> None:
        if reusable is None:
            self.slots.append((value, now_ms))
        else:
            self.slots[reusable] = (value, now_ms)

    def legacy(self, wish: int, now_ms: int, window_ms: int) -> int:
        best, reusable = wish, None
        for k, (value, ms) in enumerate(self.slots):
            if ms < now_ms - window_ms:
                reusable = k
            elif value > best:
                best = value
        self.record(wish, now_ms, reusable)
        return best

    def two_windows(
        self, current: int, wish: int, now_ms: int, up_ms: int, down_ms: int, clamps: bool
    ) -> int:
        low, high, reusable = wish, wish, None
        for k, (value, ms) in enumerate(self.slots):
            if ms > now_ms - up_ms:
                low = min(low, value)
            if ms > now_ms - down_ms:
                high = max(high, value)
            if ms < now_ms - up_ms and ms < now_ms - down_ms:
                reusable = k
        self.record(wish, now_ms, reusable)
        if not clamps:  # (until 1.20)
            return low if wish >= current else high
        return min(max(current, low), high)


def _rules(window_s: int, policies: tuple[ScalingPolicy, ...] = ()) -> ScalingRules:
    return ScalingRules(window_s, "Max", policies)


def _pack(specs: list[HPASpec], times_ms: list[int], legacy_ms: int) -> Fleet:
    ticks = [TickView(ms, k, 1, 1) for k, ms in enumerate(times_ms)]
    flags = ControllerFlags(downscale_stabilization_ms=legacy_ms)
    return pack_fleet([LaneView(specs, ticks)], flags, profile_for("1.38"))


def _times(steps_ms: list[int]) -> list[int]:
    return [int(ms) for ms in np.cumsum([1_700_000_000_000, *steps_ms[1:]])]


def _recommendations(memory: Memory) -> list[tuple[int, int]]:
    slots = memory.recs[: memory.head[0, HEAD_REC_COUNT]]
    return [(int(slot.value), int(slot.ms)) for slot in slots]


def _compare_recommendations(
    syncs: list[Sync], legacy_s: int, every: int = 1, clamps: bool = True
) -> None:
    """Run the syncs both ways, in a memory of exactly the capacity that `make_memory` gives.

    After every so many syncs the whole lists are compared.
    """
    specs = [
        HPASpec(behavior=s.windows_s and Behavior(*(_rules(w) for w in s.windows_s))) for s in syncs
    ]
    times = _times([s.step_ms for s in syncs])
    memory, naive = make_memory(_pack(specs, times, legacy_s * 1000), recorded=False), NaiveList()
    head, recs = memory.head[0], memory.recs
    for k, (sync, now_ms) in enumerate(zip(syncs, times, strict=True)):
        if sync.restart:
            forget_recommendations(head)
            naive.slots.clear()
        if not naive.slots:
            record_recommendation(head, recs, sync.current, now_ms)
            naive.record(sync.current, now_ms, None)
        if sync.windows_s is None:
            window_ms = legacy_s * 1000
            ours = stabilize_legacy(head, recs, sync.wish, now_ms, window_ms)
            theirs = naive.legacy(sync.wish, now_ms, window_ms)
        else:
            up_ms, down_ms = (1000 * window for window in sync.windows_s)
            ours = stabilize_with_windows(
                head, recs, sync.current, sync.wish, now_ms, up_ms, down_ms, clamps
            )
            theirs = naive.two_windows(sync.current, sync.wish, now_ms, up_ms, down_ms, clamps)
        assert ours == theirs
        assert k % every or _recommendations(memory) == naive.slots
        assert len(naive.slots) <= recs.size


@_SETTINGS
@given(_syncs(_STEP_MS), st.sampled_from(_SECONDS), st.booleans())
def test_recommendations_are_the_naive_list(syncs: list[Sync], legacy_s: int, clamps: bool) -> None:
    _compare_recommendations(syncs, legacy_s, clamps=clamps)


@_SETTINGS
@given(_syncs(_STEP_MS + _BACK_MS), st.sampled_from(_SECONDS))
def test_recommendations_while_the_clock_goes_back(syncs: list[Sync], legacy_s: int) -> None:
    _compare_recommendations(syncs, legacy_s)


@pytest.mark.parametrize("window_s", [0, 300, 3600])
def test_recommendations_over_many_words_of_the_bit_set(window_s: int) -> None:
    """Alternate a long and a short window, so that up to 240 slots become replaceable at once."""
    syncs = [
        Sync(15_000, False, (0, 3600) if (k // 300) % 2 == 0 else (0, window_s), 5, k * 7919 % 10)
        for k in range(900)
    ]
    _compare_recommendations(syncs, 300, every=20)


# --- scale events ---------------------------------------------------------------------------------


class Change(NamedTuple):
    """One written change of size, with the periods of both directions' policies in force."""

    step_ms: int
    restart: bool
    periods_s: tuple[tuple[int, ...], tuple[int, ...]] | None  # (up, down); None: no behavior
    before: int
    after: int
    asked_s: int  # the period that a policy asks for afterwards


@dataclass
class NaiveEvents:
    """Upstream's list of scale events of one direction."""

    slots: list[tuple[int, int, bool]] = field(default_factory=list)  # (change, ms, outdated)

    def store(self, change: int, now_ms: int, longest_ms: int) -> None:
        reusable = None
        for k, (old, ms, outdated) in enumerate(self.slots):
            self.slots[k] = (old, ms, outdated or ms < now_ms - longest_ms)
            if self.slots[k][2]:
                reusable = k
        if reusable is None:
            self.slots.append((change, now_ms, False))
        else:
            self.slots[reusable] = (change, now_ms, False)

    def changed_since(self, cutoff_ms: int) -> int:
        return sum(change for change, ms, _ in self.slots if ms > cutoff_ms)


def _changes(steps: tuple[int, ...]) -> st.SearchStrategy[list[Change]]:
    periods = st.lists(st.sampled_from(_SECONDS[1:]), max_size=3).map(tuple)
    sizes = st.tuples(st.integers(0, 20), st.integers(0, 20)).filter(lambda pair: len({*pair}) == 2)
    change: Any = st.tuples(
        st.sampled_from(steps),
        st.sampled_from((False,) * 30 + (True,)),
        st.one_of(*[st.tuples(periods, periods)] * 7, st.none()),
        sizes,
        st.sampled_from(_SECONDS),
    ).map(lambda drawn: Change(*drawn[:3], *drawn[3], drawn[4]))
    changes: st.SearchStrategy[list[Change]] = st.lists(change, min_size=1, max_size=60)
    return changes


def _events(memory: Memory, start_at: int, count_at: int) -> list[tuple[int, int, bool]]:
    first, count = memory.head[0, start_at], memory.head[0, count_at]
    return [
        (int(e.change), int(e.ms), bool(e.outdated)) for e in memory.events[first : first + count]
    ]


def _spec(periods_s: tuple[tuple[int, ...], tuple[int, ...]] | None) -> HPASpec:
    if periods_s is None:
        return HPASpec()
    up, down = (
        _rules(0, tuple(ScalingPolicy("Pods", 1, period) for period in direction))
        for direction in periods_s
    )
    return HPASpec(behavior=Behavior(up, down))


def _compare_events(changes: list[Change]) -> None:
    times = _times([c.step_ms for c in changes])
    fleet = _pack([_spec(c.periods_s) for c in changes], times, 0)
    memory = make_memory(fleet, recorded=False)
    head = memory.head[0]
    up, down = (HEAD_UP_START, HEAD_UP_COUNT), (HEAD_DOWN_START, HEAD_DOWN_COUNT)
    naive = {up: NaiveEvents(), down: NaiveEvents()}
    for k, (change, now_ms) in enumerate(zip(changes, times, strict=True)):
        if change.restart:
            forget_scale_events(head)
            naive = {up: NaiveEvents(), down: NaiveEvents()}
        before, after = change.before, change.after
        spec = fleet.specs[fleet.ticks.spec[k]]
        store_scale_event(head, memory.events, spec, fleet.policies, before, after, now_ms)
        if change.periods_s is not None:
            periods = change.periods_s[0 if after > before else 1]
            direction = up if after > before else down
            naive[direction].store(abs(after - before), now_ms, 1000 * max(periods, default=0))
        for places, events in naive.items():
            assert _events(memory, *places) == events.slots
            cutoff = now_ms - 1000 * change.asked_s
            first, count = int(head[places[0]]), int(head[places[1]])
            ours = replicas_changed_since(memory.events, first, count, cutoff)
            assert ours == events.changed_since(cutoff)


@_SETTINGS
@given(_changes(_STEP_MS))
def test_scale_events_are_the_naive_lists(changes: list[Change]) -> None:
    _compare_events(changes)


@_SETTINGS
@given(_changes(_STEP_MS + _BACK_MS))
def test_scale_events_while_the_clock_goes_back(changes: list[Change]) -> None:
    _compare_events(changes)
