"""From sample rows to steps: what became visible when, per track."""

from __future__ import annotations

from hpabatch._jit import rule
from hpabatch.arrays.layout import I8, I32, I64, Records
from hpabatch.arrays.observations import (
    NOT_FETCHED_MS,
    SOURCE_MEMORY,
    SOURCE_OTHER,
    SOURCE_PLAIN,
    Observations,
    Rows,
)
from hpabatch.rules.usage import add_container
from hpabatch.rules.visibility import add_step, fetched_at, seen_from


@rule
def keep_steps(old: Records, new: Records, track: Records, since_ms: int) -> int:
    """Copy the steps that can still be visible from the last load; return their end."""
    top = track.first_step
    for k in range(track.old_first, track.old_last):
        step = old[k]
        if step.ts_ms >= since_ms:
            top = add_step(
                new,
                track.first_step,
                top,
                step.seen_ms,
                step.ts_ms,
                step.window_ms,
                step.value_milli,
                step.present,
            )
    return int(top)


@rule
def add_plain_rows(rows: Rows, track: Records, steps: Records, top: int, delay_ms: int) -> int:
    """Add the samples of a custom, object or external metric; return the end of the steps."""
    for r in range(track.first_row, track.last_row):
        ts_ms = rows.plain_ts_ms[r]
        seen_ms = seen_from(ts_ms, fetched_at(rows.plain_fetched_ms, r), delay_ms)
        top = add_step(
            steps,
            track.first_step,
            top,
            seen_ms,
            ts_ms,
            rows.plain_window_ms[r],
            rows.plain_milli[r],
            1,
        )
    return top


@rule
def add_usage_rows(
    rows: Rows,
    track: Records,
    amount: I64,
    known: I8,
    containers: I32,
    steps: Records,
    top: int,
    delay_ms: int,
) -> int:
    """Add a pod's usage, its containers' rows of one time together; return the end of the steps."""
    r, last = track.first_row, track.last_row
    while r < last:
        ts_ms, window_ms = rows.usage_ts_ms[r], rows.usage_window_ms[r]
        fetched_ms, total, present, found = NOT_FETCHED_MS, 0, 1, 0
        while r < last and rows.usage_ts_ms[r] == ts_ms:
            fetched_ms = max(fetched_ms, fetched_at(rows.usage_fetched_ms, r))
            if track.container < 0 or containers[r] == track.container:
                found = 1
                is_known = known[r] if known.size > 0 else 1
                if track.source == SOURCE_OTHER:
                    is_known = 0
                present, total = add_container(present, total, is_known, amount[r] * track.factor)
            r += 1
        seen_ms = seen_from(ts_ms, fetched_ms, delay_ms)
        present *= found
        top = add_step(
            steps, track.first_step, top, seen_ms, ts_ms, window_ms, total * present, present
        )
    return top


@rule
def extend_track(observations: Observations, rows: Rows, k: int, since_ms: int) -> None:
    """Write the steps of track k: what is kept of the last load, and this load's rows."""
    track, steps = observations.tracks[k], observations.steps
    delay_ms = observations.parameters[0]
    top = keep_steps(observations.old_steps, steps, track, since_ms)
    if track.source == SOURCE_PLAIN:
        top = add_plain_rows(rows, track, steps, top, delay_ms)
    else:
        amount, known = rows.cpu_milli, rows.cpu_known
        if track.source == SOURCE_MEMORY:
            amount, known = rows.memory_bytes, rows.memory_known
        container = rows.usage_container
        top = add_usage_rows(rows, track, amount, known, container, steps, top, delay_ms)
    track.last_step = top
    observations.step_cursor[k] = track.first_step - 1
