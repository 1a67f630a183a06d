"""Measures of runs by block: sums for each week or day of a run.

A block is a week where a run has at least two, else a day. What is left at a run's end is a block
of its own if it is at least half of one, else part of the last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from hpabatch.engine.columns.sweep import BLOCKS
from hpabatch.engine.simulate.loop import Ran
from hpabatch.engine.simulate.measures import (
    MINUTE_MS,
    Bounds,
    has_kind,
    keys_of,
    knows_demand,
    periods_of,
    sums_of,
    where_known,
)
from hpabatch.layout.records import F64, I64
from hpabatch.model.plant import DIVISIBLE

DAY_MS: Final = 86_400_000
WEEK_MS: Final = 7 * DAY_MS
UNITS: Final = {"week": WEEK_MS, "day": DAY_MS}

COLUMNS: Final = {
    name: meaning
    for name, meaning in BLOCKS.meanings.items()
    if name not in ("cluster", "namespace", "hpa", "setting_id", "block", "start", "cost")
    and not name.endswith("_recorded")
}
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
    cases = [case for _, case in ran.chosen]
    ends = []
    for case in cases:
        count = block_count(known.get(case.key[:3], case.steps * case.period_ms), unit_ms)
        ends.append(block_ends(case.steps, case.period_ms, unit_ms, count))
    frames = [
        _block(ran, number, [(k, e) for k, e in enumerate(ends) if len(e) > number], bounds)
        for number in range(max(map(len, ends)))
    ]
    return pl.concat(frames)


def _block(
    ran: Ran, number: int, chosen: Sequence[tuple[int, list[int]]], bounds: Bounds
) -> pl.DataFrame:
    """Return the rows of one block; of the cases that have it their position and blocks' ends."""
    rows = np.array([ran.chosen[k][0] for k, _ in chosen], np.int64)
    cases = [ran.chosen[k][1] for k, _ in chosen]
    spans = [(ends[number - 1] if number else 0, ends[number]) for _, ends in chosen]
    is_last = np.array([len(ends) == number + 1 for _, ends in chosen])
    final = ran.fleet.simulation.measures[rows]
    later = final if number >= len(ran.snapshots) else ran.snapshots[number][rows]
    before = None if number == 0 else ran.snapshots[number - 1][rows]

    peaks = np.where(
        is_last[:, None],
        ran.fleet.simulation.peaks[rows],
        0 if number >= len(ran.peaks) else ran.peaks[number][rows],
    )
    peaks = peaks if number == 0 else peaks - ran.peaks[number - 1][rows]

    def grown(name: str) -> Any:
        total = np.where(is_last, final[name], later[name])
        return total if before is None else total - before[name]

    step_minutes = periods_of(cases) / MINUTE_MS

    def minutes(count: I64) -> F64:
        return count * step_minutes

    known = np.array([knows_demand(case) for case in cases])
    divisible = [has_kind(case, DIVISIBLE) for case in cases]
    start = np.array([c.start_ms + c.period_ms * a for c, (a, _) in zip(cases, spans, strict=True)])
    perfect = [
        bounds.hours(case, *span) if is_known else np.nan
        for case, span, is_known in zip(cases, spans, known, strict=True)
    ]
    found = sums_of(cases, grown, minutes, peaks, np.array(perfect)) | {
        "under_minutes": where_known(minutes(grown("under_steps")), known),
        "over_minutes": where_known(minutes(grown("over_steps")), known),
        "unstable_minutes": where_known(minutes(grown("unstable_steps")), known),
        "outside_minutes": where_known(minutes(grown("outside_steps")), divisible),
    }
    return keys_of(cases).with_columns(
        pl.lit(number, pl.Int32).alias("block"),
        pl.Series("start", start.astype(np.int64)).cast(pl.Datetime("ms", "UTC")),
        *(found[name].alias(name) for name in COLUMNS),
    )
