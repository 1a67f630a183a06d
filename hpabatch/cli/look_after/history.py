"""`hpabatch history`: what a history holds, whether it is sound, and its upkeep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hpabatch.cli.app import app
from hpabatch.cli.options import HistoryK8sOption, Output, OutputOption
from hpabatch.cli.progress import share_on_stderr
from hpabatch.cli.stdout import check_stdout, send, send_json, send_text
from hpabatch.cli.talk import say, tell_skipped
from hpabatch.errors import EXIT_REFUSED
from hpabatch.model.printable import printable

if TYPE_CHECKING:
    import polars as pl

history_app = typer.Typer(
    name="history",
    help="What a history holds, whether it is sound, and its upkeep.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(history_app)

_PLACE = """A history is a folder of Parquet tables, or a store: a folder, or a URL such as
s3://bucket/history (s3, gs and abfs; credentials and endpoint come from the environment).
"""

_INFO = f"""Tell what a history holds.

{_PLACE}
One row per table goes to stdout: rows, bytes, files, first and last time; then how its parts were
come by, and of which HPAs something is not recorded (in --output json, too; as csv and parquet:
--provenance). What is not as it should be, though the rest can be read, goes to stderr (and into
--output json).

\b
Exit codes: 0 fine, 2 the history cannot be read.

\b
Examples:
  hpabatch history info history/
  hpabatch history info s3://bucket/history --output json | jq .clusters
  hpabatch history info history/ --provenance --output csv > provenance.csv
"""

_CHECK = f"""Read every byte of a history and list what is wrong.

{_PLACE}
Every file is held against the column registry, its order, its checksums and, in a store, the log
that names it. A table that replay cannot do without is a finding if it is absent. One row per
finding goes to stdout.

\b
Exit codes: 0 sound, 2 the history cannot be opened, 3 findings.

\b
Examples:
  hpabatch history check history/
  hpabatch history check history/ --output csv > findings.csv
"""

_QUALITY = f"""Tell what the recording of each HPA is worth.

{_PLACE}
One row per HPA goes to stdout: coverage, gaps, scrape interval and jitter, resets, pods without
requests or with an unknown owner, how long usage was cut off by a limit, late and skewed samples,
and whether its pods only stand for a recorded size. stderr tells what is worth mending.

\b
Exit codes: 0 fine, 2 the history cannot be read, 3 something is worth mending.

\b
Examples:
  hpabatch history quality history/
  hpabatch history quality history/ --k8s 1.36 --output csv > quality.csv
"""

_COMPACT = """Merge a store's small files and remove what no longer counts.

Afterwards the same rows have the same files, however many parts they came in. An interruption loses
nothing. Parts may be added meanwhile; whoever reads meanwhile may have to start again.

\b
Exit codes: 0 fine, 2 there is no store, or it cannot be read or written.

\b
Examples:
  hpabatch history compact history/
"""

_MIGRATE = """Copy a history into a new store.

OLD is a folder of Parquet tables (schema version 1 to 4) or a store; it is not changed. NEW is an
absent or empty folder or URL; one that holds something else is refused. An interrupted migration
goes on when it is started again, as long as OLD is what it was.

\b
Exit codes: 0 fine, 2 something cannot be read or written.

\b
Examples:
  hpabatch history migrate old/ history/
  hpabatch history migrate old/ s3://bucket/history
"""

PathArgument = Annotated[str, typer.Argument(metavar="PATH", help="Folder or URL of a history.")]


ProvenanceOption = Annotated[
    bool,
    typer.Option("--provenance", help="Instead: how every part of it was come by, row by row."),
]


@history_app.command(help=_INFO)
def info(
    path: PathArgument, provenance: ProvenanceOption = False, output: OutputOption = Output.table
) -> None:
    """Tell what a history holds."""
    from hpabatch.history.info import describe_history
    from hpabatch.history.provenance import TABLE
    from hpabatch.history.reader import open_history
    from hpabatch.report import history as forms

    check_stdout(output)
    history = open_history(path)
    if provenance:
        _send_frame(history.read(TABLE), output)
        return
    found = describe_history(history)
    if output is Output.table:
        send_text(forms.info_table(found))
    elif output is Output.json:
        send_json(forms.info_json(found))
    else:
        _send_frame(found.tables, output)
    for problem in found.problems:
        say(f"warning: {problem}")


@history_app.command(help=_CHECK)
def check(path: PathArgument, output: OutputOption = Output.table) -> None:
    """Read every byte of a history and list what is wrong."""
    from hpabatch.history.reader import open_history
    from hpabatch.history.store.verify import check_history

    check_stdout(output)
    history = open_history(path)
    with share_on_stderr() as report:
        findings = check_history(history, report)
    if output is not Output.table or findings.height:
        _send_frame(findings, output)
    files = sum(len(files) for files in history.files.values())
    noun = "finding" if findings.height == 1 else "findings"
    say(f"{files} files in {len(history.files)} tables: {findings.height} {noun}")
    if findings.height:
        raise typer.Exit(EXIT_REFUSED)


@history_app.command(help=_QUALITY)
def quality(
    path: PathArgument, k8s: HistoryK8sOption = None, output: OutputOption = Output.table
) -> None:
    """Tell what the recording of each HPA is worth."""
    from hpabatch.engine.fleet.candidates import candidates_of
    from hpabatch.engine.fleet.versions import versions_of
    from hpabatch.engine.quality import run as engine
    from hpabatch.engine.quality.problems import problems
    from hpabatch.history.reader import open_history

    check_stdout(output)
    history = open_history(path)
    versions = versions_of(history.read("controller"), k8s)
    candidates, skipped = candidates_of(history, versions.of)
    with share_on_stderr() as report:
        found = engine.quality(history, candidates, progress=report)
    # A terminal has no room for all of it.
    _send_frame(found.select(_QUALITY_SHOWN) if output is Output.table else found, output)
    tell_skipped(skipped)
    told = problems(found)
    for row in told.iter_rows(named=True):
        say(f"{printable(row['namespace'])}/{printable(row['hpa'])}: {row['why']}")
    if told.height:
        raise typer.Exit(EXIT_REFUSED)


_QUALITY_SHOWN = (
    "namespace",
    "hpa",
    "pods",
    "samples",
    "coverage",
    "gaps",
    "interval_ms",
    "jitter_ms",
    "at_limit_share",
    "membership",
    "synthetic_share",
)


@history_app.command(help=_COMPACT)
def compact(path: PathArgument) -> None:
    """Merge a store's small files and remove what no longer counts."""
    from hpabatch.history.store.compact import compact as run

    with share_on_stderr() as report:
        done = run(path, progress=report)
    say(
        f"{path}: {done.files_before} files ({done.bytes_before} bytes) are now "
        f"{done.files_after} ({done.bytes_after} bytes); {done.partitions} days or tables merged, "
        f"{done.deleted} old files removed"
    )


@history_app.command(help=_MIGRATE)
def migrate(
    old: Annotated[str, typer.Argument(metavar="OLD", help="The history to copy.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="Folder or URL of the new store.")],
) -> None:
    """Copy a history into a new store."""
    from hpabatch.history.store.migrate import migrate as run

    with share_on_stderr() as report:
        done = run(old, new, progress=report)
    for warning in done.warnings:
        say(f"warning: {warning}")
    again = f"; {done.skipped} parts were there already" if done.skipped else ""
    say(f"{new}: {done.rows} rows in {done.parts} parts{again}")


def _send_frame(frame: pl.DataFrame, output: Output) -> None:
    from hpabatch.report import history as forms

    match output:
        case Output.table:
            send_text(forms.frame_table(frame))
        case Output.json:
            send_json(forms.frame_json(frame))
        case Output.csv:
            send(forms.frame_csv(frame).encode())
        case Output.parquet:
            send(forms.frame_parquet(frame))
