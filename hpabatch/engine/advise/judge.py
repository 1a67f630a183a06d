"""Judging of settings on blocks of time that they were not chosen on.

The choice is made on the first blocks of a unit only (training) and judged on the last ones. A
rolling walk-forward repeats that at every block. Today's setting is always among the candidates.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpabatch.engine.advise.objective import Goal, Slo
from hpabatch.engine.advise.request import JudgeRules
from hpabatch.engine.advise.standing import (
    Standing,
    beats,
    saving_pct,
    slo_rates,
    standing,
    stretch_rates,
)
from hpabatch.engine.advise.unit import Array, Mask, UnitBlocks
from hpabatch.kernels.pareto import mark_front

TODAY = 0
"""Place of today's setting among a unit's settings."""


@dataclass(frozen=True, slots=True)
class Fold:
    """A choice on all blocks before `block`, judged on that one.

    Objectives are those of the block; `choice` None: no setting held the SLO before it.
    """

    block: int
    choice: int | None
    objective: float | None
    today: float
    holds: bool | None
    today_holds: bool
    better: bool | None


@dataclass(frozen=True, slots=True)
class Resampled:
    """Saving of a choice against today's setting on resampled training blocks.

    `low_pct` and `high_pct` are the ends of the saving's interval, None where it is not known;
    `better_share` is the share of resamples in which the choice holds the SLO and today's setting
    does not, or both do and it has the lower objective.
    """

    resamples: int
    low_pct: float | None
    high_pct: float | None
    better_share: float


@dataclass(frozen=True, slots=True)
class Judged:
    """A unit's choice, judged; places are those in `unit.settings`.

    `choice` None: no allowed setting holds the SLO on the training blocks; `closest` is then the
    one that breaks it least; `allowed` (S,) are the candidates, `possible` (S,)
    also those that leave the recorded usage. `trained` and `judged` are how all
    settings stand on either part.
    `resampled` None: nothing is changed, or one training block has nothing to draw from.
    """

    unit: UnitBlocks
    split: int
    trained: Standing
    judged: Standing
    allowed: Mask
    possible: Mask
    choice: int | None
    closest: int
    resampled: Resampled | None
    folds: tuple[Fold, ...]

    @property
    def considered(self) -> int:
        """Return the choice, or what came closest to one."""
        return self.closest if self.choice is None else self.choice


def split_of(blocks: int, rules: JudgeRules) -> int | None:
    """Return the first judged block; None: there is none before it to choose on."""
    last = max(1, blocks // 3) if rules.judged_blocks is None else rules.judged_blocks
    return blocks - last if blocks > last else None


@dataclass(frozen=True, slots=True)
class Judging:
    """A unit to be judged, and what is asked of it.

    `possible` (S,) may leave settings out for all blocks; `block_unit` is "week" or "day".
    """

    unit: UnitBlocks
    goal: Goal
    rules: JudgeRules
    possible: Mask
    block_unit: str

    def standing(self, blocks: slice) -> Standing:
        """Return how the unit's settings stand on some blocks."""
        return standing(self.unit, self.goal, blocks, self.block_unit)

    def inside(self, blocks: slice) -> Mask:
        """Return (S,) the possible settings that stay within the recorded usage on some blocks."""
        outside = self.unit.outside_share(blocks)
        allowed: Mask = self.possible & (outside <= self.unit.most_outside)
        return allowed

    def choose(self, trained: Standing, blocks: slice) -> int | None:
        """Return the choice on some blocks; see the function of that name."""
        return choose(self.unit, trained, self.rules, self.inside(blocks), blocks)


def judge(asked: Judging, pick: Callable[[Mask], int] | None = None) -> Judged | None:
    """Choose among the possible settings of a unit, and judge; None: it has too few blocks.

    Settings that are outside of the recorded usage per pod on the blocks that a choice is made on
    are no candidates for it; today's is one in any case. `pick` chooses among the candidates
    instead.
    """
    split = split_of(asked.unit.blocks, asked.rules)
    if split is None:
        return None
    training = slice(0, split)
    trained, judged = asked.standing(training), asked.standing(slice(split, None))
    allowed = asked.inside(training)
    choice = pick(allowed) if pick is not None else asked.choose(trained, training)
    found = None
    if choice is not None and choice != TODAY and split > 1:
        found = resample(asked, training, choice)
    return Judged(
        unit=asked.unit,
        split=split,
        trained=trained,
        judged=judged,
        allowed=allowed,
        possible=asked.possible,
        choice=choice,
        closest=_closest(trained, asked.rules, allowed),
        resampled=found,
        folds=tuple(_folds(asked)),
    )


def choose(
    unit: UnitBlocks, trained: Standing, rules: JudgeRules, allowed: Mask, blocks: slice
) -> int | None:
    """Return the best allowed setting that holds the SLO, None without any.

    A new setting must leave the margin free, today's need not. Where today's holds, a change must
    save enough to be worth it.
    """
    good = trained.holds(rules.robust, rules.margin) & allowed
    today_holds = bool(trained.holds(rules.robust)[TODAY])
    good[TODAY] = today_holds
    good &= np.isfinite(trained.objective)
    places = np.flatnonzero(good)
    if not places.size:
        return None
    objective = trained.objective[places]
    best = float(objective.min())
    near = places[objective <= best + abs(best) * rules.tie_pct / 100.0]
    if today_holds:
        if TODAY in near:
            return TODAY
        near = near[saves(trained, near, rules.least_saving_pct)]
        if not near.size:
            return TODAY
    pressure = trained.pressure(rules.robust)
    moves = unit.total("rescales", blocks)
    ranked = [int(s) for s in near]
    return min(ranked, key=lambda s: (pressure[s], moves[s], trained.objective[s], s))


def saves(trained: Standing, places: NDArray[np.int64], least_pct: float) -> Mask:
    """Return which of some settings save enough; what is not known does."""
    today = float(trained.objective[TODAY])
    saved = [saving_pct(float(trained.objective[s]), today) for s in places.tolist()]
    return np.array([pct is None or pct >= least_pct for pct in saved], dtype=bool)


def _closest(found: Standing, rules: JudgeRules, allowed: Mask) -> int:
    """Return the allowed setting that is least above its limits, of equal ones the best."""
    pressure = found.pressure(rules.robust)
    places = [TODAY, *(int(s) for s in np.flatnonzero(allowed) if s != TODAY)]
    objective = np.nan_to_num(found.objective, nan=np.inf)
    return min(places, key=lambda s: (pressure[s], objective[s], s))


def _folds(asked: Judging) -> Iterator[Fold]:
    """Choose on all blocks before each one, and judge on it; candidates are of these blocks too."""
    for block in range(1, asked.unit.blocks):
        before = slice(0, block)
        choice = asked.choose(asked.standing(before), before)
        there = asked.standing(slice(block, block + 1))
        held = there.holds(asked.rules.robust)
        today, today_holds = float(there.objective[TODAY]), bool(held[TODAY])
        if choice is None:
            yield Fold(block, None, None, today, None, today_holds, None)
            continue
        value, holds = float(there.objective[choice]), bool(held[choice])
        better = None if choice == TODAY else beats(holds, value, today_holds, today)
        yield Fold(block, choice, value, today, holds, today_holds, better)


def front_of(points: Array) -> Mask:
    """Return which rows of (n, k) points are on the Pareto front; less is better throughout."""
    rows = np.ascontiguousarray(points, np.float64)
    order = np.lexsort(rows.T[::-1]).astype(np.int64)
    kept, on_front = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    mark_front(rows, order, kept, on_front)
    return on_front.astype(bool)


# ---- resampled blocks ----------------------------------------------------------------------------


def resample(asked: Judging, blocks: slice, choice: int) -> Resampled:
    """Draw whole blocks with replacement; compare a choice and today's setting on each draw.

    The draws depend on the unit's name and the seed alone. Stretches longer than a block are drawn
    by their first block. Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993 (the
    percentile interval), on blocks, as the hours of a week are not independent.
    """
    unit, rules = asked.unit, asked.rules
    count = unit.hours[:, blocks].shape[1]
    rng = np.random.default_rng([rules.seed, _number(unit.name)])
    drawn = rng.multinomial(count, np.full(count, 1.0 / count), size=rules.resamples).astype(float)
    objective = unit.values[asked.goal.minimize][:, [choice, TODAY], blocks].sum(axis=0)
    sums = drawn @ objective.T
    held = np.stack([_drawn_holds(asked, blocks, s, drawn) for s in (choice, TODAY)], axis=1)
    lower = sums[:, 0] < sums[:, 1]
    better = float((held[:, 0] & (~held[:, 1] | lower)).mean())
    savings = _savings(sums)
    if np.isnan(savings).any():
        return Resampled(rules.resamples, None, None, better)
    tail = (1.0 - rules.interval) / 2.0
    low, high = np.quantile(savings, [tail, 1.0 - tail])
    return Resampled(rules.resamples, float(low), float(high), better)


def _savings(sums: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        savings: Array = np.where(
            sums[:, 1] == sums[:, 0], 0.0, 100.0 * (1.0 - sums[:, 0] / sums[:, 1])
        )
    return np.where(np.isfinite(savings), savings, np.nan)


def _drawn_holds(asked: Judging, blocks: slice, setting: int, drawn: Array) -> Mask:
    """Return (R,) whether a setting holds the SLO on each draw."""
    robust, hours = asked.rules.robust, asked.unit.hours[:, blocks]
    good = np.ones(drawn.shape[0], dtype=bool)
    for slo in asked.goal.slos:

        def on_average(values: Array, slo: Slo = slo) -> Array:
            drawn_hours = (drawn @ hours.T).T[:, None]
            with np.errstate(divide="ignore", invalid="ignore"):
                rates: Array = values @ drawn.T / drawn_hours * slo.unit_hours
            return np.where(drawn_hours > 0, rates, 0.0)

        def at_worst(values: Array, slo: Slo = slo) -> Array:
            return stretch_rates(values, hours, slo, asked.block_unit)

        places = [TODAY, setting]
        if robust in ("both", "mean"):
            rates = slo_rates(asked.unit, slo, places, blocks, on_average)[:, -1]
            good &= slo.keeps(rates).all(axis=0)
        if robust in ("both", "worst"):
            rates = slo_rates(asked.unit, slo, places, blocks, at_worst)[:, -1]
            broken = ~slo.keeps(rates).all(axis=0)
            good &= ~((drawn[:, : broken.size] > 0) & broken).any(axis=1)
    return good


def _number(name: str) -> int:
    """Return a number of a name that is the same in every process."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
