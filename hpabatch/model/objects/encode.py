"""HPAs and their statuses as JSON of autoscaling/v2: fixed order, absent fields left out.

Follows k8s.io/api autoscaling/v2 types.go: the order of the fields of a status, and which are left
out when they are empty.
"""

from __future__ import annotations

import json

from hpabatch.model.objects.codec import encode
from hpabatch.model.objects.hpa import (
    HPA,
    MEMBERS,
    CrossVersionObjectReference,
    HPASpec,
    HPAStatus,
    MetricIdentifier,
    MetricStatus,
)


def spec_to_json(hpa: HPA) -> str:
    """Return the spec as compact v2 JSON, quantities as Kubernetes prints them.

    `hpa_from_json` reads it back to an equal spec, whichever version the HPA came from.
    """
    return json.dumps(encode_spec(hpa.spec), separators=(",", ":"), ensure_ascii=False)


def encode_hpa(hpa: HPA) -> dict[str, object]:
    """Return an autoscaling/v2 document with metadata and spec, without status."""
    metadata = {
        "name": hpa.name or None,
        "namespace": hpa.namespace or None,
        "uid": hpa.uid or None,
        "generation": hpa.generation,
        "labels": dict(hpa.labels) or None,
        "annotations": dict(hpa.annotations) or None,
    }
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {key: value for key, value in metadata.items() if value is not None},
        "spec": encode_spec(hpa.spec),
    }


def encode_spec(spec: HPASpec) -> dict[str, object]:
    """Return the spec as a v2 JSON object."""
    return encode(spec)


def encode_status(status: HPAStatus) -> dict[str, object]:
    """Return the status as a v2 JSON object; times stay as they are given.

    `currentReplicas` is left out when it is 0, `desiredReplicas` never; `currentMetrics` is null
    when it is unset.
    """
    metrics = status.current_metrics
    fields: dict[str, object] = {
        "observedGeneration": status.observed_generation,
        "lastScaleTime": status.last_scale_time,
        "currentReplicas": status.current_replicas or None,
        "desiredReplicas": status.desired_replicas,
    }
    fields = {key: value for key, value in fields.items() if value is not None}
    fields["currentMetrics"] = None if metrics is None else [encode_metric(m) for m in metrics]
    if status.conditions:
        # A time that is not set is null, as Go writes a zero metav1.Time.
        fields["conditions"] = [
            {"type": c.type, "status": c.status, "lastTransitionTime": c.last_transition_time}
            | {name: text for name in ("reason", "message") if (text := getattr(c, name))}
            for c in status.conditions
        ]
    return fields


def encode_metric(status: MetricStatus) -> dict[str, object]:
    """Return one entry of `currentMetrics`; `{"type": ""}` for a metric that failed."""
    fields: dict[str, object] = {"type": status.type}
    if status.type not in MEMBERS:
        return fields
    member: dict[str, object] = {}
    if status.type in ("Resource", "ContainerResource"):
        member["name"] = status.name
    else:
        member["metric"] = encode(status.metric or MetricIdentifier())
    member["current"] = encode(status.current)
    if status.type == "ContainerResource":
        member["container"] = status.container
    if status.type == "Object":
        member["describedObject"] = encode(status.described_object or CrossVersionObjectReference())
    fields[MEMBERS[status.type]] = member
    return fields
