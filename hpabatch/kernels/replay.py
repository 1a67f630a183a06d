"""Replay: the decision of every lane at every tick, from recorded observations.

`replay_lane` is one HPA over its ticks, `replay_fleet` all HPAs in parallel, `replay_newest` their
last ticks only. Memory carries over between calls, so one call over all ticks gives what one call
per tick gives.
"""

from __future__ import annotations

import numpy as np

from hpabatch._jit import kernel, rule
from hpabatch.layout.records import HEAD_NEXT_CHANGE, Fleet, Memory
from hpabatch.layout.results import Results
from hpabatch.rules.behavior import store_scale_event
from hpabatch.rules.numbers import INT64_MAX
from hpabatch.rules.tick import decide_tick, forget_status, restart_controller


@rule
def spend_recorded_changes(fleet: Fleet, memory: Memory, h: int, t: int) -> None:
    """Store the lane's recorded size changes that happened before tick t."""
    lane, head, now_ms = fleet.lanes[h], memory.head[h], fleet.ticks[t].now_ms
    # The behavior at the time of the change says how long an event counts.
    spec = fleet.specs[fleet.ticks[max(t - 1, lane.first_tick)].spec]
    # A controller that started since the last tick knows nothing of what was before its start.
    since_ms = fleet.ticks[t].restart
    k = lane.first_change + head[HEAD_NEXT_CHANGE]
    while k < lane.last_change and fleet.changes[k].ts_ms < now_ms:
        change = fleet.changes[k]
        if since_ms == 0 or change.ts_ms >= since_ms:
            store_scale_event(
                head, memory.events, spec, fleet.policies, change.before, change.after, change.ts_ms
            )
        k += 1
    head[HEAD_NEXT_CHANGE] = k - lane.first_change


@rule
def replay_lane(
    fleet: Fleet, memory: Memory, h: int, first: int, last: int, recorded: bool, results: Results
) -> None:
    """Decide ticks `first:last` of lane h (numbers over all lanes), writing those rows."""
    for t in range(first, last):
        if fleet.ticks[np.uint64(t)].restart != 0:
            restart_controller(memory, h)
        if fleet.ticks[np.uint64(t)].recreated != 0:
            forget_status(memory.head[h])
        if recorded:
            spend_recorded_changes(fleet, memory, h, t)
        decide_tick(fleet, memory, h, t, not recorded, results)


@kernel
def replay_fleet(
    first: int, last: int, fleet: Fleet, memory: Memory, recorded: bool, results: Results
) -> None:
    """Decide every tick of every lane.

    `recorded`: policies' budgets are spent by `fleet.changes` instead of the decisions made.
    Writes `results` (all rows) and `memory` in place; raises nothing.
    """
    for lane in range(first, last):
        # The mask says that the index is not negative, which spares numba's wrap-around test
        # wherever h is an index.
        h = lane & INT64_MAX
        ticks = fleet.lanes[h]
        replay_lane(fleet, memory, h, ticks.first_tick, ticks.last_tick, recorded, results)


@kernel
def replay_newest(
    first: int, last: int, fleet: Fleet, memory: Memory, recorded: bool, results: Results
) -> None:
    """Decide the last tick of every lane, whose earlier ticks were decided by calls before.

    As `replay_fleet` otherwise. Of the tick before only the spec is looked at.
    """
    for lane in range(first, last):
        h = lane & INT64_MAX
        end = fleet.lanes[h].last_tick
        replay_lane(fleet, memory, h, end - 1, end, recorded, results)
