"""Queue of cluster changes for the next decision, in the order in which they became known."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from hpabatch.cluster.objects.types import Change, Kind, PodKey, ScaleKey, Thing


def clock_ms() -> int:
    """Return the time, UTC ms."""
    return time.time_ns() // 1_000_000


def elapsed_ms() -> int:
    """Return monotonic time, ms."""
    return time.monotonic_ns() // 1_000_000


class Inbox:
    """Changes since the last cut. Several threads may put, one cuts.

    A decision knows the changes that were put before its cut, and no later ones. So changes and
    cuts alone tell what each decision knew.

    Attributes:
        behind_ms: by how much the clock is behind the times given here, after it was set back.
    """

    def __init__(
        self, clock: Callable[[], int] = clock_ms, elapsed: Callable[[], int] = elapsed_ms
    ) -> None:
        """Begin empty.

        Args:
            clock: UTC ms. It may step back; times given here then continue at the pace of
                `elapsed`, as windows and policies need, until the clock has caught up.
            elapsed: monotonic ms.
        """
        self.behind_ms = 0
        self._clock = clock
        self._elapsed = elapsed
        self._last_elapsed = elapsed()
        self._lock = threading.Lock()
        self._changes: list[Change] = []
        self._last_ms = self._cut_ms = -(2**63)

    def __len__(self) -> int:
        """Return the number of waiting changes."""
        return len(self._changes)

    def put(
        self, kind: Kind, key: PodKey | ScaleKey, thing: Thing | None, listed: bool = False
    ) -> int:
        """Add a change, and return the time from which it counts as known (UTC ms)."""
        with self._lock:
            self._last_ms = seen_ms = max(self._now(), self._cut_ms + 1)
            self._changes.append(Change(kind, key, thing, seen_ms, listed))
        return seen_ms

    def cut(self) -> tuple[list[Change], int]:
        """Take all changes, in order, and the time of the cut (UTC ms).

        It is later than the times of all taken changes and of the last cut, and earlier than that
        of any later change: so the times alone tell what was known.
        """
        with self._lock:
            changes, self._changes = self._changes, []
            before = self._last_ms
            self._last_ms = self._cut_ms = now_ms = max(self._now(), before + 1)
        return changes, now_ms

    def _now(self) -> int:
        """Return the time, not before any given earlier."""
        wall, elapsed = self._clock(), self._elapsed()
        passed = max(elapsed - self._last_elapsed, 0)
        if wall < self._last_ms:
            self._last_ms += passed
        else:
            self._last_ms = wall
        self._last_elapsed = elapsed
        self.behind_ms = max(self._last_ms - wall, 0)
        return self._last_ms
