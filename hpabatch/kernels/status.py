"""Statuses of a fleet: a second pass over decisions, run on request."""

from __future__ import annotations

import numpy as np

from hpabatch._jit import kernel, rule
from hpabatch.layout.records import I64, Fleet
from hpabatch.layout.results import STATUS_NEXT, Results, Statuses, StatusMemory
from hpabatch.rules.numbers import INT64_MAX
from hpabatch.rules.status import note_status


@rule
def status_lane(
    fleet: Fleet, results: Results, memory: StatusMemory, h: int, last: int, statuses: Statuses
) -> None:
    """Write the statuses of lane h from the first tick not yet noted until before `last`."""
    head = memory.head[np.uint64(h)]
    for t in range(head[STATUS_NEXT], last):
        note_status(fleet, results, memory, h, t, statuses)
    head[STATUS_NEXT] = max(head[STATUS_NEXT], last)


@kernel
def status_fleet(
    first: int,
    last: int,
    fleet: Fleet,
    results: Results,
    memory: StatusMemory,
    last_tick: I64,
    statuses: Statuses,
) -> None:
    """Write STATUS records (T,) of all lanes until before `last_tick` (H,), ticks over all lanes.

    The decisions of those ticks are in `results`, with details. Memory carries over between calls.
    """
    for lane in range(first, last):
        h = lane & INT64_MAX
        status_lane(fleet, results, memory, h, last_tick[h], statuses)
