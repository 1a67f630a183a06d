"""The Pareto front of points, of which less is better in every column."""

from __future__ import annotations

import numpy as np

from hpabatch._jit import entry, rule
from hpabatch.layout.records import I64, F64x2


@entry
def mark_front(points: F64x2, order: I64, kept: I64, on_front: I64) -> int:
    """Write 1 to `on_front` for each point that no other one dominates; return how many there are.

    `points` (n, k): all columns are minimised. A point is dominated if another is not above it in
    any column and below it in one, so equal points stand or fall together. A point with a NaN is
    not comparable: it is never on the front and keeps no other from it. `order` (n,) are the rows
    sorted by the columns, the first counting most; `kept` (n,) is scratch.

    In that order nothing that comes later dominates, so a point need only be held against the
    front so far; of two columns, against its last point, which has the least of the second.
    """
    count = 0
    two = points.shape[1] <= 2
    for place in range(order.size):
        row = order[place]
        on_front[row] = 0
        if _is_known(points, row):
            first = count - 1 if two and count > 0 else 0
            dominated = False
            for j in range(first, count):
                if _dominates(points, kept[j], row):
                    dominated = True
                    break
            if not dominated:
                kept[count] = row
                count += 1
    for j in range(count):
        on_front[kept[j]] = 1
    return count


@rule
def _is_known(points: F64x2, row: int) -> bool:
    for c in range(points.shape[1]):
        if np.isnan(points[row, c]):
            return False
    return True


@rule
def _dominates(points: F64x2, a: int, b: int) -> bool:
    """Say whether point a is not above b in any column, and below it in one."""
    below = False
    for c in range(points.shape[1]):
        if points[a, c] > points[b, c]:
            return False
        if points[a, c] < points[b, c]:
            below = True
    return below
