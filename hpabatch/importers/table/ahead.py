"""Work done ahead of its use, in threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def ahead(work: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """Yield the result of each item in order; those of the next `workers` items are made meanwhile.

    An error is raised where its result would come.
    """
    with ThreadPoolExecutor(workers) as pool:
        jobs: deque[Future[Result]] = deque()
        for item in items:
            jobs.append(pool.submit(work, item))
            if len(jobs) > workers:
                yield jobs.popleft().result()
        while jobs:
            yield jobs.popleft().result()
