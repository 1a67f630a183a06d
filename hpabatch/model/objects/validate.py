"""Validation of an HPA as the API server does it, with its errors in its order.

Follows pkg/apis/autoscaling/validation/validation.go, pkg/registry/autoscaling/
horizontalpodautoscaler/strategy.go and apimachinery pkg/api/validation/objectmeta.go. The HPA is
taken after `model.objects.defaults`. The server does not check, nor does this module: that a
target's type agrees with its member, metric selectors, duplicates, a tolerance above 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from hpabatch.model import names
from hpabatch.model.objects.field_errors import (
    FieldError,
    forbidden,
    invalid,
    invalid_typed,
    not_supported,
    required,
    too_long,
)
from hpabatch.model.objects.hpa import (
    HPA,
    MEMBERS,
    Behavior,
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
    ScalingPolicy,
    ScalingRules,
)
from hpabatch.model.versions import GATES, SINCE, Profile

MAX_PERIOD_S = 1800
MAX_STABILIZATION_WINDOW_S = 3600
_MAX_ANNOTATIONS_BYTES = 256 * 1024
_SELECT_POLICIES = ("Disabled", "Max", "Min")
_POLICY_TYPES = ("Percent", "Pods")


def validate_hpa(hpa: HPA, profile: Profile, old: HPA | None = None) -> list[FieldError]:
    """Return the errors of a new HPA, or of an update of `old`; empty means valid."""
    return [*_validate_metadata(hpa), *_validate_spec(hpa, profile, old)]


def drop_disabled_fields(hpa: HPA, profile: Profile) -> HPA:
    """Remove the fields that a write drops: those of disabled feature gates."""
    if not profile.gate_container_metrics:
        metrics = tuple(replace(m, container_resource=None) for m in hpa.spec.metrics)
        hpa = replace(hpa, spec=replace(hpa.spec, metrics=metrics))
    behavior = hpa.spec.behavior
    if profile.gate_configurable_tolerance or behavior is None:
        return hpa
    stripped = Behavior(
        _without_tolerance(behavior.scale_up), _without_tolerance(behavior.scale_down)
    )
    return replace(hpa, spec=replace(hpa.spec, behavior=stripped))


def dropped_fields(hpa: HPA, profile: Profile) -> list[str]:
    """Return a sentence for each field of `behavior` that `drop_disabled_fields` removes."""
    behavior = hpa.spec.behavior
    if profile.gate_configurable_tolerance or behavior is None:
        return []
    gate = "HPAConfigurableTolerance"
    known = profile.minor >= GATES[gate].known
    why = f"dropped, as {gate} is off" if known else "unknown field, ignored"
    return [
        f"spec.behavior.{name}.tolerance: {why} (Kubernetes {profile.name}); the tolerance of the "
        "controller counts"
        for name, rules in (("scaleUp", behavior.scale_up), ("scaleDown", behavior.scale_down))
        if rules is not None and rules.tolerance is not None
    ]


def _without_tolerance(rules: ScalingRules | None) -> ScalingRules | None:
    return None if rules is None else replace(rules, tolerance=None)


def _validate_metadata(hpa: HPA) -> list[FieldError]:
    """Check the metadata; an absent namespace is the request's, so it is never missing."""
    errors: list[FieldError] = []
    if hpa.generate_name:
        masked = hpa.generate_name
        if len(masked) > 1 and masked.endswith("-"):
            masked = masked[:-2] + "a"  # the dash at the end is fine before a generated suffix
        errors += [
            invalid("metadata.generateName", hpa.generate_name, text)
            for text in names.dns1123_subdomain(masked)
        ]
    elif not hpa.name:
        errors.append(required("metadata.name", "name or generateName is required"))
    if hpa.name:
        complaints = names.dns1123_subdomain(hpa.name)
        errors += [invalid("metadata.name", hpa.name, text) for text in complaints]
    if hpa.namespace:
        complaints = names.dns1123_label(hpa.namespace)
        errors += [invalid("metadata.namespace", hpa.namespace, text) for text in complaints]
    if hpa.generation is not None and hpa.generation < 0:
        text = "must be greater than or equal to 0"
        errors.append(invalid("metadata.generation", hpa.generation, text))
    return errors + _validate_labels(hpa) + _validate_annotations(hpa)


def _validate_labels(hpa: HPA) -> list[FieldError]:
    errors: list[FieldError] = []
    for key, value in hpa.labels:
        errors += [invalid("metadata.labels", key, text) for text in names.qualified_name(key)]
        errors += [invalid("metadata.labels", value, text) for text in names.label_value(value)]
    return errors


def _validate_annotations(hpa: HPA) -> list[FieldError]:
    errors: list[FieldError] = []
    size = 0
    for key, value in hpa.annotations:
        complaints = names.qualified_name(key.lower())
        errors += [invalid("metadata.annotations", key, text) for text in complaints]
        size += len(key.encode("utf-8", "surrogatepass"))
        size += len(value.encode("utf-8", "surrogatepass"))
    if size > _MAX_ANNOTATIONS_BYTES:
        errors.append(too_long("metadata.annotations", _MAX_ANNOTATIONS_BYTES))
    return errors


def _validate_spec(hpa: HPA, profile: Profile, old: HPA | None) -> list[FieldError]:
    spec = hpa.spec
    errors = _validate_replicas(hpa, profile, old)
    errors += _validate_target(spec.scale_target_ref, profile, old)
    skip = not profile.api_version_validated
    skip = skip or (old is not None and _has_invalid_object_metric(old))
    for index, metric in enumerate(spec.metrics):
        errors += validate_metric(
            metric,
            f"spec.metrics[{index}]",
            check_api_version=not skip,
            containers_served=profile.gate_container_metrics,
        )
    if spec.min_replicas == 0 and not {"Object", "External"} & {m.type for m in spec.metrics}:
        errors.append(
            forbidden(
                "spec.metrics",
                "must specify at least one Object or External metric to support scaling to "
                "zero replicas",
            )
        )
    if spec.behavior is not None:
        errors += _validate_rules(spec.behavior.scale_up, "spec.behavior.scaleUp")
        errors += _validate_rules(spec.behavior.scale_down, "spec.behavior.scaleDown")
    return errors


def _validate_replicas(hpa: HPA, profile: Profile, old: HPA | None) -> list[FieldError]:
    """Check minReplicas and maxReplicas; 0 stays allowed for an HPA that had it."""
    low, high = hpa.spec.min_replicas, hpa.spec.max_replicas
    had_zero = old is not None and old.spec.min_replicas == 0
    bound = 0 if profile.gate_scale_to_zero or had_zero else 1
    errors: list[FieldError] = []
    if low is not None and low < bound:
        text = f"must be greater than or equal to {bound}"
        errors.append(invalid("spec.minReplicas", low, text))
    if high < 1:
        errors.append(invalid("spec.maxReplicas", high, "must be greater than 0"))
    if low is not None and high < low:
        text = "must be greater than or equal to `minReplicas`"
        errors.append(invalid("spec.maxReplicas", high, text))
    return errors


def _validate_target(
    target: CrossVersionObjectReference, profile: Profile, old: HPA | None
) -> list[FieldError]:
    """Check scaleTargetRef; its group must be named, except for ReplicationController."""
    path = "spec.scaleTargetRef"
    errors = validate_names(target, path)
    if not profile.api_version_validated:
        return errors
    if old is not None:
        before = old.spec.scale_target_ref
        if (before.kind, before.api_version) == (target.kind, target.api_version):
            return errors
    allow_empty = target.kind == "ReplicationController"
    text = api_version_complaint(target.api_version, allow_empty)
    if text:
        errors.append(invalid(f"{path}.apiVersion", target.api_version, text))
    return errors


def _has_invalid_object_metric(hpa: HPA) -> bool:
    """Whether a stored Object metric has an apiVersion that is invalid today."""
    return any(
        metric.type == "Object"
        and metric.object is not None
        and api_version_complaint(metric.object.described_object.api_version, True) != ""
        for metric in hpa.spec.metrics
    )


def _validate_rules(rules: ScalingRules | None, path: str) -> list[FieldError]:
    """Check one direction of behavior."""
    if rules is None:
        return []
    errors: list[FieldError] = []
    window = rules.stabilization_window_seconds
    if window is not None:
        field = f"{path}.stabilizationWindowSeconds"
        if window < 0:
            errors.append(invalid(field, window, "must be greater than or equal to zero"))
        if window > MAX_STABILIZATION_WINDOW_S:
            text = f"must be less than or equal to {MAX_STABILIZATION_WINDOW_S}"
            errors.append(invalid(field, window, text))
    if rules.select_policy is not None and rules.select_policy not in _SELECT_POLICIES:
        errors.append(not_supported(f"{path}.selectPolicy", rules.select_policy, _SELECT_POLICIES))
    if not rules.policies:
        errors.append(required(f"{path}.policies", "must specify at least one Policy"))
    for index, policy in enumerate(rules.policies or ()):
        errors += _validate_policy(policy, f"{path}.policies[{index}]")
    if rules.tolerance is not None and rules.tolerance.sign() < 0:
        text = "must be greater than or equal to 0"
        errors.append(invalid(f"{path}.tolerance", rules.tolerance, text))
    return errors


def _validate_policy(policy: ScalingPolicy, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if policy.type not in _POLICY_TYPES:
        errors.append(not_supported(f"{path}.type", policy.type, _POLICY_TYPES))
    if policy.value <= 0:
        errors.append(invalid(f"{path}.value", policy.value, "must be greater than zero"))
    field = f"{path}.periodSeconds"
    if policy.period_seconds <= 0:
        errors.append(invalid(field, policy.period_seconds, "must be greater than zero"))
    if policy.period_seconds > MAX_PERIOD_S:
        text = f"must be less than or equal to {MAX_PERIOD_S}"
        errors.append(invalid(field, policy.period_seconds, text))
    return errors


# Paths of errors that a server may have stored and the rules handle: an unknown type of metric, a
# version or target that fails at the sync, names that are no longer valid.
_DECIDABLE = ("metadata.", "spec.metrics", "spec.scaleTargetRef")


def undecidable(hpa: HPA, profile: Profile) -> str:
    """Return why a defaulted HPA cannot be decided, "" if it can.

    Some HPAs that a server refuses today can: older servers have stored them, and their controller
    decides on them.
    """
    found = [
        str(complaint)
        for complaint in validate_hpa(hpa, profile)
        if not complaint.path.startswith(_DECIDABLE)
        and not (complaint.path == "spec.minReplicas" and hpa.spec.min_replicas == 0)
    ]
    return "; ".join(found)


# ---- metrics: the members that are set, and the contents of the first one ------------------------

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
    errors += _validate_values(target, f"{path}.target")
    there = [name for name in _READ[type(source)] if getattr(target, name) is not None]
    if not there:
        errors.append(required(f"{path}.target.{needs.missing}", needs.words))
    if len(there) > 1 and needs.second:
        errors.append(forbidden(f"{path}.target.{needs.second}", needs.both))
    return errors


def _validate_values(target: MetricTarget, path: str) -> list[FieldError]:
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
