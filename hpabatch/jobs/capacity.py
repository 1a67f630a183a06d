"""Capacity plans: a part is some HPAs under all growths.

Sums over HPAs are made by the command, of the changes of size that the parts hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from hpabatch.engine.capacity.request import PlanRequest
from hpabatch.engine.capacity.run import CapacityPlan, Planning, joined_plan, prepare_planning
from hpabatch.history.base import History
from hpabatch.history.reader import open_history
from hpabatch.inputs.documents import digests_of
from hpabatch.jobs.folder import Identity, identity_of
from hpabatch.jobs.frames import computed
from hpabatch.jobs.job import Job, Values, numbered_tasks, options_of
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
    with computed(_job(planning, request, progress), request, progress) as parts:
        return joined_plan(planning, [*parts])


def plan_job(values: Values) -> Job:
    """Prepare a capacity plan in a worker, from its order."""
    request = PlanRequest.from_json(values)
    history = open_history(values["history"], "replay")
    return _job(prepare_planning(history, request, limits=values["limits"]), request)


def _job(planning: Planning, request: PlanRequest, progress: Progress = silent) -> Job:
    plan, loop = planning.plan, planning.options.loop
    # (quotas are for the sums)
    own = {k: v for k, v in options_of(request).items() if k != "quota"}

    def identify() -> Identity:
        chosen = [[*c.key, repr(c.periods)] for c in plan.chosen]
        given = repr((loop.scenario, loop.plants, loop.prices))
        when = repr((plan.settled, plan.clocks.grid))
        files = digests_of((request.scenario, *request.plant, request.prices))
        depends = [own, planning.limits, chosen, planning.cuts, when, given]
        return identity_of(plan.evidence | files, depends)

    return Job(
        tasks=numbered_tasks([last - first for first, last in planning.cuts]),
        results=partial(map, lambda k: planning.part(k, progress)),
        identify=identify,
        plan_job=PLAN_JOB,
        values={
            "history": plan.history.location,
            **own,
            "quota": [],
            "limits": planning.limits,
        },
        kernel="simulate_fleet",
        history=plan.history,
    )
