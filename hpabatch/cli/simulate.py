"""Commands that fit and simulate workloads: fidelity, fit, plan, simulate."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from hpabatch.cli.app import Answer, app, command
from hpabatch.cli.arguments import (
    ExitCodeOption,
    HistoryArgument,
    check_writable,
    file_option,
    folder_option,
)
from hpabatch.cli.manifests import load_hpas
from hpabatch.cli.progress import progress_on_stderr
from hpabatch.cli.talk import questions_told, say, tell, tell_skipped
from hpabatch.engine.capacity.request import PlanRequest
from hpabatch.engine.fidelity.request import FidelityRequest
from hpabatch.engine.fit.request import FitRequest
from hpabatch.engine.simulate.request import SimulateRequest
from hpabatch.errors import EXIT_OK, EXIT_REFUSED, RefusedError, UsageError
from hpabatch.model.printable import printable

if TYPE_CHECKING:
    from hpabatch.engine.fit.run import FleetFit
    from hpabatch.report.capacity import Plan


@command(app, shows=True)
def fidelity(
    history: HistoryArgument,
    request: FidelityRequest,
    changes: Annotated[
        str | None,
        file_option("--changes", "File for every judged change (Parquet).", kind="parquet"),
    ] = None,
) -> Answer:
    """Score how far each HPA's rules and plant can be trusted.

    A simulation is the exact rules and a model of the workload (its plant). Two scores per HPA:

    \b
    controller  do the rules, replayed, decide the rescales that were recorded?
    plant       does the plant, fitted on the first part of the history, predict what pods use in
                the minutes after their number changed in the rest, better than saying that they go
                on as before?

    "Not scorable" is an answer: where nothing changed, or too little, and for an Object or External
    metric whose kind is not stated in a plant file. ADVICE is the highest confidence that both
    scores leave to `hpabatch advise`. Exit code 3: some HPAs were left out. docs/fidelity.md
    explains the scores.

    \b
    Examples:
      hpabatch fidelity history/ --plant plants.yaml --where "namespace = 'shop'"
      hpabatch fidelity history/ --split 0.7 --horizon 10m --changes changes.parquet
      hpabatch fidelity history/ -o json | jq '.hpas[] | select(.advice) | .hpa'
    """
    from hpabatch.api.fits import fidelity as scores_of
    from hpabatch.history.reader import open_history
    from hpabatch.report.forms import write_frame

    source = open_history(history, "replay")
    with progress_on_stderr("walk_observations") as progress:
        found = scores_of(source, request, progress)
    tell(found.warnings)
    left_out = tell_skipped(found.skipped, history)
    if found.hpas.is_empty():
        raise RefusedError(f"{history}: no HPA could be scored")
    if changes is not None:
        write_frame(found.changes, found.evidence, changes)
    return found, left_out


@command(app, shows=True)
def fit(
    history: HistoryArgument,
    request: FitRequest,
    init_plant: Annotated[
        str | None,
        typer.Option(
            "--init-plant",
            metavar="FILE",
            help="New plant file with the open questions, each with the best guess.",
        ),
    ] = None,
    exit_code: ExitCodeOption = False,
) -> Answer:
    """Fit the workloads of a history: what can be known about each.

    To simulate an HPA one must know its workload: how usage depends on work and pods, what a pod
    uses without any work, the most it can use, how long it takes to start, how it is measured. Each
    of these is fitted with an interval, taken as recorded, assumed, or given in a plant file; "not
    identified" is an answer too. What drives a Pods, Object or External metric is taken from the
    changes of replicas where they tell, else guessed by its name.

    One row per HPA goes to stdout; JSON, CSV and Parquet have every fact. stderr says which HPAs
    cannot be simulated and what to do. Exit code 3: some HPAs were left out, or, with --exit-code,
    have no plant. docs/fit.md explains the facts.

    \b
    Examples:
      hpabatch fit history/ --plant plants.yaml --where "namespace = 'shop'"
      hpabatch fit history/ --init-plant plant.yaml
      hpabatch fit history/ -o json | jq '.hpas[] | select(.plant | not) | .problems'
    """
    if init_plant is not None:
        _check_new(init_plant)
    from hpabatch.api.fits import fit as fits_of
    from hpabatch.history.reader import open_history

    source = open_history(history, "replay")
    with progress_on_stderr("observe_usage") as progress:
        fits = fits_of(source, request, progress)
    found = fits.result
    _tell_fit(found, "" if init_plant else history)
    if init_plant is not None:
        _write_plant(found, history, [*request.plant, init_plant])
    without = exit_code and any(not item.has_plant for item in found.hpas)
    return fits, EXIT_REFUSED if found.skipped or without else EXIT_OK


def _check_new(place: str) -> None:
    """Refuse a plant file that is there already, or cannot be made (UsageError)."""
    if os.path.lexists(place):
        raise UsageError(
            f"--init-plant {place} is there already and may hold answers; name a new file"
        )
    check_writable("--init-plant", place)


def _write_plant(found: FleetFit, history: str, plants: Sequence[str]) -> None:
    """Write the questions of a fit as the last of some plant files, and say what to do with it."""
    from hpabatch.history.files import atomic_path
    from hpabatch.report.fit import plant_file, verdict_of

    place = plants[-1]
    with atomic_path(place) as temporary:
        quoted = [shlex.quote(name) for name in plants]
        temporary.write_text(plant_file(found, shlex.quote(history), quoted))
        _check_new(place)
    given = [word for name in plants for word in ("--plant", name)]
    command = shlex.join(["hpabatch", "simulate", history, *given])
    say(f"{place}: {verdict_of(found)}; check it, then {command}")


def _tell_fit(report: FleetFit, history: str) -> None:
    """Write warnings, HPAs left out and HPAs without a plant to stderr; "": questions are asked."""
    from hpabatch.engine.fleet.candidates import UNKNOWN_DRIVER
    from hpabatch.report.base import label

    several = len({item.cluster for item in report.hpas}) > 1
    tell(report.warnings)
    for s in report.skipped:
        name = label(s.cluster, s.namespace, s.hpa, with_cluster=several)
        say(f"skipped: {printable(name)}: {s.reason}")
    asked = []
    for item in report.hpas:
        name = label(item.cluster, item.namespace, item.hpa, with_cluster=several)
        for problem in item.problems:
            if not problem.startswith(UNKNOWN_DRIVER):
                say(f"no plant: {printable(name)}: {problem}")
            elif name not in asked:
                asked.append(name)
    if asked:
        say(f"no plant: {questions_told(asked, history)}")


@command(app, shows=True)
def plan(
    history: HistoryArgument,
    request: PlanRequest,
    totals: Annotated[
        str | None,
        file_option("--totals", "File for the sums (.csv or .parquet).", ".csv", ".parquet"),
    ] = None,
    out: Annotated[
        str | None,
        folder_option("--out", "New folder for HPAs and sums, two Parquet files."),
    ] = None,
) -> Answer:
    """Plan the capacity of the HPAs of a history, by simulation with maxReplicas removed.

    A record at maxReplicas says only that at least so many pods were wanted. So every workload is
    fitted (see `hpabatch fit`) and its HPA simulated without maxReplicas, under each --growth of
    its work: what it would have asked for, the bounds that would have sufficed, and what a
    namespace, a cluster and the fleet ask for at the same time (percentiles of the sum over HPAs,
    not a sum of peaks). docs/plan.md defines every number.

    --quota takes ResourceQuota manifests (`kubectl get resourcequota -A -o yaml`). HPAs that cannot
    be planned, or whose plan cannot be relied on, are named with the reason; every sum says how
    many it covers. Exit code 3: some HPAs were skipped.

    \b
    Examples:
      hpabatch plan history/ --growth 1.0,1.5,2.0 --quota quotas.yaml --prices prices.yaml
      hpabatch plan history/ --quota prod=prod-quotas.yaml --quota dev=dev-quotas.yaml
      hpabatch plan history/ --where "namespace = 'shop'" -o csv --totals sums.csv > hpas.csv
      hpabatch plan history/ --scenario peak.yaml --plant plant.yaml --out plan/
    """
    from hpabatch.api.simulations import plan as plan_of
    from hpabatch.history.reader import open_history

    source = open_history(history, "replay")
    with progress_on_stderr("simulate_fleet") as progress:
        found = plan_of(source, request, progress)
        progress("writing", 1.0)
        found = replace(found, written=_plan_files(found, out, totals))
    tell(found.notes)
    return found, tell_skipped(found.skipped, history)


def _plan_files(found: Plan, out: str | None, totals: str | None) -> list[str]:
    """Write the files that were asked for; return what is told of them."""
    from hpabatch.history.files import atomic_folder, atomic_path
    from hpabatch.history.replaced import check_replaced
    from hpabatch.jobs.parquet import write_parquet
    from hpabatch.report.forms import frame_csv, write_frame

    written = []
    if totals is not None:
        if totals.endswith(".csv"):
            check_replaced(totals, "sums", "--totals")
            with atomic_path(totals) as temporary:
                temporary.write_text(frame_csv(found.totals))
        else:
            write_frame(found.totals, found.evidence, totals)
        written.append(f"sums: {totals}")
    if out is not None:
        with atomic_folder(out) as new:
            for name, frame in (("hpas", found.hpas), ("totals", found.totals)):
                write_parquet(frame, found.evidence, new / f"{name}.parquet")
        written.append(f"HPAs and sums: {out}")
    return written


@command(app, shows=True)
def simulate(
    history: HistoryArgument,
    request: SimulateRequest,
    trajectories: Annotated[
        str | None,
        file_option("--trajectories", "Every tick of every run (Parquet).", kind="parquet"),
    ] = None,
) -> Answer:
    """Simulate the HPAs of a history in a closed loop.

    Fits every workload (see `hpabatch fit`), then runs its HPA against it: the exact rules decide,
    a model of the pods, their work and the metric pipeline answers. The setting "recorded" is the
    HPA as it was in force; with --hpas "proposed" is that of the manifests, on the same work. One
    row of measures per HPA and setting goes to stdout. docs/simulation.md says exactly what is
    modelled.

    The work is the recorded one, times --growth, or changed by --scenario (docs/scenarios.md).
    Rows that cannot be relied on are marked, with the reason. Exit code 3: some HPAs were refused
    or skipped.

    \b
    Examples:
      hpabatch simulate history/ --hpas proposed/ --growth 1.4 --prices prices.yaml
      hpabatch simulate history/ --scenario peak.yaml --where "namespace = 'shop'" -o csv > peak.csv
      hpabatch simulate history/ --plant plant.yaml --trajectories runs.parquet
    """
    from hpabatch.api.simulations import prepare
    from hpabatch.engine.fleet.versions import history_profile
    from hpabatch.engine.simulate.result import run_loop
    from hpabatch.history.reader import open_history
    from hpabatch.report.forms import write_frame
    from hpabatch.report.simulate import Simulation

    source, written = open_history(history, "replay"), []
    profile = history_profile(source, request.k8s, request.feature_gates)
    with progress_on_stderr("simulate_fleet") as progress:
        manifests, code = load_hpas(request.hpas, profile)
        loop, options = prepare(source, request, manifests, trajectories is not None, progress)
        result = run_loop(loop, options, progress) if loop.cases else None
        if result is not None and trajectories is not None and result.points is not None:
            progress("writing trajectories", 1.0)
            write_frame(result.points, loop.evidence, trajectories)
            written.append(f"trajectories: {trajectories}")
    tell((*loop.plan.warnings, *loop.notes))
    left_out = tell_skipped(loop.skipped, history)
    if result is None:
        raise RefusedError(f"{history}: no HPA could be simulated")
    return Simulation.of(result, written=written), code or left_out
