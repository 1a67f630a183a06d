"""Judging: choices from training blocks only, checked on the last ones; small cases by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.engine.advise.judge import (
    Judged,
    Judging,
    front_of,
    judge,
    resample,
    split_of,
    standing,
)
from hpabatch.engine.advise.objective import Goal, parse_goal
from hpabatch.engine.advise.request import JudgeRules, RecommendRequest
from hpabatch.engine.advise.unit import UnitBlocks, unit_blocks
from hpabatch.engine.columns.recorded import ABOVE_MINUTES
from hpabatch.errors import HistoryError, UsageError
from tests.sweeps import SweepMaker, Values, weeks

GRID = [{"target": "70"}, {"target": "80"}]
SLO = ["saturated_minutes<10/week"]

OPEN: dict[str, list[float | None]] = {name: [0.0] * 6 for name in ABOVE_MINUTES}
"""What six blocks have where no ceiling is known."""


def one_unit(maker: SweepMaker) -> UnitBlocks:
    ((_, unit),) = unit_blocks(maker.result())
    return unit


def asked(unit: UnitBlocks, goal: Goal, rules: JudgeRules) -> Judging:
    return Judging(unit, goal, rules, np.ones(unit.settings.size, bool), "week")


def judged(
    came_to: dict[int, Values], rules: JudgeRules | None = None, slos: list[str] | None = None
) -> Judged:
    unit = one_unit(SweepMaker(GRID).add("api", came_to))
    goal = parse_goal(SLO if slos is None else slos, "pod_hours")
    found = judge(asked(unit, goal, rules or JudgeRules()))
    assert found is not None
    return found


def test_the_cheapest_that_holds_the_limit_is_chosen() -> None:
    found = judged(
        {
            0: weeks([100] * 4, saturated_minutes=[1, 2, 1, 3]),
            1: weeks([80] * 4, saturated_minutes=[2, 8, 1, 2]),
            2: weeks([60] * 4, saturated_minutes=[2, 12, 1, 2]),
        }
    )
    assert (found.split, found.choice) == (3, 1)
    assert found.trained.objective.tolist() == [300, 240, 180]
    assert found.judged.objective.tolist() == [100, 80, 60]
    assert found.trained.worst[0, 0].tolist() == [2, 8, 12]
    assert found.trained.mean[0, 0].tolist() == pytest.approx([4 / 3, 11 / 3, 5])


def test_the_worst_week_counts_unless_the_mean_is_asked_for() -> None:
    came_to = {
        0: weeks([100] * 4, saturated_minutes=[0] * 4),
        1: weeks([60] * 4, saturated_minutes=[0, 12, 0, 0]),
    }
    assert judged(came_to).choice == 0
    assert judged(came_to, JudgeRules(robust="worst")).choice == 0
    assert judged(came_to, JudgeRules(robust="mean")).choice == 1


def test_a_new_setting_keeps_the_margin_todays_need_not() -> None:
    came_to = {
        0: weeks([100] * 3, saturated_minutes=[9.5] * 3),
        1: weeks([60] * 3, saturated_minutes=[9.5] * 3),
    }
    assert judged(came_to, JudgeRules(margin=0.1)).choice == 0
    assert judged(came_to, JudgeRules(margin=0.0)).choice == 1


def test_a_fold_has_the_candidates_of_the_blocks_before_it() -> None:
    """A setting that leaves the recorded range later was none to choose then, or still was one."""
    minutes = 7 * 24 * 60
    came_to = {
        0: weeks([100] * 6, **OPEN),
        1: weeks([80] * 6, **OPEN, outside_minutes=[0, 0, minutes, minutes, minutes, 0]),
        2: weeks([90] * 6, **OPEN, outside_minutes=[minutes, minutes, minutes, 0, 0, 0]),
    }
    found = judged(came_to, JudgeRules(judged_blocks=1), [])
    assert found.choice == 0  # of five training blocks either setting leaves it in three
    assert [fold.choice for fold in found.folds] == [1, 1, 1, 1, 0]


def test_judged_blocks_do_not_change_the_choice() -> None:
    quiet = {
        0: weeks([100] * 4, saturated_minutes=[0] * 4),
        1: weeks([80] * 4, saturated_minutes=[0] * 4),
        2: weeks([90] * 4, saturated_minutes=[0] * 4),
    }
    burst = quiet | {1: weeks([80, 80, 80, 900], saturated_minutes=[0, 0, 0, 500])}
    assert judged(quiet).choice == judged(burst).choice == 1
    assert judged(burst).judged.holds("both").tolist() == [True, False, True]


def test_where_todays_breaks_the_limit_a_dearer_one_is_chosen() -> None:
    found = judged(
        {
            0: weeks([60] * 3, saturated_minutes=[50] * 3),
            1: weeks([80] * 3, saturated_minutes=[1] * 3),
        }
    )
    assert found.choice == 1
    assert found.resampled is not None
    assert found.resampled.better_share == 1.0
    assert found.resampled.low_pct == pytest.approx(-100 / 3)


def test_without_any_that_holds_the_closest_is_told() -> None:
    found = judged(
        {
            0: weeks([60] * 3, saturated_minutes=[50] * 3),
            1: weeks([80] * 3, saturated_minutes=[20] * 3),
            2: weeks([70] * 3, saturated_minutes=[30] * 3),
        }
    )
    assert (found.choice, found.closest, found.considered) == (None, 1, 1)


def test_equal_settings_are_todays_else_the_calmer_one() -> None:
    same = {0: weeks([100] * 3), 1: weeks([100] * 3)}
    assert judged(same, slos=[]).choice == 0
    calm = {
        0: weeks([100] * 3),
        1: weeks([80] * 3, rescales=[9] * 3),
        2: weeks([80.1] * 3, rescales=[2] * 3),
    }
    assert judged(calm, slos=[]).choice == 2
    assert judged(calm, JudgeRules(tie_pct=0), slos=[]).choice == 1


def test_a_change_must_be_worth_it() -> None:
    came_to = {0: weeks([100] * 3), 1: weeks([97] * 3)}
    assert judged(came_to, JudgeRules(least_saving_pct=2), slos=[]).choice == 1
    assert judged(came_to, JudgeRules(least_saving_pct=4), slos=[]).choice == 0


def test_what_is_not_known_does_not_hold() -> None:
    came_to = {
        0: weeks([100] * 3, unserved=[None] * 3),
        1: weeks([80] * 3, unserved=[1.0] * 3),
    }
    found = judged(came_to, slos=["unserved<2/week"])
    assert found.trained.holds("both").tolist() == [False, True]
    assert found.trained.unknown() == ("unserved",)


@pytest.mark.parametrize(
    ("blocks", "given", "first"),
    [
        (1, None, None),
        (2, None, 1),
        (4, None, 3),
        (5, None, 4),
        (6, None, 4),
        (13, None, 9),
        (6, 5, 1),
        (6, 6, None),
    ],
)
def test_the_last_third_is_judged(blocks: int, given: int | None, first: int | None) -> None:
    assert split_of(blocks, JudgeRules(judged_blocks=given)) == first


def test_a_limit_for_a_week_is_held_against_seven_days_at_a_time() -> None:
    minutes = [0.0] * 12
    minutes[2] = minutes[8] = 6.0
    maker = SweepMaker([], block="day").add("api", {0: weeks([24] * 12, saturated_minutes=minutes)})
    goal = parse_goal(SLO, "pod_hours")
    found = standing(one_unit(maker), goal, slice(None), "day")
    assert found.worst[0, 0].tolist() == [12.0]
    assert found.mean[0, 0].tolist() == [7.0]
    short = standing(one_unit(maker), goal, slice(0, 4), "day")
    assert short.worst[0, 0].tolist() == [6.0 / 4 * 7]


def test_a_short_block_counts_for_its_hours() -> None:
    values = {0: weeks([10, 10], saturated_minutes=[6, 6])}
    maker = SweepMaker([]).add("api", values, hours=[168, 84])
    found = standing(one_unit(maker), parse_goal(SLO), slice(None), "week")
    assert found.worst[0, 0].tolist() == [12.0]
    assert found.mean[0, 0].tolist() == [8.0]


def test_a_group_adds_up_objectives_and_the_worst_member_counts() -> None:
    maker = SweepMaker(GRID)
    maker.add("a", {0: weeks([100] * 3), 1: weeks([50] * 3), 2: weeks([90] * 3)}, unit="web")
    busy = [11.0, 0, 0]
    maker.add(
        "b",
        {0: weeks([10] * 3), 1: weeks([5] * 3, saturated_minutes=busy), 2: weeks([9] * 3)},
        unit="web",
    )
    unit = one_unit(maker)
    found = judge(asked(unit, parse_goal(SLO, "pod_hours"), JudgeRules()))
    assert found is not None
    assert found.choice == 2
    assert found.trained.objective.tolist() == [220, 110, 198]


def test_members_blocks_meet_by_their_time() -> None:
    maker = SweepMaker(GRID)
    maker.add("a", {0: weeks([1, 2, 3]), 1: weeks([1, 2, 3])}, unit="web")
    maker.add("b", {0: weeks([10, 20]), 1: weeks([10, 20]), 2: weeks([1, 1])}, unit="web", first=1)
    unit = one_unit(maker)
    assert unit.settings.tolist() == [0, 1]
    assert unit.total("pod_hours", slice(0, 1)).tolist() == [1, 1]
    assert unit.total("pod_hours", slice(1, 2)).tolist() == [12, 12]
    assert (unit.hours > 0).tolist() == [[True] * 3, [False, True, True]]


def test_folds_choose_before_and_judge_after() -> None:
    found = judged(
        {
            0: weeks([100] * 4, saturated_minutes=[0] * 4),
            1: weeks([80] * 4, saturated_minutes=[0, 20, 0, 0]),
            2: weeks([90, 90, 90, 110], saturated_minutes=[0] * 4),
        },
    )
    first, second, third = found.folds
    assert (first.block, first.choice, first.holds, first.better) == (1, 1, False, False)
    assert (second.choice, second.objective, second.today, second.better) == (2, 90, 100, True)
    assert (third.choice, third.objective, third.better) == (2, 110, False)


def test_resamples_say_how_sure_a_saving_is() -> None:
    swinging = {0: weeks([100] * 7), 1: weeks([20, 160, 20, 160, 20, 80, 80])}
    rules = JudgeRules(seed=3, resamples=500)
    found = judged(swinging, rules, slos=[]).resampled
    assert found is not None
    assert found.low_pct is not None
    assert found.high_pct is not None
    saved = 100 * (1 - (20 + 160 + 20 + 160 + 20) / 500)
    assert found.low_pct < 0 < saved < found.high_pct
    assert 0.5 < found.better_share < 1
    assert judged(swinging, rules, slos=[]).resampled == found
    assert judged(swinging, JudgeRules(seed=4, resamples=500), slos=[]).resampled != found


def test_a_draw_with_a_bad_week_breaks_the_limit() -> None:
    """A third of three weeks is drawn by 1 - (2/3)^3 of the draws."""
    came_to = {
        0: weeks([100] * 4, saturated_minutes=[0] * 4),
        1: weeks([80] * 4, saturated_minutes=[0, 9.5, 0, 0]),
    }
    rules = JudgeRules(margin=0, resamples=4000)
    sure = judged(came_to, rules).resampled
    assert sure is not None
    assert sure.better_share == 1.0
    unit = one_unit(SweepMaker(GRID).add("api", came_to))
    goal = parse_goal(["saturated_minutes<9/week"], "pod_hours")
    rules = JudgeRules(robust="worst", resamples=4000, interval=0.9, seed=1)
    drawn = resample(asked(unit, goal, rules), slice(0, 3), 1)
    assert drawn.better_share == pytest.approx((2 / 3) ** 3, abs=0.03)


def test_one_training_block_says_nothing_of_uncertainty() -> None:
    found = judged({0: weeks([100, 100]), 1: weeks([80, 80])}, slos=[])
    assert (found.choice, found.resampled) == (1, None)


def test_blocks_that_differ_by_setting_are_refused() -> None:
    maker = SweepMaker(GRID).add("api", {0: weeks([1, 2]), 1: weeks([1, 2])})
    maker.blocks.pop()
    with pytest.raises(HistoryError, match="not the same under every setting"):
        one_unit(maker)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"robust": "most"}, "robust: expected one of both, worst, mean, got 'most'"),
        ({"margin": 1.0}, "margin: expected a number of at most 0.99, got 1"),
        ({"margin": math.nan}, "margin: expected a finite number, got nan"),
        ({"judged_blocks": 0}, "judged_blocks: expected a whole number of at least 1, got 0"),
        ({"least_better": 1.1}, "least_better: expected a number of at most 1, got 1.1"),
        ({"least_saving_pct": -1.0}, "least_saving_pct: expected a number of at least 0, got -1"),
        ({"resamples": 0}, "resamples: expected a whole number of at least 1, got 0"),
        ({"recommender": "wise"}, "recommender: expected one of judged, random, got 'wise'"),
    ],
)
def test_rules_that_make_no_sense_are_refused(given: dict[str, object], told: str) -> None:
    with pytest.raises(UsageError) as error:
        RecommendRequest.of(given)
    assert told in str(error.value)


@given(
    st.lists(
        st.lists(
            st.one_of(st.just(math.nan), st.integers(0, 5).map(float)), min_size=3, max_size=3
        ),
        min_size=1,
        max_size=12,
    )
)
def test_nothing_beats_the_front(rows: list[list[float]]) -> None:
    points = np.array(rows)
    front = front_of(points)
    known = ~np.isnan(points).any(axis=1)
    assert not front[~known].any()
    for i in np.flatnonzero(known):
        beaten = any(
            (points[j] <= points[i]).all() and (points[j] < points[i]).any()
            for j in np.flatnonzero(known)
        )
        assert front[i] == (not beaten)
