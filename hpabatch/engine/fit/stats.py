"""Small statistics for the fit of a plant: intervals, slopes, means, runs, seeds."""

from __future__ import annotations

import math
from hashlib import blake2b
from typing import Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from hpabatch.layout.records import I64

F64: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]
Sums = TypeVar("Sums", F64, I64)

CONFIDENCE: Final = 0.95
_NORMAL: Final = 1.959963984540054  # the normal quantile of (1 + CONFIDENCE) / 2


class Interval(NamedTuple):
    """A value and its 95 % interval."""

    value: float
    low: float
    high: float


def t_quantile(freedom: float) -> float:
    """Return Student's t quantile of a two-sided 95 % interval, for at least 1 degree of freedom.

    By the expansion in powers of 1/freedom (Abramowitz and Stegun, 26.7.5); at 2 degrees it gives
    4.16 for 4.30, from 4 on it is right to a hundredth. One degree is exact.
    """
    if freedom < 1.5:
        return 12.706204736432095
    x = _NORMAL
    terms = (
        (x**3 + x) / 4,
        (5 * x**5 + 16 * x**3 + 3 * x) / 96,
        (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384,
        (79 * x**9 + 776 * x**7 + 1482 * x**5 - 1920 * x**3 - 945 * x) / 92160,
    )
    return x + sum(term / freedom ** (k + 1) for k, term in enumerate(terms))


def slope(z: F64, y: F64, x: F64, cluster: I64) -> tuple[float, float, int]:
    """Return b with sum of z (y - b x) = 0, its standard error, and the number of clusters.

    Residuals of one cluster may hang together, those of different ones may not (the sandwich
    estimate with the factor clusters / (clusters - 1); Cameron and Miller 2015). NaN without
    anything to divide by, or with one cluster only.
    """
    steep = float((z * x).sum())
    _, place = np.unique(cluster, return_inverse=True)
    count = int(place.max(initial=-1)) + 1
    if steep == 0 or count < 2:
        return math.nan, math.nan, count
    found = float((z * y).sum()) / steep
    scores = np.bincount(place, weights=z * (y - found * x))
    spread = math.sqrt(float((scores**2).sum()) * count / (count - 1))
    return found, spread / abs(steep), count


def median_interval(values: F64) -> Interval:
    """Return the median and its distribution-free interval from order statistics (n at least 6).

    Ranks by the normal approximation of the binomial; the interval of few values is all of them.
    """
    ordered = np.sort(values)
    n = ordered.size
    reach = math.ceil(_NORMAL * math.sqrt(n) / 2)
    low = max(n // 2 - reach, 0)
    high = min((n - 1) // 2 + reach, n - 1)
    return Interval(float(np.median(ordered)), float(ordered[low]), float(ordered[high]))


def int_median(values: I64) -> int:
    """Return the median of at least one integer, rounded toward zero.

    Without sorting where most are equal, as the steps of a clock are (20 times as fast).
    """
    guess = int(values[values.size // 2])
    below, above = np.count_nonzero(values < guess), np.count_nonzero(values > guess)
    return guess if 2 * max(below, above) < values.size else int(np.median(values))


def past_means(values: F64, lengths: tuple[int, ...]) -> F64:
    """Return means over stretches of the past, shape (cells, len(lengths)).

    The first stretch ends with the cell itself, each next one before the one in front of it. NaN
    cells are left out; a stretch without any value has that of the younger one, the first one the
    last known value.
    """
    known = ~np.isnan(values)
    total = np.append(0.0, np.cumsum(np.where(known, values, 0.0)))
    count = np.append(0, np.cumsum(known))
    place = np.arange(values.size)
    last = values[np.maximum(np.maximum.accumulate(np.where(known, place, -1)), 0)]
    found = np.empty((len(lengths), values.size))  # a stretch is written, and read, in one go
    end_total, end_count, back = total[1:], count[1:], 0
    for k, length in enumerate(lengths):
        back += length
        start_total, start_count = _moved(total, back), _moved(count, back)
        n = end_count - start_count
        mean = (end_total - start_total) / np.maximum(n, 1)
        last = found[k] = np.where(n > 0, mean, last)
        end_total, end_count = start_total, start_count
    return found.T


def _moved(sums: Sums, back: int) -> Sums:
    """Return the sums before each cell that are `back` cells older than those after it."""
    moved = np.zeros(sums.size - 1, sums.dtype)
    first = min(back - 1, moved.size)
    moved[first:] = sums[: moved.size - first]
    return moved


def rolling_mean(values: F64, length: int) -> F64:
    """Return the means of `length` neighboring cells, NaN where one is missing; shorter by that.

    Shape (cells - length + 1,), at least (0,).
    """
    if values.size < length:
        return np.zeros(0)
    known = ~np.isnan(values)
    total = np.append(0.0, np.cumsum(np.where(known, values, 0.0)))
    count = np.append(0, np.cumsum(known))
    whole = count[length:] - count[:-length] == length
    return np.where(whole, (total[length:] - total[:-length]) / length, np.nan)


def runs_of(mask: Mask) -> tuple[I64, I64]:
    """Return where runs of True begin and end (exclusive), shape (runs,) each."""
    edges = np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8))
    return np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)


def seed_of(text: str) -> int:
    """Return a seed for random numbers that depends on a text alone; 64 bits."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())
