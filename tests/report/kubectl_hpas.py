"""HPAs for the tests of kubectl's views."""

from __future__ import annotations

from hpabatch.model.objects.hpa import (
    HPA,
    ContainerResourceMetricSource,
    CrossVersionObjectReference,
    ExternalMetricSource,
    HPASpec,
    HPAStatus,
    MetricIdentifier,
    MetricSpec,
    MetricStatus,
    MetricTarget,
    MetricValueStatus,
    ObjectMetricSource,
    PodsMetricSource,
    ResourceMetricSource,
)
from hpabatch.model.quantity import Quantity

NOW_MS = 1_791_374_400_000  # 2026-10-07T12:00:00Z
CREATED = "2026-10-04T10:58:29Z"


def quantity(text: str | None) -> Quantity | None:
    return None if text is None else Quantity.parse(text)


def target(
    value: str | None = None, average: str | None = None, percent: int | None = None
) -> MetricTarget:
    kind = "Utilization" if percent is not None else "Value" if average is None else "AverageValue"
    return MetricTarget(kind, quantity(value), quantity(average), percent)


def resource(
    name: str = "cpu", average: str | None = None, percent: int | None = None
) -> MetricSpec:
    member = ResourceMetricSource(name, target(average=average, percent=percent))
    return MetricSpec("Resource", resource=member)


def container(average: str | None = None, percent: int | None = None) -> MetricSpec:
    member = ContainerResourceMetricSource("cpu", "app", target(average=average, percent=percent))
    return MetricSpec("ContainerResource", container_resource=member)


def pods(average: str | None, name: str = "rps") -> MetricSpec:
    member = PodsMetricSource(MetricIdentifier(name), target(average=average))
    return MetricSpec("Pods", pods=member)


def described(value: str | None = None, average: str | None = None) -> MetricSpec:
    described = CrossVersionObjectReference("Ingress", "main", "networking.k8s.io/v1")
    member = ObjectMetricSource(described, MetricIdentifier("hits"), target(value, average))
    return MetricSpec("Object", object=member)


def external(value: str | None = None, average: str | None = None) -> MetricSpec:
    member = ExternalMetricSource(MetricIdentifier("queue"), target(value, average))
    return MetricSpec("External", external=member)


def current(
    metric: MetricSpec, value: str | None = None, average: str | None = None,
    percent: int | None = None,
) -> MetricStatus:  # fmt: skip
    numbers = MetricValueStatus(quantity(value), quantity(average), percent)
    return MetricStatus(metric.type, current=numbers)


def hpa(
    *metrics: MetricSpec, statuses: tuple[MetricStatus, ...] | None = None,
    name: str = "web", namespace: str = "shop", min_replicas: int | None = 2,
) -> HPA:  # fmt: skip
    reference = CrossVersionObjectReference("Deployment", "web", "apps/v1")
    return HPA(
        name=name,
        namespace=namespace,
        spec=HPASpec(reference, min_replicas, 10, metrics),
        status=HPAStatus(current_replicas=3, desired_replicas=4, current_metrics=statuses),
        creation_timestamp=CREATED,
    )
