"""Settings judged on time that they were not chosen on.

The choice looks at the first blocks of a unit only (training); what it is worth is read off the
last ones (judged). A rolling walk-forward repeats that at every block. Today's setting is always
among the candidates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hpabatch.engine.advise.objective import Goal
from hpabatch.engine.advise.resample import Resampled, resample, saving_pct
from hpabatch.engine.advise.standing import ROBUST, Standing, beats, standing
from hpabatch.engine.advise.unit import OUTSIDE_SHARE, Array, Mask, UnitBlocks
from hpabatch.errors import UsageError
from hpabatch.kernels.pareto import mark_front

TODAY = 0
"""Where today's setting stands among a unit's settings."""


@dataclass(frozen=True, slots=True)
class JudgeRules:
    """How a choice is made and judged.

    Attributes:
        robust: where an SLO must hold: in the worst block, on average, or both.
        margin: share of an SLO's limit that a new setting must leave free on the training blocks.
        least_saving_pct: below this a change is not worth it.
        least_better: share of resamples in which a change must be better than today's setting.
        tie_pct: settings whose objective is that near the best count as equal; of these the one
            that leaves most of the limits free is taken, then the one with fewest rescales.
        judged_blocks: how many of the last blocks are judged on; None: a third, at least one.
        resamples: how many draws, `interval` the share of them that the saving's interval holds.
        seed: of the draws.
    """

    robust: str = "both"
    margin: float = 0.1
    least_saving_pct: float = 1.0
    least_better: float = 0.9
    tie_pct: float = 0.5
    judged_blocks: int | None = None
    resamples: int = 1000
    interval: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what makes no sense (UsageError, all of it)."""
        mistakes = []
        if self.robust not in ROBUST:
            mistakes.append(f"--robust {self.robust}: one of {', '.join(ROBUST)}")
        if not 0 <= self.margin < 1:
            mistakes.append(f"--margin {self.margin:g}: a share of the limit, from 0 to below 1")
        if self.judged_blocks is not None and self.judged_blocks < 1:
            mistakes.append(f"--judged-blocks {self.judged_blocks}: at least 1")
        if not 0 <= self.least_better <= 1:
            mistakes.append(f"--least-better {self.least_better:g}: a share, from 0 to 1")
        if not 0 <= self.least_saving_pct < math.inf:
            mistakes.append(f"--least-saving {self.least_saving_pct:g}: 0 percent or more")
        if self.resamples < 1:
            mistakes.append(f"--resamples {self.resamples}: at least 1")
        if mistakes:
            raise UsageError("; ".join(mistakes))


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
class Judged:
    """A unit's choice and what it is worth; places are those in `unit.settings`.

    `choice` None: no allowed setting holds the SLO on the training blocks; `closest` is then the
    one that breaks it least. `trained` and `judged` are how all settings stand on either part.
    `resampled` None: nothing is changed, or one training block has nothing to draw from.
    """

    unit: UnitBlocks
    split: int
    trained: Standing
    judged: Standing
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


def judge(
    unit: UnitBlocks, goal: Goal, rules: JudgeRules, possible: Mask, block_unit: str
) -> Judged | None:
    """Choose among the possible settings of a unit, and judge; None: it has too few blocks.

    `possible` (S,) may leave settings out, whatever the time. Those that are outside of the
    recorded usage per pod on the blocks that a choice is made on are no candidates for it; today's
    is one in any case.
    """
    split = split_of(unit.blocks, rules)
    if split is None:
        return None
    trained = standing(unit, goal, slice(0, split), block_unit)
    judged = standing(unit, goal, slice(split, None), block_unit)
    choice = choose(unit, trained, rules, inside(unit, possible, slice(0, split)), slice(0, split))
    return judge_choice(unit, goal, rules, possible, block_unit, (split, trained, judged, choice))


def inside(unit: UnitBlocks, possible: Mask, blocks: slice) -> Mask:
    """Return (S,) the possible settings that stay within the recorded usage on some blocks."""
    allowed: Mask = possible & (unit.outside_share(blocks) <= OUTSIDE_SHARE)
    return allowed


def judge_choice(
    unit: UnitBlocks,
    goal: Goal,
    rules: JudgeRules,
    possible: Mask,
    block_unit: str,
    made: tuple[int, Standing, Standing, int | None],
) -> Judged:
    """Judge a choice that was made: (first judged block, standings on either part, place)."""
    split, trained, judged, choice = made
    found = None
    if choice is not None and choice != TODAY and split > 1:
        found = resample(
            unit,
            goal,
            slice(0, split),
            choice,
            TODAY,
            block_unit=block_unit,
            robust=rules.robust,
            resamples=rules.resamples,
            interval=rules.interval,
            seed=rules.seed,
        )
    return Judged(
        unit=unit,
        split=split,
        trained=trained,
        judged=judged,
        choice=choice,
        closest=_closest(trained, rules, inside(unit, possible, slice(0, split))),
        resampled=found,
        folds=tuple(_folds(unit, goal, rules, possible, block_unit)),
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
    if today_holds and TODAY in near:
        return TODAY
    pressure = trained.pressure(rules.robust)
    moves = unit.total("rescales", blocks)
    order = sorted(near.tolist(), key=lambda s: (pressure[s], moves[s], trained.objective[s], s))
    chosen = int(order[0])
    if today_holds:
        saved = saving_pct(float(trained.objective[chosen]), float(trained.objective[TODAY]))
        if saved is not None and saved < rules.least_saving_pct:
            return TODAY
    return chosen


def _closest(found: Standing, rules: JudgeRules, allowed: Mask) -> int:
    """Return the allowed setting that is least above its limits, of equal ones the best."""
    pressure = found.pressure(rules.robust)
    places = [TODAY, *(int(s) for s in np.flatnonzero(allowed) if s != TODAY)]
    objective = np.nan_to_num(found.objective, nan=np.inf)
    return min(places, key=lambda s: (pressure[s], objective[s], s))


def _folds(
    unit: UnitBlocks, goal: Goal, rules: JudgeRules, possible: Mask, block_unit: str
) -> Iterator[Fold]:
    """Choose on all blocks before each one, and judge on it; candidates are of these blocks too."""
    for block in range(1, unit.blocks):
        before = slice(0, block)
        allowed = inside(unit, possible, before)
        choice = choose(unit, standing(unit, goal, before, block_unit), rules, allowed, before)
        there = standing(unit, goal, slice(block, block + 1), block_unit)
        held = there.holds(rules.robust)
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
