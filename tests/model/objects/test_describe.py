"""Names of metrics as they stand in events, and in messages of our own."""

from __future__ import annotations

from typing import Any

import pytest

from hpabatch.model.objects.decode import decode_hpa
from hpabatch.model.objects.describe import metric_name, metric_subject
from hpabatch.model.objects.hpa import MetricSpec
from hpabatch.packing.specs import pack_metric

UTILIZATION = {"type": "Utilization", "averageUtilization": 50}
AVERAGE = {"type": "AverageValue", "averageValue": "5"}
VALUE = {"type": "Value", "value": "5"}
QUEUE = {"name": "queue", "selector": {"matchLabels": {"q": "a"}}}
PRINTED = (
    "&LabelSelector{MatchLabels:map[string]string{q: a,},"
    "MatchExpressions:[]LabelSelectorRequirement{},}"
)
INGRESS = {"kind": "Ingress", "name": "web", "apiVersion": "networking.k8s.io/v1"}


def metric(kind: str, **member: Any) -> MetricSpec:
    """Return a metric of v2 with one member."""
    name = kind[0].lower() + kind[1:]
    document = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "spec": {"metrics": [{"type": kind, name: member} if member else {"type": kind}]},
    }
    return decode_hpa(document)[0].spec.metrics[0]


CASES = [
    (
        metric("Resource", name="cpu", target=UTILIZATION),
        "cpu resource utilization (percentage of request)",
        "cpu",
    ),
    (metric("Resource", name="memory", target=AVERAGE), "memory resource", "memory"),
    (
        metric("ContainerResource", name="cpu", container="app", target=UTILIZATION),
        "cpu container resource utilization (percentage of request)",
        "cpu of container app",
    ),
    (
        metric("ContainerResource", name="cpu", container="app", target=AVERAGE),
        "cpu resource",
        "cpu of container app",
    ),
    (metric("Pods", metric={"name": "rps"}, target=AVERAGE), "pods metric rps", "rps"),
    (
        metric("Object", describedObject=INGRESS, metric={"name": "rps"}, target=VALUE),
        "Ingress metric rps",
        "rps",
    ),
    (
        metric("Object", describedObject=INGRESS, metric={"name": "rps"}, target=AVERAGE),
        "external metric rps(nil)",
        "rps",
    ),
    (metric("External", metric=QUEUE, target=VALUE), f"external metric queue({PRINTED})", "queue"),
    (metric("Mystery"), "Mystery", "Mystery"),
]


@pytest.mark.parametrize(("spec", "name", "subject"), CASES)
def test_names(spec: MetricSpec, name: str, subject: str) -> None:
    assert metric_name(spec, pack_metric(spec).kind) == name
    assert metric_subject(spec) == subject
