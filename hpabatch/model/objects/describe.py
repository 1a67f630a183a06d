"""Metric descriptions as in events, reasons and conditions.

Source: horizontal.go, the metric names that computeStatusFor* functions return.
"""

from __future__ import annotations

from hpabatch.layout import codes
from hpabatch.model.objects.hpa import (
    ContainerResourceMetricSource,
    MetricSpec,
    ObjectMetricSource,
    PodsMetricSource,
    ResourceMetricSource,
)
from hpabatch.model.selectors import go_print


def metric_name(metric: MetricSpec, kind: int, container_named: bool = True) -> str:
    """Return the description of a metric that gave a proposal; `kind` is the calculator's.

    Old versions do not say that a utilization is a container's (not `container_named`).
    """
    match metric.own:
        case None:
            return metric.type
        case ResourceMetricSource(name) | ContainerResourceMetricSource(name):
            if kind != codes.RESOURCE_UTILIZATION:
                return f"{name} resource"
            place = " container" if container_named and metric.type == "ContainerResource" else ""
            return f"{name}{place} resource utilization (percentage of request)"
        case PodsMetricSource(identifier):
            return f"pods metric {identifier.name}"
        case ObjectMetricSource(described, identifier) if kind == codes.OBJECT_VALUE:
            return f"{described.kind} metric {identifier.name}"
        # Upstream says "external" for object averages too.
        case other:
            return f"external metric {other.metric.name}({go_print(other.metric.selector)})"


def metric_subject(metric: MetricSpec) -> str:
    """Return the short name of a metric's subject, for hpabatch's own messages."""
    container = metric.container_resource
    return metric.subject + ("" if container is None else f" of container {container.container}")
