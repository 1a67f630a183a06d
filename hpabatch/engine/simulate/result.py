"""Results of a closed loop: measures with costs, as recorded too, and whether to rely on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from hpabatch.engine.columns.recorded import RECORDED_MEASURES, recorded_name
from hpabatch.engine.fit.run import OWN_TARGET, Recorded
from hpabatch.engine.simulate.case import SimulationCase
from hpabatch.engine.simulate.loop import SimulationResult, elastic_speedup, simulate
from hpabatch.engine.simulate.run import KEY, RECORDED, Loop, LoopOptions
from hpabatch.engine.simulate.work import Key
from hpabatch.inputs.prices import PriceList
from hpabatch.model.objects.hpa import MetricSpec
from hpabatch.model.progress import Progress, silent

OUTSIDE_PCT: Final = 10.0
"""Above this share of steps outside the recorded range per pod, a result gives no advice."""

CENSORED_WORDS: Final = "of its work is only a lower bound: pods were at their ceiling"

OUTSIDE_WORDS: Final = "of the steps are outside of the usage per pod that was recorded"

CENSORED_PCT: Final = 1.0
"""Above this share of work that is only a lower bound, because pods were at their ceiling, too."""


_PRICED: Final = ("core", "gib", "pod")


@dataclass(frozen=True, slots=True)
class LoopResult:
    """Result of a simulation: one row of measures per HPA and setting.

    Beside the columns of `engine.simulate.loop`: `cost` and `currency` (null without prices),
    `elastic_speedup` against the recorded setting, `usable` (nothing known speaks against relying
    on the row) and `why_not`. `points` as in `SimulationResult`.
    """

    loop: Loop
    measures: pl.DataFrame
    points: pl.DataFrame | None


Span = tuple[tuple[str | int, ...], Key, int, int]
"""A row's key, its HPA, and from and until when (ms) it is."""


def with_recorded(
    frame: pl.DataFrame,
    key: tuple[str, ...],
    spans: Iterable[Span],
    recorded: Mapping[Key, Recorded],
) -> pl.DataFrame:
    """Add the columns `*_recorded` to measures: null in rows without a span or a recording.

    Args:
        frame: rows of measures, named by the columns `key`.
        key: names of these columns.
        spans: of the rows whose setting is the one that was recorded.
        recorded: by HPA.
    """
    names = [recorded_name(measure) for measure in RECORDED_MEASURES]
    rows = [
        (*row, *recorded[hpa].between(from_ms, to_ms).values())
        for row, hpa, from_ms, to_ms in spans
        if hpa in recorded
    ]
    schema = {name: frame.schema[name] for name in key} | dict.fromkeys(names, pl.Float64())
    known = pl.DataFrame(rows, schema=schema, orient="row")
    return frame.join(known, on=list(key), how="left", maintain_order="left")


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
    spans = (
        (c.key, c.key[:3], c.start_ms, c.start_ms + c.steps * c.period_ms)
        for c in loop.cases
        if c.setting == RECORDED  # (as it was in force)
    )
    if loop.cases:
        measures = elastic_speedup(measures, RECORDED)
        measures = with_cost(measures, options.prices)
        measures = with_advice(measures, loop)
        measures = with_recorded(measures, (*KEY, "setting"), spans, loop.recorded)
    return LoopResult(loop, measures, found.points)


def self_judged(loop: Loop) -> frozenset[tuple[str, str, str, str]]:
    """Return the cases with other metrics than today's where today's target is the capacity.

    What their pods are meant to do is what they change: too few pods are those of the old target.
    """
    today = {case.key[:3]: _metrics(case) for case in loop.cases if case.setting == RECORDED}
    return frozenset(
        case.key
        for case in loop.cases
        if any(f.name == "capacity" and OWN_TARGET in f.note for f in loop.facts[case.key[:3]])
        and _metrics(case) != today.get(case.key[:3], _metrics(case))
    )


def _metrics(case: SimulationCase) -> Sequence[MetricSpec]:
    return case.periods[-1].spec.metrics


def with_cost(measures: pl.DataFrame, prices: PriceList | None) -> pl.DataFrame:
    """Add what the requested hours cost; null where a priced quantity is not known."""
    if prices is None:
        empty = pl.lit(None)
        return measures.with_columns(
            cost=empty.cast(pl.Float64()), currency=empty.cast(pl.String())
        )
    keys = measures.select(KEY).unique(maintain_order=True)
    rows = [prices.price_of(*key) for key in keys.iter_rows()]
    rates = {name: [getattr(r, f"{name}_hour") or 0.0 for r in rows] for name in _PRICED}
    known = keys.with_columns(
        pl.Series("currency", [r.currency for r in rows], dtype=pl.String()),
        *(pl.Series(f"rate_{name}", values, dtype=pl.Float64()) for name, values in rates.items()),
    )
    parts = [
        pl.when(pl.col(f"rate_{name}") > 0)
        .then(pl.col(f"rate_{name}") * pl.col(f"{name}_hours"))
        .otherwise(0.0)
        for name in _PRICED
    ]
    joined = measures.join(known, on=KEY, how="left", maintain_order="left")
    cost = (parts[0] + parts[1] + parts[2]).alias("cost")
    return joined.select(*measures.columns, cost, "currency")


def with_advice(measures: pl.DataFrame, loop: Loop) -> pl.DataFrame:
    """Add `censored_pct`, `usable`: whether a row may be relied on, and `why_not`."""
    reasons, censored = [], []
    for cluster, namespace, hpa, outside in measures.select(*KEY, "outside_pct").iter_rows():
        key = cluster, namespace, hpa
        censored.append(loop.censored[key])
        told = ((loop.censored[key], CENSORED_PCT, CENSORED_WORDS),
                (outside or 0.0, OUTSIDE_PCT, OUTSIDE_WORDS))  # fmt: skip
        doubts = [f"{pct:.0f}% {words} (more than {m:.0f}%)" for pct, m, words in told if pct > m]
        reasons.append("; ".join([*loop.problems[key], *doubts]))
    why = pl.Series(reasons, dtype=pl.String())
    return measures.with_columns(
        censored_pct=pl.Series(censored, dtype=pl.Float64()), usable=why == "", why_not=why
    )
