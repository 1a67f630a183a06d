"""A closed loop's runs, judged: measures with costs, and whether they may be relied on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from hpabatch.engine.closed_loop import KEY, NOISY, RECORDED, Loop, LoopOptions, Progress, silent
from hpabatch.engine.simulate import SimulationResult, elastic_speedup, simulate
from hpabatch.model.prices import PriceList

OUTSIDE_PCT: Final = 10.0
"""Above this share of steps outside the recorded range per pod, a result gives no advice."""

CENSORED_PCT: Final = 1.0
"""Above this share of work that is only a lower bound, because pods were at their ceiling, too."""


@dataclass(frozen=True, slots=True)
class LoopResult:
    """What a simulation came to: one row of measures per HPA and setting.

    Beside the columns of `engine.simulate`: `cost` and `currency` (null without prices),
    `elastic_speedup` against the recorded setting, `usable` (nothing known speaks against relying
    on the row) and `why_not`. `points` as in `SimulationResult`.
    """

    loop: Loop
    measures: pl.DataFrame
    points: pl.DataFrame | None


def run_loop(loop: Loop, options: LoopOptions, progress: Progress = silent) -> LoopResult:
    """Simulate all cases of a loop and judge them."""
    found: SimulationResult = simulate(
        loop.cases,
        loop.plan.versions.one(),
        seed=options.seed,
        keep_points=options.keep_points,
        progress=progress,
    )
    measures = found.measures
    if loop.cases:
        measures = elastic_speedup(measures, RECORDED, NOISY)
        measures = _with_cost(measures, options.prices)
        measures = _with_advice(measures, loop)
    return LoopResult(loop, measures, found.points)


def _with_cost(measures: pl.DataFrame, prices: PriceList | None) -> pl.DataFrame:
    """Add what the requested hours cost; null where a priced quantity is not known."""
    if prices is None:
        empty = pl.lit(None)
        return measures.with_columns(
            cost=empty.cast(pl.Float64()), currency=empty.cast(pl.String())
        )
    costs: list[float | None] = []
    currencies = []
    for row in measures.iter_rows(named=True):
        price = prices.price_of(row["cluster"], row["namespace"], row["hpa"])
        parts = [
            (price.core_hour, row["core_hours"]),
            (price.gib_hour, row["gib_hours"]),
            (price.pod_hour, row["pod_hours"]),
        ]
        known = all(hours is not None for rate, hours in parts if rate)
        costs.append(sum(rate * hours for rate, hours in parts if rate) if known else None)
        currencies.append(price.currency)
    return measures.with_columns(
        cost=pl.Series(costs, dtype=pl.Float64()), currency=pl.Series(currencies)
    )


def _with_advice(measures: pl.DataFrame, loop: Loop) -> pl.DataFrame:
    """Add whether a row may be relied on, and why not."""
    reasons = []
    for row in measures.iter_rows(named=True):
        key = row["cluster"], row["namespace"], row["hpa"]
        problems = list(loop.problems[key])
        if loop.censored[key] > CENSORED_PCT:
            problems.append(
                f"{loop.censored[key]:.0f}% of its work is only a lower bound: pods were at their "
                f"ceiling (more than {CENSORED_PCT:.0f}%)"
            )
        if row["outside_pct"] is not None and row["outside_pct"] > OUTSIDE_PCT:
            problems.append(
                f"{row['outside_pct']:.0f}% of the steps are outside of the usage per pod that was "
                f"recorded (more than {OUTSIDE_PCT:.0f}%)"
            )
        reasons.append("; ".join(problems))
    why = pl.Series(reasons, dtype=pl.String())
    censored = [loop.censored[c, n, h] for c, n, h in measures.select(*KEY).iter_rows()]
    return measures.with_columns(
        censored_pct=pl.Series(censored, dtype=pl.Float64()), usable=why == "", why_not=why
    )
