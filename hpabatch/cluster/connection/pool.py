"""Concurrent requests with a deadline: late requests are abandoned."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterable, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Final, Generic, TypeVar

DEADLINE_ERROR: Final = "context deadline exceeded"
_MOST_LATE: Final = 64  # threads that hang in requests of earlier passes
_GLANCE_S: Final = 0.2  # interval of a run's checks for `end`

ResultT = TypeVar("ResultT")
KeyT = TypeVar("KeyT", bound=Hashable)


class NeverBegunError(TimeoutError):
    """The deadline came before a call was started."""


class Turns(Generic[KeyT]):
    """Order of requests: first those that were not started, last slow ones. For one thread."""

    def __init__(self) -> None:
        self._waiting: set[KeyT] = set()
        self._slow: set[KeyT] = set()

    def order(self, keys: Iterable[KeyT]) -> list[KeyT]:
        """Return keys in the order of their turns, otherwise in the given order."""
        return sorted(keys, key=self._rank)

    def note(self, key: KeyT, result: object, slow: bool = False) -> None:
        """Note a call's result, as `RequestPool.run` gives it; `slow`: it took all of its time."""
        if isinstance(result, NeverBegunError):
            self._waiting.add(key)
            return
        self._waiting.discard(key)
        if slow or isinstance(result, TimeoutError):
            self._slow.add(key)
        else:
            self._slow.discard(key)

    def keep(self, keys: Set[KeyT]) -> None:
        """Forget all other keys."""
        self._waiting &= keys
        self._slow &= keys

    def _rank(self, key: KeyT) -> int:
        if key in self._slow:
            return 2
        return 0 if key in self._waiting else 1


class RequestPool(Generic[ResultT]):
    """Threads for calls that end by a deadline or are abandoned.

    A call gets the seconds that are left and must end within them; a late call keeps its thread
    until it ends, and does not delay later calls.
    """

    def __init__(self, workers: int = 8, clock: Callable[[], float] = time.monotonic) -> None:
        """Take the number of concurrent calls (at least 1); the clock counts seconds."""
        self.workers = max(1, workers)
        self._clock = clock
        self._executor: ThreadPoolExecutor | None = None
        self._late: list[Future[ResultT | None]] = []
        self._ended = threading.Event()

    def run(
        self, calls: Sequence[Callable[[float], ResultT]], deadline: float
    ) -> list[ResultT | BaseException]:
        """Return each call's result, or what it raised; TimeoutError: it was late.

        NeverBegunError stands for the calls that were not started in time.

        Args:
            calls: in the order in which they are started.
            deadline: on this pool's clock.
        """
        if not calls:
            return []
        executor = self._ready_executor()
        if executor is None or self._ended.is_set():
            return [NeverBegunError(DEADLINE_ERROR)] * len(calls)
        futures = [executor.submit(self._begin, call, deadline) for call in calls]
        until = time.monotonic() + deadline - self._clock()
        while not self._ended.is_set():
            left = max(0.0, until - time.monotonic())
            if not wait(futures, timeout=min(left, _GLANCE_S)).not_done or not left:
                break
        return [self._result(future) for future in futures]

    def end(self) -> None:
        """End a running `run` soon, later ones at once: their calls are late. For any thread."""
        self._ended.set()

    def close(self) -> None:
        """Release the threads; running calls end by themselves."""
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._executor = None

    def now(self) -> float:
        """Return the time on this pool's clock, seconds."""
        return self._clock()

    def _begin(self, call: Callable[[float], ResultT], deadline: float) -> ResultT | None:
        left = deadline - self._clock()
        return call(left) if left > 0 else None

    def _result(self, future: Future[ResultT | None]) -> ResultT | BaseException:
        if future.cancel():
            return NeverBegunError(DEADLINE_ERROR)
        if not future.done():
            self._late.append(future)
            return TimeoutError(DEADLINE_ERROR)
        error = future.exception()
        if error is not None:
            return error
        result = future.result()
        return NeverBegunError(DEADLINE_ERROR) if result is None else result

    def _ready_executor(self) -> ThreadPoolExecutor | None:
        """Return an executor with free threads, None if too many calls hang."""
        self._late = [future for future in self._late if not future.done()]
        if len(self._late) >= max(_MOST_LATE, 4 * self.workers):
            return None
        if self._late:
            self.close()
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self.workers, "hpabatch-request")
        return self._executor
