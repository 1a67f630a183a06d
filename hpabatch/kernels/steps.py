"""Sample rows to steps: visible values per track and their times."""

from __future__ import annotations

from hpabatch._jit import entry, rule
from hpabatch.layout.observations import (
    LACKS_CONTAINER,
    NOT_FETCHED_MS,
    SOURCE_MEMORY,
    SOURCE_OTHER,
    SOURCE_PLAIN,
    WITHDRAWN,
    Observations,
    Rows,
    Steps,
)
from hpabatch.layout.records import I8, I32, I64, Record
from hpabatch.rules.numbers import add64


@rule
def add_container(present: int, total: int, is_known: int, value_milli: int) -> tuple[int, int]:
    """Return (present 0/1, usage in milli) of a pod with one more container sample.

    Start from (1, 0). A pod with a container that lacks the resource is dropped whole; so is one
    without containers, which the caller knows.
    """
    if present == 0 or is_known == 0:
        return 0, 0
    return 1, add64(total, value_milli)


@rule
def seen_from(ts_ms: int, fetched_ms: int, delay_ms: int) -> int:
    """Return the instant from which a sample is visible, ms; without a recorded fetch `delay_ms`
    after it was taken.
    """
    return ts_ms + delay_ms if fetched_ms == NOT_FETCHED_MS else fetched_ms


@rule
def fetched_at(fetched_ms: I64, row: int) -> int:
    """Return a row's recorded fetch; an empty column means that none is."""
    return fetched_ms[row] if fetched_ms.size > 0 else NOT_FETCHED_MS


@rule
def add_step(
    steps: Steps,
    first: int,
    top: int,
    seen_ms: int,
    ts_ms: int,
    window_ms: int,
    value_milli: int,
    present: int,
) -> int:
    """Put a sample, newer than those before it, behind the steps first:top; return the new top.

    A sample that arrives later than a newer one is never the newest that has arrived: it goes.
    """
    while top > first and steps[top - 1].seen_ms >= seen_ms:
        top -= 1
    step = steps[top]
    step.seen_ms = seen_ms
    step.ts_ms = ts_ms
    step.window_ms = window_ms
    step.value_milli = value_milli
    step.present = present
    return top + 1


@rule
def take_kept(kept: Steps, steps: Steps, track: Record) -> int:
    """Put a track's kept steps first; return their end."""
    top = track.first_step
    for k in range(track.old_first, track.old_last):
        steps[top] = kept[k]
        top += 1
    return int(top)


@rule
def first_kept(observations: Observations, k: int, since_ms: int) -> int:
    """Return the first step of track k that can be visible from `since_ms` plus max age on.

    That is one of a sample from `since_ms` on, and no newer one is visible by then.
    """
    track, from_ms = observations.tracks[k], since_ms + observations.parameters[1]
    step = track.last_step
    while step > track.first_step and observations.steps[step - 1].ts_ms >= since_ms:
        step -= 1
        if observations.steps[step].seen_ms <= from_ms:
            break
    return int(step)


@entry
def count_kept(observations: Observations, since_ms: int) -> int:
    """Return how many steps can still be visible from `since_ms` plus the maximum age on."""
    count = 0
    for k in range(observations.tracks.size):
        count += observations.tracks[k].last_step - first_kept(observations, k, since_ms)
    return count


@entry
def save_kept(observations: Observations, since_ms: int, kept: Steps) -> None:
    """Copy these steps to `kept` and note in the tracks where they are."""
    top = 0
    for k in range(observations.tracks.size):
        track = observations.tracks[k]
        step = first_kept(observations, k, since_ms)
        track.old_first = top
        while step < track.last_step:
            kept[top] = observations.steps[step]
            top += 1
            step += 1
        track.old_last = top


@rule
def add_plain_rows(rows: Rows, track: Record, steps: Steps, top: int, delay_ms: int) -> int:
    """Add the samples of a custom, object or external metric; return the end of the steps."""
    for r in range(track.first_row, track.last_row):
        ts_ms = rows.plain_ts_ms[r]
        seen_ms = seen_from(ts_ms, fetched_at(rows.plain_fetched_ms, r), delay_ms)
        window_ms, value, present = rows.plain_window_ms[r], rows.plain_milli[r], 1
        if rows.plain_known.size > 0 and rows.plain_known[r] == 0:
            value, present = 0, WITHDRAWN
        top = add_step(steps, track.first_step, top, seen_ms, ts_ms, window_ms, value, present)
    return top


@rule
def lists_nothing(rows: Rows, r: int) -> bool:
    """Say whether a container's row has neither resource; a column that was not read has all."""
    if rows.cpu_known.size == 0 or rows.memory_known.size == 0:
        return False
    return bool(rows.cpu_known[r] == 0 and rows.memory_known[r] == 0)


@rule
def add_usage_rows(
    rows: Rows,
    track: Record,
    amount: I64,
    known: I8,
    containers: I32,
    steps: Steps,
    top: int,
    delay_ms: int,
) -> int:
    """Add a pod's usage, its containers' rows of one time together; return the end of the steps."""
    r, last = track.first_row, track.last_row
    while r < last:
        ts_ms, window_ms = rows.usage_ts_ms[r], rows.usage_window_ms[r]
        fetched_ms, total, present, found, withdrawn = NOT_FETCHED_MS, 0, 1, 0, True
        while r < last and rows.usage_ts_ms[r] == ts_ms:
            fetched_ms = max(fetched_ms, fetched_at(rows.usage_fetched_ms, r))
            withdrawn = withdrawn and lists_nothing(rows, r)
            if track.container < 0 or containers[r] == track.container:
                found = 1
                if track.source == SOURCE_OTHER:
                    present = 0  # (and `amount` may be empty)
                else:
                    is_known, value = known[r] if known.size > 0 else 1, amount[r] * track.factor
                    present, total = add_container(present, total, is_known, value)
            r += 1
        seen_ms = seen_from(ts_ms, fetched_ms, delay_ms)
        value = total * present * found
        if withdrawn:
            present = WITHDRAWN
        elif found == 0:
            present = LACKS_CONTAINER
        top = add_step(steps, track.first_step, top, seen_ms, ts_ms, window_ms, value, present)
    return top


@rule
def extend_track(observations: Observations, rows: Rows, k: int) -> None:
    """Write the steps of track k: what is kept of the last load, and this load's rows."""
    track, steps = observations.tracks[k], observations.steps
    delay_ms = observations.parameters[0]
    top = take_kept(observations.old_steps, steps, track)
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
