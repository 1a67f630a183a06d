"""Specs built from exported series, completed by a document where there is one.

kube-state-metrics exports a metric's name and target, but no type, selector, object or (in older
versions) container, and no behavior. cpu and memory are resources in nearly every HPA, so a spec
with these alone follows from the gauges; every other spec needs the document. Amounts are exported
in whole units (cores, bytes) as numbers; versions before 2.7 leave out amounts that are not whole,
and metrics of containers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from hpabatch.importers.prometheus.specs.recorded import Metric, Recorded
from hpabatch.model.objects.defaults import default_spec
from hpabatch.model.objects.hpa import (
    HPA,
    ContainerResourceMetricSource,
    CrossVersionObjectReference,
    HPASpec,
    MetricSpec,
    MetricTarget,
    ResourceMetricSource,
)
from hpabatch.model.quantity import Quantity, json_number

VALUE, AVERAGE, UTILIZATION = "value", "average", "utilization"
RESOURCES: Final = ("cpu", "memory")
"""Names that are taken for resources; all that the metrics API has."""

_KINDS: Final = {VALUE: "Value", AVERAGE: "AverageValue", UTILIZATION: "Utilization"}
_ALLOWED: Final[Mapping[str, tuple[str, ...]]] = {
    "Resource": (UTILIZATION, AVERAGE),
    "ContainerResource": (UTILIZATION, AVERAGE),
    "Pods": (AVERAGE,),
    "Object": (VALUE, AVERAGE),
    "External": (VALUE, AVERAGE),
}
"""Targets that a type of metric can have."""

Targets = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Built:
    """A spec, or why there is none.

    Attributes:
        spec: None: it is not known.
        reason: of that, or "".
        edited: its numbers are as exported, not as in the document.
        contradicted: the exported scale target or metrics are others than the document's.
    """

    spec: HPASpec | None
    reason: str = ""
    edited: bool = False
    contradicted: bool = False


def build_spec(recorded: Recorded, document: HPA | None) -> Built:
    """Return the spec of an instant.

    Args:
        recorded: what was exported then.
        document: a spec of another time, or from a manifest; None: there is none.
    """
    if document is None:
        return _from_gauges(recorded)
    spec = document.spec
    metrics, contradicted, unknown = _metrics(spec.metrics, recorded.targets)
    target = spec.scale_target_ref
    if recorded.target is not None and recorded.target[1:] != (target.kind, target.name):
        target, contradicted = _reference(recorded.target), True
    if unknown:
        return Built(None, _unknown(unknown), contradicted=contradicted)
    found = replace(
        spec,
        scale_target_ref=target,
        min_replicas=spec.min_replicas if recorded.least is None else recorded.least,
        max_replicas=spec.max_replicas if recorded.most is None else recorded.most,
        metrics=metrics,
    )
    if default_spec(found) == default_spec(spec):
        found = spec
    return Built(found, edited=found is not spec, contradicted=contradicted)


def _from_gauges(recorded: Recorded) -> Built:
    if recorded.target is None:
        return Built(None, "what it scales is not exported")
    if not recorded.most:
        return Built(None, "its maxReplicas is not exported")
    if not recorded.targets:
        return Built(None, "its metrics are not exported")
    metrics, unknown = _resources(recorded.targets)
    if unknown:
        return Built(None, _unknown(unknown))
    spec = HPASpec(
        scale_target_ref=_reference(recorded.target),
        min_replicas=1 if recorded.least is None else recorded.least,
        max_replicas=recorded.most,
        metrics=metrics,
    )
    return Built(spec)


def _unknown(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"the type of its metric {names[0]} is not exported"
    return f"the types of its metrics {', '.join(sorted(names))} are not exported"


def _reference(target: tuple[str, str, str]) -> CrossVersionObjectReference:
    version, kind, name = target
    return CrossVersionObjectReference(kind, name, version)


def _resources(targets: Mapping[Metric, Targets]) -> tuple[tuple[MetricSpec, ...], list[str]]:
    """Return metrics of resources, and the names of those that are none."""
    found: list[MetricSpec] = []
    unknown: list[str] = []
    for (name, container), values in sorted(targets.items()):
        if name not in RESOURCES or not set(values) <= {UTILIZATION, AVERAGE}:
            unknown.append(name)
            continue
        # An HPA may have both, as two metrics.
        for kind in (UTILIZATION, AVERAGE):
            if kind not in values:
                continue
            target = _target({kind: values[kind]}, MetricTarget())
            if container:
                source = ContainerResourceMetricSource(name, container, target)
                found.append(MetricSpec("ContainerResource", container_resource=source))
            else:
                found.append(MetricSpec("Resource", resource=ResourceMetricSource(name, target)))
    return tuple(found), unknown


def _metrics(
    metrics: Sequence[MetricSpec], targets: Mapping[Metric, Targets]
) -> tuple[tuple[MetricSpec, ...], bool, list[str]]:
    """Return a document's metrics as exported, whether they are others, and which are unknown."""
    if not targets:
        return tuple(metrics), False, []
    shared = Counter(_name(metric) for metric in metrics)
    contained = any(container for _, container in targets)
    found: list[MetricSpec] = []
    used: set[Metric] = set()
    for metric in metrics:
        key = _name(metric) if contained else (_name(metric)[0], "")
        values = targets.get(key)
        if values is None:
            if not _is_exported(metric):
                found.append(metric)
            continue
        used.add(key)
        alone = shared[_name(metric)] == 1 and _alone(metrics, key[0], contained)
        found.append(_retargeted(metric, values) if alone else metric)
    lost = len(found) < len(metrics)
    rest = {key: values for key, values in targets.items() if key not in used}
    added, unknown = _resources(rest)
    return (*found, *added), lost or bool(rest), unknown


def _alone(metrics: Sequence[MetricSpec], name: str, contained: bool) -> bool:
    """Whether an exported name can only be one of the metrics."""
    return contained or sum(_name(metric)[0] == name for metric in metrics) == 1


def _name(metric: MetricSpec) -> Metric:
    if metric.resource is not None:
        return metric.resource.name, ""
    if metric.container_resource is not None:
        return metric.container_resource.name, metric.container_resource.container
    for source in (metric.pods, metric.object, metric.external):
        if source is not None:
            return source.metric.name, ""
    return "", ""


def _is_exported(metric: MetricSpec) -> bool:
    """Whether every version of kube-state-metrics exports a metric."""
    target = metric.target
    amounts = [one for one in (target.value, target.average_value) if one is not None]
    whole = all(one.milli() % 1000 == 0 for one in amounts)
    return metric.container_resource is None and (whole or target.average_utilization is not None)


def _retargeted(metric: MetricSpec, values: Targets) -> MetricSpec:
    """Return a metric with the exported targets."""
    kept = {kind: values[kind] for kind in _ALLOWED.get(metric.type, ()) if kind in values}
    if not kept:
        return metric
    return metric.with_target(_target(kept, metric.target))


def _target(values: Targets, before: MetricTarget) -> MetricTarget:
    """Return a target with these values; amounts that are as before keep their spelling."""
    kinds = [_KINDS[kind] for kind in (UTILIZATION, AVERAGE, VALUE) if kind in values]
    return MetricTarget(
        type=before.type if before.type in kinds else kinds[0],
        value=_amount(values.get(VALUE), before.value),
        average_value=_amount(values.get(AVERAGE), before.average_value),
        average_utilization=None if UTILIZATION not in values else round(values[UTILIZATION]),
    )


def _amount(value: float | None, before: Quantity | None) -> Quantity | None:
    if value is None:
        return None
    if before is not None and abs(before.milli() / 1000 - value) <= 1e-9 * max(1.0, abs(value)):
        return before
    if value == round(value):
        return Quantity.parse(json_number(round(value)))
    return Quantity.from_milli(round(value * 1000))
