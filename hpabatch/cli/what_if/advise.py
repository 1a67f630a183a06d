"""`hpabatch advise`: from data to what should change, in one command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpabatch.cli.app import app
from hpabatch.cli.command import LEFT, command
from hpabatch.cli.options import Output, OutputOption
from hpabatch.cli.progress import JobProgress, progress_on_stderr
from hpabatch.cli.stdout import show_report
from hpabatch.cli.talk import tell, tell_assumed, tell_skipped
from hpabatch.engine.advise.request import AdviseRequest
from hpabatch.errors import UsageError
from hpabatch.inputs.workers import Spread
from hpabatch.model.progress import Progress

if TYPE_CHECKING:
    from hpabatch.engine.sweep.result import SweepResult
    from hpabatch.jobs.advise import AdviceFolder
    from hpabatch.report.advise import DataAdvice


@command(app)
def advise(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A history, or a table's file.")],
    request: AdviseRequest,
    out: Annotated[
        str,
        typer.Option("--out", metavar="FOLDER", help="Folder for all that the advice rests on."),
    ],
    replace: Annotated[
        bool,
        typer.Option(
            "--replace", help="Replace the sweep at --out, and rows imported there, by others."
        ),
    ] = False,
    output: OutputOption = Output.table,
) -> int:
    """Say what should change, from a history or a table, in one command.

    DATA is a history (a folder of Parquet tables, or a store), or a CSV or Parquet file with its
    --map (`hpabatch import table FILE --init` proposes one). What `sweep` and `recommend` do is
    done with a default grid, SLO and bounds, each of which is stated with the result and can be
    set. The answer of an HPA is change, keep or no advice, with a confidence: high, medium or low,
    the reasons for it, and what would raise it; docs/advise.md explains them.

    \b
    --out becomes a folder with everything that the advice rests on: the imported history, the
    sweep, the sizes under today's and the recommended settings, and patches with their
    certificates. Changes of high confidence are in FOLDER/patches, those of medium confidence in
    FOLDER/review, with their doubts at the top; --accept medium or low writes more to
    FOLDER/patches. An interrupted run goes on with the same command. With another limit, bound or
    --accept the same sweep is asked again; another grid, lens or history needs --replace.

    \b
    Exit codes: 0 fine ("no advice" is an answer), 2 something is wrong or cannot be read, 3 some
    HPAs were left out or edited since, or another sweep is at --out, 75 ended early (repeat the
    command), 130 interrupted.

    \b
    Examples:
      hpabatch advise history/ --out advice/
      hpabatch advise usage.csv --map map.yaml --objects objects.yaml --out advice/ --accept medium
      hpabatch advise history/ --out advice/ --slo 'saturated_minutes<0.1%' --prices prices.yaml
      hpabatch advise history/ --out advice/ --bound target=10 --bound min=same -n shop
    """
    from hpabatch.cli.what_if.recommend_files import write_files
    from hpabatch.cli.what_if.sweep import skipped_of

    LEFT.set(lambda: _left(out))
    folder = _checked(request, out)
    is_table = _is_table(data, request, folder)
    with folder.opened():
        with progress_on_stderr() as progress:
            place = _import(data, request, folder, replace, progress) if is_table else data
            advice, swept = _advice(place, request, folder, replace, progress)
        shown, code = write_files(
            advice, str(folder.patches), (), in_place=False, review=folder.review
        )
        folder.finish(advice.found.options.sweep, advice.found)
    tell(swept.parameters["notes"], "note")
    left_out = tell_skipped(skipped_of(swept), place)
    tell(shown.warnings)
    show_report(shown, output)
    return code or left_out


def _left(out: str) -> str:
    if Path(out).exists():
        return "what is done is kept; repeat the command for the rest"
    return "nothing was done that can be kept; repeat the command"


def _checked(request: AdviseRequest, out: str) -> AdviceFolder:
    """Refuse what is wrong before anything is computed (UsageError)."""
    from hpabatch.cli.what_if.recommend_files import check_folder
    from hpabatch.engine.advise.bounds import parse_bounds
    from hpabatch.engine.advise.objective import parse_goal
    from hpabatch.inputs.cluster_objects import read_objects
    from hpabatch.jobs.advise import AdviceFolder

    if "://" in out or out in ("", "-", "."):
        raise UsageError(f"--out: expected a new folder for the advice, got {out!r}; name one")
    parse_goal(request.slo, request.minimize)
    parse_bounds(request.bound)
    if request.objects:
        read_objects(request.objects)
    folder = AdviceFolder(Path(out))
    folder.check()
    check_folder(folder.patches)
    check_folder(folder.review)
    return folder


def _is_table(data: str, request: AdviseRequest, folder: AdviceFolder) -> bool:
    """Say whether a table has to be imported first (UsageError, HistoryError: neither can)."""
    from hpabatch.cli.arguments import check_inputs
    from hpabatch.history.reader import open_history

    is_local = "://" not in data
    if is_local and not set(data) & set("*?[") and not Path(data).exists():
        raise UsageError(
            f"{data}: there is no such file or folder; name a history, or a table with its --map"
        )
    if request.map is not None:
        return True
    if is_local and Path(data).is_file():
        raise UsageError(
            f"{data}: what the columns of a table mean has to be said: `hpabatch import "
            f"table {data} --init --map map.yaml` proposes it; then name it with --map"
        )
    check_inputs(folder.path, folder.path.absolute(), open_history(data, "replay"), ())
    return False


def _import(
    data: str, request: AdviseRequest, folder: AdviceFolder, replace: bool, progress: Progress
) -> str:
    """Return the history that the table is imported into, in the folder."""
    from hpabatch.importers.table.request import TableRequest
    from hpabatch.importers.table.run import import_table

    place = str(folder.history)
    found = import_table(
        TableRequest(
            inputs=(data,), map=request.map, objects=request.objects, out=place, replace=replace
        ),
        progress,
    )
    tell(found.warnings)
    tell_assumed(found.assumed)
    return place


def _advice(
    place: str, request: AdviseRequest, folder: AdviceFolder, replace: bool, progress: Progress
) -> tuple[DataAdvice, SweepResult]:
    """Sweep, recommend and keep trajectories; return the advice and the sweep."""
    from hpabatch.api.sweeps import Sweep, recommend
    from hpabatch.cli.what_if.sweep import run_sweep
    from hpabatch.engine.fidelity.lens import seen_through
    from hpabatch.engine.sweep.request import SweepRequest
    from hpabatch.engine.sweep.run import plan_request
    from hpabatch.history.reader import open_history
    from hpabatch.jobs.advise import write_trajectories
    from hpabatch.jobs.publish import Destination
    from hpabatch.jobs.sweep_files import digest_sweep
    from hpabatch.report.advise import DataAdvice

    progress("planning", 0.0)
    asked = SweepRequest.part_of(request)
    see = seen_through(asked.lens, progress)
    plan = plan_request(open_history(place, "replay"), asked, see)
    job = JobProgress("sweeping", "simulate_fleet").on(progress)
    destination = Destination(folder.sweep, is_folder=True)
    spread = Spread.part_of(request)
    result = run_sweep(asked, plan, destination, replace, spread, job, place)
    sweep = Sweep.of(result, digest=digest_sweep(folder.sweep))
    folder.belongs(sweep.digest)
    found = recommend(sweep, request).found
    if not folder.has_trajectories(sweep.digest, found):
        folder.begin(sweep.digest)
        write_trajectories(plan, found, folder.trajectories, progress)
    return DataAdvice(found, folder=str(folder.path), history=place, asked=request), result
