"""Judging of settings on blocks of time that they were not chosen on.

The choice is made on the first blocks of a unit only (training) and judged on the last ones. A
rolling walk-forward repeats that at every block. Today's setting is always among the candidates.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hpabatch.engine.advise.objective import SATURATED, UNIT_HOURS, Goal, Slo
from hpabatch.engine.advise.request import JudgeRules
from hpabatch.engine.advise.unit import AT_MAX, Array, Mask, UnitBlocks, is_held
from hpabatch.engine.columns.recorded import ABOVE_MINUTES
from hpabatch.kernels.pareto import mark_front

MORE_THAN_TODAY: Final = (1.0, 0.5, 0.0, 0.0, 0.0)
"""By assumed ceiling the share of today's time above it that another setting may add.

The further a ceiling is below the highest usage seen, the rarer it can have been. Chosen on fleets
whose plant is known: `python -m benchmarks.recommend_truth` prints how many of the changes of HPAs
without a recorded limit are right.
"""

RatesOf = Callable[[Array], Array]
"""Gives rates (M, S, W) of a measure (M, S, B); linear in it."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Objective and SLO measures of S settings on some blocks.

    `objective` (S,) is the members' sum, NaN where it is not known of one. `mean` and `worst`
    (K, M, S) are the K SLOs' measures for the SLO's `unit_hours`: over all blocks, and in the worst
    stretch that is as long as the SLO is meant for (a block at least). An SLO counts for every
    member alone.
    """

    objective: Array
    slos: tuple[Slo, ...]
    mean: Array
    worst: Array

    def values(self, robust: str) -> Array:
        """Return (1 or 2, K, M, S) values that must keep to the limits."""
        chosen = {"both": (self.mean, self.worst), "mean": (self.mean,), "worst": (self.worst,)}
        return np.stack(chosen[robust])

    def holds(self, robust: str, margin: float = 0.0) -> Mask:
        """Return (S,) whether every SLO holds for every member, with a share of its limit free."""
        good = np.ones(self.objective.size, dtype=bool)
        values = self.values(robust)
        for k, slo in enumerate(self.slos):
            good &= slo.keeps(values[:, k], margin).all(axis=(0, 1))
        return good

    def broken(self, robust: str) -> Mask:
        """Return (K, M, S) which limits are broken for whom; what is not known counts as broken."""
        values = self.values(robust)
        found = np.zeros(values.shape[1:], dtype=bool)
        for k, slo in enumerate(self.slos):
            found[k] = ~slo.keeps(values[:, k]).all(axis=0)
        return found

    def without(self, measure: str, members: Mask) -> Standing:
        """Return the standing without the limits on a measure for some members (M,)."""
        spared = np.array([slo.measure == measure for slo in self.slos], dtype=bool)
        where = spared[:, None, None] & members[None, :, None]
        mean, worst = (np.where(where, 0.0, values) for values in (self.mean, self.worst))
        return replace(self, mean=mean, worst=worst)

    def shares(self, robust: str) -> Array:
        """Return `values` relative to their limits; NaN where one is not known."""
        limits = np.array([slo.limit for slo in self.slos])[None, :, None, None]
        values = self.values(robust)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(values == 0, 0.0, values / limits)

    def pressure(self, robust: str) -> Array:
        """Return (S,) the largest value relative to its limit: above 1 it is broken."""
        if not self.slos:
            return np.zeros(self.objective.size)
        shares = self.shares(robust)
        found: Array = np.where(np.isnan(shares), math.inf, shares).max(axis=(0, 1, 2))
        return found

    def unknown(self) -> tuple[str, ...]:
        """Return the SLOs' measures that are not known of some member."""
        return tuple(slo.measure for k, slo in enumerate(self.slos) if np.isnan(self.mean[k]).any())


def standing(unit: UnitBlocks, goal: Goal, blocks: slice, block_unit: str) -> Standing:
    """Return how a unit's settings stand on a stretch of its blocks."""
    mean, worst = _mean_and_worst(unit, goal, blocks, block_unit)
    return Standing(unit.total(goal.minimize, blocks), goal.slos, mean, worst)


def recorded_standing(unit: UnitBlocks, goal: Goal, blocks: slice, block_unit: str) -> Standing:
    """Return how today's setting stands by the recording alone; its objective is left out."""
    values = {slo.measure: unit.recorded_of(slo.measure, slice(None)) for slo in goal.slos}
    known = replace(unit, settings=unit.settings[:1], values=values, recorded={}, lifts=None)
    mean, worst = _mean_and_worst(known, goal, blocks, block_unit)
    return Standing(np.array([math.nan]), goal.slos, mean, worst)


def _mean_and_worst(
    unit: UnitBlocks, goal: Goal, blocks: slice, block_unit: str
) -> tuple[Array, Array]:
    """Return (K, M, S) the SLOs' rates over all blocks, and in the worst stretch."""
    hours, every = unit.hours[:, blocks], slice(None)
    nothing = np.zeros((0, len(unit.members), unit.settings.size))
    mean, worst = [], []
    for slo in goal.slos:

        def over_all(values: Array, slo: Slo = slo) -> Array:
            return _rate(values.sum(axis=2), hours.sum(axis=1)[:, None], slo)[:, :, None]

        def at_worst(values: Array, slo: Slo = slo) -> Array:
            return stretch_rates(values, hours, slo, block_unit)

        mean.append(slo_rates(unit, slo, every, blocks, over_all)[:, :, 0])
        worst.append(slo_rates(unit, slo, every, blocks, at_worst).max(axis=2))
    return (np.stack(mean), np.stack(worst)) if goal.slos else (nothing, nothing)


def slo_rates(
    unit: UnitBlocks,
    slo: Slo,
    settings: slice | list[int],
    blocks: slice,
    rates_of: RatesOf,
) -> Array:
    """Return (M, S, W) rates that must keep to an SLO's limit; the first setting is today's.

    Where more was recorded of today's setting in a stretch than the model says of it, the model
    lacks something that any setting may meet: what it lacks there is added to every setting, but
    for what a setting with a larger maxReplicas takes away (`UnitBlocks.beyond_model`).

    Of members whose ceiling is assumed, saturated_minutes is the most above any assumed ceiling:
    each might be the real one. As nobody knows it, what today's setting does is taken as good
    enough: a setting that is above a ceiling for not much longer than today's (MORE_THAN_TODAY)
    counts as 0 there.

    Args:
        unit: the HPAs.
        slo: the limit.
        settings: their places, today's first.
        blocks: the blocks.
        rates_of: gives the rates (M, S, W) of a measure (M, S, B), stretch by stretch its sum.
    """

    rates = _with_lacking(unit, slo.measure, settings, blocks, rates_of)
    if slo.measure != SATURATED or not unit.is_open.any():
        return rates
    most = np.zeros(rates.shape)
    for name, more in zip(ABOVE_MINUTES, MORE_THAN_TODAY, strict=True):
        above = _with_lacking(unit, name, settings, blocks, rates_of)
        good_enough = above <= above[:, :1] * (1.0 + more)
        most = np.maximum(most, np.where(good_enough, 0.0, above))
    # (a member may have a ceiling of another signal, too)
    known = np.nan_to_num(rates)
    return np.where(unit.is_open[:, None, None], np.maximum(most, known), rates)


def _with_lacking(
    unit: UnitBlocks, measure: str, settings: slice | list[int], blocks: slice, rates_of: RatesOf
) -> Array:
    lacking = np.maximum(rates_of(unit.beyond_model(measure, settings, blocks)), 0.0)
    return rates_of(unit.modelled_of(measure, settings, blocks)) + lacking


def assumed_use(unit: UnitBlocks, goal: Goal, place: int, block_unit: str) -> float | None:
    """Return how much of a limit a setting's time above the lowest assumed ceiling uses at worst.

    None where no ceiling is assumed, or nothing limits saturation.
    """
    slos = [slo for slo in goal.slos if slo.measure == SATURATED]
    if not slos or not unit.is_open.any():
        return None
    most = 0.0
    for slo in slos:

        def at_worst(values: Array, slo: Slo = slo) -> Array:
            return stretch_rates(values, unit.hours, slo, block_unit)

        rates = _with_lacking(unit, ABOVE_MINUTES[0], [TODAY, place], slice(None), at_worst)
        above = float(np.nan_to_num(rates[unit.is_open, 1], nan=math.inf).max())
        most = max(most, above / slo.limit if slo.limit else math.inf if above else 0.0)
    return most


def only_modelled(
    unit: UnitBlocks, goal: Goal, parts: Sequence[slice], block_unit: str, robust: str
) -> tuple[str, ...]:
    """Return the limits that today's setting breaks, if the model alone says so of all of them.

    Nothing where the recording breaks one of these, too, for any HPA, or is not known. Each of
    the `parts`, stretches of blocks, is judged by itself.
    """
    modelled = [standing(unit, goal, part, block_unit).broken(robust)[:, :, 0] for part in parts]
    recorded = [recorded_standing(unit, goal, p, block_unit).broken(robust)[:, :, 0] for p in parts]
    broken = np.logical_or.reduce(modelled)
    if (broken & np.logical_or.reduce(recorded)).any():
        return ()
    return tuple(slo.text for slo, theirs in zip(goal.slos, broken, strict=True) if theirs.any())


def stretch_rates(values: Array, hours: Array, slo: Slo, block_unit: str) -> Array:
    """Return the rates (M, S, W) of every stretch that is as long as the SLO is meant for.

    Stretches are neighboring blocks, one where a block is that long; all of them where they are
    too few. `values` are (M, S, B), `hours` (M, B).
    """
    width = min(stretch_width(slo, block_unit), hours.shape[1])
    return _rate(_sums(values, width), _sums(hours, width)[:, None, :], slo)


def stretch_width(slo: Slo, block_unit: str) -> int:
    """Return how many blocks make a stretch."""
    return max(1, math.ceil((slo.window_hours or 0.0) / UNIT_HOURS[block_unit]))


def _sums(values: Array, width: int) -> Array:
    if width == 1:
        return values
    windows = np.lib.stride_tricks.sliding_window_view(values, width, axis=-1)
    sums: Array = windows.sum(axis=-1)
    return sums


def _rate(values: Array, hours: Array, slo: Slo) -> Array:
    """Return values for the SLO's time; 0 without any time, which breaks no limit."""
    with np.errstate(divide="ignore", invalid="ignore"):
        rates: Array = np.where(hours > 0, values / hours * slo.unit_hours, 0.0)
    return rates


def saving_pct(choice: float, today: float) -> float | None:
    """Return what a choice saves, in percent of today's; None: not known."""
    if not (np.isfinite(choice) and np.isfinite(today)) or (today == 0 and choice != 0):
        return None
    return 0.0 if today == 0 else float(100.0 * (1.0 - choice / today))


def beats(holds: bool, objective: float, holds_other: bool, other: float) -> bool:
    """Return whether one setting is better than another: the SLO first, then the objective."""
    if holds != holds_other:
        return holds
    return holds and objective < other


def tightest(found: Standing, setting: int, members: Sequence[str], robust: str) -> str:
    """Return in words which limit a setting breaks the most, or comes closest to."""
    values = found.values(robust)[:, :, :, setting]
    if not values.size:
        return ""
    shares = found.shares(robust)[:, :, :, setting]
    most = np.unravel_index(np.argmax(np.nan_to_num(shares, nan=math.inf)), shares.shape)
    mode, k, m = (int(place) for place in most)
    slo, value = found.slos[k], float(values[mode, k, m])
    who = f" of {members[m]}" if len(members) > 1 else ""
    if math.isnan(value):
        return f"{slo.measure}{who} is not known"
    where = "on average" if robust == "mean" or (robust == "both" and mode == 0) else "at worst"
    return f"{slo.measure}{who} {where} {slo.told(value)} (limit {slo.text})"


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

    @property
    def is_held_at_max(self) -> bool:
        """Whether today's maxReplicas held a member for long in the judged blocks."""
        last, minutes = slice(self.split, None), self.unit.values.get(AT_MAX)
        if minutes is None:
            return False
        sums = zip(minutes[:, TODAY, last], self.unit.hours[:, last], strict=True)
        return any(is_held(float(held.sum()), float(hours.sum())) for held, hours in sums)

    def lifts(self, place: int) -> bool:
        """Return whether a setting lifts somebody's maxReplicas and leaves no pod less."""
        return self.unit.lifts is not None and bool(self.unit.lifts[:, place].any())


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


def judge(asked: Judging) -> Judged | None:
    """Choose among the possible settings of a unit, and judge; None: it has too few blocks.

    Settings that are outside of the recorded usage per pod on the blocks that a choice is made on
    are no candidates for it; today's is one in any case.
    """
    split = split_of(asked.unit.blocks, asked.rules)
    if split is None:
        return None
    training = slice(0, split)
    trained, judged = asked.standing(training), asked.standing(slice(split, None))
    allowed = asked.inside(training)
    choice = asked.choose(trained, training)
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
        before, robust = slice(0, block), asked.rules.robust
        stands = asked.standing(before)
        choice = asked.choose(stands, before)
        there = asked.standing(slice(block, block + 1))
        held = there.holds(robust)
        today, today_holds = float(there.objective[TODAY]), bool(held[TODAY])
        if choice is None:
            yield Fold(block, None, None, today, None, today_holds, None)
            continue
        value, holds = float(there.objective[choice]), bool(held[choice])
        # What ends a broken SLO may cost more, also in a block in which today's setting happens to
        # hold it.
        mends = not stands.holds(robust)[TODAY]
        confirmed = holds if mends else beats(holds, value, today_holds, today)
        better = None if choice == TODAY else confirmed
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
    name = hashlib.sha256(unit.name.encode()).digest()  # (the same number in every process)
    rng = np.random.default_rng([rules.seed, int.from_bytes(name[:8], "big")])
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
