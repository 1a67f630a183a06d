"""Dispatch of a job's orders: the task of each worker, replies, faults and repetitions."""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from hpabatch.errors import HpabatchError, UnfinishedError, UsageError
from hpabatch.jobs.folder import JobFolder
from hpabatch.jobs.loop import Task
from hpabatch.jobs.orders import Order
from hpabatch.jobs.parts_place import job_name, place_of
from hpabatch.jobs.processes import Answer, Reply
from hpabatch.jobs.worker import DESCRIBE, describe, is_compiled
from hpabatch.model.printable import printable_lines

MOST_TRIES: Final = 3
"""Workers that may die or fail at the same task before it is given up."""

MOST_FAILURES: Final = 3
"""Tasks in a row at which a worker may fail before it gets no more, as long as others do."""

MOST_GONE: Final = 20
"""Workers that may be removed while they are at the same task before it is given up."""

NO_WORKER_S: Final = 60.0
"""Time that a scheduler may be without any worker."""

WARN_FIRST_S: Final = 5.0
WARN_EVERY_S: Final = 20.0
"""Time until the first warning that there is none, and between two of them."""

_MEMORY: Final = "give the workers more memory"
_log = logging.getLogger(__name__)


class Pool(Protocol):
    """Workers that take orders."""

    def workers(self) -> Sequence[str]:
        """Return the names of the workers that are there now.

        Raises:
            UnfinishedError: nothing is known of them any more.
        """

    def start(self, worker: str, order: str) -> None:
        """Give an order to a worker that has none."""

    def wait(self) -> list[Reply]:
        """Wait some time at most; return what came back."""

    def close(self) -> None:
        """Leave the workers; those of this machine end."""


class TaskQueue:
    """Tasks that no worker has; a worker goes on with the group that it began.

    What was given back goes to another worker, as long as there is one that has not had it. Of
    the others it has places in the sequence of all: one of each group that is begun.
    """

    def __init__(self, tasks: Sequence[Task]) -> None:
        """Take all tasks; those of a group stand together."""
        self._tasks = tasks
        self._fresh = 0  # the first task of the first group that is not begun
        self._groups: dict[int, range] = {}  # by their first task what is left of begun groups
        self._begun: dict[str, int] = {}
        self._back: list[Task] = []
        self._had: dict[str, set[str]] = {}  # by task who has given it back

    def __bool__(self) -> bool:
        """Return whether a task is left."""
        return bool(self._groups or self._back or self._fresh < len(self._tasks))

    def take(self, worker: str, workers: Sequence[str]) -> Task | None:
        """Return the task for one of the workers; None: what is left is for others.

        It is one that was given back, else of its group, of a new one, or of the longest.
        """
        for k, task in enumerate(self._back):
            if worker not in self._had[task.key] or self._had[task.key].issuperset(workers):
                return self._back.pop(k)
        group = self._begun.get(worker, -1)
        if group not in self._groups:
            if self._fresh < len(self._tasks):
                group = self._begin_group()
            elif self._groups:
                group = max(self._groups, key=lambda first: len(self._groups[first]))
            else:
                return None
        self._begun[worker] = group
        left = self._groups.pop(group)
        if left[1:]:
            self._groups[group] = left[1:]
        return self._tasks[left[0]]

    def _begin_group(self) -> int:
        """Return the first task of the next group."""
        first = end = self._fresh
        group = self._tasks[first].group
        while end < len(self._tasks) and group == self._tasks[end].group:
            end += 1
            if not group:
                break
        self._fresh, self._groups[first] = end, range(first, end)
        return first

    def give_back(self, task: Task, worker: str | None) -> None:
        """Take a task again from a worker; None: the task was not at fault."""
        self._back.append(task)
        self._had.setdefault(task.key, set()).update([] if worker is None else [worker])

    def forget(self, task: Task) -> None:
        """Forget who has had a task, which is finished."""
        self._had.pop(task.key, None)


class _Absence:
    """Time for which there is no worker."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._next_s = WARN_FIRST_S  # (of absence until the next warning)

    def note(self, present: bool) -> None:
        """Note whether a worker is there (UnfinishedError: none for too long)."""
        if present:
            self._since, self._next_s = time.monotonic(), WARN_FIRST_S
            return
        waited = time.monotonic() - self._since
        if waited > NO_WORKER_S:
            raise UnfinishedError(
                f"the scheduler has had no worker for {NO_WORKER_S:.0f} s; start some, then "
                "give the same command again"
            )
        if waited >= self._next_s:
            self._next_s += WARN_EVERY_S
            _log.warning(
                "the scheduler has no worker: waiting for one, %.0f s of %.0f s",
                *(waited, NO_WORKER_S),
            )


class Dispatch:
    """Gives each worker one order at a time; with the first one it describes its versions."""

    def __init__(
        self, pool: Pool, order: Order, folder: JobFolder, parts: str | None, queue: TaskQueue
    ) -> None:
        """Give out nothing yet; `parts` is where workers leave parts, None: in the folder."""
        self._pool, self._order, self._queue = pool, order, queue
        self._common = {
            "plan_job": order.plan_job,
            "kernel": order.kernel,
            "values": order.values,
            "fingerprint": order.identity.fingerprint,
            "facts": dict(order.identity.facts),
            "folder": str(Path.cwd()),
            "tasks": str(folder.tasks.absolute()),
            # (a worker keeps the folder of the first command that it served)
            "parts": None if parts is None else place_of(parts),
            "job": job_name(folder),
        }
        self._here = describe()
        self._known: set[str] = set()  # workers whose versions are those of this process
        self._out: dict[str, Task | None] = {}  # by worker its task; None: it describes itself
        self._absence = _Absence()
        self._tells_compiling = True
        self._tries: Counter[str] = Counter()
        self._gone: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()  # by worker, since its last finished task
        self._told: dict[str, str] = {}  # by worker its last error

    @property
    def is_open(self) -> bool:
        """Whether there are tasks that no worker has finished."""
        return bool(self._queue) or any(task is not None for task in self._out.values())

    def step(self) -> list[Task]:
        """Give orders to workers without one, and wait some time for replies.

        Return the tasks that workers have finished (UsageError, UnfinishedError: they cannot).
        """
        names = self._pool.workers()
        self._known &= set(names)
        for worker in [name for name in self._failures if name not in names]:
            del self._failures[worker]
        good = [name for name in names if self._failures[name] < MOST_FAILURES] or names
        for worker in good:
            self._give(worker, good)
        self._absence.note(bool(names or self._out))
        found = [self._take_back(reply) for reply in self._pool.wait()]
        return [task for task in found if task is not None]

    def again(self, task: Task, why: str, fix: str, worker: str | None = None) -> None:
        """Have a task done once more (UnfinishedError: it was, too often)."""
        self._tries[task.key] += 1
        if self._tries[task.key] >= MOST_TRIES:
            raise UnfinishedError(
                f"task {task.key} could not be done by {MOST_TRIES} workers ({why}): {fix}, then "
                "give the same command again"
            )
        self._queue.give_back(task, worker)

    def finish(self, task: Task) -> None:
        """Forget what happened at a task, whose part is kept."""
        for counts in (self._tries, self._gone):
            counts.pop(task.key, None)
        self._queue.forget(task)

    def _give(self, worker: str, workers: Sequence[str]) -> None:
        if worker in self._out or not self._queue:
            return
        task = self._queue.take(worker, workers) if worker in self._known else None
        if task is None and worker in self._known:
            return
        self._out[worker] = task
        wanted = {"kernel": self._order.kernel} if task is None else self._common
        key = DESCRIBE if task is None else task.key
        self._pool.start(worker, json.dumps({**wanted, "task": key}))

    def _take_back(self, reply: Reply) -> Task | None:
        """Return the task that a worker has finished, if it has."""
        task = self._out.pop(reply.worker)
        if reply.lost:
            self._known.discard(reply.worker)
            self._lost(reply, task)
            return None
        if "bug" in reply.answer:
            raise RuntimeError(printable_lines(f"{reply.worker}:\n{reply.answer['bug']}"))
        if task is None:
            self._compare(reply)
            return None
        if "error" in reply.answer:
            self._failed(reply, task)
            return None
        if reply.answer.get("done") != task.key:
            why = f"{reply.worker} answered for another task"
            self.again(task, why, "start the workers again", reply.worker)
            return None
        self._failures.pop(reply.worker, None)
        return task

    def _lost(self, reply: Reply, task: Task | None) -> None:
        """Go on without a worker that died or was removed (UnfinishedError: too often)."""
        if task is None:
            self._tries[reply.worker] += 1
            if self._tries[reply.worker] >= MOST_TRIES and not reply.gone:
                raise UnfinishedError(f"{reply.worker} cannot begin: {reply.lost}")
            if not reply.gone:
                _log.warning("%s: %s; it gets its order again", reply.worker, reply.lost)
            return
        self._gone[task.key] += reply.gone
        if reply.gone and self._gone[task.key] < MOST_GONE:
            self._queue.give_back(task, None)
        else:
            self.again(task, f"{reply.worker}: {reply.lost}", _MEMORY, reply.worker)
        _log.warning("%s: %s; task %s is given out again", reply.worker, reply.lost, task.key)

    def _failed(self, reply: Reply, task: Task) -> None:
        """Give the task of a fault to another worker; after some it is the command's error.

        That is no HistoryError: here the history was read, so finished parts are not at fault.
        """
        self._tries[task.key] += 1
        if self._tries[task.key] >= MOST_TRIES:
            raise _error_of(reply.answer)
        self._queue.give_back(task, reply.worker)
        error = str(_error_of(reply.answer))
        if self._told.get(reply.worker) != error:
            self._told[reply.worker] = error
            _log.warning("%s: %s; task %s is given out again", reply.worker, error, task.key)
        self._failures[reply.worker] += 1
        if self._failures[reply.worker] == MOST_FAILURES:
            _log.warning(
                "%s: %d tasks in a row failed, so it gets no more as long as others finish theirs",
                *(reply.worker, MOST_FAILURES),
            )

    def _compare(self, reply: Reply) -> None:
        """Take a worker on (UsageError: its versions differ from those here)."""
        if "error" in reply.answer:
            raise _error_of(reply.answer)
        there = reply.answer.get("found", {})
        for name, mine in self._here.items():
            if there.get(name) != mine:
                raise UsageError(
                    f"{reply.worker} has {name} {there.get(name, 'unknown')}, this command has "
                    f"{mine}: install the same versions for both"
                )
        self._known.add(reply.worker)
        del self._tries[reply.worker]
        # (where this process lacks the kernel too, the command has said so)
        kernel = self._order.kernel
        if self._tells_compiling and not reply.answer.get("compiled", True) and is_compiled(kernel):
            self._tells_compiling = False
            _log.warning(
                "%s compiles %s first, once a machine, about a minute", reply.worker, kernel
            )


def _error_of(answer: Answer) -> HpabatchError:
    """Return a worker's error as one of the command."""
    kind = UnfinishedError if answer["error"] == UnfinishedError.__name__ else UsageError
    return kind(*(answer.get("lines") or [answer["error"]]))
