"""Totals of each HPA over its decided ticks, in one walk.

A size counts where it is `known`: the scale could be read. The wish is the size that the
decision leaves the target at, `applied` the recorded size after the tick. Of the ticks with a known
size: those the rules `decided`, and those of them whose wish `differs` from what was applied;
`asked_in` and `asked_out`, where the metrics asked for fewer or more; `recorded_changes` of size,
and `reversals`, those against the direction of the change before. Of all ticks: `invalid` ones have
a failed metric, `ambiguous` ones an ambiguous selector, `above_target` ones a ratio above 1 within
the tolerance; `policy_up_later` ones are limited by a scale-up policy more than START_MS after the
HPA's first tick, or its last one at 0.

`asked_*` are proposals: at the minimum or maximum, while scaling down or up is disabled, of all
ticks in which the metrics were asked.
"""

from __future__ import annotations

import numpy as np

from hpabatch._jit import kernel, rule
from hpabatch.layout.codes import (
    AMBIGUOUS_SELECTOR,
    BOUND_BY_DISABLED_DOWN,
    BOUND_BY_DISABLED_UP,
    BOUND_BY_FORCED_MAX,
    BOUND_BY_FORCED_MIN,
    BOUND_BY_LEGACY_LIMIT,
    BOUND_BY_MAX,
    BOUND_BY_MIN,
    BOUND_BY_POLICY_UP,
    BOUND_BY_SELECTOR,
    BOUND_BY_TOLERANCE,
    METRIC_NOT_COMPUTED,
    METRIC_OK,
    SCALE_OK,
    SCALE_UPDATE_FAILED,
    UNASKED,
    UNDECIDED,
)
from hpabatch.layout.records import I64, Fleet, Record
from hpabatch.layout.results import LEAST_OF_NONE, MOST_OF_NONE, Results, Sums
from hpabatch.rules.numbers import INT64_MAX

START_MS = 300_000
"""Time in which the burst of a start may drive a decision: upstream's cpu initialization period."""


@rule
def begin_totals(total: Record) -> None:
    """Set the extremes to those of no tick; the counts are 0."""
    total.first_mismatch_ms = total.step_ms = LEAST_OF_NONE
    total.asked_min = total.asked_min_disabled = LEAST_OF_NONE
    total.asked_max = total.asked_max_disabled = MOST_OF_NONE
    total.asked_at_min = total.asked_at_max = MOST_OF_NONE
    total.bound_min = total.bound_max = MOST_OF_NONE
    total.ratio_max = -np.inf


@rule
def add_size(total: Record, decision: Record, applied: int, now_ms: int, direction: int) -> int:
    """Count a tick whose size is known; return the direction of the last change of size.

    `direction` is that of the change before, 0 without one.
    """
    bound, current, proposal = decision.binding, decision.current, decision.proposal
    wish = decision.desired if decision.rescaled != 0 else current
    total.known += 1
    total.applied_sum += applied
    total.decided_sum += wish
    if bound not in UNDECIDED:
        total.decided += 1
        if applied != wish:
            total.differs += 1
            total.first_mismatch_ms = min(total.first_mismatch_ms, now_ms)
    if bound not in UNASKED:
        total.asked_in += 1 if proposal < current else 0
        total.asked_out += 1 if proposal > current else 0
        total.asked_min = min(total.asked_min, proposal)
        total.asked_max = max(total.asked_max, proposal)
    if bound == BOUND_BY_MIN or bound == BOUND_BY_FORCED_MIN:
        total.asked_at_min = max(total.asked_at_min, proposal)
    elif bound == BOUND_BY_MAX or bound == BOUND_BY_FORCED_MAX:
        total.asked_at_max = max(total.asked_at_max, proposal)
    elif bound == BOUND_BY_DISABLED_DOWN:
        total.asked_min_disabled = min(total.asked_min_disabled, proposal)
    elif bound == BOUND_BY_DISABLED_UP:
        total.asked_max_disabled = max(total.asked_max_disabled, proposal)
    if applied == current:
        return direction
    changed = 1 if applied > current else -1
    total.recorded_changes += 1
    total.reversals += 1 if changed == -direction else 0
    return changed


@rule
def add_bound(total: Record, decision: Record, spec: Record, since_ms: int) -> None:
    """Count what bound a tick, `since_ms` after its HPA began to run."""
    bound = decision.binding
    if bound == BOUND_BY_MIN or bound == BOUND_BY_FORCED_MIN:
        total.bound_min = max(total.bound_min, spec.min_replicas)
    elif bound == BOUND_BY_MAX or bound == BOUND_BY_FORCED_MAX:
        total.bound_max = max(total.bound_max, spec.max_replicas)
    elif bound == BOUND_BY_POLICY_UP or bound == BOUND_BY_LEGACY_LIMIT:
        total.policy_up_later += 1 if since_ms > START_MS else 0
    elif bound == BOUND_BY_SELECTOR and (
        decision.condition_0 == AMBIGUOUS_SELECTOR
        or decision.condition_1 == AMBIGUOUS_SELECTOR
        or decision.condition_2 == AMBIGUOUS_SELECTOR
        or decision.condition_3 == AMBIGUOUS_SELECTOR
    ):
        total.ambiguous += 1


@rule
def add_metrics(fleet: Fleet, results: Results, sums: Sums, h: int, t: int, spec: Record) -> None:
    """Count the metric that drove tick t of lane h, and the first that failed."""
    decision, total = results.decisions[np.uint64(t)], sums.totals[h]
    if decision.metric >= 0:
        m = spec.first_metric + decision.metric
        sums.driven[m] += 1
        ratio = results.metrics[t + fleet.streams[fleet.metrics[m].stream].answer_offset].ratio
        if -np.inf < ratio < np.inf:  # (not NaN)
            total.ratio_max = max(total.ratio_max, ratio)
        if decision.binding == BOUND_BY_TOLERANCE and ratio > 1:
            total.above_target += 1
    if decision.invalid_metrics > 0:
        total.invalid += 1
        for m in range(spec.first_metric, spec.last_metric):
            code = results.metrics[t + fleet.streams[fleet.metrics[m].stream].answer_offset].code
            if code != METRIC_OK and code != METRIC_NOT_COMPUTED:
                sums.errors[h, code] += 1
                break


@rule
def sum_up_lane(fleet: Fleet, results: Results, applied: I64, h: int, sums: Sums) -> None:
    """Sum up the ticks of lane h, `first_tick:last_tick`."""
    lane, total = fleet.lanes[h], sums.totals[h]
    begin_totals(total)
    begun_ms, before_ms, direction, anew = 0, 0, 0, True
    for t in range(lane.first_tick, lane.last_tick):
        tick, decision = fleet.ticks[np.uint64(t)], results.decisions[np.uint64(t)]
        spec = fleet.specs[np.uint64(tick.spec)]
        if t > lane.first_tick:
            total.step_ms = min(total.step_ms, tick.now_ms - before_ms)
        before_ms = tick.now_ms
        begun_ms = tick.now_ms if anew else begun_ms
        is_known = tick.scale == SCALE_OK or tick.scale == SCALE_UPDATE_FAILED
        sums.bindings[h, decision.binding] += 1
        total.rescales += 1 if decision.rescaled != 0 else 0
        if is_known:
            direction = add_size(total, decision, applied[np.uint64(t)], tick.now_ms, direction)
        add_bound(total, decision, spec, tick.now_ms - begun_ms)
        add_metrics(fleet, results, sums, h, t, spec)
        anew = is_known and decision.current == 0


@kernel
def sum_up_fleet(
    first: int, last: int, fleet: Fleet, results: Results, applied: I64, sums: Sums
) -> None:
    """Sum up the decided ticks of every lane.

    `applied` (T,) is the recorded size after each tick; `sums` are all 0 before.
    """
    for lane in range(first, last):
        sum_up_lane(fleet, results, applied, lane & INT64_MAX, sums)
