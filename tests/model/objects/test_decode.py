"""Decoding of v2 and v2beta2, wrong JSON types, unknown fields, and the way back to JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpabatch.model.objects.decode import decode_hpa, hpa_from_json
from hpabatch.model.objects.decode_fields import Severity, show_value
from hpabatch.model.objects.defaults import default_hpa
from hpabatch.model.objects.encode import encode_hpa, spec_to_json
from hpabatch.model.objects.hpa import (
    HPA,
    Behavior,
    Condition,
    HPAStatus,
    MetricTarget,
    ResourceMetricSource,
    ScalingPolicy,
    ScalingRules,
)
from hpabatch.model.quantity import Quantity

Json = dict[str, object]
Q = Quantity.parse


def decode(spec: object, version: str = "autoscaling/v2", **other: object) -> tuple[HPA, list[str]]:
    """Decode a document and return its problems as text."""
    hpa, problems = decode_hpa(
        {"apiVersion": version, "kind": "HorizontalPodAutoscaler", "spec": spec, **other}
    )
    return hpa, [f"{item.severity}: {item}" for item in problems]


FULL: Json = {
    "scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"},
    "minReplicas": 2,
    "maxReplicas": 10,
    "metrics": [
        {"type": "Resource", "resource": {
            "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
        {"type": "ContainerResource", "containerResource": {
            "name": "memory", "container": "app",
            "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
        {"type": "Pods", "pods": {
            "metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": "5"}}},
        {"type": "Object", "object": {
            "describedObject": {"kind": "Service", "name": "s"},
            "metric": {"name": "m", "selector": {}},
            "target": {"type": "Value", "value": "10k"}}},
        {"type": "External", "external": {
            "metric": {"name": "q", "selector": {
                "matchLabels": {"b": "2", "a": "1"},
                "matchExpressions": [{"key": "k", "operator": "In", "values": ["x", "y"]},
                                     {"key": "j", "operator": "Exists"}]}},
            "target": {"type": "Value", "value": "1500m"}}},
    ],
    "behavior": {
        "scaleUp": {"stabilizationWindowSeconds": 0, "selectPolicy": "Min",
                    "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}],
                    "tolerance": "50m"},
        "scaleDown": {"policies": []},
    },
}  # fmt: skip


def test_every_field_of_v2_is_read_and_written_in_its_order() -> None:
    hpa, problems = decode(FULL)
    assert problems == []
    assert spec_to_json(hpa) == json.dumps(FULL, separators=(",", ":"))
    assert spec_to_json(HPA()) == '{"scaleTargetRef":{"kind":"","name":""},"maxReplicas":0}'
    assert hpa.spec.metrics[0].resource == ResourceMetricSource(
        "cpu", MetricTarget("Utilization", average_utilization=50)
    )
    assert hpa.spec.behavior is not None
    assert hpa.spec.behavior.scale_up is not None
    assert hpa.spec.behavior.scale_up.policies == (ScalingPolicy("Pods", 4, 15),)


def test_metadata_and_status() -> None:
    hpa, problems = decode(
        {},
        metadata={
            "name": "web", "namespace": "shop", "uid": "u", "generation": 3,
            "generateName": "web-", "creationTimestamp": "2026-01-31T12:00:00Z",
            "labels": {"a": "b", "n": None}, "annotations": {"c": "d"}, "ownerReferences": [5],
        },
        status={
            "currentReplicas": 3, "desiredReplicas": 4, "observedGeneration": 2**40,
            "lastScaleTime": "2026-01-31T12:00:00.5+01:00", "currentMetrics": None,
            "conditions": [{"type": "AbleToScale", "status": "True", "reason": "R", "message": "M",
                            "lastTransitionTime": None, "observedGeneration": 1}],
        },
    )  # fmt: skip
    assert problems == []
    assert (hpa.name, hpa.namespace, hpa.uid, hpa.generation) == ("web", "shop", "u", 3)
    assert (hpa.generate_name, hpa.creation_timestamp) == ("web-", "2026-01-31T12:00:00Z")
    assert hpa.labels == (("a", "b"), ("n", ""))
    assert hpa.annotations == (("c", "d"),)
    assert hpa.status == HPAStatus(
        3, 4, "2026-01-31T12:00:00.5+01:00", 2**40, (Condition("AbleToScale", "True", "R", "M"),)
    )


@pytest.mark.parametrize(
    ("owners", "owner"),
    [
        (None, ""),
        ([], ""),
        ([{"kind": "Shop", "name": "main"}], ""),
        ([{"kind": "Shop", "name": "main", "controller": False}, "no", 1], ""),
        (
            [{"kind": "Shop", "name": "main"}, {"kind": "Job", "name": "a", "controller": True}],
            "Job/a",
        ),
        ([{"controller": True}], "/"),
        ({"controller": True}, ""),
    ],
)
def test_the_controller_is_the_owner_whatever_else_stands_there(owners: object, owner: str) -> None:
    metadata = {"name": "web", "ownerReferences": owners}
    hpa, problems = decode({}, metadata=metadata)
    assert (hpa.owner, problems) == (owner, [])


def test_nothing_is_needed() -> None:
    assert decode_hpa({"apiVersion": "autoscaling/v2"}) == (HPA(), [])
    hpa, problems = decode(
        {"metrics": [None], "behavior": {}, "scaleTargetRef": None}, metadata=None, status=None
    )
    assert problems == []
    assert len(hpa.spec.metrics) == 1
    assert hpa.spec.behavior == Behavior()


@pytest.mark.parametrize("version", ["autoscaling/v3", "extensions/v1beta1", "v2"])
def test_an_unknown_version_is_a_problem(version: str) -> None:
    _, problems = decode({}, version)
    assert problems == [
        f'error: apiVersion: no kind "HorizontalPodAutoscaler" in version "{version}"; known: '
        "autoscaling/v1, autoscaling/v2alpha1, autoscaling/v2beta1, autoscaling/v2beta2, "
        "autoscaling/v2"
    ]


def test_a_missing_version_is_a_problem() -> None:
    (problem,) = decode_hpa({"kind": "HorizontalPodAutoscaler"})[1]
    assert str(problem).startswith("apiVersion: Required value: one of autoscaling/v1, ")
    (problem,) = decode_hpa({"apiVersion": ""})[1]
    assert problem.severity is Severity.error


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("x", 'spec: Invalid value: "x": must be an object'),
        ({"maxReplicas": "10"},
         'spec.maxReplicas: Invalid value: "10": must be an integer (int32)'),
        ({"maxReplicas": 1.5}, "spec.maxReplicas: Invalid value: 1.5: must be an integer (int32)"),
        ({"maxReplicas": True},
         "spec.maxReplicas: Invalid value: true: must be an integer (int32)"),
        ({"maxReplicas": 2**31},
         "spec.maxReplicas: Invalid value: 2147483648: must be an integer (int32)"),
        ({"minReplicas": []}, "spec.minReplicas: Invalid value: []: must be an integer (int32)"),
        ({"maxReplicas": float("inf")},
         "spec.maxReplicas: Invalid value: Infinity: must be an integer (int32)"),
        ({"scaleTargetRef": []}, "spec.scaleTargetRef: Invalid value: []: must be an object"),
        ({"scaleTargetRef": {"name": 5}},
         "spec.scaleTargetRef.name: Invalid value: 5: must be a string"),
        ({"metrics": {}}, "spec.metrics: Invalid value: {}: must be a list"),
        ({"metrics": ["x"]}, 'spec.metrics[0]: Invalid value: "x": must be an object'),
        ({"metrics": [{}, {"type": 1}]},
         "spec.metrics[1].type: Invalid value: 1: must be a string"),
        ({"metrics": [{"external": {"metric": {"selector": {"matchLabels": {"a": 1}}}}}]},
         "spec.metrics[0].external.metric.selector.matchLabels[a]: Invalid value: 1: must be a "
         "string"),
        ({"metrics": [{"external": {"metric": {"selector": {"matchLabels": 5}}}}]},
         "spec.metrics[0].external.metric.selector.matchLabels: Invalid value: 5: must be an "
         "object"),
        ({"metrics": [{"external": {"metric": {"selector": {"matchExpressions": [
            {"values": ["a", None, 1]}]}}}}]},
         "spec.metrics[0].external.metric.selector.matchExpressions[0].values[2]: Invalid value: "
         "1: must be a string"),
        ({"metrics": [{"resource": {"target": {"averageValue": "1Zi"}}}]},
         'spec.metrics[0].resource.target.averageValue: Invalid value: "1Zi": must be a quantity: '
         "quantities must match the regular expression "
         "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
        ({"metrics": [{"resource": {"target": {"averageValue": True}}}]},
         "spec.metrics[0].resource.target.averageValue: Invalid value: true: must be a quantity "
         "(a string or a number)"),
        ({"behavior": {"scaleUp": {"policies": [{"value": "1"}]}}},
         'spec.behavior.scaleUp.policies[0].value: Invalid value: "1": must be an integer (int32)'),
    ],
)  # fmt: skip
def test_a_wrong_json_type(spec: object, problem: str) -> None:
    assert decode(spec)[1] == [f"error: {problem}"]


@pytest.mark.parametrize("text", ["soon", "2026-01-31", "2026-13-01T00:00:00Z", "", 5])
def test_times_are_checked_as_the_server_decodes_them(text: object) -> None:
    _, (problem,) = decode({}, status={"lastScaleTime": text})
    assert problem.startswith(f"error: status.lastScaleTime: Invalid value: {json.dumps(text)}: ")


def test_whole_floats_are_integers_as_in_kubectls_json() -> None:
    hpa, problems = decode({"maxReplicas": 3.0})
    assert (hpa.spec.max_replicas, problems) == (3, [])


def test_unknown_fields_are_warnings() -> None:
    _, problems = decode(
        {"maxreplicas": 3, "metrics": [{"resource": {"targetAverageUtilization": 5}}]}, extra=1
    )
    assert problems == [
        "warning: extra: unknown field, ignored",
        "warning: spec.metrics[0].resource.targetAverageUtilization: unknown field, ignored",
        "warning: spec.maxreplicas: unknown field, ignored",
    ]


def test_long_and_bottomless_values_are_cut() -> None:
    assert show_value("x" * 200) == '"' + "x" * 78 + "…"
    bottomless: list[object] = []
    bottomless.append(bottomless)
    assert show_value(bottomless) == "(a value nested too deeply to show)"


# ---- v2beta2 ------------------------------------------------------------------------------------

UP = "autoscaling.alpha.kubernetes.io/scale-up-tolerance"
DOWN = "autoscaling.alpha.kubernetes.io/scale-down-tolerance"


def test_v2beta2_is_v2_without_tolerance() -> None:
    hpa, problems = decode(FULL, "autoscaling/v2beta2")
    assert problems == ["warning: spec.behavior.scaleUp.tolerance: unknown field, ignored"]
    assert hpa.spec.metrics == decode(FULL)[0].spec.metrics
    assert hpa.spec.behavior is not None
    assert hpa.spec.behavior.scale_up is not None
    assert hpa.spec.behavior.scale_up.tolerance is None
    assert hpa.api_version == "autoscaling/v2beta2"


def test_tolerance_annotations_create_behavior_and_direction() -> None:
    hpa, problems = decode(
        {}, "autoscaling/v2beta2", metadata={"annotations": {UP: "0.05", DOWN: "50m", "x": "y"}}
    )
    assert problems == []
    assert hpa.annotations == (("x", "y"),)
    assert hpa.spec.behavior == Behavior(
        ScalingRules(tolerance=Q("50m")), ScalingRules(tolerance=Q("50m"))
    )
    only_down, _ = decode(
        {"behavior": {"scaleDown": {"selectPolicy": "Min"}}},
        "autoscaling/v2beta2",
        metadata={"annotations": {DOWN: "1"}},
    )
    assert only_down.spec.behavior == Behavior(
        None, ScalingRules(select_policy="Min", tolerance=Q("1"))
    )


def test_a_tolerance_annotation_that_does_not_parse_is_an_error() -> None:
    _, problems = decode({}, "autoscaling/v2beta2", metadata={"annotations": {UP: "lots"}})
    assert problems == [
        f'error: metadata.annotations[{UP}]: Invalid value: "lots": must be a quantity: quantities '
        "must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    ]


@pytest.mark.parametrize(
    ("version", "annotation", "field"),
    [
        ("v2", UP, "spec.behavior.scaleUp.tolerance"),
        ("v2", "behavior", "spec.behavior"),
        ("v2beta2", "behavior", "spec.behavior"),
        ("v2beta1", "metrics", "spec.metrics"),
        ("v1", DOWN, "spec.behavior.scaleDown.tolerance"),
    ],
)
def test_annotations_that_a_version_drops_unread(version: str, annotation: str, field: str) -> None:
    name = annotation if "/" in annotation else f"autoscaling.alpha.kubernetes.io/{annotation}"
    given = {"annotations": {name: '{"scaleUp":{"stabilizationWindowSeconds":30}}', "a": "b"}}
    hpa, problems = decode({}, f"autoscaling/{version}", metadata=given)
    assert (hpa.annotations, hpa.spec.behavior, hpa.spec.metrics) == ((("a", "b"),), None, ())
    assert problems == [
        f"warning: metadata.annotations[{name}]: has no effect in autoscaling/{version}; write "
        f"{field} of autoscaling/v2"
    ]


# ---- JSON text ----------------------------------------------------------------------------------


def test_json_text_of_a_document_or_of_a_bare_spec() -> None:
    document = json.dumps({"apiVersion": "autoscaling/v2", "spec": FULL})
    assert hpa_from_json(document)[0].spec == hpa_from_json(json.dumps(FULL))[0].spec


@pytest.mark.parametrize("text", ["", "[]", "{", "5", '{"a": NaN}', "[" * 100_000])
def test_json_text_that_is_no_object(text: str) -> None:
    with pytest.raises(ValueError):
        hpa_from_json(text)


def test_a_whole_document_survives_too() -> None:
    hpa, _ = decode(
        FULL,
        metadata={
            "name": "web", "namespace": "shop", "uid": "u", "generation": 1, "labels": {"a": "b"},
            "annotations": {"c": "d"},
        },
    )  # fmt: skip
    assert decode_hpa(encode_hpa(hpa)) == (hpa, [])
    assert encode_hpa(HPA())["metadata"] == {}


def test_an_hpa_that_the_server_is_to_name_is_shown_by_its_prefix() -> None:
    assert HPA(name="web").shown_name == "web"
    assert HPA(name="", generate_name="web-").shown_name == "web-*"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "metrics", "resource", "external", "target", "value", "behavior",
                 "scaleUp", "policies", "selector", "matchLabels", "spec", "metadata", "name",
                 "annotations", "status", "conditions", "averageUtilization", "maxReplicas"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)  # fmt: skip


@settings(deadline=None)
@given(
    st.dictionaries(st.sampled_from(["spec", "metadata", "status", "kind"]), JSON),
    st.sampled_from(["v1", "v2alpha1", "v2beta1", "v2beta2", "v2"]),
)
def test_no_json_makes_it_raise(document: Json, version: str) -> None:
    hpa, problems = decode_hpa({**document, "apiVersion": f"autoscaling/{version}"})
    assert all(str(problem) for problem in problems)
    if not any(problem.severity is Severity.error for problem in problems):
        assert hpa_from_json(spec_to_json(default_hpa(hpa)))[0].spec == default_hpa(hpa).spec
