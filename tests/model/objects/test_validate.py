"""Validation: every row of the rule table, in the API server's words and order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpabatch.model.objects.decode import decode_hpa
from hpabatch.model.objects.decode_fields import Severity
from hpabatch.model.objects.defaults import default_hpa
from hpabatch.model.objects.hpa import HPA
from hpabatch.model.objects.validate import (
    drop_disabled_fields,
    dropped_fields,
    other_targets,
    undecidable,
    validate_hpa,
)
from hpabatch.model.versions import PROFILES, Profile

NEW, OLD = PROFILES["1.38"], PROFILES["1.36"]
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
CPU = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
Json = dict[str, object]


def _hpa(spec: Json, metadata: Json | None = None) -> HPA:
    hpa, problems = decode_hpa(
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "web"} if metadata is None else metadata,
            "spec": {"scaleTargetRef": TARGET, "maxReplicas": 10, **spec},
        }
    )
    assert not [problem for problem in problems if problem.severity is Severity.error]
    return default_hpa(hpa)


def _complaints(
    spec: Json, metadata: Json | None = None, profile: Profile = NEW, old: HPA | None = None
) -> list[str]:
    return [str(error) for error in validate_hpa(_hpa(spec, metadata), profile, old)]


def _metric(**fields: object) -> list[str]:
    return [text.removeprefix("spec.metrics[0]") for text in _complaints({"metrics": [fields]})]


def _target(member: str, target: Json, **fields: object) -> list[str]:
    """Complaints about the target of a metric of the given kind."""
    kind = member[0].upper() + member[1:]
    found = _metric(type=kind, **{member: {**fields, "target": target}})
    return [text.removeprefix(f".{member}.target") for text in found]


def test_a_plain_hpa_is_valid_in_all_profiles() -> None:
    assert _complaints({}) == _complaints({}, profile=OLD) == []


# ---- metadata -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metadata", "starts"),
    [
        ({}, ["metadata.name: Required value: name or generateName is required"]),
        ({"generateName": "web-"}, []),
        ({"generateName": "-"}, ['metadata.generateName: Invalid value: "-": a lowercase RFC']),
        ({"generateName": "Web-", "name": "x"}, ['metadata.generateName: Invalid value: "Web-"']),
        ({"name": "Web"}, ['metadata.name: Invalid value: "Web": a lowercase RFC 1123 subdomain']),
        ({"name": "a.b"}, []),
        ({"name": "a" * 254}, [f'metadata.name: Invalid value: "{"a" * 254}": must be no more']),
        ({"name": "a", "namespace": "a.b"},
         ['metadata.namespace: Invalid value: "a.b": must not contain dots']),
        ({"name": "a", "generation": -1},
         ["metadata.generation: Invalid value: -1: must be greater than or equal to 0"]),
        ({"name": "a", "labels": {"-": "a b"}},
         ['metadata.labels: Invalid value: "-": name part',
          'metadata.labels: Invalid value: "a b"']),
        ({"name": "a", "annotations": {"X/Y": "any thing"}}, []),
        ({"name": "a", "annotations": {"a b": ""}}, ['metadata.annotations: Invalid value: "a b"']),
        ({"name": "a", "annotations": {"a": "x" * 262144}},
         ["metadata.annotations: Too long: may not be more than 262144 bytes"]),
    ],
)  # fmt: skip
def test_metadata(metadata: Json, starts: list[str]) -> None:
    found = _complaints({}, metadata)
    assert len(found) == len(starts)
    assert all(text.startswith(start) for text, start in zip(found, starts, strict=True))


# ---- replicas -----------------------------------------------------------------------------------

EXTERNAL = [{"type": "External", "external": {
    "metric": {"name": "q"}, "target": {"type": "Value", "value": "1"}}}]  # fmt: skip
NO_ZERO = (
    "spec.metrics: Forbidden: must specify at least one Object or External metric to support "
    "scaling to zero replicas"
)


def test_replica_bounds() -> None:
    assert _complaints({"minReplicas": -1}) == [
        "spec.minReplicas: Invalid value: -1: must be greater than or equal to 0"
    ]
    assert _complaints({"maxReplicas": 0}) == [
        "spec.maxReplicas: Invalid value: 0: must be greater than 0",
        "spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`",
    ]
    assert _complaints({"minReplicas": 11}) == [
        "spec.maxReplicas: Invalid value: 10: must be greater than or equal to `minReplicas`"
    ]


def test_zero_replicas_need_the_gate_and_another_metric() -> None:
    assert _complaints({"minReplicas": 0, "metrics": EXTERNAL}) == []
    assert _complaints({"minReplicas": 0}) == [NO_ZERO]
    bound = "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1"
    assert _complaints({"minReplicas": 0}, profile=OLD) == [bound, NO_ZERO]


def test_an_hpa_that_had_zero_may_keep_it() -> None:
    spec: Json = {"minReplicas": 0, "metrics": EXTERNAL}
    assert _complaints(spec, profile=OLD, old=_hpa(spec)) == []
    assert len(_complaints(spec, profile=OLD, old=_hpa({}))) == 1


# ---- references ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "complaints"),
    [
        ({"kind": ""}, ["kind: Required value"]),
        ({"name": ""}, ["name: Required value"]),
        ({"kind": "."}, ["kind: Invalid value: \".\": may not be '.'"]),
        ({"name": "a/b%"}, ["name: Invalid value: \"a/b%\": may not contain '/'",
                            "name: Invalid value: \"a/b%\": may not contain '%'"]),
        ({"apiVersion": ""}, ['apiVersion: Invalid value: "": apiVersion must specify API group']),
        ({"apiVersion": "v1"},
         ['apiVersion: Invalid value: "v1": apiVersion must specify API group']),
        ({"apiVersion": "/v1"},
         ['apiVersion: Invalid value: "/v1": apiVersion must specify API group']),
        ({"apiVersion": "a/b/c"},
         ['apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c']),
        ({"apiVersion": "apps/"}, []),
        ({"apiVersion": "", "kind": "ReplicationController"}, []),
        ({"apiVersion": "v1", "kind": "ReplicationController"}, []),
        ({"apiVersion": "a/b/c", "kind": "ReplicationController"},
         ['apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c']),
    ],
)  # fmt: skip
def test_scale_target(change: Json, complaints: list[str]) -> None:
    found = _complaints({"scaleTargetRef": {**TARGET, **change}})
    assert found == [f"spec.scaleTargetRef.{text}" for text in complaints]


def test_an_update_that_keeps_kind_and_api_version_skips_the_group() -> None:
    stored = _hpa({"scaleTargetRef": {"kind": "Deployment", "name": "a"}})
    same: Json = {"scaleTargetRef": {"kind": "Deployment", "name": "b"}}
    other: Json = {"scaleTargetRef": {"kind": "StatefulSet", "name": "b"}}
    assert _complaints(same, old=stored) == []
    assert len(_complaints(other, old=stored)) == 1


def _object(described: Json, **target: object) -> Json:
    return {
        "describedObject": described,
        "metric": {"name": "m"},
        "target": {"type": "Value", "value": "1"} | target,
    }


@pytest.mark.parametrize(
    ("described", "complaints"),
    [
        ({"kind": "Service", "name": "a"}, []),
        ({"kind": "Service", "name": "a", "apiVersion": "v1"}, []),
        ({"name": "a"}, [".kind: Required value"]),
        ({"kind": "S", "name": ".."}, [".name: Invalid value: \"..\": may not be '..'"]),
        ({"kind": "S", "name": "a", "apiVersion": "a/b/c"},
         ['.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c']),
    ],
)  # fmt: skip
def test_described_object(described: Json, complaints: list[str]) -> None:
    found = _metric(type="Object", object=_object(described))
    assert found == [f".object.describedObject{text}" for text in complaints]


def test_an_invalid_described_object_may_stay() -> None:
    bad: Json = {"kind": "S", "name": "a", "apiVersion": "a/b/c"}
    spec: Json = {"metrics": [{"type": "Object", "object": _object(bad)}]}
    assert _complaints(spec, old=_hpa(spec)) == []
    assert len(_complaints(spec, old=_hpa({}))) == 1


# ---- metrics ------------------------------------------------------------------------------------

TYPES = 'supported values: "ContainerResource", "External", "Object", "Pods", "Resource"'


def test_metric_type() -> None:
    unsupported = f'.type: Unsupported value: "": {TYPES}'
    assert _metric() == [
        ".type: Required value: must specify a metric source type", unsupported, unsupported
    ]  # fmt: skip
    assert (
        _metric(type="<X>", resource=CPU)
        == [f'.type: Unsupported value: "\\u003cX\\u003e": {TYPES}'] * 2
    )


@pytest.mark.parametrize(
    ("kind", "member"),
    [("Object", "object"), ("External", "external"), ("Pods", "pods"), ("Resource", "resource"),
     ("ContainerResource", "containerResource")],
)  # fmt: skip
def test_the_matching_member_must_be_there(kind: str, member: str) -> None:
    assert _metric(type=kind) == [
        f".{member}: Required value: must populate information for the given metric source"
    ]


def test_one_other_member_is_missing_and_not_forbidden() -> None:
    assert _metric(type="Pods", resource=CPU) == [
        ".pods: Required value: must populate information for the given metric source"
    ]


def test_several_members_are_forbidden_and_only_the_first_is_looked_into() -> None:
    found = _metric(type="Resource", resource={}, pods={}, external={})
    assert found == [
        ".external.metric.name: Required value: must specify a metric name",
        ".external.target.type: Required value: must specify a metric target type",
        '.external.target.type: Invalid value: "": must be either Utilization, Value, or '
        "AverageValue",
        ".external.target.averageValue: Required value: must set either a target value for "
        "metric or a per-pod target",
        ".external: Forbidden: must populate the given metric source only",
        ".pods: Forbidden: must populate the given metric source only",
    ]


@pytest.mark.parametrize("member", ["pods", "external", "object"])
def test_metric_names(member: str) -> None:
    target = {"type": "AverageValue", "averageValue": "1"}
    extra: Json = {"describedObject": {"kind": "S", "name": "s"}} if member == "object" else {}
    kind = member[0].upper() + member[1:]

    def found(name: str) -> list[str]:
        return _metric(type=kind, **{member: {"metric": {"name": name}, "target": target, **extra}})

    assert found("m") == []
    assert found("") == [f".{member}.metric.name: Required value: must specify a metric name"]
    assert found("a/b") == [f".{member}.metric.name: Invalid value: \"a/b\": may not contain '/'"]


@pytest.mark.parametrize(
    ("target", "complaints"),
    [
        ({"averageUtilization": 50},
         [".type: Required value: must specify a metric target type",
          '.type: Invalid value: "": must be either Utilization, Value, or AverageValue']),
        ({"type": "X", "averageUtilization": 50},
         ['.type: Invalid value: "X": must be either Utilization, Value, or AverageValue']),
        ({"type": "Value", "averageUtilization": 50}, []),  # the type need not agree
        ({"type": "Utilization", "averageUtilization": 0},
         [".averageUtilization: Invalid value: 0: must be greater than 0"]),
        ({"type": "Utilization", "averageUtilization": 5, "value": "0"},
         ['.value: Invalid value: "0": must be positive']),
        ({"type": "AverageValue", "averageValue": "-1500m"},
         ['.averageValue: Invalid value: "-1500m": must be positive']),
        ({"type": "Utilization"},
         [".averageUtilization: Required value: must set either a target raw value or a target "
          "utilization"]),
        ({"type": "Utilization", "averageUtilization": 5, "averageValue": "5"},
         [".averageValue: Forbidden: may not set both a target raw value and a target "
          "utilization"]),
    ],
)  # fmt: skip
def test_usage_targets(target: Json, complaints: list[str]) -> None:
    assert _target("resource", target, name="cpu") == complaints
    assert _target("containerResource", target, name="cpu", container="app") == complaints


@pytest.mark.parametrize(
    ("target", "complaints"),
    [
        ({"type": "Value", "value": "1"}, []),
        ({"type": "Value"},
         [".averageValue: Required value: must set either a target value for metric or a per-pod "
          "target"]),
        ({"type": "Value", "value": "1", "averageValue": "1"},
         [".value: Forbidden: may not set both a target value for metric and a per-pod target"]),
    ],
)  # fmt: skip
def test_external_targets(target: Json, complaints: list[str]) -> None:
    assert _target("external", target, metric={"name": "m"}) == complaints


def test_object_and_pods_targets() -> None:
    described = {"kind": "S", "name": "s"}
    both: Json = {"type": "Value", "value": "1", "averageValue": "1"}
    assert _target("object", both, describedObject=described, metric={"name": "m"}) == []
    neither: Json = {"type": "Value"}
    assert _target("object", neither, describedObject=described, metric={"name": "m"}) == [
        ".averageValue: Required value: must set either a target value or averageValue"
    ]
    assert _target("pods", {"type": "Value", "value": "1"}, metric={"name": "m"}) == [
        ".averageValue: Required value: must specify a positive target averageValue"
    ]


def test_resource_names() -> None:
    target = {"type": "Utilization", "averageUtilization": 5}
    required = "Required value: must specify a resource name"
    assert _metric(type="Resource", resource={"target": target}) == [f".resource.name: {required}"]
    assert _metric(type="Resource", resource={"name": "any thing", "target": target}) == []
    container = {"container": "app", "target": target}
    assert _metric(type="ContainerResource", containerResource=container) == [
        f".containerResource.name: {required}"
    ]
    assert _metric(type="ContainerResource", containerResource={**container, "name": "gpu"}) == [
        '.containerResource.name: Invalid value: "gpu": must be a standard resource type or fully '
        "qualified",
        '.containerResource.name: Invalid value: "gpu": must be a standard resource for containers',
    ]


def test_container_names() -> None:
    target = {"type": "Utilization", "averageUtilization": 5}

    def found(container: str) -> list[str]:
        source = {"name": "cpu", "container": container, "target": target}
        return _metric(type="ContainerResource", containerResource=source)

    assert found("app") == []
    assert found("") == [".containerResource.container: Required value: must specify a container"]
    assert found("a.b") == [
        '.containerResource.container: Invalid value: "a.b": must not contain dots'
    ]


# ---- behavior -----------------------------------------------------------------------------------


def _rules(rules: Json) -> list[str]:
    found = _complaints({"behavior": {"scaleUp": rules}})
    same = _complaints({"behavior": {"scaleDown": rules}})
    assert [text.replace("scaleUp", "scaleDown") for text in found] == same
    return [text.removeprefix("spec.behavior.scaleUp") for text in found]


@pytest.mark.parametrize(
    ("rules", "complaints"),
    [
        ({}, []),
        ({"stabilizationWindowSeconds": 0}, []),
        ({"stabilizationWindowSeconds": 3600}, []),
        ({"stabilizationWindowSeconds": -1},
         [".stabilizationWindowSeconds: Invalid value: -1: must be greater than or equal to zero"]),
        ({"stabilizationWindowSeconds": 3601},
         [".stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to 3600"]),
        ({"selectPolicy": "X"},
         ['.selectPolicy: Unsupported value: "X": supported values: "Disabled", "Max", "Min"']),
        ({"selectPolicy": "Disabled"}, []),
        ({"policies": []}, [".policies: Required value: must specify at least one Policy"]),
        ({"tolerance": "-0.1"},
         ['.tolerance: Invalid value: "-100m": must be greater than or equal to 0']),
        ({"tolerance": "5"}, []),
        ({"tolerance": 0}, []),
    ],
)  # fmt: skip
def test_scaling_rules(rules: Json, complaints: list[str]) -> None:
    assert _rules(rules) == complaints


@pytest.mark.parametrize(
    ("change", "complaints"),
    [
        ({}, []),
        ({"type": "Percent", "value": 2_000_000}, []),
        ({"type": "X"},
         ['.type: Unsupported value: "X": supported values: "Percent", "Pods"']),
        ({"value": 0}, [".value: Invalid value: 0: must be greater than zero"]),
        ({"periodSeconds": 0}, [".periodSeconds: Invalid value: 0: must be greater than zero"]),
        ({"periodSeconds": 1801},
         [".periodSeconds: Invalid value: 1801: must be less than or equal to 1800"]),
    ],
)  # fmt: skip
def test_scaling_policies(change: Json, complaints: list[str]) -> None:
    policy = {"type": "Pods", "value": 1, "periodSeconds": 60, **change}
    assert _rules({"policies": [policy]}) == [f".policies[0]{text}" for text in complaints]


def test_the_order_is_upstreams() -> None:
    found = _complaints(
        {
            "maxReplicas": 0,
            "scaleTargetRef": {},
            "metrics": [{"type": "Pods"}],
            "behavior": {"scaleDown": {"policies": []}, "scaleUp": {"policies": []}},
        },
        {"name": "Web"},
    )
    paths = [text.partition(": ")[0] for text in found]
    assert paths == [
        "metadata.name", "spec.maxReplicas", "spec.maxReplicas", "spec.scaleTargetRef.kind",
        "spec.scaleTargetRef.name", "spec.scaleTargetRef.apiVersion", "spec.metrics[0].pods",
        "spec.behavior.scaleUp.policies", "spec.behavior.scaleDown.policies",
    ]  # fmt: skip


def test_tolerances_are_dropped_without_their_gate() -> None:
    hpa = _hpa({"behavior": {"scaleUp": {"tolerance": "0.1"}}})
    off = replace(NEW, gate_configurable_tolerance=False)
    assert drop_disabled_fields(hpa, NEW) is hpa
    dropped = drop_disabled_fields(hpa, off).spec.behavior
    assert dropped is not None
    assert dropped.scale_up is not None
    assert dropped.scale_up.tolerance is None
    assert drop_disabled_fields(_hpa({}), off) == _hpa({})
    half, _ = decode_hpa({"apiVersion": "autoscaling/v2", "spec": {"behavior": {"scaleUp": {}}}})
    assert not [text for text in map(str, validate_hpa(half, NEW)) if "scaleDown" in text]
    stripped = drop_disabled_fields(half, off).spec.behavior
    assert stripped is not None
    assert stripped.scale_down is None


def test_container_metrics_are_dropped_and_refused_without_their_gate() -> None:
    resource = {"name": "cpu", "container": "app", "target": CPU["target"]}
    hpa = _hpa({"metrics": [{"type": "ContainerResource", "containerResource": resource}]})
    old = PROFILES["1.26"]
    assert validate_hpa(default_hpa(drop_disabled_fields(hpa, PROFILES["1.32"])), old) == []
    found = validate_hpa(default_hpa(drop_disabled_fields(hpa, old)), old)
    assert [str(error) for error in found][:1] == [
        "spec.metrics[0].containerResource: Required value: must populate information for the "
        "given metric source (only allowed when HPAContainerMetrics feature is enabled)"
    ]


def test_api_versions_are_validated_since_1_34() -> None:
    target = {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1/extra"}
    hpa = default_hpa(_hpa({"scaleTargetRef": target}))
    assert validate_hpa(hpa, PROFILES["1.33"]) == []
    assert [error.path for error in validate_hpa(hpa, PROFILES["1.35"])] == [
        "spec.scaleTargetRef.apiVersion"
    ]


def test_what_a_controller_decides_on_though_a_server_refuses_it_today() -> None:
    assert undecidable(_hpa({"minReplicas": 0}), OLD) == ""
    assert undecidable(_hpa({}, {"name": "a_b"}), NEW) == ""
    told = undecidable(_hpa({"maxReplicas": 0}), NEW)
    assert told.startswith("spec.maxReplicas: Invalid value: 0: must be greater than 0; spec.max")


def test_a_target_whose_type_is_not_that_of_its_value_is_named() -> None:
    named = {"metric": {"name": "m"}}
    described = {**named, "describedObject": {"kind": "Service", "name": "a", "apiVersion": "v1"}}
    cpu = {"name": "cpu", "container": "app"}
    sources = [
        ("External", "external", {**named, "target": {"type": "Value", "averageValue": "5"}}),
        ("External", "external", {**named, "target": {"type": "AverageValue", "value": "5"}}),
        ("External", "external", {**named, "target": {"type": "Value", "value": "5"}}),
        ("External", "external", {**named, "target": {"type": "Value"}}),
        ("Object", "object", {**described, "target": {"type": "AverageValue", "value": "5"}}),
        ("ContainerResource", "containerResource",
         {**cpu, "target": {"type": "AverageValue", "averageUtilization": 5}}),
    ]  # fmt: skip
    metrics = [{"type": kind, name: source} for kind, name, source in sources]
    document = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "spec": {"metrics": [*metrics, {"type": "Other"}], "behavior": {"scaleUp": {}}},
    }
    hpa = decode_hpa(document)[0]
    for version, words in (("1.26", "from 1.27 on every sync fails"), ("1.37", ": every sync")):
        told = other_targets(hpa, PROFILES[version])
        assert [text[13:14] for text in told] == ["0", "1", "4", "5"]
        assert words in told[2]
    assert dropped_fields(hpa, PROFILES["1.32"]) == []
    document["spec"]["behavior"] = {"scaleDown": {"tolerance": "0.1"}}  # type: ignore[index]
    hpa = decode_hpa(document)[0]
    for version, words in (("1.32", "unknown field"), ("1.34", "is off")):
        (text,) = dropped_fields(hpa, PROFILES[version])
        assert words in text
    assert dropped_fields(hpa, PROFILES["1.37"]) == []
