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
from hpabatch.engine.simulate.case import SimulationCase
from hpabatch.engine.simulate.loop import Ran
from hpabatch.engine.simulate.measures import (
    HOUR_MS,
    MINUTE_MS,
    Bounds,
    above_columns,
    amounts,
    has_ceiling,
    has_kind,
    knows_demand,
    knows_waiting,
    waits,
    where_known,
)
from hpabatch.layout.records import I64
from hpabatch.model.plant import DIVISIBLE

DAY_MS: Final = 86_400_000
WEEK_MS: Final = 7 * DAY_MS
UNITS: Final = {"week": WEEK_MS, "day": DAY_MS}

COUNTS: Final = ("rescales", "rescales_up", "rescales_down", "reversals")
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

    period_ms = np.array([case.period_ms for case in cases], np.int64)
    start = np.array([c.start_ms + c.period_ms * a for c, (a, _) in zip(cases, spans, strict=True)])
    perfect = [
        bounds.hours(case, *span) if knows_demand(case) else np.nan
        for case, span in zip(cases, spans, strict=True)
    ]
    keys = pl.DataFrame(
        [case.key for case in cases],
        schema=["cluster", "namespace", "hpa", "setting"],
        orient="row",
    )
    return keys.with_columns(
        pl.lit(number, pl.Int32).alias("block"),
        pl.Series("start", start.astype(np.int64)).cast(pl.Datetime("ms", "UTC")),
        *_columns(grown, peaks, cases, period_ms, np.array(perfect)),
    )


def _columns(
    grown: Any, peaks: I64, cases: Sequence[SimulationCase], period_ms: Any, perfect: Any
) -> list[pl.Series]:
    """Return sums of a block: `grown` gives how far one has grown, `peaks` its steps by level."""
    known = np.array([knows_demand(case) for case in cases])
    divisible = np.array([has_kind(case, DIVISIBLE) for case in cases])
    known_ceiling = np.array([has_ceiling(case) for case in cases])
    queued = np.array([waits(case) for case in cases])
    cpu, memory = amounts(cases)
    minutes = period_ms / MINUTE_MS
    pod_hours, left = grown("pod_ms") / HOUR_MS, grown("unserved_milli_s") / 1000.0
    found = {
        "hours": pl.Series(grown("steps") * period_ms / HOUR_MS),
        "replica_hours": pl.Series(grown("replica_ms") / HOUR_MS),
        "pod_hours": pl.Series(pod_hours),
        "core_hours": where_known(pod_hours * np.nan_to_num(cpu), ~np.isnan(cpu)),
        "gib_hours": where_known(pod_hours * np.nan_to_num(memory), ~np.isnan(memory)),
        "saturated_minutes": where_known(grown("saturated_steps") * minutes, known_ceiling),
        **above_columns(peaks, period_ms, cases),
        "unserved": where_known(left, divisible & ~queued & known_ceiling),
        "waiting": where_known(left, [knows_waiting(case) for case in cases]),
        "short_pod_hours": where_known(grown("short_ms") / HOUR_MS, known),
        "perfect_pod_hours": where_known(perfect, known & ~np.isnan(perfect)),
        "under_minutes": where_known(grown("under_steps") * minutes, known),
        "over_minutes": where_known(grown("over_steps") * minutes, known),
        "unstable_minutes": where_known(grown("unstable_steps") * minutes, known),
        **{name: pl.Series(grown(name)) for name in COUNTS},
        "at_max_minutes": pl.Series(grown("at_max_steps") * minutes),
        "invalid_minutes": pl.Series(grown("invalid_steps") * minutes),
        "outside_minutes": where_known(grown("outside_steps") * minutes, divisible),
    }
    return [series.alias(name) for name, series in found.items()]
