"""Steps that repeat the one before them: what they would have come to, without computing it.

A lane rests when its decision keeps the target where it is, every pod serves as before, the work is
the same, and every sample that is or becomes visible says the same. Then the next tick sees what
the last one saw, decides the same, and so on until something happens from outside: another piece of
work, a pod, an event, a gap. `repeat_steps` leaves exactly what so many steps would have left, but
that one recommendation lasts where each step would have made its own (see `last_recommendation`).
Of work in pieces of a minute and a sync of 15 s more than half of all steps are such.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hpabatch._jit import rare, rule
from hpabatch.arrays.layout import Fleet, Memory, Records, Results
from hpabatch.arrays.plant import (
    NEVER_MS,
    PIPELINES,
    SIGNAL_AGE,
    SIGNAL_BACKLOG,
    SIGNAL_TOTAL,
    Simulation,
)
from hpabatch.kernels.measures import repeat_measures
from hpabatch.kernels.plant import enter_step, offered_work, work_of
from hpabatch.rules.numbers import div64
from hpabatch.rules.stabilize import last_recommendation


@rule
def keeps_target(sim: Simulation, h: int, decision: Records) -> bool:
    """Say whether the same metrics would again leave the target where it is, whatever the windows.

    A proposal of the current size is what any window and policy leaves alone: no later tick's
    windows hold more than this one's, and what is added is the same size. One spec only: with
    another window a slot that is overwritten here might count again.
    """
    lane, target = sim.lanes[np.uint64(h)], sim.states[np.uint64(h)].target
    still = decision.rescaled == 0 and decision.metric >= 0 and decision.invalid_metrics == 0
    same = decision.proposal == target and decision.stabilized == target
    one_spec = lane.last_period - lane.first_period == 1
    return bool(still and same and target > 0 and one_spec)


@rule
def backlog_rests(sim: Simulation, h: int, flow: Records, signal: int) -> bool:
    """Say whether a queue stays as long as it is."""
    lane, state, queue = sim.lanes[np.uint64(h)], sim.states[np.uint64(h)], flow.queue_milli
    net = work_of(sim, h, signal) - state.serving * sim.signals[np.uint64(signal)].rate_milli
    left = max(0, queue + div64(net * lane.period_ms, 1000))
    return bool(left == queue and sim.rings[np.uint64(flow.first_ring)].x_milli == queue)


@rule
def work_rests(sim: Simulation, h: int) -> bool:
    """Say whether the next step's work is that of the last one, what waits included."""
    lane = sim.lanes[np.uint64(h)]
    workload = sim.workloads[np.uint64(lane.workload)]
    for number in range(workload.last_signal - workload.first_signal):
        flow_row, signal = lane.first_flow + number, workload.first_signal + number
        flow, kind = sim.flows[np.uint64(flow_row)], sim.signals[np.uint64(signal)].kind
        if kind == SIGNAL_BACKLOG:
            if not backlog_rests(sim, h, flow, signal):
                return False
        elif kind != SIGNAL_TOTAL and offered_work(sim, h, flow_row, signal) != flow.offered_milli:
            return False
    return True


@rule
def rests_since(sim: Simulation, h: int) -> int:
    """Return since when the pods do what they do, NEVER_MS if what they use grows by itself."""
    lane = sim.lanes[np.uint64(h)]
    workload, since_ms = sim.workloads[np.uint64(lane.workload)], -NEVER_MS
    for number in range(workload.last_signal - workload.first_signal):
        flow = sim.flows[np.uint64(lane.first_flow + number)]
        if sim.signals[np.uint64(workload.first_signal + number)].kind == SIGNAL_AGE:
            return NEVER_MS
        for r in range(flow.first_ring, flow.first_ring + flow.rings):
            since_ms = max(since_ms, sim.rings[np.uint64(r)].since_ms)
    return since_ms


@rule
def samples_rest_until(sim: Simulation, h: int, since_ms: int, until_ms: int) -> int:
    """Return until when (exclusive, at most `until_ms`) all samples say what they say now.

    A sample says what every later one will if its window lies wholly in the present state of work
    and pods; `since_ms` is when that state began.
    """
    state = sim.states[np.uint64(h)]
    first = sim.workloads[np.uint64(sim.lanes[np.uint64(h)].workload)].first_pipeline
    for p in range(PIPELINES):
        pipeline = sim.pipelines[np.uint64(first + p)]
        if pipeline.interval_ms == 0:
            continue
        scrape = sim.scrapes[np.uint64(h * PIPELINES + p)]
        from_ms = scrape.ts_ms - pipeline.window_ms
        in_state = since_ms <= from_ms if pipeline.window_ms > 0 else since_ms < from_ms
        begun = state.begun_ms + pipeline.first_sample_ms <= scrape.ts_ms
        fresh = pipeline.lag_ms + pipeline.interval_ms <= pipeline.max_age_ms
        if not in_state:  # nor before a scrape that is wholly in it can be seen
            state.busy_until_ms = since_ms + pipeline.window_ms + pipeline.lag_ms
        if scrape.has_sample == 0 or not in_state or not begun or not fresh:
            return -NEVER_MS
        gap = pipeline.first_gap + scrape.gap
        if gap < pipeline.last_gap:
            until_ms = min(until_ms, sim.gaps[gap].from_ms)
    return until_ms


@rule
def decides_the_same_until(sim: Simulation, h: int, t: int, decision: Records) -> int:
    """Return until when (exclusive) ticks decide what tick t - 1 did, whose decision is given.

    The pods are as `count_pods_at` found them; the work may change, which samples show later.
    """
    lane, state = sim.lanes[np.uint64(h)], sim.states[np.uint64(h)]
    if t == 0 or state.now_ms < state.busy_until_ms or not keeps_target(sim, h, decision):
        return -NEVER_MS
    if state.now_ms >= state.next_pod_ms:
        return -NEVER_MS
    if state.rollout != 0 or state.calm_ms == NEVER_MS:
        return -NEVER_MS
    since_ms = rests_since(sim, h)
    if since_ms == NEVER_MS:
        return -NEVER_MS
    until_ms = state.next_pod_ms
    if lane.first_event + state.next_event < lane.last_event:
        until_ms = min(until_ms, sim.events[lane.first_event + state.next_event].at_ms + 1)
    return samples_rest_until(sim, h, max(since_ms, state.calm_ms), until_ms)


@rule
def steps_at_rest(sim: Simulation, h: int, t: int, last: int, until_ms: int) -> int:
    """Return how many steps from t on (before `last`) repeat step t - 1, work and all.

    `until_ms` is from `decides_the_same_until`.
    """
    lane, state = sim.lanes[np.uint64(h)], sim.states[np.uint64(h)]
    until_ms = min(until_ms, state.piece_until_ms)
    if state.now_ms >= until_ms or not work_rests(sim, h):
        return 0
    return int(min(-(-(until_ms - state.now_ms) // lane.period_ms), last - t))


@rule
def repeat_flows(sim: Simulation, h: int, t: int, steps: int) -> None:
    """Enter the repeated steps into the rings: as many as a ring keeps."""
    lane = sim.lanes[np.uint64(h)]
    workload = sim.workloads[np.uint64(lane.workload)]
    for number in range(workload.last_signal - workload.first_signal):
        flow = sim.flows[np.uint64(lane.first_flow + number)]
        for r in range(flow.first_ring, flow.first_ring + flow.rings):
            for step in range(t, t + steps):
                enter_step(sim, r, step, lane.period_ms, sim.rings[np.uint64(r)].x_milli, 0)


@rule
def repeat_scrapes(sim: Simulation, fleet: Fleet, h: int, now_ms: int) -> None:
    """Take in what the repeated steps' last tick sees: the same values, from newer scrapes."""
    lane, streams = sim.lanes[np.uint64(h)], fleet.lanes[np.uint64(h)]
    workload = sim.workloads[np.uint64(lane.workload)]
    for p in range(PIPELINES):
        pipeline = sim.pipelines[np.uint64(workload.first_pipeline + p)]
        if pipeline.interval_ms == 0:
            continue
        scrape: Any = sim.scrapes[np.uint64(h * PIPELINES + p)]
        while scrape.next_ms + pipeline.lag_ms <= now_ms:
            scrape.ts_ms = scrape.next_ms
            scrape.next_ms += pipeline.interval_ms
    for g in range(streams.first_stream, streams.last_stream):
        signal = workload.first_signal + sim.stream_signal[np.uint64(g)]
        kind, p = sim.signals[np.uint64(signal)].kind, 0
        if kind == SIGNAL_TOTAL or kind == SIGNAL_BACKLOG:
            continue
        p = sim.signals[np.uint64(signal)].pipeline - workload.first_pipeline
        ts_ms, offset = sim.scrapes[np.uint64(h * PIPELINES + p)].ts_ms, 0
        offset = fleet.streams[np.uint64(g)].sample_offset
        for row in range(lane.first_cohort, lane.first_cohort + sim.states[np.uint64(h)].cohorts):
            fleet.timing[np.uint64(row + offset)].ts_ms = ts_ms


@rare
def repeat_points(sim: Simulation, h: int, t: int, steps: int) -> None:
    """Write the repeated steps to the lane's trajectory."""
    lane = sim.lanes[h]
    for k in range(lane.first_point + t, lane.first_point + t + steps):
        sim.points[k] = sim.points[k - 1]
        sim.points[k].now_ms += lane.period_ms


@rule
def repeat_ticks(
    sim: Simulation, fleet: Fleet, memory: Memory, h: int, ticks: int, results: Results
) -> None:
    """Let so many ticks from now on see and decide what the last one did."""
    lane, state, decision = sim.lanes[np.uint64(h)], sim.states[np.uint64(h)], results.decisions[h]
    last_ms = state.now_ms + (ticks - 1) * lane.period_ms
    repeat_scrapes(sim, fleet, h, last_ms)
    newest = last_recommendation(memory.head[np.uint64(h)], memory.recs)
    memory.recs[newest].ms = last_ms
    sim.bindings[np.uint64(h), np.uint64(decision.binding)] += ticks
    spec = fleet.specs[np.uint64(fleet.ticks[np.uint64(h)].spec)]
    driver = fleet.metrics[np.uint64(spec.first_metric + decision.metric)]
    sim.drivers[np.uint64(driver.stream)] += ticks
    fleet.ticks[np.uint64(h)].now_ms = last_ms


@rule
def repeat_steps(
    sim: Simulation, fleet: Fleet, memory: Memory, h: int, t: int, steps: int, results: Results
) -> None:
    """Let steps t to t + steps repeat step t - 1."""
    state = sim.states[np.uint64(h)]
    repeat_ticks(sim, fleet, memory, h, steps, results)
    repeat_flows(sim, h, t, steps)
    repeat_measures(sim, h, steps)
    if sim.points.size > 0:
        repeat_points(sim, h, t, steps)
    state.now_ms += steps * sim.lanes[np.uint64(h)].period_ms
    state.repeated += steps
