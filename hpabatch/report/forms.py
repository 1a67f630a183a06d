"""The forms of a report: table, wide table, JSON, YAML, CSV, Parquet, Markdown.

Every form is printable: nothing in it drives a terminal or forges a line (`model.printable`).
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from hpabatch.history.files import atomic_path
from hpabatch.history.replaced import check_replaced
from hpabatch.jobs.parquet import write_parquet
from hpabatch.model.printable import (
    printable,
    printable_cell,
    printable_json,
    printable_line,
    printable_lines,
)
from hpabatch.report.base import (
    LEAST_FOLDED,
    TIME_FORMAT,
    CheckOutput,
    Grid,
    Head,
    Layout,
    Line,
    Named,
    Output,
    Result,
    Rows,
    View,
)
from hpabatch.report.faults import junit_text, sarif_text

if TYPE_CHECKING:
    from rich.console import RenderableType

PLAIN_WIDTH: Final = 100_000
"""Characters; off a terminal nothing is cut or wrapped."""


def report_bytes(report: Result, output: Output | CheckOutput, view: View | None = None) -> bytes:
    """Return a report in one of its forms, ready for stdout."""
    shape = view or View()
    if output == Output.wide:
        shape = shape._replace(wide=True)
    if output == CheckOutput.sarif:
        return sarif_text(report.faults()).encode()
    if output == CheckOutput.junit:
        return junit_text(report.faults()).encode()
    match Output(output.value):
        case Output.table | Output.wide:
            return table_text(report, shape).encode()
        case Output.json:
            return printable_json(json_text(report)).encode()
        case Output.yaml:
            return yaml_text(report).encode()
        case Output.csv:
            return csv_text(report).encode()
        case Output.parquet:
            return parquet_bytes(report)
        case Output.markdown:
            return markdown_text(report, shape).encode()


# ---- table ---------------------------------------------------------------------------------------


def table_text(report: Result, view: View | None = None) -> str:
    """Return a report for people: the verdict, what matters, what it rests on, what comes next."""
    shape = view or View()
    own = report.own(Output.table, shape)
    if isinstance(own, str):
        return printable_lines(own)
    return drawn(_screen(report, shape), shape.width, styled=shape.styled)


def _screen(report: Result, view: View) -> Iterator[RenderableType]:
    from rich.text import Text

    blocks: list[list[RenderableType]] = []
    if report.shows_verdict and (verdict := report.verdict):
        blocks.append([Text(printable_line(verdict), style="bold")])
    blocks.append(list(_drawable(report.body(view), view)))
    blocks += [list(map(printable_line, lines)) for lines in (report.basis(), report.hints())]
    yield from _spaced(block for block in blocks if block)


def _spaced(blocks: Iterable[list[RenderableType]]) -> Iterator[RenderableType]:
    """Generate the parts of blocks with one empty line between blocks, none at the end."""
    for number, block in enumerate(blocks):
        while block and block[-1] == "":
            block.pop()
        if number:
            yield ""
        yield from block


def _drawable(parts: Iterable[Any], view: View) -> Iterator[RenderableType]:
    offered = view.legend is not False
    for part in parts:
        if not isinstance(part, Grid):
            yield printable_line(part) if isinstance(part, str) else part
            continue
        shown = _shown(part, view)
        yield _rich_table(shown)
        if shown.more:
            yield shown.more
        if shown.dropped:
            names = ", ".join(filter(None, shown.dropped))
            yield f"hidden for lack of room: {names}; a wider terminal or --output wide shows them"
        if view.legend:
            yield from legend_lines(shown.heads)
        elif not offered and shown.with_heads and any(head.meaning for head in shown.heads):
            offered = True
            yield "columns: --legend explains them"


def _shown(grid: Grid, view: View) -> Grid:
    """Return all columns of a wide table, or those for which the terminal has room."""
    if view.wide and grid.frame is not None:
        return frame_grid(grid.frame, grid.columns)
    return grid.fitted(PLAIN_WIDTH if view.width is None or view.wide else view.width)


def legend_lines(heads: Iterable[Head]) -> Iterator[str]:
    """Generate a line for each head that has a meaning."""
    told = [head for head in heads if head.meaning]
    width = max((len(head.name) for head in told), default=0)
    yield from (f"  {head.name.ljust(width)}  {head.meaning}" for head in told)


def _rich_table(grid: Grid) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=None, pad_edge=False, show_header=grid.with_heads and any(h.name for h in grid.heads)
    )
    for k, head in enumerate(grid.heads):
        justify: Any = "left" if head.left else "right"
        longest = max((len(row[k]) for row in grid.rows), default=0)
        table.add_column(
            head.name,
            justify=justify,
            no_wrap=not head.folds,
            overflow="fold",
            min_width=min(longest, LEAST_FOLDED) if head.folds else None,
        )
    styles = grid.styles or [""] * len(grid.rows)
    for row, style in zip(grid.rows, styles, strict=True):
        shown = map(printable_line if grid.quotes else printable, row)
        table.add_row(*map(Text, shown), style=style)
    return table


def drawn(
    parts: Iterable[RenderableType], width: int | None = None, *, styled: bool = False
) -> str:
    """Return printable parts one below the other, no line with blanks at its end.

    Args:
        parts: strings and tables.
        width: of the terminal, in characters; None: no terminal, so nothing is cut or wrapped.
        styled: with ANSI styles.
    """
    from rich.console import Console
    from rich.segment import Segment, Segments

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
        for part in parts:
            # Cells are printable already. Here the styles are still apart from the text.
            console.print(
                Segments(
                    Segment(printable_lines(piece.text), piece.style)
                    for piece in console.render(part)
                )
            )
    return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())


def frame_grid(frame: pl.DataFrame, columns: Iterable[Named] = ()) -> Grid:
    """Return a frame as a table: numbers at the right, an absent value as `-`."""
    meanings = {column.name: column.meaning for column in columns}
    return Grid(
        [
            Head(name.upper(), meanings.get(name, ""), left=not dtype.is_numeric(), folds=True)
            for name, dtype in frame.schema.items()
        ],
        [[_frame_cell(value) for value in row] for row in frame.rows()],
    )


def _frame_cell(value: object) -> str:
    match value:
        case None:
            return "-"
        case datetime():
            return value.strftime("%Y-%m-%dT%H:%M:%SZ")
        case float():
            return f"{value:.4g}"
        case list() | dict():
            return json.dumps(value, default=str)
    return str(value)


# ---- Markdown ------------------------------------------------------------------------------------


def markdown_text(report: Result, view: View | None = None) -> str:
    """Return GitHub-flavored Markdown with what the table shows."""
    own = report.own(Output.markdown, view or View())
    if isinstance(own, str):
        return own
    blocks = []
    if report.shows_verdict and (verdict := report.verdict):
        blocks.append(f"**{md(verdict)}**")
    shape = view or View()
    for is_grid, parts in groupby(report.body(shape), lambda part: isinstance(part, Grid)):
        if is_grid:
            for grid in parts:
                assert isinstance(grid, Grid)
                blocks += _md_grid(grid, shape)
            continue
        lines = list(map(str, parts))
        for filled, paragraph in groupby(lines, bool):
            if filled:
                blocks.append(_md_paragraph(list(paragraph)))
    if basis := report.basis():
        blocks.append("<sub>" + "<br>".join(map(md, basis)) + "</sub>")
    if hints := report.hints():
        blocks.append(_md_paragraph(list(hints)))
    return "\n\n".join(blocks) + "\n"


def _md_paragraph(lines: list[str]) -> str:
    """Return lines as a paragraph; indented ones are a list."""
    text = ""
    for number, line in enumerate(lines):
        listed = line.startswith("  ")
        break_ = "  \n" if not listed and not lines[number - 1].startswith("  ") else "\n"
        text += (break_ if number else "") + (f"- {md(line.strip())}" if listed else md(line))
    return text


def _md_grid(grid: Grid, view: View) -> Iterator[str]:
    grid = _shown(grid, view)
    if grid.rows:
        marks = ["---" if head.left else "---:" for head in grid.heads]
        names = [head.name.capitalize() if head.name != "HPA" else "HPA" for head in grid.heads]
        lines = [names, marks, *([md(cell) for cell in row] for row in grid.rows)]
        yield "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    if grid.more:
        yield md(grid.more)
    if view.legend:
        yield "\n".join(f"- {md(line.strip())}" for line in legend_lines(grid.heads))


def md(text: str) -> str:
    """Return text as one line of Markdown that shows just that."""
    line = printable_line(text).replace("&", "&amp;").replace("<", "&lt;")
    escaped = "".join(f"\\{c}" if c in "\\`*[]|~@" else c for c in line)
    # GitHub makes links of bare addresses, too.
    escaped = escaped.replace("://", "\\://").replace("www.", "www\\.")
    # An underscore inside of a word is one, before it a mark of emphasis.
    return " ".join(f"\\{w}" if w.startswith("_") else w for w in escaped.split(" "))


# ---- JSON, YAML ----------------------------------------------------------------------------------


def json_text(report: Result) -> str:
    """Return the document as JSON; timestamps are RFC 3339 strings, absent values null."""
    own = report.own(Output.json, View())
    if isinstance(own, str):
        return own
    document = report.document()
    if isinstance(document, Rows):
        return rows_text(document) + "\n"
    return _object_text(document, report.layout) + "\n"


def _object_text(document: Mapping[str, Any], layout: Layout) -> str:
    blanks = " " * layout.keys
    parts = (f'{blanks}"{name}": {_value(value, layout)}' for name, value in document.items())
    return "{\n" + ",\n".join(parts) + "\n}"


def _value(value: object, layout: Layout) -> str:
    match value:
        case Rows():
            return rows_text(value)
        case Line():
            return json.dumps(value.value)
        case dict() if any(isinstance(v, Rows) for v in value.values()):
            return "{" + _object_text(value, layout).removeprefix("{\n").removesuffix("\n}") + "}"
    text = json.dumps(
        value, indent=layout.values, ensure_ascii=layout.ascii_only, allow_nan=False, default=str
    )
    return text.replace("\n", "\n" + " " * layout.keys)


def rows_text(rows: Iterable[Mapping[str, object]]) -> str:
    """Return a JSON array with one object a line."""
    lines = ",\n".join(json.dumps(dict(row), allow_nan=False) for row in rows)
    return f"[\n{lines}\n]" if lines else "[]"


def yaml_text(report: Result) -> str:
    """Return the JSON document as YAML, keys in the same order."""
    import yaml

    own = report.own(Output.yaml, View())
    if isinstance(own, str):
        return printable_lines(own)
    document = json.loads(json_text(report))
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=PLAIN_WIDTH)
    if printable_lines(text) != text:  # then every character beyond ASCII is an escape of YAML
        text = yaml.safe_dump(document, sort_keys=False, width=PLAIN_WIDTH)
    return text


# ---- CSV, Parquet --------------------------------------------------------------------------------


def csv_text(report: Result) -> str:
    """Return the frame as CSV."""
    own = report.own(Output.csv, View())
    if isinstance(own, str):
        return own
    return frame_csv(report.frame, report.csv_times)


def frame_csv(frame: pl.DataFrame, time_format: str = TIME_FORMAT) -> str:
    """Return a frame as CSV with a header, one line a row; an absent value is empty.

    Strings are as `printable_cell` returns them; docs/output.md says how to undo that.
    """
    frame = with_time_strings(frame, time_format)
    strings = (pl.String, pl.Categorical, pl.Enum)
    names = [name for name, dtype in frame.schema.items() if isinstance(dtype, strings)]
    cells = (_printable_column(frame[name].cast(pl.String)) for name in names)
    return frame.with_columns(cells).write_csv()


def _printable_column(column: pl.Series) -> pl.Series:
    old = column.unique().drop_nulls().to_list()
    changed = {text: cell for text in old if (cell := printable_cell(text)) != text}
    return column.replace(changed) if changed else column


def parquet_bytes(report: Result) -> bytes:
    """Return the frame as a Parquet file, with the evidence in its metadata if there is any."""
    own = report.own(Output.parquet, View())
    return own if isinstance(own, bytes) else frame_parquet(report.frame, report.evidence)


def frame_parquet(frame: pl.DataFrame, evidence: Mapping[str, str] | None = None) -> bytes:
    """Return a frame as a Parquet file."""
    buffer = io.BytesIO()
    if evidence is None:
        frame.write_parquet(buffer, compression="zstd")
    else:
        write_parquet(frame, evidence, buffer)
    return buffer.getvalue()


def write_frame(frame: pl.DataFrame, evidence: Mapping[str, str], path: Path | str) -> None:
    """Write a frame with its evidence as a Parquet file that is whole or not there (UsageError)."""
    check_replaced(path, "parquet")
    with atomic_path(path) as temporary:
        write_parquet(frame, evidence, temporary)


def with_time_strings(frame: pl.DataFrame, time_format: str = TIME_FORMAT) -> pl.DataFrame:
    """Return a frame with its timestamps as RFC 3339 strings."""
    times = [name for name, dtype in frame.schema.items() if isinstance(dtype, pl.Datetime)]
    return frame.with_columns(pl.col(times).dt.strftime(time_format)) if times else frame
