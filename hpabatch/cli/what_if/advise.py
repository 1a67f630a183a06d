"""`hpabatch advise`: from data to what should change, in one command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpabatch.cli.app import app
from hpabatch.cli.command import command
from hpabatch.cli.options import Output, OutputOption
from hpabatch.cli.progress import JobProgress, progress_on_stderr, tell_compiling
from hpabatch.cli.stdout import check_stdout, show_report
from hpabatch.cli.talk import say, tell, tell_skipped
from hpabatch.engine.advise.request import AdviseRequest
from hpabatch.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_REFUSED, RefusedError, UsageError

if TYPE_CHECKING:
    from hpabatch.cli.progress import Progress
    from hpabatch.engine.fleet.candidates import Skipped
    from hpabatch.report.advise import AdviseReport

_HELP = """Say what should change, from a history or a table, in one command.

DATA is a history (a folder of Parquet tables, or a store), or a CSV or Parquet file with its --map
(`hpabatch import table FILE --init` proposes one). What `sweep` and `recommend` do is done with a
default grid, SLO and bounds, each of which is stated with the result and can be set. The answer of
an HPA is change, keep or no advice, with a confidence: high, medium or low, the reasons for it, and
what would raise it; docs/advise.md explains them, and how often each is right.

\b
--out becomes a folder with everything that the advice rests on: the imported history, the sweep,
the sizes under today's and the recommended settings, and patches with their certificates. An
interrupted run goes on with the same command. Patches are written for changes of high confidence;
--accept medium or low writes more.

\b
Exit codes: 0 fine ("no advice" is an answer), 2 something is wrong or cannot be read, 3 some HPAs
were left out, or another sweep is at --out, 130 interrupted.

\b
Examples:
  hpabatch advise history/ --out advice/
  hpabatch advise usage.csv --map map.yaml --objects objects.yaml --out advice/ --accept medium
  hpabatch advise history/ --out advice/ --slo 'saturated_minutes<0.1%' --prices prices.yaml
  hpabatch advise history/ --out advice/ --bound target=10 --bound min=same -n shop
"""


@command(app, _HELP)
def advise(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A history, or a table's file.")],
    request: AdviseRequest,
    out: Annotated[
        str,
        typer.Option("--out", metavar="FOLDER", help="Folder for all that the advice rests on."),
    ],
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Replace the advice at --out that was asked otherwise."),
    ] = False,
    output: OutputOption = Output.table,
) -> None:
    """Say what should change, from a history or a table, in one command."""
    check_stdout(output)
    try:
        raise typer.Exit(_advise(data, request, _folder(out), replace, output))
    except KeyboardInterrupt:
        say("interrupted: the same command goes on where this one stopped")
        raise typer.Exit(EXIT_INTERRUPTED) from None


def _folder(out: str) -> Path:
    """Return the folder, made where there is none (UsageError: it cannot be one)."""
    from hpabatch.jobs.advise import OURS

    if "://" in out or out in ("", "-", "."):
        raise UsageError(f"--out {out!r}: advice is a folder of files; name a new one")
    folder = Path(out)
    try:
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"--out {out} is a file; name a new folder")
        folder.mkdir(exist_ok=True)
        foreign = sorted(p.name for p in folder.iterdir() if p.name.lstrip(".").split(".")[0]
                         not in {name.split(".")[0] for name in OURS})  # fmt: skip
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"--out {out} cannot be used: {reason}; name another place") from None
    if foreign:
        raise UsageError(
            f"--out {out} holds {foreign[0]}, which is no part of earlier advice: name a new folder"
        )
    return folder


def _advise(data: str, request: AdviseRequest, folder: Path, replace: bool, output: Output) -> int:
    """Do it all; return the exit code."""
    with progress_on_stderr() as progress:
        place = _history(data, request, folder, progress)
        report, skipped, notes = _advice(place, request, folder, replace, progress)
    from hpabatch.cli.what_if.recommend_files import write_files
    from hpabatch.jobs.advise import PATCHES

    shown, code = write_files(report, str(folder / PATCHES), (), in_place=False)
    tell(notes, "note")
    tell_skipped(skipped, place)
    tell(shown.warnings)
    show_report(shown, output)
    return code or (EXIT_REFUSED if skipped else EXIT_OK)


def _history(data: str, request: AdviseRequest, folder: Path, progress: Progress) -> str:
    """Return the history to read: that of a table is imported into the folder first."""
    from hpabatch.jobs.advise import HISTORY

    if request.map is None and not _is_table(data):
        return data
    from hpabatch.importers.table.request import TableRequest
    from hpabatch.importers.table.run import run_import

    if request.map is None:
        raise UsageError(
            f"{data}: what the columns of a table mean has to be said: `hpabatch import table "
            f"{data} --init --map map.yaml` proposes it; then name it with --map"
        )
    place = str(folder / HISTORY)
    found = run_import(
        TableRequest(inputs=(data,), map=request.map, objects=request.objects, out=place), progress
    )
    tell(found.warnings)
    for text in found.assumed:
        say(f"assumed: {text}")
    return place


def _is_table(data: str) -> bool:
    path = Path(data)
    return "://" not in data and path.is_file()


def _advice(
    place: str, request: AdviseRequest, folder: Path, replace: bool, progress: Progress
) -> tuple[AdviseReport, list[Skipped], list[str]]:
    """Sweep, recommend and keep trajectories; return what is told."""
    from hpabatch.api.sweeps import Sweep
    from hpabatch.api.sweeps import recommend as recommended
    from hpabatch.engine.fidelity.lens import seen_through
    from hpabatch.engine.fleet.candidates import Skipped
    from hpabatch.engine.sweep.read import plan_request
    from hpabatch.engine.sweep.request import SweepRequest
    from hpabatch.history.reader import open_history
    from hpabatch.jobs.advise import SWEEP, TRAJECTORIES, write_trajectories
    from hpabatch.jobs.publish import Destination
    from hpabatch.jobs.sweep import SweepJob, SweepRefusedError, sweep_to_disk
    from hpabatch.jobs.sweep_files import digest_sweep
    from hpabatch.report.advise import AdviseReport

    progress("planning", 0.0)
    asked = SweepRequest.part_of(request)
    see = seen_through(request.lens, progress)
    plan = plan_request(open_history(place, "replay"), asked, see)
    job = SweepJob(asked, plan, Destination(folder / SWEEP, is_folder=True), replace)
    if request.fidelity:
        tell_compiling("walk_observations")
    try:
        result = sweep_to_disk(job, JobProgress(progress, "sweeping", "simulate_fleet"))
    except SweepRefusedError as error:
        tell_skipped(error.skipped, place)
        raise RefusedError(f"{place}: {error}") from None
    found = recommended(Sweep(result, digest_sweep(folder / SWEEP)), request).found
    write_trajectories(plan, found, folder / TRAJECTORIES, progress)
    skipped = [Skipped(*row) for row in result.parameters["skipped"]]
    return AdviseReport(found, folder=str(folder)), skipped, list(result.parameters["notes"])
