"""An HPA's spec as an API server of old hands it back: stored as autoscaling/v1.

Until 1.26 every HPA was stored as v1, whatever version it was written in, so that all readers saw
what the conversion to v1 and back makes of it. Doing it twice changes nothing more.
Source: pkg/apis/autoscaling/v1/conversion.go and defaults.go, install/install.go.
"""

from __future__ import annotations

from dataclasses import replace

from hpabatch.model.config import Profile
from hpabatch.model.decode import cpu_utilization
from hpabatch.model.hpa import HPASpec, MetricSpec, MetricTarget
from hpabatch.model.quantity import Quantity

_DEFAULT_UTILIZATION = 80


def as_stored(spec: HPASpec, profile: Profile) -> HPASpec:
    """Return a spec (defaults filled in) as a server of that version hands it back."""
    if profile.stored_as_v2:
        return spec
    utilization = _kept_utilization(spec.metrics, profile.first_cpu_utilization_kept)
    others = [_with_derived_type(m) for m in spec.metrics if not _is_cpu_utilization(m)]
    if utilization is None and not others:
        utilization = _DEFAULT_UTILIZATION
    last = [] if utilization is None else [cpu_utilization(utilization)]
    return replace(spec, metrics=tuple(others + last))


def _is_cpu_utilization(metric: MetricSpec) -> bool:
    member = metric.resource
    is_cpu = metric.type == "Resource" and member is not None and member.name == "cpu"
    return is_cpu and member is not None and member.target.average_utilization is not None


def _kept_utilization(metrics: tuple[MetricSpec, ...], first_kept: bool) -> int | None:
    """Return the one utilization of cpu that v1 has a field for."""
    for metric in metrics:
        member = metric.resource
        if metric.type != "Resource" or member is None or member.name != "cpu":
            continue
        if member.target.average_utilization is not None or not first_kept:
            return member.target.average_utilization
    return None


def _with_derived_type(metric: MetricSpec) -> MetricSpec:
    """Return a metric whose target's type follows from the members that are set."""
    if metric.object is not None:
        target = metric.object.target
        kind = "Value" if target.average_value is None else "AverageValue"
        value = Quantity.from_milli(0) if target.value is None else target.value
        target = replace(target, type=kind, value=value)
        return replace(metric, object=replace(metric.object, target=target))
    if metric.external is not None:
        kind = "AverageValue" if metric.external.target.value is None else "Value"
        target = replace(metric.external.target, type=kind)
        return replace(metric, external=replace(metric.external, target=target))
    if metric.pods is not None:
        target = replace(metric.pods.target, type="AverageValue")
        return replace(metric, pods=replace(metric.pods, target=target))
    if metric.resource is not None:
        target = _of_resource(metric.resource.target)
        return replace(metric, resource=replace(metric.resource, target=target))
    if metric.container_resource is not None:
        target = _of_resource(metric.container_resource.target)
        return replace(metric, container_resource=replace(metric.container_resource, target=target))
    return metric


def _of_resource(target: MetricTarget) -> MetricTarget:
    is_share = target.average_utilization is not None
    return replace(target, type="Utilization" if is_share else "AverageValue")
