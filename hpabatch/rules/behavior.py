"""Policies and scale events: rolling budgets relative to the size at the start of each period.

Source: horizontal.go, calculateScaleUpLimitWithScalingRules,
calculateScaleDownLimitWithBehaviors, getReplicasChangePerPeriod, storeScaleEvent,
convertDesiredReplicasWithBehaviorRate. Events are upstream's slot lists: (change, time, outdated).
"""

from __future__ import annotations

from hpabatch._jit import rule
from hpabatch.layout.codes import (
    DESIRED_WITHIN_RANGE,
    POLICY_PODS,
    SCALE_DOWN_LIMIT,
    SCALE_UP_LIMIT,
    SELECT_DISABLED,
    SELECT_MIN,
    TOO_FEW_REPLICAS,
    TOO_MANY_REPLICAS,
)
from hpabatch.layout.records import (
    HEAD_DOWN_COUNT,
    HEAD_DOWN_START,
    HEAD_UP_COUNT,
    HEAD_UP_START,
    I64,
    Policies,
    Record,
    ScaleEvents,
)
from hpabatch.rules.numbers import (
    INT32_MAX,
    INT32_MIN,
    add64,
    ceil_to_int32,
    float_to_int32,
    to_int32,
)


@rule
def forget_scale_events(head: I64) -> None:
    """Drop all scale events of a lane, as a controller restart does."""
    head[HEAD_UP_COUNT] = 0
    head[HEAD_DOWN_COUNT] = 0


@rule
def replicas_changed_since(events: ScaleEvents, first: int, count: int, cutoff_ms: int) -> int:
    """Return the sum of the changes strictly newer than the cutoff; marks do not matter here."""
    total = 0
    for k in range(first, first + count):
        if events[k].ms > cutoff_ms:
            total = add64(total, events[k].change)
    return to_int32(total)


@rule
def replicas_at_period_start(
    head: I64,
    events: ScaleEvents,
    current: int,
    period_ms: int,
    now_ms: int,
    with_ups: bool,
    with_downs: bool,
) -> int:
    """Return the size at the start of a period: current without what was added and removed.

    In old versions a limit looks at the changes of its own direction alone.
    """
    cutoff, added, removed = now_ms - period_ms, 0, 0
    if with_ups:
        first, count = head[HEAD_UP_START], head[HEAD_UP_COUNT]
        added = replicas_changed_since(events, first, count, cutoff)
    if with_downs:
        first, count = head[HEAD_DOWN_START], head[HEAD_DOWN_COUNT]
        removed = replicas_changed_since(events, first, count, cutoff)
    return to_int32(current - added + removed)


@rule
def scale_up_limit(
    head: I64,
    events: ScaleEvents,
    spec: Record,
    policies: Policies,
    current: int,
    now_ms: int,
    both_lists: bool,
) -> int:
    """Return the largest size that the scale-up policies allow.

    Percent grows `ceil(start * (1 + value / 100))` in floats: 100 and 10 % give 111.
    """
    if spec.up_select == SELECT_DISABLED:
        return current
    smallest_change = spec.up_select == SELECT_MIN
    limit = INT32_MAX if smallest_change else INT32_MIN
    for j in range(spec.first_up, spec.first_down):
        start = replicas_at_period_start(
            head, events, current, policies[j].period_ms, now_ms, True, both_lists
        )
        value = policies[j].value
        if policies[j].kind == POLICY_PODS:
            proposed = to_int32(start + value)
        else:
            proposed = ceil_to_int32(float(start) * (1.0 + float(value) / 100.0))
        limit = min(limit, proposed) if smallest_change else max(limit, proposed)
    return limit


@rule
def scale_down_limit(
    head: I64,
    events: ScaleEvents,
    spec: Record,
    policies: Policies,
    current: int,
    now_ms: int,
    both_lists: bool,
) -> int:
    """Return the smallest size that the scale-down policies allow ("Max" is the largest change).

    Percent shrinks `trunc(start * (1 - value / 100))` in floats: 10 and 90 % give 0.
    """
    if spec.down_select == SELECT_DISABLED:
        return current
    smallest_change = spec.down_select == SELECT_MIN
    limit = INT32_MIN if smallest_change else INT32_MAX
    for j in range(spec.first_down, spec.last_down):
        start = replicas_at_period_start(
            head, events, current, policies[j].period_ms, now_ms, both_lists, True
        )
        value = policies[j].value
        if policies[j].kind == POLICY_PODS:
            proposed = to_int32(start - value)
        else:
            proposed = float_to_int32(float(start) * (1.0 - float(value) / 100.0))
        limit = max(limit, proposed) if smallest_change else min(limit, proposed)
    return limit


@rule
def limit_rate(
    head: I64,
    events: ScaleEvents,
    spec: Record,
    policies: Policies,
    current: int,
    stabilized: int,
    now_ms: int,
    both_lists: bool,
) -> tuple[int, int]:
    """Return (size, ScalingLimited condition) after policies and the bound of that direction."""
    if stabilized > current:
        limit = scale_up_limit(head, events, spec, policies, current, now_ms, both_lists)
        limit = max(limit, current)
        highest, why = spec.max_replicas, TOO_MANY_REPLICAS
        if highest > limit:
            highest, why = limit, SCALE_UP_LIMIT
        if stabilized > highest:
            return highest, why
    elif stabilized < current:
        limit = scale_down_limit(head, events, spec, policies, current, now_ms, both_lists)
        limit = min(limit, current)
        lowest, why = spec.min_replicas, TOO_FEW_REPLICAS
        if lowest < limit:
            lowest, why = limit, SCALE_DOWN_LIMIT
        if stabilized < lowest:
            return lowest, why
    return stabilized, DESIRED_WITHIN_RANGE


@rule
def longest_period(policies: Policies, first: int, last: int) -> int:
    """Return the longest period in ms of policies first:last, 0 without any."""
    longest = 0
    for j in range(first, last):
        longest = max(longest, policies[j].period_ms)
    return longest


@rule
def take_event_slot(events: ScaleEvents, first: int, count: int, cutoff_ms: int) -> int:
    """Mark events older than the cutoff; return the last marked one's index, or -1."""
    slot = -1
    for k in range(first, first + count):
        if events[k].ms < cutoff_ms:
            events[k].outdated = 1
        if events[k].outdated != 0:
            slot = k
    return slot


@rule
def store_scale_event(
    head: I64,
    events: ScaleEvents,
    spec: Record,
    policies: Policies,
    before: int,
    after: int,
    now_ms: int,
) -> None:
    """Remember a size change that was written; nothing is stored where behavior is absent.

    Events older than the direction's longest period are marked, a mark is never taken back, and
    the last marked slot is overwritten first.
    """
    if spec.has_behavior == 0:
        return
    start_at, count_at = HEAD_DOWN_START, HEAD_DOWN_COUNT
    change, period_ms = to_int32(before - after), 0
    if after > before:
        start_at, count_at = HEAD_UP_START, HEAD_UP_COUNT
        change = to_int32(after - before)
        period_ms = longest_period(policies, spec.first_up, spec.first_down)
    else:
        period_ms = longest_period(policies, spec.first_down, spec.last_down)
    first, count = head[start_at], head[count_at]
    slot = take_event_slot(events, first, count, now_ms - period_ms)
    if slot < 0:
        slot = first + count
        head[count_at] = count + 1
    events[slot].change = change
    events[slot].ms = now_ms
    events[slot].outdated = 0
