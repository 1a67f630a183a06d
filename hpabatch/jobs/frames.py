"""Parts of frames and plain values, which jobs of fit, fidelity, quality and plan have.

Without workers these use cases compute in one walk and keep no parts. With them a part is some
HPAs, and the job folder a temporary one, until the command has put all parts together.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from hpabatch.engine.fidelity.request import FidelityRequest
from hpabatch.engine.fit.request import FitRequest
from hpabatch.engine.fleet.parameters import replay_parameters
from hpabatch.engine.fleet.plan import ReplayPlan, plan_replay
from hpabatch.engine.fleet.selection import selection_of
from hpabatch.engine.simulate.run import Progress
from hpabatch.history.base import History
from hpabatch.history.reader import open_history
from hpabatch.history.store.storage import temporary_root
from hpabatch.inputs.workers import Spread
from hpabatch.jobs.executor import executor_of
from hpabatch.jobs.folder import Identity, JobFolder, made_by, open_job, read_frame, write_frame
from hpabatch.jobs.loop import Records, Status, Task, Tasks, run_job
from hpabatch.jobs.orders import Order, PlannedJob, Values, known_lenses, lenses_of, options_of


@dataclass(frozen=True, slots=True)
class FramesPart:
    """A part: frames by name, and plain values."""

    frames: Mapping[str, pl.DataFrame]
    record: Values


@dataclass(frozen=True, slots=True)
class FramesWork:
    """Computes parts; a task's argument is its number."""

    part: Callable[[int], FramesPart]
    warnings: Sequence[str]

    def compute(self, tasks: Sequence[Task]) -> Iterator[FramesPart]:
        """Yield the parts."""
        for task in tasks:
            yield self.part(task.argument)

    def save(self, result: FramesPart, place: Path) -> dict[str, Any]:
        """Write the frames; return the plain values, and the history's warnings up to here."""
        for name, frame in result.frames.items():
            write_frame(frame, place / f"{name}.arrow")
        record = json.loads(json.dumps(result.record, default=lambda number: number.item()))
        return {**record, "frames": list(result.frames), "warnings": list(self.warnings)}


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


def values_of(history: History, request: Spread, plan: ReplayPlan | None = None) -> dict[str, Any]:
    """Return what a worker plans the same job from; lenses are those of the plan."""
    lenses = None if plan is None else lenses_of(plan)
    return {"history": history.location, "lenses": lenses, **options_of(request)}


def plan_from(values: Values, request: FitRequest | FidelityRequest) -> ReplayPlan:
    """Return the plan of an order, through the lenses that the command has found."""
    history = open_history(values["history"], "replay")
    plan = plan_replay(history, replay_parameters(request), None, selection_of(request))
    return known_lenses(values["lenses"])(plan)


def shards_job(
    plan: ReplayPlan,
    request: FitRequest | FidelityRequest,
    part: Callable[[int], FramesPart],
    extra: Sequence[str],
) -> FramesJob:
    """Return a job with a task for each shard of a plan; `extra` is on what else it depends."""
    weights = [last - first for first, last in plan.shards]
    chosen = [[c.cluster, c.namespace, c.name, repr(c.periods)] for c in plan.chosen]
    depends = [
        *(options_of(request), chosen, plan.shards),
        *(repr(plan.settled), repr(plan.clocks.grid), extra),
    ]
    work = FramesWork(part, plan.history.warnings)
    return PlannedJob(tasks_of(weights), work, identity_of(plan.evidence, depends), plan.history)


def tasks_of(weights: Sequence[int]) -> Tasks:
    """Return a task for each weight, with its number as argument."""
    return Tasks(lambda k: Task(f"{k:05}", weights[k], k), range(len(weights)))


def identity_of(facts: Mapping[str, str], depends: Sequence[Any]) -> Identity:
    """Return the identity of a job by facts and whatever else it depends on."""
    text = json.dumps([made_by(), dict(facts), depends])
    return Identity(hashlib.sha256(text.encode()).hexdigest(), dict(facts))


@contextmanager
def computed(
    job: FramesJob, order: Order, spread: Spread, history: History, progress: Progress
) -> Iterator[Iterator[FramesPart]]:
    """Have the parts computed by workers; yield them in their order."""
    with run_by_workers(job, order, spread, progress) as (folder, records):
        yield _read(folder, job.tasks, records, history)


@contextmanager
def run_by_workers(
    job: FramesJob, order: Order, spread: Spread, progress: Progress
) -> Iterator[tuple[JobFolder, Records]]:
    """Have the parts computed by workers; yield the folder that keeps them, and their records."""

    def report(status: Status) -> None:
        progress("computing" + status.speed(), status.done_weight / max(status.weight, 1))

    execute = executor_of(Spread.part_of(spread), order)
    with (
        tempfile.TemporaryDirectory(prefix="hpabatch-", dir=temporary_root()) as place,
        open_job(Path(place) / "job", job.identity, temporary=True) as folder,
    ):
        yield folder, run_job(job.tasks, job.work, folder, report, execute)


def _read(
    folder: JobFolder, tasks: Sequence[Task], records: Records, history: History
) -> Iterator[FramesPart]:
    """Yield the parts; behind the last one the history has their warnings."""
    warnings: dict[str, None] = {}
    for task, record in zip(tasks, records, strict=True):
        place = folder.place(task.key)
        frames = {name: read_frame(place / f"{name}.arrow") for name in record["frames"]}
        warnings |= dict.fromkeys(record["warnings"])
        yield FramesPart(frames, record)
    add_warnings(history, warnings)


def add_warnings(history: History, warnings: Mapping[str, None]) -> None:
    """Put the warnings of parts before those that the command has met, each once."""
    history.warnings[:] = list(dict.fromkeys([*warnings, *history.warnings]))
