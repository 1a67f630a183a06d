"""How sure a choice is: the same comparison on resampled blocks of time."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from hpabatch.engine.advise.objective import Goal
from hpabatch.engine.advise.standing import stretch_rates
from hpabatch.engine.advise.unit import Array, Mask, UnitBlocks


@dataclass(frozen=True, slots=True)
class Resampled:
    """What a choice saves against today's setting on resampled training blocks.

    `low_pct` and `high_pct` are the ends of the saving's interval, None where it is not known;
    `better_share` is the share of resamples in which the choice holds the SLO and today's setting
    does not, or both do and it has the lower objective.
    """

    resamples: int
    low_pct: float | None
    high_pct: float | None
    better_share: float


def resample(
    unit: UnitBlocks,
    goal: Goal,
    blocks: slice,
    choice: int,
    today: int,
    *,
    block_unit: str,
    robust: str,
    resamples: int,
    interval: float,
    seed: int,
) -> Resampled:
    """Draw whole blocks with replacement and compare choice and today's setting on each draw.

    The draws hang on the unit's name and the seed alone. Stretches longer than a block are drawn by
    their first block. Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993 (the
    percentile interval), on blocks, as hours of a week hang together.
    """
    hours = unit.hours[:, blocks]
    count = hours.shape[1]
    rng = np.random.default_rng([seed, _number(unit.name)])
    drawn = rng.multinomial(count, np.full(count, 1.0 / count), size=resamples).astype(float)
    objective = unit.values[goal.minimize][:, [choice, today], blocks].sum(axis=0)
    sums = drawn @ objective.T
    held = np.stack(
        [_holds(unit, goal, blocks, s, drawn, block_unit, robust) for s in (choice, today)], axis=1
    )
    lower = sums[:, 0] < sums[:, 1]
    better = held[:, 0] & (~held[:, 1] | lower)
    savings = _savings(sums)
    if np.isnan(savings).any():
        return Resampled(resamples, None, None, float(better.mean()))
    tail = (1.0 - interval) / 2.0
    low, high = np.quantile(savings, [tail, 1.0 - tail])
    return Resampled(resamples, float(low), float(high), float(better.mean()))


def saving_pct(choice: float, today: float) -> float | None:
    """Return what a choice saves, in percent of today's; None: not known."""
    if not (np.isfinite(choice) and np.isfinite(today)) or (today == 0 and choice != 0):
        return None
    return 0.0 if today == 0 else float(100.0 * (1.0 - choice / today))


def _savings(sums: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        savings: Array = np.where(
            sums[:, 1] == sums[:, 0], 0.0, 100.0 * (1.0 - sums[:, 0] / sums[:, 1])
        )
    return np.where(np.isfinite(savings), savings, np.nan)


def _holds(
    unit: UnitBlocks,
    goal: Goal,
    blocks: slice,
    setting: int,
    drawn: Array,
    block_unit: str,
    robust: str,
) -> Mask:
    """Return (R,) whether a setting holds the SLO on each draw."""
    good = np.ones(drawn.shape[0], dtype=bool)
    hours = unit.hours[:, blocks]
    for slo in goal.slos:
        values = unit.values[slo.measure][:, [setting], blocks]
        if robust in ("both", "mean"):
            drawn_hours = drawn @ hours.T
            with np.errstate(divide="ignore", invalid="ignore"):
                rates = np.where(
                    drawn_hours > 0, drawn @ values[:, 0].T / drawn_hours * slo.unit_hours, 0.0
                )
            kept = rates < slo.limit if slo.strict else rates <= slo.limit
            good &= kept.all(axis=1)
        if robust in ("both", "worst"):
            rates = stretch_rates(values, hours, slo, block_unit)[:, 0]
            kept = rates < slo.limit if slo.strict else rates <= slo.limit
            broken = ~kept.all(axis=0)
            good &= ~((drawn[:, : broken.size] > 0) & broken).any(axis=1)
    return good


def _number(name: str) -> int:
    """Return a number of a name that is the same in every process."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
