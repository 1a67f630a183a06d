"""What `hpabatch simulate` found, as a table, JSON, CSV or Parquet."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from hpabatch.jobs.parquet import write_parquet
from hpabatch.model.printable import printable, printable_line
from hpabatch.report.console import drawn
from hpabatch.report.extras import json_rows
from hpabatch.report.replay import evidence_lines
from hpabatch.report.texts import frame_csv, label, many_clusters

if TYPE_CHECKING:
    from rich.console import RenderableType

    from hpabatch.engine.fit.workload import Fact
    from hpabatch.engine.fleet.candidates import Skipped

SHOWN_ROWS: Final = 40
Facts = Mapping[tuple[str, str, str], Sequence["Fact"]]

_LEGEND: Final = (
    "CAP: the work that one pod is meant to do (*: assumed). PODS, COST: pod-hours and what "
    "they cost. SHORT: time with fewer serving pods than the work asks for. θU, θO: how far too "
    "few, or too many, there are (SPEC RG). SAT: minutes in which pods are at their ceiling. "
    "UNSERVED: work left undone, or waiting where it queues (times seconds). MOVES: rescales, "
    "TURNS those against the last one. MAX: minutes at maxReplicas while the metrics ask for "
    "more. REGRET: surplus and missing pod-hours, in percent of a perfect forecast's. SPEED-UP: "
    "elastic speed-up against the recorded setting. ?: not to be relied on."
)


@dataclass(frozen=True, slots=True)
class SimulateReport:
    """Everything that is told about a simulation; `written` are the places of files."""

    evidence: Mapping[str, str]
    measures: pl.DataFrame
    facts: Mapping[tuple[str, str, str], Sequence[Fact]]
    skipped: Sequence[Skipped]
    warnings: Sequence[str]
    written: Sequence[str] = ()


def to_table(report: SimulateReport, width: int | None = None, *, styled: bool = False) -> str:
    """Return the text for people; `width` None: no terminal, so nothing is cut or wrapped."""
    return drawn(_parts(report), width, styled=styled)


def _parts(report: SimulateReport) -> Iterator[RenderableType]:
    yield evidence_lines(report.evidence)[0].split(";")[0]
    yield (
        "simulated: the rules are exact, the pods and their work are modelled (docs/simulation.md);"
        f" scenario {report.evidence.get('scenario', 'none')}, seed {report.evidence['seed']}"
    )
    yield ""
    if report.measures.is_empty():
        yield "No HPA could be simulated (why: on stderr)."
        return
    yield from _totals(report.measures)
    yield ""
    yield _table(report.measures, report.facts)
    if report.measures.height > SHOWN_ROWS:
        yield f"… and {report.measures.height - SHOWN_ROWS} more rows: --output csv shows all"
    yield _LEGEND
    refused = report.measures.filter(~pl.col("usable"))
    if refused.height:
        yield ""
        yield f"not to be relied on ({refused.height} rows, why_not in --output csv); the first:"
        yield from (f"  {line}" for line in _reasons(refused))
    yield ""
    if report.skipped:
        yield f"skipped: {len(report.skipped)} HPAs (why: on stderr)"
    yield from report.written


def _reasons(refused: pl.DataFrame) -> Iterator[str]:
    many = many_clusters(refused)
    for row in (
        refused.unique(["cluster", "namespace", "hpa"], maintain_order=True)
        .head(5)
        .iter_rows(named=True)
    ):
        name = label(row["cluster"], row["namespace"], row["hpa"], with_cluster=many)
        yield f"{printable(name)}: {printable_line(row['why_not'])}"


def _totals(measures: pl.DataFrame) -> Iterator[str]:
    """Yield one line per setting with the fleet's sums."""
    for setting in measures["setting"].unique(maintain_order=True):
        rows = measures.filter(pl.col("setting") == setting)
        cost = rows["cost"].sum() if rows["cost"].null_count() < rows.height else None
        priced = rows.height - rows["cost"].null_count()
        part = "" if priced == rows.height else f" (of {priced} HPAs whose requests are known)"
        money = f", {cost:,.2f} {rows['currency'][0]}{part}" if cost is not None else ""
        minutes = float(rows["saturated_minutes"].sum())
        yield (
            f"{setting}: {rows.height} HPAs, {rows['pod_hours'].sum():,.1f} pod-hours{money}, "
            f"{rows['rescales'].sum():,} rescales, {minutes:,.0f} saturated minutes"
        )


def _table(measures: pl.DataFrame, report_facts: Facts) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    priced = measures["cost"].null_count() < measures.height
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("HPA", overflow="fold")
    table.add_column("SETTING", no_wrap=True)
    for name in (
        "CAP",
        "PODS",
        *(["COST"] if priced else []),
        "SHORT",
        "θU",
        "θO",
        "SAT",
        "UNSERVED",
        "MOVES",
        "TURNS",
        "MAX",
        "REGRET",
        "SPEED-UP",
        "",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    many = many_clusters(measures)
    order = measures.group_by("cluster", "namespace", "hpa").agg(most=pl.col("pod_hours").max())
    largest = measures.join(order, on=["cluster", "namespace", "hpa"], maintain_order="left").sort(
        ["most", "cluster", "namespace", "hpa"],
        descending=[True, False, False, False],
        maintain_order=True,
    )
    for row in largest.head(SHOWN_ROWS).iter_rows(named=True):
        name = label(row["cluster"], row["namespace"], row["hpa"], with_cluster=many)
        table.add_row(
            Text(printable(name)),
            row["setting"],
            _capacity(row, report_facts),
            f"{row['pod_hours']:.1f}",
            *([_number(row["cost"], 2)] if priced else []),
            _percent(row["tau_u_pct"]),
            _percent(row["theta_u_pct"]),
            _percent(row["theta_o_pct"]),
            _number(row["saturated_minutes"], 0),
            _number(row["unserved"] if row["waiting"] is None else row["waiting"], 0),
            str(row["rescales"]),
            str(row["reversals"]),
            _number(row["at_max_minutes"], 0),
            _percent(row["regret_pct"]),
            _number(row["elastic_speedup"], 2),
            "" if row["usable"] else "?",
        )
    return table


def _capacity(row: Mapping[str, object], facts: Facts) -> str:
    """Return what one pod is meant to do, with its unit; `*`: assumed."""
    key = str(row["cluster"]), str(row["namespace"]), str(row["hpa"])
    found = next((f for f in reversed(facts.get(key, ())) if f.name == "capacity"), None)
    if found is None or found.value is None:
        return ""
    return f"{found.value:.3g} {found.unit}".strip() + ("*" if found.source == "assumed" else "")


def _number(value: float | None, digits: int) -> str:
    if not value:
        return "" if value is None else "-"
    return f"{value:,.{digits}f}"


def _percent(value: float | None) -> str:
    if not value:
        return "" if value is None else "-"
    return "<1%" if 0 < value < 0.5 else f"{value:.0f}%"


def to_json(report: SimulateReport) -> str:
    """Return one JSON object: evidence, a row per HPA and setting, the plants' parameters."""
    facts = [
        {"cluster": key[0], "namespace": key[1], "hpa": key[2], **asdict(fact)}
        for key, theirs in report.facts.items()
        for fact in theirs
    ]
    parts = {
        "evidence": json.dumps(dict(report.evidence), indent=2),
        "hpas": json_rows(report.measures.iter_rows(named=True)),
        "parameters": json_rows(facts),
        "skipped": json_rows(
            {"cluster": s.cluster, "namespace": s.namespace, "hpa": s.hpa, "reason": s.reason}
            for s in report.skipped
        ),
        "warnings": json.dumps(list(report.warnings), indent=2),
        "written": json.dumps(list(report.written)),
    }
    body = ",\n".join(f'"{name}": {text}' for name, text in parts.items())
    return f"{{\n{body}\n}}\n"


def to_csv(report: SimulateReport) -> str:
    """Return one row per HPA and setting as CSV with a header; an absent value is empty."""
    return frame_csv(report.measures)


def to_parquet(report: SimulateReport) -> bytes:
    """Return one row per HPA and setting as a Parquet file, with the evidence in its metadata."""
    buffer = io.BytesIO()
    write_parquet(report.measures, report.evidence, buffer)
    return buffer.getvalue()
