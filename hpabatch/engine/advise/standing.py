"""Standing of settings against a goal on some blocks of time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from hpabatch.engine.advise.objective import SATURATED, UNIT_HOURS, Goal, Slo
from hpabatch.engine.advise.unit import Array, Mask, UnitBlocks
from hpabatch.engine.columns.recorded import ABOVE_MINUTES

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

    def rates(slo: Slo, rates_of: RatesOf) -> Array:
        return slo_rates(unit, slo, slice(None), blocks, rates_of)

    mean, worst = _mean_and_worst(unit, goal, blocks, block_unit, rates)
    return Standing(unit.total(goal.minimize, blocks), goal.slos, mean, worst)


def recorded_standing(unit: UnitBlocks, goal: Goal, blocks: slice, block_unit: str) -> Standing:
    """Return how today's setting stands by the recording alone; its objective is left out."""

    def rates(slo: Slo, rates_of: RatesOf) -> Array:
        return rates_of(unit.recorded_of(slo.measure, blocks))

    mean, worst = _mean_and_worst(unit, goal, blocks, block_unit, rates)
    return Standing(np.array([math.nan]), goal.slos, mean, worst)


def _mean_and_worst(
    unit: UnitBlocks,
    goal: Goal,
    blocks: slice,
    block_unit: str,
    rates: Callable[[Slo, RatesOf], Array],
) -> tuple[Array, Array]:
    """Return (K, M, S) the SLOs' rates over all blocks, and in the worst stretch."""
    hours = unit.hours[:, blocks]
    nothing = np.zeros((0, len(unit.members), unit.settings.size))
    mean, worst = [], []
    for slo in goal.slos:

        def over_all(values: Array, slo: Slo = slo) -> Array:
            return _rate(values.sum(axis=2), hours.sum(axis=1)[:, None], slo)[:, :, None]

        def at_worst(values: Array, slo: Slo = slo) -> Array:
            return stretch_rates(values, hours, slo, block_unit)

        mean.append(rates(slo, over_all)[:, :, 0])
        worst.append(rates(slo, at_worst).max(axis=2))
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

    def judged(measure: str) -> Array:
        lacking = np.maximum(rates_of(unit.beyond_model(measure, settings, blocks)), 0.0)
        return rates_of(unit.modelled_of(measure, settings, blocks)) + lacking

    rates = judged(slo.measure)
    if slo.measure != SATURATED or not unit.is_open.any():
        return rates
    most = np.zeros(rates.shape)
    for name, more in zip(ABOVE_MINUTES, MORE_THAN_TODAY, strict=True):
        above = judged(name)
        good_enough = above <= above[:, :1] * (1.0 + more)
        most = np.maximum(most, np.where(good_enough, 0.0, above))
    # (a member may have a ceiling of another signal, too)
    known = np.nan_to_num(rates)
    return np.where(unit.is_open[:, None, None], np.maximum(most, known), rates)


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
    """Return the sums of `width` neighbours along the last axis."""
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
