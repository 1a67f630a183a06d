"""The fewest pod-hours that a perfect forecast could have met a demand with."""

from __future__ import annotations

from hpabatch._jit import rule
from hpabatch.layout.records import I64


@rule
def perfect_pod_ms(demand: I64, period_ms: int, restart_ms: int, idle_from: I64) -> int:
    """Return the smallest pod-ms that never leaves a step with fewer pods than it asks for.

    `demand` (T,) pods per step. A pod that is not needed for a while is either kept, or given back
    and made anew, which costs `restart_ms` of its start and end; each of the pods, ordered by when
    they are needed, is decided alone, so the sum is the minimum. At the start as many as one
    likes are there.
    `idle_from` (max(demand),) is scratch: the step since which a pod is idle.
    """
    total, before = 0, demand[0] if demand.size > 0 else 0
    for k in range(idle_from.size):
        idle_from[k] = 0
    for t in range(demand.size):
        for k in range(demand[t], before):
            idle_from[k] = t
        for k in range(before, demand[t]):
            total += min(restart_ms, (t - idle_from[k]) * period_ms)
        before = demand[t]
        total += before * period_ms
    return int(total)
