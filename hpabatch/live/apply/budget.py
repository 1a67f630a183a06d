"""Rate budget of writing requests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Budget:
    """Token bucket. Several threads may use it at once."""

    def __init__(
        self, per_s: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin with a full bucket.

        Args:
            per_s: requests a second.
            burst: requests at once.
            clock: monotonic seconds.
        """
        self._per_s, self._burst, self._clock = per_s, burst, clock
        self._lock = threading.Lock()
        self._left, self._at = burst, clock()

    def take(self) -> float:
        """Take a request, and return the seconds to wait before it is sent."""
        with self._lock:
            now = self._clock()
            self._left = min(self._left + (now - self._at) * self._per_s, self._burst)
            self._at = now
            self._left -= 1
            return max(-self._left / self._per_s, 0.0)

    def try_take(self) -> bool:
        """Take a request if one is left."""
        with self._lock:
            now = self._clock()
            self._left = min(self._left + (now - self._at) * self._per_s, self._burst)
            self._at = now
            if self._left < 1:
                return False
            self._left -= 1
            return True
