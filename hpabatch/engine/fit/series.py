"""Observed usage of a workload on a regular grid, from which the plant is fitted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from hpabatch.engine.fit.stats import F64, Mask, int_median, runs_of
from hpabatch.engine.fit.usage import SETTLE_MS, SignalUsage, Usage
from hpabatch.history.columns import AFTER_MS
from hpabatch.layout.records import I64

SECOND_MS: Final = 1000
MINUTE_MS: Final = 60_000
GAP_SPACINGS: Final = 2.5
"""A stretch without samples is a gap from this many of the signal's own spacings on."""


@dataclass(frozen=True, slots=True)
class Cells:
    """A regular grid of `count` cells of `resolution_ms` from `start_ms` on."""

    start_ms: int
    resolution_ms: int
    count: int

    def of(self, at_ms: F64) -> I64:
        """Return the cell of each instant, which may lie outside of the grid."""
        return np.floor((at_ms - self.start_ms) / self.resolution_ms).astype(np.int64)

    @property
    def starts_ms(self) -> I64:
        """When each cell begins, shape (count,)."""
        return self.start_ms + np.arange(self.count, dtype=np.int64) * self.resolution_ms

    @property
    def middles_ms(self) -> I64:
        """The middle of each cell, where the middle of its samples' windows lies."""
        return self.starts_ms + self.resolution_ms // 2

    def per(self, span_ms: int) -> int:
        """Return how many cells a span has, at least one."""
        return max(1, round(span_ms / self.resolution_ms))


@dataclass(frozen=True, slots=True)
class Series:
    """One signal by cell, shape (cells,); NaN where nothing was sampled.

    `usage` is the mean of the settled pods in milli, `most` the highest pod's, `ready` how many
    pods were ready over the samples' window (a mean). `still`: sampled, and no pod became ready or
    ceased to be in the window, nor SETTLE_MS before it. Of a total `usage` and `most` are its
    value.
    """

    usage: F64
    most: F64
    ready: F64
    still: Mask


def spacing_ms(signal: SignalUsage) -> int:
    """Return the median time between two samples of a pod or series, 0 if unknown."""
    spacing = signal.probes.spacing_ms
    return int_median(spacing) if spacing.size else 0


def window_ms(signal: SignalUsage) -> int:
    """Return the median window of the samples, 0 if unknown or of a total."""
    window = signal.probes.window_ms
    return int_median(window) if window.size else 0


def cells_of(usage: Usage) -> Cells | None:
    """Return the grid of a workload: its finest signal's spacing, no finer than the syncs.

    The grid lies so that samples' windows fall into the middle of the cells. None without samples.
    """
    seen = [s for s in usage.signals.values() if (s.counted > 0).any()]
    if not seen:
        return None
    sync_ms = int_median(np.diff(usage.now_ms)) if usage.now_ms.size > 1 else 0
    known = [ms for ms in map(spacing_ms, seen) if ms > 0]
    finest = max(min(known, default=sync_ms), sync_ms, SECOND_MS)
    resolution = round(finest / SECOND_MS) * SECOND_MS
    guide = min(seen, key=lambda s: spacing_ms(s) or resolution)
    angles = 2 * np.pi / resolution * (_middles(guide) % resolution)
    middle = np.arctan2(np.sin(angles).mean(), np.cos(angles).mean()) / (2 * np.pi) * resolution
    phase = int(np.floor(middle - resolution / 2 + 0.5)) % resolution
    ends = [(m.min(), m.max()) for m in map(_middles, seen)]
    first = (min(e[0] for e in ends) - phase) // resolution
    last = (max(e[1] for e in ends) - phase) // resolution
    return Cells(int(first) * resolution + phase, resolution, int(last - first) + 1)


def _middles(signal: SignalUsage) -> F64:
    """Return the middle of what the samples of each row that has any are means over, ms."""
    return np.asarray(signal.mean_ms[signal.counted > 0] - window_ms(signal) / 2, np.float64)


def series_of(usage: Usage, signal: SignalUsage, cells: Cells) -> Series:
    """Return a signal on a grid; several rows of a cell count with their numbers of samples."""
    kept = np.flatnonzero(signal.counted > 0)
    window = window_ms(signal)
    counted, total = signal.counted[kept], signal.sum_milli[kept].astype(np.float64)
    mean_ms, newest_ms = signal.mean_ms[kept], signal.newest_ms[kept]
    lives = usage.lives
    from_ms = mean_ms - window
    if window:
        ready = (lives.ready_ms_until(mean_ms) - lives.ready_ms_until(from_ms)) / window
    else:
        ready = lives.ready_at(mean_ms).astype(np.float64)
    earliest = from_ms - (newest_ms - mean_ms) - SETTLE_MS
    # A change that was told by a table's row lies just after its sample.
    moving = lives.changes_between(earliest + AFTER_MS, newest_ms + AFTER_MS) > 0
    place = cells.of(_middles(signal))
    weight = np.bincount(place, weights=counted, minlength=cells.count)

    def averaged(values: F64) -> F64:
        found = np.full(cells.count, np.nan)
        summed = np.bincount(place, weights=values, minlength=cells.count)
        np.divide(summed, weight, out=found, where=weight > 0)
        return found

    most = np.full(cells.count, -np.inf)
    np.maximum.at(most, place, signal.most_milli[kept].astype(np.float64))
    moves = np.bincount(place, weights=moving, minlength=cells.count) > 0
    value = total * counted if signal.is_total else total
    return Series(
        usage=averaged(value),
        most=np.where(weight > 0, most, np.nan),
        ready=averaged(ready * counted),
        still=(weight > 0) & ~moves,
    )


def gaps_of(series: Series, signal: SignalUsage, cells: Cells) -> tuple[tuple[int, int], ...]:
    """Return when no sample was taken for long: (from, to) in ms, in order of time.

    In the time of samples, which are taken at the end of their window, not that of the work.
    """
    first, end = runs_of(np.isnan(series.usage))
    # A gap of n lost samples shows n empty cells: the spacing before it is not part of it.
    longest = (GAP_SPACINGS - 1) * max(spacing_ms(signal), cells.resolution_ms)
    long = (end - first) * cells.resolution_ms >= longest
    later = cells.start_ms + window_ms(signal) // 2
    return tuple(
        (later + int(a) * cells.resolution_ms, later + int(b) * cells.resolution_ms)
        for a, b in zip(first[long], end[long], strict=True)
    )


def filled(values: F64) -> F64:
    """Return values with what is missing interpolated linearly, the ends held; all NaN: zeros."""
    known = np.flatnonzero(~np.isnan(values))
    if not known.size:
        return np.zeros(values.size)
    return np.interp(np.arange(values.size), known, values[known])


def minute_means(values: F64, cells: Cells) -> F64:
    """Return means over minutes (over cells where these are longer), NaN without any value."""
    per = cells.per(MINUTE_MS)
    padded = np.concatenate([values, np.full(-values.size % per, np.nan)]).reshape(-1, per)
    count = (~np.isnan(padded)).sum(axis=1)
    found = np.full(count.size, np.nan)
    np.divide(np.nansum(padded, axis=1), count, out=found, where=count > 0)
    return found
