"""Capacity plans: a part is some HPAs under all growths.

Sums over HPAs are made by the command, of the changes of size that the parts hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hpabatch.engine.capacity.request import PlanRequest
from hpabatch.engine.capacity.run import CapacityPlan, Planning, joined_plan, prepare_planning
from hpabatch.history.base import History
from hpabatch.history.reader import open_history
from hpabatch.inputs.documents import digests_of
from hpabatch.jobs.folder import identity_of
from hpabatch.jobs.frames import FramesJob, computed, frames_job
from hpabatch.jobs.orders import Values, options_of
from hpabatch.model.progress import Progress, silent
from hpabatch.model.quota import Quota

PLAN_JOB: Final = "hpabatch.jobs.capacity:plan_job"


def plan_capacity(
    history: History,
    request: PlanRequest,
    quotas: Sequence[Quota],
    files: Sequence[str],
    progress: Progress,
) -> CapacityPlan:
    """Fit the workloads of a history and plan their HPAs, here or by workers.

    Raises:
        HistoryError: a table cannot be read, or there is nothing to plan.
        UsageError: an option, a scenario or a plant file that does not fit the history.
        RefusedError: not one HPA could be simulated.
    """
    progress("planning", 0.0)
    planning = prepare_planning(history, request, quotas, files)
    with computed(_planned(planning, request, progress), request, progress) as parts:
        return joined_plan(planning, parts)


def plan_job(values: Values) -> FramesJob:
    """Prepare a capacity plan in a worker, from its order."""
    request = PlanRequest.from_json(values)
    history = open_history(values["history"], "replay")
    return _planned(prepare_planning(history, request, limits=values["limits"]), request)


def _planned(planning: Planning, request: PlanRequest, progress: Progress = silent) -> FramesJob:
    plan, loop = planning.plan, planning.options.loop
    # (quotas are for the sums)
    own = {k: v for k, v in options_of(request).items() if k != "quota"}
    chosen = [[*c.key, repr(c.periods)] for c in plan.chosen]
    given = repr((loop.scenario, loop.plants, loop.prices))
    when = repr((plan.settled, plan.clocks.grid))
    files = digests_of((request.scenario, *request.plant, request.prices))
    depends = [own, planning.limits, chosen, planning.cuts, when, given]
    return frames_job(
        [last - first for first, last in planning.cuts],
        lambda k: planning.part(k, progress),
        *(plan.history, identity_of(plan.evidence | files, depends), PLAN_JOB),
        {**own, "quota": [], "limits": planning.limits},
        "simulate_fleet",
    )
