"""What `hpabatch replay` found, as a table, JSON, CSV or Parquet; and the file of decisions.

Every `to_*` function is a pure function of a `ReplayReport`. The table is text for people, JSON is
everything but the decisions, CSV and Parquet are the summary: one row per HPA.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from hpabatch.engine.replay.summary import KEY, FleetTotals
from hpabatch.jobs.parquet import write_parquet
from hpabatch.model.printable import printable
from hpabatch.report.console import drawn
from hpabatch.report.extras import (
    json_rows,
    score_json,
    score_parts,
    sensitivity_json,
    sensitivity_parts,
)
from hpabatch.report.texts import frame_csv, label, many_clusters

if TYPE_CHECKING:
    from rich.console import RenderableType

    from hpabatch.engine.fleet.candidates import Skipped
    from hpabatch.engine.replay.score import Score

SHOWN_HPAS: Final = 20

_TIME_FORMAT = "%Y-%m-%dT%H:%M:%S%.3fZ"
_PROOFS: Final = {
    "proved": "proved",
    "checked live": "checked on live clusters",
    "from sources": "from sources",
}
_EVENTS: Final = {
    "recorded": "policy budgets spent by the recorded changes",
    "decided": "policy budgets spent by the replay's own decisions",
}
_LEGEND: Final = (
    "REAL, RULES: mean size recorded, and as the rules decide. SAME: decisions equal to what was"
    " recorded. TURNS: decided moves against the direction of the last one. Ticks held by MIN,"
    " MAX: minReplicas, maxReplicas; HELD: a window, a policy or a disabled direction. FAIL: ticks"
    " with a failed metric."
)
_HELD: Final = (
    "window_up_share",
    "window_down_share",
    "policy_up_share",
    "policy_down_share",
    "disabled_up_share",
    "disabled_down_share",
)


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """Everything that is told about a replay; `out` is the path of the decisions.

    Score and sensitivity are told where they are there. `unranked`: nobody asked for attention.
    """

    evidence: Mapping[str, str]
    totals: FleetTotals
    summary: pl.DataFrame
    attention: pl.DataFrame
    skipped: Sequence[Skipped]
    warnings: Sequence[str]
    out: str
    score: Score | None = None
    sensitivity: pl.DataFrame | None = None
    unranked: bool = False


# ---- table --------------------------------------------------------------------------------------


def to_table(report: ReplayReport, width: int | None = None, *, styled: bool = False) -> str:
    """Return the text for people.

    Args:
        report: what to tell.
        width: of the terminal, in characters; None: no terminal, so nothing is cut or wrapped.
        styled: with ANSI styles.
    """
    return drawn(_parts(report), width, styled=styled)


def _parts(report: ReplayReport) -> Iterator[RenderableType]:
    yield from evidence_lines(report.evidence)
    yield from total_lines(report.totals)
    yield ""
    yield _summary_table(report.summary)
    if report.summary.height > SHOWN_HPAS:
        more = report.summary.height - SHOWN_HPAS
        yield f"… and {more} smaller HPA{'s' * (more > 1)}: --output csv shows all"
    yield _LEGEND
    yield ""
    if report.unranked:
        yield "Not asked what is most worth a look (--top 0)."
    elif report.attention.is_empty():
        yield "Nothing stands out: no HPA is most worth a look."
    else:
        yield f"Most worth a look ({report.attention.height}):"
        yield _attention_table(report.attention, many_clusters(report.summary))
    yield ""
    if report.score is not None:
        yield from score_parts(report.score)
        yield ""
    if report.sensitivity is not None:
        yield from sensitivity_parts(report.sensitivity)
        yield ""
    if report.skipped:
        skipped = len(report.skipped)
        yield f"skipped: {skipped} HPA{'s' * (skipped > 1)} (why: on stderr)"
    yield f"decisions: {report.out}"


def evidence_lines(evidence: Mapping[str, str]) -> list[str]:
    """Return two lines: the rules and how they are proved; the parameters and their sources."""
    name, kind = evidence.get("k8s", "?"), evidence.get("k8s_evidence", "")
    words, proof = _PROOFS.get(kind, kind), evidence.get("k8s_proof")
    if proof and kind in _PROOFS:  # of several versions each is told how well it is proved
        words += f" {proof}" if kind == "proved" else f": {proof}"
    gates = evidence.get("feature_gates")
    events = evidence.get("events", "")
    return [
        f"rules of Kubernetes {name}{f' with {gates}' if gates else ''} ({words}); "
        f"{_EVENTS.get(events, events)}",
        _parameters(evidence),
    ]


def _parameters(evidence: Mapping[str, str]) -> str:
    """Return the parameters that count: of a grid, only where HPAs are decided on it."""
    instants = evidence.get("instants", "grid")
    grid = ("sync_period", "phase") if instants.endswith("grid") else ()
    known = ", ".join(
        f"{name.replace('_', ' ')} {_humane(evidence[name])}"
        for name in (*grid, "delay", "max_age")
        if name in evidence
    )
    return known if instants == "grid" else f"instants: {instants}; {known}"


def _humane(text: str) -> str:
    """Return `15000 ms (assumed)` as `15 s (assumed)`."""
    found = re.match(r"(\d+)000 ms\b", text)
    return f"{found[1]} s{text[found.end() :]}" if found else text


def total_lines(totals: FleetTotals) -> list[str]:
    """Return the fleet's sums as lines."""
    applied, decided = totals.applied_replica_hours, totals.decided_replica_hours
    lines = [f"{totals.hpas:,} HPA{'s' * (totals.hpas != 1)}, {totals.ticks:,} decisions"]
    if totals.first_ts and totals.last_ts:
        lines[0] += f" from {_short(totals.first_ts)} to {_short(totals.last_ts)}"
    change = f" ({(decided - applied) / applied:+.1%})" if applied else ""
    lines.append(f"replica-hours: {applied:,.1f} recorded, {decided:,.1f} decided{change}")
    if totals.agreement_share is not None:
        lines[-1] += f"; the same size in {totals.agreement_share:.1%} of the decisions"
    if totals.undecided_share:
        lines.append(
            f"no decision was possible in {totals.undecided_share:.1%} of the ticks "
            "(metrics, selector or scale were not usable)"
        )
    return lines


def _short(time: str) -> str:
    return time.replace(".000Z", "Z")


def _summary_table(summary: pl.DataFrame) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("HPA", overflow="fold")
    for name in ("RANGE", "REAL", "RULES", "SAME", "TURNS", "MIN", "MAX", "HELD", "FAIL"):
        table.add_column(name, justify="right", no_wrap=True)
    many = many_clusters(summary)
    largest = summary.sort(
        ["applied_replica_hours", *KEY], descending=[True, False, False, False], nulls_last=True
    )
    for row in largest.head(SHOWN_HPAS).iter_rows(named=True):
        name = label(row["cluster"], row["namespace"], row["hpa"], with_cluster=many)
        table.add_row(
            Text(printable(name)),
            f"{row['min_replicas']}-{row['max_replicas']}",
            _number(row["applied_mean"]),
            _number(row["decided_mean"]),
            _percent(row["agreement_share"]),
            str(row["reversals"]),
            _percent(row["at_min_share"]),
            _percent(row["at_max_share"]),
            _percent(sum(row[name] for name in _HELD)),
            _percent(row["invalid_share"]),
        )
    return table


def _attention_table(attention: pl.DataFrame, many: bool) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(ratio=1)
    for row in attention.iter_rows(named=True):
        name = label(row["cluster"], row["namespace"], row["hpa"], with_cluster=many)
        table.add_row(
            str(row["rank"]), Text(printable(name), style="bold"), Text(printable(row["why"]))
        )
    return table


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _percent(value: float | None) -> str:
    """Return a share in percent; what is not quite 0 or 100 does not look like it."""
    if not value:
        return "" if value is None else "-"
    if 0 < value < 0.005:
        return "<1%"
    return f"{min(round(value * 100), 99)}%" if value < 1 else "100%"


# ---- JSON, CSV, Parquet --------------------------------------------------------------------------


def to_json(report: ReplayReport) -> str:
    """Return one JSON object; times are RFC 3339 texts, absent values null."""
    parts = {
        "evidence": json.dumps(dict(report.evidence), indent=2),
        "totals": json.dumps(report.totals._asdict(), indent=2, allow_nan=False),
        "hpas": json_rows(_with_time_texts(report.summary).iter_rows(named=True)),
        "attention": json_rows(report.attention.iter_rows(named=True)),
        "skipped": json_rows(
            {"cluster": s.cluster, "namespace": s.namespace, "hpa": s.hpa, "reason": s.reason}
            for s in report.skipped
        ),
        "warnings": json.dumps(list(report.warnings), indent=2),
        "out": json.dumps(report.out),
    }
    if report.score is not None:
        parts["score"] = score_json(report.score)
    if report.sensitivity is not None:
        parts["sensitivity"] = sensitivity_json(report.sensitivity)
    body = ",\n".join(f'"{name}": {text}' for name, text in parts.items())
    return f"{{\n{body}\n}}\n"


def _with_time_texts(summary: pl.DataFrame) -> pl.DataFrame:
    return summary.with_columns(pl.col("first_ts", "last_ts").dt.strftime(_TIME_FORMAT))


def to_csv(report: ReplayReport) -> str:
    """Return the summary as CSV with a header; an absent value is empty."""
    return frame_csv(_with_time_texts(report.summary))


def to_parquet(report: ReplayReport) -> bytes:
    """Return the summary as a Parquet file, with the evidence in its metadata."""
    buffer = io.BytesIO()
    write_parquet(report.summary, report.evidence, buffer)
    return buffer.getvalue()
