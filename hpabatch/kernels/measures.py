"""Measures of a simulated run, summed up step by step; the least possible pod time.

With s the pods that serve in a step and d the number that the work of the step asks for
(d = max(1, ceil(work / capacity)), the same for every setting of a workload), after SPEC RG's
elasticity metrics (Herbst et al., "Quantifying Cloud Performance and Dependability", ACM ToMPECS
3(4), 2018; Bauer et al., "Chameleon", IEEE TPDS 30(4), 2019):

* under_ratio, over_ratio: sums of max(d - s, 0) / d and max(s - d, 0) / d; divided by the steps
  they are the provisioning accuracies theta_U and theta_O.
* under_steps, over_steps: steps with s < d, s > d; divided by the steps the timeshares tau_U and
  tau_O.
* unstable_steps: steps in which s and d do not change in the same direction (instability).
* supply_changes, demand_changes: steps in which s, d change; their difference by time is the
  jitter.

An *episode* is a run of steps with s < d. Its reaction is the time from its first step to the first
rescale up in it, its settling the time until s >= d. After it the overshoot is how far the target
stands above the episode's largest d, until the next rescale down or episode.
`replica_ms` counts the target's size, `pod_ms` the pods that are scheduled and there, `short_ms`
the pods that are missing, max(d - s, 0).

Where the ceiling of a pod is not known, steps are counted by the number of assumed ceilings
(`Simulation.levels_milli`) that the usage of the highest serving pod is above; a step with work and
no serving pod is above all of them.
"""

from __future__ import annotations

import numpy as np

from hpabatch._jit import entry, rule
from hpabatch.kernels.cohorts import serves
from hpabatch.kernels.plant import class_serves, work_of
from hpabatch.layout.codes import BOUND_BY_INVALID_METRIC
from hpabatch.layout.plant import LEVELS, SIGNAL_BACKLOG, SIGNAL_DIVISIBLE, Simulation
from hpabatch.layout.records import I64, Record
from hpabatch.rules.numbers import div64


@rule
def sign(value: int) -> int:
    """Return -1, 0 or 1."""
    return 1 if value > 0 else (-1 if value < 0 else 0)


@rule
def add_decision(sim: Simulation, h: int, decision: Record, before: int, maximum: int) -> None:
    """Count what a tick decided; `before` is the size that it saw, `maximum` maxReplicas."""
    m, bound = sim.measures[h], decision.binding
    sim.bindings[h, bound] += 1
    if decision.rescaled != 0:
        direction = 1 if decision.desired > before else -1
        m.rescales += 1
        if direction > 0:
            m.rescales_up += 1
        else:
            m.rescales_down += 1
        if m.last_direction != 0 and m.last_direction != direction:
            m.reversals += 1
        m.last_direction = direction
    if decision.proposal > maximum and decision.desired == maximum:
        m.at_max_steps += 1
    if decision.invalid_metrics > 0 or bound == BOUND_BY_INVALID_METRIC:
        m.invalid_steps += 1


@rule
def add_supply(m: Record, step: int, serving: int, demand: int, period_ms: int) -> None:
    """Count how the supply of a step meets its demand."""
    if serving < demand:
        m.under_steps += 1
        m.under_ratio += (demand - serving) / demand
        m.short_ms += (demand - serving) * period_ms
    elif serving > demand:
        m.over_steps += 1
        m.over_ratio += (serving - demand) / demand
    if step > 0:
        supplied, asked = serving - m.last_serving, demand - m.last_demand
        m.supply_changes += 1 if supplied != 0 else 0
        m.demand_changes += 1 if asked != 0 else 0
        m.unstable_steps += 1 if sign(supplied) != sign(asked) else 0
    m.last_serving, m.last_demand = serving, demand


@rule
def end_watch(m: Record) -> None:
    """Add the overshoot of the episode that was watched; to be called at a run's end too."""
    if m.watching != 0:
        m.overshoot += max(0, m.watched_size - m.watched_demand)
        m.watching = 0


@rule
def add_episode(
    m: Record, step: int, serving: int, demand: int, direction: int, size: int, period_ms: int
) -> None:
    """Follow the runs of too few pods; `direction` of the tick's rescale or 0, `size` after it."""
    if m.watching != 0 and direction < 0:
        end_watch(m)
    if m.episode_start < 0 and serving < demand:
        end_watch(m)
        m.episodes += 1
        m.episode_start, m.episode_reacted, m.episode_peak = step, 0, demand
    elif m.episode_start >= 0 and serving >= demand:
        m.episodes_ended += 1
        m.settling_ms += (step - m.episode_start) * period_ms
        m.episode_start = -1
        if direction >= 0:
            m.watching, m.watched_demand, m.watched_size = 1, m.episode_peak, size
    if m.episode_start >= 0:
        m.episode_peak = max(m.episode_peak, demand)
        if direction > 0 and m.episode_reacted == 0:
            m.episode_reacted = 1
            m.episodes_reacted += 1
            m.reaction_ms += (step - m.episode_start) * period_ms
    elif m.watching != 0:
        m.watched_size = max(m.watched_size, size)


@rule
def add_saturation(m: Record, saturated: bool, unserved_milli: int, period_ms: int) -> None:
    """Count a step's saturation and what it left undone."""
    if saturated:
        m.saturated_steps += 1
        m.saturated_run += 1
        m.saturated_longest = max(m.saturated_longest, m.saturated_run)
    else:
        m.saturated_run = 0
    if unserved_milli > 0:
        m.unserved_milli_s += milli_seconds(unserved_milli, period_ms)


@rule
def milli_seconds(milli: int, period_ms: int) -> int:
    """Return an amount times a step's length, in milli x s."""
    # (whole units and the rest apart: the product of both might not fit)
    whole = div64(milli, 1000)
    return int(whole * period_ms + div64((milli - whole * 1000) * period_ms, 1000))


@rule
def repeat_decision(sim: Simulation, h: int, decision: Record, maximum: int, ticks: int) -> None:
    """Count a decision that left the target alone, with all metrics valid, so many times more."""
    sim.bindings[np.uint64(h), np.uint64(decision.binding)] += ticks
    if decision.proposal > maximum and decision.desired == maximum:
        sim.measures[np.uint64(h)].at_max_steps += ticks


@rule
def repeat_measures(sim: Simulation, h: int, steps: int) -> None:
    """Add as many steps again as the last one was, in which nothing changed and nobody rescaled."""
    lane, state, m = sim.lanes[np.uint64(h)], sim.states[np.uint64(h)], sim.measures[np.uint64(h)]
    workload, period_ms = sim.workloads[np.uint64(lane.workload)], lane.period_ms
    m.steps += steps
    m.replica_ms += steps * state.target * period_ms
    m.pod_ms += steps * state.pods * period_ms
    saturated, unserved = 0, 0
    for number in range(workload.last_signal - workload.first_signal):
        saturated |= sim.flows[np.uint64(lane.first_flow + number)].saturated
    if workload.primary >= 0:
        row = lane.first_flow + workload.primary - workload.first_signal
        flow = sim.flows[np.uint64(row)]
        unserved = flow.unserved_milli
        m.outside_steps += steps * flow.outside
        sim.peaks[np.uint64(h), np.uint64(flow.above)] += steps
    if saturated != 0:
        m.saturated_steps += steps
        m.saturated_run += steps
        m.saturated_longest = max(m.saturated_longest, m.saturated_run)
    if unserved > 0:
        m.unserved_milli_s += steps * milli_seconds(unserved, period_ms)
    if state.demand > 0:
        repeat_supply(m, state.serving, state.demand, period_ms, steps)


@rule
def repeat_supply(m: Record, serving: int, demand: int, period_ms: int, steps: int) -> None:
    """Count how the supply of steps that are alike meets their demand."""
    if serving < demand:
        m.under_steps += steps
        m.short_ms += steps * (demand - serving) * period_ms
        for _ in range(steps):  # one by one: so the sum's last bits are the same
            m.under_ratio += (demand - serving) / demand
    elif serving > demand:
        m.over_steps += steps
        for _ in range(steps):
            m.over_ratio += (serving - demand) / demand


@rule
def outside_range(sim: Simulation, h: int, flow_row: int, now_ms: int) -> bool:
    """Say whether a serving pod uses more or less than was ever recorded."""
    lane = sim.lanes[h]
    workload, flow = sim.workloads[lane.workload], sim.flows[flow_row]
    if sim.signals[workload.primary].kind != SIGNAL_DIVISIBLE:
        return False
    base = sim.signals[workload.primary].base_milli
    for row in range(lane.first_cohort, lane.first_cohort + sim.states[h].cohorts):
        cohort = sim.cohorts[row]
        if serves(workload, cohort, now_ms):
            r = flow.first_ring + (cohort.kind - workload.first_class if flow.rings > 1 else 0)
            used = base + sim.rings[r].x_milli
            if used < workload.observed_low_milli or used > workload.observed_high_milli:
                return True
    return False


@rule
def levels_below(sim: Simulation, h: int, flow_row: int, now_ms: int) -> int:
    """Return how many of the workload's levels the highest serving pod's usage is above."""
    lane, flow = sim.lanes[h], sim.flows[flow_row]
    workload = sim.workloads[lane.workload]
    most = -(1 << 60)
    for r in range(flow.first_ring, flow.first_ring + flow.rings):
        kind = workload.first_class + r - flow.first_ring
        if flow.rings == 1 or class_serves(sim, h, kind, now_ms):
            most = max(most, sim.rings[r].x_milli)
    used, count = sim.signals[workload.primary].base_milli + most, 0
    while count < LEVELS and used > sim.levels_milli[lane.workload, count]:
        count += 1
    return count


@rule
def set_levels(sim: Simulation, h: int, flow_row: int, now_ms: int, moved: bool) -> None:
    """Note how many levels a step's highest pod is above; `moved`: pods or usage changed."""
    flow, primary = sim.flows[np.uint64(flow_row)], sim.workloads[sim.lanes[h].workload].primary
    if sim.signals[primary].kind != SIGNAL_DIVISIBLE:
        flow.above = 0
    elif sim.states[h].serving == 0:
        flow.above = LEVELS if flow.saturated != 0 else 0
    elif moved:
        flow.above = levels_below(sim, h, flow_row, now_ms)


@rule
def usage_changed(sim: Simulation, flow: Record, now_ms: int) -> bool:
    """Say whether a pod of some class uses more or less since this step."""
    for r in range(flow.first_ring, flow.first_ring + flow.rings):
        if sim.rings[np.uint64(r)].since_ms == now_ms:
            return True
    return False


@rule
def measure_step(
    sim: Simulation, h: int, t: int, now_ms: int, decision: Record, before: int, changed: bool
) -> None:
    """Add a tick and its step to the lane's measures."""
    lane, state, m = sim.lanes[h], sim.states[h], sim.measures[h]
    workload, period_ms = sim.workloads[np.uint64(lane.workload)], lane.period_ms
    m.steps += 1
    m.replica_ms += state.target * period_ms
    m.pod_ms += state.pods * period_ms
    saturated = 0
    for number in range(workload.last_signal - workload.first_signal):
        saturated |= sim.flows[np.uint64(lane.first_flow + number)].saturated
    if workload.primary < 0:
        add_saturation(m, saturated != 0, 0, period_ms)
        return
    flow_row = lane.first_flow + workload.primary - workload.first_signal
    flow = sim.flows[np.uint64(flow_row)]
    add_saturation(m, saturated != 0, flow.unserved_milli, period_ms)
    moved = changed or t == 0 or usage_changed(sim, flow, now_ms)
    if moved:
        flow.outside = 1 if outside_range(sim, h, flow_row, now_ms) else 0
    m.outside_steps += flow.outside
    set_levels(sim, h, flow_row, now_ms, moved)
    sim.peaks[np.uint64(h), np.uint64(flow.above)] += 1
    if state.demand > 0:
        direction = 0
        if decision.rescaled != 0:
            direction = 1 if decision.desired > before else -1
        add_supply(m, t, state.serving, state.demand, period_ms)
        add_episode(m, t, state.serving, state.demand, direction, state.target, period_ms)


@rule
def write_point(sim: Simulation, h: int, t: int, decision: Record, before: int) -> None:
    """Write a tick and its step to the lane's trajectory, where one is kept."""
    lane, state = sim.lanes[h], sim.states[h]
    workload = sim.workloads[lane.workload]
    point = sim.points[lane.first_point + t]
    point.now_ms, point.replicas, point.desired = state.now_ms, before, state.target
    point.proposal, point.stabilized = decision.proposal, decision.stabilized
    point.serving, point.pods, point.demand = state.serving, state.pods, state.demand
    point.binding, point.reason = decision.binding, decision.reason
    point.metric, point.invalid_metrics = decision.metric, decision.invalid_metrics
    point.saturated, point.usage_milli, point.work_milli, point.unserved_milli = 0, 0, 0, 0
    if workload.primary >= 0:
        flow = sim.flows[lane.first_flow + workload.primary - workload.first_signal]
        point.saturated = flow.saturated
        point.work_milli = work_of(sim, h, workload.primary)
        point.unserved_milli = flow.unserved_milli
        point.usage_milli = sim.rings[flow.first_ring].x_milli
        if sim.signals[workload.primary].kind != SIGNAL_BACKLOG:
            point.usage_milli += sim.signals[workload.primary].base_milli


@entry
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
