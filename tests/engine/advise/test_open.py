"""Tests of limits of saturation where no ceiling is known, and where more was recorded."""

from __future__ import annotations

import numpy as np
import pytest

from hpabatch.engine.advise.judge import MORE_THAN_TODAY, Judged, Judging, judge, standing
from hpabatch.engine.advise.objective import ObjectiveError, parse_goal
from hpabatch.engine.advise.request import JudgeRules
from hpabatch.engine.advise.unit import unit_blocks
from hpabatch.engine.columns.recorded import ABOVE_MINUTES
from tests.sweeps import SweepMaker, Values, weeks

GRID = [{"target": "70"}, {"target": "80"}]
SLO = ["saturated_minutes<10/week"]


def open_weeks(pods: float, *above: float, more: float = 0.0) -> Values:
    """Return four weeks above the assumed ceilings; `more` in the second."""
    minutes = {
        name: [value, value + more, value, value]
        for name, value in zip(ABOVE_MINUTES, above, strict=True)
    }
    return weeks([pods] * 4, saturated_minutes=[None] * 4, **minutes)


def judged(
    came_to: dict[int, Values], recorded: Values | None = None, rules: JudgeRules | None = None
) -> Judged:
    maker = SweepMaker(GRID).add("api", came_to, recorded=recorded, ceiling="open")
    result = maker.result()
    ((_, unit),) = unit_blocks(result)
    goal = parse_goal(SLO, "pod_hours", result.blocks)
    possible = np.ones(unit.settings.size, bool)
    found = judge(Judging(unit, goal, rules or JudgeRules(), possible, "week"))
    assert found is not None
    return found


def test_a_setting_must_hold_over_the_whole_range() -> None:
    """Today's peaks are good enough, whatever they are; any other is within the limit or near."""
    found = judged(
        {
            0: open_weeks(100, 4000, 900, 50, 0, 0),
            1: open_weeks(80, 7900, 1300, 50, 8, 0),
            2: open_weeks(60, 3900, 850, 40, 12, 0),  # at 125 % it would be saturated
        }
    )
    assert found.choice == 1
    assert found.trained.worst[0, 0].tolist() == [0, 8, 12]
    assert found.trained.mean[0, 0].tolist() == [0, 8, 12]
    assert found.resampled is not None
    assert found.resampled.better_share == 1.0


@pytest.mark.parametrize("level", range(5))
def test_far_more_than_todays_peaks_break_the_limit_at_any_level(level: int) -> None:
    today = open_weeks(100, 100, 100, 100, 100, 100)
    most = 100 * (1 + MORE_THAN_TODAY[level])
    near, far = ([100.0] * 5 for _ in range(2))
    near[level], far[level] = most, most + 2
    found = judged({0: today, 1: open_weeks(80, *near), 2: open_weeks(60, *far)})
    assert found.choice == 1
    assert found.trained.worst[0, 0] == pytest.approx([0, 0, most + 2])


def test_each_week_is_held_against_todays_of_that_week() -> None:
    today = open_weeks(100, 0, 0, 0, 50, 0, more=30)
    found = judged({0: today, 1: open_weeks(80, 0, 0, 0, 49, 0, more=32), 2: today})
    assert found.trained.worst[0, 0].tolist() == [0, 81, 0]
    assert judged({0: today, 1: open_weeks(80, 0, 0, 0, 50, 0), 2: today}).choice == 1


def test_what_the_model_lacks_of_the_recording_is_added_to_every_setting() -> None:
    came_to = {
        0: weeks([100] * 4, saturated_minutes=[1] * 4),
        1: weeks([80] * 4, saturated_minutes=[2] * 4),
        2: weeks([60] * 4, saturated_minutes=[9] * 4),
    }
    rules = JudgeRules(margin=0.0)
    assert judged(came_to, rules=rules).choice == 2
    known = {"saturated_minutes": [4.0, 1.0, 1.0, 1.0], "rescales": [0.0] * 4}
    found = judged(came_to, known, rules)
    assert found.choice == 1
    assert found.trained.worst[0, 0].tolist() == [4, 5, 12]
    # Where the model shows more than was recorded, the model counts.
    assert judged(came_to, {"saturated_minutes": [0.0] * 4}, rules).choice == 2


def test_the_worse_of_recording_and_model_is_that_of_the_whole_stretch() -> None:
    """They may miss each other by a day: 3 minutes a week are not 6 by both together."""
    by_model, by_recording = ([0.0, 3.0] * 14, [3.0, 0.0] * 14)
    came_to = {0: weeks([100] * 28, saturated_minutes=by_model)}
    maker = SweepMaker([], block="day").add(
        "api", came_to, recorded={"saturated_minutes": by_recording}
    )
    ((_, unit),) = unit_blocks(maker.result())
    goal = parse_goal(["saturated_minutes<13/week"])
    found = standing(unit, goal, slice(0, 28), "day")
    assert found.mean.item() == pytest.approx(10.5)
    assert found.worst.item() == pytest.approx(12)
    assert found.holds("both").all()


def test_a_limit_of_saturation_needs_some_ceiling_known_or_assumed() -> None:
    unknown = SweepMaker([]).add("api", {0: weeks([1, 1], saturated_minutes=[None] * 2)}).result()
    with pytest.raises(ObjectiveError, match="saturated_minutes is not known of any HPA"):
        parse_goal(SLO, "pod_hours", unknown.blocks)
    assumed = SweepMaker([]).add("api", {0: open_weeks(1, 1, 1, 1, 1, 1)}).result()
    assert parse_goal(SLO, "pod_hours", assumed.blocks).slos[0].measure == "saturated_minutes"
