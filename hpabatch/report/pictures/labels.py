"""Which points get a label, and where it may stand; all places are pixels from the lower left."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from hpabatch.engine.advise.unit import Array

Box = tuple[float, float, float, float]
"""Left, low, right, high."""


def spread(
    at: Array, order: Sequence[int], taken: Sequence[int], most: int, apart: float
) -> list[int]:
    """Return which of some points to name: both ends of `order`, then those farthest apart.

    Points at (N, 2) places; all chosen are `apart` from each other and from those taken.
    """
    known = np.isfinite(at.sum(axis=1))
    kept = [k for k in taken if known[k]]
    left = [k for k in order if k not in taken and known[k]]
    chosen: list[int] = []
    for k in [*left[:1], *left[-1:]]:
        if k not in chosen and _far(at, k, kept + chosen) >= apart:
            chosen.append(k)
    while len(chosen) < most:
        rest = [k for k in left if k not in chosen]
        best = max(rest, key=lambda k: (_far(at, k, kept + chosen), -k), default=None)
        if best is None or _far(at, best, kept + chosen) < apart:
            break
        chosen.append(best)
    return sorted(chosen, key=left.index)


def _far(at: Array, place: int, others: Sequence[int]) -> float:
    """Return how far a place is from the nearest of others, in pixels."""
    if not others:
        return float("inf")
    return float(np.hypot(*(at[list(others)] - at[place]).T).min())


def along(front: Array) -> Array:
    """Return points every few pixels along the front's steps."""
    order = front[np.argsort(front[:, 0], kind="stable")]
    corners = np.repeat(order, 2, axis=0)[:-1]
    corners[1::2, 0] = order[1:, 0]
    parts = [
        np.linspace(a, b, int(np.abs(b - a).max() // 6) + 2) for a, b in itertools.pairwise(corners)
    ]
    return np.concatenate([front[:0], *parts])


def free_spot(
    point: Array,
    width: float,
    crowd: tuple[Array, Array],
    taken: Sequence[Box],
    size: tuple[float, float],
) -> tuple[tuple[float, float], Box]:
    """Return where a label of that width begins, and what it covers.

    `crowd`: places (N, 2) and weights (N,) of what should not be covered; nothing may leave the
    `size` of the axes, nor cover another label if that can be avoided.
    """
    x, y = point
    spots = [(float(x + dx), float(y + dy)) for dx, dy in _spots(width)]
    boxes = [(left - 2, base - 4, left + width + 2, base + 12) for left, base in spots]
    costs = [_cost(box, crowd, taken, size) + 0.5 * k for k, box in enumerate(boxes)]
    best = int(np.argmin(costs))
    return spots[best], boxes[best]


def _spots(width: float) -> Iterator[tuple[float, float]]:
    """Yield how far from a sign its label may begin, in pixels; the first is liked best."""
    for gap in (0, 8, 20):
        yield 11 + gap, -4
        yield -width - 11 - gap, -4
        yield -width / 2, 13 + gap
        yield -width / 2, -22 - gap
        for dx in (9 + gap, -width - 9 - gap):
            yield dx, 8 + gap
            yield dx, -16 - gap


def _cost(
    box: Box, crowd: tuple[Array, Array], taken: Sequence[Box], size: tuple[float, float]
) -> float:
    """Return how much is in the way of a label; what leaves the axes costs most."""
    left, low, right, high = box
    if left < 0 or low < 0 or right > size[0] or high > size[1]:
        return 1e9
    over = [
        left < other[2] and other[0] < right and low < other[3] and other[1] < high
        for other in taken
    ]
    places, weights = crowd
    x, y = places.T
    inside = (x > left - 7) & (x < right + 7) & (y > low - 7) & (y < high + 7)
    return 1e6 * sum(over) + float(weights[inside].sum())
