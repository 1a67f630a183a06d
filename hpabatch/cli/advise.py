"""Commands that try other settings and say what should change: advise, recommend, sweep."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpabatch.cli.app import LEFT, Answer, app, command
from hpabatch.cli.arguments import HistoryArgument, check_inputs, check_replaced_folder
from hpabatch.cli.progress import JobProgress, progress_on_stderr, tell_compiling
from hpabatch.cli.talk import tell, tell_assumed, tell_skipped
from hpabatch.engine.advise.request import AdviseRequest, RecommendRequest
from hpabatch.engine.sweep.request import SweepRequest, SweepToRequest
from hpabatch.errors import EXIT_OK, RefusedError, UsageError
from hpabatch.importers.table.request import TableRequest
from hpabatch.inputs.workers import Spread
from hpabatch.model.printable import counted
from hpabatch.model.progress import Progress

if TYPE_CHECKING:
    from hpabatch.engine.fleet.candidates import Skipped
    from hpabatch.engine.sweep.result import SweepResult
    from hpabatch.engine.sweep.run import SweepPlan
    from hpabatch.jobs.advise import AdviceFolder
    from hpabatch.jobs.publish import Destination
    from hpabatch.report.advise import DataAdvice


@command(app, shows=True)
def sweep(
    history: HistoryArgument,
    request: SweepToRequest,
    out: Annotated[
        str,
        typer.Option(
            "--out", metavar="FOLDER", help="Folder for the sweep; the same sweep there is kept."
        ),
    ],
    replace: Annotated[
        bool,
        typer.Option(
            "--replace", help="Replace another sweep at --out, or what it left when interrupted."
        ),
    ] = False,
) -> Answer:
    """Simulate the HPAs of a history under many settings.

    Fits every workload, then runs its HPA under each setting of a grid, on the same work: the exact
    rules decide, a model of the pods answers (docs/simulation.md). --out becomes a folder of
    Parquet tables, which `hpabatch recommend` and `hpabatch plot` read (docs/sweep.md). Setting 0
    is today's: the last spec that was in force. An interrupted sweep goes on with the same command.

    \b
    --grid FIELD=VALUES, repeated, gives all combinations: a list (60,300,900), a range (50:85:5),
    or values relative to today's (x0.8,x1,x1.2 or -1,+2). Fields: target, target.NAME (of one
    metric), min, max, tolerance, scaleUp.window, scaleDown.window, policies, scaleUp.policies,
    scaleDown.policies, scaleUp.select, scaleDown.select, scaleUp.tolerance, scaleDown.tolerance,
    sync; beyond what Kubernetes can do: combine, percentage-of. Policy sets: gentle, default, fast,
    and those of --policy-sets.

    \b
    --group makes HPAs get one common setting: label:tier=web, label:tier, namespace:shop,
    namespace, pattern:shop/*-api, fleet. Without it every HPA gets its own.

    Exit code 3: some HPAs were skipped, or another sweep is at --out.

    \b
    Examples:
      hpabatch sweep history/ --grid target=50:85:5 --grid scaleDown.window=60,300,900 --out sweep/
      hpabatch sweep history/ --grid policies=gentle,fast --group label:tier=web --out sweep/
      hpabatch sweep history/ --grid target=40:90:5 --grid max=x1:x3:0.5 --prices prices.yaml \\
          --out sweep/
    """
    from hpabatch.api.sweeps import Sweep
    from hpabatch.engine.fidelity.lens import seen_through
    from hpabatch.engine.sweep.run import plan_request
    from hpabatch.history.reader import open_history

    destination = _destination(out)
    job = JobProgress("sweeping", "simulate_fleet")
    LEFT.set(job.left)
    with progress_on_stderr() as progress:
        progress("planning", 0.0)
        source = open_history(history, "replay")
        plan = plan_request(source, request, seen_through(request.lens, progress))
        check_inputs(out, source, {})
        spread = Spread.part_of(request)
        result = _swept(request, plan, destination, replace, spread, job.on(progress), history)
    tell([*result.parameters["notes"], *_without_cost(request, result)], "note")
    return Sweep.of(result, out=out), tell_skipped(_skipped(result), history)


def _swept(
    request: SweepRequest,
    plan: SweepPlan,
    destination: Destination,
    replace: bool,
    spread: Spread,
    job: JobProgress,
    history: str,
) -> SweepResult:
    """Sweep to a folder (RefusedError: no HPA could be simulated, or another sweep is there)."""
    from hpabatch.jobs.sweep import SweepJob, SweepRefusedError, sweep_to_disk

    job.destination = destination
    if request.fidelity:
        tell_compiling("walk_observations")
    try:
        result = sweep_to_disk(SweepJob(request, plan, destination, replace, spread), job)
    except SweepRefusedError as error:
        tell(plan.notes, "note")
        tell_skipped(error.skipped, history)
        raise RefusedError(f"{history}: {error}") from None
    job.written = True
    return result


def _skipped(result: SweepResult) -> list[Skipped]:
    """Return the HPAs that a sweep left out."""
    from hpabatch.engine.fleet.candidates import Skipped

    return [Skipped(*row) for row in result.parameters["skipped"]]


def _destination(out: str) -> Destination:
    """Return where the sweep goes (UsageError: it cannot go there)."""
    from hpabatch.jobs.publish import Destination
    from hpabatch.jobs.sweep_files import is_sweep_folder

    _check_local(out, "the sweep")
    path = Path(out)
    try:
        if path.exists() and (not path.is_dir() or not is_sweep_folder(path)):
            raise UsageError(f"--out {out} is there and is no sweep; name a new folder")
        parent = path.absolute().parent
        if not parent.is_dir():
            raise UsageError(f"--out {out}: expected a folder {parent}, got none; make it first")
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"--out {out} cannot be used: {reason}; name another place") from None
    return Destination(path, is_folder=True)


def _check_local(out: str, what: str) -> None:
    if "://" in out or out in ("", "-", "."):
        raise UsageError(f"--out: expected a new folder for {what}, got {out!r}; name one")


def _without_cost(request: SweepToRequest, result: SweepResult) -> Iterator[str]:
    """Yield a note on the HPAs that have no cost although there are prices."""
    today = result.results.filter(result.results["setting_id"] == 0)
    unknown = today["cost"].null_count()
    if request.prices is not None and unknown:
        yield (
            f"--prices: {unknown} of {counted(today.height, 'HPA')} without a cost: requests of "
            "cpu or memory that have a price were not recorded of their pods"
        )


@command(app, shows=True)
def recommend(
    sweep: Annotated[
        str, typer.Argument(metavar="SWEEP", help="Folder that `hpabatch sweep` wrote.")
    ],
    request: RecommendRequest,
    patches: Annotated[
        str | None,
        typer.Option("--patches", metavar="FOLDER", help="Folder for patches and certificates."),
    ] = None,
    hpas: Annotated[
        list[str] | None,
        typer.Option(
            "--hpas",
            metavar="PATH",
            help="Manifests of which edited copies are written; may be repeated.",
        ),
    ] = None,
) -> Answer:
    """Recommend settings from a sweep, or say why not.

    For every HPA (or group of them) the setting with the least --minimize that keeps to the --slo
    is chosen on the first weeks and judged on the last ones, which it was not chosen on. The answer
    is "change", "keep" or "no advice", always with its reasons (docs/recommend.md).

    \b
    --slo MEASURE<LIMIT/UNIT   per hour, day or week; or % of the time, of minutes. It must hold for
                               every HPA, in the worst week and on average (--robust).
    --bound FIELD=LIMIT        how far from today's: target=15 (points), max=x2 (twice or half),
                               scaleDown.window=600 (seconds), policies=same, min=any.
                               [default: target=20, min=x2, max=x2, all else free]

    \b
    --patches FOLDER gets a strategic-merge patch NAMESPACE.HPA.yaml for every change, with its
    evidence as comments, and a certificate NAMESPACE.HPA.json for every HPA. The folder is new or
    empty, or holds earlier recommendations only: these are replaced. With --hpas the manifests of
    changed HPAs are edited, only on the lines that change: the copies are in FOLDER/manifests.
    There is no patch of an HPA that KEDA, Flux, Argo CD, Helm or another controller writes, or that
    was edited since: the answer says where to change it instead.

    Exit code 3: some manifests could not be edited, or HPAs were edited since.

    \b
    Examples:
      hpabatch recommend sweep/ --slo 'saturated_minutes<10/week' --minimize cost
      hpabatch recommend sweep/ --slo 'saturated_minutes<0.5%,rescales<40/day' --patches patches/
      hpabatch recommend sweep/ --slo 'saturated_minutes<10/week' --hpas deploy/ --patches patches/
    """
    if hpas and patches is None:
        raise UsageError("--hpas needs --patches FOLDER for the edited copies")
    from hpabatch.api.sweeps import open_sweep
    from hpabatch.api.sweeps import recommend as recommended
    from hpabatch.cli.recommend_files import check_folder, write_files

    if patches is not None:
        check_replaced_folder(patches, "--patches")
        check_folder(Path(patches))
    advice, code = recommended(open_sweep(sweep), request), EXIT_OK
    if patches is not None:
        advice, code = write_files(advice, patches, hpas=tuple(hpas or ()))
    tell(advice.warnings)
    return advice, code


@command(app, shows=True)
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
) -> Answer:
    """Say what should change, from a history or a table, in one command.

    DATA is a history (a folder of Parquet tables, or a store), or a CSV or Parquet file with its
    --map (`hpabatch import table FILE --init` proposes one). What `sweep` and `recommend` do is
    done with a default grid, SLO and bounds, each of which is stated with the result and can be
    set. The answer of an HPA is change, keep or no advice, with a confidence: high, medium or low,
    the reasons for it, and what would raise it (docs/advise.md).

    \b
    --out becomes a folder with everything that the advice rests on: the imported history, the
    sweep, the sizes under today's and the recommended settings, and patches with their
    certificates. Changes of high confidence are in FOLDER/patches, those of medium confidence in
    FOLDER/review; --accept medium or low writes more to FOLDER/patches. An interrupted run goes on
    with the same command; another grid, lens or history needs --replace.

    Exit code 3: some HPAs were left out or edited since, or another sweep is at --out.

    \b
    Examples:
      hpabatch advise history/ --out advice/
      hpabatch advise usage.csv --map map.yaml --objects objects.yaml --out advice/ --accept medium
      hpabatch advise history/ --out advice/ --slo 'saturated_minutes<0.1%' --prices prices.yaml
      hpabatch advise history/ --out advice/ --bound target=10 --bound min=same -n shop
    """
    from hpabatch.cli.recommend_files import write_files

    def left() -> str:
        if Path(out).exists():
            return "what is done is kept; repeat the command for the rest"
        return "nothing was done that can be kept; repeat the command"

    LEFT.set(left)
    folder = _checked(request, out)
    is_table = _is_table(data, request, folder)
    with folder.opened():
        with progress_on_stderr() as progress:
            place = _imported(data, request, folder, replace, progress) if is_table else data
            advice, swept = _advice(place, request, folder, replace, progress)
        shown, code = write_files(advice, str(folder.patches), folder.review)
        folder.finish(advice.found.options.sweep, advice.found)
    tell(swept.parameters["notes"], "note")
    left_out = tell_skipped(_skipped(swept), place)
    tell(shown.warnings)
    return shown, code or left_out


def _checked(request: AdviseRequest, out: str) -> AdviceFolder:
    """Refuse what is wrong before anything is computed (UsageError)."""
    from hpabatch.cli.recommend_files import check_folder
    from hpabatch.engine.advise.bounds import parse_bounds
    from hpabatch.engine.advise.objective import NO_COST, parse_goal
    from hpabatch.inputs.cluster_objects import read_objects
    from hpabatch.jobs.advise import AdviceFolder

    _check_local(out, "the advice")
    parse_goal(request.slo, request.minimize)
    if (request.minimize or "").strip() == "cost" and request.prices is None:
        raise UsageError(NO_COST)
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
    check_inputs(folder.path, open_history(data, "replay"), {})
    return False


def _imported(
    data: str, request: AdviseRequest, folder: AdviceFolder, replace: bool, progress: Progress
) -> str:
    """Return the history that the table is imported into, in the folder."""
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
    from hpabatch.api.sweeps import Sweep
    from hpabatch.api.sweeps import recommend as recommended
    from hpabatch.engine.fidelity.lens import seen_through
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
    result = _swept(asked, plan, destination, replace, Spread.part_of(request), job, place)
    sweep = Sweep.of(result, digest=digest_sweep(folder.sweep))
    folder.belongs(sweep.digest)
    found = recommended(sweep, request).found
    if not folder.has_trajectories(sweep.digest, found):
        folder.begin(sweep.digest)
        write_trajectories(plan, found, folder.trajectories, progress)
    return DataAdvice(found, folder=str(folder.path), history=place, asked=request), result
