"""HPAs as people write them, in every API version, and settings that are put on them.

`WRITTEN` are single HPAs by name, `SETTINGS` the field values and the names of those that get them;
`MANIFEST` is a whole file, NAME stands for the HPA's name.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from tests.real.kubectl_objects import (
    BEHAVIOR,
    CONTAINER,
    CPU,
    DEPLOYMENT,
    INGRESS,
    MEMORY,
    OBJECT_AVERAGE,
    OBJECT_VALUE,
    QUEUE_AVERAGE,
    QUEUE_VALUE,
    RPS,
    Json,
    resource,
    spec,
)

_METRICS = "autoscaling.alpha.kubernetes.io/metrics"
_BEHAVIOR = "autoscaling.alpha.kubernetes.io/behavior"


@dataclass(frozen=True, slots=True)
class Written:
    """A spec as it is in a document of some version."""

    spec: Json
    version: str = "v2beta2"
    annotations: Json = field(default_factory=dict)


def _behavior(**ways: Json) -> Json:
    return spec(CPU, low=2, behavior=ways)


def _old(**more: object) -> Json:
    return {"scaleTargetRef": DEPLOYMENT, "minReplicas": 2, "maxReplicas": 10, **more}


_V1_METRICS = json.dumps(
    [
        {"type": "Resource", "resource": {"name": "memory", "targetAverageValue": "100Mi"}},
        {"type": "Pods", "pods": {"metricName": "rps", "targetAverageValue": "1500m"}},
    ]
)
_V1_DOWN: Json = {
    "StabilizationWindowSeconds": 120, "SelectPolicy": "Min",
    "Policies": [{"Type": "Pods", "Value": 2, "PeriodSeconds": 90}],
}  # fmt: skip
_V2BETA1_METRICS = [
    {"type": "Resource", "resource": {"name": "cpu", "targetAverageUtilization": 65}},
    {"type": "Resource", "resource": {"name": "memory", "targetAverageValue": "200Mi"}},
    {"type": "Object", "object": {"metricName": "hits", "target": INGRESS, "targetValue": "10k"}},
    {"type": "External", "external": {"metricName": "queue_length", "targetAverageValue": "30"}},
]

WRITTEN: dict[str, Written] = {
    "cpu": Written(spec(CPU, low=2)),
    "cpu-average": Written(spec(resource("cpu", averageValue="500m"), low=2)),
    "memory": Written(spec(MEMORY, low=2)),
    "memory-share": Written(spec(resource("memory", averageUtilization=85))),
    "pods": Written(spec(RPS)),
    "container": Written(spec(CONTAINER)),
    "object": Written(spec(OBJECT_VALUE)),
    "object-average": Written(spec(OBJECT_AVERAGE)),
    "queue": Written(spec(QUEUE_VALUE)),
    "queue-average": Written(spec(QUEUE_AVERAGE)),
    "several": Written(spec(CPU, MEMORY, QUEUE_AVERAGE, behavior=BEHAVIOR)),
    "defaults": Written({"scaleTargetRef": DEPLOYMENT, "maxReplicas": 10}),
    "behavior": Written(spec(RPS, CPU, behavior=BEHAVIOR)),
    "behavior-empty": Written(_behavior()),
    "behavior-up": Written(_behavior(scaleUp={"stabilizationWindowSeconds": 0})),
    "behavior-down": Written(_behavior(scaleDown={"selectPolicy": "Disabled"})),
    "v1": Written(_old(targetCPUUtilizationPercentage=65), "v1"),
    "v1-bare": Written({"scaleTargetRef": DEPLOYMENT, "maxReplicas": 4}, "v1"),
    "v1-annotated": Written(
        _old(targetCPUUtilizationPercentage=65), "v1",
        {_METRICS: _V1_METRICS, _BEHAVIOR: json.dumps({"ScaleDown": _V1_DOWN})},
    ),
    "v2beta1": Written(_old(metrics=_V2BETA1_METRICS), "v2beta1"),
    "v2": Written(spec(CONTAINER, CPU, behavior=BEHAVIOR), "v2"),
}  # fmt: skip

EVERYTHING = {
    "target": "x1.5", "min": "x2", "max": "40", "scaleUp.window": "30", "scaleDown.window": "900",
    "policies": "fast", "scaleDown.select": "Min",
}  # fmt: skip
_ODD, _EVEN = tuple(WRITTEN)[1::2], tuple(WRITTEN)[::2]
_SHARES = ("cpu", "memory-share", "container", "several", "v1", "v1-annotated", "v2beta1", "v2")
SETTINGS: tuple[tuple[dict[str, str], tuple[str, ...]], ...] = (
    (EVERYTHING, tuple(WRITTEN)),
    ({"target": "x0.8"}, _ODD),
    ({"max": "x2"}, _EVEN),
    ({"scaleDown.window": "600"}, _ODD),
    ({"scaleUp.window": "120", "scaleUp.select": "Disabled"}, _EVEN),
    ({"policies": "gentle"}, _ODD),
    ({"scaleUp.policies": "fast"}, _EVEN),
    ({"scaleDown.policies": "default"}, _ODD),
    ({"target": "70"}, _SHARES),
    ({"min": "+2"}, _SHARES),
    ({"target": "64Mi", "scaleDown.select": "Min"}, ("memory",)),
    ({"target.queue_length": "45", "min": "0"}, ("several", "queue", "queue-average", "v2beta1")),
    ({"target.hits": "x2.5"}, ("object", "object-average", "v2beta1")),
    ({"target.memory": "x0.5", "target.cpu": "x0.5"}, ("several", "v1-annotated", "v2beta1")),
)

METADATA: Json = {
    "labels": {"tier": "front"},
    "annotations": {"owner": "shop team", "on-call": "yes"},
    "finalizers": ["example.com/keep"],
    "ownerReferences": [
        {"apiVersion": "example.com/v1", "kind": "Shop", "name": "main", "uid": "1-2-3"}
    ],
}
"""What patches must leave as it is."""

# ---- manifests ----------------------------------------------------------------------------------

MANIFEST = """\
# the API's own HPA
apiVersion: autoscaling/v2beta2
kind: HorizontalPodAutoscaler
metadata:
    name: NAME      # do not rename
    namespace: 'shop'
    labels: {tier: front}
spec:
    scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: api}

    maxReplicas: 10   # agreed with finance
    metrics:
    -   type: Resource
        resource:
            name: cpu
            target: {type: Utilization, averageUtilization: 60}  # measured in spring
    -   type: Pods
        pods:
            metric: {name: rps}
            target:
                type: AverageValue
                averageValue: "100"
    behavior:
        scaleDown:
            policies:
            -   type: Pods     # calm
                value: 2
                periodSeconds: 60
    # the end
---
kind: ConfigMap
apiVersion: v1
metadata: {name: NAME, namespace: shop}
data: {a:   "1"}
"""
