"""Parts of frames and plain values, which jobs of fit, fidelity, quality and plan have.

Without workers these use cases compute in one walk and keep no parts. With them a part is some
HPAs, and the job folder a temporary one, until the command has put all parts together.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from hpabatch.engine.fidelity.request import FidelityRequest
from hpabatch.engine.fit.request import FitRequest
from hpabatch.engine.fleet.parameters import replay_parameters
from hpabatch.engine.fleet.plan import ReplayPlan, narrow_plan, plan_replay
from hpabatch.engine.fleet.selection import selection_of
from hpabatch.history.base import History
from hpabatch.history.reader import open_history
from hpabatch.inputs.workers import Spread
from hpabatch.jobs.executor import executor_of
from hpabatch.jobs.folder import Identity, identity_of, read_frame, temporary_job, write_frame
from hpabatch.jobs.loop import Status, Task, Tasks, run_job
from hpabatch.jobs.orders import PlannedJob, Values, known_lenses, lenses_of, options_of
from hpabatch.model.progress import Progress

Part = tuple[Mapping[str, pl.DataFrame], Values]
"""A part: frames by name, and plain values."""


@dataclass(frozen=True, slots=True)
class FramesWork:
    """Computes parts; a task's argument is its number."""

    part: Callable[[int], Part]
    warnings: Sequence[str]

    def compute(self, tasks: Sequence[Task]) -> Iterator[Part]:
        """Yield the parts."""
        for task in tasks:
            yield self.part(task.argument)

    def save(self, result: Part, place: Path) -> dict[str, Any]:
        """Write the frames; return the plain values, and the history's warnings up to here."""
        frames, values = result
        for name, frame in frames.items():
            write_frame(frame, place / f"{name}.arrow")
        record = json.loads(json.dumps(values, default=lambda number: number.item()))
        return {**record, "frames": list(frames), "warnings": list(self.warnings)}


FramesJob = PlannedJob[FramesWork]


@dataclass(frozen=True, slots=True)
class Frames(Mapping[str, pl.DataFrame]):
    """Frames of a part by name, each read when it is asked for."""

    place: Path
    names: Sequence[str]

    def __getitem__(self, name: str) -> pl.DataFrame:
        """Return a frame."""
        return read_frame(self.place / f"{name}.arrow")

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        return iter(self.names)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.names)


def plan_from(values: Values, request: FitRequest | FidelityRequest) -> ReplayPlan:
    """Return the plan of an order, through the lenses that the command has found."""
    history = open_history(values["history"], "replay")
    plan = plan_replay(history, replay_parameters(request), None, selection_of(request))
    return known_lenses(values["lenses"])(plan)


def shards_job(
    plan: ReplayPlan,
    request: FitRequest | FidelityRequest,
    part: Callable[[ReplayPlan], Part],
    extra: Sequence[str],
    plan_job: str,
    kernel: str,
) -> FramesJob:
    """Return a job with a task for each shard of a plan; `extra` is on what else it depends."""
    weights = [last - first for first, last in plan.shards]
    chosen = [[*c.key, repr(c.periods)] for c in plan.chosen]
    depends = [
        *(options_of(request), chosen, plan.shards),
        *(repr(plan.settled), repr(plan.clocks.grid), extra),
    ]
    return frames_job(
        *(weights, lambda k: part(narrow_plan(plan, range(*plan.shards[k]))), plan.history),
        *(identity_of(plan.evidence, depends), plan_job),
        {"lenses": lenses_of(plan), **options_of(request)},
        kernel,
    )


def frames_job(
    weights: Sequence[int],
    part: Callable[[int], Part],
    history: History,
    identity: Identity,
    plan_job: str,
    values: Values,
    kernel: str | None = None,
) -> FramesJob:
    """Return a job with a task for each weight; `values` are those beside the history's place."""
    return PlannedJob(
        tasks=Tasks(lambda k: Task(f"{k:05}", weights[k], k), range(len(weights))),
        work=FramesWork(part, history.warnings),
        identity=identity,
        plan_job=plan_job,
        values={"history": history.location, **values},
        kernel=kernel,
        history=history,
    )


@contextmanager
def computed(job: FramesJob, spread: Spread, progress: Progress) -> Iterator[Sequence[Part]]:
    """Have the parts computed; in the block they are there, in their order.

    By workers they are in a temporary folder, and frames are read when they are asked for; the
    history has the warnings of all of them.
    """
    if not spread.is_spread:
        yield [job.work.part(task.argument) for task in job.tasks]
        return

    def report(status: Status) -> None:
        progress("computing" + status.speed(), status.done_weight / max(status.weight, 1))

    execute = executor_of(spread, job)
    with temporary_job(job.identity) as folder:
        records = list(run_job(job.tasks, job.work, folder, report, execute))
        assert job.history is not None
        met = [warning for record in records for warning in record["warnings"]]
        job.history.warnings[:] = dict.fromkeys([*met, *job.history.warnings])
        yield [
            (Frames(folder.place(task.key), record["frames"]), record)
            for task, record in zip(job.tasks, records, strict=True)
        ]
