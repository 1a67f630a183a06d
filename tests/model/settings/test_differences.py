"""Differences of specs in words, and names of metrics."""

from __future__ import annotations

from dataclasses import replace

from hpabatch.model.objects.decode import decode_hpa
from hpabatch.model.objects.hpa import HPASpec, MetricSpec
from hpabatch.model.settings.patch import metric_name, spec_differences
from tests.real.kubectl_objects import (
    BEHAVIOR,
    CONTAINER,
    CPU,
    OBJECT_VALUE,
    QUEUE_VALUE,
    RPS,
    Json,
    spec,
)


def decoded(fields: Json) -> HPASpec:
    document = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "spec": fields}
    hpa, problems = decode_hpa(document)
    assert not problems
    return hpa.spec


def test_every_field_is_told_old_to_new() -> None:
    old = decoded(spec(CPU, RPS, behavior=BEHAVIOR))
    assert spec_differences(old, old) == []
    other = decoded(spec(CPU, low=2, high=12))
    assert spec_differences(old, other)[:2] == ["minReplicas 1 -> 2", "maxReplicas 10 -> 12"]
    told = spec_differences(old, other)
    assert "metrics[1].type Pods -> none" in told
    assert "behavior.scaleUp.selectPolicy Disabled -> none" in told
    assert "behavior.scaleDown.policies[0].value 4 -> none" in told


def test_a_target_counts_and_its_version_does_not() -> None:
    old = decoded(spec(CPU))
    reference = replace(old.scale_target_ref, name="api", api_version="apps/v1beta1")
    assert spec_differences(old, replace(old, scale_target_ref=reference)) == [
        "scaleTargetRef.name web -> api"
    ]


def test_what_is_empty_is_not_what_is_absent() -> None:
    old, new = decoded(spec(CPU)), decoded(spec(CPU, behavior={"scaleUp": {"policies": []}}))
    assert spec_differences(old, new) == ["behavior.scaleUp.policies none -> []"]
    assert spec_differences(old, decoded(spec(CPU, behavior={}))) == ["behavior none -> {}"]


def test_metrics_are_named_by_type_and_name() -> None:
    found = decoded(spec(CPU, CONTAINER, RPS, OBJECT_VALUE, QUEUE_VALUE)).metrics
    assert [metric_name(one) for one in found] == [
        "Resource cpu",
        "ContainerResource cpu of app",
        "Pods requests_per_second",
        "Object hits",
        "External queue_length",
    ]
    assert metric_name(MetricSpec("Pods")) == "Pods"
