"""Explanation of one decision: the arithmetic of every rule, in the order in which they ran.

The numbers are those of the decision; what it does not keep comes from the rules themselves, called
on the controller's observations and memory. Source: horizontal.go, reconcileAutoscaler, and the
functions it calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from hpabatch.engine.explain import facts
from hpabatch.engine.explain.metrics import explain_metrics
from hpabatch.engine.explain.sizes import explain_sizes
from hpabatch.engine.explain.sync import Sync, entered, last_sync
from hpabatch.engine.fleet.candidates import Candidate
from hpabatch.engine.fleet.parameters import ReplayParameters, Settled
from hpabatch.engine.fleet.plan import ReplayPlan, guesses_of, plan_replay
from hpabatch.engine.replay.run import replay_history
from hpabatch.engine.replay.summary import foreign_changes
from hpabatch.engine.shards.shard import scale_columns
from hpabatch.errors import RefusedError, UsageError
from hpabatch.history.reader import History
from hpabatch.layout import codes
from hpabatch.layout.records import Memory
from hpabatch.layout.switches import SCALE_TO_ZERO, ZERO_NEEDS_CONDITION
from hpabatch.model.objects.hpa import HPA
from hpabatch.model.suggestions import near_paths
from hpabatch.model.times import show_duration, show_instant
from hpabatch.model.version_table import GATES
from hpabatch.rules.conditions import has_condition
from hpabatch.rules.controller import has_switch

_NEAR_NAMES = 5
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
    plan = plan_replay(history, parameters, manifests, _chosen(name), whole=True)
    _check_chosen(plan, name)
    found = last_sync(plan)
    if found is None:
        raise UsageError(_no_sync(plan, name))
    sync, shard = found
    candidate = shard.candidates[0]
    scale = _scale(history, candidate, sync.now_ms)
    if scale.next_ms is not None and scale.next_ms < sync.now_ms + plan.clocks.grid.period_ms:
        # What follows tells who made it.
        whole = replay_history(history, replace(parameters, until=None), manifests, _chosen(name))
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


def explain_sync(sync: Sync, scale: facts.ScaleFact | None = None) -> facts.Explanation:
    """Return the explanation of a decided tick; `scale` as recorded, else as the tick read it."""
    memory, first_seen = entered(sync)
    metrics, combination = explain_metrics(sync)
    windows = limits = raised_to = None
    if sync.decision.metric >= 0:
        windows, limits = explain_sizes(sync, memory)
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
        scale=scale or _scale_of_tick(sync),
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
        error=reader.outcome(sync.words, sync.t).error,
        written=bool(row.written),
        stored_change=change,
    )


def _scale_of_tick(sync: Sync) -> facts.ScaleFact:
    ref, tick = sync.reader.specs[int(sync.tick.spec)].scale_target_ref, sync.tick
    known = sync.has_scale()
    return facts.ScaleFact(
        kind=ref.kind,
        name=ref.name,
        replicas=int(tick.replicas) if known else None,
        status_replicas=int(tick.status_replicas) if known else None,
        selector=None,
        since_ms=None,
        next_ms=None,
        next_replicas=None,
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
        "max_age": _max_age_text(settled, cluster),
        "flags": known,
        "tolerance": f"{flags.tolerance}",
        "cpu_initialization_period": show_duration(flags.cpu_initialization_period_ms),
        "initial_readiness_delay": show_duration(flags.initial_readiness_delay_ms),
        "downscale_stabilization": show_duration(flags.downscale_stabilization_ms),
    }


def _max_age_text(settled: Settled, cluster: str) -> str:
    if cluster in settled.standing:
        return "as long as they stood (recorded)"
    return f"{show_duration(settled.max_age_ms)} ({settled.sources['max_age']})"


def _clock_text(plan: ReplayPlan, candidate: Candidate) -> str:
    """Return how the instants of an HPA's syncs are known."""
    key, clocks = (candidate.cluster, candidate.namespace, candidate.name), plan.clocks
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


# ---- which HPA -----------------------------------------------------------------------------------


def _chosen(name: str) -> Any:
    """Return a selection of the candidates that a name may mean."""
    *cluster, namespace, hpa = ["", *name.split("/")] if "/" not in name else name.split("/")

    def select(candidates: pl.DataFrame) -> pl.DataFrame:
        same = pl.col("hpa") == hpa
        if namespace:
            same &= pl.col("namespace") == namespace
        if cluster:
            same &= pl.col("cluster") == "/".join(cluster)
        return candidates.filter(same)

    return select


def _check_chosen(plan: ReplayPlan, name: str) -> None:
    """Refuse a name that is not exactly one HPA's.

    Raises:
        UsageError: it is nobody's, or that of several.
        RefusedError: it is that of an HPA that cannot be replayed.
    """
    if len(plan.chosen) == 1:
        return
    clusters = {c.cluster for c in plan.everyone} | {s.cluster for s in plan.skipped}
    many = len(clusters - {""}) > 1
    if plan.chosen:
        names = ", ".join(_label(c.cluster, c.namespace, c.name, True) for c in plan.chosen)
        raise UsageError(f"{name}: {len(plan.chosen)} HPAs are called so; name one of {names}")
    for skipped in plan.skipped:
        key = skipped.cluster, skipped.namespace, skipped.hpa
        if name in (_label(*key, True), _label(*key, False), skipped.hpa):
            raise RefusedError(f"{name}: {skipped.reason}")
    known = [_label(c.cluster, c.namespace, c.name, many) for c in plan.everyone]
    near = near_paths(name, known, _NEAR_NAMES)
    hint = f"did you mean {', '.join(near)}?" if near else f"it has {', '.join(known[:5])}"
    more = "" if near or len(known) <= _NEAR_NAMES else " and others"
    raise UsageError(f"{name}: the history has no such HPA (NAMESPACE/NAME); {hint}{more}")


def _label(cluster: str, namespace: str, hpa: str, with_cluster: bool) -> str:
    return "/".join(part for part in (cluster if with_cluster else "", namespace, hpa) if part)


def _no_sync(plan: ReplayPlan, name: str) -> str:
    until_ms = plan.clocks.asked_ms
    (candidate,) = plan.chosen
    first = min(period.from_ms for period in candidate.periods)
    by_then = f" at or before {show_instant(until_ms)}" if until_ms is not None else ""
    since = f"its spec is in force from {show_instant(max(first, plan.clocks.from_ms))} on"
    return f"{name}: it has no sync{by_then}; {since}; choose a later time with --at"
