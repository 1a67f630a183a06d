"""Capacity plans by workers: a part is some HPAs under all growths.

Sums over HPAs are made by the command, of the changes of size that parts have, HPA by HPA.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Final

from hpabatch.engine.capacity.parts import PlannedPart
from hpabatch.engine.capacity.request import PlanRequest
from hpabatch.engine.capacity.run import (
    CapacityOptions,
    CapacityPlan,
    Planning,
    growths_of,
    joined_plan,
    prepare_planning,
)
from hpabatch.engine.capacity.sums import Span
from hpabatch.engine.fleet.candidates import Skipped
from hpabatch.engine.fleet.parameters import replay_parameters
from hpabatch.engine.fleet.selection import selection_of
from hpabatch.engine.simulate.read import read_work
from hpabatch.engine.simulate.run import Progress
from hpabatch.history.base import History
from hpabatch.history.reader import open_history
from hpabatch.inputs.documents import digests_of
from hpabatch.jobs.folder import JobFolder
from hpabatch.jobs.frames import (
    Frames,
    FramesJob,
    FramesPart,
    FramesWork,
    add_warnings,
    identity_of,
    run_by_workers,
    tasks_of,
    values_of,
)
from hpabatch.jobs.loop import Records, Task
from hpabatch.jobs.orders import Order, PlannedJob, Values, options_of

PLAN_JOB: Final = "hpabatch.jobs.capacity:plan_job"


def plan_by_workers(
    history: History, request: PlanRequest, options: CapacityOptions, progress: Progress
) -> CapacityPlan:
    """Plan the HPAs of a history; raises as `plan_capacity` does."""
    parameters = replay_parameters(request, events="decided")
    planning = prepare_planning(history, parameters, options, selection_of(request))
    job = _planned(planning, request)
    # (quotas are for the sums)
    values = {**values_of(history, request), "quota": [], "limits": planning.limits}
    order = Order(PLAN_JOB, values, job.identity, "simulate_fleet")
    with run_by_workers(job, order, request, progress) as (folder, records):
        add_warnings(history, dict.fromkeys(w for record in records for w in record["warnings"]))
        return joined_plan(planning, _PlannedParts(folder, job.tasks, records), options)


def plan_job(values: Values) -> FramesJob:
    """Prepare a capacity plan in a worker, from its order."""
    request = PlanRequest.from_json(values)
    options = CapacityOptions(growths_of(request.growth), (), read_work(request))
    parameters = replay_parameters(request, events="decided")
    history = open_history(values["history"], "replay")
    planning = prepare_planning(history, parameters, options, selection_of(request))
    return _planned(replace(planning, limits=values["limits"]), request)


def _planned(planning: Planning, request: PlanRequest) -> FramesJob:
    def part(k: int) -> FramesPart:
        found = planning.part(k)
        keys = [[*key, found.guessed[key], found.without_ceiling[key]] for key in found.guessed]
        record = {
            "span": found.span,
            "skipped": [astuple(one) for one in found.skipped],
            "notes": found.notes,
            "assumed": keys,
        }
        return FramesPart(found.frames, record)

    plan, options = planning.plan, planning.options
    own = {k: v for k, v in options_of(request).items() if k != "quota"}
    chosen = [[c.cluster, c.namespace, c.name, repr(c.periods)] for c in plan.chosen]
    given = repr((options.scenario, options.plants, options.prices))
    when = repr((plan.settled, plan.clocks.grid))
    files = digests_of((request.scenario, *request.plant, request.prices))
    depends = [own, planning.limits, chosen, planning.cuts, when, given]
    return PlannedJob(
        tasks_of([last - first for first, last in planning.cuts]),
        FramesWork(part, plan.history.warnings),
        identity_of(plan.evidence | files, depends),
        plan.history,
    )


@dataclass(frozen=True, slots=True)
class _PlannedParts:
    """The parts of a capacity plan that a folder keeps; frames are read when they are used."""

    folder: JobFolder
    tasks: Sequence[Task]
    records: Records

    def __iter__(self) -> Iterator[PlannedPart]:
        for task, record in zip(self.tasks, self.records, strict=True):
            assumed = {(c, n, h): rest for c, n, h, *rest in record["assumed"]}
            yield PlannedPart(
                frames=Frames(self.folder.place(task.key), record["frames"]),
                span=None if record["span"] is None else Span(*record["span"]),
                skipped=tuple(Skipped(*row) for row in record["skipped"]),
                notes=tuple(record["notes"]),
                guessed={key: rest[0] for key, rest in assumed.items()},
                without_ceiling={key: rest[1] for key, rest in assumed.items()},
            )
