"""Normalization of the metrics' proposal: windows, policies, bounds, and the rule that bound it.

Source: horizontal.go, normalizeDesiredReplicas, normalizeDesiredReplicasWithBehaviors,
convertDesiredReplicasWithRules, calculateScaleUpLimit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hpabatch._jit import rule
from hpabatch.layout.codes import (
    BOUND_BY_DISABLED_DOWN,
    BOUND_BY_DISABLED_UP,
    BOUND_BY_LEGACY_LIMIT,
    BOUND_BY_MAX,
    BOUND_BY_METRIC,
    BOUND_BY_MIN,
    BOUND_BY_POD_GUARD,
    BOUND_BY_POLICY_DOWN,
    BOUND_BY_POLICY_UP,
    BOUND_BY_TOLERANCE,
    BOUND_BY_WINDOW_DOWN,
    BOUND_BY_WINDOW_UP,
    DESIRED_WITHIN_RANGE,
    READY_FOR_NEW_SCALE,
    REASON_ABOVE_TARGET,
    REASON_BELOW_MIN,
    REASON_BELOW_TARGET,
    REASON_NONE,
    SCALE_DOWN_STABILIZED,
    SCALE_UP_LIMIT,
    SCALE_UP_STABILIZED,
    SELECT_DISABLED,
    STEP_DIRECTION_GUARD,
    STEP_TOLERANCE,
    STEP_TOLERANCE_AFTER_SUBSTITUTION,
    TOO_FEW_REPLICAS,
    TOO_MANY_REPLICAS,
)
from hpabatch.layout.records import (
    Fleet,
    Memory,
    Record,
)
from hpabatch.layout.switches import (
    BOTH_EVENT_LISTS,
    WINDOWS_CLAMP_CURRENT,
)
from hpabatch.rules.behavior import limit_rate
from hpabatch.rules.combine import Combined
from hpabatch.rules.conditions import set_condition
from hpabatch.rules.controller import Controller, has_switch
from hpabatch.rules.numbers import float_to_int32
from hpabatch.rules.stabilize import (
    stabilize_legacy,
    stabilize_with_windows,
)


class Decision(NamedTuple):
    """What one tick came to; names and units as in `layout.records.DECISION`."""

    desired: int
    proposal: int
    stabilized: int
    limited: int
    rescaled: bool
    metric: int
    invalid_metrics: int
    binding: int
    reason: int


@rule
def limit_legacy(
    current: int, stabilized: int, min_replicas: int, max_replicas: int
) -> tuple[int, int]:
    """Return (size, ScalingLimited condition). From 1 replica the first step goes to at most 4."""
    limit = float_to_int32(max(2.0 * float(current), 4.0))
    highest, why = max_replicas, TOO_MANY_REPLICAS
    if max_replicas > limit:
        highest, why = limit, SCALE_UP_LIMIT
    if stabilized < min_replicas:
        return min_replicas, TOO_FEW_REPLICAS
    if stabilized > highest:
        return highest, why
    return stabilized, DESIRED_WITHIN_RANGE


@rule
def bound_before_windows(step: int) -> int:
    """Return the binding rule of a proposal that nothing changed afterwards."""
    if step == STEP_TOLERANCE or step == STEP_TOLERANCE_AFTER_SUBSTITUTION:
        return BOUND_BY_TOLERANCE
    if step == STEP_DIRECTION_GUARD:
        return BOUND_BY_POD_GUARD
    return BOUND_BY_METRIC


@rule
def bound_by_limit(spec: Record, current: int, stabilized: int, condition: int) -> int:
    """Return the binding rule behind a ScalingLimited condition that is True."""
    if condition == TOO_FEW_REPLICAS:
        return BOUND_BY_MIN
    if condition == TOO_MANY_REPLICAS:
        return BOUND_BY_MAX
    if spec.has_behavior == 0:
        return BOUND_BY_LEGACY_LIMIT
    if stabilized > current:
        return BOUND_BY_DISABLED_UP if spec.up_select == SELECT_DISABLED else BOUND_BY_POLICY_UP
    return BOUND_BY_DISABLED_DOWN if spec.down_select == SELECT_DISABLED else BOUND_BY_POLICY_DOWN


@rule
def window_condition(proposal: int, current: int) -> int:
    """Return the AbleToScale condition of a proposal that the two windows changed."""
    return SCALE_UP_STABILIZED if proposal >= current else SCALE_DOWN_STABILIZED


@rule
def normalize(
    fleet: Fleet,
    controller: Controller,
    memory: Memory,
    h: int,
    t: int,
    current: int,
    proposal: int,
) -> tuple[int, int, int, int]:
    """Return (stabilized, limited, AbleToScale condition, ScalingLimited condition)."""
    tick, head, recs = fleet.ticks[np.uint64(t)], memory.head[np.uint64(h)], memory.recs
    spec, now_ms = fleet.specs[np.uint64(tick.spec)], tick.now_ms
    able = READY_FOR_NEW_SCALE
    if spec.has_behavior != 0:
        stabilized = stabilize_with_windows(
            head,
            recs,
            current,
            proposal,
            now_ms,
            spec.up_window_ms,
            spec.down_window_ms,
            has_switch(controller, WINDOWS_CLAMP_CURRENT),
        )
        if stabilized != proposal:
            able = window_condition(proposal, current)
        limited, condition = limit_rate(
            head,
            memory.events,
            spec,
            fleet.policies,
            current,
            stabilized,
            now_ms,
            has_switch(controller, BOTH_EVENT_LISTS),
        )
        return stabilized, limited, able, condition
    window_ms = controller.downscale_stabilization_ms
    stabilized = stabilize_legacy(head, recs, proposal, now_ms, window_ms)
    if stabilized != proposal:
        able = SCALE_DOWN_STABILIZED
    limited, condition = limit_legacy(current, stabilized, spec.min_replicas, spec.max_replicas)
    return stabilized, limited, able, condition


@rule
def reason_for(proposal: int, current: int) -> int:
    """Return the reason that a rescale's event would give, from the raw proposal."""
    if proposal > current:
        return REASON_ABOVE_TARGET
    if proposal < current:
        return REASON_BELOW_TARGET
    return REASON_NONE


@rule
def decide_by_proposal(
    fleet: Fleet,
    controller: Controller,
    memory: Memory,
    spec: Record,
    h: int,
    t: int,
    from_zero: bool,
    combined: Combined,
) -> Decision:
    """Return the decision that windows, policies and bounds make of the metrics' answer."""
    current, head = fleet.ticks[np.uint64(t)].replicas, memory.head[np.uint64(h)]
    proposal = max(combined.replicas, 0)  # a negative proposal counts as none at all
    reason = reason_for(proposal, current)
    stabilized, desired, able, limit = normalize(fleet, controller, memory, h, t, current, proposal)
    set_condition(head, able)
    set_condition(head, limit)
    binding = bound_before_windows(combined.step)
    if limit != DESIRED_WITHIN_RANGE:
        binding = bound_by_limit(spec, current, stabilized, limit)
    elif stabilized != proposal:
        binding = BOUND_BY_WINDOW_UP if able == SCALE_UP_STABILIZED else BOUND_BY_WINDOW_DOWN
    if from_zero and desired < spec.min_replicas:
        # (with minReplicas 0 no proposal is below it)
        desired, binding = spec.min_replicas, BOUND_BY_MIN
        if reason == REASON_NONE:
            reason = REASON_BELOW_MIN
    return Decision(
        desired,
        proposal,
        stabilized,
        desired,
        desired != current,
        combined.metric,
        combined.invalid,
        binding,
        reason,
    )
