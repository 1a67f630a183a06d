"""HPA status as JSON of autoscaling/v2, field by field as the API server writes it.

Follows k8s.io/api autoscaling/v2 types.go: the order of the fields, and which are left out when
they are empty.
"""

from __future__ import annotations

from hpabatch.model.objects.codec import encode
from hpabatch.model.objects.hpa import (
    MEMBERS,
    Condition,
    CrossVersionObjectReference,
    HPAStatus,
    MetricIdentifier,
    MetricStatus,
)


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
        fields["conditions"] = [_condition(condition) for condition in status.conditions]
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


def _condition(condition: Condition) -> dict[str, object]:
    """Encode a condition; a time that is not set is null, as Go writes a zero metav1.Time."""
    fields: dict[str, object] = {
        "type": condition.type,
        "status": condition.status,
        "lastTransitionTime": condition.last_transition_time,
    }
    if condition.reason:
        fields["reason"] = condition.reason
    if condition.message:
        fields["message"] = condition.message
    return fields
