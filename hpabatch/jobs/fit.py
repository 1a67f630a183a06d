"""Fits by workers: a part is the fits of a shard's HPAs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from hpabatch.engine.fidelity.lens import through_lens
from hpabatch.engine.fit.kinds import Question
from hpabatch.engine.fit.overrides import read_plants
from hpabatch.engine.fit.request import FitRequest
from hpabatch.engine.fit.run import Fitted, FleetFit, fit_plan, fleet_fit
from hpabatch.engine.fit.workload import Fact
from hpabatch.engine.fleet.parameters import replay_parameters
from hpabatch.engine.fleet.plan import ReplayPlan, narrow_plan, plan_replay
from hpabatch.engine.fleet.selection import selection_of
from hpabatch.engine.simulate.run import Progress
from hpabatch.history.base import History
from hpabatch.jobs.frames import (
    FramesJob,
    FramesPart,
    computed,
    plan_from,
    shards_job,
    values_of,
)
from hpabatch.jobs.orders import Order, Values

PLAN_JOB: Final = "hpabatch.jobs.fit:plan_job"


def fit_by_workers(history: History, request: FitRequest, progress: Progress) -> FleetFit:
    """Fit the workloads of a history; raises as `fit_fleet` does."""
    plan = plan_replay(history, replay_parameters(request), None, selection_of(request))
    plan = through_lens(plan, request.lens, progress)[0]
    job = _planned(plan, request)
    order = Order(PLAN_JOB, values_of(history, request, plan), job.identity, "observe_usage")
    with computed(job, order, request, history, progress) as parts:
        found = [_fitted(row) for part in parts for row in part.record["hpas"]]
    return fleet_fit(plan, found)


def plan_job(values: Values) -> FramesJob:
    """Plan a fit in a worker, from its order."""
    request = FitRequest.from_json(values)
    return _planned(plan_from(values, request), request)


def _planned(plan: ReplayPlan, request: FitRequest) -> FramesJob:
    overrides = read_plants(request)

    def part(k: int) -> FramesPart:
        some = narrow_plan(plan, range(*plan.shards[k]))
        return FramesPart({}, {"hpas": [asdict(found) for found in fit_plan(some, overrides)]})

    return shards_job(plan, request, part, [repr(overrides)])


def _fitted(row: Mapping[str, Any]) -> Fitted:
    """Return the fit of an HPA from plain values."""
    lists = {
        "facts": tuple(Fact(**fact) for fact in row["facts"]),
        "problems": tuple(row["problems"]),
        "questions": tuple(Question(**question) for question in row["questions"]),
    }
    return Fitted(**{**row, **lists})
