"""Metric descriptions as in events, reasons and conditions.

Source: horizontal.go, the metric names that computeStatusFor* functions return.
"""

from __future__ import annotations

from hpabatch.layout import codes
from hpabatch.model.objects.hpa import MetricSpec
from hpabatch.model.selectors import go_print


def metric_name(metric: MetricSpec, kind: int, container_named: bool = True) -> str:
    """Return the description of a metric that gave a proposal; `kind` is the calculator's.

    Old versions do not say that a utilization is a container's (not `container_named`).
    """
    if metric.resource is not None and metric.type == "Resource":
        by_request = " utilization (percentage of request)"
        suffix = by_request if kind == codes.RESOURCE_UTILIZATION else ""
        return f"{metric.resource.name} resource{suffix}"
    if metric.container_resource is not None and metric.type == "ContainerResource":
        if kind == codes.RESOURCE_UTILIZATION:
            name = metric.container_resource.name
            place = " container" if container_named else ""
            return f"{name}{place} resource utilization (percentage of request)"
        return f"{metric.container_resource.name} resource"
    if metric.pods is not None and metric.type == "Pods":
        return f"pods metric {metric.pods.metric.name}"
    if metric.object is not None and metric.type == "Object":
        if kind == codes.OBJECT_VALUE:
            return f"{metric.object.described_object.kind} metric {metric.object.metric.name}"
        # Upstream says "external" for object averages too.
        identifier = metric.object.metric
        return f"external metric {identifier.name}({go_print(identifier.selector)})"
    if metric.external is not None and metric.type == "External":
        identifier = metric.external.metric
        return f"external metric {identifier.name}({go_print(identifier.selector)})"
    return metric.type


def metric_subject(metric: MetricSpec) -> str:
    """Return the short name of a metric's subject, for hpabatch's own messages."""
    if metric.resource is not None:
        return metric.resource.name
    if metric.container_resource is not None:
        member = metric.container_resource
        return f"{member.name} of container {member.container}"
    for source in (metric.pods, metric.object, metric.external):
        if source is not None:
            return source.metric.name
    return metric.type
