"""Resting sizes and cycles of an HPA under constant demand, for one metric.

At demand D the metric maps a size n to the size it asks for, kept within the bounds. The size asked
for never falls as the usage per pod rises, so all limits are found by bisection on the rules
themselves, with their integer percent, tolerances, `ceil` and floating-point rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from hpabatch.engine.analyze.meter import Meter, Moves

_FLOAT_SLACK: Final = 1e-9  # of a ratio times a size: floats may put a ceil one higher


@dataclass(frozen=True, slots=True)
class Band:
    """The dead band at a size: the usage per pod (or the value) at which the metric asks for it.

    `low_milli` to `high_milli`, both included; None as `high_milli`: without end. The percentages
    (utilization only) are those of the request, truncated, as the rules read them. With `empty`
    there is no such usage, and these are None. `up_to` and `down_to` are the nearest sizes that the
    metric asks for above and below the band, within the bounds; None: it does not move there.
    """

    size: int
    empty: bool
    low_milli: int | None = None
    high_milli: int | None = None
    low_pct: int | None = None
    high_pct: int | None = None
    up_to: int | None = None
    down_to: int | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of demand (milli, both ends included; None: without end) and where the HPA can rest.

    `runs` are the sizes at which it rests, as (first, last) of consecutive ones, ascending. Without
    any it never rests there.
    """

    low_milli: int
    high_milli: int | None
    runs: tuple[tuple[int, int], ...]

    @property
    def sizes(self) -> int:
        """How many sizes are at rest."""
        return sum(last - first + 1 for first, last in self.runs)


@dataclass(frozen=True, slots=True)
class Cycle:
    """A range of demand (milli, both ends included) in which the sizes `members` follow each other.

    The largest comes last; after it comes the first. From other sizes the HPA may still come to
    rest.
    """

    low_milli: int
    high_milli: int
    members: tuple[int, ...]


def least(low: int, high: int, found: Callable[[int], bool]) -> int:
    """Return the least x of low..high with found(x); `found` never turns false again.

    high + 1 if there is none.
    """
    while low <= high:
        middle = (low + high) // 2
        if found(middle):
            high = middle - 1
        else:
            low = middle + 1
    return low


def threshold(meter: Meter, size: int, wanted: int) -> int | None:
    """Return the least observation at which at least `wanted` replicas are asked for at `size`.

    None: that never happens (before an integer overflows).
    """

    def enough(observed: int) -> bool:
        wish = meter.wish(size, observed)
        return wish is not None and wish >= wanted

    largest = meter.largest(size)
    low, high = 0, min(math.ceil(meter.full_milli()), largest)
    while not enough(high):
        if high >= largest:
            return None
        low, high = high + 1, min(2 * high + 1, largest)
    return least(low, high, enough)


def dead_band(meter: Meter, moves: Moves, size: int) -> Band:
    """Return the dead band at a size."""
    low, above = threshold(meter, size, size), threshold(meter, size, size + 1)

    def nearest(observed: int | None) -> int | None:
        wish = None if observed is None or observed < 0 else meter.wish(size, observed)
        goal = moves.next_size(size, wish)
        return None if goal == size else goal

    up_to, down_to = nearest(above), nearest(None if low is None else low - 1)
    if low is None or (above is not None and above <= low) or meter.wish(size, low) is None:
        return Band(size, empty=True, up_to=up_to, down_to=down_to)
    high = None if above is None else above - 1
    band = Band(size, empty=False, low_milli=low, high_milli=high, up_to=up_to, down_to=down_to)
    if not meter.target_pct:
        return band
    return replace(
        band,
        low_pct=int(meter.propose(size, low).utilization_pct),
        high_pct=None if high is None else int(meter.propose(size, high).utilization_pct),
    )


# ---- resting -------------------------------------------------------------------------------------


def resting_demand(meter: Meter, moves: Moves, band: Band) -> tuple[int, int | None] | None:
    """Return the demands (both ends included; None: without end) at which a size is kept.

    At minReplicas whatever asks for less is kept too, at maxReplicas whatever asks for more, and so
    where that direction is disabled. None: there is no such demand.
    """
    size = band.size
    low: int | None = 0
    if size > moves.lowest and moves.shrinks:
        observed = threshold(meter, size, size) if band.empty else band.low_milli
        low = None if observed is None else meter.demand_for(size, observed)
    high: int | None = None
    if size < moves.highest and moves.grows_from(size):
        observed = threshold(meter, size, size + 1) if band.empty else band.high_milli
        observed = observed + 1 if observed is not None and not band.empty else observed
        high = None if observed is None else meter.demand_for(size, observed) - 1
    if low is None or (high is not None and high < low):
        return None
    return low, high


def pieces(meter: Meter, moves: Moves, bands: Sequence[Band]) -> tuple[Piece, ...]:
    """Return all demands from 0 on, cut where the set of resting sizes changes.

    `bands` are those of all sizes from the lowest to the highest.
    """
    edges: dict[int, tuple[list[int], list[int]]] = {0: ([], [])}  # demand: sizes in, sizes out
    for band in bands:
        resting = resting_demand(meter, moves, band)
        if resting is None:
            continue
        low, high = resting
        edges.setdefault(low, ([], []))[0].append(band.size)
        if high is not None:
            edges.setdefault(high + 1, ([], []))[1].append(band.size)
    starts = sorted(edges)
    ends: list[int | None] = [start - 1 for start in starts[1:]]
    resting_sizes: set[int] = set()
    found = []
    for start, end in zip(starts, [*ends, None], strict=True):
        coming, going = edges[start]
        resting_sizes = (resting_sizes | set(coming)) - set(going)
        found.append(Piece(start, end, tuple(runs(sorted(resting_sizes)))))
    return tuple(found)


def runs(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Generate (first, last) of consecutive ones of ascending sizes."""
    first = last = None
    for size in sizes:
        if first is None or last is None:
            first = last = size
        elif size == last + 1:
            last = size
        else:
            yield first, last
            first = last = size
    if first is not None and last is not None:
        yield first, last


# ---- cycles --------------------------------------------------------------------------------------


def cycles(meter: Meter, moves: Moves, bands: Sequence[Band]) -> tuple[Cycle, ...]:
    """Return all cycles whose largest member is the size of one of the bands, ascending by demand.

    A cycle's largest member M is asked for by a smaller size, and itself asks for less. The first
    bounds the demand from below: truncation only takes away, so the whole of the usage there
    exceeds M - 1 targets. The second bounds it from above. Most often nothing lies between; where
    something does, M's path is followed, cut wherever a step depends on the demand.
    """
    # With a plain value the ratio is the same at every size: all move in the same direction.
    if meter.by_value or not (moves.grows and moves.shrinks):
        return ()
    found: list[Cycle] = []
    for band in bands:
        low, high = _overshoot(meter, moves, band)
        if low <= high:
            found.extend(_cycles_below(meter, moves, band.size, low, high))
    return tuple(sorted(found, key=lambda cycle: (cycle.low_milli, cycle.members)))


def _overshoot(meter: Meter, moves: Moves, band: Band) -> tuple[int, int]:
    """Return demands outside of which a size is not the largest of a cycle; low > high: all."""
    size = band.size
    if size <= moves.lowest:
        return 1, 0
    observed = threshold(meter, size, size) if band.empty else band.low_milli
    if observed is None:
        return 1, 0
    high = meter.demand_for(size, observed) - 1
    full = meter.full_milli() * (1 - _FLOAT_SLACK)
    each = full - meter.base_milli if meter.per_pod else full
    return max(math.floor((size - 1) * each), 0), high


def _cycles_below(meter: Meter, moves: Moves, top: int, low: int, high: int) -> Iterator[Cycle]:
    """Generate the cycles of demands low..high whose largest member is `top`."""

    def step(size: int, demand: int) -> int:
        return moves.next_size(size, meter.wish_for(demand, size))

    def beyond(demand: int, size: int, after: int) -> bool:
        return step(size, demand) > after

    paths: list[tuple[tuple[int, ...], int, int]] = [((top,), low, high)]
    while paths:
        path, first, last = paths.pop()
        size = path[-1]
        after = step(size, first)
        if step(size, last) != after:
            cut = least(first, last, partial(beyond, size=size, after=after))
            paths.append((path, cut, last))
            last = cut - 1
        if after == top and size != top:
            yield Cycle(first, last, (*path[1:], top))
        elif after < top and after not in path:
            paths.append(((*path, after), first, last))
        # Else it rests, grows beyond (then its largest is another), or runs in a smaller cycle.
