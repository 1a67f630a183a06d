"""Parts of frames and plain values, which all jobs on a history have.

Without workers fit, fidelity, quality and plan compute in one walk and keep no parts. With them a
part is some HPAs, and the job folder a temporary one, until the command has put all parts together.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

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
from hpabatch.jobs.folder import (
    Identity,
    JobFolder,
    identity_of,
    read_frame,
    temporary_job,
    write_frame,
)
from hpabatch.jobs.loop import Status, Task, Tasks, run_job
from hpabatch.jobs.orders import PlannedJob, Values, known_lenses, lenses_of, options_of
from hpabatch.jobs.parquet import write_parquet
from hpabatch.model.progress import Progress

PARQUET: Final = ".parquet"
Part = tuple[Mapping[str, pl.DataFrame], Values]
"""A part: frames by name, and plain values."""


def _as_it_is(part: Part) -> Part:
    return part


@dataclass(frozen=True, slots=True)
class FramesWork:
    """Computes parts and writes them.

    `results` yields what is computed for arguments of tasks, in their order; it may read ahead.
    `part_of` makes a part of each, while the next one is computed. A frame whose name ends with
    PARQUET becomes such a file, with `evidence` in it.
    """

    results: Callable[[Sequence[Any]], Iterator[Any]]
    warnings: Sequence[str]
    part_of: Callable[[Any], Part] = _as_it_is
    evidence: Mapping[str, str] = field(default_factory=dict)

    def compute(self, tasks: Sequence[Task]) -> Iterator[tuple[Any, tuple[str, ...]]]:
        """Yield the results, each with the history's warnings up to there."""
        for result in self.results([task.argument for task in tasks]):
            yield result, tuple(self.warnings)

    def save(self, result: tuple[Any, tuple[str, ...]], place: Path) -> dict[str, Any]:
        """Write the frames; return the plain values and the warnings."""
        found, warnings = result
        frames, values = self.part_of(found)
        for name, frame in frames.items():
            if name.endswith(PARQUET):
                write_parquet(frame, self.evidence, place / name)
            else:
                write_frame(frame, place / f"{name}.arrow")
        record = json.loads(json.dumps(values, default=lambda number: number.item()))
        return {**record, "warnings": list(warnings)}


FramesJob = PlannedJob[FramesWork]


def read_part(folder: JobFolder, task: Task, name: str) -> pl.DataFrame:
    """Return a frame of a finished task's part."""
    return read_frame(folder.place(task.key) / f"{name}.arrow")


class Frames(dict[str, pl.DataFrame]):
    """Frames of a finished task's part by name, each read when it is asked for."""

    def __init__(self, folder: JobFolder, task: Task) -> None:
        """Read nothing yet."""
        super().__init__()
        self._read = partial(read_part, folder, task)

    def __missing__(self, name: str) -> pl.DataFrame:
        """Return a frame; it is not kept."""
        return self._read(name)


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
    part: Callable[[int], Part] | FramesWork,
    history: History,
    identity: Identity,
    plan_job: str,
    values: Values,
    kernel: str | None = None,
) -> FramesJob:
    """Return a job with a task for each weight, whose number is its argument.

    `part` makes the part of a number; `values` are those beside the history's place.
    """
    if not isinstance(part, FramesWork):
        part = FramesWork(partial(map, part), history.warnings)
    return PlannedJob(
        tasks=Tasks(lambda k: Task(f"{k:05}", weights[k], k), range(len(weights))),
        work=part,
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
        yield list(job.work.results([task.argument for task in job.tasks]))
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
            (Frames(folder, task), record) for task, record in zip(job.tasks, records, strict=True)
        ]
