"""What `hpabatch validate` found, as a table, JSON, CSV or Parquet: one row per document."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import BinaryIO, TextIO

from hpabatch.inputs.manifest_checks import REFUSED, UNREADABLE, VALID, CheckedEntry
from hpabatch.model.printable import printable, printable_cell, printable_json

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


def validation_rows(checked: Iterable[CheckedEntry]) -> list[Row]:
    """Return one row per HPA or unreadable place; `message` is the first complaint, or ""."""
    return [_row(item) for item in checked]


def _row(item: CheckedEntry) -> Row:
    hpa = item.entry.hpa
    target = hpa.spec.scale_target_ref if hpa is not None else None
    return {
        "source": _text(item.entry.source),
        "line": item.entry.line,
        "namespace": _text(hpa.namespace) if hpa is not None else "",
        "name": _text(hpa.name) if hpa is not None else "",
        "api_version": _text(hpa.api_version) if hpa is not None else "",
        "target": _text(f"{target.kind}/{target.name}") if target is not None else "",
        "result": item.result,
        "complaints": len(item.complaints),
        "warnings": len(item.warnings),
        "message": _text(item.complaints[0]) if item.complaints else "",
    }


def _text(text: str) -> str:
    """Return text that every encoding of ours takes: a file's name may hold other bytes."""
    return text.encode("utf-8", "replace").decode("utf-8")


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
    name = printable(hpa.name)
    return f"{printable(hpa.namespace)}/{name}: " if hpa.namespace else f"{name}: "


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
    """Draw a table: folded to a terminal's width, or else as wide as its content."""
    columns = [name for name in COLUMNS if name != "message"]  # stderr has the sentences
    heads = [name.upper() for name in columns]
    cells = [[printable(str(row[name])) for name in columns] for row in rows]
    right = [name in _NUMBERS for name in columns]
    if stream.isatty():
        styles = ["" if row["result"] == VALID else "red" for row in rows]
        _draw(heads, cells, right, styles, stream)
        return
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    for line in (heads, *cells):
        padded = (
            text.rjust(width) if flush else text.ljust(width)
            for text, width, flush in zip(line, widths, right, strict=True)
        )
        stream.write("  ".join(padded).rstrip() + "\n")


def _draw(
    heads: Sequence[str],
    cells: Sequence[Sequence[str]],
    right: Sequence[bool],
    styles: Sequence[str],
    stream: TextIO,
) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for head, flush in zip(heads, right, strict=True):
        table.add_column(head, justify="right" if flush else "left", overflow="fold")
    for line, style in zip(cells, styles, strict=True):
        table.add_row(*(Text(text) for text in line), style=style)
    Console(file=stream, highlight=False).print(table)


def write_json(rows: Sequence[Row], stream: TextIO) -> None:
    """Write a JSON array, one document a line."""
    lines = printable_json(",\n".join(json.dumps(row) for row in rows))
    stream.write(f"[\n{lines}\n]\n" if rows else "[]\n")


def write_csv(rows: Sequence[Row], stream: TextIO) -> None:
    """Write CSV with a header; strings are as `printable_cell` returns them."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {name: printable_cell(v) if isinstance(v, str) else v for name, v in row.items()}
        for row in rows
    )
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
