"""Judging against a twin in plain Python: standing, choice, what came closest, and folds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpabatch.engine.advise.judge import (
    MORE_THAN_TODAY,
    Judged,
    Judging,
    judge,
    resample,
    split_of,
)
from hpabatch.engine.advise.objective import Goal, ObjectiveError, Slo, parse_goal
from hpabatch.engine.advise.request import JudgeRules, RecommendRequest
from hpabatch.engine.advise.unit import UnitBlocks, unit_blocks
from hpabatch.engine.columns.recorded import ABOVE_MINUTES
from hpabatch.errors import HistoryError, UsageError
from tests.effort import effort
from tests.sweeps import START, SweepMaker, Values, weeks

GRID = [{"target": "70"}, {"target": "80"}]
SLO = ["saturated_minutes<10/week"]


# ---- the twin ------------------------------------------------------------------------------------


@dataclass
class Twin:
    """A unit's judging again, number by number; `width` blocks are a week."""

    unit: UnitBlocks
    goal: Goal
    rules: JudgeRules
    width: int

    def sum_of(self, values: Any, blocks: range) -> float:
        return float(sum(values[b] for b in blocks))

    def rate(self, measure: str, m: int, s: int, blocks: range, slo: Slo, whole: range) -> float:
        """Return a rate, with what was recorded of today's setting beyond the model in it.

        Where the model says half of what was recorded of the `whole`, that shrinks as the modelled
        time does. Minutes at a maxReplicas that the setting lifts shrink as their own block does.
        """
        hours = self.sum_of(self.unit.hours[m], blocks)
        if not hours:
            return 0.0
        values = self.unit.values[measure][m]
        found = self.sum_of(values[s], blocks)
        if measure in self.unit.recorded:
            seen = self.unit.recorded[measure][m]
            known = [b for b in whole if not math.isnan(seen[b])]
            today, own = (sum(values[k][b] for b in known) for k in (0, s))
            stays = 1.0
            if today > 0 and today >= sum(seen[b] for b in known) / 2:
                stays = min(own / today, 1)
            beyond = 0.0
            for b in (b for b in blocks if b in known):
                more, at_max = float(np.nan_to_num(seen[b] - values[0][b])), 0.0
                if self.unit.lifts is not None and self.unit.lifts[m, s]:
                    at_max = min(max(more, 0), self.unit.values["at_max_minutes"][m][0][b])
                left = min(values[s][b] / values[0][b], 1) if values[0][b] > 0 else 0
                beyond += (more - at_max) * stays + at_max * min(left, stays)
            found += max(beyond, 0)
        return found / hours * slo.unit_hours

    def value(self, slo: Slo, m: int, s: int, blocks: range, whole: range) -> float:
        """Return what must keep to a limit over a stretch of the whole."""
        found = self.rate(slo.measure, m, s, blocks, slo, whole)
        if slo.measure != "saturated_minutes" or not self.unit.is_open[m]:
            return found
        most = 0.0 if math.isnan(found) else found
        for name, more in zip(ABOVE_MINUTES, MORE_THAN_TODAY, strict=True):
            above, today = (self.rate(name, m, k, blocks, slo, whole) for k in (s, 0))
            if not above <= today * (1 + more):
                most = max(most, above)
        return most

    def values(self, s: int, blocks: range) -> Iterator[tuple[Slo, float]]:
        """Yield all values of a setting, over all blocks and in each stretch."""
        for slo in self.goal.slos:
            width = min(self.width if slo.unit_hours == 168 else 1, len(blocks))
            parts = [blocks[k : k + width] for k in range(len(blocks) - width + 1)]
            for m in range(len(self.unit.members)):
                for part in (blocks, *parts):
                    yield slo, self.value(slo, m, s, part, blocks)

    def holds(self, s: int, blocks: range, margin: float = 0.0) -> bool:
        return all(value < slo.limit * (1 - margin) for slo, value in self.values(s, blocks))

    def pressure(self, s: int, blocks: range) -> float:
        shares = [
            math.inf if math.isnan(value) else value / slo.limit
            for slo, value in self.values(s, blocks)
        ]
        return max(shares, default=0.0)

    def objective(self, s: int, blocks: range, measure: str = "pod_hours") -> float:
        return sum(self.sum_of(theirs[s], blocks) for theirs in self.unit.values[measure])

    def allowed(self, blocks: range) -> list[int]:
        """Return the settings that stay in the recorded usage for most of every member's time."""
        found = [0]
        for s in range(1, self.unit.settings.size):
            shares = [
                self.sum_of(self.unit.values["outside_minutes"][m][s], blocks)
                / max(60 * self.sum_of(self.unit.hours[m], blocks), 1e-9)
                for m in range(len(self.unit.members))
            ]
            if max(shares) <= (0.5 if self.unit.is_open.any() else 1.0):
                found.append(s)
        return found

    def choice(self, blocks: range) -> int | None:
        today_holds, today = self.holds(0, blocks), self.objective(0, blocks)
        good = {
            s: self.objective(s, blocks)
            for s in self.allowed(blocks)
            if (today_holds if s == 0 else self.holds(s, blocks, self.rules.margin))
        }
        if not good:
            return None
        best = min(good.values())
        near = [s for s, value in good.items() if value <= best * (1 + self.rules.tie_pct / 100)]
        if today_holds and 0 in near:
            return 0
        if today_holds:
            least = self.rules.least_saving_pct
            near = [s for s in near if 100 * (1 - good[s] / today) >= least]
        moves = {s: self.objective(s, blocks, "rescales") for s in near}
        key = lambda s: (self.pressure(s, blocks), moves[s], good[s], s)  # noqa: E731
        return min(near, key=key, default=0)

    def closest(self, blocks: range) -> int:
        return min(
            self.allowed(blocks),
            key=lambda s: (self.pressure(s, blocks), self.objective(s, blocks), s),
        )


def random_unit(rng: np.random.Generator) -> UnitBlocks:
    """Return blocks of few different values, so that settings tie and limits are met exactly."""
    members, count, blocks = (int(rng.integers(1, n)) for n in (3, 5, 8))
    shape = (members, count, blocks)

    def some(most: int, unknown: float = 0.0) -> Any:
        values = rng.integers(0, most, shape).astype(float)
        return np.where(rng.random((members, count, 1)) < unknown, np.nan, values)

    hours = rng.choice([168.0, 168.0, 84.0, 0.0], (members, blocks))
    hours[:, 0] = 168.0
    values = {
        "pod_hours": 100 - 4 * some(5),
        "saturated_minutes": some(13, 0.1),
        "rescales": some(4),
        "outside_minutes": some(4) * 3_000,
        "at_max_minutes": some(7),
    }
    if rng.random() < 0.5:
        is_open = rng.random(members) < 0.7
        for name in ABOVE_MINUTES:
            values[name] = np.where(is_open[:, None, None], some(13), np.nan)
    values = {name: np.where(hours[:, None] > 0, v, 0.0) for name, v in values.items()}
    recorded = rng.integers(0, 13, (members, blocks)).astype(float)
    recorded[rng.random((members, blocks)) < 0.3] = np.nan
    return UnitBlocks(
        name="g",
        members=tuple(("c", "shop", f"h{m}") for m in range(members)),
        settings=np.arange(count),
        starts=tuple(START for _ in range(blocks)),
        hours=hours,
        values=values,
        recorded={"saturated_minutes": recorded} if rng.random() < 0.5 else {},
        lifts=rng.random((members, count)) < 0.5 if rng.random() < 0.5 else None,
    )


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=effort(150))
def test_every_choice_is_that_of_the_twin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    unit, block = random_unit(rng), str(rng.choice(["week", "day"]))
    slos = ["saturated_minutes<9/week", "rescales<3/day"][: rng.integers(0, 3)]
    goal = parse_goal(slos, "pod_hours")
    rules = JudgeRules(
        margin=float(rng.choice([0.0, 0.1])),
        least_saving_pct=float(rng.choice([0.0, 5.0])),
        resamples=1,
    )
    twin = Twin(unit, goal, rules, 7 if block == "day" and goal.slos else 1)
    possible = np.ones(unit.settings.size, bool)
    found = judge(Judging(unit, goal, rules, possible, block))
    split = split_of(unit.blocks, rules)
    if found is None or split is None:
        assert (found, split) == (None, None)
        return
    training = range(split)
    for stands, blocks in ((found.trained, training), (found.judged, range(split, unit.blocks))):
        for s in range(unit.settings.size):
            assert stands.objective[s] == pytest.approx(twin.objective(s, blocks))
            assert stands.pressure("both")[s] == pytest.approx(twin.pressure(s, blocks))
            assert stands.holds("both")[s] == twin.holds(s, blocks)
    assert (found.choice, found.closest) == (twin.choice(training), twin.closest(training))
    for fold in found.folds:
        choice, there = twin.choice(range(fold.block)), range(fold.block, fold.block + 1)
        assert (fold.choice, fold.today_holds) == (choice, twin.holds(0, there))
        if choice is not None:
            assert fold.holds == twin.holds(choice, there)
            assert fold.objective == pytest.approx(twin.objective(choice, there))
        if choice:
            ranks = [(not twin.holds(s, there), twin.objective(s, there)) for s in (choice, 0)]
            mends = not twin.holds(0, range(fold.block))
            assert fold.better == (fold.holds and (mends or ranks[0] < ranks[1]))


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=effort(150))
def test_no_setting_is_charged_more_than_was_recorded_of_today_in_its_modelled_share(
    seed: int,
) -> None:
    """Where the model knows the cause, a setting with a share of today's time gets that share."""
    rng = np.random.default_rng(seed)
    unit = replace(random_unit(rng), lifts=None)
    shape = unit.hours.shape
    share = rng.integers(0, 5) / 4
    today = rng.integers(1, 13, shape).astype(float)
    recorded = np.where(rng.random(shape) < 0.3, np.nan, np.rint(today * rng.uniform(0, 2, shape)))
    values = np.stack([today, today * share], axis=1)
    unit = replace(
        unit, values={"saturated_minutes": values}, recorded={"saturated_minutes": recorded}
    )
    found = unit.beyond_model("saturated_minutes", slice(None), slice(None)) + values
    known = np.isfinite(recorded)
    seen, modelled = np.nan_to_num(recorded), np.where(known, today, 0.0)
    assert np.allclose(found[:, 0], np.where(known, seen, today))
    for m in range(shape[0]):
        knows = modelled[m].sum() >= seen[m].sum() / 2 and modelled[m].sum() > 0
        lacks = np.where(known[m], seen[m] - today[m], 0.0)
        assert np.allclose(found[m, 1], today[m] * share + lacks * (share if knows else 1.0))


# ---- what the twin does not say ------------------------------------------------------------------


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


def test_only_the_stretches_that_are_asked_for_count() -> None:
    came_to = {
        0: weeks([100] * 4, saturated_minutes=[0] * 4),
        1: weeks([60] * 4, saturated_minutes=[0, 12, 0, 0]),
    }
    robust = ("both", "worst", "mean")
    assert [judged(came_to, JudgeRules(robust=r)).choice for r in robust] == [0, 0, 1]


def test_a_limit_of_saturation_needs_some_ceiling_known_or_assumed() -> None:
    unknown = SweepMaker([]).add("api", {0: weeks([1, 1], saturated_minutes=[None] * 2)}).result()
    with pytest.raises(ObjectiveError, match="saturated_minutes is not known of any HPA"):
        parse_goal(SLO, "pod_hours", unknown.blocks)
    above: Values = {name: [1.0] * 2 for name in ABOVE_MINUTES}
    today = weeks([1, 1], saturated_minutes=[None] * 2, **above)
    assumed = SweepMaker([]).add("api", {0: today}).result()
    assert parse_goal(SLO, "pod_hours", assumed.blocks).slos[0].measure == "saturated_minutes"


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
    ],
)
def test_rules_that_make_no_sense_are_refused(given: dict[str, object], told: str) -> None:
    with pytest.raises(UsageError) as error:
        RecommendRequest.of(given)
    assert told in str(error.value)
