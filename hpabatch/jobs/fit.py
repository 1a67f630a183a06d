"""Fits of a history's workloads; by workers a part is the fits of a shard's HPAs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
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
from hpabatch.jobs.frames import (
    FramesJob,
    Part,
    computed,
    plan_from,
    shards_job,
)
from hpabatch.jobs.orders import Values
from hpabatch.model.progress import Progress

PLAN_JOB: Final = "hpabatch.jobs.fit:plan_job"


def fit_fleet(history: History, request: FitRequest, progress: Progress) -> FleetFit:
    """Fit the workloads of a history, here or by workers.

    Raises:
        HistoryError: a table cannot be read, or there is nothing to fit.
        UsageError: a file is wrong, or an entry of it matches nothing.
    """
    overrides = read_plants(request)
    progress("planning", 0.0)
    plan = plan_replay(history, replay_parameters(request), None, selection_of(request))
    plan = through_lens(plan, request.lens, progress)[0]
    found = []
    if request.is_spread:
        with computed(_planned(plan, request), request, progress) as parts:
            found += [_fitted(row) for _, record in parts for row in record["hpas"]]
    else:
        for fitted in fit_plan(plan, overrides):
            found.append(fitted)
            progress("fitting workloads", len(found) / len(plan.chosen))
    # Budgets of policies have no part in a fit.
    evidence = {name: text for name, text in plan.evidence.items() if name != "events"}
    warnings = (*plan.history.warnings, *plan.warnings)
    return FleetFit(tuple(found), tuple(plan.skipped), warnings, evidence)


def plan_job(values: Values) -> FramesJob:
    """Plan a fit in a worker, from its order."""
    request = FitRequest.from_json(values)
    return _planned(plan_from(values, request), request)


def _planned(plan: ReplayPlan, request: FitRequest) -> FramesJob:
    overrides = read_plants(request)

    def part(some: ReplayPlan) -> Part:
        return {}, {"hpas": [asdict(found) for found in fit_plan(some, overrides)]}

    return shards_job(plan, request, part, [repr(overrides)], PLAN_JOB, "observe_usage")


def _fitted(row: Mapping[str, Any]) -> Fitted:
    """Return the fit of an HPA from plain values."""
    lists = {
        "facts": tuple(Fact(**fact) for fact in row["facts"]),
        "problems": tuple(row["problems"]),
        "questions": tuple(Question(**question) for question in row["questions"]),
    }
    return Fitted(**{**row, **lists})
