"""v1 with its annotations, v2alpha1 and v2beta1: every row of the conversion table."""

from __future__ import annotations

import json

import pytest

from hpabatch.model.objects.defaults import DEFAULT_METRICS, default_hpa
from hpabatch.model.objects.encode import encode_spec
from hpabatch.model.objects.hpa import (
    HPA,
    Behavior,
    ExternalMetricSource,
    MetricIdentifier,
    MetricSpec,
    MetricStatus,
    MetricTarget,
    MetricValueStatus,
    ResourceMetricSource,
    ScalingPolicy,
    ScalingRules,
)
from hpabatch.model.quantity import Quantity
from tests.model.objects.test_decode import decode

Json = dict[str, object]
Q = Quantity.parse
PREFIX = "autoscaling.alpha.kubernetes.io/"


# ---- v2beta1 ------------------------------------------------------------------------------------

SELECTOR = {"matchLabels": {"a": "b"}}
REFERENCE = {"kind": "Service", "name": "s", "apiVersion": "v1"}
FLAT: list[tuple[str, Json, Json]] = [
    ("object", {"target": REFERENCE, "metricName": "m", "targetValue": "5", "selector": SELECTOR,
                "averageValue": "2"},
     {"describedObject": REFERENCE, "metric": {"name": "m", "selector": SELECTOR},
      "target": {"type": "AverageValue", "value": "5", "averageValue": "2"}}),
    ("object", {}, {"describedObject": {"kind": "", "name": ""}, "metric": {"name": ""},
                    "target": {"type": "Value", "value": "0"}}),
    ("pods", {"metricName": "m", "selector": SELECTOR, "targetAverageValue": "5"},
     {"metric": {"name": "m", "selector": SELECTOR},
      "target": {"type": "AverageValue", "averageValue": "5"}}),
    ("resource", {"name": "cpu", "targetAverageUtilization": 50, "targetAverageValue": "5"},
     {"name": "cpu",
      "target": {"type": "Utilization", "averageValue": "5", "averageUtilization": 50}}),
    ("containerResource", {"name": "cpu", "container": "app", "targetAverageValue": "5"},
     {"name": "cpu", "container": "app",
      "target": {"type": "AverageValue", "averageValue": "5"}}),
    ("external", {"metricName": "m", "metricSelector": SELECTOR, "targetValue": "5",
                  "targetAverageValue": "2"},
     {"metric": {"name": "m", "selector": SELECTOR},
      "target": {"type": "Value", "value": "5", "averageValue": "2"}}),
]  # fmt: skip


@pytest.mark.parametrize(("member", "flat", "nested"), FLAT)
def test_metrics_of_v2beta1_are_those_of_v2(member: str, flat: Json, nested: Json) -> None:
    """Types of targets, which follow from their values, are those of stored specs."""
    hpa, problems = decode({"metrics": [{"type": "T", member: flat}]}, "autoscaling/v2beta1")
    assert problems == []
    assert encode_spec(hpa.spec)["metrics"] == [{"type": "T", member: nested}]


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


def alpha(metric: Json) -> tuple[MetricSpec, list[str]]:
    hpa, problems = decode({"metrics": [metric]}, "autoscaling/v2alpha1")
    return hpa.spec.metrics[0], problems


def test_v2alpha1_knows_three_metric_kinds_without_selectors() -> None:
    metric, problems = alpha(
        {"type": "Object",
         "object": {"target": {"kind": "S", "name": "s"}, "metricName": "m", "targetValue": "5",
                    "selector": {}, "averageValue": "2"}},
    )  # fmt: skip
    assert metric.object is not None
    assert metric.object.target == MetricTarget("Value", value=Q("5"))
    assert problems == [
        "warning: spec.metrics[0].object.selector: unknown field, ignored",
        "warning: spec.metrics[0].object.averageValue: unknown field, ignored",
    ]
    metric, problems = alpha(
        {"type": "Pods", "pods": {"metricName": "m", "targetAverageValue": "5"}}
    )
    assert (metric.pods is not None, problems) == (True, [])
    metric, problems = alpha(
        {"type": "Resource", "resource": {"name": "cpu", "targetAverageUtilization": 5}}
    )
    assert (metric.resource is not None, problems) == (True, [])
    metric, problems = alpha({"external": {}, "containerResource": {}})
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
    current = MetricValueStatus(average_utilization=5)
    assert hpa.status.current_metrics == (MetricStatus("Resource", name="cpu", current=current),)


def test_v1_has_no_metrics_field() -> None:
    _, problems = decode({"metrics": []}, "autoscaling/v1", status={"conditions": []})
    assert problems == [
        "warning: spec.metrics: unknown field, ignored",
        "warning: status.conditions: unknown field, ignored",
    ]
