"""When a sample is visible: from its fetch, until a newer one is or it is too old.

Source of the rule: design of the recording; upstream's controller sees what the metrics API serves
at its sync, which is the newest sample that had arrived.
"""

from __future__ import annotations

from hpabatch._jit import rule
from hpabatch.layout.observations import NOT_FETCHED_MS
from hpabatch.layout.records import I64, Records


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
    steps: Records,
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
