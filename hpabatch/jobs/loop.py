"""Loop of a job: tasks that are not done yet, one after the other; each leaves a part.

A job is a sequence of tasks and a `Work` that does one of them; a `JobFolder` keeps the parts of
finished ones, so the same job resumes where an earlier run stopped, and gives the same result. Only
one task's result is in memory (two while one is being saved), and nothing else for each task but
four bytes. Another `Executor` has them done by workers.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, overload

from hpabatch.errors import UsageError
from hpabatch.jobs.folder import JobFolder

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


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


def records_of(folder: JobFolder, tasks: Sequence[Task]) -> Iterator[dict[str, Any]]:
    """Yield the records of tasks that a folder keeps, each read when it is asked for.

    Raises:
        UsageError: one has been removed meanwhile.
    """
    for task in tasks:
        if (found := folder.record(task.key)) is None:
            raise UsageError(
                f"{folder.tasks}: finished parts have been removed meanwhile ({task.key}); give "
                "the same command again"
            )
        yield found


class Work(Protocol[T]):
    """Does tasks in two steps, so that one may be saved while the next is computed."""

    def compute(self, tasks: Sequence[Task]) -> Iterator[T]:
        """Yield the tasks' results, in their order; it may read ahead."""

    def save(self, result: T, place: Path) -> dict[str, Any]:
        """Write the result's files into a folder; return what to remember of it, for JSON."""


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

    @property
    def seconds_left(self) -> float | None:
        """Time that the rest takes at that rate; None: not known yet."""
        return (self.weight - self.done_weight) / self.rate if self.rate else None

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
Executor = Callable[[Work[Any], JobFolder, Sequence[Task]], Generator[Task]]
"""Does tasks, in any order, and yields each once the folder keeps it."""


def in_this_process(work: Work[T], folder: JobFolder, tasks: Sequence[Task]) -> Generator[Task]:
    """Do tasks, yielding each once it is kept: by a second thread while the next is computed."""
    saving: Future[Task] | None = None
    with ThreadPoolExecutor(1, "save") as pool:
        for task, result in zip(tasks, work.compute(tasks), strict=True):
            if saving is not None:
                yield saving.result()
            saving = pool.submit(_keep, work, folder, task, result)
            del result
        if saving is not None:
            yield saving.result()


def _keep(work: Work[T], folder: JobFolder, task: Task, result: T) -> Task:
    with folder.task(task.key) as (place, record):
        record.update(work.save(result, place))
    return task


def run_job(
    tasks: Sequence[Task],
    work: Work[Any],
    folder: JobFolder,
    report: Report = lambda status: None,
    execute: Executor = in_this_process,
) -> Iterator[dict[str, Any]]:
    """Do all tasks that the folder does not keep yet; return every task's record, in their order.

    Whatever `work` raises ends the job; tasks that are kept stay so.
    """
    missing = _missing(tasks, folder)
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
    with closing(execute(work, folder, missing)) as kept_now:
        for task in kept_now:
            left, open_tasks = left - task.weight, open_tasks - 1
            tell()
    return records_of(folder, tasks)


def _missing(tasks: Sequence[Task], folder: JobFolder) -> Sequence[Task]:
    """Return the tasks that a folder does not keep."""
    if next(folder.done(), None) is None:
        return tasks
    wanted = (k for k, task in enumerate(tasks) if folder.record(task.key) is None)
    return Tasks(tasks.__getitem__, array("I", wanted))
