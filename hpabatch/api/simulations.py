"""Simulations and capacity plans in Python."""

from __future__ import annotations

from collections.abc import Sequence

from hpabatch.api.manifests import read_hpas
from hpabatch.engine.capacity.request import PlanRequest
from hpabatch.engine.fidelity.lens import seen_through
from hpabatch.engine.fleet.parameters import replay_parameters
from hpabatch.engine.fleet.selection import selection_of
from hpabatch.engine.simulate.request import SimulateRequest
from hpabatch.engine.simulate.result import run_loop
from hpabatch.engine.simulate.run import Loop, LoopOptions, prepare_loop, read_work
from hpabatch.history.base import History
from hpabatch.inputs.quotas import file_of, read_quotas
from hpabatch.jobs.capacity import plan_capacity
from hpabatch.model.objects.hpa import HPA
from hpabatch.model.progress import Progress, silent
from hpabatch.report.capacity import Plan
from hpabatch.report.simulate import Simulation


def prepare(
    history: History,
    request: SimulateRequest,
    manifests: Sequence[HPA] | None = None,
    trajectories: bool = False,
    progress: Progress = silent,
) -> tuple[Loop, LoopOptions]:
    """Read the files that a request names, and fit the workloads.

    Raises:
        HistoryError, UsageError: a table or a file is wrong, or there is nothing to simulate.
    """
    options = read_work(request, manifests, trajectories)
    parameters = replay_parameters(request, events="decided")
    select, see = selection_of(request), seen_through(request.lens, progress)
    return prepare_loop(history, parameters, options, select, progress, see), options


def simulate(history: History, request: SimulateRequest, trajectories: bool = False) -> Simulation:
    """Simulate HPAs in a closed loop with fitted workloads.

    With `trajectories` the result's `points` has a row per tick of every run.

    Raises:
        HistoryError, UsageError: a table or a file is wrong, or there is nothing to simulate.
        RefusedError: a manifest is not valid.
    """
    history.require("replay")
    manifests = read_hpas(history, request.hpas, request.k8s, request.feature_gates)
    loop, options = prepare(history, request, manifests, trajectories)
    return Simulation.of(run_loop(loop, options))


def plan(history: History, request: PlanRequest, progress: Progress = silent) -> Plan:
    """Return what the HPAs would ask for without maxReplicas, under each growth of the work.

    Raises:
        HistoryError, UsageError: a table or a file is wrong, or there is nothing to plan.
        RefusedError: no HPA could be simulated.
    """
    history.require("replay")
    clusters = history.distinct("scales", ["cluster"])["cluster"].to_list()
    quotas = read_quotas(request.quota, clusters)
    files = [str(file_of(text, clusters)[1]) for text in request.quota]
    found = plan_capacity(history, request, quotas.quotas, files, progress)
    notes = (*quotas.notes, *found.notes)
    return Plan.of(found, notes=notes, quota_notes=quotas.notes)
