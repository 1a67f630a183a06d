"""Explanation of a metric's proposal: its pods, ratios, substitutions and guards.

Ratios, steps and proposals are those of the decision. What it does not keep (the sums over the
pods, what missing and unready ones were taken for) comes from the rules' own sums.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hpabatch.engine.explain import facts
from hpabatch.engine.explain.sync import Sync
from hpabatch.layout import codes
from hpabatch.layout.switches import (
    AVERAGES_CLAMPED,
    MISSING_CHARGED_BY_TARGET,
    RATIO_ONE_ADDS_NOTHING,
    TOTALS_CLAMPED,
)
from hpabatch.model import messages
from hpabatch.model.objects.describe import metric_name, metric_subject
from hpabatch.model.objects.hpa import MetricSpec
from hpabatch.rules.combine import combine_metrics, tolerance_of
from hpabatch.rules.controller import has_switch
from hpabatch.rules.numbers import add64, ceil_to_int32, div64, divide, mul64
from hpabatch.rules.pods import is_initialising, is_running_and_ready
from hpabatch.rules.replicas import (
    Tolerance,
    is_within_tolerance,
    sum_for_average,
    sum_for_value,
    utilization_of,
)
from hpabatch.rules.statistics import PodStatistics, collect_statistics, count_pods, pod_group

DELETING = "deleting"
PENDING = "pending"
NO_SAMPLE = "no_sample"
NO_READY_CONDITION = "no_ready_condition"
NOT_STARTED = "not_started"
NOT_READY = "not_ready"
SAMPLE_TOO_EARLY = "sample_too_early"
NEVER_READY = "never_ready"
NOT_CACHED = "not_cached"
NOT_RUNNING_AND_READY = "not_running_and_ready"

_GROUP_NAMES = {
    codes.GROUP_READY: facts.READY,
    codes.GROUP_UNREADY: facts.UNREADY,
    codes.GROUP_MISSING: facts.MISSING,
    codes.GROUP_IGNORED: facts.IGNORED,
}
_PHASES = {code: phase for phase, code in codes.PHASES.items()}
_READINESS = {code: status for status, code in codes.READINESS.items()}
_FROM_PODS = (codes.RESOURCE_UTILIZATION, codes.RESOURCE_AVERAGE, codes.PODS_AVERAGE)
_BY_VALUE = (codes.OBJECT_VALUE, codes.EXTERNAL_VALUE)


def explain_metrics(sync: Sync) -> tuple[tuple[facts.MetricFact, ...], facts.Combination | None]:
    """Return how each metric of the spec was computed, and how they combined; None: not asked."""
    metrics = sync.metrics()
    if any(_said(sync, m).code == codes.METRIC_NOT_COMPUTED for m, _ in metrics):
        return (), None
    found = tuple(_explain_metric(sync, k + 1, m, s) for k, (m, s) in enumerate(metrics))
    combined = combine_metrics(
        sync.fleet, sync.controller, sync.spec, sync.t, int(sync.tick.replicas), sync.results
    )
    failures = [metric.failure for metric in found if metric.failure is not None]
    error = None
    if failures:
        error = messages.invalid_metrics(len(failures), len(found), failures[0].error)
    return found, facts.Combination(
        count=len(found),
        failed=int(combined.invalid),
        largest=int(combined.replicas),
        winner=None if combined.metric < 0 else int(combined.metric) + 1,
        usable=bool(combined.usable),
        error=error,
    )


def _said(sync: Sync, m: int) -> Any:
    return sync.results.metrics[sync.answer_row(m)]


def _explain_metric(sync: Sync, number: int, m: int, metric: MetricSpec) -> facts.MetricFact:
    packed, said = sync.fleet.metrics[m], _said(sync, m)
    kind, profile = int(packed.kind), sync.reader.profile
    member = metric.resource or metric.container_resource
    known = kind != codes.METRIC_UNUSABLE
    by_percent = kind == codes.RESOURCE_UTILIZATION
    fact = facts.MetricFact(
        number=number,
        type=metric.type,
        subject=metric_subject(metric),
        name=metric_name(metric, kind, profile.container_metric_named),
        target=_TARGETS.get(kind, ""),
        target_milli=int(packed.target_milli) if known and not by_percent else None,
        target_pct=int(packed.target_pct) if by_percent else None,
        is_memory=member is not None and member.name == "memory",
        step=codes.STEPS[int(said.step)],
        proposal=int(said.proposal),
    )
    if said.code != codes.METRIC_OK:
        told = sync.reader.failure(sync.words, m, sync.t)
        reason = codes.CONDITIONS[sync.reader.failed_condition(m)].reason
        cause = codes.METRIC_ERRORS[int(said.code)]
        failure = facts.Failure(cause, reason, told.event, told.error)
        fact = replace(fact, proposal=None, failure=failure)
    if kind in _FROM_PODS:
        return _from_pods(sync, m, fact)
    return _from_total(sync, m, fact) if known else fact


_TARGETS = {
    codes.RESOURCE_UTILIZATION: "averageUtilization",
    codes.RESOURCE_AVERAGE: "averageValue",
    codes.PODS_AVERAGE: "averageValue",
    codes.OBJECT_VALUE: "value",
    codes.OBJECT_AVERAGE: "averageValue",
    codes.EXTERNAL_VALUE: "value",
    codes.EXTERNAL_AVERAGE: "averageValue",
}


# ---- Resource, ContainerResource and Pods metrics ------------------------------------------------


def _from_pods(sync: Sync, m: int, fact: facts.MetricFact) -> facts.MetricFact:
    """Return a metric of pods with its groups and, where it was computed, its ratios."""
    packed, said = sync.fleet.metrics[m], _said(sync, m)
    if sync.fleet.answers[sync.answer_row(m)].code != codes.METRIC_OK:
        return fact  # the fetch failed before any pod was looked at
    # Releases before that rule charge a missing pod its request, whatever the target.
    by_target = has_switch(sync.controller, MISSING_CHARGED_BY_TARGET)
    charged_pct = int(packed.target_pct) if by_target else 100
    pods = collect_statistics(
        sync.fleet, sync.t, int(packed.stream), bool(packed.is_cpu), charged_pct, sync.controller
    )
    counts = facts.Counts(*(int(n) for n in pods[:5]))
    explained = (_explain_pod(sync, m, k, row) for k, row in enumerate(sync.rows))
    fact = replace(fact, pods=tuple(p for p in explained if p is not None), counts=counts)
    if said.code != codes.METRIC_OK:
        return fact
    average = int(said.average_milli)
    if fact.target_pct is not None:
        percent, usage = int(said.utilization_pct), int(pods.usage_milli)
        ratio = float(divide(float(percent), float(fact.target_pct)))
        request = int(pods.request_milli)
        first = facts.Ratio(usage, request, int(pods.ready), percent, average, ratio)
    else:  # samples of pods that the cache lacks count in an average
        usage = int(add64(int(pods.usage_milli), int(pods.stray_milli)))
        ratio = float(divide(float(average), float(fact.target_milli or 0)))
        first = facts.Ratio(usage, None, int(pods.ready + pods.stray), None, average, ratio)
    fact = _with_second(sync, m, replace(fact, first=first, multiplier=int(pods.ready)), pods)
    ratio = float(said.ratio)
    wanted = int(ceil_to_int32(ratio * (fact.multiplier or 0)))
    return replace(fact, tolerance=_tolerance(sync, ratio), wanted=wanted)


def _with_second(
    sync: Sync, m: int, fact: facts.MetricFact, pods: PodStatistics
) -> facts.MetricFact:
    """Add what missing and unready pods were taken for, and the ratio with them."""
    first, ratio = fact.first, float(_said(sync, m).ratio)
    assert first is not None
    counts_unready = pods.unready > 0 and first.ratio > 1.0
    if not counts_unready and pods.missing == 0:
        return fact
    moved = first.ratio < 1.0 or first.ratio > 1.0
    if fact.target_pct is None and not has_switch(sync.controller, RATIO_ONE_ADDS_NOTHING):
        moved = True
    missing = int(pods.missing) if moved else 0
    charge = 0
    if missing and first.ratio < 1.0:
        by_target = int(mul64(missing, fact.target_milli or 0))
        charge = by_target if fact.target_pct is None else int(pods.charge_milli)
    taken = facts.Substitution(missing, charge, int(pods.unready) if counts_unready else 0)
    usage = int(add64(first.usage_milli, charge))
    entries = int(pods.ready + pods.stray) + taken.missing + taken.unready
    request = first.request_milli
    if request is None:
        second = facts.Ratio(usage, None, entries, None, int(div64(usage, entries)), ratio)
    else:
        request = int(add64(request, int(pods.missing_request_milli) if taken.missing else 0))
        request = int(add64(request, int(pods.unready_request_milli) if taken.unready else 0))
        percent = int(utilization_of(usage, request))
        second = facts.Ratio(usage, request, entries, percent, None, ratio)
    return replace(fact, substitution=taken, second=second, multiplier=entries)


def _tolerance(sync: Sync, ratio: float) -> facts.Tolerance:
    test: Tolerance = tolerance_of(sync.controller, sync.spec)
    by_bounds = bool(test.by_bounds)
    return facts.Tolerance(
        ratio=ratio,
        low=1.0 - float(test.down),
        high=1.0 + float(test.up),
        deviation=None if by_bounds else abs(1.0 - ratio),
        most=None if by_bounds else float(test.up),
        within=bool(is_within_tolerance(ratio, test)),
    )


# ---- Object and External metrics -----------------------------------------------------------------


def _from_total(sync: Sync, m: int, fact: facts.MetricFact) -> facts.MetricFact:
    """Return an Object or External metric with its values and ratio."""
    kind, answer = int(sync.fleet.metrics[m].kind), sync.fleet.answers[sync.answer_row(m)]
    if answer.code != codes.METRIC_OK:
        return fact
    values, first, last = sync.fleet.values_milli, int(answer.first_value), int(answer.last_value)
    total = int(values[first])
    if kind == codes.EXTERNAL_VALUE:
        clamped = has_switch(sync.controller, TOTALS_CLAMPED)
        total = int(sum_for_value(values, first, last, clamped))
    elif kind == codes.EXTERNAL_AVERAGE:
        clamped = has_switch(sync.controller, AVERAGES_CLAMPED)
        total = int(sum_for_average(values, first, last, clamped))
    values_milli = tuple(int(v) for v in values[first:last])
    fact = replace(fact, values_milli=values_milli, total_milli=total)
    return _value_end(sync, m, fact) if kind in _BY_VALUE else _average_end(sync, m, fact)


def _value_end(sync: Sync, m: int, fact: facts.MetricFact) -> facts.MetricFact:
    """Add the ratio of a plain value; from zero it is the proposal itself, without tolerance."""
    said, total = _said(sync, m), fact.total_milli or 0
    ratio = float(divide(float(total), float(fact.target_milli or 0)))
    fact = replace(fact, first=facts.Ratio(total, None, 1, None, None, ratio))
    if sync.tick.replicas == 0:
        return replace(fact, wanted=int(said.proposal))
    fact = replace(fact, tolerance=_tolerance(sync, ratio))
    if said.step == codes.STEP_TOLERANCE:
        return fact
    known, ready = (int(n) for n in count_pods(sync.fleet, sync.t))
    counts = facts.Counts(ready, known - ready, 0, 0, 0)
    fact = replace(fact, pods=_explain_counted(sync), counts=counts)
    if said.code != codes.METRIC_OK:
        return fact
    return replace(fact, multiplier=ready, wanted=int(said.proposal))


def _average_end(sync: Sync, m: int, fact: facts.MetricFact) -> facts.MetricFact:
    """Add the ratio of a total to the target of all replicas, and the total divided by it."""
    said, replicas, total = _said(sync, m), int(sync.tick.status_replicas), fact.total_milli or 0
    ratio = float(said.ratio)
    return replace(
        fact,
        status_replicas=replicas,
        first=facts.Ratio(total, None, replicas, None, int(said.average_milli), ratio),
        tolerance=_tolerance(sync, ratio),
        wanted=int(said.proposal) if said.step == codes.STEP_RATIO else None,
    )


# ---- groups of pods ------------------------------------------------------------------------------


def _explain_counted(sync: Sync) -> tuple[facts.PodFact, ...]:
    """Return the pods as a plain value looks at them: Running and Ready, or not."""
    found = []
    for k, row in enumerate(sync.rows):
        state = int(sync.fleet.row_state[row])
        if state < 0:
            continue
        pod = sync.fleet.states[state]
        counts = is_running_and_ready(int(pod.pod_flags))
        group, why = (facts.READY, "") if counts else (facts.UNREADY, NOT_RUNNING_AND_READY)
        found.append(_pod_fact(sync, sync.pods[k], group, why, pod))
    return tuple(found)


def _explain_pod(sync: Sync, m: int, k: int, row: int) -> facts.PodFact | None:
    """Return one row's pod; None: the controller sees neither pod nor sample."""
    fleet, metric = sync.fleet, sync.fleet.metrics[m]
    stream = fleet.streams[int(metric.stream)]
    state, sample = int(fleet.row_state[row]), row + int(stream.sample_offset)
    present = fleet.present[sample] != 0
    value = int(fleet.value_milli[sample]) if present else None
    if state < 0:
        name = sync.pods[k]
        return facts.PodFact(name, facts.STRAY, NOT_CACHED, value_milli=value) if present else None
    is_cpu = bool(metric.is_cpu)
    group = int(pod_group(fleet, state, sample, is_cpu, sync.now_ms, sync.controller))
    pod, request = fleet.states[state], None
    if metric.kind == codes.RESOURCE_UTILIZATION:
        asked = fleet.requests[state + int(stream.request_offset)]
        request = int(asked.milli) if asked.known else None
    timing = fleet.timing[sample] if present else None
    return replace(
        _pod_fact(sync, sync.pods[k], _GROUP_NAMES[group], _why(sync, pod, group), pod),
        value_milli=value,
        sample_ms=None if timing is None else int(timing.ts_ms),
        window_ms=None if timing is None else int(timing.window_ms),
        request_milli=request,
    )


def _pod_fact(sync: Sync, name: str, group: str, why: str, pod: Any) -> facts.PodFact:
    """Return what the controller's cache shows of a pod, from its POD_STATE record."""
    flags = int(pod.pod_flags)
    return facts.PodFact(
        pod=name,
        owner=sync.foreign.get(name, ""),
        group=group,
        why=why,
        phase=_PHASES.get(flags & codes.PHASE_MASK, ""),
        ready=_READINESS.get(flags & codes.READY_MASK),
        deleting=flags & codes.POD_DELETING != 0,
        started_ms=int(pod.start_ms) if flags & codes.POD_STARTED else None,
        transition_ms=int(pod.transition_ms) if flags & codes.READY_MASK else None,
    )


def _why(sync: Sync, pod: Any, group: int) -> str:
    """Return the name of the test that put a pod into its group, in the order of the tests."""
    flags = int(pod.pod_flags)
    phase, ready = flags & codes.PHASE_MASK, flags & codes.READY_MASK
    if group == codes.GROUP_READY:
        return ""
    if group == codes.GROUP_IGNORED:
        return DELETING if flags & codes.POD_DELETING else _PHASES[phase].lower()
    if group == codes.GROUP_MISSING:
        return NO_SAMPLE
    if phase == codes.PHASE_PENDING:
        return PENDING
    if ready == codes.READY_ABSENT:
        return NO_READY_CONDITION
    if not flags & codes.POD_STARTED:
        return NOT_STARTED
    if is_initialising(flags, int(pod.start_ms), sync.now_ms, sync.controller):
        return NOT_READY if ready == codes.READY_FALSE else SAMPLE_TOO_EARLY
    return NEVER_READY
