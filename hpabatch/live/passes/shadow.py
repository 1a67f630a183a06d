"""Comparison of hpabatch's decisions with those of the cluster's own controller.

"Ours" is the decision of a pass, "theirs" the HPA's status.desiredReplicas as last seen. Both
loops run at the same period but at different phases, so one of them is always late: a difference
counts only once it has lasted for a grace period and is no lag, which it is while either side's
value is one that the other had within the grace period.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from hpabatch.layout.records import I8, I64
from hpabatch.live.passes.result import ERROR_NONE, NO_STATUS, SIZE_WAITS, PassResult

UNDECIDED: Final = 0
UNWRITTEN: Final = 1
SAME: Final = 2
SETTLING: Final = 3
DIFFERS: Final = 4
STATES: Final = ("undecided", "unwritten", "same", "settling", "differs")

NEVER_MS: Final = -1
"""In `since_ms` where the two do not differ."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One compared pass; all arrays are by lanes of `result`, or hold numbers of its lanes.

    Attributes:
        state: (H,) place in STATES.
        since_ms: (H,) since when ours and theirs are unequal, NEVER_MS if they are not.
        fresh: lanes that the last pass did not have.
        moved: lanes whose desired replicas changed since the last pass, including fresh ones.
        failing: lanes whose decision fails now and did not before, including fresh ones.
        working: lanes whose decision no longer fails.
        begun: lanes on which the two now differ.
        ended: lanes on which they no longer differ.
    """

    result: PassResult
    state: I8
    since_ms: I64
    fresh: I64
    moved: I64
    failing: I64
    working: I64
    begun: I64
    ended: I64

    def counts(self) -> dict[str, int]:
        """Return the number of HPAs by state."""
        found = np.bincount(self.state, minlength=len(STATES))
        return dict(zip(STATES, found.tolist(), strict=True))

    def share(self) -> float | None:
        """Return the share of HPAs on which the two agree; None where none can be compared."""
        count = np.bincount(self.state, minlength=len(STATES)).tolist()
        total = count[SAME] + count[SETTLING] + count[DIFFERS]
        return count[SAME] / total if total else None


@dataclass(slots=True)
class _Hpa:
    """One HPA; `past` has (instant, ours, theirs) of recent passes, the newest last."""

    past: list[tuple[int, int, int]] = field(default_factory=list)
    state: int = UNDECIDED
    since_ms: int = NEVER_MS
    failed: bool = False


class Shadow:
    """Comparison over all passes, for the loop's thread. Deleted HPAs are forgotten."""

    def __init__(self, grace_ms: int) -> None:
        """Begin without HPAs.

        Args:
            grace_ms: how long a difference lasts before it counts; two sync periods.
        """
        self._grace_ms = grace_ms
        self._hpas: dict[str, _Hpa] = {}  # by uid

    def compare(self, result: PassResult) -> Comparison:
        """Compare a pass with the decisions of the cluster's own controller."""
        now, before = result.now_ms, self._hpas
        self._hpas = {uid: before.get(uid) or _Hpa() for uid in result.uids}
        lists: tuple[list[int], ...] = ([], [], [], [], [], [])
        fresh, moved, failing, working, begun, ended = lists
        ours, theirs = result.ours_desired.tolist(), result.theirs_desired.tolist()
        errors, decided = result.error.tolist(), result.decided.tolist()
        for h, uid in enumerate(result.uids):
            one = self._hpas[uid]
            if not one.past:
                fresh.append(h)
            if not one.past or one.past[-1][1] != ours[h]:
                moved.append(h)
            state = self._state(one, now, ours[h], theirs[h], decided[h])
            # The rules know a write that failed or was made; one that waits is no failure.
            size = result.sizes.get(h)
            failed = errors[h] != ERROR_NONE and (size is None or size.outcome != SIZE_WAITS)
            if failed != one.failed:
                (failing if failed else working).append(h)
            if (state == DIFFERS) != (one.state == DIFFERS):
                (begun if state == DIFFERS else ended).append(h)
            one.state, one.failed = state, failed
            one.past.append((now, ours[h], theirs[h]))
            # The last pass before the grace period still held at its beginning.
            while len(one.past) > 1 and now - one.past[1][0] >= self._grace_ms:
                del one.past[0]
        hpas = [self._hpas[uid] for uid in result.uids]
        return Comparison(
            result=result,
            state=np.array([one.state for one in hpas], np.int8),
            since_ms=np.array([one.since_ms for one in hpas], np.int64),
            fresh=np.array(fresh, np.int64),
            moved=np.array(moved, np.int64),
            failing=np.array(failing, np.int64),
            working=np.array(working, np.int64),
            begun=np.array(begun, np.int64),
            ended=np.array(ended, np.int64),
        )

    def _state(self, one: _Hpa, now: int, ours: int, theirs: int, decided: bool) -> int:
        """Return the present state of an HPA, and keep since when the two differ."""
        if not decided or theirs in (NO_STATUS, ours):
            one.since_ms = NEVER_MS
            if not decided:
                return UNDECIDED
            return UNWRITTEN if theirs == NO_STATUS else SAME
        if one.since_ms == NEVER_MS:
            one.since_ms = now
        is_late = now - one.since_ms >= self._grace_ms
        if one.state == DIFFERS or (is_late and not self._is_lag(one, now, ours, theirs)):
            return DIFFERS
        return SETTLING

    def _is_lag(self, one: _Hpa, now: int, ours: int, theirs: int) -> bool:
        """Return whether either side's value is one that the other had within the grace."""
        until = now
        for ms, past_ours, past_theirs in reversed(one.past):
            if now - until >= self._grace_ms:
                return False
            if past_ours == theirs or past_theirs == ours:
                return True
            until = ms
        return False
