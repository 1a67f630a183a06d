"""What `hpabatch sweep` found, as a table, JSON, CSV or Parquet: one row per HPA."""

from __future__ import annotations

import io
import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from hpabatch.engine.sweep.result import SweepResult
from hpabatch.engine.sweep.summary import summarize_sweep
from hpabatch.jobs.parquet import write_parquet
from hpabatch.model.printable import printable, printable_line
from hpabatch.report.console import drawn
from hpabatch.report.extras import json_rows
from hpabatch.report.replay import evidence_lines
from hpabatch.report.texts import frame_csv, label, many_clusters

if TYPE_CHECKING:
    from rich.console import RenderableType

SHOWN_ROWS: Final = 40
_LEGEND: Final = (
    "Per week, as today: PODS pod-hours, COST what they cost, SAT minutes with pods at their "
    "ceiling, UNSERVED work cut off (times seconds), MOVES rescales. CHEAPEST: the setting that "
    "costs least of those with no more SAT, UNSERVED and waiting work than today, over the whole "
    "time: a hint, no advice. -: not known. ?: not to be relied on."
)


@dataclass(frozen=True, slots=True)
class SweepReport:
    """A sweep, and where it is."""

    result: SweepResult
    out: str


def to_table(report: SweepReport, width: int | None = None, *, styled: bool = False) -> str:
    """Return the text for people; `width` None: no terminal, so nothing is cut or wrapped."""
    return drawn(_parts(report), width, styled=styled)


def _parts(report: SweepReport) -> Iterator[RenderableType]:
    result = report.result
    settings, hpas = result.settings.height, result.hpas.height
    units, unit = result.hpas["unit"].n_unique(), result.parameters["block"]["unit"]
    yield evidence_lines(result.evidence)[0].split(";")[0]
    yield (
        f"swept: {_count(hpas, 'HPA')} in {_count(units, 'unit')}, {_count(settings, 'setting')} "
        f"(0 is today's), judged by the {unit}; the rules are exact, the pods and their work are "
        "modelled (docs/simulation.md)"
    )
    yield ""
    yield _table(summarize_sweep(result))
    if hpas > SHOWN_ROWS:
        yield f"… and {_count(hpas - SHOWN_ROWS, 'more HPA')}: --output csv shows all"
    yield _LEGEND
    yield ""
    if result.parameters["skipped"]:
        yield f"skipped: {_count(len(result.parameters['skipped']), 'HPA')} (why: on stderr)"
    yield printable_line(f"{report.out}: settings, hpas, results and blocks as Parquet; go on with")
    # (without recorded limits nobody knows when pods are at their ceiling)
    knows = result.hpas["ceiling"].is_in(["recorded", "given"]).any()
    measure = "saturated_minutes" if knows else "short_pod_hours"
    out = shlex.quote(report.out)
    yield printable_line(f"  hpabatch recommend {out} --slo '{measure}<10/week'")
    yield printable_line(f"  hpabatch plot {out} --front --out pictures/")


def _table(summary: pl.DataFrame) -> RenderableType:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    priced = summary["cost_per_week"].null_count() < summary.height
    table.add_column("HPA", overflow="fold")
    names = ["SETTINGS", "DAYS", "PODS", *(["COST"] if priced else []), "SAT", "UNSERVED", "MOVES"]
    for name in names:
        table.add_column(name, justify="right")
    table.add_column("SAVES", justify="right")
    table.add_column("CHEAPEST", overflow="fold")
    many = many_clusters(summary)
    for row in summary.head(SHOWN_ROWS).iter_rows(named=True):
        name = label(row["cluster"], row["namespace"], row["hpa"], with_cluster=many)
        mark = "" if row["usable"] else " ?"
        cells = [str(row["settings"]), _number(row["days"]), _number(row["pod_hours_per_week"])]
        cells += [_number(row["cost_per_week"])] if priced else []
        cells += [_number(row[f"{n}_per_week"]) for n in _HARM]
        saving = row["saving_pct"]
        cells += ["-" if saving is None else f"{saving:.1f}%", row["cheapest"] or "-"]
        table.add_row(printable(name + mark), *map(printable, cells))
    return table


_HARM: Final = ("saturated_minutes", "unserved", "rescales")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}"


def to_json(report: SweepReport) -> str:
    """Return evidence, parameters, settings and one row per HPA as one JSON object."""
    result = report.result
    found: dict[str, Any] = {
        "out": report.out,
        "evidence": result.evidence,
        "parameters": result.parameters,
    }
    about = json.dumps(found, indent=1)[:-2]
    settings = json_rows(result.settings.iter_rows(named=True))
    hpas = json_rows(summarize_sweep(result).iter_rows(named=True))
    return f'{about},\n "settings": {settings},\n "hpas": {hpas}\n}}\n'


def to_csv(report: SweepReport) -> str:
    """Return one row per HPA as CSV."""
    return frame_csv(summarize_sweep(report.result))


def to_parquet(report: SweepReport) -> bytes:
    """Return one row per HPA as Parquet, with the evidence in the metadata."""
    sink = io.BytesIO()
    write_parquet(summarize_sweep(report.result), report.result.evidence, sink)
    return sink.getvalue()
