"""An explanation in sentences: one line per step of the rules, in their order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hpabatch.engine.explain import facts
from hpabatch.model.times import show_duration
from hpabatch.report.explain.metric import (
    HORIZONTAL,
    SHOWN_RUNS,
    Step,
    clock_text,
    count_text,
    list_text,
    metric_steps,
    run_texts,
)

_RECONCILE: Final = f"{HORIZONTAL} reconcileAutoscaler"
_COMBINE: Final = f"{HORIZONTAL} computeReplicasForMetrics"
_SELECTOR: Final = f"{HORIZONTAL} validateAndParseSelector"
_INITIAL: Final = f"{HORIZONTAL} recordInitialRecommendation"
_WINDOW: Final = f"{HORIZONTAL} stabilizeRecommendation"
_WINDOWS: Final = f"{HORIZONTAL} stabilizeRecommendationWithBehaviors"
_DOUBLE: Final = f"{HORIZONTAL} calculateScaleUpLimit"
_BOUNDS: Final = f"{HORIZONTAL} convertDesiredReplicasWithRules"
_RATE: Final = f"{HORIZONTAL} convertDesiredReplicasWithBehaviorRate"
_UP_LIMIT: Final = f"{HORIZONTAL} calculateScaleUpLimitWithScalingRules"
_DOWN_LIMIT: Final = f"{HORIZONTAL} calculateScaleDownLimitWithBehaviors"
_PERIOD: Final = f"{HORIZONTAL} getReplicasChangePerPeriod"
_STORE: Final = f"{HORIZONTAL} storeScaleEvent"
_STATUS: Final = f"{HORIZONTAL} setStatus, updateStatusIfNeeded"
_CONDITION: Final = f"{HORIZONTAL} setCondition"

ZERO_REASONS: Final = {
    facts.MIN_NOT_ZERO: "minReplicas is not 0",
    facts.GATE_OFF: "the feature gate HPAScaleToZero is off",
    facts.NOT_BY_HPA: "this HPA did not put it there",
    facts.NO_SIGNAL: "no Object or External metric could tell when to leave it",
}
_LARGEST: Final = {"Max": "largest change", "Min": "smallest change"}


def explanation_steps(explanation: facts.Explanation) -> list[Step]:
    """Return the lines of an explanation; steps that the decision did not take have none."""
    return [
        *_target_steps(explanation),
        *_path_steps(explanation),
        *(step for metric in explanation.metrics for step in metric_steps(metric, explanation)),
        *_combination_steps(explanation),
        *_window_steps(explanation),
        *_limit_steps(explanation),
        *_end_steps(explanation),
        *_outcome_steps(explanation),
    ]


# ---- before the metrics --------------------------------------------------------------------------


def _target_steps(explanation: facts.Explanation) -> Iterator[Step]:
    scale, start, now_ms = explanation.scale, explanation.start, explanation.sync_ms
    target = f"{scale.kind}/{scale.name}"
    if explanation.path == "scale":
        text = f"{target}: its scale could not be read: {explanation.scale_error}"
        yield Step("target", text, _RECONCILE)
    elif explanation.path == "none":
        first = "" if scale.next_ms is None else f" before {clock_text(scale.next_ms, now_ms)}"
        yield Step("target", f"{target}: its replicas were not recorded{first}", _RECONCILE)
    else:
        since = "" if scale.since_ms is None else f" since {clock_text(scale.since_ms, now_ms)}"
        selector = "" if scale.selector is None else f", selector {scale.selector!r}"
        text = (
            f"{target}: {count_text(scale.replicas or 0, 'replica')} in its spec, "
            f"{scale.status_replicas} in its status{since}{selector}"
        )
        yield Step("target", text, _RECONCILE)
    if start.restarted_ms is not None or start.unknown_time:
        when = "" if start.restarted_ms is None else f" at {clock_text(start.restarted_ms, now_ms)}"
        text = f"a fresh controller began{when}: it knows no recommendation and no size change"
        yield Step("controller", text, _RECONCILE)
    if start.first_seen:
        text = f"it has not seen this HPA before: {scale.replicas} is its first recommendation"
        yield Step("controller", text, _INITIAL)


def _path_steps(explanation: facts.Explanation) -> Iterator[Step]:
    """Yield whether the metrics have a say."""
    current = explanation.decision.current
    lowest, highest = explanation.min_replicas, explanation.max_replicas
    bounds = f"minReplicas {lowest}, maxReplicas {highest}"
    path = explanation.path
    at_once = "at once, whatever metrics, windows and policies say"
    if path == "forced":
        above = current > highest
        limit = f"maxReplicas {highest}" if above else f"minReplicas {lowest}"
        text = f"{current} is {'above' if above else 'below'} {limit}: to that {at_once}"
        yield Step("bounds", text, _RECONCILE)
    elif path == "zero":
        why = ZERO_REASONS[explanation.zero_reason]
        text = f"the target is at 0 and stays there: {why} ({bounds})"
        yield Step("bounds", text, _RECONCILE)
    elif explanation.from_zero:
        text = f"the target is at 0, from where this HPA may scale it ({bounds}): metrics decide"
        yield Step("bounds", text, _RECONCILE)
    elif path in ("metrics", "selector"):
        yield Step("bounds", f"{lowest} <= {current} <= {highest}: the metrics decide", _RECONCILE)
    if path == "selector":
        yield Step("selector", f"{explanation.selector_error}: no metric is asked", _SELECTOR)


# ---- metrics together ----------------------------------------------------------------------------


def _combination_steps(explanation: facts.Explanation) -> Iterator[Step]:
    combination, decision = explanation.combination, explanation.decision
    if combination is None:
        return
    if not combination.usable:
        yield Step("metrics", _unusable_text(explanation, combination), _COMBINE)
        return
    winner = explanation.metrics[(combination.winner or 1) - 1]
    text = f"{combination.largest}, of the only metric"
    if combination.count > 1:
        text = f"the largest valid proposal is {combination.largest} of {winner.subject}"
        proposals = (
            f"{m.subject} {'failed' if m.proposal is None else m.proposal}"
            for m in explanation.metrics
        )
        text += f" ({', '.join(proposals)})"
    if combination.failed:
        text += f"; {combination.failed} failed, but that is not below {decision.current}"
    if combination.largest < 0:
        text += "; a negative proposal counts as 0"
    yield Step("metrics", text, _COMBINE)
    yield Step("reason", _reason_text(decision), _RECONCILE)


def _unusable_text(explanation: facts.Explanation, combination: facts.Combination) -> str:
    if combination.failed >= combination.count:
        text = "no metric gave a proposal" if combination.count > 1 else "the metric failed"
        return f"{text}: nothing is done in this sync"
    return (
        f"{combination.failed} of {combination.count} failed, and the largest of the others, "
        f"{combination.largest}, is below {explanation.decision.current}: nothing is done in this "
        "sync, since the failed ones may want more"
    )


def _reason_text(decision: facts.DecisionFact) -> str:
    current, proposal = decision.current, decision.proposal
    if proposal == current:
        told = f'"{decision.reason}"' if decision.reason else "no reason to tell"
        return f"{proposal} is the current size: {told}"
    return (
        f'{proposal} is {"above" if proposal > current else "below"} {current}: "{decision.reason}"'
    )


# ---- windows -------------------------------------------------------------------------------------


def _window_steps(explanation: facts.Explanation) -> Iterator[Step]:
    windows, proposal = explanation.windows, explanation.decision.proposal
    if windows is None:
        return
    now_ms, recent = explanation.sync_ms, windows.recommendations
    downs = [(r.replicas, r.at_ms) for r in recent if r.in_down_window]
    # With behavior the cutoff itself does not count.
    start = 1 if windows.has_behavior else 0
    down = _window_text(windows.down_window_ms, windows.down_since_ms, start, downs, now_ms)
    largest = _extreme_text(proposal, windows.highest, downs, now_ms)
    down = f"{down}; with {proposal} now the largest is {largest}"
    held = "" if windows.stabilized == proposal else f" instead of {proposal}"
    if windows.up_window_ms is None or windows.up_since_ms is None or windows.lowest is None:
        yield Step("window", down, _WINDOW)
        text = f"{windows.stabilized}{held} ({windows.condition})"
        yield Step("stabilized", text, _WINDOW)
        return
    ups = [(r.replicas, r.at_ms) for r in recent if r.in_up_window]
    up = _window_text(windows.up_window_ms, windows.up_since_ms, start, ups, now_ms)
    smallest = _extreme_text(proposal, windows.lowest, ups, now_ms)
    yield Step("up window", f"{up}; with {proposal} now the smallest is {smallest}", _WINDOWS)
    yield Step("down window", down, _WINDOWS)
    way = _clamp_text(windows, explanation.decision)
    yield Step("stabilized", f"{way}{held} ({windows.condition})", _WINDOWS)


def _clamp_text(windows: facts.Windows, decision: facts.DecisionFact) -> str:
    """Return how the two windows make a size of the current one, or of the proposal."""
    current, proposal, stabilized = decision.current, decision.proposal, windows.stabilized
    if windows.clamps_current:
        return f"{current} pulled into {windows.lowest} to {windows.highest} is {stabilized}"
    if proposal >= current:
        return f"{proposal} is not below {current}, so the smallest counts: {stabilized}"
    return f"{proposal} is below {current}, so the largest counts: {stabilized}"


def _extreme_text(proposal: int, value: int, counted: list[tuple[int, int]], now_ms: int) -> str:
    """Return the smallest or largest recommendation and, of an earlier one, its last time."""
    if value == proposal:
        return str(value)
    last_ms = max(ms for replicas, ms in counted if replicas == value)
    return f"{value}, of {clock_text(last_ms, now_ms)}"


def _window_text(
    window_ms: int, since_ms: int, start: int, counted: list[tuple[int, int]], now_ms: int
) -> str:
    """Return what counts in a window; `since_ms` does, and is `start` ms after the cutoff."""
    text = show_duration(window_ms)
    if window_ms:
        edge = clock_text(since_ms - start, now_ms)
        text += f", after {edge}" if start else f", from {edge} on"
    if not counted:
        return f"{text}: nothing from before counts"
    runs = run_texts(counted, now_ms)
    more = len(runs) - SHOWN_RUNS
    shown = [f"{more} earlier runs", *runs[more:]] if more > 1 else runs
    return f"{text}: {count_text(len(counted), 'recommendation')}: {', '.join(shown)}"


# ---- policies and bounds -------------------------------------------------------------------------


def _limit_steps(explanation: facts.Explanation) -> Iterator[Step]:
    limits, decision = explanation.limits, explanation.decision
    if limits is None:
        return
    current, stabilized = decision.current, decision.stabilized
    if not limits.has_behavior:
        text = f"no behavior: at most max(2 x {current}, 4) = {limits.limit}"
        yield Step("limit", text, _DOUBLE)
        text = (
            f"{stabilized}, at least minReplicas {explanation.min_replicas} and at most "
            f"min({limits.limit}, maxReplicas {explanation.max_replicas}) = {limits.bound}, is "
            f"{_limited_text(limits)}"
        )
        yield Step("limited", text, _BOUNDS)
        return
    if limits.direction == "none":
        text = f"{stabilized} is the current size, so no policy is asked: {_limited_text(limits)}"
        yield Step("limited", text, _RATE)
        return
    yield from _policy_steps(explanation, limits)
    limit = limits.limit or 0
    if limits.direction == "up":
        bound = f"at most min({max(limit, current)}, maxReplicas {explanation.max_replicas})"
    else:
        bound = f"at least max({min(limit, current)}, minReplicas {explanation.min_replicas})"
    text = f"{stabilized}, {bound} = {limits.bound}, is {_limited_text(limits)}"
    yield Step("limited", text, _RATE)


def _limited_text(limits: facts.Limits) -> str:
    return f"{limits.limited} ({limits.condition})"


def _policy_steps(explanation: facts.Explanation, limits: facts.Limits) -> Iterator[Step]:
    """Yield what each policy of a direction allows, and all of them together."""
    goes_up, current = limits.direction == "up", explanation.decision.current
    function = _UP_LIMIT if goes_up else _DOWN_LIMIT
    scale = "scaleUp" if goes_up else "scaleDown"
    if limits.select == "Disabled":
        text = f"{scale}.selectPolicy Disabled: it stays at {current}"
        yield Step("policies", text, function)
        return
    for policy in limits.policies:
        yield Step("policy", _policy_text(policy, current, goes_up, explanation.sync_ms), _PERIOD)
    way = _LARGEST[limits.select or "Max"]
    text = f"{scale}.selectPolicy {limits.select}, the {way}: {limits.limit}"
    if limits.limit is not None and (limits.limit < current if goes_up else limits.limit > current):
        text += f", and never {'below' if goes_up else 'above'} the current {current}"
    yield Step("policies", text, function)


def _policy_text(policy: facts.PolicyFact, current: int, goes_up: bool, now_ms: int) -> str:
    """Return a policy's arithmetic: the size at its period's start, and what it allows."""
    unit = "%" if policy.type == "Percent" else ""
    name = f"{policy.type} {policy.value}{unit} in {show_duration(policy.period_ms)}"
    sign = "+" if goes_up else "-"
    start = f"no change counts, so it begins at {policy.start}"
    if policy.events:
        changes = [f"{e.change:+d} at {clock_text(e.at_ms, now_ms)}" for e in policy.events]
        arithmetic = f"{current} - {policy.added} + {policy.removed} = {policy.start}"
        start = f"{list_text(changes, SHOWN_RUNS)}, so it began at {arithmetic}"
    if policy.type == "Pods":
        return f"{name}: {start}; {policy.start} {sign} {policy.value} = {policy.limit}"
    rounding = "ceil" if goes_up else "trunc"
    product = f"{rounding}({policy.start} x (1 {sign} {policy.value}/100)) = {policy.limit}"
    return f"{name}: {start}; {product}"


# ---- the end -------------------------------------------------------------------------------------


def _end_steps(explanation: facts.Explanation) -> Iterator[Step]:
    decision, outcome = explanation.decision, explanation.outcome
    if explanation.raised_to is not None:
        text = f"from 0 it goes to minReplicas {explanation.raised_to} at least"
        yield Step("minimum", text, _RECONCILE)
    combination = explanation.combination
    is_decided = combination is None or combination.usable
    if explanation.path in ("scale", "none", "selector", "zero") or not is_decided:
        return
    if decision.binding == "scale_write":
        text = (
            f"{decision.current} -> {decision.limited} could not be written: "
            f"{explanation.scale_error}"
        )
        yield Step("rescale", text, _RECONCILE)
    elif decision.rescaled:
        yield Step("rescale", f"{decision.current} -> {decision.desired}", _RECONCILE)
    else:
        yield Step("rescale", f"none: {decision.desired} is the current size", _RECONCILE)
    if outcome.stored_change is not None:
        text = f"{outcome.stored_change:+d} spends the policies' budgets from now on"
        yield Step("budget", text, _STORE)


def _outcome_steps(explanation: facts.Explanation) -> Iterator[Step]:
    outcome, now_ms = explanation.outcome, explanation.sync_ms
    for fact in outcome.conditions:
        condition = fact.condition
        kept = "" if fact.is_set else " (from an earlier sync)"
        text = f"{condition.type} {condition.status} {condition.reason}: {condition.message}{kept}"
        yield Step("condition", text, _CONDITION)
    for event in outcome.events:
        yield Step("event", f"{event.type} {event.reason}: {event.message}", _RECONCILE)
    if outcome.error is not None:
        yield Step("error", outcome.error, _RECONCILE)
    if explanation.path != "none":
        changed = (
            "differs from the last one, so it is written" if outcome.written else "is unchanged"
        )
        desired = explanation.decision.desired
        yield Step("status", f"desiredReplicas {desired}; the status as a whole {changed}", _STATUS)
    following = explanation.scale
    if following.next_ms is not None and following.replicas is not None:
        since = show_duration(following.next_ms - now_ms)
        text = (
            f"the target's next change of size: {following.replicas} -> {following.next_replicas} "
            f"at {clock_text(following.next_ms, now_ms)}, {since} after this sync"
        )
        if following.next_foreign:
            kept = "kept" if not explanation.decision.rescaled else "decided"
            text += f": not by the rules, which {kept} {explanation.decision.desired}"
        yield Step("recorded", text)
