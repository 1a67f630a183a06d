"""HPA specs as older API servers return them: stored as autoscaling/v1.

Until 1.26 every HPA was stored as v1, whatever version it was written in, so all readers saw the
result of the conversion to v1 and back. A second conversion changes nothing more, unless an old
server (`first_cpu_utilization_kept` is false) has two Resource metrics of cpu: then it loses one.
Source: pkg/apis/autoscaling/v1/conversion.go and defaults.go, install/install.go.
"""

from __future__ import annotations

from dataclasses import replace

from hpabatch.model.objects.decode import cpu_utilization
from hpabatch.model.objects.decode_legacy import typed
from hpabatch.model.objects.hpa import HPASpec, MetricSpec
from hpabatch.model.versions import Profile

_DEFAULT_UTILIZATION = 80
# Fields of a metric in the order in which the first one that is set counts.
_KINDS = {
    "object": "Object",
    "external": "External",
    "pods": "Pods",
    "container_resource": "ContainerResource",
    "resource": "Resource",
}


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
    for name, kind in _KINDS.items():
        source = getattr(metric, name)
        if source is not None:
            target = typed(kind, source.target)
            if target.average_utilization is not None and kind == "Resource" and _is_cpu(metric):
                return cpu_utilization(target.average_utilization)
            return replace(metric, **{name: replace(source, target=target)})
    return metric
