"""Steps that repeat the one before: their effect, without computing them.

A lane rests when its decision keeps the target where it is, every pod serves as before, the work is
the same, and every sample that is or becomes visible says the same. Then the next tick sees what
the last one saw, decides the same, and so on until something happens from outside: another piece of
work, a pod, an event, a gap. `repeat_steps` leaves exactly what so many steps would have left, but
that one recommendation lasts where each step would have made its own (see `last_recommendation`).
Of work and samples in minutes and a sync of 15 s three of four steps are such.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hpabatch._jit import rare, rule
from hpabatch.kernels.measures import repeat_decision, repeat_measures
from hpabatch.kernels.plant import enter_step, offered_work, work_of
from hpabatch.layout.plant import (
    NEVER_MS,
    SIGNAL_AGE,
    SIGNAL_BACKLOG,
    SIGNAL_TOTAL,
    Simulation,
)
from hpabatch.layout.records import Fleet, Memory, Record
from hpabatch.layout.results import Results
from hpabatch.rules.numbers import div64
from hpabatch.rules.stabilize import last_of_at_least, last_recommendation


@rule
def stays_at_bound(spec: Record, target: int, proposal: int) -> bool:
    """Say whether a proposal that the windows let through leaves the target where it is.

    It is the current size, or beyond the bound that the target stands at: there no policy's budget
    matters, as none moves a target past its bounds.
    """
    at_min = proposal < target and target == spec.min_replicas
    at_max = proposal > target and target == spec.max_replicas
    return bool(proposal == target or at_min or at_max)


@rule
def keeps_target_until(
    sim: Simulation, fleet: Fleet, memory: Memory, h: int, decision: Record
) -> int:
    """Return until when (exclusive) the same metrics would decide what they did last.

    What the windows let through is what all of them hold; as time passes they hold no more, and
    what is added is the same number. What a window holds back stays so until the last
    recommendation of the current size leaves it. One spec only: with another window a slot that
    is overwritten here might count again.
    """
    lane, target = sim.lanes[np.uint64(h)], sim.states[np.uint64(h)].target
    if decision.rescaled != 0 or decision.metric < 0 or decision.invalid_metrics != 0:
        return -NEVER_MS
    if target == 0 or lane.last_period - lane.first_period != 1:
        return -NEVER_MS
    spec = fleet.specs[np.uint64(fleet.ticks[np.uint64(h)].spec)]
    if decision.stabilized == decision.proposal:
        return NEVER_MS if stays_at_bound(spec, target, decision.proposal) else -NEVER_MS
    if decision.proposal > target or decision.stabilized != target:
        return -NEVER_MS
    held_ms = last_of_at_least(memory.head[np.uint64(h)], memory.recs, target)
    if spec.has_behavior != 0:
        return int(held_ms + spec.down_window_ms)
    return int(held_ms + fleet.lanes[np.uint64(h)].downscale_stabilization_ms + 1)


@rule
def backlog_rests(sim: Simulation, h: int, flow: Record, signal: int) -> bool:
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

    The next scrape says the same if this one's window lies wholly in the present state of the work,
    which began at `since_ms`; else samples rest until it can be seen. Of the present pods, either
    way. Until a further scrape can be seen this is so whatever becomes of the work: the state's
    `sure_until_ms`.
    """
    state, lane = sim.states[np.uint64(h)], sim.lanes[np.uint64(h)]
    workload = sim.workloads[np.uint64(lane.workload)]
    seen_ms = NEVER_MS
    for p in range(workload.pipelines):
        pipeline = sim.pipelines[np.uint64(workload.first_pipeline + p)]
        scrape = sim.scrapes[np.uint64(lane.first_scrape + p)]
        from_ms = scrape.ts_ms - pipeline.window_ms - (1 if pipeline.window_ms == 0 else 0)
        if state.calm_ms > from_ms:  # nor before a scrape after that can be seen
            state.busy_until_ms = state.calm_ms + pipeline.window_ms + pipeline.lag_ms
            return -NEVER_MS
        begun = state.begun_ms + pipeline.first_sample_ms <= scrape.ts_ms
        fresh = pipeline.lag_ms + pipeline.interval_ms <= pipeline.max_age_ms
        if scrape.has_sample == 0 or not begun or not fresh:
            return -NEVER_MS
        seen_ms = min(seen_ms, scrape.next_ms + pipeline.lag_ms)
        if since_ms > from_ms:
            until_ms = min(until_ms, scrape.next_ms + pipeline.lag_ms)
            if pipeline.interval_ms <= lane.period_ms:  # one at every tick
                state.busy_until_ms = since_ms + pipeline.window_ms + pipeline.lag_ms
        gap = pipeline.first_gap + scrape.gap
        if gap < pipeline.last_gap:
            until_ms = min(until_ms, sim.gaps[gap].from_ms)
    state.sure_until_ms = min(until_ms, seen_ms)
    return int(until_ms)


@rule
def decides_the_same_until(
    sim: Simulation, fleet: Fleet, memory: Memory, h: int, t: int, decision: Record
) -> int:
    """Return until when (exclusive) ticks decide what tick t - 1 did, whose decision is given.

    The pods are as `count_pods_at` found them; the work may change, which samples show later.
    """
    lane, state = sim.lanes[np.uint64(h)], sim.states[np.uint64(h)]
    if state.now_ms < state.sure_until_ms:
        return int(state.sure_until_ms)
    if t == 0 or state.now_ms < state.busy_until_ms or state.now_ms >= state.next_pod_ms:
        return -NEVER_MS
    if state.rollout != 0 or state.calm_ms == NEVER_MS:
        return -NEVER_MS
    until_ms = keeps_target_until(sim, fleet, memory, h, decision)
    if state.now_ms >= until_ms:
        return -NEVER_MS
    since_ms = rests_since(sim, h)
    if since_ms == NEVER_MS:
        return -NEVER_MS
    until_ms = min(until_ms, state.next_pod_ms)
    if lane.first_event + state.next_event < lane.last_event:
        until_ms = min(until_ms, sim.events[lane.first_event + state.next_event].at_ms + 1)
    return samples_rest_until(sim, h, since_ms, until_ms)


@rule
def steps_until_failure(sim: Simulation, h: int, steps: int) -> int:
    """Return how many of some steps end before the next pod fails; all pods serve."""
    lane, state = sim.lanes[np.uint64(h)], sim.states[np.uint64(h)]
    workload = sim.workloads[np.uint64(lane.workload)]
    k = workload.first_failure + state.failures
    if k >= workload.last_failure:
        return steps
    left_ms, step_ms = sim.failure_ms[k] - state.served_ms, state.serving * lane.period_ms
    if left_ms <= 0 or step_ms * steps < left_ms:
        return 0 if left_ms <= 0 else steps
    return int((left_ms - 1) // step_ms)


@rule
def steps_at_rest(sim: Simulation, h: int, t: int, last: int, until_ms: int) -> int:
    """Return how many steps from t on (before `last`) repeat step t - 1, work and all.

    `until_ms` is from `decides_the_same_until`.
    """
    lane, state = sim.lanes[np.uint64(h)], sim.states[np.uint64(h)]
    until_ms = min(until_ms, state.piece_until_ms)
    if state.now_ms >= until_ms or not work_rests(sim, h):
        return 0
    steps = min(-(-(until_ms - state.now_ms) // lane.period_ms), last - t)
    return steps_until_failure(sim, h, steps)


@rule
def repeat_flows(sim: Simulation, h: int, t: int, steps: int) -> None:
    """Enter the repeated steps into the rings."""
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
    if now_ms < sim.states[np.uint64(h)].sure_until_ms:
        return
    workload = sim.workloads[np.uint64(lane.workload)]
    for p in range(workload.pipelines):
        pipeline = sim.pipelines[np.uint64(workload.first_pipeline + p)]
        scrape: Any = sim.scrapes[np.uint64(lane.first_scrape + p)]
        while scrape.next_ms + pipeline.lag_ms <= now_ms:
            scrape.ts_ms = scrape.next_ms
            scrape.next_ms += pipeline.interval_ms
    for g in range(streams.first_stream, streams.last_stream):
        signal = workload.first_signal + sim.stream_signal[np.uint64(g)]
        kind, number = sim.signals[np.uint64(signal)].kind, 0
        if kind == SIGNAL_TOTAL or kind == SIGNAL_BACKLOG:
            continue
        number = sim.signals[np.uint64(signal)].pipeline
        ts_ms = sim.scrapes[np.uint64(lane.first_scrape + number - workload.first_pipeline)].ts_ms
        ts_ms += sim.pipelines[np.uint64(number)].later_ms
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
    spec = fleet.specs[np.uint64(fleet.ticks[np.uint64(h)].spec)]
    repeat_decision(sim, h, decision, spec.max_replicas, ticks)
    driver = fleet.metrics[np.uint64(spec.first_metric + decision.metric)]
    sim.drivers[np.uint64(driver.stream)] += ticks
    fleet.ticks[np.uint64(h)].now_ms = last_ms


@rule
def serves_ms(sim: Simulation, h: int, length_ms: int) -> int:
    """Return the serving time of all pods in a while, where pods can fail; else 0."""
    workload = sim.workloads[np.uint64(sim.lanes[np.uint64(h)].workload)]
    fails = workload.first_failure < workload.last_failure
    return int(sim.states[np.uint64(h)].serving * length_ms if fails else 0)


@rule
def repeat_steps(sim: Simulation, h: int, t: int, steps: int) -> None:
    """Let steps t to t + steps repeat step t - 1; their ticks have been repeated."""
    state, period_ms = sim.states[np.uint64(h)], sim.lanes[np.uint64(h)].period_ms
    repeat_flows(sim, h, t, steps)
    repeat_measures(sim, h, steps)
    if sim.points.size > 0:
        repeat_points(sim, h, t, steps)
    state.now_ms += steps * period_ms
    state.served_ms += serves_ms(sim, h, steps * period_ms)
    state.repeated += steps
