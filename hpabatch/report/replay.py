"""What `hpabatch replay` found, as a table, JSON, CSV or Parquet; and the file of decisions.

Every `to_*` function is a pure function of a `ReplayReport`. The table is text for people, JSON is
everything but the decisions, CSV and Parquet are the summary: one row per HPA.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import polars as pl

from hpabatch.engine.summary import KEY, FleetTotals

if TYPE_CHECKING:
    from rich.console import RenderableType

    from hpabatch.engine.candidates import Skipped

EVIDENCE_KEY: Final = "hpabatch.evidence"
"""Name in a Parquet file's key-value metadata: the evidence as a JSON object of texts."""

ROW_GROUP_ROWS: Final = 1 << 20
COMPRESSION_LEVEL: Final = 3  # 1.25 bytes a row at 3.5 M rows/s; 6 saves a tenth
SHOWN_HPAS: Final = 20
PLAIN_WIDTH: Final = 100_000  # characters; off a terminal nothing is cut or wrapped

_TIME_FORMAT = "%Y-%m-%dT%H:%M:%S%.3fZ"
_PROOFS: Final = {
    "proved": "proved",
    "checked live": "checked on live clusters",
    "from sources": "written from the sources, not checked",
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
    """Everything that is told about a replay; `out` is the path of the file of decisions."""

    evidence: Mapping[str, str]
    totals: FleetTotals
    summary: pl.DataFrame
    attention: pl.DataFrame
    skipped: Sequence[Skipped]
    warnings: Sequence[str]
    out: str


def label(cluster: str, namespace: str, hpa: str, *, with_cluster: bool = False) -> str:
    """Return `namespace/hpa`, with the cluster in front where there are several."""
    return "/".join(part for part in (cluster if with_cluster else "", namespace, hpa) if part)


def printable(text: str) -> str:
    """Return text without control characters, which could drive the reader's terminal."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


# ---- table --------------------------------------------------------------------------------------


def to_table(report: ReplayReport, width: int | None = None, *, styled: bool = False) -> str:
    """Return the text for people.

    Args:
        report: what to tell.
        width: of the terminal, in characters; None: no terminal, so nothing is cut or wrapped.
        styled: with ANSI styles.
    """
    from rich.console import Console

    console = Console(
        file=io.StringIO(),
        width=width or PLAIN_WIDTH,
        force_terminal=styled,
        no_color=not styled,
        color_system="standard" if styled else None,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    with console.capture() as capture:
        for part in _parts(report):
            console.print(part)
    return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())


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
    if report.attention.is_empty():
        yield "Nothing stands out: no HPA is most worth a look."
    else:
        yield f"Most worth a look ({report.attention.height}):"
        yield _attention_table(report.attention, _many_clusters(report.summary))
    yield ""
    if report.skipped:
        skipped = len(report.skipped)
        yield f"skipped: {skipped} HPA{'s' * (skipped > 1)} (why: on stderr)"
    yield f"decisions: {report.out}"


def evidence_lines(evidence: Mapping[str, str]) -> list[str]:
    """Return two lines: the rules and how they are proved; the parameters and their sources."""
    proof = evidence.get("k8s_evidence", "")
    words = " ".join(
        part for part in (_PROOFS.get(proof, proof), evidence.get("k8s_proof")) if part
    )
    events = evidence.get("events", "")
    parameters = [
        f"{name.replace('_', ' ')} {_humane(evidence[name])}"
        for name in ("sync_period", "phase", "delay", "max_age")
        if name in evidence
    ]
    return [
        f"rules of Kubernetes {evidence.get('k8s', '?')} ({words}); {_EVENTS.get(events, events)}",
        ", ".join(parameters),
    ]


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
    many = _many_clusters(summary)
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


def _many_clusters(summary: pl.DataFrame) -> bool:
    return summary["cluster"].n_unique() > 1


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
        "hpas": _json_rows(_with_time_texts(report.summary).iter_rows(named=True)),
        "attention": _json_rows(report.attention.iter_rows(named=True)),
        "skipped": _json_rows(
            {"cluster": s.cluster, "namespace": s.namespace, "hpa": s.hpa, "reason": s.reason}
            for s in report.skipped
        ),
        "warnings": json.dumps(list(report.warnings), indent=2),
        "out": json.dumps(report.out),
    }
    body = ",\n".join(f'"{name}": {text}' for name, text in parts.items())
    return f"{{\n{body}\n}}\n"


def _json_rows(rows: Iterable[Mapping[str, object]]) -> str:
    """Return a JSON array with one object a line."""
    lines = ",\n".join(json.dumps(dict(row), allow_nan=False) for row in rows)
    return f"[\n{lines}\n]" if lines else "[]"


def _with_time_texts(summary: pl.DataFrame) -> pl.DataFrame:
    return summary.with_columns(pl.col("first_ts", "last_ts").dt.strftime(_TIME_FORMAT))


def to_csv(report: ReplayReport) -> str:
    """Return the summary as CSV with a header; an absent value is empty."""
    return _with_time_texts(report.summary).write_csv()


def to_parquet(report: ReplayReport) -> bytes:
    """Return the summary as a Parquet file, with the evidence in its metadata."""
    buffer = io.BytesIO()
    write_parquet(report.summary, report.evidence, buffer)
    return buffer.getvalue()


def write_parquet(frame: pl.DataFrame, evidence: Mapping[str, str], sink: Path | IO[bytes]) -> None:
    """Write a frame as Parquet: zstd, texts by dictionary, evidence under `EVIDENCE_KEY`.

    The same rows and evidence give the same bytes with the same versions of this package and
    pyarrow. Rows are converted a row group at a time.

    Raises:
        OSError: the file cannot be written.
    """
    import pyarrow.parquet as pq

    schema = _arrow_schema(frame)
    with pq.ParquetWriter(
        sink,
        schema,
        compression="zstd",
        compression_level=COMPRESSION_LEVEL,
        use_dictionary=[name for name, dtype in frame.schema.items() if _is_text(dtype)],
        # Times and sizes change little from row to row: differences pack to a few bits.
        column_encoding={
            name: "DELTA_BINARY_PACKED"
            for name, dtype in frame.schema.items()
            if dtype.is_integer() or dtype.is_temporal()
        },
        store_schema=False,
        write_page_checksum=True,
    ) as writer:
        writer.add_key_value_metadata({EVIDENCE_KEY: json.dumps(dict(evidence), sort_keys=True)})
        for first in range(0, max(frame.height, 1), ROW_GROUP_ROWS):
            rows = frame.slice(first, ROW_GROUP_ROWS).rechunk().to_arrow().cast(schema)
            writer.write_table(rows.combine_chunks(), row_group_size=ROW_GROUP_ROWS)


def _is_text(dtype: pl.DataType) -> bool:
    return dtype in (pl.String, pl.Categorical, pl.Enum)


def _arrow_schema(frame: pl.DataFrame) -> Any:
    import pyarrow as pa

    def kind(dtype: pl.DataType) -> Any:
        if _is_text(dtype):
            return pa.string()
        if dtype.is_integer():
            return pa.int64()
        if dtype.is_temporal():
            return pa.timestamp("ms", tz="UTC")
        return pa.bool_() if dtype == pl.Boolean() else pa.float64()

    return pa.schema([pa.field(name, kind(dtype)) for name, dtype in frame.schema.items()])
