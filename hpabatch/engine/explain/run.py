"""Explanation of one decision: the arithmetic of every rule, in the order in which they ran.

The numbers are those of the decision; what it does not keep comes from the rules themselves, called
on the controller's observations and memory. Source: horizontal.go, reconcileAutoscaler, and the
functions it calls.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hpabatch.engine.explain import facts
from hpabatch.engine.explain.metrics import explain_metrics
from hpabatch.engine.explain.sync import Sync, entered, last_sync
from hpabatch.engine.fleet.candidates import Candidate
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.fleet.plan import ReplayPlan, guesses_of, plan_replay
from hpabatch.engine.fleet.request import ChosenHpas
from hpabatch.engine.fleet.selection import Selection
from hpabatch.engine.replay.run import replay_plan
from hpabatch.engine.replay.summary import foreign_changes
from hpabatch.engine.shards.shard import scale_columns
from hpabatch.errors import RefusedError, UsageError
from hpabatch.history.reader import History
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
from hpabatch.layout.switches import (
    BOTH_EVENT_LISTS,
    SCALE_TO_ZERO,
    WINDOWS_CLAMP_CURRENT,
    ZERO_NEEDS_CONDITION,
)
from hpabatch.model.objects.hpa import HPA
from hpabatch.model.times import show_duration, show_instant
from hpabatch.model.versions import GATES
from hpabatch.rules.behavior import scale_down_limit, scale_up_limit
from hpabatch.rules.conditions import has_condition
from hpabatch.rules.controller import has_switch
from hpabatch.rules.normalize import limit_legacy, normalize
from hpabatch.rules.numbers import INT32_MAX, INT32_MIN

_SELECTS = {codes.SELECT_MAX: "Max", codes.SELECT_MIN: "Min", codes.SELECT_DISABLED: "Disabled"}
_POLICIES = {codes.POLICY_PODS: "Pods", codes.POLICY_PERCENT: "Percent"}
_BY_SCALE = (codes.BOUND_BY_SCALE_READ, codes.BOUND_BY_SCALE_WRITE)
_NO_METRICS = {
    codes.BOUND_BY_SCALE_READ: "scale",
    codes.BOUND_BY_NO_SCALE: "none",
    codes.BOUND_BY_ZERO: "zero",
    codes.BOUND_BY_SELECTOR: "selector",
    codes.BOUND_BY_FORCED_MAX: "forced",
    codes.BOUND_BY_FORCED_MIN: "forced",
}


def explain_history(
    history: History,
    parameters: ReplayParameters,
    name: str,
    manifests: Sequence[HPA] | None = None,
) -> facts.Explanation:
    """Return the explanation of an HPA's last sync, or of its last one until `until`.

    Args:
        history: what was recorded; all syncs up to the one asked for are decided.
        parameters: as of a replay; `until` is the time asked for.
        name: of the HPA, [[cluster/]namespace/]name.
        manifests: HPAs in place of the recorded ones.

    Raises:
        HistoryError: a table is broken, or there is nothing to decide.
        UsageError: there is no such HPA, there are several, or it has no sync by then.
        RefusedError: the HPA cannot be replayed; the reason.
    """
    chosen = Selection(ChosenHpas(names=(name,)))
    plan = plan_replay(history, parameters, manifests, chosen, whole=True)
    if not plan.chosen:
        raise RefusedError(f"{name}: {plan.skipped[0].reason}")
    if len(plan.chosen) > 1:
        names = ", ".join("/".join(part for part in c.key if part) for c in plan.chosen)
        raise UsageError(f"{name}: {len(plan.chosen)} HPAs are called so; name one of {names}")
    found = last_sync(plan)
    if found is None:
        until_ms, first = plan.clocks.asked_ms, min(p.from_ms for p in plan.chosen[0].periods)
        by_then = f" at or before {show_instant(until_ms)}" if until_ms is not None else ""
        since = f"its spec is in force from {show_instant(max(first, plan.clocks.from_ms))} on"
        raise UsageError(f"{name}: it has no sync{by_then}; {since}; choose a later time with --at")
    sync, shard = found
    candidate = shard.candidates[0]
    scale = _scale(history, candidate, sync.now_ms)
    if scale.next_ms is not None and scale.next_ms < sync.now_ms + plan.clocks.grid.period_ms:
        # What follows tells who made it.
        parameters = replace(parameters, until=None)
        whole = replay_plan(plan_replay(history, parameters, manifests, chosen))
        ticks = foreign_changes(whole.decisions)["ts"].to_physical()
        scale = replace(scale, next_foreign=sync.now_ms in ticks)
    explanation = explain_sync(sync, scale)
    return replace(
        explanation,
        cluster=candidate.cluster,
        hpa=candidate.name,
        asked_ms=plan.clocks.asked_ms,
        assumed=_assumed(plan, candidate, sync),
        warnings=(
            *plan.versions.warnings,
            *guesses_of(history, plan.chosen, stated=manifests is not None),
        ),
    )


def explain_sync(sync: Sync, scale: facts.ScaleFact) -> facts.Explanation:
    """Return the explanation of a decided tick; `scale` as recorded."""
    memory, first_seen = entered(sync)
    metrics, combination = explain_metrics(sync)
    windows = limits = raised_to = None
    if sync.decision.metric >= 0:
        # The memory takes part: a recommendation is recorded in it.
        after = copy.deepcopy(memory)
        sizes = int(sync.tick.replicas), int(sync.decision.proposal)
        told = normalize(sync.fleet, sync.controller, after, sync.h, sync.t, *sizes)
        stabilized, limited, able, condition = (int(number) for number in told[:4])
        windows = _windows(sync, memory, after, stabilized, able)
        limits = _limits_of(sync, memory, stabilized, limited, condition)
        # (where a target at zero is raised to minReplicas, after all bounds)
        if sync.tick.replicas == 0 and limits.limited < sync.spec.min_replicas:
            raised_to = int(sync.spec.min_replicas)
    tick, spec, binding = sync.tick, sync.spec, int(sync.decision.binding)
    texts, path = sync.reader.texts, _path(sync)
    scale_error = texts[int(tick.scale_text)]
    restart = int(tick.restart)
    return facts.Explanation(
        cluster="",
        namespace=sync.words.namespace,
        hpa="",
        asked_ms=None,
        sync_ms=sync.now_ms,
        k8s=sync.reader.profile.name,
        min_replicas=int(spec.min_replicas),
        max_replicas=int(spec.max_replicas),
        has_behavior=bool(spec.has_behavior),
        path=path,
        from_zero=bool(path in ("metrics", "selector") and tick.replicas == 0),
        zero_reason=_zero_reason(sync, memory) if path == "zero" else "",
        scale=scale,
        scale_error=scale_error if binding in _BY_SCALE else "",
        selector_error=(
            sync.reader.events(sync.words, sync.t)[0].message if path == "selector" else ""
        ),
        start=facts.Start(
            restarted_ms=restart if 0 < restart < sync.now_ms else None,
            unknown_time=restart >= sync.now_ms,
            first_seen=first_seen,
        ),
        metrics=metrics,
        combination=combination,
        windows=windows,
        limits=limits,
        raised_to=raised_to,
        decision=_decision(sync),
        outcome=_outcome(sync),
        assumed={},
    )


# ---- parts ---------------------------------------------------------------------------------------


def _path(sync: Sync) -> str:
    """Return what decided; a failed write of the scale has hidden it in the binding."""
    decision = sync.decision
    if decision.binding != codes.BOUND_BY_SCALE_WRITE:
        return _NO_METRICS.get(int(decision.binding), "metrics")
    return "metrics" if decision.metric >= 0 else "forced"


def _zero_reason(sync: Sync, memory: Memory) -> str:
    """Return why a target at zero stays there, in the order of the tests."""
    if not has_switch(sync.controller, ZERO_NEEDS_CONDITION):
        return facts.MIN_NOT_ZERO
    if not has_switch(sync.controller, SCALE_TO_ZERO):
        return facts.GATE_OFF
    if not has_condition(memory.head[sync.h], codes.IS_SCALED_TO_ZERO):
        return facts.NOT_BY_HPA
    return facts.NO_SIGNAL


def _decision(sync: Sync) -> facts.DecisionFact:
    decision = sync.decision
    words = codes.BINDINGS[int(decision.binding)]
    return facts.DecisionFact(
        current=int(decision.current),
        proposal=int(decision.proposal),
        stabilized=int(decision.stabilized),
        limited=int(decision.limited),
        desired=int(decision.desired),
        rescaled=bool(decision.rescaled),
        reason=sync.reader.reason(sync.t),
        binding=words.name,
        sentence=words.sentence,
    )


def _outcome(sync: Sync) -> facts.Outcome:
    reader, row = sync.reader, sync.reader.statuses[sync.t]
    conditions = reader.conditions(sync.words, sync.t)
    decision, change = sync.decision, None
    if sync.spends_decisions and decision.rescaled and sync.spec.has_behavior:
        change = int(decision.desired) - int(sync.tick.replicas)
    return facts.Outcome(
        conditions=tuple(
            facts.ConditionFact(condition, int(row[f"set_{k}"]) == sync.t)
            for k, condition in enumerate(conditions)
        ),
        events=tuple(reader.events(sync.words, sync.t)),
        error=reader.error(sync.words, sync.t),
        written=bool(row.written),
        stored_change=change,
    )


def _scale(history: History, candidate: Candidate, now_ms: int) -> facts.ScaleFact:
    """Return the target's recorded scale at a sync, and its next change of size."""
    cluster, namespace, kind, name = candidate.target
    frame = history.select("scales", cluster, [(namespace, name)])
    scale = scale_columns(frame)[candidate.target]
    seen = int(scale.seen(np.array([now_ms], np.int64))[0])
    later = np.flatnonzero(scale.ts_ms >= now_ms)
    if seen >= 0:
        later = later[(later > seen) & (scale.replicas[later] != scale.replicas[seen])]
    following = int(later[0]) if later.size else -1

    def at(column: Any, row: int) -> int | None:
        return int(column[row]) if row >= 0 else None

    return facts.ScaleFact(
        kind=kind,
        name=name,
        replicas=at(scale.replicas, seen),
        status_replicas=at(scale.status_replicas, seen),
        selector=scale.selectors[int(scale.selector[seen])] if seen >= 0 else None,
        since_ms=at(scale.ts_ms, seen),
        next_ms=at(scale.ts_ms, following),
        next_replicas=at(scale.replicas, following),
    )


def _assumed(plan: ReplayPlan, candidate: Candidate, sync: Sync) -> dict[str, str]:
    """Return what the decision rests on besides the recorded tables, as texts with their sources.

    The flags are those in force at the sync.
    """
    settled, cluster, profile = plan.settled, candidate.cluster, sync.reader.profile
    periods = plan.flags_of(cluster)
    in_force = [p for k, p in enumerate(periods) if k == 0 or p.from_ms <= sync.now_ms]
    flags, known = in_force[-1].flags, "recorded" if cluster in plan.flags else "default"
    known = settled.sources.get("flags", known)
    max_age = f"{show_duration(settled.max_age_ms)} ({settled.sources['max_age']})"
    if cluster in settled.standing:
        max_age = "as long as they stood (recorded)"
    return {
        "k8s": profile.name,
        "k8s_source": plan.versions.source,
        "k8s_evidence": profile.evidence,
        "k8s_proof": profile.proof,
        "gates": ", ".join(
            f"{name}={'true' if getattr(profile, gate.field) else 'false'}"
            for name, gate in GATES.items()
        ),
        "events": settled.events,
        "syncs": _clock_text(plan, candidate),
        "delay": f"{show_duration(settled.delay_ms)} ({settled.sources['delay']})",
        "max_age": max_age,
        "flags": known,
        "tolerance": f"{flags.tolerance}",
        "cpu_initialization_period": show_duration(flags.cpu_initialization_period_ms),
        "initial_readiness_delay": show_duration(flags.initial_readiness_delay_ms),
        "downscale_stabilization": show_duration(flags.downscale_stabilization_ms),
    }


def _clock_text(plan: ReplayPlan, candidate: Candidate) -> str:
    """Return how the instants of an HPA's syncs are known."""
    key, clocks = candidate.key, plan.clocks
    if key in clocks.recorded:
        return "at the recorded instants"
    if key[0] in clocks.passes:
        return "at the passes of a live loop"
    # (where a period or phase is estimated, that is of other HPAs)
    given = {
        name: "assumed" if source.startswith("estimated") else source.partition(",")[0]
        for name, source in plan.settled.sources.items()
    }
    if key not in clocks.estimated:
        grid = clocks.grid
        every = f"every {show_duration(grid.period_ms)} ({given['sync_period']})"
        return f"{every}, {show_duration(grid.phase_ms)} after full periods ({given['phase']})"
    found = clocks.estimated[key]
    every = f"every {found.period_ms / 1000:g}s"
    every += "" if found.estimated else f" ({given['sync_period']})"
    return (
        f"{every}, {'estimated' if found.estimated else 'its phase estimated'} from "
        f"{found.support} recorded instants, half of them within {found.spread_ms / 1000:g}s of one"
    )


# ---- windows -------------------------------------------------------------------------------------


def _windows(
    sync: Sync, memory: Memory, after: Memory, stabilized: int, able: int
) -> facts.Windows:
    """Return what stabilized the proposal; the decision left its windows' cutoffs in `after`."""
    head, spec, proposal = after.head[sync.h], sync.spec, int(sync.decision.proposal)
    up_since, down_since = int(head[HEAD_MIN_FROM]), int(head[HEAD_MAX_FROM])
    # Recommendations from before this sync, oldest first; the cutoffs count.
    known = memory.head[sync.h]
    first, count = int(known[HEAD_REC_START]), int(known[HEAD_REC_COUNT])
    rows = memory.recs[first : first + count]
    found = [
        facts.Recommendation(
            at_ms=int(rows.ms[k]),
            replicas=int(rows.value[k]),
            in_up_window=bool(rows.ms[k] >= up_since),
            in_down_window=bool(rows.ms[k] >= down_since),
        )
        for k in sorted(range(count), key=lambda k: (int(rows.ms[k]), k))
    ]
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


# ---- policies and bounds -------------------------------------------------------------------------


def _limits_of(
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
