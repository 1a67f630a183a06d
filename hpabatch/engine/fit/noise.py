"""How usage varies within a piece of work, where a history has finer stretches than usual."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from hpabatch.engine.fit.measured import Measured
from hpabatch.engine.fit.series import Cells, window_ms
from hpabatch.engine.fit.workload import FITTED, NOT_IDENTIFIED, Fact
from hpabatch.layout.records import I64
from hpabatch.model.plant import DIVISIBLE

FACTORS: Final = 64
FEWEST_CELLS: Final = 20
_HOUR_MS: Final = 3_600_000


def noise_of(measured: Mapping[str, Measured], cells: Cells) -> tuple[I64 | None, Fact]:
    """Return up to FACTORS equally likely factors of finer samples to their cell's mean.

    Of the first divisible signal, in thousandths, ascending, their mean 1000 but for rounding; None
    where no stretch of the history is finer than its usual spacing. And their standard deviation
    as a fact.
    """
    first = next((m for m in measured.values() if m.kind == DIVISIBLE), None)
    factors = _factors(first, cells) if first is not None else np.zeros(0)
    if not factors.size:
        note = "no stretch of the history is finer than its usual spacing"
        return None, Fact("noise", None, "", None, None, NOT_IDENTIFIED, note)
    count = min(FACTORS, factors.size)
    # The means of equal parts of the ordered factors, so that the mean of all stays.
    parts = np.array_split(np.sort(factors), count)
    table = np.array([round(1000 * float(part.mean())) for part in parts], np.int64)
    note = f"standard deviation of {factors.size} finer samples around their piece's mean"
    return table, Fact("noise", float(factors.std()), "", None, None, FITTED, note)


def _factors(m: Measured, cells: Cells) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    signal = m.signal
    # Several rows in a cell may come from pods that are scraped at different times; only where each
    # pod itself was sampled more often they are a finer look.
    hours = np.isin(signal.mean_ms // _HOUR_MS, _fine_hours(m, cells))
    rows = np.flatnonzero((signal.counted > 0) & hours)
    place = cells.of(np.asarray(signal.mean_ms[rows] - window_ms(signal) / 2, np.float64))
    usage = signal.sum_milli[rows] / signal.counted[rows]
    count = np.bincount(place, minlength=cells.count)
    total = np.bincount(place, weights=usage, minlength=cells.count)
    fine = (count >= 2) & m.series.still & (total > 0)
    if fine.sum() < FEWEST_CELLS:
        return np.zeros(0)
    inside = fine[place]
    place = place[inside]
    return np.asarray(usage[inside] * count[place] / total[place], np.float64)


def _fine_hours(m: Measured, cells: Cells) -> I64:
    """Return the hours (since 1970) in which most samples came at half the spacing or less."""
    probes = m.signal.probes
    hour, place = np.unique(probes.ts_ms // _HOUR_MS, return_inverse=True)
    fine = np.bincount(place, weights=2 * probes.spacing_ms <= cells.resolution_ms)
    return hour[2 * fine > np.bincount(place)]
