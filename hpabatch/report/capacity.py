"""What `hpabatch plan` found, as a table, JSON, CSV or Parquet.

The table is text for people, JSON is everything, CSV and Parquet are one of the two frames.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from hpabatch.engine.capacity.run import CapacityPlan
from hpabatch.engine.simulate.result import CENSORED_PCT
from hpabatch.jobs.parquet import write_parquet
from hpabatch.model.printable import printable, printable_line
from hpabatch.report.console import drawn
from hpabatch.report.extras import json_rows
from hpabatch.report.replay import evidence_lines
from hpabatch.report.texts import frame_csv, label, many_clusters

if TYPE_CHECKING:
    from rich.console import RenderableType

SHOWN_ROWS: Final = 40
SHOWN_REASONS: Final = 10
TIME_FORMAT: Final = "%Y-%m-%dT%H:%M:%S%.3fZ"
_NAMES: Final = {
    "pods": "pods",
    "cores": "cores",
    "gib": "GiB",
    "limit_cores": "limit cores",
    "limit_gib": "limit GiB",
}

_SUMS_LEGEND: Final = (
    "Sums over HPAs at the same instants. TODAY: under minReplicas and maxReplicas as they are; "
    "P50 to MAX: without maxReplicas. PEAKS: what adding up each HPA's own peak would say. ABOVE: "
    "time above the tightest quota, FIRST when it begins, ROOM: the least that is left. HPAS: in "
    "the sum without maxReplicas, of all. Other pods of a namespace are not in it."
)
_HPAS_LEGEND: Final = (
    "P50 to PEAK: desired replicas without maxReplicas. MAX OK, MIN OK: the bounds that would have "
    "sufficed. AT MAX: time at today's maxReplicas, HELD: of that while the metrics asked for more,"
    " FIRST: since when. MONTH: cost of 30 days, today and without maxReplicas. >: at least so "
    "much, its work is only a lower bound. ?: not to be relied on."
)


def to_table(
    plan: CapacityPlan,
    written: Sequence[str] = (),
    width: int | None = None,
    *,
    styled: bool = False,
) -> str:
    """Return the text for people; `width` None: no terminal, so nothing is cut or wrapped."""
    return drawn((*_parts(plan), *written), width, styled=styled)


def _parts(plan: CapacityPlan) -> Iterator[RenderableType]:
    yield evidence_lines(plan.evidence)[0].split(";")[0]
    yield (
        "planned by simulation with maxReplicas removed (docs/plan.md); growth "
        f"{plan.evidence['growth']}, scenario {plan.evidence.get('scenario', 'none')}, seed "
        f"{plan.evidence['seed']}"
    )
    yield ""
    yield _sums_table(plan.totals)
    left = len(_ranked(plan.totals, _many(plan.totals))) - SHOWN_ROWS
    if left > 0:
        yield f"… and {left} more rows: --totals FILE has all"
    yield _SUMS_LEGEND
    yield ""
    yield _hpas_table(plan.hpas)
    if plan.hpas.height > SHOWN_ROWS:
        yield f"… and {plan.hpas.height - SHOWN_ROWS} more rows: --output csv shows all"
    yield _HPAS_LEGEND
    yield ""
    yield from _unusable(plan)


def _unusable(plan: CapacityPlan) -> Iterator[str]:
    """Yield which HPAs cannot be planned and why."""
    refused = plan.hpas.filter(~pl.col("usable")).unique(
        ["cluster", "namespace", "hpa"], keep="first", maintain_order=True
    )
    if refused.height:
        yield f"not to be relied on ({refused.height} HPAs, under one growth or more):"
        many = many_clusters(plan.hpas)
        for row in refused.head(SHOWN_REASONS).iter_rows(named=True):
            name = label(row["cluster"], row["namespace"], row["hpa"], with_cluster=many)
            yield f"  {printable(name)}: {printable_line(row['why_not'])}"
        if refused.height > SHOWN_REASONS:
            yield f"  … and {refused.height - SHOWN_REASONS} more: why_not in --output csv"
    if plan.skipped:
        yield f"not planned: {len(plan.skipped)} HPAs (why: on stderr)"


# ---- sums


def _sums_table(totals: pl.DataFrame) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("SCOPE", overflow="fold")
    table.add_column("WHAT", no_wrap=True)
    has_quota = totals["quota"].null_count() < totals.height
    names = ["GROWTH", "HPAS", "TODAY", "P50", "P95", "P99", "MAX", "PEAKS"]
    names += ["QUOTA", "ABOVE", "FIRST", "ROOM"] if has_quota else []
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    many = _many(totals)
    for row, today in _shown(totals, many):
        money = row["resource"] == "money"
        cells = [
            f"{row['growth']:g}",
            f"{row['hpas']}/{row['of']}",
            _number(today["month_total" if money else "max"]),
            *("" if money else _number(row[name]) for name in ("p50", "p95", "p99")),
            _number(row["month_total" if money else "max"]),
            _number(row["sum_of_peaks"]),
        ]
        if has_quota:
            cells += [
                _number(row["quota"]),
                _percent(row["exceeded_pct"]),
                _time(row["first_exceeded"]),
                _number(row["lowest_headroom"]),
            ]
        what = f"{row['unit']}/month" if money else _NAMES[row["resource"]]
        table.add_row(Text(printable(_scope(row, many))), what, *cells)
    return table


def _many(totals: pl.DataFrame) -> bool:
    """Say whether the sums are of several clusters."""
    return totals.filter(pl.col("scope") == "cluster")["cluster"].n_unique() > 1


def _shown(
    totals: pl.DataFrame, many: bool
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Yield rows without maxReplicas and those of today beside: the fleet, then the tightest."""
    yield from _ranked(totals, many)[:SHOWN_ROWS]


def _ranked(totals: pl.DataFrame, many: bool) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Return all rows in the order of `_rank`; sums of clusters only where there are many."""
    keys = ["growth", "scope", "cluster", "namespace", "covers", "resource"]
    every = totals.filter(pl.col("covers") == "all")
    today = every.filter(pl.col("bounds") == "today")
    other = every.filter(pl.col("bounds") == "unclamped")
    pairs = list(zip(other.to_dicts(), today.to_dicts(), strict=True))
    assert other.select(keys).equals(today.select(keys))  # two halves of the same order
    ranked = [
        (_rank(row), k, row, old)
        for k, (row, old) in enumerate(pairs)
        if (row["hpas"] or old["hpas"]) and (many or row["scope"] != "cluster")
    ]
    return [(row, old) for *_, row, old in sorted(ranked, key=lambda item: item[:2])]


def _rank(row: Mapping[str, Any]) -> tuple[float, float]:
    """Order rows: fleet, clusters, namespaces by how little of a quota is left, then the others."""
    if row["scope"] != "namespace":
        return (0.0 if row["scope"] == "fleet" else 1.0), 0.0
    quota, room = row["quota"], row["lowest_headroom"]
    if quota is None or room is None:
        return 3.0, 0.0
    return 2.0, room / quota if quota > 0 else -1.0


def _scope(row: Mapping[str, object], many: bool) -> str:
    parts = [row["cluster"] if many or row["scope"] == "cluster" else None, row["namespace"]]
    return "/".join(str(part) for part in parts if part is not None) or "fleet"


# ---- HPAs


def _hpas_table(hpas: pl.DataFrame) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("HPA", overflow="fold")
    priced = hpas["month"].null_count() < hpas.height
    for name in (
        "GROWTH",
        "MIN",
        "MAX",
        *("P50", "P95", "P99", "PEAK", "MAX OK", "MIN OK", "AT MAX", "HELD", "FIRST"),
        *(["MONTH", "WITHOUT"] if priced else []),
        "",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    many = many_clusters(hpas)
    keys = ["cluster", "namespace", "hpa"]
    worst = hpas.group_by(keys).agg(
        held=pl.col("held_minutes").max(), at=pl.col("at_max_pct").max()
    )
    ordered = hpas.join(worst, on=keys, maintain_order="left").sort(
        ["held", "at", *keys, "growth"], descending=[True, True, *[False] * 4]
    )
    for row in ordered.head(SHOWN_ROWS).iter_rows(named=True):
        least = ">" if row["censored_pct"] > CENSORED_PCT else ""
        name = label(row["cluster"], row["namespace"], row["hpa"], with_cluster=many)
        sizes = (row[f"desired_{n}"] for n in ("p50", "p95", "p99", "max"))
        table.add_row(
            Text(printable(name)),
            f"{row['growth']:g}",
            str(row["min_replicas"]),
            str(row["max_replicas"]),
            *(f"{least}{size:,}" for size in sizes),
            "none" if row["max_sufficient"] is None else f"{least}{row['max_sufficient']:,}",
            "none" if row["min_sufficient"] is None else f"{row['min_sufficient']:,}",
            _percent(row["at_max_pct"]),
            _minutes(row["held_minutes"]),
            _time(row["first_at_max"]),
            *([_number(row["month"]), _number(row["month_unclamped"])] if priced else []),
            "" if row["usable"] else "?",
        )
    return table


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value == round(value) or abs(value) >= 1000 else f"{value:,.1f}"


def _percent(value: float | None) -> str:
    if value is None:
        return ""
    return "-" if value == 0 else "<1%" if value < 0.5 else f"{value:.0f}%"


def _minutes(value: float) -> str:
    if value == 0:
        return "-"
    return f"{value:,.0f}m" if value < 600 else f"{value / 60:,.0f}h"


def _time(value: object) -> str:
    return f"{value:%Y-%m-%d %H:%M}" if isinstance(value, datetime) else ""


# ---- other forms


def _texts(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame whose instants are RFC 3339 texts."""
    return frame.with_columns(pl.col(pl.Datetime("ms", "UTC")).dt.strftime(TIME_FORMAT))


def to_json(plan: CapacityPlan, written: Sequence[str] = ()) -> str:
    """Return one JSON object: evidence, both frames row by row, what was skipped and why."""
    parts = {
        "evidence": json.dumps(plan.evidence, indent=2),
        "hpas": json_rows(_texts(plan.hpas).iter_rows(named=True)),
        "totals": json_rows(_texts(plan.totals).iter_rows(named=True)),
        "skipped": json_rows(
            {"cluster": s.cluster, "namespace": s.namespace, "hpa": s.hpa, "reason": s.reason}
            for s in plan.skipped
        ),
        "warnings": json.dumps(list(plan.notes), indent=2),
        "written": json.dumps(list(written)),
    }
    body = ",\n".join(f'"{name}": {text}' for name, text in parts.items())
    return f"{{\n{body}\n}}\n"


def to_csv(frame: pl.DataFrame) -> str:
    """Return a frame as CSV with a header; an absent value is empty."""
    return frame_csv(_texts(frame))


def to_parquet(frame: pl.DataFrame, evidence: Mapping[str, str]) -> bytes:
    """Return a frame as a Parquet file, with the evidence in its metadata."""
    buffer = io.BytesIO()
    write_parquet(frame, evidence, buffer)
    return buffer.getvalue()
