"""`hpabatch history`: what a history holds, whether it is sound, and its upkeep."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from hpabatch.cli.app import Answer, OutputOption, app, command
from hpabatch.cli.arguments import ExitCodeOption
from hpabatch.cli.progress import progress_on_stderr
from hpabatch.cli.talk import say, tell, tell_skipped
from hpabatch.engine.quality.request import QualityRequest
from hpabatch.errors import EXIT_OK, EXIT_REFUSED
from hpabatch.model.printable import counted, printable
from hpabatch.report.base import Output

history_app = typer.Typer(
    name="history",
    help="What a history holds, whether it is sound, and its upkeep.",
    epilog="A history is a folder of Parquet tables, or a store: a folder, or a URL such as "
    "s3://bucket/history (s3, gs and abfs; credentials and endpoint come from the environment).",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(history_app)

PathArgument = Annotated[
    str,
    typer.Argument(metavar="PATH", help="Folder of Parquet tables, or folder or URL of a store."),
]
ProvenanceOption = Annotated[
    bool, typer.Option("--provenance", help="Show the provenance of every part instead of tables.")
]
_QUALITY_SHOWN: Final = (
    "namespace", "hpa", "pods", "samples", "coverage", "gaps", "interval_ms", "jitter_ms",
    "at_limit_share", "membership", "synthetic_share",
)  # fmt: skip


@command(history_app, shows=True)
def info(path: PathArgument, provenance: ProvenanceOption = False) -> Answer:
    """Tell what a history holds.

    One row per table goes to stdout: rows, bytes, files, first and last time; then the provenance
    of its parts, and the HPAs of which something is not recorded (in --output json, too; as csv and
    parquet: --provenance). What is wrong, though the rest can be read, goes to stderr.

    \b
    Examples:
      hpabatch history info history/
      hpabatch history info s3://bucket/history --output json | jq .clusters
      hpabatch history info history/ --provenance --output csv > provenance.csv
    """
    from hpabatch.history.info import describe_history
    from hpabatch.history.provenance import TABLE
    from hpabatch.history.reader import open_history
    from hpabatch.report.history import FrameResult, InfoResult

    history = open_history(path)
    if provenance:
        return FrameResult(history.read(TABLE)), EXIT_OK
    found = describe_history(history)
    return InfoResult(found), EXIT_OK, *(f"warning: {problem}" for problem in found.problems)


@command(history_app, shows=True)
def check(
    path: PathArgument, exit_code: ExitCodeOption = False, output: OutputOption = Output.table
) -> Answer:
    """Read every byte of a history and list what is wrong.

    Every file is held against the column registry, its order, its checksums and, in a store, the
    log that names it. A table that replay cannot do without is a finding if it is absent. One row
    per finding goes to stdout.

    \b
    Examples:
      hpabatch history check history/
      hpabatch history check history/ --exit-code > /dev/null && echo sound
      hpabatch history check history/ --output csv > findings.csv
    """
    from hpabatch.engine.columns.history import CHECK
    from hpabatch.history.reader import open_history
    from hpabatch.history.store.upkeep import check_history
    from hpabatch.report.history import FrameResult

    history = open_history(path)
    with progress_on_stderr() as report:
        findings = check_history(history, report)
    files = sum(len(files) for files in history.files.values())
    where = f"{counted(files, 'file')} in {counted(len(history.files), 'table')}"
    code = EXIT_REFUSED if findings.height and exit_code else EXIT_OK
    is_shown = output is not Output.table or findings.height > 0
    shown = FrameResult(findings, CHECK) if is_shown else None
    return shown, code, f"{where}: {counted(findings.height, 'finding')}"


@command(history_app, shows=True)
def quality(
    path: PathArgument, request: QualityRequest, exit_code: ExitCodeOption = False
) -> Answer:
    """Tell what the recording of each HPA is worth.

    One row per HPA goes to stdout: coverage, gaps, scrape interval and jitter, resets, pods without
    requests or with an unknown owner, how long usage was cut off by a limit, late and skewed
    samples, and whether its pods only stand for a recorded size. stderr gets the findings: what is
    worth mending, and why. Exit code 3: some HPAs were refused, or findings, with --exit-code.

    \b
    Examples:
      hpabatch history quality history/
      hpabatch history quality history/ -n shop --output csv > quality.csv
    """
    from hpabatch.engine.columns.history import QUALITY
    from hpabatch.engine.fleet.plan import chosen_hpas, guesses_of
    from hpabatch.engine.fleet.selection import selection_of
    from hpabatch.engine.fleet.versions import versions_of
    from hpabatch.engine.quality.problems import problems
    from hpabatch.history.reader import open_history
    from hpabatch.jobs.quality import quality as quality_of
    from hpabatch.report.history import FrameResult

    history = open_history(path)
    versions = versions_of(history.read("controller"), request.k8s, request.feature_gates)
    candidates, skipped = chosen_hpas(history, versions.of, selection_of(request))
    with progress_on_stderr() as report:
        found = quality_of(history, request, candidates, report)
    tell_skipped(skipped)
    tell(guesses_of(history, candidates))
    told = problems(found)
    for row in told.iter_rows(named=True):
        say(f"{printable(row['namespace'])}/{printable(row['hpa'])}: {row['why']}")
    code = EXIT_REFUSED if skipped or (told.height and exit_code) else EXIT_OK
    return FrameResult(found, QUALITY, _QUALITY_SHOWN), code


@command(history_app)
def compact(path: PathArgument) -> None:
    """Merge a store's small files and remove what no longer counts.

    Afterwards the same rows have the same files, however many parts they came in. An interruption
    loses nothing. Parts may be added meanwhile; whoever reads meanwhile may have to start again.

    \b
    Examples:
      hpabatch history compact history/
    """
    from hpabatch.history.store.upkeep import compact as run

    with progress_on_stderr() as report:
        done = run(path, progress=report)
    say(
        f"{path}: {counted(done.files_before, 'file')} ({done.bytes_before} bytes) are now "
        f"{done.files_after} ({done.bytes_after} bytes); {done.partitions} days or tables merged, "
        f"{done.deleted} old files removed"
        + ("; replaced ones stay a day for those who read them" if done.partitions else "")
    )


@command(history_app)
def migrate(
    old: Annotated[str, typer.Argument(metavar="OLD", help="The history to copy.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="Folder or URL of the new store.")],
) -> None:
    """Copy a history into a new store.

    OLD is a folder of Parquet tables (schema version 1 to 5) or a store; it is not changed. NEW is
    an absent or empty folder or URL; one that holds something else is refused. An interrupted
    migration goes on when it is started again, as long as OLD is what it was.

    \b
    Examples:
      hpabatch history migrate old/ s3://bucket/history
    """
    from hpabatch.history.store.upkeep import migrate as run

    with progress_on_stderr() as report:
        done = run(old, new, progress=report)
    tell(done.warnings)
    again = f"; {counted(done.skipped, 'part')} there already" if done.skipped else ""
    say(f"{new}: {counted(done.rows, 'row')} in {counted(done.parts, 'part')}{again}")
