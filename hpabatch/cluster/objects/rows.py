"""Conversion of cluster state to values that the history's tables can hold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, NamedTuple

from hpabatch.cluster.objects.types import ContainerSpec, PodObject, PodTemplate
from hpabatch.history.checks import YEAR_2000_MS, YEAR_2100_MS
from hpabatch.history.columns import CPU_MILLI_MAX, INT32_MAX, MEMORY_MILLI_MAX
from hpabatch.model.objects.decode_fields import api_time_ms
from hpabatch.model.objects.encode import encode_status
from hpabatch.model.objects.hpa import HPAStatus
from hpabatch.model.quantity import Quantity

PHASES: Final = frozenset({"Pending", "Running", "Succeeded", "Failed", "Unknown", ""})
READY: Final = frozenset({"True", "False", "Unknown"})
HASH_LABELS: Final = {"pod-template-hash": "Deployment", "rollouts-pod-template-hash": "Rollout"}
"""Labels in which a Deployment's, and an Argo Rollout's, pods carry the end of their ReplicaSet's
name; and the kind of such a workload."""


class Outcome(NamedTuple):
    """Outcome of a metrics API's response for one metric of an HPA's spec, in one pass.

    `answer` is ok, empty or error; empty: a list without items, or a response that lists none of
    the HPA's pods. `fetched_ms` None: nothing was requested (`error` has the reason).
    """

    answer: str
    error: str = ""
    fetched_ms: int | None = None


class RequestRow(NamedTuple):
    """A row of `pod_requests` without its pod and time."""

    container: str
    kind: str
    place: int
    cpu_milli: int | None = None
    memory_milli: int | None = None
    cpu_limit_milli: int | None = None
    memory_limit_milli: int | None = None


class PodState(NamedTuple):
    """A row of `pod_states` without its pod and time."""

    phase: str
    ready: str | None
    transition_ms: int | None


class ShownStatus(NamedTuple):
    """A row of `hpa_status` without its HPA and time."""

    current: int
    desired: int
    metrics: str | None
    conditions: str
    last_scale_ms: int | None
    generation: int | None


def compact_json(value: object) -> str:
    """Return JSON without spaces."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def labels_text(labels: Mapping[str, str]) -> str:
    """Return labels as JSON, sorted: equal ones give equal strings."""
    return json.dumps(labels, separators=(",", ":"), ensure_ascii=False, sort_keys=True)


def target_of(pod: PodObject) -> str | None:
    """Return the name of the workload that owns a pod, None for a bare one."""
    workload = workload_of(pod)
    return None if workload is None else workload[1]


def workload_of(pod: PodObject) -> tuple[str, str] | None:
    """Return kind and name of the workload that owns a pod, None for a bare one.

    A ReplicaSet whose name ends in the hash of the pod's label belongs to a Deployment or Rollout,
    which is the workload. Every other controller is the workload itself.
    """
    if pod.owner is None:
        return None
    kind, _, name = pod.owner.partition("/")
    if kind == "ReplicaSet":
        for label, workload_kind in HASH_LABELS.items():
            suffix = f"-{pod.labels.get(label, '')}"
            if len(suffix) > 1 and len(name) > len(suffix) and name.endswith(suffix):
                return workload_kind, name[: -len(suffix)]
    return kind, name


def state_of(pod: PodObject) -> PodState:
    """Return a pod's state; an unknown phase or readiness becomes Unknown."""
    phase = pod.phase if pod.phase in PHASES else "Unknown"
    ready = pod.ready if pod.ready is None or pod.ready in READY else "Unknown"
    return PodState(phase, ready, None if ready is None else time_or_none(pod.transition_ms))


def request_rows(template: PodTemplate) -> tuple[RequestRow, ...]:
    """Return the requests and limits of a pod's spec as rows."""
    rows = [_container(c, "app", k) for k, c in enumerate(template.containers)]
    rows += [
        _container(c, "sidecar" if c.requests.is_sidecar else "init", k)
        for k, c in enumerate(template.init_containers)
    ]
    if template.pod_level is not None or template.pod_limits is not None:
        rows.append(_amounts("", "pod", 0, template.pod_level or {}, template.pod_limits or {}))
    if template.overhead is not None:
        rows.append(_amounts("", "overhead", 0, template.overhead, {}))
    return tuple(rows)


def shown_status(status: HPAStatus) -> ShownStatus | None:
    """Return a status as a row, None if no controller has written it yet."""
    if status.is_unwritten:
        return None
    fields = encode_status(status)
    metrics = fields["currentMetrics"]
    return ShownStatus(
        replicas(status.current_replicas),
        replicas(status.desired_replicas),
        None if metrics is None else compact_json(metrics),
        compact_json(fields.get("conditions", [])),
        instant_or_none(status.last_scale_time),
        status.observed_generation,
    )


def instant_or_none(text: str | None) -> int | None:
    """Return an RFC 3339 timestamp in ms, None if it is unset or outside a table's range."""
    if text is None:
        return None
    try:
        return time_or_none(api_time_ms(text))
    except ValueError:
        return None


def time_or_none(ms: int | None) -> int | None:
    """Return a timestamp, None if it is outside a table's range."""
    return ms if ms is not None and YEAR_2000_MS <= ms < YEAR_2100_MS else None


def replicas(count: int) -> int:
    """Return a number of replicas within a table's range."""
    return min(max(count, 0), INT32_MAX)


def _container(spec: ContainerSpec, kind: str, index: int) -> RequestRow:
    return _amounts(spec.requests.name, kind, index, spec.requests.requests, spec.limits)


def _amounts(
    name: str,
    kind: str,
    index: int,
    requests: Mapping[str, Quantity],
    limits: Mapping[str, Quantity],
) -> RequestRow:
    return RequestRow(
        name,
        kind,
        index,
        _milli(requests, "cpu", CPU_MILLI_MAX),
        _milli(requests, "memory", MEMORY_MILLI_MAX),
        _milli(limits, "cpu", CPU_MILLI_MAX),
        _milli(limits, "memory", MEMORY_MILLI_MAX),
    )


def _milli(amounts: Mapping[str, Quantity], resource: str, most: int) -> int | None:
    quantity = amounts.get(resource)
    return None if quantity is None else min(max(quantity.milli(), 0), most)
