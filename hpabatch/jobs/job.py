"""Job: tasks that each leave a part, done here one after the other, or by workers.

A *job* is one command's work. It consists of *tasks*; a *part* is the files that a finished task
leaves in a `JobFolder`, so the same job resumes where an earlier run stopped, and gives the same
result. Only one task's result is in memory (two while one is being saved), and nothing else for
each task but four bytes.

What travels to a worker is an order: the name of the function that plans the job, the options, the
places of inputs, digests. It has no data and no credentials.
"""

from __future__ import annotations

import json
import time
from array import array
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeAlias, overload

import polars as pl

from hpabatch.errors import UsageError
from hpabatch.history.base import History
from hpabatch.inputs.workers import Spread
from hpabatch.jobs.folder import Identity, JobFolder, write_frame
from hpabatch.jobs.parquet import write_parquet
from hpabatch.model.options import Request

Values: TypeAlias = Mapping[str, Any]
"""Plain values, for JSON."""

Part: TypeAlias = tuple[Mapping[str, pl.DataFrame], Values]
"""A part: frames by name, and plain values."""

PARQUET: Final = ".parquet"


@dataclass(frozen=True, slots=True)
class Task:
    """A task: the key of its part (a file name, unique), its weight, and its argument.

    Tasks of one `group` stand together and share what was prepared for the first of them; "": a
    group of its own.
    """

    key: str
    weight: int
    argument: Any
    group: str = ""


@dataclass(frozen=True, slots=True)
class Tasks(Sequence[Task]):
    """Tasks that are made when they are asked for, so that many of them take no memory.

    `numbers` are what `make` makes them of; a part of them is a slice.
    """

    make: Callable[[int], Task]
    numbers: Sequence[int]

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.numbers)

    @overload
    def __getitem__(self, k: int) -> Task: ...
    @overload
    def __getitem__(self, k: slice) -> Tasks: ...
    def __getitem__(self, k: int | slice) -> Task | Tasks:
        """Return one of them, or some."""
        if isinstance(k, slice):
            return Tasks(self.make, self.numbers[k])
        return self.make(self.numbers[k])


def numbered_tasks(weights: Sequence[int]) -> Tasks:
    """Return a task for each weight, whose number is its argument."""
    return Tasks(lambda k: Task(f"{k:05}", weights[k], k), range(len(weights)))


@dataclass(frozen=True)
class Job:
    """A job.

    Attributes:
        tasks: its tasks.
        results: yields what is computed for the arguments of tasks, in their order; it may read
            ahead.
        identify: returns on what the parts depend.
        plan_job: the function by which a worker plans the same job, `module:name`.
        values: its argument.
        kernel: the compiled function that takes longest to compile, None without one.
        history: what the tasks read; its warnings up to a part are kept with it.
        part_of: makes a part of a result, while the next one is computed. A frame whose name ends
            with PARQUET becomes such a file, with `evidence` in it.
    """

    tasks: Sequence[Task]
    results: Callable[[Sequence[Any]], Iterator[Any]]
    identify: Callable[[], Identity]
    plan_job: str
    values: Values
    kernel: str | None = None
    history: History | None = None
    part_of: Callable[[Any], Part] = lambda part: part
    evidence: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def identity(self) -> Identity:
        """On what the parts depend; it may take digests of all that is read."""
        return self.identify()

    def compute(self, tasks: Sequence[Task]) -> Iterator[tuple[Any, list[str]]]:
        """Yield the results of tasks, in their order, each with the warnings up to there."""
        for result in self.results([task.argument for task in tasks]):
            yield result, [] if self.history is None else list(self.history.warnings)

    def save(self, result: tuple[Any, list[str]], place: Path) -> dict[str, Any]:
        """Write the files of a part into a folder; return what to remember of it, for JSON."""
        frames, values = self.part_of(result[0])
        for name, frame in frames.items():
            if name.endswith(PARQUET):
                write_parquet(frame, self.evidence, place / name)
            else:
                write_frame(frame, place / f"{name}.arrow")
        record = json.loads(json.dumps(values, default=lambda number: number.item()))
        return {**record, "warnings": result[1]}


def options_of(request: Request) -> dict[str, Any]:
    """Return a request's options but those that say who computes: results do not depend on them."""
    return {k: v for k, v in request.to_json().items() if k not in Spread.options()}


@dataclass(frozen=True, slots=True)
class Status:
    """Progress of a job; weights are summed over tasks.

    `resumed` are the tasks (and their weight) that an earlier run had done.
    """

    tasks: int
    done: int
    resumed: int
    weight: int
    done_weight: int
    resumed_weight: int
    seconds: float

    @property
    def rate(self) -> float | None:
        """Weight done per second in this run; None: nothing is done yet."""
        done = self.done_weight - self.resumed_weight
        return done / self.seconds if done and self.seconds > 0 else None

    def speed(self, unit: str = "") -> str:
        """Return ", RATE" for people in `unit`, that of the weights; "": how many parts are done.

        It is "" before the first task is done.
        """
        rate = self.rate
        if rate is None:
            return ""
        if not unit:
            return f", {self.done:,} of {self.tasks:,} parts"
        told = f"{rate / 1e6:.1f} M" if rate >= 1e6 else f"{rate / 1000:,.0f} k"
        return f", {told} {unit}/s"


Report = Callable[[Status], None]
Executor = Callable[[Job, JobFolder, Sequence[Task]], Generator[Task]]
"""Does tasks, in any order, and yields each once the folder keeps it."""


def in_this_process(job: Job, folder: JobFolder, tasks: Sequence[Task]) -> Generator[Task]:
    """Do tasks, yielding each once it is kept: by a second thread while the next is computed."""

    def keep(task: Task, result: Any) -> Task:
        with folder.task(task.key) as (place, record):
            record.update(job.save(result, place))
        return task

    saving: Future[Task] | None = None
    with ThreadPoolExecutor(1, "save") as pool:
        for task, result in zip(tasks, job.compute(tasks), strict=True):
            if saving is not None:
                yield saving.result()
            saving = pool.submit(keep, task, result)
            del result
        if saving is not None:
            yield saving.result()


def executor_of(spread: Spread, job: Job) -> Executor:
    """Return what does the tasks of a job, by the options of a command.

    Raises:
        UsageError: a scheduler that cannot be used, or an input that only this process has; called,
            a task that no worker can do, or workers of another version.
        UnfinishedError: called, workers, scheduler or the place of parts are gone.
    """
    if not spread.is_spread:
        return in_this_process
    from hpabatch.jobs.executor import by_workers

    return by_workers(spread, job)


def run_job(
    job: Job,
    folder: JobFolder,
    report: Report = lambda status: None,
    execute: Executor = in_this_process,
) -> Iterator[dict[str, Any]]:
    """Do all tasks that the folder does not keep yet; return every task's record, in their order.

    Each record is read when it is asked for. Whatever a task raises ends the job; tasks that are
    kept stay so.

    Raises:
        UsageError: reading a record: a finished part has been removed meanwhile.
    """
    tasks = missing = job.tasks
    if next(folder.done(), None) is not None:
        wanted = (k for k, task in enumerate(tasks) if folder.record(task.key) is None)
        missing = Tasks(tasks.__getitem__, array("I", wanted))
    weight = sum(task.weight for task in tasks)
    resumed = weight - sum(task.weight for task in missing)
    begin, left, open_tasks = time.monotonic(), weight - resumed, len(missing)

    def tell() -> None:
        report(
            Status(
                tasks=len(tasks),
                done=len(tasks) - open_tasks,
                resumed=len(tasks) - len(missing),
                weight=weight,
                done_weight=weight - left,
                resumed_weight=resumed,
                seconds=time.monotonic() - begin,
            )
        )

    tell()
    with closing(execute(job, folder, missing)) as kept_now:
        for task in kept_now:
            left, open_tasks = left - task.weight, open_tasks - 1
            tell()
    return _records(folder, tasks)


def _records(folder: JobFolder, tasks: Sequence[Task]) -> Iterator[dict[str, Any]]:
    for task in tasks:
        if (found := folder.record(task.key)) is None:
            raise UsageError(
                f"{folder.tasks}: finished parts have been removed meanwhile ({task.key}); give "
                "the same command again"
            )
        yield found
