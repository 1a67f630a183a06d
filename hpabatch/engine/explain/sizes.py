"""Explanation of a size: from the proposal through windows, policies and bounds."""

from __future__ import annotations

import copy
from typing import Any

from hpabatch.engine.explain import facts
from hpabatch.engine.explain.sync import Sync
from hpabatch.layout import codes
from hpabatch.layout.records import (
    HEAD_DOWN_COUNT,
    HEAD_DOWN_START,
    HEAD_MAX_FROM,
    HEAD_MIN_FROM,
    HEAD_REC_COUNT,
    HEAD_REC_START,
    HEAD_UP_COUNT,
    HEAD_UP_START,
    Memory,
)
from hpabatch.layout.switches import BOTH_EVENT_LISTS, WINDOWS_CLAMP_CURRENT
from hpabatch.rules.behavior import scale_down_limit, scale_up_limit
from hpabatch.rules.controller import has_switch
from hpabatch.rules.normalize import limit_legacy, normalize
from hpabatch.rules.numbers import INT32_MAX, INT32_MIN

_SELECTS = {codes.SELECT_MAX: "Max", codes.SELECT_MIN: "Min", codes.SELECT_DISABLED: "Disabled"}
_POLICIES = {codes.POLICY_PODS: "Pods", codes.POLICY_PERCENT: "Percent"}


def explain_sizes(sync: Sync, memory: Memory) -> tuple[facts.Windows, facts.Limits]:
    """Return what became of a tick's proposal; `memory` as the decision found it, left alone."""
    current, proposal = int(sync.tick.replicas), int(sync.decision.proposal)
    # The memory takes part: a recommendation is recorded in it.
    after = copy.deepcopy(memory)
    stabilized, limited, able, condition = (
        int(number)
        for number in normalize(
            sync.fleet, sync.controller, after, sync.h, sync.t, current, proposal
        )[:4]
    )
    windows = _windows(sync, memory, after, stabilized, able)
    return windows, _limits(sync, memory, stabilized, limited, condition)


# ---- windows -------------------------------------------------------------------------------------


def _windows(
    sync: Sync, memory: Memory, after: Memory, stabilized: int, able: int
) -> facts.Windows:
    """Return what stabilized the proposal; the decision left its windows' cutoffs in `after`."""
    head, spec, proposal = after.head[sync.h], sync.spec, int(sync.decision.proposal)
    up_since, down_since = int(head[HEAD_MIN_FROM]), int(head[HEAD_MAX_FROM])
    found = _recommendations(sync, memory, up_since, down_since)
    has_behavior = bool(spec.has_behavior)
    ups = [r.replicas for r in found if r.in_up_window]
    downs = [r.replicas for r in found if r.in_down_window]
    down_ms = spec.down_window_ms if has_behavior else sync.controller.downscale_stabilization_ms
    return facts.Windows(
        has_behavior=has_behavior,
        clamps_current=bool(has_switch(sync.controller, WINDOWS_CLAMP_CURRENT)),
        up_window_ms=int(spec.up_window_ms) if has_behavior else None,
        down_window_ms=int(down_ms),
        up_since_ms=up_since if has_behavior else None,
        down_since_ms=down_since,
        recommendations=tuple(found),
        lowest=min([proposal, *ups]) if has_behavior else None,
        highest=max([proposal, *downs]),
        stabilized=stabilized,
        condition=codes.CONDITIONS[able].reason,
    )


def _recommendations(
    sync: Sync, memory: Memory, up_since: int, down_since: int
) -> list[facts.Recommendation]:
    """Return the recommendations from before this sync, oldest first; the cutoffs count."""
    head = memory.head[sync.h]
    first, count = int(head[HEAD_REC_START]), int(head[HEAD_REC_COUNT])
    rows = memory.recs[first : first + count]
    order = sorted(range(count), key=lambda k: (int(rows.ms[k]), k))
    return [
        facts.Recommendation(
            at_ms=int(rows.ms[k]),
            replicas=int(rows.value[k]),
            in_up_window=bool(rows.ms[k] >= up_since),
            in_down_window=bool(rows.ms[k] >= down_since),
        )
        for k in order
    ]


# ---- policies and bounds -------------------------------------------------------------------------


def _limits(
    sync: Sync, memory: Memory, stabilized: int, limited: int, condition: int
) -> facts.Limits:
    current, reason = int(sync.tick.replicas), codes.CONDITIONS[condition].reason
    spec = sync.spec
    if not spec.has_behavior:
        doubled, _ = limit_legacy(current, INT32_MAX, INT32_MIN, INT32_MAX)
        bound = min(int(doubled), int(spec.max_replicas))
        return facts.Limits(False, "up", None, (), int(doubled), bound, limited, reason)
    if stabilized == current:
        return facts.Limits(True, "none", None, (), None, None, limited, reason)
    goes_up = stabilized > current
    select = _SELECTS[int(spec.up_select if goes_up else spec.down_select)]
    limit = _limit(sync, memory, spec, goes_up)
    policies: tuple[facts.PolicyFact, ...] = ()
    if select != "Disabled":
        ends = (spec.first_up, spec.first_down) if goes_up else (spec.first_down, spec.last_down)
        policies = tuple(_policy(sync, memory, j, goes_up) for j in range(*map(int, ends)))
    if goes_up:
        bound = min(max(limit, current), int(spec.max_replicas))
    else:
        bound = max(min(limit, current), int(spec.min_replicas))
    direction = "up" if goes_up else "down"
    return facts.Limits(True, direction, select, policies, limit, bound, limited, reason)


def _limit(sync: Sync, memory: Memory, spec: Any, goes_up: bool) -> int:
    """Return how far the policies of a spec let the target go in one direction."""
    both = has_switch(sync.controller, BOTH_EVENT_LISTS)
    rule = scale_up_limit if goes_up else scale_down_limit
    head, policies = memory.head[sync.h], sync.fleet.policies
    current = int(sync.tick.replicas)
    return int(rule(head, memory.events, spec, policies, current, sync.now_ms, both))


def _policy(sync: Sync, memory: Memory, j: int, goes_up: bool) -> facts.PolicyFact:
    """Return what policy row j alone allows."""
    policy, both = sync.fleet.policies[j], has_switch(sync.controller, BOTH_EVENT_LISTS)
    period_ms, number = int(policy.period_ms), int(sync.tick.spec)
    alone = sync.fleet.specs[number : number + 1].copy()
    if goes_up:
        alone.first_up[0], alone.first_down[0], alone.up_select[0] = j, j + 1, codes.SELECT_MAX
    else:
        alone.first_down[0], alone.last_down[0] = j, j + 1
        alone.down_select[0] = codes.SELECT_MAX
    events = _events(sync, memory, period_ms, goes_up or both, both or not goes_up)
    added = sum(event.change for event in events if event.change > 0)
    removed = -sum(event.change for event in events if event.change < 0)
    return facts.PolicyFact(
        type=_POLICIES[int(policy.kind)],
        value=int(policy.value),
        period_ms=period_ms,
        events=events,
        added=added,
        removed=removed,
        start=int(sync.tick.replicas) - added + removed,
        limit=_limit(sync, memory, alone[0], goes_up),
    )


def _events(
    sync: Sync, memory: Memory, period_ms: int, with_ups: bool, with_downs: bool
) -> tuple[facts.ScaleEvent, ...]:
    """Return the size changes that count in a period, oldest first."""
    head, found = memory.head[sync.h], []
    for start_at, count_at, sign, counts in (
        (HEAD_UP_START, HEAD_UP_COUNT, 1, with_ups),
        (HEAD_DOWN_START, HEAD_DOWN_COUNT, -1, with_downs),
    ):
        first, count = int(head[start_at]), int(head[count_at])
        for event in memory.events[first : first + count] if counts else ():
            if event.ms > sync.now_ms - period_ms and event.change:
                found.append(facts.ScaleEvent(int(event.ms), sign * int(event.change)))
    return tuple(sorted(found, key=lambda event: event.at_ms))
