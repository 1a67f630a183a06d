"""One sync of one HPA: the order of all rules.

`decide_tick` is the one function that replay, simulation and the live loop call. It reads the fleet
at tick t, reads and writes the lane's memory and writes one row of results.
Source: horizontal.go, reconcileAutoscaler, normalizeDesiredReplicas(WithBehaviors) and the
functions they call.
"""

from __future__ import annotations

import numpy as np

from hpabatch._jit import rare, rule
from hpabatch.layout.codes import (
    AMBIGUOUS_SELECTOR,
    BOUND_BY_FORCED_MAX,
    BOUND_BY_FORCED_MIN,
    BOUND_BY_INVALID_METRIC,
    BOUND_BY_NO_SCALE,
    BOUND_BY_SCALE_READ,
    BOUND_BY_SCALE_WRITE,
    BOUND_BY_SELECTOR,
    BOUND_BY_ZERO,
    FAILED_GET_SCALE,
    FAILED_UPDATE_SCALE,
    INVALID_SELECTOR,
    IS_SCALED_TO_ZERO,
    METRIC_NOT_COMPUTED,
    NO_CONDITION,
    NOT_SCALED_TO_ZERO,
    REASON_ABOVE_MAX,
    REASON_BELOW_MIN,
    REASON_NONE,
    SCALE_OK,
    SCALE_UNKNOWN,
    SCALE_UPDATE_FAILED,
    SCALED_TO_ZERO,
    SCALING_DISABLED,
    SELECTOR_AMBIGUOUS,
    SELECTOR_GONE,
    SELECTOR_OK,
    SUCCEEDED_GET_SCALE,
    SUCCEEDED_RESCALE,
    VALID_METRIC_FOUND,
)
from hpabatch.layout.records import (
    HEAD_CONDITIONS,
    HEAD_SEEN,
    HEAD_STATUS_CURRENT,
    HEAD_STATUS_DESIRED,
    I64,
    Fleet,
    Memory,
    Recommendations,
    Record,
)
from hpabatch.layout.results import Decisions, Results
from hpabatch.layout.switches import (
    SCALE_TO_ZERO,
    ZERO_NEEDS_CONDITION,
)
from hpabatch.rules.behavior import forget_scale_events, store_scale_event
from hpabatch.rules.combine import combine_metrics, write_proposal
from hpabatch.rules.conditions import has_condition, remove_condition, set_condition
from hpabatch.rules.controller import Controller, controller_of, has_switch
from hpabatch.rules.normalize import Decision, decide_by_proposal
from hpabatch.rules.replicas import failed_metric
from hpabatch.rules.stabilize import (
    forget_recommendations,
    record_recommendation,
)


@rule
def restart_controller(memory: Memory, h: int) -> None:
    """Forget what a controller keeps in memory only; the HPA's status stays."""
    memory.head[h, HEAD_SEEN] = 0
    forget_recommendations(memory.head[h])
    forget_scale_events(memory.head[h])


@rare
def forget_status(head: I64) -> None:
    """Begin with no status: the HPA is another object, of the same name."""
    head[HEAD_STATUS_CURRENT] = head[HEAD_STATUS_DESIRED] = 0
    for k in range(HEAD_CONDITIONS, HEAD_CONDITIONS + 4):
        head[k] = NO_CONDITION


@rare
def begin_recommendations(head: I64, recs: Recommendations, current: int, now_ms: int) -> None:
    """Begin the recommendation list with the size that a fresh controller finds."""
    record_recommendation(head, recs, current, now_ms)
    head[HEAD_SEEN] = 1


@rule
def stand_still(current: int, desired: int, binding: int, invalid: int) -> Decision:
    """Return a decision that leaves the target alone and never reached the windows."""
    return Decision(desired, current, current, current, False, -1, invalid, binding, REASON_NONE)


@rare
def skip_metrics(fleet: Fleet, spec: Record, t: int, results: Results) -> None:
    """Mark every metric of this tick as not computed."""
    for m in range(spec.first_metric, spec.last_metric):
        row = t + fleet.streams[fleet.metrics[m].stream].answer_offset
        write_proposal(results.metrics, row, failed_metric(METRIC_NOT_COMPUTED))


@rule
def mark_unused_streams(fleet: Fleet, spec: Record, h: int, t: int, results: Results) -> None:
    """Mark the lane's streams as not computed where this tick's spec may lack some of them."""
    lane = fleet.lanes[np.uint64(h)]
    if lane.last_stream - lane.first_stream == spec.last_metric - spec.first_metric:
        return
    for g in range(lane.first_stream, lane.last_stream):
        row = t + fleet.streams[g].answer_offset
        write_proposal(results.metrics, row, failed_metric(METRIC_NOT_COMPUTED))


@rule
def decide_by_metrics(
    fleet: Fleet,
    controller: Controller,
    memory: Memory,
    spec: Record,
    h: int,
    t: int,
    from_zero: bool,
    results: Results,
) -> Decision:
    """Return the decision of the metrics path: selector, calculator, windows, policies, bounds."""
    tick, head = fleet.ticks[np.uint64(t)], memory.head[np.uint64(h)]
    current, selector = tick.replicas, tick.selector
    if selector != SELECTOR_OK:
        skip_metrics(fleet, spec, t, results)
        if selector == SELECTOR_AMBIGUOUS:
            set_condition(head, AMBIGUOUS_SELECTOR)
        elif selector != SELECTOR_GONE:
            set_condition(head, INVALID_SELECTOR)
        return stand_still(current, head[HEAD_STATUS_DESIRED], BOUND_BY_SELECTOR, 0)
    combined = combine_metrics(fleet, controller, spec, t, current, results)
    if not combined.usable:
        set_condition(head, combined.condition)
        kept = head[HEAD_STATUS_DESIRED]
        return stand_still(current, kept, BOUND_BY_INVALID_METRIC, combined.invalid)
    set_condition(head, VALID_METRIC_FOUND)
    return decide_by_proposal(fleet, controller, memory, spec, h, t, from_zero, combined)


@rule
def force(current: int, desired: int, binding: int, reason: int) -> Decision:
    """Return a move to a bound that the metrics have no say in."""
    return Decision(desired, current, current, desired, True, -1, 0, binding, reason)


@rule
def wakes(head: I64, controller: Controller, spec: Record) -> bool:
    """Say whether the metrics decide for a target at zero: it was this controller's doing.

    In old versions they do whenever the minimum is zero.
    """
    if not has_switch(controller, ZERO_NEEDS_CONDITION):
        return bool(spec.min_replicas == 0)
    ours = has_switch(controller, SCALE_TO_ZERO) and has_condition(head, IS_SCALED_TO_ZERO)
    return bool(ours and (spec.min_replicas != 0 or spec.has_object_or_external != 0))


@rule
def decide_size(
    fleet: Fleet,
    controller: Controller,
    memory: Memory,
    spec: Record,
    h: int,
    t: int,
    results: Results,
) -> Decision:
    """Return the decision once the scale is known: zero, above max, below min, or metrics."""
    current, head = fleet.ticks[np.uint64(t)].replicas, memory.head[np.uint64(h)]
    lowest, highest = spec.min_replicas, spec.max_replicas
    from_zero = current == 0
    # One call of the metrics path: a second one doubles the code, and the time to compile it.
    by_metrics = lowest <= current <= highest
    if from_zero:
        by_metrics = wakes(head, controller, spec)
    if by_metrics:
        return decide_by_metrics(fleet, controller, memory, spec, h, t, from_zero, results)
    skip_metrics(fleet, spec, t, results)
    if from_zero:
        set_condition(head, SCALING_DISABLED)
        if not sets_scaled_to_zero(controller):
            remove_condition(head, SCALED_TO_ZERO)
        return stand_still(current, 0, BOUND_BY_ZERO, 0)
    if current > highest:
        return force(current, highest, BOUND_BY_FORCED_MAX, REASON_ABOVE_MAX)
    return force(current, lowest, BOUND_BY_FORCED_MIN, REASON_BELOW_MIN)


@rule
def sets_scaled_to_zero(controller: Controller) -> bool:
    """Say whether the condition ScaledToZero is kept; without its gate it is removed."""
    known = has_switch(controller, ZERO_NEEDS_CONDITION)
    return known and has_switch(controller, SCALE_TO_ZERO)


@rule
def note_rescale(controller: Controller, head: I64, spec: Record, before: int, after: int) -> None:
    """Set the conditions that follow a successful write of the scale."""
    set_condition(head, SUCCEEDED_RESCALE)
    if not sets_scaled_to_zero(controller):
        remove_condition(head, SCALED_TO_ZERO)
        return
    to_zero = before > 0 and after == 0 and spec.min_replicas == 0
    ours = to_zero and spec.has_object_or_external != 0
    set_condition(head, IS_SCALED_TO_ZERO if ours else NOT_SCALED_TO_ZERO)


@rule
def unwritten(decision: Decision, desired: int) -> Decision:
    """Return a decision whose write failed: the status keeps its desired number."""
    return Decision(
        desired,
        decision.proposal,
        decision.stabilized,
        decision.limited,
        False,
        decision.metric,
        decision.invalid_metrics,
        BOUND_BY_SCALE_WRITE,
        decision.reason,
    )


@rule
def decide_with_scale(
    fleet: Fleet,
    memory: Memory,
    spec: Record,
    h: int,
    t: int,
    spend_decisions: bool,
    results: Results,
) -> Decision:
    """Return the decision of a tick whose scale was read, after writing the scale or failing to."""
    tick, head = fleet.ticks[np.uint64(t)], memory.head[np.uint64(h)]
    current, controller = tick.replicas, controller_of(fleet, h)
    set_condition(head, SUCCEEDED_GET_SCALE)
    if head[HEAD_SEEN] == 0:
        begin_recommendations(head, memory.recs, current, tick.now_ms)
    decision = decide_size(fleet, controller, memory, spec, h, t, results)
    if decision.rescaled and tick.scale != SCALE_OK:
        set_condition(head, FAILED_UPDATE_SCALE)
        decision = unwritten(decision, head[HEAD_STATUS_DESIRED])
    elif decision.rescaled:
        after = decision.desired
        note_rescale(controller, head, spec, current, after)
        if spend_decisions:
            store_scale_event(
                head, memory.events, spec, fleet.policies, current, after, tick.now_ms
            )
    head[HEAD_STATUS_CURRENT] = current
    head[HEAD_STATUS_DESIRED] = decision.desired
    return decision


@rule
def decide_without_scale(
    fleet: Fleet, head: I64, spec: Record, t: int, results: Results
) -> Decision:
    """Return the decision of a tick whose scale was not read: the status keeps its numbers."""
    skip_metrics(fleet, spec, t, results)
    current, desired = head[HEAD_STATUS_CURRENT], head[HEAD_STATUS_DESIRED]
    if fleet.ticks[np.uint64(t)].scale == SCALE_UNKNOWN:
        return stand_still(current, desired, BOUND_BY_NO_SCALE, 0)
    set_condition(head, FAILED_GET_SCALE)
    return stand_still(current, desired, BOUND_BY_SCALE_READ, 0)


@rule
def write_decision(out: Decisions, t: int, decision: Decision, head: I64) -> None:
    """Write one tick's DECISION record."""
    record = out[np.uint64(t)]
    record.desired = decision.desired
    record.current = head[HEAD_STATUS_CURRENT]
    record.proposal = decision.proposal
    record.stabilized = decision.stabilized
    record.limited = decision.limited
    record.rescaled = 1 if decision.rescaled else 0
    record.metric = decision.metric
    record.invalid_metrics = decision.invalid_metrics
    record.binding = decision.binding
    record.reason = decision.reason
    record.condition_0 = head[HEAD_CONDITIONS]
    record.condition_1 = head[HEAD_CONDITIONS + 1]
    record.condition_2 = head[HEAD_CONDITIONS + 2]
    record.condition_3 = head[HEAD_CONDITIONS + 3]


@rule
def decide_tick(
    fleet: Fleet, memory: Memory, h: int, t: int, spend_decisions: bool, results: Results
) -> None:
    """Decide lane h at tick t and write row t of the results.

    The caller has forgotten what a restarted controller forgets (`restart_controller`).
    `spend_decisions` True: the loop's own rescales spend the policies' budgets; False: the caller
    stores the changes that really happened.
    """
    # Positions are never negative; unsigned ones spare numba's wrap-around test, here and below.
    tick, head = fleet.ticks[np.uint64(t)], memory.head[np.uint64(h)]
    spec = fleet.specs[np.uint64(tick.spec)]
    mark_unused_streams(fleet, spec, h, t, results)
    if tick.scale != SCALE_OK and tick.scale != SCALE_UPDATE_FAILED:
        decision = decide_without_scale(fleet, head, spec, t, results)
    else:
        decision = decide_with_scale(fleet, memory, spec, h, t, spend_decisions, results)
    write_decision(results.decisions, t, decision, head)
