"""Comparison of hpabatch's decisions with those of the cluster's own controller.

"Ours" is the decision of a pass, "theirs" the HPA's status.desiredReplicas as last seen. Both
loops run at the same period but at different phases, so one of them is always late: a difference
counts only once it has lasted for a grace period and is no lag, which it is while either side's
value is one that the other had within the grace period.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

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

Int = TypeVar("Int", np.int8, np.int64, np.bool_)

_UNSEEN = -2  # no number of replicas, and not NO_STATUS


class Difference(NamedTuple):
    """An HPA on which the two controllers differ; times in UTC ms, `lane` of the compared pass.

    `theirs_since_ms`: time at which the current value of theirs was first seen.
    """

    lane: int
    namespace: str
    name: str
    ours: int
    theirs: int
    since_ms: int
    theirs_since_ms: int
    why: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """One compared pass; all arrays are by lanes of `result`, or hold numbers of its lanes.

    Attributes:
        state: (H,) place in STATES.
        since_ms: (H,) since when ours and theirs are unequal, NEVER_MS if they are not.
        theirs_since_ms: (H,) since when theirs has its value; at most since the loop began.
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
    theirs_since_ms: I64
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
        return _share(np.bincount(self.state, minlength=len(STATES)).tolist())

    def differences(self) -> list[Difference]:
        """Return the HPAs that differ, in the order of lanes, each with a reason for ours."""
        return [self.difference(h) for h in np.flatnonzero(self.state == DIFFERS).tolist()]

    def difference(self, h: int) -> Difference:
        """Return the comparison of lane h, whether it differs or not."""
        result = self.result
        return Difference(
            lane=h,
            namespace=result.namespaces[h],
            name=result.names[h],
            ours=int(result.decisions.desired[h]),
            theirs=int(result.theirs_desired[h]),
            since_ms=int(self.since_ms[h]),
            theirs_since_ms=int(self.theirs_since_ms[h]),
            why=result.why(h),
        )


@dataclass(frozen=True, slots=True)
class Totals:
    """Totals since the loop began; `seconds` are HPA-seconds by state.

    A disagreement also ends when its HPA is deleted.
    """

    passes: int
    begun: int
    ended: int
    seconds: dict[str, float]

    def share(self) -> float | None:
        """Return the share of the time in which the two agreed; None where nothing was compared."""
        return _share([self.seconds[name] for name in STATES])


class Shadow:
    """Comparison over all passes, for the loop's thread. Deleted HPAs are forgotten."""

    def __init__(self, grace_ms: int) -> None:
        """Begin without HPAs.

        Args:
            grace_ms: how long a difference lasts before it counts; two sync periods.
        """
        self._grace_ms = grace_ms
        self._uids: list[str] = []
        self._place: dict[str, int] = {}
        self._past: list[tuple[int, I64, I64]] = []  # (instant, ours, theirs) of recent passes
        self._state = np.zeros(0, np.int8)
        self._failed = np.zeros(0, np.bool_)
        self._since = np.zeros(0, np.int64)
        self._theirs_since = np.zeros(0, np.int64)
        self._spent_ms = np.zeros(len(STATES), np.int64)
        self._passes = self._begun = self._ended = 0

    def compare(self, result: PassResult) -> Comparison:
        """Compare a pass with the decisions of the cluster's own controller."""
        now = result.now_ms
        self._spend(now)
        self._align(result.uids)
        # Copies: the decider may use its arrays again.
        ours, theirs = np.array(result.ours_desired), np.array(result.theirs_desired, np.int64)
        last_ours, last_theirs = self._last(len(ours))
        # A value seen for the first time holds since now.
        self._theirs_since = np.where(theirs == last_theirs, self._theirs_since, now)
        before = self._state
        comparable = result.decided & (theirs != NO_STATUS)
        unequal = comparable & (ours != theirs)
        self._since = np.where(unequal, np.where(self._since == NEVER_MS, now, self._since), -1)
        late = now - self._since >= self._grace_ms
        counts = unequal & ((before == DIFFERS) | (late & ~self._is_lag(now, ours, theirs)))
        state = np.where(comparable, np.where(unequal, SETTLING, SAME), UNWRITTEN)
        state[~result.decided] = UNDECIDED
        state[counts] = DIFFERS
        self._state = state.astype(np.int8)
        had_failed, self._failed = self._failed, result.error != ERROR_NONE
        # The rules know a write that failed or was made; one that waits is no failure.
        self._failed[[h for h, one in result.sizes.items() if one.outcome == SIZE_WAITS]] = False
        found = Comparison(
            result=result,
            state=self._state,
            since_ms=self._since,
            theirs_since_ms=self._theirs_since,
            fresh=np.flatnonzero(last_ours == _UNSEEN),
            moved=np.flatnonzero(last_ours != ours),
            failing=np.flatnonzero(self._failed & ~had_failed),
            working=np.flatnonzero(had_failed & ~self._failed),
            begun=np.flatnonzero(counts & (before != DIFFERS)),
            ended=np.flatnonzero((before == DIFFERS) & ~counts),
        )
        self._keep(now, ours, theirs, found)
        return found

    def totals(self) -> Totals:
        """Return the totals since the loop began."""
        seconds = (self._spent_ms / 1000).tolist()
        return Totals(
            self._passes, self._begun, self._ended, dict(zip(STATES, seconds, strict=True))
        )

    # ---- parts

    def _spend(self, now: int) -> None:
        """Add the time since the last pass to the states in which it left the HPAs."""
        if self._past:
            elapsed = max(now - self._past[-1][0], 0)
            self._spent_ms += np.bincount(self._state, minlength=len(STATES)) * elapsed

    def _align(self, uids: Sequence[str]) -> None:
        """Put the kept columns into the order of `uids`; new HPAs are unseen."""
        if list(uids) == self._uids:
            return
        place = self._place
        rows = np.array([place.get(uid, -1) for uid in uids], np.int64)
        known = rows >= 0
        stay = np.zeros(len(self._state), np.bool_)
        stay[rows[known]] = True
        self._ended += int(np.sum((self._state == DIFFERS) & ~stay))
        self._state = _moved(self._state, rows, known, UNDECIDED)
        self._failed = _moved(self._failed, rows, known, False)
        self._since = _moved(self._since, rows, known, NEVER_MS)
        self._theirs_since = _moved(self._theirs_since, rows, known, NEVER_MS)
        self._past = [
            (ms, _moved(ours, rows, known, _UNSEEN), _moved(theirs, rows, known, _UNSEEN))
            for ms, ours, theirs in self._past
        ]
        self._uids, self._place = list(uids), {uid: h for h, uid in enumerate(uids)}

    def _last(self, count: int) -> tuple[I64, I64]:
        if self._past:
            return self._past[-1][1], self._past[-1][2]
        return np.full(count, _UNSEEN), np.full(count, _UNSEEN)

    def _is_lag(self, now: int, ours: I64, theirs: I64) -> NDArray[np.bool_]:
        """Return (H,) whether either side's value is one that the other had within the grace."""
        lag = np.zeros(len(ours), np.bool_)
        until = now
        for ms, past_ours, past_theirs in reversed(self._past):
            if now - until >= self._grace_ms:
                break
            lag |= (past_ours == theirs) | (past_theirs == ours)
            until = ms
        return lag

    def _keep(self, now: int, ours: I64, theirs: I64, found: Comparison) -> None:
        self._past.append((now, ours, theirs))
        # The last pass before the grace period still held at its beginning.
        while len(self._past) > 1 and now - self._past[1][0] >= self._grace_ms:
            del self._past[0]
        self._passes += 1
        self._begun += len(found.begun)
        self._ended += len(found.ended)


def _moved(column: NDArray[Int], rows: I64, known: NDArray[np.bool_], new: int) -> NDArray[Int]:
    """Return a column in a new order; `new` for lanes that were not there."""
    moved = np.full(len(rows), new, column.dtype)
    moved[known] = column[rows[known]]
    return moved


def _share(by_state: Sequence[float]) -> float | None:
    total = by_state[SAME] + by_state[SETTLING] + by_state[DIFFERS]
    return by_state[SAME] / total if total else None
