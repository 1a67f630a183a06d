"""Explanation of a size: from the proposal through windows, policies and bounds."""

from __future__ import annotations

import copy
from typing import Any

from hpabatch.engine.explain import facts
from hpabatch.engine.explain.sync import Sync, WrongExplanationError
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
from hpabatch.rules.behavior import (
    replicas_at_period_start,
    replicas_changed_since,
    scale_down_limit,
    scale_up_limit,
)
from hpabatch.rules.controller import has_switch
from hpabatch.rules.normalize import limit_legacy, normalize
from hpabatch.rules.numbers import INT32_MAX, INT32_MIN

_SELECTS = {codes.SELECT_MAX: "Max", codes.SELECT_MIN: "Min", codes.SELECT_DISABLED: "Disabled"}
_POLICIES = {codes.POLICY_PODS: "Pods", codes.POLICY_PERCENT: "Percent"}


def explain_sizes(sync: Sync, memory: Memory) -> tuple[facts.Windows, facts.Limits]:
    """Return what became of a tick's proposal; `memory` as the decision found it, left alone."""
    current, proposal = int(sync.tick.replicas), int(sync.decision.proposal)
    stabilized, limited, able, condition = _normalized(sync, copy.deepcopy(memory), current)
    if stabilized != sync.decision.stabilized:
        raise WrongExplanationError("stabilization", stabilized, sync.decision.stabilized)
    windows = _windows(sync, memory, proposal, stabilized, able)
    return windows, _limits(sync, memory, stabilized, limited, condition)


def _normalized(sync: Sync, memory: Memory, current: int) -> tuple[int, int, int, int]:
    """Return (stabilized, limited, AbleToScale, ScalingLimited) as from another current size.

    The memory takes part: a recommendation is recorded in it.
    """
    proposal = int(sync.decision.proposal)
    found = normalize(sync.fleet, sync.controller, memory, sync.h, sync.t, current, proposal)
    return int(found[0]), int(found[1]), int(found[2]), int(found[3])


# ---- windows -------------------------------------------------------------------------------------


def _windows(
    sync: Sync, memory: Memory, proposal: int, stabilized: int, able: int
) -> facts.Windows:
    # From a size below every wish the windows lead to the lowest one, from above to the highest.
    probe = copy.deepcopy(memory)
    lowest, _, _, _ = _normalized(sync, probe, INT32_MIN)
    highest, _, _, _ = _normalized(sync, copy.deepcopy(memory), INT32_MAX)
    head, spec = probe.head[sync.h], sync.spec
    up_since, down_since = int(head[HEAD_MIN_FROM]), int(head[HEAD_MAX_FROM])
    found = _recommendations(sync, memory, up_since, down_since)
    has_behavior = bool(spec.has_behavior)
    ups = [r.replicas for r in found if r.in_up_window]
    downs = [r.replicas for r in found if r.in_down_window]
    expected = min([proposal, *ups]) if has_behavior else highest, max([proposal, *downs])
    if (lowest, highest) != expected:
        raise WrongExplanationError("the windows' bounds", expected, (lowest, highest))
    down_ms = spec.down_window_ms if has_behavior else sync.controller.downscale_stabilization_ms
    return facts.Windows(
        has_behavior=has_behavior,
        clamps_current=bool(has_switch(sync.controller, WINDOWS_CLAMP_CURRENT)),
        up_window_ms=int(spec.up_window_ms) if has_behavior else None,
        down_window_ms=int(down_ms),
        up_since_ms=up_since if has_behavior else None,
        down_since_ms=down_since,
        recommendations=tuple(found),
        lowest=lowest if has_behavior else None,
        highest=highest,
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
    policy, current = sync.fleet.policies[j], int(sync.tick.replicas)
    both = has_switch(sync.controller, BOTH_EVENT_LISTS)
    with_ups, with_downs = goes_up or both, both or not goes_up
    period_ms = int(policy.period_ms)

    def start(ups: bool, downs: bool) -> int:
        head = memory.head[sync.h]
        return int(
            replicas_at_period_start(
                head, memory.events, current, period_ms, sync.now_ms, ups, downs
            )
        )

    number = int(sync.tick.spec)
    alone = sync.fleet.specs[number : number + 1].copy()
    if goes_up:
        alone.first_up[0], alone.first_down[0], alone.up_select[0] = j, j + 1, codes.SELECT_MAX
    else:
        alone.first_down[0], alone.last_down[0] = j, j + 1
        alone.down_select[0] = codes.SELECT_MAX
    added, removed = current - start(with_ups, False), start(False, with_downs) - current
    events = _events(sync, memory, period_ms, with_ups, with_downs)
    spent = sum(event.change for event in events)
    if spent != added - removed:
        raise WrongExplanationError("the changes of a policy's period", spent, added - removed)
    return facts.PolicyFact(
        type=_POLICIES[int(policy.kind)],
        value=int(policy.value),
        period_ms=period_ms,
        events=events,
        added=added,
        removed=removed,
        start=start(with_ups, with_downs),
        limit=_limit(sync, memory, alone[0], goes_up),
    )


def _events(
    sync: Sync, memory: Memory, period_ms: int, with_ups: bool, with_downs: bool
) -> tuple[facts.ScaleEvent, ...]:
    """Return the size changes that count in a period, oldest first."""
    head, found = memory.head[sync.h], []
    cutoff_ms = sync.now_ms - period_ms
    for start_at, count_at, sign, counts in (
        (HEAD_UP_START, HEAD_UP_COUNT, 1, with_ups),
        (HEAD_DOWN_START, HEAD_DOWN_COUNT, -1, with_downs),
    ):
        first, count = int(head[start_at]), int(head[count_at])
        for k in range(first, first + count if counts else first):
            change = int(replicas_changed_since(memory.events, k, 1, cutoff_ms))
            if change:
                found.append(facts.ScaleEvent(int(memory.events[k].ms), sign * change))
    return tuple(sorted(found, key=lambda event: event.at_ms))
