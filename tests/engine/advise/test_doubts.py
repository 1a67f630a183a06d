"""Tests of doubts about saturation that the model shows."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from hpabatch.engine.advise.doubts import ceiling_doubts, prospects, unit_doubts
from hpabatch.engine.advise.objective import RecommendOptions, parse_goal
from hpabatch.engine.advise.rules import Doubt
from hpabatch.engine.advise.run import recommend
from hpabatch.engine.advise.unit import key_of, unit_blocks
from hpabatch.engine.sweep.result import SweepResult
from hpabatch.model.objects.decode import hpa_from_json
from tests.sweeps import SPEC, SweepMaker, Values, put, weeks

SLO = ("saturated_minutes<10/week",)


def hpa(**facts: Any) -> dict[str, Any]:
    return {"ceiling": "recorded"} | facts


@pytest.mark.parametrize(
    ("ceiling", "slos", "minimize"),
    [
        (None, ["saturated_minutes<10/week"], "pod_hours"),
        ("open", ["rescales<9/day"], "unserved"),
        ("open", ["saturated_minutes<10/week"], "saturated_minutes"),
        ("open", ["waiting<10/week"], "pod_hours"),
    ],
)
def test_a_ceiling_that_nobody_knows(ceiling: str | None, slos: list[str], minimize: str) -> None:
    told = list(ceiling_doubts(hpa(ceiling=ceiling), parse_goal(slos, minimize)))
    assert len(told) == 1
    assert ("record limits" if ceiling else "state in a plant file what they share") in told[0]


def doubts_of(result: SweepResult, *slos: str, lifts: bool = False, **told: Any) -> list[Doubt]:
    """Return the doubts of a sweep's one unit; `told` are further parameters of the sweep."""
    ((_, unit),) = unit_blocks(result)
    rows = {key_of(row): row for row in result.hpas.iter_rows(named=True)}
    today = dict.fromkeys(unit.members, hpa_from_json(json.dumps(SPEC))[0].spec)
    options = RecommendOptions(parse_goal(slos or SLO, "pod_hours"))
    return unit_doubts(unit, rows, today, result.parameters | told, options, lifts=lifts)


def two_weeks(ceiling: str = "recorded", recorded: Values | None = None, **measures: Any) -> Any:
    values = {name: [value, value] for name, value in measures.items()}
    maker = SweepMaker([]).add(
        "api", {0: weeks([100, 100], **values)}, ceiling=ceiling, recorded=recorded
    )
    return maker.result()


@pytest.mark.parametrize(
    ("slo", "recorded", "modelled", "disagree"),
    [
        (SLO[0], 0, 0, False),
        (SLO[0], 9, 9.5, False),
        (SLO[0], 50, 20, False),
        (SLO[0], 9, 11, True),
        (SLO[0], 11, 9, True),
        (SLO[0], 10, 9, True),
        (SLO[0], 50, None, False),
        (SLO[0], None, 50, False),
        ("under_minutes<10/week", 0, 50, False),
    ],
)
def test_recording_and_model_on_two_sides(
    slo: str, recorded: float | None, modelled: float | None, disagree: bool
) -> None:
    """Minutes a week, held against a limit of fewer than 10; what is not known is on no side."""
    known = {"saturated_minutes": [recorded, recorded]}
    told = [d.why for d in doubts_of(two_weeks(recorded=known, saturated_minutes=modelled), slo)]
    words = f"model: {slo} today: recorded {recorded}, modelled {modelled}; the worse counts"
    assert (words in told) == disagree
    assert any("the worse counts" in why for why in told) == disagree


LAG = {"signal": "resource/cpu", "cluster": "east", "lag_ms": 30_000}
RATIO = {"signal": "resource/cpu", "cluster": None, "scale": 1.2}
OTHERS = [{**LAG, "cluster": "west"}, {**LAG, "signal": "pods/depth"}]


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ({"lenses": [LAG, *OTHERS]}, [("medium", "east: resource/cpu lag 30s")]),
        ({"lens_ratios": [RATIO]}, [("low", "resource/cpu scale 1.2")]),
        ({"lenses": OTHERS}, []),
        ({}, []),
    ],
)
def test_lenses_are_doubts_of_the_hpas_that_read_their_signal(
    told: dict[str, Any], found: list[tuple[str, str]]
) -> None:
    doubts = doubts_of(two_weeks(), "under_minutes<10/week", **told)
    assert [(d.most, d.detail) for d in doubts if "resource/cpu" in d.detail] == found


CONTAINER = {
    "type": "ContainerResource",
    "containerResource": {
        "name": "cpu",
        "container": "app",
        "target": {"type": "Utilization", "averageUtilization": 60},
    },
}


@pytest.mark.parametrize("metrics", [[CONTAINER], []])
def test_a_lens_of_cpu_is_one_of_containers_and_of_the_default_metric(metrics: list[Any]) -> None:
    maker = SweepMaker([]).add(
        "api", {0: weeks([100, 100, 100])}, spec={**SPEC, "metrics": metrics}
    )
    result = maker.result()
    told = {**result.parameters, "lenses": [LAG], "lens_ratios": [RATIO]}
    asked = RecommendOptions(parse_goal(["under_minutes<10/week"], "pod_hours"))
    ((item,), plain) = (
        recommend(replace(result, parameters=known), asked, put).items
        for known in (told, result.parameters)
    )
    assert any("resource/cpu lag 30s" in doubt.detail for doubt in item.doubts)
    assert any("resource/cpu scale 1.2" in doubt.detail for doubt in item.doubts)
    assert item.notes[-1].startswith("relative to today's target, ")
    assert ": resource/cpu scale 1.2, or " in item.notes[-1]
    assert not any("resource/cpu" in doubt.long for doubt in plain[0].doubts)
    assert list(prospects(replace(result, parameters=told), asked).values()) == ["low"]


@pytest.mark.parametrize(
    ("asked", "why", "remedy"),
    [
        (False, "fidelity was not measured", "a sweep without --no-fidelity"),
        (True, "the recording gives no fidelity score", "a history with ticks and samples"),
    ],
)
def test_a_score_that_was_not_asked_for_and_one_that_is_not_there(
    asked: bool, why: str, remedy: str
) -> None:
    result = SweepMaker([]).add("api", {0: weeks([100] * 3)}, controller_answer=None).result()
    (doubt,) = doubts_of(result, "under_minutes<10/week", request={"fidelity": asked})
    assert doubt.most == "low"
    assert doubt.why.startswith(why)
    assert doubt.remedy.startswith(remedy)
