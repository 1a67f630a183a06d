"""HPAs to the canonical JSON of autoscaling/v2: fixed field order, absent fields left out."""

from __future__ import annotations

import json
from collections.abc import Mapping

from hpabatch.model.objects.hpa import (
    HPA,
    Behavior,
    CrossVersionObjectReference,
    HPASpec,
    LabelSelector,
    MetricIdentifier,
    MetricSpec,
    MetricTarget,
    ScalingRules,
)
from hpabatch.model.quantity import Quantity


def spec_to_json(hpa: HPA) -> str:
    """Return the spec as compact v2 JSON, quantities as Kubernetes prints them.

    `hpa_from_json` reads it back to an equal spec, whichever version the HPA came from.
    """
    return json.dumps(encode_spec(hpa.spec), separators=(",", ":"), ensure_ascii=False)


def encode_hpa(hpa: HPA) -> dict[str, object]:
    """Return an autoscaling/v2 document with metadata and spec, without status."""
    metadata = compact(
        {
            "name": hpa.name or None,
            "namespace": hpa.namespace or None,
            "uid": hpa.uid or None,
            "generation": hpa.generation,
            "labels": dict(hpa.labels) or None,
            "annotations": dict(hpa.annotations) or None,
        }
    )
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": metadata,
        "spec": encode_spec(hpa.spec),
    }


def encode_spec(spec: HPASpec) -> dict[str, object]:
    """Return the spec as a v2 JSON object."""
    return compact(
        {
            "scaleTargetRef": reference(spec.scale_target_ref),
            "minReplicas": spec.min_replicas,
            "maxReplicas": spec.max_replicas,
            "metrics": [_metric(metric) for metric in spec.metrics] or None,
            "behavior": None if spec.behavior is None else _behavior(spec.behavior),
        }
    )


def compact(fields: Mapping[str, object]) -> dict[str, object]:
    """Leave out what is None; print quantities."""
    return {
        name: str(value) if isinstance(value, Quantity) else value
        for name, value in fields.items()
        if value is not None
    }


def reference(reference: CrossVersionObjectReference) -> dict[str, object]:
    """Return a reference to an object; without an API version where it has none."""
    return compact(
        {
            "kind": reference.kind,
            "name": reference.name,
            "apiVersion": reference.api_version or None,
        }
    )


def _metric(metric: MetricSpec) -> dict[str, object]:
    """Encode a metric with every member that is set, one or several."""
    fields: dict[str, object] = {"type": metric.type}
    if metric.object is not None:
        fields["object"] = {
            "describedObject": reference(metric.object.described_object),
            "metric": identifier(metric.object.metric),
            "target": _target(metric.object.target),
        }
    if metric.pods is not None:
        fields["pods"] = {
            "metric": identifier(metric.pods.metric),
            "target": _target(metric.pods.target),
        }
    if metric.resource is not None:
        fields["resource"] = {
            "name": metric.resource.name,
            "target": _target(metric.resource.target),
        }
    if metric.container_resource is not None:
        fields["containerResource"] = {
            "name": metric.container_resource.name,
            "container": metric.container_resource.container,
            "target": _target(metric.container_resource.target),
        }
    if metric.external is not None:
        fields["external"] = {
            "metric": identifier(metric.external.metric),
            "target": _target(metric.external.target),
        }
    return fields


def identifier(metric: MetricIdentifier) -> dict[str, object]:
    """Return a metric's name and, if it has one, its selector."""
    selector = None if metric.selector is None else _selector(metric.selector)
    return compact({"name": metric.name, "selector": selector})


def _selector(selector: LabelSelector) -> dict[str, object]:
    expressions = [
        compact({"key": item.key, "operator": item.operator, "values": list(item.values) or None})
        for item in selector.match_expressions
    ]
    return compact(
        {
            "matchLabels": dict(selector.match_labels) or None,
            "matchExpressions": expressions or None,
        }
    )


def _target(target: MetricTarget) -> dict[str, object]:
    return compact(
        {
            "type": target.type,
            "value": target.value,
            "averageValue": target.average_value,
            "averageUtilization": target.average_utilization,
        }
    )


def _behavior(behavior: Behavior) -> dict[str, object]:
    return compact({"scaleUp": _rules(behavior.scale_up), "scaleDown": _rules(behavior.scale_down)})


def _rules(rules: ScalingRules | None) -> dict[str, object] | None:
    """Encode one direction; an empty list of policies is not an absent one."""
    if rules is None:
        return None
    policies = None
    if rules.policies is not None:
        policies = [
            {"type": item.type, "value": item.value, "periodSeconds": item.period_seconds}
            for item in rules.policies
        ]
    return compact(
        {
            "stabilizationWindowSeconds": rules.stabilization_window_seconds,
            "selectPolicy": rules.select_policy,
            "policies": policies,
            "tolerance": rules.tolerance,
        }
    )
