"""Measures of runs by block: sums for each week or day of a run.

A block is a week where a run has at least two, else a day. What is left at a run's end is a block
of its own if it is at least half of one, else part of the last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import polars as pl

from hpabatch.engine.columns.sweep import BLOCKS
from hpabatch.engine.simulate.case import SimulationCase
from hpabatch.engine.simulate.loop import Ran
from hpabatch.engine.simulate.measures import TABLE, Bounds, known_sums
from hpabatch.layout.results import MEASURES

DAY_MS: Final = 86_400_000
WEEK_MS: Final = 7 * DAY_MS
UNITS: Final = {"week": WEEK_MS, "day": DAY_MS}

COLUMNS: Final = tuple(name for name in BLOCKS.names if name in TABLE)
"""Columns of a row of blocks, all of them sums."""


def block_unit(length_ms: int) -> str:
    """Return the unit of the blocks of runs of some length."""
    return "week" if length_ms >= 2 * WEEK_MS else "day"


def block_count(length_ms: int, unit_ms: int) -> int:
    """Return how many blocks a run of some length has."""
    whole, rest = divmod(length_ms, unit_ms)
    return max(whole + (1 if 2 * rest >= unit_ms else 0), 1)


def block_ends(steps: int, period_ms: int, unit_ms: int, count: int) -> list[int]:
    """Return the step at which each of a run's blocks ends (exclusive); the last is `steps`."""
    return [*(k * unit_ms // period_ms for k in range(1, count)), steps]


def blocks_frame(
    ran: Ran,
    unit_ms: int,
    bounds: Bounds,
    lengths: Mapping[tuple[str, str, str], int] | None = None,
) -> pl.DataFrame:
    """Return one row per case and block: KEY, setting, block, start and COLUMNS.

    Args:
        ran: cases that ran with sums looked at every `unit_ms`.
        unit_ms: length of a block.
        bounds: of perfect forecasts, kept for all settings of a workload.
        lengths: by HPA the length (ms) that says how many blocks there are; None: each case's own.
            Under another sync period a run is some seconds shorter, and must have the same blocks.
    """
    known = lengths or {}
    ends = []
    for _, case in ran.chosen:
        count = block_count(known.get(case.key[:3], case.steps * case.period_ms), unit_ms)
        ends.append(block_ends(case.steps, case.period_ms, unit_ms, count))
    frames = [
        _block(ran, number, [(*c, e) for c, e in zip(ran.chosen, ends, strict=True)], bounds)
        for number in range(max(map(len, ends)))
    ]
    return pl.concat(frames)


def _block(
    ran: Ran, number: int, chosen: Sequence[tuple[int, SimulationCase, list[int]]], bounds: Bounds
) -> pl.DataFrame:
    """Return the rows of one block; of all cases their lanes and the ends of their blocks."""
    chosen = [(h, case, ends) for h, case, ends in chosen if len(ends) > number]
    rows = np.array([h for h, _, _ in chosen], np.int64)
    cases = [case for _, case, _ in chosen]
    spans = [(ends[number - 1] if number else 0, ends[number]) for _, _, ends in chosen]
    is_last = np.array([len(ends) == number + 1 for _, _, ends in chosen])
    simulation = ran.fleet.simulation
    whole, peaks = simulation.measures[rows], simulation.peaks[rows]
    later, later_peaks = whole, peaks
    if number < len(ran.snapshots):
        later, later_peaks = ran.snapshots[number][rows], ran.peaks[number][rows]
    sums = {name: np.where(is_last, whole[name], later[name]) for name in MEASURES.names}
    peaks = np.where(is_last[:, None], peaks, later_peaks)
    if number:
        before = ran.snapshots[number - 1][rows]
        sums = {name: total - before[name] for name, total in sums.items()}
        peaks = peaks - ran.peaks[number - 1][rows]
    perfect = [bounds.hours(case, *span) for case, span in zip(cases, spans, strict=True)]
    start = [c.start_ms + c.period_ms * a for c, (a, _) in zip(cases, spans, strict=True)]
    return known_sums(cases, sums, peaks, perfect).select(
        *("cluster", "namespace", "hpa", "setting"),
        pl.lit(number, pl.Int32).alias("block"),
        pl.Series("start", start, dtype=pl.Int64).cast(pl.Datetime("ms", "UTC")),
        *(TABLE[name].alias(name) for name in COLUMNS),
    )
