"""HPAs of every kind of metric and status, and their events, as a real API server takes them.

`OBJECTS`: by name the spec (v2beta2) and what is written to /status; `METADATA` and `EVENTS` by the
name of the HPA, where it has any. Times of events are seconds before the test. What drives a
terminal stands in none: kubectl prints most of it raw, hpabatch escapes it (docs/output.md).
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

DEPLOYMENT: Json = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
INGRESS: Json = {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "main"}
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
SELECTOR: Json = {"matchLabels": {"queue": "jobs"}}
SINCE = "2026-10-07T12:00:00Z"


def resource(name: str, **target: Any) -> Json:
    return {"type": "Resource", "resource": {"name": name, "target": with_type(target)}}


def container(name: str, of: str, **target: Any) -> Json:
    member = {"name": name, "container": of, "target": with_type(target)}
    return {"type": "ContainerResource", "containerResource": member}


def pods(name: str, average: str) -> Json:
    target = with_type({"averageValue": average})
    return {"type": "Pods", "pods": {"metric": {"name": name}, "target": target}}


def described(name: str, **target: Any) -> Json:
    member = {"metric": {"name": name}, "describedObject": INGRESS, "target": with_type(target)}
    return {"type": "Object", "object": member}


def external(name: str, **target: Any) -> Json:
    member = {"metric": {"name": name, "selector": SELECTOR}, "target": with_type(target)}
    return {"type": "External", "external": member}


def with_type(target: Json) -> Json:
    types = {"averageUtilization": "Utilization", "averageValue": "AverageValue", "value": "Value"}
    return {"type": types[next(iter(target))], **target}


def now(metric: Json, **current: Any) -> Json:
    """Return the status of a metric, in which `current` stands in place of the target."""
    (key,) = set(metric) - {"type"}
    member = {name: value for name, value in metric[key].items() if name != "target"}
    return {"type": metric["type"], key: {**member, "current": current}}


def spec(*metrics: Json, low: int | None = 1, high: int = 10, **more: Any) -> Json:
    return {
        "scaleTargetRef": DEPLOYMENT, "minReplicas": low, "maxReplicas": high,
        "metrics": list(metrics), **more,
    }  # fmt: skip


def condition(kind: str, status: str, reason: str, message: str) -> Json:
    return {
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": SINCE,
    }  # fmt: skip


CPU = resource("cpu", averageUtilization=80)
MEMORY = resource("memory", averageValue="100Mi")
RPS = pods("requests_per_second", "500m")
CONTAINER = container("cpu", "app", averageUtilization=60)
CONTAINER_VALUE = container("memory", "side-car", averageValue="1Gi")
OBJECT_VALUE = described("hits", value="10k")
OBJECT_AVERAGE = described("hits", averageValue="250")
QUEUE_VALUE = external("queue_length", value="30")
QUEUE_AVERAGE = external("queue_length", averageValue="1500m")
ODD_NAME = pods('od"d\\nam\te', "1")
FAILED: Json = {"type": ""}

ABLE = condition("AbleToScale", "True", "ReadyForNewScale", "recommended size matches current size")
ACTIVE = condition(
    "ScalingActive", "True", "ValidMetricFound",
    "the HPA was able to successfully calculate a replica count from cpu resource utilization "
    "(percentage of request)",
)  # fmt: skip
LIMITED = condition(
    "ScalingLimited", "False", "DesiredWithinRange",
    "the desired count is within the acceptable range",
)  # fmt: skip
BROKEN = condition(
    "ScalingActive", "False", "FailedGetResourceMetric",
    "the HPA was unable to compute the replica count: unable to get metrics ",
)  # fmt: skip

POLICIES = [
    {"type": "Pods", "value": 4, "periodSeconds": 15},
    {"type": "Percent", "value": 10000, "periodSeconds": 1800},
]
BEHAVIOR: Json = {
    "scaleUp": {
        "stabilizationWindowSeconds": 60, "selectPolicy": "Disabled", "policies": POLICIES
    },
    "scaleDown": {"policies": POLICIES[:1]},
}  # fmt: skip


def status(*metrics: Json, current: int = 3, desired: int = 4, conditions: Any = ()) -> Json:
    return {
        "currentReplicas": current, "desiredReplicas": desired, "lastScaleTime": SINCE,
        "currentMetrics": list(metrics), "conditions": list(conditions),
    }  # fmt: skip


OBJECTS: dict[str, tuple[Json, Json | None]] = {
    "fresh": (spec(CPU), None),
    "cpu": (
        spec(CPU),
        status(
            now(CPU, averageUtilization=45, averageValue="90m"), conditions=[ABLE, ACTIVE, LIMITED]
        ),
    ),
    "cpu-without-value": (spec(CPU), status(now(CPU, averageUtilization=45))),
    "memory": (spec(MEMORY), status(now(MEMORY, averageValue="12056Ki"))),
    "memory-milli": (spec(MEMORY), status(now(MEMORY, averageValue="11372544853m"))),
    "pods": (spec(RPS), status(now(RPS, averageValue="66m"))),
    "pods-empty": (spec(RPS), status(now(RPS))),
    "container": (
        spec(CONTAINER), status(now(CONTAINER, averageUtilization=7, averageValue="36m"))
    ),
    "container-value": (
        spec(CONTAINER_VALUE), status(now(CONTAINER_VALUE, averageValue="130752000"))
    ),
    "object-value": (spec(OBJECT_VALUE), status(now(OBJECT_VALUE, value="109527m"))),
    "object-average": (spec(OBJECT_AVERAGE), status(now(OBJECT_AVERAGE, averageValue="17187m"))),
    "object-both": (
        spec(described("hits", averageValue="2", value="3")),
        status(now(OBJECT_VALUE, value="5", averageValue="4")),
    ),
    "external-value": (spec(QUEUE_VALUE), status(now(QUEUE_VALUE, value="314085m"))),
    "external-average": (spec(QUEUE_AVERAGE), status(now(QUEUE_AVERAGE, averageValue="5888m"))),
    "external-empty": (spec(QUEUE_AVERAGE, QUEUE_VALUE), status(now(QUEUE_AVERAGE))),
    "failed": (spec(CPU, QUEUE_AVERAGE), status(FAILED, now(QUEUE_AVERAGE, averageValue="1"))),
    "shifted": (spec(CPU, MEMORY), status(now(RPS, averageValue="1"))),
    "five": (
        spec(CPU, RPS, MEMORY, OBJECT_VALUE, CONTAINER, high=2000),
        status(
            now(CPU, averageUtilization=145, averageValue="90m"), now(RPS, averageValue="1k"),
            now(MEMORY, averageValue="1e3"), now(OBJECT_VALUE, value="0"), FAILED,
            current=0, desired=0, conditions=[ABLE, BROKEN, LIMITED],
        ),
    ),
    "three": (spec(CPU, RPS, MEMORY, high=2_147_483_647), None),
    "odd": (spec(ODD_NAME), status(now(ODD_NAME, averageValue="-1"))),
    "to-zero": (spec(QUEUE_VALUE, low=0), status(now(QUEUE_VALUE, value="0"), current=0)),
    "defaults": (spec(low=None), None),
    "behavior": (spec(CPU, behavior=BEHAVIOR), status(conditions=[ABLE])),
    "behavior-empty": (spec(CPU, behavior={}), None),
    "behavior-one": (spec(CPU, behavior={"scaleUp": {"stabilizationWindowSeconds": 0}}), None),
    "labelled": (spec(CPU), None),
}  # fmt: skip

METADATA: dict[str, Json] = {
    "labelled": {
        "labels": {"tier": "front", "app.kubernetes.io/name": "web", "a": ""},
        "annotations": {
            LAST_APPLIED: "{}",
            "short": "value",
            "long": "0123456789" * 30,
            "cut-through": "é" * 100,
            "lines": "first\n" + "second " * 30 + "\n\n",
            "just-fits": "x" * 129,
            "does-not": "x" * 131,
            "ends": "one line\n",
            "odd": "two  spaces here ",
        },
    },
}

# type, reason, message, first and last time in seconds before the test, count
EVENTS: dict[str, list[tuple[str, str, str, int, int, int]]] = {
    "cpu": [
        ("Normal", "SuccessfulRescale", "New size: 4; reason: cpu above target", 42, 42, 1),
        ("Warning", "FailedGetResourceMetric", "no metrics returned", 86_400 * 3 + 7200, 95, 5612),
        ("Normal", "SuccessfulRescale", "New size: 3; reason: All metrics below target", 7, 7, 1),
        ("Warning", "FailedRescale", "  spaces around and a line's end \n", 500, 400, 2),
    ],
    "five": [("Warning", "FailedGetScale", "no matches", 60 * 60 * 9, 60 * 60 * 5 + 65, 3)],
}
