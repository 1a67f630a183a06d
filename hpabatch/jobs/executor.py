"""Executors: tasks done by this process, by processes beside it, or by Dask workers.

A worker gets one order at a time, does what this process would do, and leaves the part where the
job folder finds it. So a worker that dies costs its task only, which another one does again.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections import Counter, deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from functools import partial
from itertools import count, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hpabatch._json import decode_json
from hpabatch.errors import HpabatchError, UnfinishedError, UsageError
from hpabatch.inputs.workers import Spread
from hpabatch.jobs.folder import JobFolder, read_record
from hpabatch.jobs.job import Executor, Job, Task, Values
from hpabatch.jobs.parts_place import PartsPlace, job_name, place_of
from hpabatch.jobs.processes import Answer, ProcessPool, brief, not_installed
from hpabatch.jobs.worker import describe
from hpabatch.model.printable import printable_lines

if TYPE_CHECKING:
    from hpabatch.jobs.dask_workers import DaskPool

FETCHES: Final = 8
"""Parts that are fetched at a time."""

MOST_FETCHING: Final = 4 * FETCHES
"""Parts that are fetched or wait for it; with more, workers get no orders."""

SHOWN_S: Final = 5.0
"""Time that a network file system may take to show what a worker of another machine wrote."""

MOST_TRIES: Final = 3
"""Workers that may die or fail at the same task before it is given up."""

REST_S: Final = 60.0
"""Time for which a worker that failed gets no order, as long as others work."""

LOOK_S: Final = 1.0
"""Interval at which it is checked which workers are there."""

_HELD = re.compile(r"-|/dev/stdin|/(?:dev|proc/self)/fd/[0-9]+", re.ASCII)
_log = logging.getLogger(__name__)


def by_workers(spread: Spread, job: Job) -> Executor:
    """Return workers that do the tasks of a job; raises as `job.executor_of`."""
    _refuse_held(job.values)
    if spread.parts is not None:
        PartsPlace(spread.parts, "")
    spread.check_scheduler()
    return partial(_by_workers, spread)


def _refuse_held(values: Values) -> None:
    """Refuse standard input and open pipes in place of files: a worker has others (UsageError)."""
    for name, value in values.items():
        for text in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(text, str) and _HELD.fullmatch(text):
                raise UsageError(
                    f"--{name.replace('_', '-')} {text}: expected a file with --workers or "
                    "--scheduler, got what only this process can read; write it to a file"
                )


def _by_workers(
    spread: Spread, job: Job, folder: JobFolder, tasks: Sequence[Task]
) -> Generator[Task]:
    """Have tasks done by workers; yield each once the folder keeps its part."""
    place = None if spread.parts is None else PartsPlace(spread.parts, job_name(folder))
    if place is not None and tasks:
        place.probe()
    if tasks:
        with closing(_open_pool(spread, job, len(tasks))) as pool:
            yield from _Dispatch(pool, job, folder, place).finish(tasks)
    if place is not None:
        try:
            place.clear()
        except (UsageError, UnfinishedError) as error:
            _log.warning("finished parts could not be removed: %s", error)


def _open_pool(spread: Spread, job: Job, tasks: int) -> ProcessPool | DaskPool:
    if spread.scheduler is not None:
        from hpabatch.jobs.dask_workers import DaskPool

        return DaskPool(spread)
    from hpabatch import _code, _prebuild

    if job.kernel is not None and not _code.has_compiled(job.kernel):  # (once for all workers)
        kernels = {kernel.function.__name__: kernel for kernel in _prebuild.all_kernels()}
        _code.code_of(kernels[job.kernel].function)
    return ProcessPool(min(spread.workers or 1, tasks))


class _Queue:
    """Tasks that no worker has; a worker goes on with the group that it began.

    With its own group done it begins another, and then helps with the longest.
    """

    def __init__(self, tasks: Sequence[Task]) -> None:
        own = count()
        self._groups = (g for _, g in groupby(tasks, lambda task: task.group or next(own)))
        self._begun: dict[str, deque[Task]] = {}
        self.again: deque[Task] = deque()

    def take(self, worker: str) -> Task | None:
        """Return a task that is to be done again, else a worker's next one; None: none is left."""
        if self.again:
            return self.again.popleft()
        if not self._begun.get(worker):
            mine = deque(next(self._groups, ()))
            self._begun[worker] = mine or max(self._begun.values(), key=len, default=mine)
        return self._begun[worker].popleft() if self._begun[worker] else None


class _Dispatch:
    """Gives each worker one order at a time, and sees to the parts that they leave."""

    def __init__(
        self,
        pool: ProcessPool | DaskPool,
        job: Job,
        folder: JobFolder,
        place: PartsPlace | None,
    ) -> None:
        self._pool, self._folder, self._place = pool, folder, place
        self._where = str(folder.tasks.absolute()) if place is None else place_of(place.location)
        self._here = describe()
        self._order = {
            "plan_job": job.plan_job,
            "values": job.values,
            "fingerprint": job.identity.fingerprint,
            "facts": dict(job.identity.facts),
            "folder": str(Path.cwd()),
            # (absolute: a worker keeps the folder of the first command that it served)
            "tasks": str(folder.tasks.absolute()),
            "parts": None if place is None else self._where,
            "job": job_name(folder),
            "versions": self._here,
        }
        self._tries: Counter[str] = Counter()
        self._rests: dict[str, float] = {}  # by worker until when it gets nothing

    def finish(self, tasks: Sequence[Task]) -> Iterator[Task]:
        """Yield tasks whose parts the folder keeps; meanwhile workers get orders.

        Parts are fetched some at a time: one after the other, an object storage would keep some
        hundred workers waiting.
        """
        queue, threads = _Queue(tasks), ThreadPoolExecutor(FETCHES, "fetch")
        out: dict[Future[Any], tuple[str, Task]] = {}
        written: dict[Future[Any], Task] = {}
        left, there = len(tasks), set(self._place.whole() if self._place is not None else ())
        try:
            while left:
                for worker in self._free(out) if len(written) < MOST_FETCHING else ():
                    while (task := queue.take(worker)) is not None and task.key in there:
                        there.remove(task.key)  # (an earlier run has left it)
                        written[threads.submit(self._is_kept, task)] = task
                    if task is None:
                        break
                    text = json.dumps({**self._order, "task": task.key})
                    out[self._pool.start(worker, text)] = worker, task
                if not out and not written:
                    time.sleep(LOOK_S)
                for future in wait([*out, *written], LOOK_S, FIRST_COMPLETED).done:
                    if future in out:
                        worker, task = out.pop(future)
                        if self._is_done(worker, task, future):
                            written[threads.submit(self._is_kept, task)] = task
                        else:
                            queue.again.append(task)
                        continue
                    task = written.pop(future)
                    if future.result():
                        self._tries.pop(task.key, None)
                        left -= 1
                        yield task
                    else:
                        fix = f"make sure that {self._where} is the same place for the workers"
                        lacks = f"its files are not all at {self._where}"
                        self._count(task, _given_up(task, lacks, f"{fix} and this command"))
                        queue.again.append(task)
        finally:
            threads.shutdown(cancel_futures=True)

    def _free(self, out: Mapping[Future[Any], tuple[str, Task]]) -> list[str]:
        """Return the workers without an order; as long as others work, not those that failed."""
        busy, now = {worker for worker, _ in out.values()}, time.monotonic()
        free = [name for name in self._pool.workers() if name not in busy]
        good = [name for name in free if self._rests.get(name, now) <= now]
        return good if good or out else free

    def _is_done(self, worker: str, task: Task, future: Future[str]) -> bool:
        """Whether a worker says that it has done a task; if not it is to be done again.

        Its fault lets others work first; after some it is the command's. That is no HistoryError:
        here the history was read, so finished parts are not at fault.

        Raises:
            UsageError, UnfinishedError: it has been tried too often, or the versions differ.
        """
        answer = self._answer(worker, future)
        if answer.get("done") == task.key:
            return True
        if "bug" in answer:
            raise RuntimeError(printable_lines(f"{worker}:\n{answer['bug']}"))
        if "found" in answer:
            there = answer["found"]
            names = (name for name, mine in self._here.items() if there.get(name) != mine)
            name = next(names, "hpabatch")
            raise UsageError(
                f"{worker} has {name} {there.get(name, 'unknown')}, this command has "
                f"{self._here[name]}: install the same versions for both"
            )
        if "error" in answer:
            kind = UnfinishedError if answer["error"] == UnfinishedError.__name__ else UsageError
            error: HpabatchError = kind(*(answer.get("lines") or [answer["error"]]))
            told = str(error)
        else:
            told = answer.get("lost", "it answered for another task")
            error = _given_up(task, f"{worker}: {told}", "give the workers more memory")
        self._count(task, error)
        if "error" in answer and self._place is not None:
            self._place.probe()  # (raises where it is the place that is at fault)
        self._rests[worker] = time.monotonic() + REST_S
        _log.warning("%s: %s; task %s is given out again", worker, told, task.key)
        return False

    def _answer(self, worker: str, future: Future[str]) -> Answer:
        try:
            return decode_json(future.result(), Answer)
        except HpabatchError:
            raise
        except Exception as error:  # (its worker died with it, in one of many ways)
            cause: BaseException | None = error
            while cause is not None and not isinstance(cause, ModuleNotFoundError):
                cause = cause.__cause__
            if cause is not None and (cause.name or "").startswith("hpabatch"):
                raise not_installed(f"{worker}, or its scheduler") from error
            self._pool.workers()  # (raises where all of them are gone)
            return {"lost": brief(error)}

    def _count(self, task: Task, error: HpabatchError) -> None:
        self._tries[task.key] += 1
        if self._tries[task.key] >= MOST_TRIES:
            raise error

    def _is_kept(self, task: Task) -> bool:
        """Whether the folder has the part that a worker says it has left, or gets it."""
        if self._place is not None:
            return self._place.fetch(task.key, self._folder)
        until = time.monotonic() + SHOWN_S
        while read_record(self._folder.place(task.key), self._folder.fingerprint) is None:
            if time.monotonic() >= until:
                return False
            time.sleep(0.1)
        return True


def _given_up(task: Task, why: str, fix: str) -> UnfinishedError:
    return UnfinishedError(
        f"task {task.key} could not be done by {MOST_TRIES} workers ({why}): {fix}, then give the "
        "same command again"
    )
