"""Limit of concurrent requests to a server, lowered after 429 and 503.

As in TCP: after a request to slow down the limit is halved, and after a number of good responses it
grows by one. All threads wait when one of them is told to wait.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

GOOD_ANSWERS: Final = 16
"""After this number in a row the limit grows by one."""
_LOOK_AGAIN_S: Final = 1.0


class Gate:
    """Lets threads through to a server.

    Attributes:
        width: requests at once when all is well.
        paused_s: the time that all threads together waited because the server asked for it.
    """

    def __init__(
        self, width: int, clock: Callable[[], float], sleep: Callable[[float], None]
    ) -> None:
        """Let `width` requests through at once; `sleep` may raise, also when it need not wait."""
        self.width = width
        self.paused_s = 0.0
        self._clock = clock
        self._sleep = sleep
        self._changed = threading.Condition()
        self._allowed = width
        self._active = 0
        self._good = 0
        self._closed_until = clock()
        self._slowed_at = float("-inf")

    @property
    def allowed(self) -> int:
        """How many requests may be under way at once now."""
        with self._changed:
            return self._allowed

    @contextmanager
    def request(self) -> Iterator[float]:
        """Wait until a request may begin, give the time when it does, and note its end."""
        begun = self._enter()
        try:
            yield begun
        finally:
            with self._changed:
                self._active -= 1
                self._changed.notify_all()

    def answered(self) -> None:
        """Note a good response."""
        with self._changed:
            self._good += 1
            if self._good >= GOOD_ANSWERS and self._allowed < self.width:
                self._allowed += 1
                self._good = 0
                self._changed.notify_all()

    def slow_down(self, wait_s: float, begun: float) -> None:
        """Let no request through for a time, then half as many at once.

        Args:
            wait_s: how long.
            begun: when the refused request began. Of several that are refused at once, those that
                began before the limit was lowered do not lower it again.
        """
        with self._changed:
            now = self._clock()
            self._closed_until = max(self._closed_until, now + wait_s)
            self._good = 0
            if begun > self._slowed_at:
                self._allowed = max(1, self._allowed // 2)
                self._slowed_at = now

    def _enter(self) -> float:
        while True:
            self._sleep(0.0)
            with self._changed:
                now, closed_until = self._clock(), self._closed_until
                if now >= closed_until and self._active < self._allowed:
                    self._active += 1
                    return now
                if now >= closed_until:
                    self._changed.wait(_LOOK_AGAIN_S)
                    continue
            self._sleep(closed_until - now)
            with self._changed:
                self.paused_s += closed_until - now
                if self._closed_until == closed_until:
                    self._closed_until = now  # over: a clock may be a little behind its sleep
