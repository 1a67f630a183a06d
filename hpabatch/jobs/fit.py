"""Fits of a history's workloads; a part is the fits of a shard's HPAs."""

from __future__ import annotations

from dataclasses import asdict
from itertools import count
from typing import Any, Final

from hpabatch.engine.fidelity.lens import through_lens
from hpabatch.engine.fit.kinds import Question
from hpabatch.engine.fit.overrides import read_plants
from hpabatch.engine.fit.request import FitRequest
from hpabatch.engine.fit.run import Fitted, FleetFit, fit_plan
from hpabatch.engine.fit.workload import Fact
from hpabatch.engine.fleet.parameters import replay_parameters
from hpabatch.engine.fleet.plan import ReplayPlan, plan_replay
from hpabatch.engine.fleet.selection import selection_of
from hpabatch.history.base import History
from hpabatch.jobs.frames import computed, plan_from, shards_job
from hpabatch.jobs.job import Job, Part, Values
from hpabatch.model.progress import Progress, silent

PLAN_JOB: Final = "hpabatch.jobs.fit:plan_job"


def fit_fleet(history: History, request: FitRequest, progress: Progress) -> FleetFit:
    """Fit the workloads of a history, here or by workers.

    Raises:
        HistoryError: a table cannot be read, or there is nothing to fit.
        UsageError: a file is wrong, or an entry of it matches nothing.
    """
    progress("planning", 0.0)
    plan = plan_replay(history, replay_parameters(request), None, selection_of(request))
    plan = through_lens(plan, request.lens, progress)[0]
    with computed(_job(plan, request, progress), request, progress) as parts:
        found = tuple(_fitted(row) for _, record in parts for row in record["hpas"])
    # Budgets of policies have no part in a fit.
    evidence = {name: text for name, text in plan.evidence.items() if name != "events"}
    warnings = (*plan.history.warnings, *plan.warnings)
    return FleetFit(found, tuple(plan.skipped), warnings, evidence)


def plan_job(values: Values) -> Job:
    """Plan a fit in a worker, from its order."""
    request = FitRequest.from_json(values)
    return _job(plan_from(values, request), request)


def _job(plan: ReplayPlan, request: FitRequest, progress: Progress = silent) -> Job:
    overrides, number = read_plants(request), count(1)

    def part(some: ReplayPlan) -> Part:
        hpas = []
        for fitted in fit_plan(some, overrides):
            hpas.append(asdict(fitted))
            progress("fitting workloads", next(number) / len(plan.chosen))
        return {}, {"hpas": hpas}

    return shards_job(plan, request, part, [repr(overrides)], PLAN_JOB, "observe_usage")


def _fitted(row: dict[str, Any]) -> Fitted:
    lists = {
        "facts": tuple(Fact(**fact) for fact in row["facts"]),
        "problems": tuple(row["problems"]),
        "questions": tuple(Question(**question) for question in row["questions"]),
    }
    return Fitted(**row | lists)
