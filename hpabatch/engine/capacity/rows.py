"""Rows and columns of a capacity plan; docs/plan.md lists the columns from here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import polars as pl

from hpabatch.engine.capacity.runs import FREE, TODAY, UNCLAMPED, Runs
from hpabatch.engine.capacity.sums import MINUTE_MS, PERCENTILES, percentile

MONTH_HOURS: Final = 720.0
"""A month is 30 days."""


def hpa_row(
    runs: Runs, growth_milli: int, rows: Mapping[str, Mapping[str, object]], why_not: str
) -> dict[str, object]:
    """Return the row of an HPA under a growth."""
    today, unclamped, free = (runs.tracks[b] for b in (TODAY, UNCLAMPED, FREE))
    case = today.case
    spec = case.periods[-1].spec
    now, more = rows[TODAY], rows[UNCLAMPED]
    at_max = today.desired == spec.max_replicas
    count = int(at_max.sum())
    first = case.start_ms + int(at_max.argmax()) * case.period_ms if count else None
    cluster, namespace, hpa = runs.key
    return {
        "cluster": cluster,
        "namespace": namespace,
        "hpa": hpa,
        "growth": growth_milli / 1000,
        "start": case.start_ms,
        "hours": now["hours"],
        "min_replicas": spec.min_replicas,
        "max_replicas": spec.max_replicas,
        **case.requested._asdict(),
        **{f"desired_p{p}": percentile(unclamped.desired, p) for p in PERCENTILES},
        "desired_max": int(unclamped.desired.max()),
        "max_sufficient": None if unclamped.is_open else unclamped.highest,
        "min_sufficient": None if free.is_open else free.lowest,
        "max_with_min": None if free.is_open else free.highest,
        "first_at_max": first,
        "at_max_minutes": count * case.period_ms / MINUTE_MS,
        "at_max_pct": 100.0 * count / at_max.size,
        "held_minutes": now["at_max_minutes"],
        **_both("saturated_minutes", now, more),
        **_both("pod_hours", now, more),
        **_both("cost", now, more),
        **{f"month{end}": _month(row) for end, row in (("", now), ("_unclamped", more))},
        "currency": now["currency"],
        "outside_pct": more["outside_pct"],
        "min_outside_pct": rows[FREE]["outside_pct"],
        "censored_pct": more["censored_pct"],
        "usable": not why_not,
        "why_not": why_not,
    }


def _both(name: str, now: Mapping[str, object], more: Mapping[str, object]) -> dict[str, object]:
    return {name: now[name], f"{name}_unclamped": more[name]}


def _month(row: Mapping[str, object]) -> float | None:
    cost, hours = row["cost"], row["hours"]
    if not isinstance(cost, float) or not isinstance(hours, float):
        return None
    return cost * MONTH_HOURS / hours


_TYPES: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("cluster", "namespace", "hpa", "currency", "why_not", "scope", "bounds",
                     "covers", "resource", "unit", "quota_name"), pl.String),
    **dict.fromkeys(("min_replicas", "max_replicas", "cpu_milli", "memory_milli", "desired_p50",
                     "desired_p95", "desired_p99", "desired_max", "max_sufficient",
                     "min_sufficient", "max_with_min", "hpas", "of"), pl.Int64),
    **dict.fromkeys(("start", "first_at_max", "first_exceeded"), pl.Int64),
    "usable": pl.Boolean,
}  # fmt: skip
_TIMES: Final = ("start", "first_at_max", "first_exceeded")


def frame_of(rows: Sequence[Mapping[str, object]], columns: Mapping[str, str]) -> pl.DataFrame:
    """Return rows as a frame with the documented columns."""
    found = {
        name: pl.Series([row[name] for row in rows], dtype=_TYPES.get(name, pl.Float64))
        for name in columns
    }
    times = [pl.col(name).cast(pl.Datetime("ms", "UTC")) for name in _TIMES if name in columns]
    return pl.DataFrame(found).with_columns(times)
