"""Concurrent requests with a deadline: late requests are abandoned."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Final, Generic, TypeVar

DEADLINE_ERROR: Final = "context deadline exceeded"
_GLANCE_S: Final = 0.2  # interval of a run's checks for `end`

ResultT = TypeVar("ResultT")


class RequestPool(Generic[ResultT]):
    """Runs of calls that end by a deadline or are abandoned.

    A call gets the seconds that are left and must end within them; a late call keeps its thread
    until it ends, and does not delay later runs, which have threads of their own.
    """

    def __init__(self, workers: int = 8, clock: Callable[[], float] = time.monotonic) -> None:
        """Take the number of concurrent calls (at least 1); the clock counts seconds."""
        self._workers = max(1, workers)
        self._clock = clock
        self._ended = threading.Event()

    def run(
        self, calls: Sequence[Callable[[float], ResultT]], deadline: float
    ) -> list[ResultT | BaseException]:
        """Return each call's result, or what it raised; TimeoutError: it was late, or not begun.

        Args:
            calls: in the order in which they are started.
            deadline: on this pool's clock.
        """
        executor = ThreadPoolExecutor(self._workers, "hpabatch-request")
        futures = [executor.submit(self._begin, call, deadline) for call in calls]
        until = time.monotonic() + deadline - self._clock()
        while not self._ended.is_set():
            left = max(0.0, until - time.monotonic())
            if not wait(futures, timeout=min(left, _GLANCE_S)).not_done or not left:
                break
        executor.shutdown(wait=False, cancel_futures=True)
        return [_result(future) for future in futures]

    def end(self) -> None:
        """End a running `run` soon, later ones at once: their calls are late. For any thread."""
        self._ended.set()

    def now(self) -> float:
        """Return the time on this pool's clock, seconds."""
        return self._clock()

    def _begin(self, call: Callable[[float], ResultT], deadline: float) -> ResultT:
        left = deadline - self._clock()
        if left <= 0 or self._ended.is_set():
            raise TimeoutError(DEADLINE_ERROR)
        return call(left)


def _result(future: Future[ResultT]) -> ResultT | BaseException:
    if not future.done() or future.cancelled():
        return TimeoutError(DEADLINE_ERROR)
    return future.exception() or future.result()
