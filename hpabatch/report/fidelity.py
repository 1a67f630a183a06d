"""What `hpabatch fidelity` found, as a table, JSON, CSV or Parquet; and the file of changes.

CSV and Parquet have one row per HPA; JSON has besides every signal's score, and the totals.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import asdict
from itertools import compress
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from hpabatch.engine.fidelity.run import Fidelity
from hpabatch.engine.replay.summary import KEY
from hpabatch.jobs.parquet import write_parquet
from hpabatch.model.printable import printable, printable_line
from hpabatch.report.console import PLAIN_WIDTH, drawn
from hpabatch.report.extras import json_rows
from hpabatch.report.replay import evidence_lines
from hpabatch.report.texts import frame_csv, label, many_clusters

if TYPE_CHECKING:
    from rich.console import RenderableType

SHOWN_HPAS: Final = 40
SHOWN_REASONS: Final = 10

_TIME_FORMAT: Final = "%Y-%m-%dT%H:%M:%S%.3fZ"
_LEGEND: Final = (
    "Controller: recorded RESCALES, PREC: decided ones that were recorded, RECALL: recorded ones "
    "that were decided, SIZES: skill of the sizes around them against a constant. Plant, by the "
    "worst of the signals that the HPA reads: BASE in its units (?: not identified), CHANGES of "
    "ready pods used and found, SKILL of the predicted "
    "usage after them against usage as it was before (1 is perfect, 0 no better, negative worse) "
    "and its 95 % interval, MEDIAN error, BIAS (mean error; + is too much)."
)
# Columns beside the HPA's name, and how wide a terminal must be to have room for them.
_COLUMNS: Final = {
    "RESCALES": 0, "PREC": 0, "RECALL": 0, "SIZES": 100, "SIGNAL": 120, "BASE": 150, "CHANGES": 0,
    "SKILL": 0, "95 %": 150, "MEDIAN": 100, "BIAS": 0, "ADVICE": 0,
}  # fmt: skip


def to_table(found: Fidelity, width: int | None = None, *, styled: bool = False) -> str:
    """Return the text for people; `width` None: no terminal, so nothing is cut or wrapped."""
    return drawn(_parts(found, width or PLAIN_WIDTH), width, styled=styled)


def _parts(found: Fidelity, width: int) -> Iterator[RenderableType]:
    yield from evidence_lines(found.evidence)
    yield ""
    yield from _total_lines(found)
    yield ""
    if found.hpas.height:
        yield _table(found.hpas, width)
        if found.hpas.height > SHOWN_HPAS:
            more = found.hpas.height - SHOWN_HPAS
            yield f"… and {more} with fewer rescales: --output csv shows all"
        yield _LEGEND
    refused = found.hpas.filter(~pl.col("advice"))
    if refused.height:
        yield ""
        first = ", the first of them" if refused.height > SHOWN_REASONS else ""
        yield f"No advice ({refused.height}{first}):"
        yield from _reasons(refused, many_clusters(found.hpas))
    if found.skipped:
        yield ""
        count = len(found.skipped)
        yield f"skipped: {count} HPA{'s' * (count > 1)} (why: on stderr)"


def _total_lines(found: Fidelity) -> Iterator[str]:
    totals, p = found.totals, found.parameters
    yield (
        f"{totals.hpas:,} HPA{'s' * (totals.hpas != 1)}; both scores are good enough for advice on "
        f"{totals.advice:,}"
    )
    controller = totals.controller
    line = f"Controller score: {controller.scored:,} of {totals.hpas:,} HPAs can be scored"
    if controller.recorded_events:
        line += (
            f"; {controller.recorded_events:,} rescales recorded, {controller.decided_events:,} "
            f"decided, {controller.matched_events:,} of them match"
        )
    yield line
    line = (
        f"Plant score: fitted on the first {p.split_share:.0%} of each HPA's ticks, judged on the "
        f"rest: {totals.plant_scored:,} of {totals.hpas:,} HPAs can be scored"
    )
    if totals.changes:
        line += f"; {totals.used:,} of {totals.changes:,} changes can be used"
    yield line
    if totals.pooled is not None and totals.pooled.skill is not None:
        pooled = totals.pooled
        yield (
            f"all changes of divisible work together: skill {_skill(pooled.skill)} "
            f"({_skill(pooled.low)} to {_skill(pooled.high)}), mean error {pooled.error:.1%}, of "
            f"usage as it was before {pooled.persistence_error:.1%}"
        )
    yield (
        f"advice asks for {p.least_rescales} rescales, precision {p.least_precision:g}, recall "
        f"{p.least_recall:g}, skill {p.least_constant_skill:g}; for {p.fewest_changes} changes, "
        f"skill {p.least_skill:g} with its interval above {p.least_skill_low:g}, median error up "
        f"to {p.most_median_error_pct:g} %, bias up to {p.most_bias_pct:g} %"
    )


def _reasons(refused: pl.DataFrame, many: bool) -> Iterator[str]:
    for row in refused.head(SHOWN_REASONS).iter_rows(named=True):
        name = label(row["cluster"], row["namespace"], row["hpa"], with_cluster=many)
        yield f"  {printable(name)}: {printable_line(row['why_not'])}"


def _table(hpas: pl.DataFrame, width: int) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("HPA", overflow="fold")
    shown = [width >= least for least in _COLUMNS.values()]
    for name in compress(_COLUMNS, shown):
        if name == "SIGNAL":
            table.add_column(name, overflow="fold")
        else:
            table.add_column(name, justify="right", no_wrap=True)
    many = many_clusters(hpas)
    most = hpas.sort(["controller_recorded_events", *KEY], descending=[True, False, False, False])
    for row in most.head(SHOWN_HPAS).iter_rows(named=True):
        name = label(row["cluster"], row["namespace"], row["hpa"], with_cluster=many)
        cells = [Text(printable(text)) for text in (name, *compress(_cells(row), shown))]
        table.add_row(*cells)
    return table


def _cells(row: dict[str, Any]) -> Iterator[str]:
    yield f"{row['controller_recorded_events']}"
    yield _share(row["controller_precision"])
    yield _share(row["controller_recall"])
    yield _skill(row["controller_window_constant_skill"])
    yield row["plant_signal"] or "-"
    yield _base(row)
    used, changes = row["plant_used"], row["plant_changes"]
    yield "-" if changes is None else f"{used}/{changes}"
    low, high = row["plant_skill_low"], row["plant_skill_high"]
    yield _skill(row["plant_skill"])
    yield "-" if low is None else f"{_skill(low)} to {_skill(high)}"
    yield _percent(row["plant_median_error_pct"], "")
    yield _percent(row["plant_bias_pct"], "+")
    yield "yes" if row["advice"] else "no"


def _base(row: dict[str, Any]) -> str:
    """Return the base, `?` where it was not identified."""
    if row["plant_base"] is None:
        return "-"
    return "?" if row["plant_base_source"] == "not identified" else f"{row['plant_base']:.4g}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _skill(value: float | None) -> str:
    return "-" if value is None else f"{value:+.2f}"


def _percent(value: float | None, sign: str) -> str:
    return "-" if value is None else f"{value:{sign}.1f}%"


# ---- JSON, CSV, Parquet --------------------------------------------------------------------------


def to_json(found: Fidelity) -> str:
    """Return one JSON object; times are RFC 3339 texts, absent values null."""
    totals = found.totals
    told = totals._asdict() | {
        "controller": totals.controller._asdict(),
        "pooled": None if totals.pooled is None else asdict(totals.pooled),
    }
    signals = found.signals.with_columns(pl.col("split").dt.strftime(_TIME_FORMAT))
    parts = {
        "evidence": json.dumps(dict(found.evidence), indent=2),
        "parameters": json.dumps(asdict(found.parameters), indent=2),
        "totals": json.dumps(told, indent=2, allow_nan=False),
        "hpas": json_rows(found.hpas.iter_rows(named=True)),
        "signals": json_rows(signals.iter_rows(named=True)),
        "skipped": json_rows(
            {"cluster": s.cluster, "namespace": s.namespace, "hpa": s.hpa, "reason": s.reason}
            for s in found.skipped
        ),
        "warnings": json.dumps(list(found.warnings), indent=2),
    }
    body = ",\n".join(f'"{name}": {text}' for name, text in parts.items())
    return f"{{\n{body}\n}}\n"


def to_csv(found: Fidelity) -> str:
    """Return one row per HPA as CSV with a header; an absent value is empty."""
    return frame_csv(found.hpas)


def to_parquet(found: Fidelity) -> bytes:
    """Return one row per HPA as a Parquet file, with the evidence in its metadata."""
    buffer = io.BytesIO()
    write_parquet(found.hpas, found.evidence, buffer)
    return buffer.getvalue()
