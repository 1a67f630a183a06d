"""What `hpabatch compare` found, as a table, JSON, CSV, Parquet, or Markdown for a pull request.

Every `to_*` function is a pure function of a `CompareReport`. Table and Markdown name the HPAs that
differ most, the other forms all of them.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from hpabatch.engine.compare.frames import DECIDES, EXPLAINS, FROM, TO
from hpabatch.engine.compare.loop import WHY_NOT
from hpabatch.engine.compare.run import VERSIONS, Comparison
from hpabatch.engine.compare.sides import LeftOut
from hpabatch.engine.replay.summary import KEY
from hpabatch.jobs.parquet import write_parquet
from hpabatch.model.printable import printable, printable_line
from hpabatch.report.console import drawn
from hpabatch.report.extras import json_rows
from hpabatch.report.replay import evidence_lines
from hpabatch.report.texts import frame_csv, label

if TYPE_CHECKING:
    from rich.console import RenderableType

_TIME_FORMAT: Final = "%Y-%m-%dT%H:%M:%S%.3fZ"
_TIMES: Final = ("first_ts", "most_ts")
_HEADER: Final = ("HPA", "FIRST", "SIZE", "RULE", "TICKS", "MOST", "HOURS", "CHANGED BY")
_RIGHT: Final = ("TICKS", "MOST", "HOURS")
# The columns that tell a difference, the most telling first.
_TELLING: Final = (
    "binding",
    "error",
    "metric",
    "reason",
    "scaling_active",
    "scaling_limited",
    "able_to_scale",
    "proposal",
    "stabilized",
    "limited",
)
_LEGEND: Final = (
    "FIRST: the first tick that differs. SIZE: the size then, and what either side makes of it."
    " RULE: what bound either decision. TICKS: how many differ. MOST: the largest difference of"
    " size. HOURS: difference of the decided sizes over time, in replica-hours."
)
_SIMULATED: Final = (
    "simulated: the rules are exact, the pods and their work are modelled (docs/simulation.md); "
    "?: not to be relied on (why_not in --output json)"
)
_NOT_FOUND: Final = "no single change"


@dataclass(frozen=True, slots=True)
class CompareReport:
    """Everything that is told of a comparison.

    `top` HPAs are named in table and Markdown; `strict`: those that only explain themselves
    differently are among them.
    """

    comparison: Comparison
    top: int = 20
    strict: bool = False


# ---- what is told -------------------------------------------------------------------------------


def headline(comparison: Comparison) -> str:
    """Return the result in one line."""
    before, after = comparison.names
    verb = "decides" if comparison.decide == 1 else "decide"
    line = (
        f"{comparison.decide:,} of {comparison.hpas:,} HPAs {verb} differently "
        f"({before} -> {after})"
    )
    if comparison.explain:
        line += f", {comparison.explain:,} only for another reason"
    if comparison.left_out:
        line += f"; {len(comparison.left_out):,} left out"
    return line


def total_line(comparison: Comparison) -> str:
    """Return sums over all HPAs."""
    rows = comparison.differences
    ticks, hours = rows["ticks_decided"].sum(), rows["replica_hours"].sum()
    return (
        f"{ticks:,} of {comparison.ticks:,} decisions differ; "
        f"decided replica-hours {_signed(float(hours), 1)}"
    )


def _ranked(report: CompareReport) -> pl.DataFrame:
    """Return the rows to name, those with most differing ticks first."""
    rows = report.comparison.differences
    if not report.strict:
        rows = rows.filter(pl.col("differs") == DECIDES)
    order = ["ticks_decided", "ticks_explained", *KEY]
    return rows.sort(order, descending=[True, True, False, False, False])


def _cells(row: Mapping[str, Any], many: bool, causes: str) -> tuple[str, ...]:
    """Return a row of the table, one text for each of `_HEADER`."""
    explains = row["differs"] == EXPLAINS
    return (
        label(row["cluster"], row["namespace"], row["hpa"], with_cluster=many)
        + (" ?" if row.get(WHY_NOT) else ""),
        row["first_ts"].strftime("%Y-%m-%dT%H:%M:%SZ"),
        f"{_text(row['replicas'])}: {_change(row, 'desired')}",
        _telling(row),
        f"{row['ticks_explained' if explains else 'ticks_decided']:,}",
        _signed(row["most"], 0),
        _signed(row["replica_hours"], 1),
        row[causes] or _NOT_FOUND,
    )


def _telling(row: Mapping[str, Any]) -> str:
    """Return what bound the decision on both sides, or what else tells them apart."""
    for name in _TELLING:
        if f"{name}{FROM}" in row and row[f"{name}{FROM}"] != row[f"{name}{TO}"]:
            change = _change(row, name)
            return change if name == "binding" else f"{name} {change}"
    return _text(row[f"binding{FROM}"])


def _change(row: Mapping[str, Any], name: str) -> str:
    ours, theirs = _text(row[f"{name}{FROM}"]), _text(row[f"{name}{TO}"])
    return ours if ours == theirs else f"{ours} -> {theirs}"


def _text(value: object) -> str:
    return "none" if value in (None, "") else str(value)


def _signed(value: float | None, digits: int) -> str:
    """Return a difference with its sign; what is not quite 0 does not look like it."""
    if value is None:
        return ""
    if value == 0:
        return "0"
    text = f"{value:+,.{digits}f}"
    return text if float(text.replace(",", "")) else f"{'+' if value > 0 else '-'}<{10**-digits:g}"


def _grouped(rows: pl.DataFrame) -> list[tuple[int, str]]:
    """Return every cause in words with the number of its HPAs, the most frequent first."""
    counts = rows.group_by("rule").len().sort(["len", "rule"], descending=[True, False])
    return [(int(count), rule or _NOT_FOUND) for rule, count in counts.iter_rows()]


def _many(comparison: Comparison) -> bool:
    """Say whether names need their cluster."""
    clusters = {*comparison.differences["cluster"], *(o.cluster for o in comparison.left_out)}
    return len(clusters - {""}) > 1


# ---- table --------------------------------------------------------------------------------------


def to_table(report: CompareReport, width: int | None = None, *, styled: bool = False) -> str:
    """Return the text for people; `width` None: no terminal, so nothing is cut or wrapped."""
    return drawn(_parts(report), width, styled=styled)


def _parts(report: CompareReport) -> Iterator[RenderableType]:
    comparison, rows = report.comparison, _ranked(report)
    yield from _evidence(comparison.evidence)
    yield ""
    yield headline(comparison)
    if rows.height:
        yield total_line(comparison)
        yield ""
        shown = rows.head(report.top)
        if comparison.compared == VERSIONS:
            yield "What changed:"
            yield from (printable_line(f"  {count:,} × {words}") for count, words in _grouped(rows))
            yield ""
        if shown.height:
            yield _table(shown, comparison)
        if rows.height > shown.height:
            yield f"… and {rows.height - shown.height:,} more: --output csv shows all"
        if shown.height:
            yield _LEGEND
    if comparison.explain and not report.strict:
        yield f"only for another reason: {comparison.explain:,} (--strict names and counts them)"
    if comparison.left_out:
        yield f"left out: {len(comparison.left_out):,} (why: on stderr)"


def _evidence(evidence: Mapping[str, str]) -> Iterator[str]:
    """Yield what either side rests on; what both do once."""
    sides = [evidence_lines(side_evidence(evidence, side)) for side in (FROM, TO)]
    (before, parameters), (after, _) = sides
    (ours, _, events), theirs = before.partition("; "), after.partition("; ")[0]
    if ours == theirs:
        yield f"{evidence['from']} against {evidence['to']}: {ours}"
    else:
        yield from (f"from {ours}", f"to   {theirs}")
    yield f"{events}; {parameters}"
    if "simulation" in evidence:
        yield _SIMULATED


def side_evidence(evidence: Mapping[str, str], side: str) -> dict[str, str]:
    """Return the evidence of one side, `FROM` or `TO`, under the names that a replay's has."""
    other = TO if side == FROM else FROM
    return {k.removesuffix(side): v for k, v in evidence.items() if not k.endswith(other)}


def _table(rows: pl.DataFrame, comparison: Comparison) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in _HEADER:
        folds = name in ("HPA", "RULE", "CHANGED BY")
        table.add_column(
            name,
            justify="right" if name in _RIGHT else "left",
            no_wrap=not folds,
            overflow="fold",
        )
    for cells in _rows(rows, comparison):
        table.add_row(*(Text(printable(cell)) for cell in cells))
    return table


def _rows(rows: pl.DataFrame, comparison: Comparison) -> Iterator[tuple[str, ...]]:
    # A switch is told once above the table, a spec's fields with each HPA.
    causes = "cause" if comparison.compared == VERSIONS else "rule"
    many = _many(comparison)
    return (_cells(row, many, causes) for row in rows.iter_rows(named=True))


# ---- Markdown -----------------------------------------------------------------------------------


def to_markdown(report: CompareReport) -> str:
    """Return GitHub-flavoured Markdown: a headline, what changed, a table, what was left out."""
    comparison, rows = report.comparison, _ranked(report)
    blocks = [f"**{_md(headline(comparison))}**"]
    if rows.height:
        blocks[0] += f"  \n{_md(total_line(comparison))}"
        if comparison.compared == VERSIONS:
            lines = [f"- {count:,} × {_md(words)}" for count, words in _grouped(rows)]
            blocks.append("\n".join(lines))
        shown = rows.head(report.top)
        names = [name.capitalize() if name != "HPA" else name for name in _HEADER]
        if shown.height:
            blocks.append(_md_table(names, _rows(shown, comparison), right=_RIGHT))
        if rows.height > shown.height:
            blocks.append(f"… and {rows.height - shown.height:,} more.")
    if comparison.left_out:
        places = [_left_out_cells(o, _many(comparison)) for o in comparison.left_out[: report.top]]
        blocks.append(_md_table(("Left out", "Side", "Why"), places))
        if len(comparison.left_out) > report.top:
            blocks.append(f"… and {len(comparison.left_out) - report.top:,} more left out.")
    lines = [_md(line) for line in _evidence(comparison.evidence)]
    blocks.append("<sub>" + "<br>".join(lines) + "</sub>")
    return "\n\n".join(blocks) + "\n"


def _left_out_cells(item: LeftOut, many: bool) -> tuple[str, ...]:
    name = label(item.cluster, item.namespace, item.hpa, with_cluster=many)
    return name, item.side, item.reason


def _md_table(
    header: Sequence[str], rows: Iterable[tuple[str, ...]], right: Sequence[str] = ()
) -> str:
    marks = ["---:" if name.upper() in right else "---" for name in header]
    lines = [header, marks, *([_md(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _md(text: str) -> str:
    """Return text as one line of Markdown that shows just that."""
    line = printable_line(text).replace("&", "&amp;").replace("<", "&lt;")
    escaped = "".join(f"\\{c}" if c in "\\`*[]|~@" else c for c in line)
    # GitHub makes links of bare addresses, too.
    escaped = escaped.replace("://", "\\://").replace("www.", "www\\.")
    # An underscore inside of a word is one, before it a mark of emphasis.
    return " ".join(f"\\{w}" if w.startswith("_") else w for w in escaped.split(" "))


# ---- JSON, CSV, Parquet -------------------------------------------------------------------------


def to_json(report: CompareReport) -> str:
    """Return one JSON object; times are RFC 3339 texts, absent values null."""
    comparison = report.comparison
    totals = {
        "hpas": comparison.hpas,
        "ticks": comparison.ticks,
        "decide_differently": comparison.decide,
        "explain_differently": comparison.explain,
        "left_out": len(comparison.left_out),
    }
    rows = _with_time_texts(comparison.differences)
    parts = {
        "evidence": json.dumps(comparison.evidence, indent=2),
        "compared": json.dumps(comparison.compared),
        "from": json.dumps(comparison.names[0]),
        "to": json.dumps(comparison.names[1]),
        "totals": json.dumps(totals, indent=2),
        "differences": json_rows(rows.iter_rows(named=True)),
        "left_out": json_rows(
            {
                "cluster": o.cluster,
                "namespace": o.namespace,
                "hpa": o.hpa,
                "side": o.side,
                "reason": o.reason,
            }
            for o in comparison.left_out
        ),
        "warnings": json.dumps(list(comparison.warnings), indent=2),
    }
    body = ",\n".join(f'"{name}": {text}' for name, text in parts.items())
    return f"{{\n{body}\n}}\n"


def _with_time_texts(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(pl.col(_TIMES).dt.strftime(_TIME_FORMAT))


def to_csv(report: CompareReport) -> str:
    """Return one row per HPA that differs as CSV with a header; an absent value is empty."""
    return frame_csv(_with_time_texts(report.comparison.differences))


def to_parquet(report: CompareReport) -> bytes:
    """Return one row per HPA that differs as Parquet, with the evidence in its metadata."""
    buffer = io.BytesIO()
    write_parquet(report.comparison.differences, report.comparison.evidence, buffer)
    return buffer.getvalue()
