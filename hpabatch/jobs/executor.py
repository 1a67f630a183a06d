"""Executors: tasks done by this process, by processes beside it, or by Dask workers.

A worker gets one order at a time, does what this process would do, and leaves the part where the
job folder finds it. So a worker that dies costs its task only, which another one does again.
"""

from __future__ import annotations

import logging
import re
import time
from array import array
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from typing import Any, Final

from hpabatch.errors import UnfinishedError, UsageError
from hpabatch.inputs.workers import Spread
from hpabatch.jobs.dispatch import Dispatch, Pool, TaskQueue
from hpabatch.jobs.folder import JobFolder, read_record
from hpabatch.jobs.loop import Executor, Task, Tasks, Work, in_this_process
from hpabatch.jobs.orders import Order, Values
from hpabatch.jobs.parts_place import (
    PartsPlace,
    job_name,
    place_of,
    remember_place,
    remembered_places,
)
from hpabatch.jobs.processes import ProcessPool

FETCHES: Final = 8
"""Parts that are fetched at a time."""

MOST_FETCHING: Final = 4 * FETCHES
"""Parts that are fetched or wait for it; with more, workers get no orders."""

SHOWN_S: Final = 5.0
"""Time that a network file system may take to show what a worker of another machine wrote."""

_HELD = re.compile(r"-|/dev/stdin|/(?:dev|proc/self)/fd/[0-9]+", re.ASCII)
_log = logging.getLogger(__name__)


def executor_of(spread: Spread, order: Order) -> Executor:
    """Return what does the tasks of a job, by the options of a command.

    Args:
        spread: the options.
        order: from which workers plan the job.

    Raises:
        UsageError: a scheduler that cannot be used, or an input that only this process has; called,
            a task that no worker can do, or workers of another version.
        UnfinishedError: called, workers, scheduler or the place of parts are gone.
    """
    if not spread.is_spread:

        def alone(work: Work[Any], folder: JobFolder, tasks: Sequence[Task]) -> Generator[Task]:
            yield from in_this_process(work, folder, tasks)
            _clear_all(folder)

        return alone
    _refuse_held(order.values)
    if spread.parts is not None:
        PartsPlace(spread.parts, "")
    spread.check_scheduler()

    def execute(work: Work[Any], folder: JobFolder, tasks: Sequence[Task]) -> Generator[Task]:
        return _by_workers(spread, order, folder, tasks)

    return execute


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
    spread: Spread, order: Order, folder: JobFolder, tasks: Sequence[Task]
) -> Generator[Task]:
    """Have tasks done by workers; yield each once the folder keeps its part."""
    place = None if spread.parts is None else PartsPlace(spread.parts, job_name(folder))
    if place is not None and tasks:
        place.probe()
        tasks = yield from _fetch_left(place, folder, tasks)
    if tasks:
        with closing(_open_pool(spread, len(tasks))) as pool:
            if spread.parts is not None:
                remember_place(spread.parts, folder)
            dispatch = Dispatch(pool, order, folder, spread.parts, TaskQueue(tasks))
            if place is None:
                yield from _kept_here(dispatch, folder)
            else:
                yield from _fetched(dispatch, place, folder)
    _clear_all(folder, spread.parts)


def _fetch_left(
    place: PartsPlace, folder: JobFolder, tasks: Sequence[Task]
) -> Generator[Task, None, Sequence[Task]]:
    """Fetch the parts that an earlier run has left; yield their tasks, return all others."""
    there = frozenset(place.whole())
    found, left = array("I"), array("I")
    for k, task in enumerate(tasks):
        (found if task.key in there else left).append(k)
    with ThreadPoolExecutor(FETCHES, "fetch") as threads:
        for first in range(0, len(found), MOST_FETCHING):
            some = found[first : first + MOST_FETCHING]
            for k, is_whole in zip(
                some, threads.map(lambda k: place.fetch(tasks[k].key, folder), some), strict=True
            ):
                if is_whole:
                    yield tasks[k]
                else:
                    left.append(k)
    return Tasks(tasks.__getitem__, array("I", sorted(left))) if found else tasks


def _kept_here(dispatch: Dispatch, folder: JobFolder) -> Iterator[Task]:
    """Yield finished tasks whose parts workers have written into the folder."""
    while dispatch.is_open:
        for task in dispatch.step():
            if _is_kept(task, folder):
                dispatch.finish(task)
                yield task
            else:
                dispatch.again(task, *_incomplete(str(folder.tasks)))


def _fetched(dispatch: Dispatch, place: PartsPlace, folder: JobFolder) -> Iterator[Task]:
    """Yield finished tasks whose parts are fetched into the folder; meanwhile workers get orders.

    One part after the other, an object storage would keep some hundred workers waiting.
    """
    threads = ThreadPoolExecutor(FETCHES, "fetch")
    fetching: dict[Future[bool], Task] = {}
    try:
        while dispatch.is_open or fetching:
            if goes_on := dispatch.is_open and len(fetching) < MOST_FETCHING:
                finished = dispatch.step()
                fetching |= {threads.submit(place.fetch, t.key, folder): t for t in finished}
            for future in wait(fetching, 0 if goes_on else None, FIRST_COMPLETED).done:
                task = fetching.pop(future)
                if future.result():
                    dispatch.finish(task)
                    yield task
                else:
                    dispatch.again(task, *_incomplete(place.location))
    finally:
        threads.shutdown(cancel_futures=True)


def _incomplete(place: str) -> tuple[str, str]:
    """Return what is wrong with a finished task whose part is not there, and the fix."""
    wrong = f"its files are not all at {place}"
    return wrong, f"make sure that {place} is the same place for the workers and this command"


def _is_kept(task: Task, folder: JobFolder) -> bool:
    """Whether the folder has the part that a worker says it has written there."""
    until = time.monotonic() + SHOWN_S
    while read_record(folder.place(task.key), folder.fingerprint) is None:
        if time.monotonic() >= until:
            return False
        time.sleep(0.1)
    return True


def _clear_all(folder: JobFolder, parts: str | None = None) -> None:
    """Remove the parts at the places of this run and of earlier ones of the job folder.

    It has them by now; what stays there costs room only.
    """
    places = dict.fromkeys(remembered_places(folder))
    if parts is not None:
        places[place_of(parts), job_name(folder)] = None
    for location, job in places:
        try:
            PartsPlace(location, job).clear()
        except (UsageError, UnfinishedError) as error:
            _log.warning("finished parts could not be removed: %s", error)


def _open_pool(spread: Spread, tasks: int) -> Pool:
    if spread.scheduler is None:
        return ProcessPool(min(spread.workers or 1, tasks))
    from hpabatch.jobs.dask_workers import DaskPool

    return DaskPool(spread)
