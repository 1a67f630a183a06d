"""`hpabatch import`: outside data as a history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from hpabatch.cli.app import app
from hpabatch.cli.options import Output, OutputOption
from hpabatch.cli.progress import share_on_stderr
from hpabatch.cli.stdout import check_stdout, send, send_json, send_text
from hpabatch.cli.talk import say
from hpabatch.errors import EXIT_INTERRUPTED, EXIT_OK, UsageError
from hpabatch.model.printable import printable

if TYPE_CHECKING:
    from pathlib import Path

    from hpabatch.importers.table.run import ImportResult

imports = typer.Typer(
    name="import",
    help="Turn outside data into a history.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(imports)

_HELP = """Import any tidy CSV or Parquet: rows per pod, or per workload with its replicas.

Reads files, folders (recursively) and patterns in one go, larger than memory if need be, and adds
them to the store --out, a folder or an s3://, gs:// or abfs:// URL, made where there is none. The
map file (docs/import.md) says what the columns mean, in which units, and what is assumed; what it
leaves open gets a default that stderr and the result name ("assumed: ...").

\b
Faulty rows are left out and counted by reason on stderr; --strict refuses them before anything is
written. Of rows with the same key the last one counts. stdout gets a row per workload.
An interrupted import is continued by the same command. Intermediate files of about the input's
size lie beside --out (of an object store: in TMPDIR), or below --work, until it is done.
Pods of which only the number was recorded are made up, and marked as generated.

\b
Exit codes: 0 fine, 2 something cannot be read, 3 refused, 130 interrupted, 143
terminated.

\b
Examples:
  hpabatch import table usage.parquet --map map.yaml --out history/
  hpabatch import table usage.parquet --map map.yaml --dry-run
  hpabatch import table 'days/2026-10-*.csv' --map map.yaml --out history/ --strict
  hpabatch import table days/ --map map.yaml --out s3://bucket/history --output json | jq .assumed
"""

_SHOWN_WORKLOADS = 20


@imports.command("table", help=_HELP)
def table(
    inputs: Annotated[
        list[str], typer.Argument(metavar="INPUT...", help="Files, folders or patterns.")
    ],
    map_file: Annotated[
        str, typer.Option("--map", metavar="FILE", help="What the columns mean (YAML).")
    ],
    out: Annotated[
        str | None, typer.Option("--out", metavar="HISTORY", help="The store that gets the rows.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read and check all, write nothing, show what would.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse rows that would be left out as faulty.")
    ] = False,
    work: Annotated[
        str | None,
        typer.Option(
            "--work",
            metavar="FOLDER",
            help="For intermediate files.  [default: beside --out; of an object store: in TMPDIR]",
        ),
    ] = None,
    output: OutputOption = Output.table,
) -> None:
    """Import any tidy CSV or Parquet."""
    from pathlib import Path

    if dry_run == (out is not None):
        raise UsageError("say where the rows go with --out, or only look with --dry-run")
    check_stdout(output)
    try:
        result = _import(inputs, map_file, out, strict, None if work is None else Path(work))
    except KeyboardInterrupt:
        say("interrupted: the same command goes on where this one stopped")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    _tell(result, out)
    _show(result, output, dry_run)
    raise typer.Exit(EXIT_OK)


def _import(
    inputs: Sequence[str], map_file: str, out: str | None, strict: bool, work: Path | None
) -> ImportResult:
    from hpabatch.importers.table.run import import_table

    with share_on_stderr() as progress:
        return import_table(inputs, map_file, out, strict=strict, work=work, progress=progress)


def _tell(result: ImportResult, out: str | None) -> None:
    """Write assumptions, warnings and what was left out to stderr."""

    for text in result.assumed:
        say(f"assumed: {text}")
    for text in result.warnings:
        say(f"warning: {text}")
    for reason, count in result.dropped.items():
        say(f"left out: {count:,} rows: {reason}")
    if result.rows_excluded:
        say(f"not wanted (`where`): {result.rows_excluded:,} rows")
    if result.resumed:
        say(f"continued: {result.resumed} parts were written before")
    if not result.rows_read:
        return
    tables = ", ".join(f"{count:,} {name}" for name, count in result.written.items())
    where = f"{out}: " if out is not None else "nothing is written (--dry-run); it would be "
    say(f"{where}{tables} from {result.rows_read:,} rows of {len(result.files)} files")


def _show(result: ImportResult, output: Output, dry_run: bool) -> None:
    """Write the result to stdout."""
    import io

    from hpabatch.report.texts import frame_csv

    match output:
        case Output.table:
            send_text(_as_table(result, dry_run))
        case Output.json:
            send_json(_as_json(result, dry_run))
        case Output.csv:
            send(frame_csv(result.workloads).encode())
        case Output.parquet:
            buffer = io.BytesIO()
            result.workloads.write_parquet(buffer)
            send(buffer.getvalue())


def _as_table(result: ImportResult, dry_run: bool) -> str:
    import polars as pl

    parts = []
    if dry_run:
        parts += ["the map as understood:", _columns(result.understood), ""]
        for name, frame in result.first.items():
            texts = frame.select(pl.all().cast(pl.String).fill_null(""))
            parts += [f"first rows of {name}:", _columns([texts.columns, *texts.rows()]), ""]
    shown = result.workloads.head(_SHOWN_WORKLOADS)
    texts = shown.select(pl.all().cast(pl.String).fill_null("-"))
    if result.workloads.height:
        parts.append(_columns([texts.columns, *texts.rows()]))
    more = result.workloads.height - shown.height
    if more:
        parts.append(f"… and {more:,} more workloads (all with --output csv, json or parquet)")
    return "\n".join(parts) + "\n" if parts else ""


def _columns(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of texts in aligned columns."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
    return "\n".join(lines)


def _as_json(result: ImportResult, dry_run: bool) -> str:
    import json

    found = {
        "files": result.files,
        "rows_read": result.rows_read,
        "rows_excluded": result.rows_excluded,
        "dropped": result.dropped,
        "duplicates": result.duplicates,
        "written": result.written,
        "resumed_parts": result.resumed,
        "map": dict(result.understood),
        "assumed": result.assumed,
        "warnings": result.warnings,
        "dry_run": dry_run,
        "workloads": result.workloads.to_dicts(),
        "first_rows": {name: frame.to_dicts() for name, frame in result.first.items()},
    }
    return json.dumps(found, indent=1, default=str, ensure_ascii=False) + "\n"
