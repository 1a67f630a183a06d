"""The work of a step: shares of the serving pods, work that is cut off, work that stays queued.

docs/simulation.md, "Signals", is the specification. What a pod of a class uses beyond its base is
kept step by step in a ring, with its integral, so that a scrape's window costs the same whatever
its length.
"""

from __future__ import annotations

import numpy as np

from hpabatch._jit import rule
from hpabatch.kernels.cohorts import serves
from hpabatch.layout.plant import (
    SIGNAL_BACKLOG,
    SIGNAL_DIVISIBLE,
    SIGNAL_PER_POD,
    SIGNAL_TOTAL,
    Simulation,
)
from hpabatch.layout.records import Record
from hpabatch.rules.numbers import add64, div64, mul64

HOUR_S = 3600


@rule
def class_usage(sim: Simulation, h: int, signal: int, kind: int, offered: int, shares: int) -> int:
    """Return what a serving pod of a class would use beyond its base, were there no ceiling."""
    if sim.signals[signal].kind == SIGNAL_PER_POD:
        return offered
    if shares == 0:
        return 0
    return div64(div64(offered * 1000, shares) * sim.classes[kind].share, 1000)


@rule
def overflow_of(
    sim: Simulation, h: int, signal: int, offered: int, shares: int, now_ms: int
) -> int:
    """Return what the serving pods cannot do of a divisible signal's offered work."""
    if shares == 0:
        return offered
    lane, room, total = sim.lanes[h], sim.signals[signal].room_milli, 0
    for row in range(lane.first_cohort, lane.first_cohort + sim.states[h].cohorts):
        cohort = sim.cohorts[row]
        if serves(sim.workloads[lane.workload], cohort, now_ms):
            wish = class_usage(sim, h, signal, cohort.kind, offered, shares)
            total += cohort.weight * max(0, wish - room)
    return total


@rule
def enter_step(sim: Simulation, ring_row: int, t: int, period_ms: int, x: int, now_ms: int) -> None:
    """Write step t of a ring: the usage in it, and the integral until its beginning."""
    ring, mask = sim.rings[np.uint64(ring_row)], sim.ring_length - 1
    integral = 0
    if t > 0:
        last = sim.slots[np.uint64(ring.first_slot + ((t - 1) & mask))]
        # Of bytes it may wrap in a long run; differences over a window stay right.
        integral = add64(last.integral, mul64(last.x_milli, period_ms))
    slot = sim.slots[np.uint64(ring.first_slot + (t & mask))]
    slot.x_milli, slot.integral = x, integral
    if x != ring.x_milli:
        ring.x_milli, ring.since_ms = x, now_ms


@rule
def step_at(lane: Record, instant_ms: int) -> int:
    """Return the step k with now(k) < instant <= now(k + 1), negative before the start."""
    return int((instant_ms - 1 - lane.start_ms) // lane.period_ms)


@rule
def usage_at(sim: Simulation, lane: Record, ring_row: int, instant_ms: int) -> int:
    """Return a ring's value in the step that ends at or after an instant, but began before it."""
    ring, k = sim.rings[ring_row], step_at(lane, instant_ms)
    if ring.since_ms < instant_ms:
        return int(ring.x_milli)
    if k < 0:
        return int(ring.before_milli)
    return int(sim.slots[ring.first_slot + (k & (sim.ring_length - 1))].x_milli)


@rule
def integral_at(sim: Simulation, lane: Record, ring_row: int, instant_ms: int) -> int:
    """Return the integral of a ring's usage from the start until an instant (milli x ms)."""
    ring, k = sim.rings[ring_row], step_at(lane, instant_ms)
    if k < 0:
        return mul64(instant_ms - lane.start_ms, ring.before_milli)
    slot = sim.slots[ring.first_slot + (k & (sim.ring_length - 1))]
    began_ms = lane.start_ms + k * lane.period_ms
    return add64(slot.integral, mul64(slot.x_milli, instant_ms - began_ms))


@rule
def work_of(sim: Simulation, h: int, signal: int) -> int:
    """Return a signal's work in the lane's current piece."""
    at = sim.signals[np.uint64(signal)].first_work + sim.states[h].piece
    return int(sim.work_milli[np.uint64(at)])


@rule
def offered_work(sim: Simulation, h: int, flow_row: int, signal: int) -> int:
    """Return what the pods are asked to do in a step: of divisible work what waited too."""
    work = work_of(sim, h, signal)
    if sim.signals[signal].kind == SIGNAL_DIVISIBLE:
        work += sim.flows[flow_row].queue_milli
    return work


@rule
def move_piece(sim: Simulation, h: int, now_ms: int) -> bool:
    """Bring the lane to the piece of work at an instant; say whether it is another one."""
    state, workload = sim.states[h], sim.workloads[np.uint64(sim.lanes[h].workload)]
    if now_ms < state.piece_until_ms:
        return False
    piece = (now_ms - workload.work_start_ms) // workload.resolution_ms
    piece = min(max(piece, 0), workload.pieces - 1)
    state.piece = piece
    state.piece_until_ms = workload.work_start_ms + (piece + 1) * workload.resolution_ms
    return True


@rule
def share_work(
    sim: Simulation, h: int, flow_row: int, signal: int, t: int, now_ms: int, changed: bool
) -> None:
    """Let the serving pods share a step's work of a divisible or per-pod signal.

    `changed` False: the same pods serve as in the last step.
    """
    lane, state = sim.lanes[h], sim.states[h]
    flow, what = sim.flows[np.uint64(flow_row)], sim.signals[np.uint64(signal)]
    offered = offered_work(sim, h, flow_row, signal)
    if not changed and offered == flow.offered_milli:
        for r in range(flow.first_ring, flow.first_ring + flow.rings):
            enter_step(sim, r, t, lane.period_ms, sim.rings[np.uint64(r)].x_milli, now_ms)
        flow.queue_milli = flow.unserved_milli if what.queues != 0 else 0
        return
    workload = sim.workloads[np.uint64(lane.workload)]
    flow.offered_milli = offered
    cut = what.kind == SIGNAL_DIVISIBLE and state.shares == 0 and offered > 0
    for r in range(flow.first_ring, flow.first_ring + flow.rings):
        kind = workload.first_class + r - flow.first_ring
        wish = class_usage(sim, h, signal, kind, offered, state.shares)
        x = min(wish, what.room_milli)
        if wish > x and state.serving > 0:
            per_pod = what.kind == SIGNAL_PER_POD  # all classes alike
            cut = cut or per_pod or class_serves(sim, h, kind, now_ms)
        enter_step(sim, r, t, lane.period_ms, x, now_ms)
    flow.saturated = 1 if cut else 0
    flow.unserved_milli = 0
    if cut and what.kind == SIGNAL_DIVISIBLE:
        flow.unserved_milli = overflow_of(sim, h, signal, offered, state.shares, now_ms)
    flow.queue_milli = flow.unserved_milli if what.queues != 0 else 0


@rule
def class_serves(sim: Simulation, h: int, kind: int, now_ms: int) -> bool:
    """Say whether a pod of a class serves in a step."""
    lane = sim.lanes[h]
    for row in range(lane.first_cohort, lane.first_cohort + sim.states[h].cohorts):
        cohort = sim.cohorts[row]
        if cohort.kind == kind and serves(sim.workloads[lane.workload], cohort, now_ms):
            return True
    return False


@rule
def run_flow(
    sim: Simulation, h: int, flow_row: int, signal: int, t: int, now_ms: int, changed: bool
) -> None:
    """Run one signal through a step."""
    lane, flow, what = sim.lanes[h], sim.flows[np.uint64(flow_row)], sim.signals[np.uint64(signal)]
    if what.kind == SIGNAL_DIVISIBLE or what.kind == SIGNAL_PER_POD:
        share_work(sim, h, flow_row, signal, t, now_ms, changed)
    elif what.kind == SIGNAL_TOTAL:
        enter_step(sim, flow.first_ring, t, lane.period_ms, work_of(sim, h, signal), now_ms)
    elif what.kind == SIGNAL_BACKLOG:
        enter_step(sim, flow.first_ring, t, lane.period_ms, flow.queue_milli, now_ms)
        net = work_of(sim, h, signal) - sim.states[h].serving * what.rate_milli
        left = flow.queue_milli + div64(net * lane.period_ms, 1000)
        flow.queue_milli = max(0, left)
        flow.unserved_milli = flow.queue_milli


@rule
def before_start(sim: Simulation, h: int, flow_row: int, signal: int) -> None:
    """Set what a signal was before the run: the initial pods at the first step's work."""
    lane, flow, what = sim.lanes[h], sim.flows[flow_row], sim.signals[signal]
    offered = offered_work(sim, h, flow_row, signal)
    for r in range(flow.first_ring, flow.first_ring + flow.rings):
        if what.kind == SIGNAL_TOTAL:
            x = work_of(sim, h, signal)
        elif what.kind == SIGNAL_BACKLOG:
            x = flow.queue_milli
        else:
            kind = sim.workloads[lane.workload].first_class + r - flow.first_ring
            wish = class_usage(sim, h, signal, kind, offered, sim.states[h].shares)
            x = min(wish, what.room_milli)
        ring = sim.rings[r]
        ring.x_milli = ring.before_milli = x
        ring.since_ms = -(1 << 60)
