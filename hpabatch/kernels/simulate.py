"""Simulation: the rules decide, the plant follows; lanes are HPAs under settings.

docs/simulation.md is the specification of a tick. State carries over between calls, so one call
over all steps gives what one call per step gives.
"""

from __future__ import annotations

import numpy as np

from hpabatch._jit import kernel, rare, rule
from hpabatch.kernels.cohorts import (
    SECOND_MS,
    draw,
    first_tick_from,
    pod_at_rank,
    serves,
    show_cohort,
    whole_seconds,
)
from hpabatch.kernels.measures import (
    add_decision,
    end_watch,
    measure_step,
    write_point,
)
from hpabatch.kernels.plant import before_start, move_piece, run_flow, work_of
from hpabatch.kernels.repeat import (
    decides_the_same_until,
    repeat_steps,
    repeat_ticks,
    steps_at_rest,
)
from hpabatch.kernels.scaling import (
    lose_pods,
    new_cohort,
    resize,
    roll_out,
    schedule_waiting,
)
from hpabatch.kernels.scrape import begin_scrapes, take_samples
from hpabatch.kernels.settle import settles_ms, tidy_cohorts
from hpabatch.kernels.trace import trace_tick
from hpabatch.layout.codes import SCALE_OK, SELECTOR_OK
from hpabatch.layout.plant import (
    EVENT_LOSE,
    EVENT_SCALE,
    LANE_OK,
    NEVER_MS,
    Simulation,
)
from hpabatch.layout.records import Fleet, Memory, Record
from hpabatch.layout.results import Results
from hpabatch.rules.numbers import INT64_MAX
from hpabatch.rules.tick import decide_tick

FAILURE_DRAWS = 2048  # where draws for failures begin


@rare
def add_initial_pods(sim: Simulation, fleet: Fleet, h: int) -> None:
    """Put the pods there that a run begins with."""
    lane, state = sim.lanes[h], sim.states[h]
    workload = sim.workloads[lane.workload]
    old_ms = lane.start_ms - workload.initial_age_ms
    for p in range(lane.initial):
        kind = workload.first_class + p % workload.classes
        row = lane.first_cohort + p % workload.classes
        if lane.grouped != 0 and p >= workload.classes:
            sim.cohorts[row].weight += 1
            fleet.row_weight[row] += 1
        else:
            row = new_cohort(sim, fleet, h, kind, 0, old_ms)
            if row < 0:
                return
            cohort = sim.cohorts[row]
            cohort.scheduled = 1
            cohort.started_ms = cohort.ready_ms = cohort.serve_ms = cohort.unready_ms = old_ms
        state.next_pod += 1


@rare
def begin_lane(sim: Simulation, fleet: Fleet, h: int) -> None:
    """Set a lane to the state of its first tick."""
    lane, state = sim.lanes[h], sim.states[h]
    state.now_ms, state.target = lane.start_ms, lane.initial
    state.piece_until_ms = -NEVER_MS
    add_initial_pods(sim, fleet, h)
    move_piece(sim, h, lane.start_ms)
    count_pods_at(sim, fleet, h, lane.start_ms)
    set_demand(sim, h)
    workload = sim.workloads[lane.workload]
    for number in range(workload.last_signal - workload.first_signal):
        before_start(sim, h, lane.first_flow + number, workload.first_signal + number)
    for p in range(workload.pipelines):
        begin_scrapes(sim, h, p)
    sim.measures[h].episode_start = -1


@rule
def set_demand(sim: Simulation, h: int) -> None:
    """Set how many pods the current work asks for, 0 where that is not known."""
    workload = sim.workloads[np.uint64(sim.lanes[h].workload)]
    if workload.primary < 0 or workload.capacity_milli <= 0:
        return
    work = work_of(sim, h, workload.primary)
    sim.states[h].demand = max(1, -(-work // workload.capacity_milli))


@rare
def happen(sim: Simulation, fleet: Fleet, h: int, now_ms: int) -> None:
    """Let the scenario's events before a tick happen."""
    lane, state = sim.lanes[h], sim.states[h]
    while lane.first_event + state.next_event < lane.last_event:
        event = sim.events[lane.first_event + state.next_event]
        if event.at_ms >= now_ms:
            return
        state.next_event += 1
        if event.kind == EVENT_SCALE:
            state.target = event.value
            resize(sim, fleet, h, event.at_ms)
        elif event.kind == EVENT_LOSE:
            lose_pods(sim, fleet, h, event.value, event.at_ms)
        else:  # EVENT_ROLLOUT
            state.revision += 1
            state.rollout = 1


@rule
def wake_ms(sim: Simulation, fleet: Fleet, h: int, cohort: Record, now_ms: int) -> int:
    """Return the next instant after now at which a cohort must be looked at."""
    lane = sim.lanes[h]
    wake = cohort.next_ms
    for instant_ms in (cohort.serve_ms, cohort.deletion_ms, cohort.gone_ms):
        if instant_ms > now_ms:
            wake = min(wake, instant_ms)
    if cohort.gone_ms <= now_ms:
        wake = min(wake, cohort.gone_ms + lane.period_ms)
    if cohort.scheduled == 0 or cohort.created_ms > now_ms:
        wake = min(wake, now_ms + 1)
    if lane.grouped != 0 and sim.states[h].cohorts > sim.workloads[lane.workload].classes:
        settled_ms = settles_ms(sim, fleet, h, cohort)
        wake = min(wake, settled_ms if settled_ms > now_ms else NEVER_MS)
    return int(wake)


@rule
def hide_row(fleet: Fleet, h: int, row: int) -> None:
    """Take a row's samples away: its pods are not there."""
    for g in range(fleet.lanes[h].first_stream, fleet.lanes[h].last_stream):
        fleet.present[row + fleet.streams[g].sample_offset] = 0


@rare
def count_pods_at(sim: Simulation, fleet: Fleet, h: int, now_ms: int) -> bool:
    """Show the cohorts at a tick and count them; say whether other pods serve than before."""
    lane, state = sim.lanes[h], sim.states[h]
    workload = sim.workloads[lane.workload]
    serving, shares, pods, status, wake = 0, 0, 0, 0, NEVER_MS
    calm_ms, begun_ms = -NEVER_MS, -NEVER_MS
    for row in range(lane.first_cohort, lane.first_cohort + state.cohorts):
        cohort = sim.cohorts[row]
        if cohort.next_ms <= now_ms:
            show_cohort(fleet, cohort, row, now_ms)
            if fleet.row_state[row] < 0:
                hide_row(fleet, h, row)
        there = cohort.created_ms <= now_ms and cohort.gone_ms > now_ms
        if there and cohort.scheduled != 0:
            pods += cohort.weight
        if there and cohort.deletion_ms > now_ms:
            status += cohort.weight
        if serves(workload, cohort, now_ms):
            serving += cohort.weight
            shares += cohort.weight * sim.classes[cohort.kind].share
        wake = min(wake, wake_ms(sim, fleet, h, cohort, now_ms))
        calm = cohort.serve_ms <= now_ms and cohort.deletion_ms == NEVER_MS
        calm_ms = max(calm_ms, cohort.serve_ms if calm else NEVER_MS)
        begun_ms = max(begun_ms, cohort.started_ms)
    changed = bool(serving != state.serving or shares != state.shares)
    state.serving, state.shares, state.pods, state.status_replicas = serving, shares, pods, status
    state.next_pod_ms, state.calm_ms, state.begun_ms = wake, calm_ms, begun_ms
    return changed


@rule
def move_pods(sim: Simulation, fleet: Fleet, h: int, now_ms: int) -> bool:
    """Bring a lane's pods to a tick; say whether other pods serve than in the last step."""
    state = sim.states[h]
    if state.rollout == 0 and now_ms < state.next_pod_ms:
        return False
    tidy_cohorts(sim, fleet, h, now_ms)
    schedule_waiting(sim, fleet, h, now_ms)
    if state.rollout != 0:
        roll_out(sim, fleet, h, now_ms)
    return count_pods_at(sim, fleet, h, now_ms)


@rule
def fill_sim_tick(sim: Simulation, fleet: Fleet, h: int, now_ms: int) -> None:
    """Write the TICK record of a lane's tick: the spec in force and the scale."""
    lane, state, tick = sim.lanes[h], sim.states[h], fleet.ticks[h]
    k = lane.first_period + state.period
    while k + 1 < lane.last_period and sim.periods[np.uint64(k + 1)].from_ms <= now_ms:
        k += 1
    state.period = k - lane.first_period
    tick.now_ms, tick.spec = now_ms, sim.periods[np.uint64(k)].spec
    tick.replicas, tick.status_replicas = state.target, state.status_replicas
    tick.scale, tick.selector, tick.restart = SCALE_OK, SELECTOR_OK, 0
    tick.first_row, tick.last_row = lane.first_cohort, lane.first_cohort + state.cohorts


@rare
def fail_pods(sim: Simulation, fleet: Fleet, h: int, now_ms: int) -> None:
    """Let pods fail whose serving time has come, at the end of a step."""
    lane, state = sim.lanes[h], sim.states[h]
    workload = sim.workloads[lane.workload]
    live = 0
    for row in range(lane.first_cohort, lane.first_cohort + state.cohorts):
        cohort = sim.cohorts[row]
        live += cohort.weight if cohort.deletion_ms == NEVER_MS and cohort.serve_ms <= now_ms else 0
    state.served_ms += live * lane.period_ms
    failed_ms = (now_ms + lane.period_ms) // SECOND_MS * SECOND_MS
    k = workload.first_failure + state.failures
    while live > 0 and k < workload.last_failure and sim.failure_ms[k] <= state.served_ms:
        rank = draw(sim, h, state.failures + FAILURE_DRAWS) % live
        # (in a lane whose pods can fail each has its own row, so there is always room)
        cohort = sim.cohorts[pod_at_rank(sim, fleet, h, rank, now_ms, now_ms)]
        cohort.unready_ms = failed_ms
        cohort.ready_ms = whole_seconds(failed_ms + workload.restart_ms)
        cohort.serve_ms = first_tick_from(lane, cohort.ready_ms)
        cohort.next_ms = 0
        state.next_pod_ms = state.sure_until_ms = 0
        state.failures += 1
        live -= 1
        k += 1


@rule
def decide_step(
    sim: Simulation, fleet: Fleet, memory: Memory, h: int, now_ms: int, results: Results
) -> None:
    """Let a tick see what the metrics APIs show, decide, and scale the target."""
    state = sim.states[h]
    take_samples(sim, fleet, h, now_ms)
    fill_sim_tick(sim, fleet, h, now_ms)
    before = state.target
    decide_tick(fleet, memory, h, h, True, results)
    decision = results.decisions[h]
    spec = fleet.specs[np.uint64(fleet.ticks[h].spec)]
    add_decision(sim, h, decision, before, spec.max_replicas)
    if decision.metric >= 0:
        driver = fleet.metrics[np.uint64(spec.first_metric + decision.metric)]
        sim.drivers[np.uint64(driver.stream)] += 1
    if decision.rescaled != 0:
        state.target = decision.desired
        resize(sim, fleet, h, now_ms)


@rule
def simulate_step(
    sim: Simulation, fleet: Fleet, memory: Memory, h: int, t: int, same: bool, results: Results
) -> None:
    """Run one tick of a lane and the step after it; `same`: what it decided has been repeated."""
    lane, state = sim.lanes[h], sim.states[h]
    now_ms, workload = state.now_ms, sim.workloads[np.uint64(lane.workload)]
    if lane.first_event + state.next_event < lane.last_event:
        happen(sim, fleet, h, now_ms)
    before, changed = state.target, False
    if not same:
        changed = move_pods(sim, fleet, h, now_ms)
        before = state.target
        decide_step(sim, fleet, memory, h, now_ms, results)
    if move_piece(sim, h, now_ms):
        set_demand(sim, h)
    for number in range(workload.last_signal - workload.first_signal):
        flow_row, signal = lane.first_flow + number, workload.first_signal + number
        run_flow(sim, h, flow_row, signal, t, now_ms, changed or t == 0)
    decision = results.decisions[h]
    measure_step(sim, h, t, now_ms, decision, before, changed)
    if sim.points.size > 0:
        write_point(sim, h, t, decision, before)
    if workload.first_failure < workload.last_failure:
        fail_pods(sim, fleet, h, now_ms)
    state.now_ms += lane.period_ms


@rule
def simulate_lane(
    sim: Simulation, fleet: Fleet, memory: Memory, h: int, until: int, results: Results
) -> None:
    """Run a lane's steps before `until`; a lane whose cohorts do not fit stands still."""
    state, last = sim.states[h], min(until, sim.lanes[h].steps)
    traced = sim.traces.size > 0  # then every tick is looked at, also one at rest
    if state.step == 0 and last > 0:
        begin_lane(sim, fleet, h)
    t = state.step
    while t < last and state.status == LANE_OK:
        decision = results.decisions[h]
        until_ms = decides_the_same_until(sim, fleet, memory, h, t, decision)
        same = state.now_ms < until_ms
        rest = steps_at_rest(sim, h, t, t + 1 if traced else last, until_ms) if same else 0
        if same:
            repeat_ticks(sim, fleet, memory, h, max(rest, 1), results)
        if rest > 0:
            repeat_steps(sim, h, t, rest)
        else:
            simulate_step(sim, fleet, memory, h, t, same, results)
        if traced:
            trace_tick(sim, fleet, h, t)
        t += max(rest, 1)
        state.step = t
    if t == sim.lanes[h].steps:
        end_watch(sim.measures[h])


@kernel
def simulate_fleet(
    first: int,
    last: int,
    sim: Simulation,
    fleet: Fleet,
    memory: Memory,
    until: int,
    results: Results,
) -> None:
    """Run every lane's steps before `until` (or its end).

    Of `fleet` a lane has one tick (row h), one row and pod state per cohort; `results` have one row
    per lane and one per stream. Writes `sim`'s states and results, and all of `fleet`'s rows, in
    place; raises nothing: a lane with status LANE_FULL must be run again with more cohorts.
    """
    for lane in range(first, last):
        # (never negative: so wherever h is an index, numba needs no wrap-around test)
        simulate_lane(sim, fleet, memory, lane & INT64_MAX, until, results)
