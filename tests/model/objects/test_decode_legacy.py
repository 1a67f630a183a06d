"""v1 with its annotations, v2alpha1 and v2beta1: every row of the conversion table."""

from __future__ import annotations

import json

import pytest

from hpabatch.model.objects.decode import decode_hpa
from hpabatch.model.objects.defaults import DEFAULT_METRICS, default_hpa
from hpabatch.model.objects.hpa import (
    HPA,
    Behavior,
    Condition,
    ContainerResourceMetricSource,
    CrossVersionObjectReference,
    ExternalMetricSource,
    LabelSelector,
    MetricIdentifier,
    MetricSpec,
    MetricTarget,
    ObjectMetricSource,
    PodsMetricSource,
    ResourceMetricSource,
    ScalingPolicy,
    ScalingRules,
)
from hpabatch.model.quantity import Quantity
from tests.model.objects.test_decode import decode

Json = dict[str, object]
Q = Quantity.parse
PREFIX = "autoscaling.alpha.kubernetes.io/"
SELECTOR = LabelSelector((("a", "b"),))
SELECTOR_JSON = {"matchLabels": {"a": "b"}}


def _metric(metric: Json, version: str = "v2beta1") -> tuple[MetricSpec, list[str]]:
    hpa, problems = decode({"metrics": [metric]}, f"autoscaling/{version}")
    return hpa.spec.metrics[0], problems


# ---- v2beta1 ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "target"),
    [
        ({"targetAverageUtilization": 50}, MetricTarget("Utilization", average_utilization=50)),
        ({"targetAverageValue": "5"}, MetricTarget("AverageValue", average_value=Q("5"))),
        ({"targetAverageUtilization": 50, "targetAverageValue": "5"},
         MetricTarget("Utilization", average_value=Q("5"), average_utilization=50)),
        ({}, MetricTarget("AverageValue")),
    ],
)  # fmt: skip
def test_resource_metrics(fields: Json, target: MetricTarget) -> None:
    metric, problems = _metric({"type": "Resource", "resource": {"name": "cpu", **fields}})
    assert problems == []
    assert metric == MetricSpec("Resource", resource=ResourceMetricSource("cpu", target))
    source = {"name": "cpu", "container": "app", **fields}
    metric, problems = _metric({"type": "ContainerResource", "containerResource": source})
    assert problems == []
    assert metric.container_resource == ContainerResourceMetricSource("cpu", "app", target)


def test_pods_metrics() -> None:
    metric, _ = _metric(
        {"type": "Pods",
         "pods": {"metricName": "m", "selector": SELECTOR_JSON, "targetAverageValue": "5"}}
    )  # fmt: skip
    assert metric.pods == PodsMetricSource(
        MetricIdentifier("m", SELECTOR), MetricTarget("AverageValue", average_value=Q("5"))
    )
    metric, _ = _metric({"type": "Pods", "pods": {"metricName": "m"}})
    assert metric.pods is not None
    assert metric.pods.target.average_value == Q("0")


@pytest.mark.parametrize(
    ("fields", "target"),
    [
        ({"targetValue": "5"}, MetricTarget("Value", value=Q("5"))),
        ({"targetValue": "5", "averageValue": "2"},
         MetricTarget("AverageValue", value=Q("5"), average_value=Q("2"))),
        ({"averageValue": "2"},
         MetricTarget("AverageValue", value=Q("0"), average_value=Q("2"))),
        ({}, MetricTarget("Value", value=Q("0"))),
    ],
)  # fmt: skip
def test_object_metrics_always_have_a_value(fields: Json, target: MetricTarget) -> None:
    metric, problems = _metric(
        {"type": "Object", "object": {
            "target": {"kind": "Service", "name": "s", "apiVersion": "v1"},
            "metricName": "m", "selector": SELECTOR_JSON, **fields}}
    )  # fmt: skip
    assert problems == []
    assert metric.object == ObjectMetricSource(
        CrossVersionObjectReference("Service", "s", "v1"), MetricIdentifier("m", SELECTOR), target
    )


@pytest.mark.parametrize(
    ("fields", "target"),
    [
        ({"targetValue": "5"}, MetricTarget("Value", value=Q("5"))),
        ({"targetAverageValue": "5"}, MetricTarget("AverageValue", average_value=Q("5"))),
        ({"targetValue": "5", "targetAverageValue": "2"},
         MetricTarget("Value", value=Q("5"), average_value=Q("2"))),
        ({}, MetricTarget("AverageValue")),
    ],
)  # fmt: skip
def test_external_metrics(fields: Json, target: MetricTarget) -> None:
    metric, problems = _metric(
        {"type": "External",
         "external": {"metricName": "m", "metricSelector": SELECTOR_JSON, **fields}}
    )  # fmt: skip
    assert problems == []
    assert metric.external == ExternalMetricSource(MetricIdentifier("m", SELECTOR), target)


def test_v2beta1_has_behavior_only_in_its_annotation() -> None:
    hpa, problems = decode({"behavior": {"scaleUp": {}}}, "autoscaling/v2beta1")
    assert problems == ["warning: spec.behavior: unknown field, ignored"]
    assert hpa.spec.behavior is None
    annotation = json.dumps({"ScaleUp": {"SelectPolicy": "Min"}})
    hpa, problems = decode(
        {}, "autoscaling/v2beta1", metadata={"annotations": {PREFIX + "behavior": annotation}}
    )
    assert hpa.spec.behavior == Behavior(ScalingRules(select_policy="Min", policies=()))


# ---- v2alpha1 -----------------------------------------------------------------------------------


def test_v2alpha1_knows_three_metric_kinds_without_selectors() -> None:
    metric, problems = _metric(
        {"type": "Object",
         "object": {"target": {"kind": "S", "name": "s"}, "metricName": "m", "targetValue": "5",
                    "selector": {}, "averageValue": "2"}},
        "v2alpha1",
    )  # fmt: skip
    assert metric.object is not None
    assert metric.object.target == MetricTarget("Value", value=Q("5"))
    assert problems == [
        "warning: spec.metrics[0].object.selector: unknown field, ignored",
        "warning: spec.metrics[0].object.averageValue: unknown field, ignored",
    ]
    metric, problems = _metric(
        {"type": "Pods", "pods": {"metricName": "m", "targetAverageValue": "5"}}, "v2alpha1"
    )
    assert (metric.pods is not None, problems) == (True, [])
    metric, problems = _metric(
        {"type": "Resource", "resource": {"name": "cpu", "targetAverageUtilization": 5}}, "v2alpha1"
    )
    assert (metric.resource is not None, problems) == (True, [])
    metric, problems = _metric({"external": {}, "containerResource": {}}, "v2alpha1")
    assert (metric, len(problems)) == (MetricSpec(), 2)


# ---- v1 -----------------------------------------------------------------------------------------


def _v1(spec: Json, **annotations: object) -> tuple[HPA, list[str]]:
    texts = {
        PREFIX + name.replace("_", "-"): text if isinstance(text, str) else json.dumps(text)
        for name, text in annotations.items()
    }
    return decode(spec, "autoscaling/v1", metadata={"annotations": {**texts, "kept": "yes"}})


def _cpu(percent: int) -> MetricSpec:
    target = MetricTarget("Utilization", average_utilization=percent)
    return MetricSpec("Resource", resource=ResourceMetricSource("cpu", target))


EXTERNAL = [{"type": "External", "external": {"metricName": "q", "targetValue": "5"}}]
EXTERNAL_SPEC = MetricSpec(
    "External",
    external=ExternalMetricSource(MetricIdentifier("q"), MetricTarget("Value", value=Q("5"))),
)


def test_target_cpu_utilization() -> None:
    hpa, problems = _v1({"targetCPUUtilizationPercentage": 60})
    assert (hpa.spec.metrics, problems) == ((_cpu(60),), [])
    assert default_hpa(_v1({})[0]).spec.metrics == DEFAULT_METRICS


def test_the_metrics_annotation_comes_before_the_cpu_metric() -> None:
    hpa, problems = _v1({"targetCPUUtilizationPercentage": 60}, metrics=EXTERNAL)
    assert (hpa.spec.metrics, problems) == ((EXTERNAL_SPEC, _cpu(60)), [])
    hpa, _ = _v1({}, metrics=EXTERNAL)
    assert default_hpa(hpa).spec.metrics == (EXTERNAL_SPEC,)


def test_the_behavior_annotation_in_any_case_of_its_keys() -> None:
    rules = {"STABILIZATIONWINDOWSECONDS": 30, "selectpolicy": "Min", "Tolerance": "100m",
             "Policies": [{"Type": "Pods", "value": 2, "PERIODseconds": 60}]}  # fmt: skip
    hpa, problems = _v1({}, behavior={"ScaleUp": rules, "scaleDown": None, "Other": 1})
    assert problems == []
    assert hpa.spec.behavior == Behavior(
        ScalingRules(30, "Min", (ScalingPolicy("Pods", 2, 60),), Q("100m"))
    )


@pytest.mark.parametrize("text", ["{}", "null", '{"ScaleUp": null}'])
def test_an_empty_behavior_annotation_is_no_behavior(text: str) -> None:
    hpa, problems = _v1({}, behavior=text)
    assert (hpa.spec.behavior, problems) == (None, [])


def test_status_annotations() -> None:
    hpa, problems = _v1(
        {},
        conditions=[{"type": "ScalingActive", "status": "True", "lastTransitionTime": None}],
        current_metrics=[{"type": "Resource"}],
    )
    assert problems == []
    assert hpa.status.conditions == (Condition("ScalingActive", "True"),)


def test_all_six_annotations_are_removed() -> None:
    hpa, _ = _v1(
        {}, metrics=[], current_metrics=[], conditions=[], behavior={}, scale_up_tolerance="1",
        scale_down_tolerance="1",
    )  # fmt: skip
    assert hpa.annotations == (("kept", "yes"),)
    assert hpa.spec.behavior is None  # tolerance annotations are v2beta2's


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("metrics", "[", "not JSON"),
        ("metrics", "{}", "must be a list"),
        ("metrics", '[{"type": 5}]', "must be a string"),
        ("conditions", "5", "must be a list"),
        ("conditions", '[{"lastTransitionTime": "soon"}]', "must be a time"),
        ("current_metrics", '[{"type": 5}]', "must be a string"),
        ("behavior", "[]", "not an object"),
        ("behavior", "{", "not an object"),
        ("behavior", '{"ScaleUp": 5}', "must be an object"),
    ],
)
def test_unreadable_annotations_are_ignored_with_a_warning(
    name: str, text: str, message: str
) -> None:
    hpa, (problem,) = _v1({"targetCPUUtilizationPercentage": 60}, **{name: text})
    written = PREFIX + name.replace("_", "-")
    assert problem.startswith(
        f"warning: metadata.annotations[{written}]: ignored, as the API server does: "
    )
    assert message in problem
    assert hpa.spec.metrics == (_cpu(60),)
    assert (hpa.spec.behavior, hpa.status.conditions) == (None, ())


def test_v1_status() -> None:
    hpa, problems = decode(
        {}, "autoscaling/v1", status={"currentReplicas": 2, "currentCPUUtilizationPercentage": 5}
    )
    assert (hpa.status.current_replicas, problems) == (2, [])


def test_v1_has_no_metrics_field() -> None:
    _, problems = decode({"metrics": []}, "autoscaling/v1", status={"conditions": []})
    assert problems == [
        "warning: spec.metrics: unknown field, ignored",
        "warning: status.conditions: unknown field, ignored",
    ]


def test_metadata_is_not_needed() -> None:
    assert decode_hpa({"apiVersion": "autoscaling/v1", "spec": {}})[1] == []
