"""Result of a sweep: frames of settings, HPAs, results and blocks of time; its summary."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from hpabatch.engine.columns.recorded import ABOVE_MINUTES, recorded_name
from hpabatch.engine.columns.sweep import SWEEP_SUMMARY

KEY: Final = ["cluster", "namespace", "hpa"]
WEEK_HOURS: Final = 168.0
HARM: Final = ("saturated_minutes", *ABOVE_MINUTES, "unserved", "waiting")
"""Measures in which a cheaper setting must not exceed today's."""

_PER_WEEK: Final = (
    *("pod_hours", "cost", "saturated_minutes", "unserved", "rescales", "short_pod_hours"),
    *map(recorded_name, ("pod_hours", "saturated_minutes", "rescales")),
)
_AMOUNT: Final = re.compile(r"([x+-]?)(\d+(?:\.\d+)?)[a-z%]*")
_SLACK: Final = 1e-9  # of sums of the same numbers in another order


@dataclass(frozen=True, slots=True)
class SweepResult:
    """All settings of all HPAs, measured; docs/sweep.md explains every column.

    `settings`: one row per setting; `hpas`: one per HPA; `results`: one per HPA and setting, with
    the measures of its whole run; `blocks`: one per HPA, setting and block of time (a week, or a
    day of a short history), with what can be added up. `parameters` are those of the request.
    """

    settings: pl.DataFrame
    hpas: pl.DataFrame
    results: pl.DataFrame
    blocks: pl.DataFrame
    evidence: dict[str, str]
    parameters: dict[str, Any]


def summarize_sweep(result: SweepResult) -> pl.DataFrame:
    """Return a row of `SWEEP_SUMMARY` per HPA; none of it is advice (`engine.advise.run` is)."""
    rows = result.results
    today = rows.filter(pl.col("setting_id") == 0).select(
        *KEY,
        *(pl.col(name).alias(f"today_{name}") for name in dict.fromkeys((*_PER_WEEK, *HARM))),
        pl.col("hours").alias("today_hours"),
        pl.col("usable"),
    )
    cheapest = _cheapest(rows.drop("usable").join(today, on=KEY, how="left", maintain_order="left"))
    counts = rows.group_by(KEY, maintain_order=True).agg(pl.len().alias("settings"))
    per_week = [
        (pl.col(f"today_{name}") * WEEK_HOURS / pl.col("today_hours")).alias(f"{name}_per_week")
        for name in _PER_WEEK
    ]
    joined = result.hpas.select(*KEY, "unit", "days", "ceiling")
    for frame in (counts, today.with_columns(per_week), cheapest):
        joined = joined.join(frame, on=KEY, how="left", maintain_order="left")
    return joined.select(SWEEP_SUMMARY.names)


def grid_edges(settings: pl.DataFrame) -> dict[str, tuple[str, ...]]:
    """Return by setting which of its numbers are the least or most that its grid tries.

    Numbers, factors (x0.8) and differences (+2) each on their own; nothing is below 0, and words
    have no edge.
    """
    found: dict[str, tuple[str, ...]] = dict.fromkeys(settings["setting"], ())
    for field in settings.columns[2:]:
        values = settings[field].cast(pl.String)
        shapes = {text: _AMOUNT.fullmatch(text) for text in values.drop_nulls().unique().sort()}
        amounts = {text: (m[1], float(m[2])) for text, m in shapes.items() if m is not None}
        for name, text in zip(settings["setting"], values, strict=True):
            if text in amounts and _is_edge(amounts[text], set(amounts.values())):
                found[name] += (f"{field}={text}",)
    return found


def _is_edge(amount: tuple[str, float], tried: set[tuple[str, float]]) -> bool:
    """Say whether an amount is at the end of those of its own sign; today's is a x1 or +0."""
    sign, value = amount
    alike = {other * (-1 if s == "-" else 1) for s, other in tried if _kind(s) == _kind(sign)}
    alike |= {"x": {1.0}, "+": {0.0}}.get(_kind(sign), set())
    value *= -1 if sign == "-" else 1
    return len(alike) > 1 and amount != ("", 0.0) and value in (min(alike), max(alike))


def _kind(sign: str) -> str:
    return "+" if sign == "-" else sign


def _cheapest(compared: pl.DataFrame) -> pl.DataFrame:
    """Return by HPA the cheapest setting that harms no more than today, and what it saves."""
    known = [pl.col(f"today_{name}").is_not_null() for name in HARM]
    no_worse = [
        pl.col(name).fill_null(0) <= pl.col(f"today_{name}").fill_null(0) + _SLACK for name in HARM
    ]
    price, today = pl.coalesce("cost", "pod_hours"), pl.coalesce("today_cost", "today_pod_hours")
    return (
        compared.with_columns(price=price, today=today)
        .filter(pl.any_horizontal(known) & pl.all_horizontal(no_worse))
        .sort(*KEY, "price", "setting_id")
        .group_by(KEY, maintain_order=True)
        .agg(
            pl.col("setting").first().alias("cheapest"),
            (100 * (1 - pl.col("price").first() / pl.col("today").first())).alias("saving_pct"),
            (pl.col("short_pod_hours").first() * WEEK_HOURS / pl.col("hours").first()).alias(
                "cheapest_short_pod_hours_per_week"
            ),
        )
    )
