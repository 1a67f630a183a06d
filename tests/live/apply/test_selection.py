"""HPAs that are acted on, and those that are left alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from hpabatch.cluster.connection.errors import Unreachable
from hpabatch.cluster.objects.types import HpaObject, ScaleKey, ScaleObject
from hpabatch.live.apply.guards import Selection, is_canary
from hpabatch.live.apply.journal import Fields
from hpabatch.live.passes.lanes import Lane
from hpabatch.model.objects.hpa import HPA, CrossVersionObjectReference, HPASpec
from tests.live.apply.fake_writes import Clock

WEB = ("shop", "web")
OFF = {"hpabatch/apply": "off"}


class Case:
    def __init__(self, canary_pct: int = 100, reads_target: bool = True) -> None:
        self.clock, self.lines, self.said = Clock(), list[Fields](), list[str]()
        self.annotation: str | None = "off"
        self.asked = 0
        self.fails = False
        self.selection = Selection(
            canary_pct, reads_target=reads_target, annotation=self.read, log=self.log,
            say=lambda event, text: self.said.append(text), clock=self.clock,
        )  # fmt: skip

    def log(self, lines: Iterable[Fields]) -> None:
        self.lines += lines

    def read(self, target: ScaleKey) -> str | None:
        self.asked += 1
        if self.fails:
            raise Unreachable("gone")
        return self.annotation

    def events(self) -> list[tuple[object, object]]:
        return [(line["event"], line["text"]) for line in self.lines]


def _lane(
    name: str = "web", scale: ScaleObject | None = None, annotations: dict[str, str] | None = None
) -> Lane:
    target = CrossVersionObjectReference("Deployment", name, "apps/v1")
    hpa = HPA(name=name, namespace="shop", uid=name, spec=HPASpec(target, 1, 10))
    hpa = replace(hpa, annotations=tuple((annotations or {}).items()))
    return Lane(("shop", name), HpaObject("shop", name, hpa), hpa.spec, scale=scale)


def _scale(**more: Any) -> ScaleObject:
    return ScaleObject(ScaleKey("apps", "Deployment", *WEB), 2, 2, "app=web", **more)


@pytest.mark.parametrize(
    ("lane", "reads_target", "why"),
    [(_lane(annotations=OFF), False, 'its annotation hpabatch/apply is "off"'),
     (_lane(annotations=OFF), True, 'its annotation hpabatch/apply is "off"'),
     (_lane(scale=_scale(version="1", apply="no")), True,
      'the target\'s annotation hpabatch/apply is "no"'),
     (_lane(scale=_scale(version="1", apply="no")), False, ""),
     (_lane(scale=_scale(version="1", apply="on")), True, "")],
)  # fmt: skip
def test_an_annotation_leaves_an_hpa_alone(lane: Lane, reads_target: bool, why: str) -> None:
    case = Case(reads_target=reads_target)
    for _ in range(3):
        case.selection.begin([lane], {})
        assert case.selection.is_acted_on(WEB) is (not why)
        assert case.selection.reasons.get(WEB, "") == why
    assert case.events() == ([("leaves", why)] if why else [])


def test_the_log_says_when_it_begins_changes_and_ends() -> None:
    case, lane = Case(), _lane()
    for barred in ({}, {WEB: "one"}, {WEB: "one"}, {WEB: "two"}, {}, {}):
        case.selection.begin([lane], barred)
        assert case.selection.is_acted_on(WEB) is (not barred)
    assert case.events() == [("leaves", "one"), ("leaves", "two"), ("resumes", "two")]
    assert {(line["hpa"], line["target"]) for line in case.lines} == {("web", "Deployment/web")}


def test_what_a_write_has_found_is_read_again_once_a_minute() -> None:
    """Of a kind that no watch covers, which has no version."""
    case, lane = Case(), _lane(scale=_scale())
    case.selection.begin([lane], {})
    assert (case.selection.is_acted_on(WEB), case.asked) == (True, 0)
    case.selection.note_off(ScaleKey("apps", "Deployment", *WEB))
    for _ in range(5):
        case.selection.begin([lane], {})
        assert not case.selection.is_acted_on(WEB)
        case.clock.sleep(15)
    assert case.asked == 1
    case.fails, case.annotation = True, None
    case.clock.sleep(60)
    case.selection.begin([lane], {})
    assert (case.selection.is_acted_on(WEB), case.asked) == (False, 2), "it cannot be read"
    case.fails = False
    case.clock.sleep(60)
    case.selection.begin([lane], {})
    assert (case.selection.is_acted_on(WEB), case.asked) == (True, 3)


def test_a_larger_canary_share_contains_a_smaller_one() -> None:
    keys = [("shop", f"web-{k}") for k in range(2000)]
    shares = {pct: {key for key in keys if is_canary(key, pct)} for pct in (1, 5, 30, 99, 100)}
    assert shares[1] < shares[5] < shares[30] < shares[99] < shares[100] == set(keys)
    assert 60 <= len(shares[5]) <= 140


def test_the_share_is_named_at_first_and_when_it_changes() -> None:
    case = Case(canary_pct=30)
    lanes = [_lane(f"w{k:03}") for k in range(200)]
    for _ in range(3):
        case.selection.begin(lanes, {})
    (line,), (said,) = case.lines, case.said
    share = sorted(f"shop/{lane.key[1]}" for lane in lanes if case.selection.is_acted_on(lane.key))
    assert (line["event"], line["hpas"]) == ("share", share)
    assert line["text"] == f"--canary 30: {len(share)} of 200 HPAs are acted on"
    assert said == f"{line['text']}: {', '.join(share[:20])}, and {len(share) - 20} more"
    gone = next(lane for lane in lanes if case.selection.is_acted_on(lane.key))
    case.selection.begin([lane for lane in lanes if lane is not gone], {})
    assert case.lines[-1]["hpas"] == share[1:]
