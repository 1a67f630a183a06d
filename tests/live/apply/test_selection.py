"""HPAs that are acted on, and those that are left alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from hpabatch.cluster.objects.types import HpaObject, ScaleKey, ScaleObject
from hpabatch.live.apply.guards import Selection
from hpabatch.live.apply.journal import Fields
from hpabatch.live.passes.lanes import Lane
from hpabatch.model.objects.hpa import HPA, CrossVersionObjectReference, HPASpec
from tests.live.apply.fake_writes import Clock

WEB = ("shop", "web")
OFF = {"hpabatch/apply": "off"}


class Case:
    def __init__(self, reads_target: bool = True) -> None:
        self.clock, self.lines = Clock(), list[Fields]()
        self.selection = Selection(reads_target=reads_target, log=self.log, clock=self.clock)

    def log(self, lines: Iterable[Fields]) -> None:
        self.lines += lines

    def why(self, lane: Lane, barred: str = "") -> str:
        """Begin a pass; return why the HPA is left alone in it."""
        self.selection.begin([lane], {WEB: barred} if barred else {})
        return self.selection.reasons.get(WEB, "")

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
    assert [case.why(lane) for _ in range(3)] == [why] * 3
    assert case.events() == ([("leaves", why)] if why else [])


def test_the_log_says_when_it_begins_changes_and_ends() -> None:
    case, lane = Case(), _lane()
    for barred in ("", "one", "one", "two", "", ""):
        assert case.why(lane, barred) == barred
    assert case.events() == [("leaves", "one"), ("leaves", "two"), ("resumes", "two")]
    assert {(line["hpa"], line["target"]) for line in case.lines} == {("web", "Deployment/web")}


def test_what_a_write_has_found_holds_for_five_minutes() -> None:
    """Of a kind that no watch covers, which has no version."""
    case, lane = Case(), _lane(scale=_scale())
    for _ in range(2):
        assert case.why(lane) == ""
        case.selection.note_off(ScaleKey("apps", "Deployment", *WEB))
        assert case.why(lane) == 'the target\'s annotation hpabatch/apply is "off"'
        case.clock.sleep(299)
        assert case.why(lane)
        case.clock.sleep(1)
