"""HPA specs as older API servers return them: stored as autoscaling/v1.

Until 1.26 every HPA was stored as v1, whatever version it was written in, so all readers saw the
result of the conversion to v1 and back. A second conversion changes nothing more, unless an old
server (`first_cpu_utilization_kept` is false) has two Resource metrics of cpu: then it loses one.
Source: pkg/apis/autoscaling/v1/conversion.go and defaults.go, install/install.go.
"""

from __future__ import annotations

from dataclasses import replace

from hpabatch.model.objects.decode import cpu_utilization
from hpabatch.model.objects.hpa import HPASpec, MetricSpec, MetricTarget
from hpabatch.model.quantity import Quantity
from hpabatch.model.versions import Profile

_DEFAULT_UTILIZATION = 80
_ZERO = Quantity.from_milli(0)


def as_stored(spec: HPASpec, profile: Profile) -> HPASpec:
    """Return a spec (defaults filled in) as a server of that version returns it."""
    if profile.stored_as_v2:
        return spec
    kept = stored_order(spec, profile)
    metrics = tuple(_as_stored(None if k is None else spec.metrics[k]) for k in kept)
    return replace(spec, metrics=metrics)


def stored_order(spec: HPASpec, profile: Profile) -> tuple[int | None, ...]:
    """Return the places in `spec.metrics` that the metrics of the stored spec come from.

    Data by metric of the written spec, such as responses, can be moved by these places. None stands
    for the metric that a server adds where there is no other.
    """
    metrics = spec.metrics
    if profile.stored_as_v2:
        return tuple(range(len(metrics)))
    others = [k for k, metric in enumerate(metrics) if not _is_cpu_utilization(metric)]
    last = _kept_utilization(metrics, profile.first_cpu_utilization_kept)
    if last is None:
        return tuple(others) or (None,)
    return (*others, last)


def _is_cpu(metric: MetricSpec) -> bool:
    member = metric.resource
    return metric.type == "Resource" and member is not None and member.name == "cpu"


def _is_cpu_utilization(metric: MetricSpec) -> bool:
    member = metric.resource
    has_share = member is not None and member.target.average_utilization is not None
    return has_share and _is_cpu(metric)


def _kept_utilization(metrics: tuple[MetricSpec, ...], first_kept: bool) -> int | None:
    """Return the place of the one utilization of cpu that v1 has a field for."""
    for k, metric in enumerate(metrics):
        if _is_cpu_utilization(metric):
            return k
        if _is_cpu(metric) and not first_kept:
            return None
    return None


def _as_stored(metric: MetricSpec | None) -> MetricSpec:
    """Return a metric with what v1 has of its target, whose type follows from the rest."""
    if metric is None:
        return cpu_utilization(_DEFAULT_UTILIZATION)
    if metric.object is not None:
        target = _of_object(metric.object.target)
        return replace(metric, object=replace(metric.object, target=target))
    if metric.external is not None:
        target = _of_external(metric.external.target)
        return replace(metric, external=replace(metric.external, target=target))
    if metric.pods is not None:
        average = metric.pods.target.average_value
        target = MetricTarget("AverageValue", average_value=_ZERO if average is None else average)
        return replace(metric, pods=replace(metric.pods, target=target))
    if metric.container_resource is not None:
        target = _of_resource(metric.container_resource.target)
        return replace(metric, container_resource=replace(metric.container_resource, target=target))
    if metric.resource is not None:
        target = _of_resource(metric.resource.target)
        if target.average_utilization is not None and _is_cpu(metric):
            return cpu_utilization(target.average_utilization)
        return replace(metric, resource=replace(metric.resource, target=target))
    return metric


def _of_object(target: MetricTarget) -> MetricTarget:
    return MetricTarget(
        type="Value" if target.average_value is None else "AverageValue",
        value=_ZERO if target.value is None else target.value,
        average_value=target.average_value,
    )


def _of_external(target: MetricTarget) -> MetricTarget:
    return MetricTarget(
        type="AverageValue" if target.value is None else "Value",
        value=target.value,
        average_value=target.average_value,
    )


def _of_resource(target: MetricTarget) -> MetricTarget:
    return MetricTarget(
        type="AverageValue" if target.average_utilization is None else "Utilization",
        average_value=target.average_value,
        average_utilization=target.average_utilization,
    )
