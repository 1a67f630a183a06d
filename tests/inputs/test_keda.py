"""ScaledObjects: the HPA that KEDA makes, its metrics' names and targets, refusals, warnings."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.errors import UsageError
from hpabatch.inputs.documents import Mistakes, Place
from hpabatch.inputs.keda import ScaledObject, hpa_of_scaled_object, owner_of, read_scaled_object
from hpabatch.model.objects.decode import decode_hpa
from hpabatch.model.objects.hpa import HPA
from tests.importers.mutations import says

PROMETHEUS = {
    "type": "prometheus",
    "metadata": {"serverAddress": "http://prom:9090", "query": "sum(x)", "threshold": "100"},
}
CPU = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "60"}}
OWNER = {"matchLabels": {"scaledobject.keda.sh/name": "web"}}


def document(*triggers: Any, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "scaleTargetRef": {"name": "web"},
            "triggers": list(triggers) or [PROMETHEUS],
            **spec,
        },
    }


def trigger(**changes: Any) -> dict[str, Any]:
    """Return a prometheus trigger; None takes a key of its metadata away."""
    metadata = {**PROMETHEUS["metadata"], **changes.pop("metadata", {})}  # type: ignore[dict-item]
    kept = {key: value for key, value in metadata.items() if value is not None}
    return {**PROMETHEUS, "metadata": kept, **changes}


def read(value: dict[str, Any]) -> ScaledObject:
    mistakes = Mistakes()
    found = read_scaled_object(Place("so.yaml", "", value, 1), mistakes)
    mistakes.refuse()
    assert found is not None
    return found


def spec_of(value: dict[str, Any], *names: str) -> dict[str, Any]:
    spec = read(value).document(names)["spec"]
    assert isinstance(spec, dict)
    return spec


def external(name: str, kind: str = "averageValue", value: str = "100") -> dict[str, Any]:
    target = {"type": kind[0].upper() + kind[1:], kind: value}
    metric = {"name": name, "selector": OWNER}
    return {"type": "External", "external": {"metric": metric, "target": target}}


def test_the_hpa_of_a_scaled_object() -> None:
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 60}}
    value = document(
        PROMETHEUS, CPU, trigger(metricType="Value", metadata={"threshold": "2.5"}),
        {"type": "memory", "metadata": {"type": "AverageValue", "value": "1Gi",
                                        "containerName": "app"}},
        minReplicaCount=2, maxReplicaCount=30,
        advanced={"horizontalPodAutoscalerConfig": {"behavior": behavior}},
    )  # fmt: skip
    value["metadata"]["labels"] = {"team": "a", "secret": "b"}
    value["metadata"]["annotations"] = {"scaledobject.keda.sh/hpa-excluded-labels": "secret"}
    found = read(value)
    assert found.document() == {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {
            "name": "keda-hpa-web",
            "namespace": "shop",
            "labels": {
                "app.kubernetes.io/name": "keda-hpa-web",
                "app.kubernetes.io/part-of": "web",
                "app.kubernetes.io/managed-by": "keda-operator",
                "team": "a",
            },
            "annotations": {"scaledobject.keda.sh/hpa-excluded-labels": "secret"},
        },
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 2,
            "maxReplicas": 30,
            "metrics": [
                {
                    "type": "ContainerResource",
                    "containerResource": {
                        "name": "memory",
                        "container": "app",
                        "target": {"type": "AverageValue", "averageValue": "1Gi"},
                    },
                },
                external("s0-prometheus"),
                external("s2-prometheus", "value", "2500m"),
                {
                    "type": "Resource",
                    "resource": {
                        "name": "cpu",
                        "target": {"type": "Utilization", "averageUtilization": 60},
                    },
                },
            ],
            "behavior": behavior,
        },
    }
    hpa = found.hpa()
    assert isinstance(hpa, HPA)
    assert (hpa.namespace, hpa.name, hpa.spec.max_replicas) == ("shop", "keda-hpa-web", 30)
    assert not found.notes()


@pytest.mark.parametrize(
    ("spec", "bounds", "told"),
    [
        ({}, (1, 100), "scales between 0 and 1;"),
        ({"minReplicaCount": 0}, (1, 100), "scales between 0 and 1;"),
        ({"minReplicaCount": 3, "maxReplicaCount": 5}, (3, 5), ""),
        ({"minReplicaCount": 5, "idleReplicaCount": 0}, (5, 100), "scales between 0 and 5;"),
        ({"minReplicaCount": 5, "idleReplicaCount": 2}, (5, 100), "scales between 2 and 5;"),
    ],
)
def test_bounds_and_what_is_outside_of_the_hpa(
    spec: dict[str, Any], bounds: tuple[int, int], told: str
) -> None:
    value = document(**spec)
    made = spec_of(value)
    assert (made["minReplicas"], made["maxReplicas"]) == bounds
    notes = read(value).notes()
    assert len(notes) == bool(told)
    assert all(told in note and "events from outside" in note for note in notes)


def test_names_of_hpa_and_target() -> None:
    value = document(
        scaleTargetRef={"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "w"},
        advanced={"horizontalPodAutoscalerConfig": {"name": "mine"}},
    )
    found = read(value)
    assert found.hpa_name == "mine"
    assert found.target == {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "w"}


def test_names_of_metrics_through_the_versions() -> None:
    old = trigger(metadata={"metricName": "http.requests/s"})
    assert read(document(CPU, old)).triggers[1].names == (
        "s1-prometheus",
        "s1-prometheus-http-requests-s",
    )
    assert spec_of(document(CPU, old))["metrics"][0] == external("s1-prometheus")
    known = "s1-prometheus-http-requests-s"
    assert spec_of(document(CPU, old), known, "other")["metrics"][0] == external(known)


def test_other_triggers_are_named_and_have_no_query() -> None:
    cron = {"type": "cron", "metadata": {"timezone": "UTC", "desiredReplicas": "10"}}
    found = read(document(cron, PROMETHEUS, minReplicaCount=1))
    assert found.document()["spec"]["metrics"] == [  # type: ignore[index]
        external("s0-cron", value="1"),
        external("s1-prometheus"),
    ]
    known = "s0-cron-UTC-08xxx-18xxx"
    assert spec_of(document(cron), known)["metrics"] == [external(known, value="1")]
    assert found.notes() == [
        "triggers that cannot be imported from Prometheus: cron; their metrics have no values"
    ]
    with pytest.raises(ValueError, match=r"triggers\[0\]: cron cannot be imported from Prom"):
        found.trigger_of(known)
    assert found.trigger_of("s1-prometheus").index == 1


@pytest.mark.parametrize(
    ("metric", "reason"),
    [
        ("s7-prometheus", "has no trigger for it"),
        ("prometheus", "has no trigger for it"),
        ("s0-prometheus-other", "KEDA calls its metric s0-prometheus"),
    ],
)
def test_a_metric_of_no_trigger(metric: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read(document()).trigger_of(metric)


def test_a_formula_makes_one_metric_that_cannot_be_imported() -> None:
    modifiers = {"formula": "a + b", "target": "2.5", "metricType": "Value"}
    value = document(PROMETHEUS, CPU, trigger(), advanced={"scalingModifiers": modifiers})
    metrics = spec_of(value)["metrics"]
    assert [metric["type"] for metric in metrics] == ["Resource", "External"]
    assert metrics[1] == external("composite-metric", "value", "2500m")
    with pytest.raises(ValueError, match=r"by a formula of its own \(a \+ b\)"):
        read(value).trigger_of("composite-metric")


def test_annotations_that_pause() -> None:
    value = document(minReplicaCount=1)
    value["metadata"]["annotations"] = {
        "autoscaling.keda.sh/paused-scale-in": "yes",
        "autoscaling.keda.sh/paused-scale-out": "false",
    }
    assert spec_of(value)["behavior"] == {"scaleDown": {"selectPolicy": "Disabled"}}
    assert not read(value).notes()
    value["metadata"]["annotations"] = {"autoscaling.keda.sh/paused-replicas": "0"}
    assert "behavior" not in spec_of(value)
    assert "it is paused" in read(value).notes()[0]


def test_fallback_and_unknown_fields_are_told() -> None:
    value = document(minReplicaCount=1, fallback={"replicas": 3, "failureThreshold": 2}, newField=1)
    notes = read(value).notes()
    assert len(notes) == 2
    assert "fields that are not known: spec.newField" in notes[0]
    assert "fallback is not followed" in notes[1]


def test_whose_a_selector_is() -> None:
    assert owner_of("scaledobject.keda.sh/name=web") == "web"
    assert owner_of("scaledObjectName=web") == "web"
    assert owner_of("scaledobject.keda.sh/name=web,x=y") is None
    assert owner_of("") is None


@pytest.mark.parametrize(
    ("value", "mistake"),
    [
        (document(trigger(metadata={"threshold": "ten"})),
         "spec.triggers[0].metadata.threshold: expected a number such as 100 or 2.5, got '"),
        (document(trigger(metadata={"ignoreNullValues": "maybe"})),
         "spec.triggers[0].metadata.ignoreNullValues: expected true or false, got 'maybe'"),
        (document(trigger(metadata={"query": "sum({{ .Values.x }})"})), "unrendered Helm template"),
        (document(trigger(metricType="Utilization")),
         "spec.triggers[0].metricType: expected one of AverageValue, Value, got 'Utilizati"),
        (document({"type": "cpu", "metadata": {"value": "60"}}), "''"),
        (document({**CPU, "metadata": {"value": "60%"}}),
         "spec.triggers[0].metadata.value: expected a whole number of percent, got '60%'"),
        (document({**CPU, "metricType": "AverageValue", "metadata": {"value": "x"}}),
         "spec.triggers[0].metadata.value: expected a quantity such as 500m or 1Gi, got 'x"),
        (document(scaleTargetRef={"namePrefix": "a"}),
         "spec.scaleTargetRef.name: expected a string, got nothing"),
        (document(minReplicaCount=-1), "spec.minReplicaCount: a whole number from 0"),
        (document(advanced={"horizontalPodAutoscalerConfig": {"behavior": {"scaleUp": 3}}}),
         "spec.advanced.horizontalPodAutoscalerConfig.behavior.scaleUp"),
        ({**document(), "apiVersion": "keda.k8s.io/v1alpha1"},
         "apiVersion: expected keda.sh/v1alpha1, got 'keda.k8s.io/v1alpha1'"),
    ],
)  # fmt: skip
def test_mistakes_name_the_place(value: dict[str, Any], mistake: str) -> None:
    with pytest.raises(UsageError) as refused:
        read(value)
    assert says(str(refused.value), mistake)
    assert str(refused.value).count("so.yaml, line 1") >= 1


@pytest.mark.parametrize(
    ("kind", "metadata", "target"),
    [
        ("aws-cloudwatch", {"namespace": "AWS/SQS", "targetMetricValue": "10"}, "10"),
        ("aws-sqs-queue", {"queueURL": "x"}, "5"),
        ("kafka", {"lagThreshold": "50"}, "50"),
        ("kafka", {"topic": "t"}, "10"),
        ("rabbitmq", {"mode": "QueueLength", "value": "2.5"}, "2500m"),
        ("postgresql", {"query": "q", "targetQueryValue": "4"}, "4"),
        ("cron", {"desiredReplicas": "10"}, "1"),
        ("external", {"scalerAddress": "a:1", "value": "7"}, ""),
        ("mongodb", {"query": "q"}, ""),
    ],
)
def test_targets_of_other_triggers(kind: str, metadata: dict[str, str], target: str) -> None:
    value = document({"type": kind, "metadata": metadata})
    hpa, problems = hpa_of_scaled_object(Place("so.yaml", "", value, 1))
    assert hpa.spec == decode_hpa({
        "apiVersion": "autoscaling/v2",
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 1, "maxReplicas": 100,
            "metrics": [external(f"s0-{kind}", value=target or "1")],
        },
    })[0].spec  # fmt: skip
    assert [str(problem) for problem in problems] == [
        f"spec.triggers[0].metadata: the target of a {kind} trigger is not known: 1 is assumed"
    ] * (not target)


@pytest.mark.parametrize(
    ("changes", "path", "place"),
    [
        ({"advanced": {"behavior": {}}}, "spec.advanced.behavior",
         "spec.advanced.horizontalPodAutoscalerConfig.behavior"),
        ({"behavior": {}}, "spec.behavior",
         "spec.advanced.horizontalPodAutoscalerConfig.behavior"),
        ({"advanced": {"minReplicaCount": 1}}, "spec.advanced.minReplicaCount",
         "spec.minReplicaCount"),
        ({"maxReplicas": 5}, "spec.maxReplicas", "spec.maxReplicaCount"),
        ({"triggers": [{**PROMETHEUS, "fallback": {}}]}, "spec.triggers[0].fallback",
         "spec.fallback"),
        ({"other": 1}, "spec.other", ""),
    ],
)  # fmt: skip
def test_misplaced_fields(changes: dict[str, Any], path: str, place: str) -> None:
    _, problems = hpa_of_scaled_object(Place("so.yaml", "", document(**changes), 1))
    told = "unknown field, ignored" + (f"; KEDA reads {place}" if place else "")
    assert [str(problem) for problem in problems] == [f"{path}: {told}"]


PATHS = [
    ("spec",), ("metadata",), ("spec", "triggers"), ("spec", "triggers", 0),
    ("spec", "triggers", 0, "metadata"), ("spec", "triggers", 0, "metadata", "threshold"),
    ("spec", "advanced"), ("spec", "scaleTargetRef"), ("metadata", "annotations"),
]  # fmt: skip


@given(st.sampled_from(PATHS), st.sampled_from([None, 1, "x", [], {}, [1], {"a": 1}, True, -1.5]))
def test_wrong_values_anywhere_are_read_or_refused(path: tuple[Any, ...], value: object) -> None:
    found = deepcopy(document(trigger(), CPU, advanced={}))
    found["metadata"]["annotations"] = {}
    inner: Any = found
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    mistakes = Mistakes()
    scaled = read_scaled_object(Place("so.yaml", "", found, 1), mistakes)
    if scaled is None:
        assert all("so.yaml" in mistake for mistake in mistakes.found)
        assert mistakes.found
    else:
        scaled.hpa()
