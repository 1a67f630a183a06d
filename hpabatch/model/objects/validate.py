"""Validation of an HPA as the API server does it, with its errors in its order.

Follows pkg/apis/autoscaling/validation/validation.go, pkg/registry/autoscaling/
horizontalpodautoscaler/strategy.go and apimachinery pkg/api/validation/objectmeta.go. The HPA is
taken after `model.objects.defaults`. The server does not check, nor does this module: that a
target's type agrees with its member, metric selectors, duplicates, a tolerance above 1.
"""

from __future__ import annotations

from dataclasses import replace

from hpabatch.model import names
from hpabatch.model.objects.field_errors import (
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from hpabatch.model.objects.hpa import (
    HPA,
    Behavior,
    CrossVersionObjectReference,
    ScalingPolicy,
    ScalingRules,
)
from hpabatch.model.objects.validate_metrics import (
    api_version_complaint,
    validate_metric,
    validate_names,
)
from hpabatch.model.version_table import GATES
from hpabatch.model.versions import Profile

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
