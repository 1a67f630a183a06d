"""What `hpabatch validate` found, as a table, JSON, CSV or Parquet: one row per document."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import BinaryIO, TextIO

from hpabatch.sources.manifest_checks import REFUSED, UNREADABLE, VALID, CheckedEntry

Row = dict[str, str | int]

COLUMNS = (
    "source",
    "line",
    "namespace",
    "name",
    "api_version",
    "target",
    "result",
    "complaints",
    "warnings",
    "message",
)
_NUMBERS = frozenset({"line", "complaints", "warnings"})
_UNLIMITED_WIDTH = 100_000  # characters; a table that is not on a terminal is never cut


def validation_rows(checked: Iterable[CheckedEntry]) -> list[Row]:
    """Return one row per HPA or unreadable place; `message` is the first complaint, or ""."""
    return [_row(item) for item in checked]


def _row(item: CheckedEntry) -> Row:
    hpa = item.entry.hpa
    target = hpa.spec.scale_target_ref if hpa is not None else None
    return {
        "source": item.entry.source,
        "line": item.entry.line,
        "namespace": hpa.namespace if hpa is not None else "",
        "name": hpa.name if hpa is not None else "",
        "api_version": hpa.api_version if hpa is not None else "",
        "target": f"{target.kind}/{target.name}" if target is not None else "",
        "result": item.result,
        "complaints": len(item.complaints),
        "warnings": len(item.warnings),
        "message": item.complaints[0] if item.complaints else "",
    }


def talk_lines(checked: Iterable[CheckedEntry]) -> Iterable[str]:
    """Yield the lines for stderr: every complaint and warning with its place."""
    for item in checked:
        name = _label(item)
        for complaint in item.complaints:
            yield f"{item.entry.place}: {name}{complaint}"
        for warning in item.warnings:
            yield f"{item.entry.place}: {name}warning: {warning}"


def _label(item: CheckedEntry) -> str:
    hpa = item.entry.hpa
    if hpa is None or not hpa.name:
        return ""
    return f"{hpa.namespace}/{hpa.name}: " if hpa.namespace else f"{hpa.name}: "


def summary_line(
    checked: Sequence[CheckedEntry], skipped: Mapping[str, int], profile_name: str
) -> str:
    """Return `3 HPAs: 2 valid, 1 refused; …` for stderr."""
    results = Counter(item.result for item in checked)
    hpas = results[VALID] + results[REFUSED]
    parts = [f"{_count(hpas, 'HPA')}: {results[VALID]} valid, {results[REFUSED]} refused"]
    if results[UNREADABLE]:
        parts.append(f"{_count(results[UNREADABLE], 'document')} unreadable")
    others = sum(skipped.values())
    if others:
        parts.append(f"{_count(others, 'document')} of other kinds skipped")
    return f"{'; '.join(parts)} (rules of Kubernetes {profile_name})"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def write_table(rows: Sequence[Row], stream: TextIO) -> None:
    """Draw a table; off a terminal it is as wide as its content."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    columns = [name for name in COLUMNS if name != "message"]  # stderr has the sentences
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(
            name.upper(), justify="right" if name in _NUMBERS else "left", overflow="fold"
        )
    for row in rows:
        style = "" if row["result"] == VALID else "red"
        table.add_row(*(Text(_printable(row[name])) for name in columns), style=style)
    width = None if stream.isatty() else _UNLIMITED_WIDTH
    console = Console(file=stream, width=width, highlight=False)
    if stream.isatty():
        console.print(table)
        return
    with console.capture() as capture:
        console.print(table)
    stream.writelines(f"{line.rstrip()}\n" for line in capture.get().splitlines())


def _printable(value: str | int) -> str:
    """Return text without control characters, which could drive the reader's terminal."""
    return "".join(rune if rune.isprintable() else "\N{REPLACEMENT CHARACTER}"
                   for rune in str(value))  # fmt: skip


def write_json(rows: Sequence[Row], stream: TextIO) -> None:
    """Write a JSON array, one document a line."""
    lines = ",\n".join(json.dumps(row) for row in rows)
    stream.write(f"[\n{lines}\n]\n" if rows else "[]\n")


def write_csv(rows: Sequence[Row], stream: TextIO) -> None:
    """Write CSV with a header."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    stream.write(buffer.getvalue())


def write_parquet(rows: Sequence[Row], stream: BinaryIO) -> None:
    """Write a Parquet file, zstd."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema(
        [(name, pa.int64() if name in _NUMBERS else pa.string()) for name in COLUMNS]
    )
    table = pa.table({name: [row[name] for row in rows] for name in COLUMNS}, schema=schema)
    buffer = io.BytesIO()  # pyarrow seeks; a pipe cannot
    pq.write_table(table, buffer, compression="zstd")
    stream.write(buffer.getvalue())
