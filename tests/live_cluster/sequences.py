"""Sequences of sizes: ours beside the controller's, and what was said beside what was recorded."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from tests.live_cluster.recording import Decision, Decisions
from tests.live_cluster.truth import Hpa, distinct

HELD: Final = 2  # syncs of the controller: what did not last for so many was not held
SLOW: Final = 2  # sync periods without a decision: a controller that has no time


class At(NamedTuple):
    """A size from an instant on."""

    at_ms: int
    size: int


@dataclass(frozen=True)
class Difference:
    """Ours and theirs at an instant; `why` explains it, "" if nothing does."""

    hpa: Hpa
    at_ms: int
    ours: str
    theirs: str
    why: str


def changes(decided: Sequence[tuple[int, int | None]]) -> list[At]:
    """Return sizes from when on each was decided; None (no decision) is left out."""
    found: list[At] = []
    for at_ms, size in decided:
        if size is not None and (not found or found[-1].size != size):
            found.append(At(at_ms, size))
    return found


def passed(decided: Iterable[tuple[int, int | None, int | None]]) -> list[At]:
    """Return the sizes that a target came to, or was to come to: (instant, size then, desired).

    Who decides in another's shadow sees sizes that he would have chosen himself a moment later, so
    a size that is there all of a sudden belongs to the sequence.
    """
    rows: list[tuple[int, int | None]] = []
    last: tuple[int | None, int | None] = (None, None)
    for at_ms, replicas, desired in decided:
        if replicas != last[0]:
            rows.append((at_ms, replicas))
        if (replicas, desired) != last:
            rows.append((at_ms, desired))
        last = (replicas, desired)
    return changes(rows)


def compare_sequences(
    hpa: Hpa,
    ours: Mapping[int, Decision],
    theirs: Sequence[At],
    their_ms: Sequence[int],
    window_ms: int,
    sync_ms: int,
) -> list[Difference]:
    """Return where the sequences of sizes differ: our decisions by instant, and the controller's.

    A size of ours is explained if it, or the proposal behind it, did not last for two syncs of the
    controller, which come every `sync_ms`; windows of `window_ms` remember such a proposal.
    `their_ms` are the controller's instants, ascending.
    """
    mine = passed((at_ms, one.replicas, one.desired) for at_ms, one in sorted(ours.items()))
    brief = _Brief(ours, their_ms, window_ms, sync_ms)
    return _alone(hpa, mine, theirs, [brief.why(one) for one in mine])


def compare_statuses(hpa: Hpa, mine: Sequence[At], theirs: Sequence[At]) -> list[Difference]:
    """Return where two sequences differ, without any reason."""
    return _alone(hpa, mine, theirs, [""] * len(mine))


def _alone(
    hpa: Hpa, mine: Sequence[At], theirs: Sequence[At], whys: Sequence[str]
) -> list[Difference]:
    found = []
    for one, other in _aligned(mine, theirs, whys):
        if one is not None:
            at = mine[one]
            found.append(Difference(hpa, at.at_ms, f"passes {at.size}", "does not", whys[one]))
        if other is not None:
            at = theirs[other]
            found.append(Difference(hpa, at.at_ms, "do not", f"passes {at.size}", ""))
    return found


def _aligned(
    mine: Sequence[At], theirs: Sequence[At], whys: Sequence[str]
) -> list[tuple[int | None, int | None]]:
    """Return what stands alone in two sequences (its place in one of them), in order of time.

    As few as possible of what nothing explains.
    """
    rows, columns = len(mine), len(theirs)
    cost = [[(0, 0)] * (columns + 1) for _ in range(rows + 1)]
    for i in range(rows, -1, -1):
        for j in range(columns, -1, -1):
            ways = []
            if i < rows and j < columns and mine[i].size == theirs[j].size:
                ways.append(cost[i + 1][j + 1])
            if i < rows:
                bad, all_ = cost[i + 1][j]
                ways.append((bad + (not whys[i]), all_ + 1))
            if j < columns:
                bad, all_ = cost[i][j + 1]
                ways.append((bad + 1, all_ + 1))
            cost[i][j] = min(ways, default=(0, 0))
    found: list[tuple[int | None, int | None]] = []
    i = j = 0
    while i < rows or j < columns:
        same = i < rows and j < columns and mine[i].size == theirs[j].size
        if same and cost[i][j] == cost[i + 1][j + 1]:
            i, j = i + 1, j + 1
        elif i < rows and cost[i][j][1] == cost[i + 1][j][1] + 1 and (
            cost[i][j][0] == cost[i + 1][j][0] + (not whys[i])
        ):  # fmt: skip
            found.append((i, None))
            i += 1
        else:
            found.append((None, j))
            j += 1
    return found


class _Brief:
    """Says why the controller did not come to sizes of ours."""

    def __init__(
        self, ours: Mapping[int, Decision], their_ms: Sequence[int], window_ms: int, sync_ms: int
    ) -> None:
        self.ours, self.their_ms = ours, their_ms
        self.window_ms, self.sync_ms = window_ms, sync_ms
        self.times = sorted(ours)
        self.runs = self._runs()

    def why(self, one: At) -> str:
        """Return why, "" if there is no reason."""
        decision, end = self.ours[one.at_ms], self._end(one)
        if end is not None and self._met(one.at_ms, end) < HELD:
            met = self._met(one.at_ms, end)
            return f"{one.size} was decided for {end - one.at_ms} ms: {met} syncs of it"
        for from_ms, until_ms, size in self.runs:
            inside = from_ms <= one.at_ms < until_ms + self.window_ms
            if inside and (size == one.size or until_ms > one.at_ms):
                ago = f" {one.at_ms - from_ms} ms before" if one.at_ms > from_ms else ""
                met = self._met(from_ms, until_ms)
                return f"{size} was proposed for {until_ms - from_ms} ms{ago}: {met} syncs of it"
        return self._back(one, decision) or self._slow(one)

    def _met(self, from_ms: int, until_ms: int) -> int:
        """Return how often the controller decided between two instants."""
        return max(bisect_left(self.their_ms, until_ms) - bisect_right(self.their_ms, from_ms), 0)

    def _end(self, one: At) -> int | None:
        """Return until when a size was decided, None: until the end."""
        later = self.times[bisect_right(self.times, one.at_ms) :]
        return next((at_ms for at_ms in later if self.ours[at_ms].desired != one.size), None)

    def _runs(self) -> list[tuple[int, int, int]]:
        """Return (from, until, size) of proposals that did not last for two of its syncs."""
        found, begun = [], 0
        for k in range(1, len(self.times)):
            first = self.ours[self.times[begun]]
            if self.ours[self.times[k]].proposal == first.proposal:
                continue
            from_ms, until_ms = self.times[begun], self.times[k]
            if first.proposal is not None and self._met(from_ms, until_ms) < HELD:
                found.append((from_ms, until_ms, first.proposal))
            begun = k
        return found

    @staticmethod
    def _back(one: At, decision: Decision) -> str:
        return "back at the size that it has" if one.size == decision.replicas else ""

    def _slow(self, one: At) -> str:
        """Return whether the controller had no time: its windows lack what ours have then."""
        begun = one.at_ms - self.window_ms
        inside = [ms for ms in self.their_ms if begun <= ms <= one.at_ms + self.sync_ms]
        longest = max((b - a for a, b in pairwise(inside)), default=0)
        if longest < SLOW * self.sync_ms:
            return ""
        return f"it decided nothing for {longest} ms within the window: a busy machine"


def compare_told(hpa: Hpa, told: Sequence[At], decided: Decisions) -> list[Difference]:
    """Return where what the loop said and what its recording comes to differ."""
    rows = sorted(decided.get(hpa, {}).items())
    ours = changes([(at_ms, None if one.failed else one.desired) for at_ms, one in rows])
    if list(told) == ours:
        return []
    for one, other in zip([*told, None], [*ours, None], strict=False):
        if one != other:
            at = min(x.at_ms for x in (one, other) if x is not None)
            mine = "nothing" if one is None else f"{one.size} at {one.at_ms}"
            again = "nothing" if other is None else f"{other.size} at {other.at_ms}"
            return [Difference(hpa, at, f"said {mine}", f"replayed {again}", "")]
    return []


def sizes_of(theirs: Sequence[At]) -> list[int]:
    return distinct(one.size for one in theirs)
