"""HPAs for the tests of kubectl's views."""

from __future__ import annotations

from hpabatch.model.objects.hpa import (
    HPA,
    CrossVersionObjectReference,
    HPASpec,
    HPAStatus,
    MetricSpec,
    MetricStatus,
    MetricValueStatus,
)
from hpabatch.model.quantity import Quantity

NOW_MS = 1_791_374_400_000  # 2026-10-07T12:00:00Z
CREATED = "2026-10-04T10:58:29Z"


def current(
    metric: MetricSpec, average: str | None = None, percent: int | None = None
) -> MetricStatus:
    quantity = None if average is None else Quantity.parse(average)
    numbers = MetricValueStatus(average_value=quantity, average_utilization=percent)
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
