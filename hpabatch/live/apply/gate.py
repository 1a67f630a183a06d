"""Permission to write: between two passes, and while the writes of one go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, wait
from typing import Final

from hpabatch.live.apply.guards import Change
from hpabatch.live.apply.scales import Term, Written

_MOST_S: Final = 20.0
"""With the requests that go on then, statuses and lease, a stop ends within a pod's 60 s."""
_LOOK_S: Final = 3.0


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
        look_s: float = _LOOK_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare.

        Args:
            period_s: of the passes: no write of one begins later, nor after 20 s.
            fence: of the lease.
            switch: returns why the kill switch forbids writes, "" if it does not.
            look_s: between two readings of the switch.
            clock: monotonic seconds.
        """
        self.period_s = period_s
        self._longest_s, self._look_s = min(period_s, _MOST_S), look_s
        self._fence, self._switch, self._clock = fence, switch, clock
        self._until = 0.0
        self._closed = "no pass was made yet"

    def begin(self, refusal: str) -> None:
        """Begin a pass, in which writes are forbidden for that reason, "": they may begin."""
        self._closed = refusal

    @property
    def term(self) -> int:
        """Count of the times that this process took the lease."""
        return self._fence.term

    def refusal(self, longest_s: float) -> str:
        """Return why a writing request of at most `longest_s` may not begin, "" if it may."""
        return self._closed or self._fence.refusal(longest_s)

    def carry(
        self, pool: Executor, write: Callable[[Change], Written], changes: Sequence[Change]
    ) -> list[Written]:
        """Make the writes of a pass; those whose time does not come are told to wait."""
        self._until = self._clock() + self._longest_s
        writes = [pool.submit(self._one, write, change) for change in changes]
        pending: set[Future[Written]] = set(writes)
        while pending:
            pending = wait(pending, self._look_s)[1]
            if pending and not self._closed:
                self._closed = self._look()
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
            return Written(f"hpabatch: waits: {why}", ended_s=time.monotonic(), waits=True)
        return write(change)
