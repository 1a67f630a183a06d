"""`status.currentMetrics` of every API version, read and written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hpabatch.model.objects.decode_fields import Fields, Problem
from hpabatch.model.objects.decode_legacy import read_metric_statuses
from hpabatch.model.objects.encode import encode_metric, encode_status
from hpabatch.model.objects.hpa import (
    Condition,
    HPAStatus,
    MetricStatus,
    MetricValueStatus,
)
from hpabatch.model.quantity import Quantity

Json = dict[str, Any]

# As the API server writes them, fields in its order.
NESTED: list[Json] = [
    {
        "type": "Resource",
        "resource": {"name": "cpu", "current": {"averageValue": "44m", "averageUtilization": 44}},
    },
    {
        "type": "ContainerResource",
        "containerResource": {
            "name": "memory", "current": {"averageValue": "90Mi"}, "container": "app",
        },
    },
    {"type": "Pods", "pods": {"metric": {"name": "qps"}, "current": {"averageValue": "6901m"}}},
    {
        "type": "Object",
        "object": {
            "metric": {"name": "hits", "selector": {"matchLabels": {"a": "b"}}},
            "current": {"value": "0", "averageValue": "17187m"},
            "describedObject": {
                "kind": "Ingress", "name": "main", "apiVersion": "networking.k8s.io/v1",
            },
        },
    },
    {
        "type": "External",
        "external": {
            "metric": {"name": "queue", "selector": {"matchLabels": {"queue": "jobs"}}},
            "current": {"value": "314085m"},
        },
    },
    {"type": ""},
]  # fmt: skip

# The same in the words of v2beta1 and of v1's annotation.
FLAT: list[Json] = [
    {
        "type": "Resource",
        "resource": {
            "name": "cpu", "currentAverageUtilization": 44, "currentAverageValue": "44m",
        },
    },
    {
        "type": "ContainerResource",
        "containerResource": {
            "name": "memory", "currentAverageValue": "90Mi", "container": "app",
        },
    },
    {"type": "Pods", "pods": {"metricName": "qps", "currentAverageValue": "6901m"}},
    {
        "type": "Object",
        "object": {
            "target": {"kind": "Ingress", "name": "main", "apiVersion": "networking.k8s.io/v1"},
            "metricName": "hits", "currentValue": "0", "selector": {"matchLabels": {"a": "b"}},
            "averageValue": "17187m",
        },
    },
    {
        "type": "External",
        "external": {
            "metricName": "queue", "metricSelector": {"matchLabels": {"queue": "jobs"}},
            "currentValue": "314085m",
        },
    },
    {"type": ""},
]  # fmt: skip


def read(items: list[Json], version: str = "v2") -> tuple[tuple[MetricStatus, ...], list[str]]:
    """Return the statuses and what was wrong with their fields."""
    problems: list[Problem] = []
    fields = Fields({"currentMetrics": items}, "status", problems).children("currentMetrics")
    assert fields is not None
    statuses = read_metric_statuses(fields, f"autoscaling/{version}")
    return statuses, [str(problem) for problem in problems]


@pytest.mark.parametrize("version", ["v2", "v2beta2"])
def test_written_as_read(version: str) -> None:
    statuses, _ = read(NESTED, version)
    written = [encode_metric(status) for status in statuses]
    assert json.dumps(written) == json.dumps(NESTED)


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_the_older_names(version: str) -> None:
    assert read(FLAT, version) == read(NESTED)


@pytest.mark.parametrize(
    ("item", "current"),
    [
        ({"type": "Pods", "pods": {}}, MetricValueStatus(None, Quantity())),
        ({"type": "Resource", "resource": {}}, MetricValueStatus(None, Quantity())),
        ({"type": "Object", "object": {}}, MetricValueStatus(Quantity())),
        ({"type": "External", "external": {}}, MetricValueStatus(Quantity())),
    ],
)
def test_a_number_that_the_older_versions_always_have_is_zero(
    item: Json, current: MetricValueStatus
) -> None:
    ((status,), _) = read([item], "v2beta1")
    assert status.current == current
    ((status,), _) = read([item])
    assert status.current == MetricValueStatus()


@pytest.mark.parametrize(
    ("item", "kind"),
    [
        ({"type": "Resource"}, ""),  # nothing there: as if it had failed
        ({"type": "Resource", "pods": {"metric": {"name": "qps"}, "current": {}}}, "Pods"),
        ({"type": "", "resource": {"name": "cpu", "current": {}}}, "Resource"),
        ({"type": "New"}, "New"),
    ],
)
def test_the_member_counts_not_the_type(item: Json, kind: str) -> None:
    ((status,), problems) = read([item])
    assert status.type == kind
    assert not problems


def test_problems_are_collected() -> None:
    items: list[Json] = [
        {"type": 5, "resource": {"name": "cpu", "current": {"averageUtilization": "x"}, "more": 1}},
        {"type": "Pods", "pods": {"metric": {"name": "qps"}, "current": {"averageValue": "1x"}}},
        {"type": "External", "external": "none"},
    ]
    statuses, problems = read(items)
    assert [status.type for status in statuses] == ["Resource", "Pods", ""]
    assert [problem.partition(":")[0] for problem in problems] == [
        "status.currentMetrics[0].type",
        "status.currentMetrics[0].resource.current.averageUtilization",
        "status.currentMetrics[0].resource.more",
        "status.currentMetrics[1].pods.current.averageValue",
        "status.currentMetrics[2].external",
    ]


def test_a_status_is_written_in_the_order_of_the_api() -> None:
    since = "2026-10-07T12:00:00Z"
    status = HPAStatus(
        current_replicas=3,
        desired_replicas=0,
        last_scale_time=since,
        observed_generation=7,
        conditions=(Condition("AbleToScale", "True", "R", "m", since), Condition("New", "False")),
        current_metrics=read(NESTED[:1])[0],
    )
    expected = {
        "observedGeneration": 7,
        "lastScaleTime": since,
        "currentReplicas": 3,
        "desiredReplicas": 0,
        "currentMetrics": NESTED[:1],
        "conditions": [
            {
                "type": "AbleToScale", "status": "True", "lastTransitionTime": since,
                "reason": "R", "message": "m",
            },
            {"type": "New", "status": "False", "lastTransitionTime": None},
        ],
    }  # fmt: skip
    assert json.dumps(encode_status(status)) == json.dumps(expected)


def test_an_empty_status() -> None:
    assert encode_status(HPAStatus()) == {"desiredReplicas": 0, "currentMetrics": None}
    assert encode_status(HPAStatus(current_metrics=()))["currentMetrics"] == []


def test_a_status_whose_metric_was_never_named_has_its_fields() -> None:
    assert encode_metric(MetricStatus("Object")) == {
        "type": "Object",
        "object": {
            "metric": {"name": ""},
            "current": {},
            "describedObject": {"kind": "", "name": ""},
        },
    }


def test_a_status_without_anything_is_nobodys() -> None:
    assert HPAStatus().is_unwritten
    assert not HPAStatus(current_replicas=3).is_unwritten
    condition = Condition(type="AbleToScale", status="False", reason="FailedGetScale")
    assert not HPAStatus(conditions=(condition,)).is_unwritten
