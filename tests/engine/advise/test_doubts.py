"""Tests of doubts about saturation that the model shows."""

from __future__ import annotations

from typing import Any

import pytest

from hpabatch.engine.advise.doubts import ceiling_doubts, contradictions
from hpabatch.engine.advise.objective import parse_goal

WEEK_MINUTES = 10_080


def hpa(**facts: Any) -> dict[str, Any]:
    return {"ceiling": "recorded", "censored_pct": 0.0} | facts


@pytest.mark.parametrize("ceiling", ["fitted", None])
@pytest.mark.parametrize(
    ("slos", "minimize"),
    [(["saturated_minutes<10/week"], "pod_hours"), (["rescales<9/day"], "unserved")],
)
def test_a_ceiling_that_nobody_knows(ceiling: str | None, slos: list[str], minimize: str) -> None:
    told = list(ceiling_doubts(hpa(ceiling=ceiling), parse_goal(slos, minimize)))
    assert len(told) == 1
    assert "record limits" in told[0]


@pytest.mark.parametrize("ceiling", ["recorded", "given"])
def test_a_known_ceiling(ceiling: str) -> None:
    goal = parse_goal(["saturated_minutes<10/week"], "unserved")
    assert not list(ceiling_doubts(hpa(ceiling=ceiling), goal))


def test_measures_that_do_not_hang_on_a_ceiling() -> None:
    goal = parse_goal(["under_minutes<10/week"], "pod_hours")
    assert not list(ceiling_doubts(hpa(ceiling="fitted"), goal))


@pytest.mark.parametrize(
    ("recorded", "modelled", "disagree"),
    [(0, 0, False), (9, 9.5, False), (50, 20, False), (9, 11, True), (11, 9, True), (10, 9, True)],
)
def test_recording_and_model_on_two_sides(recorded: float, modelled: float, disagree: bool) -> None:
    """Minutes a week, held against a limit of fewer than 10; the run took two weeks."""
    row = hpa(censored_pct=100.0 * recorded / WEEK_MINUTES)
    today = {"hours": 336.0, "saturated_minutes": 2.0 * modelled}
    told = list(contradictions(row, today, parse_goal(["saturated_minutes<10/week"])))
    assert bool(told) == disagree
    if told:
        assert f"the model {modelled:.3g} minutes a week" in told[0]


def test_what_is_not_known_contradicts_nothing() -> None:
    goal = parse_goal(["saturated_minutes<10/week"])
    unknown = {"hours": 168.0, "saturated_minutes": None}
    assert not list(contradictions(hpa(), None, goal))
    assert not list(contradictions(hpa(), unknown, goal))
    assert not list(contradictions(hpa(censored_pct=None), {**unknown}, goal))
    other = parse_goal(["under_minutes<10/week"])
    assert not list(contradictions(hpa(), {"hours": 1.0, "saturated_minutes": 60.0}, other))
