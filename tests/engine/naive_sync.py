"""The sync estimate's parts again, slowly and without importing hpabatch."""

from __future__ import annotations

import cmath
import math
from collections.abc import Sequence


def distinct_syncs(times: Sequence[int], period: int) -> list[int]:
    """Return the first of every group of instants with steps of at most an eighth of the period."""
    found: list[int] = []
    before = None
    for time in sorted(set(times)):
        if before is None or time - before > period / 8:
            found.append(time)
        before = time
    return found


def concentration(times: Sequence[int], period: float) -> float:
    """Return the length of the instants' mean vector on a circle of that circumference."""
    vectors = [cmath.exp(2j * math.pi * ((t - times[0]) / period)) for t in times]
    return abs(sum(vectors)) / len(vectors)


def best_concentration(times: Sequence[int], hint: int, search: float) -> float:
    """Return the longest mean vector of any period near the hint, by trying them all."""
    span = times[-1] - times[0]
    # A tenth of a turn from the first to the last instant between two candidates.
    step = 0.1 * hint / max(span, hint)
    count = math.ceil(search / step)
    return max(
        concentration(times, hint * (1 + k * search / count)) for k in range(-count, count + 1)
    )


def distance_to_grid(time: float, anchor: float, period: float) -> float:
    """Return how far a time is from the nearest anchor + k * period."""
    rest = (time - anchor) % period
    return min(rest, period - rest)


def mode(values: Sequence[float]) -> float:
    """Return the half-sample mode of ascending values."""
    part = list(values)
    while len(part) > 3:
        half = (len(part) + 1) // 2
        widths = [part[k + half - 1] - part[k] for k in range(len(part) - half + 1)]
        first = widths.index(min(widths))
        part = part[first : first + half]
    if len(part) == 3:
        part = part[1:] if part[2] - part[1] < part[1] - part[0] else part[:2]
    return sum(part) / len(part)
