"""Validation of one metric spec: the members that are set, and the contents of the first one.

Follows validateMetricSpec and below in pkg/apis/autoscaling/validation/validation.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from hpabatch.model import names
from hpabatch.model.objects.field_errors import (
    FieldError,
    forbidden,
    invalid,
    invalid_typed,
    not_supported,
    required,
)
from hpabatch.model.objects.hpa import (
    HPA,
    MEMBERS,
    ContainerResourceMetricSource,
    CrossVersionObjectReference,
    ExternalMetricSource,
    MetricIdentifier,
    MetricSource,
    MetricSpec,
    MetricTarget,
    ObjectMetricSource,
    PodsMetricSource,
    ResourceMetricSource,
    ResourceSource,
)
from hpabatch.model.versions import SINCE, Profile

METRIC_TYPES = tuple(sorted(MEMBERS))
_ORDER = ("Object", "External", "Pods", "Resource", "ContainerResource")
"""Types of metrics in the order in which upstream looks for their members."""
_TARGET_TYPES = ("Utilization", "Value", "AverageValue")
_TYPE_OF_VALUE = {
    "value": "Value", "average_value": "AverageValue", "average_utilization": "Utilization",
}  # fmt: skip
_READ: Mapping[type[MetricSource], tuple[str, ...]] = {
    ObjectMetricSource: ("average_value", "value"),
    ExternalMetricSource: ("average_value", "value"),
    PodsMetricSource: ("average_value",),
    ResourceMetricSource: ("average_value", "average_utilization"),
    ContainerResourceMetricSource: ("average_value", "average_utilization"),
}
"""Fields of a target that the controller reads, the first that is set."""


class _Needs(NamedTuple):
    """The errors of a target without a value that is read, and of one with both of them."""

    missing: str
    words: str
    second: str = ""
    both: str = ""


_USAGE: Final = _Needs(
    "averageUtilization",
    "must set either a target raw value or a target utilization",
    "averageValue",
    "may not set both a target raw value and a target utilization",
)
_NEEDS: Mapping[type[MetricSource], _Needs] = {
    ObjectMetricSource: _Needs("averageValue", "must set either a target value or averageValue"),
    ExternalMetricSource: _Needs(
        "averageValue",
        "must set either a target value for metric or a per-pod target",
        "value",
        "may not set both a target value for metric and a per-pod target",
    ),
    PodsMetricSource: _Needs("averageValue", "must specify a positive target averageValue"),
    ResourceMetricSource: _USAGE,
    ContainerResourceMetricSource: _USAGE,
}


def validate_metric(
    metric: MetricSpec,
    path: str,
    check_api_version: bool = True,
    containers_served: bool = True,
) -> list[FieldError]:
    """Check one metric; only the contents of the first member present are checked."""
    errors: list[FieldError] = []
    if not metric.type:
        errors.append(required(f"{path}.type", "must specify a metric source type"))
    known = metric.type in METRIC_TYPES
    if not known:
        errors.append(not_supported(f"{path}.type", metric.type, METRIC_TYPES))
    present = {MEMBERS[kind]: source for kind in _ORDER if (source := metric.member(kind))}
    if present:
        member, source = next(iter(present.items()))
        errors += _validate_source(source, f"{path}.{member}", check_api_version)
    expected = MEMBERS.get(metric.type, "")
    if not known:  # upstream says it twice
        errors.append(not_supported(f"{path}.type", metric.type, METRIC_TYPES))
    elif expected not in present:
        text = "must populate information for the given metric source"
        if metric.type == "ContainerResource" and not containers_served:
            text += " (only allowed when HPAContainerMetrics feature is enabled)"
        errors.append(required(f"{path}.{expected}", text))
    if len(present) != 1:
        text = "must populate the given metric source only"
        errors += [forbidden(f"{path}.{member}", text) for member in present if member != expected]
    return errors


def other_targets(hpa: HPA, profile: Profile) -> list[str]:
    """Return a sentence for each metric whose target's type is not that of its value.

    The server accepts them. The controller goes by the type for Object metrics that are stored as
    v2, else by the value (computeStatusFor… in horizontal.go).
    """
    found = []
    for index, metric in enumerate(hpa.spec.metrics):
        if metric.own is not None and (effect := _effect(metric.own, profile)):
            path = f"spec.metrics[{index}].{MEMBERS[metric.type]}.target.type"
            found.append(f"{path}: {effect}")
    return found


def _effect(source: MetricSource, profile: Profile) -> str:
    """Return what a target does whose type is not that of its value, "" for another."""
    target = source.target
    value = next((n for n in _READ[type(source)] if getattr(target, n) is not None), None)
    if target.type not in _TARGET_TYPES or value is None:
        return ""
    kind = _TYPE_OF_VALUE[value]
    is_object = isinstance(source, ObjectMetricSource)
    by_type = is_object and profile.stored_as_v2
    if kind == target.type or (by_type and target.type == "Value" and target.value is not None):
        return ""
    field = {"average_value": "averageValue", "average_utilization": "averageUtilization"}
    told = f"{target.type}, but the target has {field.get(value, value)}: "
    acts = f"it acts as type: {kind}" + (", not divided by the pods" if kind == "Value" else "")
    fails = "every sync fails with FailedGetObjectMetric"
    if by_type:
        acts = fails
    elif is_object:
        until = SINCE["stored_as_v2"].minor
        acts += f" (Kubernetes {profile.name} stores it so; from 1.{until} on {fails})"
    return f"{told}{acts}; set type: {kind}"


def validate_names(reference: CrossVersionObjectReference, path: str) -> list[FieldError]:
    """Check kind and name of a reference to an object."""
    errors: list[FieldError] = []
    for field, value in (("kind", reference.kind), ("name", reference.name)):
        if not value:
            errors.append(required(f"{path}.{field}"))
        errors += [invalid(f"{path}.{field}", value, text) for text in names.path_segment(value)]
    return errors


def api_version_complaint(api_version: str, allow_empty_group: bool) -> str:
    """Return the error of a reference's apiVersion, or ""."""
    if api_version.count("/") > 1:
        return f"unexpected GroupVersion string: {api_version}"
    group, slash, _ = api_version.partition("/")
    if allow_empty_group or (slash and group):
        return ""
    return "apiVersion must specify API group"


def _validate_source(source: MetricSource, path: str, check_api_version: bool) -> list[FieldError]:
    """Check a metric's member: what it is of, in upstream's order, then its target."""
    errors: list[FieldError] = []
    if isinstance(source, ObjectMetricSource):
        described, place = source.described_object, f"{path}.describedObject"
        errors += validate_names(described, place)
        text = api_version_complaint(described.api_version, allow_empty_group=True)
        if check_api_version and text:
            errors.append(invalid(f"{place}.apiVersion", described.api_version, text))
    if isinstance(source, ResourceSource):
        if not source.name:
            errors.append(required(f"{path}.name", "must specify a resource name"))
    else:
        errors += _validate_identifier(source.metric, f"{path}.metric")
    if isinstance(source, ContainerResourceMetricSource):
        complaints = names.container_resource(source.name) if source.name else []
        errors += [invalid(f"{path}.name", source.name, text) for text in complaints]
        if not source.container:
            errors.append(required(f"{path}.container", "must specify a container"))
        else:
            complaints = names.dns1123_label(source.container)
            errors += [invalid(f"{path}.container", source.container, text) for text in complaints]
    target, needs = source.target, _NEEDS[type(source)]
    errors += _validate_target(target, f"{path}.target")
    there = [name for name in _READ[type(source)] if getattr(target, name) is not None]
    if not there:
        errors.append(required(f"{path}.target.{needs.missing}", needs.words))
    if len(there) > 1 and needs.second:
        errors.append(forbidden(f"{path}.target.{needs.second}", needs.both))
    return errors


def _validate_target(target: MetricTarget, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not target.type:
        errors.append(required(f"{path}.type", "must specify a metric target type"))
    if target.type not in _TARGET_TYPES:
        text = "must be either Utilization, Value, or AverageValue"
        errors.append(invalid_typed(f"{path}.type", target.type, text))
    for field, quantity in (("value", target.value), ("averageValue", target.average_value)):
        if quantity is not None and quantity.sign() != 1:
            errors.append(invalid(f"{path}.{field}", quantity, "must be positive"))
    percent = target.average_utilization
    if percent is not None and percent < 1:
        errors.append(invalid(f"{path}.averageUtilization", percent, "must be greater than 0"))
    return errors


def _validate_identifier(metric: MetricIdentifier, path: str) -> list[FieldError]:
    if not metric.name:
        return [required(f"{path}.name", "must specify a metric name")]
    return [invalid(f"{path}.name", metric.name, text) for text in names.path_segment(metric.name)]
