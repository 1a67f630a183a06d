"""Permission to write, in a pass and between two, and to hold the lease."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, wait
from math import ceil
from typing import Final

from hpabatch.live.apply.guards import Change
from hpabatch.live.apply.journal import Journal
from hpabatch.live.apply.scales import Outcome, Term, Written

_MOST_S: Final = 20.0
"""With the requests that go on then, statuses and lease, a stop ends within a pod's 60 s."""
_LOOK_S: Final = 3.0
_HUNG_PERIODS: Final = 6
_LEAST_HUNG_S: Final = 90.0
_UNREAD_PASSES: Final = 4
_LEAST_UNREAD_S: Final = 60.0


class Gate:
    """Lets writes of a pass begin until its time is over or the switch forbids them.

    One thread calls `begin` and `carry`; several may ask `refusal`.
    """

    def __init__(
        self,
        period_s: float,
        fence: Term,
        switch: Callable[[], str],
        *,
        log: Callable[[], str] = lambda: "",
        look_s: float = _LOOK_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare.

        Args:
            period_s: of the passes: no write of one begins later, nor after 20 s.
            fence: of the lease.
            switch: returns why the kill switch forbids writes, "" if it does not.
            log: returns why the log of writes cannot be written, "" if it can be.
            look_s: between two readings of the switch.
            clock: monotonic seconds.
        """
        self.period_s = period_s
        self._longest_s, self._look_s = min(period_s, _MOST_S), look_s
        self._fence, self._switch, self._log, self._clock = fence, switch, log, clock
        self._until = 0.0
        self._closed, self._term = "no pass was made yet", 0

    def begin(self, refusal: str) -> None:
        """Begin a pass, in which writes are forbidden for that reason, "": they may begin."""
        self._closed, self._term = refusal, self._fence.term

    def close(self, refusal: str) -> None:
        """Forbid further writes until the next pass begins; any thread may call."""
        self._closed = refusal

    @property
    def term(self) -> int:
        """Count of the times that this process took the lease."""
        return self._fence.term

    def refusal(self, longest_s: float) -> str:
        """Return why a writing request of at most `longest_s` may not begin, "" if it may."""
        if not self._closed and self._fence.term != self._term:
            return "this process has lost the lease since the pass began"
        return self._closed or self._log() or self._fence.refusal(longest_s)

    def carry(
        self, pool: Executor, write: Callable[[Change], Written], changes: Sequence[Change]
    ) -> list[Written]:
        """Make the writes of a pass; those that cannot begin in time wait for the next pass."""
        self._until = self._clock() + self._longest_s
        writes = [pool.submit(self._one, write, change) for change in changes]
        pending: set[Future[Written]] = set(writes)
        while pending:
            if not self._closed:
                self._closed = self._look()  # it was read before the decisions, beside the metrics
            pending = wait(pending, self._look_s)[1]
        return [one.result() for one in writes]

    def _look(self) -> str:
        try:
            return self._switch()
        except Exception as error:  # noqa: BLE001 - what was written must be booked
            return f"the kill switch: {type(error).__name__}: {error}"

    def _one(self, write: Callable[[Change], Written], change: Change) -> Written:
        why = self._closed
        if not why and self._clock() >= self._until:
            why = f"writes of a pass begin within {self._longest_s:g} s, and others came first"
        if why:
            return Written(Outcome.WAITS, f"hpabatch: waits: {why}", ended_s=time.monotonic())
        return write(change)


class Hindrance:
    """Reasons to leave the lease to others.

    These are a loop that hangs, a log that cannot be written, and four passes (a minute at least)
    in which a leader could not read what each pass needs. The last one holds until a pass can read
    it: if no instance can, each has led once at most, and then nobody holds the lease. It does not
    change hands again and again.

    Another controller is no reason: another instance, which has not seen it, would write. The
    loop's thread notes the reasons, the lease's thread reads them.
    """

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
        self._unread, self._unread_passes = "", 0
        self._most_unread = max(_UNREAD_PASSES, ceil(_LEAST_UNREAD_S / period_s))

    def begin(self) -> str:
        """Begin a pass; return why the log forbids writes, "" if it does not."""
        if self._journal.problem:
            self._journal.add([{"event": "note", "text": "the log can be written again"}])
        self._began_s = self._clock()
        return self._journal.problem

    def note_unread(self, text: str, leads: bool) -> None:
        """Note what a pass could not read, "" if it could read everything, and if it is a leader's.

        Passes of others do not count: while the API server is down nobody leads.
        """
        if not text:
            self._unread_passes = 0
        elif leads:
            self._unread_passes += 1
        self._unread = text

    def __call__(self) -> str:
        """Return why this process could not write now, "" if it could."""
        if self._began_s is None:
            return "no pass was made yet"
        since_s = self._clock() - self._began_s
        if since_s > self._hung_s:
            return f"the last pass began {since_s:.0f} s ago"
        return self._journal.problem or (
            self._unread if self._unread_passes >= self._most_unread else ""
        )
