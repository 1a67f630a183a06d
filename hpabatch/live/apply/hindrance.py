"""Reasons for which this process could not write whoever leads: it leaves the lease to others.

Another controller is none: another instance, which has not seen it, would write.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from hpabatch.live.apply.journal import Journal

_HUNG_PERIODS: Final = 6
_LEAST_HUNG_S: Final = 90.0


class Hindrance:
    """A loop that hangs, and a log that cannot be written. The lease's thread asks the loop's."""

    def __init__(
        self, journal: Journal, period_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin without a pass.

        Args:
            journal: the log of writes.
            period_s: of the passes.
            clock: monotonic seconds.
        """
        self._journal, self._clock = journal, clock
        self._hung_s = max(_HUNG_PERIODS * period_s, _LEAST_HUNG_S)
        self._began_s: float | None = None
        self._log = ""

    def begin(self) -> str:
        """Begin a pass; return why the log forbids writes, "" if it does not."""
        if self._log:
            line = {"event": "note", "text": "the log can be written again"}
            self._log = self._journal.add([line])
        self._began_s = self._clock()
        return f"nothing is written: {self._log}" if self._log else ""

    def note_log(self, problem: str) -> None:
        """Note why the log could not be written, "" if it could be."""
        self._log = problem

    def __call__(self) -> str:
        """Return why this process could not write now, "" if it could."""
        if self._began_s is None:
            return "no pass was made yet"
        since_s = self._clock() - self._began_s
        return f"the last pass began {since_s:.0f} s ago" if since_s > self._hung_s else self._log
