"""Measures of a run, summed up step by step.

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
"""

from __future__ import annotations

import numpy as np

from hpabatch._jit import rule
from hpabatch.layout.codes import BOUND_BY_INVALID_METRIC
from hpabatch.layout.plant import Simulation
from hpabatch.layout.records import Records
from hpabatch.rules.numbers import div64


@rule
def sign(value: int) -> int:
    """Return -1, 0 or 1."""
    return 1 if value > 0 else (-1 if value < 0 else 0)


@rule
def add_decision(sim: Simulation, h: int, decision: Records, before: int, maximum: int) -> None:
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
def add_supply(m: Records, step: int, serving: int, demand: int, period_ms: int) -> None:
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
def end_watch(m: Records) -> None:
    """Add the overshoot of the episode that was watched; to be called at a run's end too."""
    if m.watching != 0:
        m.overshoot += max(0, m.watched_size - m.watched_demand)
        m.watching = 0


@rule
def add_episode(
    m: Records, step: int, serving: int, demand: int, direction: int, size: int, period_ms: int
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
def add_saturation(m: Records, saturated: bool, unserved_milli: int, period_ms: int) -> None:
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
def repeat_decision(sim: Simulation, h: int, decision: Records, maximum: int, ticks: int) -> None:
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
    if saturated != 0:
        m.saturated_steps += steps
        m.saturated_run += steps
        m.saturated_longest = max(m.saturated_longest, m.saturated_run)
    if unserved > 0:
        m.unserved_milli_s += steps * milli_seconds(unserved, period_ms)
    if state.demand > 0:
        repeat_supply(m, state.serving, state.demand, period_ms, steps)


@rule
def repeat_supply(m: Records, serving: int, demand: int, period_ms: int, steps: int) -> None:
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
