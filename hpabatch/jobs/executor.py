"""Executors: this process, processes beside it, or the workers of a Dask scheduler.

A worker gets one task at a time, by the plain values of an `Order` (places, options, digests; no
data, no credentials), does what this process would do, and leaves the task's files where the job
folder finds them. So a worker that dies costs its task only, which another one does again.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from hpabatch import _cache, errors
from hpabatch.engine.fleet.request import Spread
from hpabatch.errors import HistoryError, UsageError
from hpabatch.jobs.folder import Identity, JobFolder
from hpabatch.jobs.loop import Executor, Task, Work, in_this_process
from hpabatch.jobs.parts_place import PartsPlace
from hpabatch.jobs.processes import ProcessPool, Reply
from hpabatch.jobs.worker import DESCRIBE, describe

MOST_DEATHS: Final = 3
"""Workers that may die at the same task before it is given up."""

NO_WORKER_S: Final = 60.0
"""Time that a scheduler may be without any worker."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a worker makes a job of.

    Attributes:
        make: the function that does it, `module:name`.
        told: its argument, plain values.
        identity: of the job, as it is planned here.
        kernel: the compiled function that takes longest to compile, None without one.
    """

    make: str
    told: Mapping[str, Any]
    identity: Identity
    kernel: str | None = None


class Pool(Protocol):
    """Workers that take orders."""

    def workers(self) -> Sequence[str]:
        """Return the names of the workers that are there now.

        Raises:
            UsageError: nothing is known of them any more.
        """

    def start(self, worker: str, order: str) -> None:
        """Give an order to a worker that has none."""

    def wait(self) -> list[Reply]:
        """Wait some time at most; return what came back."""

    def close(self) -> None:
        """Leave the workers; those of this machine end."""


def executor_of(spread: Spread, order: Order) -> Executor:
    """Return what does the tasks of a job, by the options of a command.

    Raises:
        UsageError: a scheduler that cannot be used; called, a worker that cannot, or that another
            version of hpabatch is on.
    """
    if spread.workers is None and spread.scheduler is None:
        return in_this_process
    if spread.scheduler is not None:
        from hpabatch.jobs.dask_workers import check_address

        check_address(spread)

    def execute(work: Work[Any], folder: JobFolder, tasks: Sequence[Task]) -> Generator[Task]:
        return _by_workers(spread, order, folder, tasks)

    return execute


def _by_workers(
    spread: Spread, order: Order, folder: JobFolder, tasks: Sequence[Task]
) -> Generator[Task]:
    """Have tasks done by workers; yield each once the folder keeps it."""
    place = None if spread.parts is None else PartsPlace(spread.parts, order.identity.fingerprint)
    if place is not None and tasks:
        place.probe()
        there = set(place.whole())
        fetched = [t for t in tasks if t.key in there and _fetched(place, t, folder)]
        yield from fetched
        known = {t.key for t in fetched}
        tasks = [t for t in tasks if t.key not in known]
    if not tasks:
        return
    with closing(_open_pool(spread, len(tasks))) as pool:
        loop = _Loop(pool, order, folder, spread.parts, _Queue(tasks))
        for task in loop.run():
            if place is None or _fetched(place, task, folder):
                yield task
            else:
                loop.again(task, f"its files are not all at {spread.parts}")
    if place is not None:
        place.clear()


def _fetched(place: PartsPlace, task: Task, folder: JobFolder) -> bool:
    try:
        return place.fetch(task.key, folder)
    except HistoryError as error:  # (the place is at fault: what is finished is not)
        raise UsageError(str(error)) from error


def _open_pool(spread: Spread, tasks: int) -> Pool:
    if spread.scheduler is None:
        return ProcessPool(min(spread.workers or 1, tasks))
    from hpabatch.jobs.dask_workers import DaskPool

    return DaskPool(spread)


class _Queue:
    """Tasks that no worker has; a worker goes on with the group that it began."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._groups: dict[str, list[Task]] = {}  # (the next task of a group is the last)
        for task in reversed(tasks):
            self._groups.setdefault(task.group or task.key, []).append(task)
        self._fresh = list(self._groups)
        self._begun: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._groups)

    def take(self, worker: str) -> Task:
        """Return the task for a worker: of its group, of a new one, else of the longest."""
        group = self._begun.get(worker, "")
        while group not in self._groups and self._fresh:
            group = self._fresh.pop()
        if group not in self._groups:
            group = max(self._groups, key=lambda name: len(self._groups[name]))
        self._begun[worker] = group
        task = self._groups[group].pop()
        if not self._groups[group]:
            del self._groups[group]
        return task

    def give_back(self, task: Task) -> None:
        """Take a task again, before all others of its group."""
        self._groups.setdefault(task.group or task.key, []).append(task)


class _Loop:
    """Orders that are out: one a worker at most, the first of each says what its versions are."""

    def __init__(
        self, pool: Pool, order: Order, folder: JobFolder, parts: str | None, queue: _Queue
    ) -> None:
        self._pool, self._order, self._queue = pool, order, queue
        self._common = {
            "make": order.make,
            "told": order.told,
            "fingerprint": order.identity.fingerprint,
            "facts": dict(order.identity.facts),
            "folder": str(Path.cwd()),
            "tasks": str(folder.tasks.absolute()),
            "parts": parts,
        }
        self._here = describe()
        self._known: set[str] = set()  # workers whose versions are those of this process
        self._out: dict[str, Task | None] = {}  # by worker its task; None: it describes itself
        self._deaths: Counter[str] = Counter()

    def run(self) -> Iterator[Task]:
        """Yield tasks as workers finish them (UsageError: a worker cannot)."""
        last_seen = time.monotonic()
        while self._queue or self._out:
            names = self._pool.workers()
            self._known &= set(names)
            for worker in names:
                if self._out and self._compiles_first():
                    break
                self._give(worker)
            if names or self._out:
                last_seen = time.monotonic()
            elif time.monotonic() - last_seen > NO_WORKER_S:
                raise UsageError(
                    f"the scheduler has had no worker for {NO_WORKER_S:.0f} s; start some, then "
                    "give the same command again: it goes on from there"
                )
            for reply in self._pool.wait():
                if (task := self._take_back(reply)) is not None:
                    yield task

    def again(self, task: Task, why: str) -> None:
        """Have a task done once more (UsageError: it was, too often)."""
        self._deaths[task.key] += 1
        if self._deaths[task.key] >= MOST_DEATHS:
            raise UsageError(
                f"part {task.key} could not be computed by {MOST_DEATHS} workers ({why}): give "
                "them more memory, then give the same command again"
            )
        self._queue.give_back(task)

    def _compiles_first(self) -> bool:
        """Whether one worker here compiles what the others would compile at the same time."""
        kernel = self._order.kernel
        if kernel is None or not isinstance(self._pool, ProcessPool):
            return False
        return _cache.FOLDER is not None and _cache.WRITABLE and not _cache.has_compiled(kernel)

    def _give(self, worker: str) -> None:
        if worker in self._out or not self._queue:
            return
        task = self._queue.take(worker) if worker in self._known else None
        self._out[worker] = task
        asked = {"task": DESCRIBE} if task is None else self._common | {"task": task.key}
        self._pool.start(worker, json.dumps(asked))

    def _take_back(self, reply: Reply) -> Task | None:
        """Return the task that a worker has finished, if it has."""
        task = self._out.pop(reply.worker)
        if reply.lost:
            self._known.discard(reply.worker)
            if task is not None:
                self.again(task, f"{reply.worker}: {reply.lost}")
            else:
                self._deaths[reply.worker] += 1
                if self._deaths[reply.worker] >= MOST_DEATHS:
                    raise UsageError(f"{reply.worker} cannot begin: {reply.lost}")
            return None
        if task is None:
            self._compare(reply)
            return None
        _raise_fault(reply)
        return task

    def _compare(self, reply: Reply) -> None:
        """Take a worker on (UsageError: its versions differ from those here)."""
        _raise_fault(reply)
        there = reply.answer["found"]
        for name, mine in self._here.items():
            if there.get(name) != mine:
                raise UsageError(
                    f"{reply.worker} has {name} {there.get(name, 'unknown')}, this command has "
                    f"{mine}: install the same versions for both"
                )
        self._known.add(reply.worker)


def _raise_fault(reply: Reply) -> None:
    """Raise what a worker could not do, as it would have been raised here."""
    if "error" in reply.answer:
        raise getattr(errors, reply.answer["error"])(*reply.answer["lines"])
    if "bug" in reply.answer:
        raise RuntimeError(f"{reply.worker}:\n{reply.answer['bug']}")
