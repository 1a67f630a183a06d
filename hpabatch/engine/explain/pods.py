"""Groups of the pods of a metric, and the test that put each pod there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hpabatch.engine.explain import facts
from hpabatch.engine.explain.sync import Sync
from hpabatch.layout import codes
from hpabatch.rules.pods import is_initialising, is_running_and_ready
from hpabatch.rules.statistics import pod_group

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

_GROUPS = {
    codes.GROUP_READY: facts.READY,
    codes.GROUP_UNREADY: facts.UNREADY,
    codes.GROUP_MISSING: facts.MISSING,
    codes.GROUP_IGNORED: facts.IGNORED,
}
_PHASES = {code: phase for phase, code in codes.PHASES.items()}
_READINESS = {code: status for status, code in codes.READINESS.items()}


def explain_pods(sync: Sync, m: int) -> tuple[facts.PodFact, ...]:
    """Return the pods that metric row m looked at, in the order of the tick's rows."""
    found = [_explain_pod(sync, m, k, row) for k, row in enumerate(sync.rows)]
    return tuple(fact for fact in found if fact is not None)


def explain_counted(sync: Sync) -> tuple[facts.PodFact, ...]:
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
        _pod_fact(sync, sync.pods[k], _GROUPS[group], _why(sync, pod, group), pod),
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
