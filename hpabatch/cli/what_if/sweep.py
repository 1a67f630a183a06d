"""`hpabatch sweep`: every HPA of a history under every setting of a grid."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpabatch.cli.app import app
from hpabatch.cli.arguments import check_inputs
from hpabatch.cli.command import LEFT, command
from hpabatch.cli.options import HistoryArgument, Output, OutputOption
from hpabatch.cli.progress import JobProgress, progress_on_stderr, tell_compiling
from hpabatch.cli.stdout import show_report
from hpabatch.cli.talk import tell, tell_skipped
from hpabatch.engine.sweep.request import SweepToRequest
from hpabatch.errors import RefusedError, UsageError
from hpabatch.inputs.workers import Spread
from hpabatch.model.printable import counted

if TYPE_CHECKING:
    from hpabatch.engine.fleet.candidates import Skipped
    from hpabatch.engine.sweep.request import SweepRequest
    from hpabatch.engine.sweep.result import SweepResult
    from hpabatch.engine.sweep.run import SweepPlan
    from hpabatch.jobs.publish import Destination


@command(app)
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
    output: OutputOption = Output.table,
) -> int:
    """Simulate the HPAs of a history under many settings.

    Fits every workload, then runs its HPA under each setting of a grid, on the same work: the exact
    rules decide, a model of the pods answers (docs/simulation.md). --out becomes a folder of
    Parquet tables: settings, hpas, results (a row per HPA and setting, all measures) and blocks
    (week by week); `hpabatch recommend` and `hpabatch plot` read it, docs/sweep.md explains it.
    Setting 0 is today's: the last spec that was in force. An interrupted sweep goes on with the
    same command. With --workers or --scheduler other processes or machines compute parts of it
    (docs/scale.md).

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

    \b
    Exit codes: 0 fine, 2 something is wrong or cannot be read (all mistakes of grids and groups in
    one message), 3 some HPAs were skipped (the others are swept), or another sweep is at --out; 2
    wins over 3.

    \b
    Examples:
      hpabatch sweep history/ --grid target=50:85:5 --grid scaleDown.window=60,300,900 --out sweep/
      hpabatch sweep history/ --grid policies=gentle,fast --group label:tier=web --out sweep/
      hpabatch sweep history/ --grid target=40:90 --grid min=1:10 --grid max=x1:x3 --sample 500 \\
          --prices prices.yaml --out sweep/
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
        check_inputs(out, destination.real_path, source, ())
        spread = Spread.part_of(request)
        result = run_sweep(request, plan, destination, replace, spread, job.on(progress), history)
    tell([*result.parameters["notes"], *_without_cost(request, result)], "note")
    left_out = tell_skipped(skipped_of(result), history)
    show_report(Sweep.of(result, out=out), output)
    return left_out


def run_sweep(
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


def skipped_of(result: SweepResult) -> list[Skipped]:
    """Return the HPAs that a sweep left out."""
    from hpabatch.engine.fleet.candidates import Skipped

    return [Skipped(*row) for row in result.parameters["skipped"]]


def _destination(out: str) -> Destination:
    """Return where the sweep goes (UsageError: it cannot go there)."""
    from hpabatch.jobs.publish import Destination
    from hpabatch.jobs.sweep_files import is_sweep_folder

    if "://" in out or out in ("", "-", "."):
        raise UsageError(f"--out: expected a new folder for the sweep, got {out!r}; name one")
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


def _without_cost(request: SweepToRequest, result: SweepResult) -> list[str]:
    """Return a note on the HPAs that have no cost although there are prices."""
    today = result.results.filter(result.results["setting_id"] == 0)
    unknown = today["cost"].null_count()
    if request.prices is None or not unknown:
        return []
    return [
        f"--prices: {unknown} of {counted(today.height, 'HPA')} without a cost: requests of "
        "cpu or memory that have a price were not recorded of their pods"
    ]
