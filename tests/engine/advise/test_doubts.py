"""Tests of doubts about saturation that the model shows."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from hpabatch.engine.advise.doubts import (
    RecommendOptions,
    ceiling_doubts,
    contradictions,
    doubts,
    lens_doubts,
    prospects,
    unit_doubts,
)
from hpabatch.engine.advise.objective import parse_goal
from hpabatch.engine.advise.run import recommend
from hpabatch.engine.advise.unit import UnitBlocks, key_of, unit_blocks
from hpabatch.engine.columns.recorded import ABOVE_MINUTES
from hpabatch.model.objects.decode import hpa_from_json
from tests.sweeps import SPEC, SweepMaker, put, weeks


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


@pytest.mark.parametrize("ceiling", ["recorded", "given"])
def test_a_known_ceiling(ceiling: str) -> None:
    goal = parse_goal(["saturated_minutes<10/week"], "unserved")
    assert not list(ceiling_doubts(hpa(ceiling=ceiling), goal))


def test_measures_that_do_not_hang_on_a_ceiling() -> None:
    goal = parse_goal(["under_minutes<10/week", "saturated_minutes<10/week"], "pod_hours")
    assert not list(ceiling_doubts(hpa(ceiling="open"), goal))


@pytest.mark.parametrize(("ceiling", "assumed"), [("open", True), ("given", False)])
def test_a_ceiling_that_is_assumed_lowers_the_confidence(ceiling: str, assumed: bool) -> None:
    maker = SweepMaker([]).add("api", {0: weeks([100, 100])}, ceiling=ceiling)
    (row,) = maker.result().hpas.iter_rows(named=True)
    options = RecommendOptions(parse_goal(["saturated_minutes<10/week"], "pod_hours"))
    told = [
        doubt.most for doubt in doubts(row, options, scored=True) if doubt.why.startswith("ceiling")
    ]
    assert told == (["medium"] if assumed else [])


def unit_of(modelled: float | None, recorded: float | None) -> UnitBlocks:
    """Return two weeks of an HPA, with its saturated minutes of each."""
    today = weeks([100, 100], saturated_minutes=[modelled, modelled])
    told = {"saturated_minutes": [recorded, recorded]}
    maker = SweepMaker([]).add("api", {0: today}, recorded=told)
    ((_, unit),) = unit_blocks(maker.result())
    return unit


@pytest.mark.parametrize(
    ("recorded", "modelled", "disagree"),
    [(0, 0, False), (9, 9.5, False), (50, 20, False), (9, 11, True), (11, 9, True), (10, 9, True)],
)
def test_recording_and_model_on_two_sides(recorded: float, modelled: float, disagree: bool) -> None:
    """Minutes a week, held against a limit of fewer than 10."""
    unit = unit_of(modelled, recorded)
    told = [d.why for d in contradictions(unit, parse_goal(["saturated_minutes<10/week"]))]
    assert bool(told) == disagree
    if told:
        assert f"modelled {modelled:.3g}; the worse counts" in told[0]
        assert f"recorded {recorded:.3g}, " in told[0]


def test_what_is_not_known_contradicts_nothing() -> None:
    goal = parse_goal(["saturated_minutes<10/week"])
    assert not list(contradictions(unit_of(None, 50), goal))
    assert not list(contradictions(unit_of(50, None), goal))
    assert not list(contradictions(unit_of(50, 0), parse_goal(["under_minutes<10/week"])))


@pytest.mark.parametrize(
    ("ceiling", "minutes", "lifts", "most"),
    [
        ("open", 300, False, ["low"]),
        ("open", 300, True, []),
        ("open", 90, False, []),  # less than 1 % of a week
        ("recorded", 300, False, []),
    ],
)
def test_who_stood_at_max_without_a_known_ceiling_may_need_more(
    ceiling: str, minutes: float, lifts: bool, most: list[str]
) -> None:
    above = {name: [0.0, 0.0] for name in ABOVE_MINUTES} if ceiling == "open" else {}
    today = weeks([100, 100], at_max_minutes=[minutes] * 2, **above)
    result = SweepMaker([]).add("api", {0: today}, ceiling=ceiling).result()
    ((_, unit),) = unit_blocks(result)
    rows = {key_of(row): row for row in result.hpas.iter_rows(named=True)}
    today_specs = dict.fromkeys(unit.members, hpa_from_json(json.dumps(SPEC))[0].spec)
    options = RecommendOptions(parse_goal(["saturated_minutes<10/week"], "pod_hours"))
    told = unit_doubts(unit, rows, today_specs, result.parameters, options, lifts=lifts)
    assert [doubt.most for doubt in told if "asked for more" in doubt.why] == most


def test_a_lens_and_an_untold_scale_are_doubts_of_the_hpas_that_read_their_signal() -> None:
    ((_, unit),) = unit_blocks(SweepMaker([]).add("api", {0: weeks([100, 100])}).result())
    spec = hpa_from_json(json.dumps(SPEC))[0].spec
    today = dict.fromkeys(unit.members, spec)
    lag = {"signal": "resource/cpu", "cluster": "east", "lag_ms": 30_000}
    ratio = {"signal": "resource/cpu", "cluster": None, "scale": 1.2}
    (seen,) = lens_doubts(unit, today, {"lenses": [lag], "lens_ratios": []})
    assert seen.detail == "east: resource/cpu lag 30s"
    (told,) = lens_doubts(unit, today, {"lenses": [], "lens_ratios": [ratio]})
    assert "relative to today's" in told.why
    assert not list(lens_doubts(unit, today, {"lenses": [{**lag, "cluster": "west"}]}))
    assert not list(lens_doubts(unit, today, {"lenses": [{**lag, "signal": "pods/depth"}]}))
    assert not list(lens_doubts(unit, today, {}))
    others = [lag, {**lag, "cluster": "west"}, {**lag, "signal": "pods/depth"}]
    (seen,) = lens_doubts(unit, today, {"lenses": others, "lens_ratios": []})
    assert seen.detail == "east: resource/cpu lag 30s"


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
    lag = {"signal": "resource/cpu", "cluster": "east", "lag_ms": 30_000}
    ratio = {"signal": "resource/cpu", "cluster": None, "scale": 1.2}
    told = {**result.parameters, "lenses": [lag], "lens_ratios": [ratio]}
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
    maker = SweepMaker([]).add("api", {0: weeks([100, 100, 100])}, controller_answer=None)
    result = maker.result()
    ((_, unit),) = unit_blocks(result)
    (row,) = result.hpas.to_dicts()
    specs = dict.fromkeys(unit.members, hpa_from_json(json.dumps(SPEC))[0].spec)
    (doubt,) = unit_doubts(
        unit,
        dict.fromkeys(unit.members, row),
        specs,
        {"request": {"fidelity": asked}},
        RecommendOptions(parse_goal(["under_minutes<10/week"], "pod_hours")),
    )
    assert doubt.most == "low"
    assert doubt.why.startswith(why)
    assert doubt.remedy.startswith(remedy)
