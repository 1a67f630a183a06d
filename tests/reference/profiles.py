"""Differences between Kubernetes versions: one switch per difference, one profile per version.

The defaults of the switches are those of the newest version. A version is told by what it does not
have yet: the releases of ``SINCE`` say when each switch was turned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .go_format import format_without_arguments
from .selector import Dialect

VERSIONS = tuple(f"1.{minor}" for minor in range(20, 39))


@dataclass(frozen=True)
class Profile:
    """The switches of a version; ``gates`` are the feature gates that it knows."""

    # the object
    stored_as_v1: bool = False
    first_cpu_utilization_is_kept: bool = True
    # pods and requests
    finished_pods_ignored: bool = True
    sidecars_counted: bool = True
    requests_before_emptiness: bool = False
    unknown_container_is_error: bool = True
    request_errors_name_pod: bool = True
    # samples
    container_sample_required: bool = False
    # replicas
    tolerance_by_direction: bool = True
    missing_charged_target: bool = True
    plain_missing_zero_at_one: bool = False
    plain_direction_guard: bool = True
    external_average_clamped: bool = True
    external_value_clamped: bool = True
    ready_product_capped: bool = True
    per_pod_guard: tuple[str, ...] = ("Object", "External")  # kinds whose average is capped
    per_pod_zero_guard: bool = True
    # metrics combined
    partial_failure_blocks_scale_down: bool = True
    partial_failure_returns_error: bool = True
    # normalisation
    two_sided_stabilization: bool = True
    both_event_lists: bool = True
    # scale to zero
    zero_by_condition: bool = True
    # status and labels
    memory_is_binary: bool = True
    metrics_replaced_on_failure: bool = True
    object_average_names_object: bool = True
    labels: bool = True
    unknown_type_is_spec_error: bool = True
    # texts
    object_error_in_order: bool = True
    metric_errors_prefixed: bool = True
    usage_errors_say_usage: bool = True
    invalid_resource_text_new: bool = True
    no_samples_text_new: bool = True
    container_metric_name_new: bool = True
    texts_are_literal: bool = True
    selectors: Dialect = field(default_factory=Dialect)
    # several HPAs
    ambiguity_check: bool = True
    ambiguity_text_new: bool = True
    ambiguity_shows_two: bool = True
    gates: Mapping[str, bool] = field(default_factory=dict)

    def on(self, gate: str) -> bool:
        """Say whether a feature gate is on; one that the version does not know is off."""
        return self.gates.get(gate, False)

    def printed(self, text: str) -> str:
        """Print a finished text that older releases take for a format string."""
        return text if self.texts_are_literal else format_without_arguments(text)


# The first release with the newest form of each switch, and the form before.
SINCE: dict[str, tuple[str, Any]] = {
    "stored_as_v1": ("1.27", True),
    "first_cpu_utilization_is_kept": ("1.26", False),
    "finished_pods_ignored": ("1.38", False),
    "sidecars_counted": ("1.29", False),
    "requests_before_emptiness": ("1.23", True),
    "unknown_container_is_error": ("1.35", False),
    "request_errors_name_pod": ("1.26", False),
    "container_sample_required": ("1.33", True),
    "tolerance_by_direction": ("1.33", False),
    "missing_charged_target": ("1.26", False),
    "plain_missing_zero_at_one": ("1.28", True),
    "plain_direction_guard": ("1.21", False),
    "external_average_clamped": ("1.34", False),
    "external_value_clamped": ("1.35", False),
    "ready_product_capped": ("1.35", False),
    "per_pod_guard": ("1.38", ("External",)),  # and before 1.34 none
    "per_pod_zero_guard": ("1.38", False),
    "partial_failure_blocks_scale_down": ("1.21", False),
    "partial_failure_returns_error": ("1.27", False),
    "two_sided_stabilization": ("1.21", False),
    "both_event_lists": ("1.26", False),
    "zero_by_condition": ("1.36", False),
    "memory_is_binary": ("1.34", False),
    "metrics_replaced_on_failure": ("1.29", False),
    "object_average_names_object": ("1.33", False),
    "labels": ("1.27", False),
    "unknown_type_is_spec_error": ("1.37", False),
    "object_error_in_order": ("1.37", False),
    "metric_errors_prefixed": ("1.26", False),
    "usage_errors_say_usage": ("1.26", False),
    "invalid_resource_text_new": ("1.26", False),
    "no_samples_text_new": ("1.27", False),
    "container_metric_name_new": ("1.27", False),
    "texts_are_literal": ("1.32", False),
    "ambiguity_check": ("1.26", False),
    "ambiguity_text_new": ("1.38", False),
    "ambiguity_shows_two": ("1.37", False),
}

# The first release of each part of the libraries' wording, and the form before. The releases of
# the last three are not pinned.
_DIALECT_SINCE: dict[str, tuple[str, Any]] = {
    "field_errors": ("1.26", False),
    "object_word": ("1.26", "pod"),
    "operators_listed_anew": ("1.26", False),
    "json_lists": ("1.33", False),
    "length_in_bytes": ("1.35", False),
    "key_words": ("1.35", "a qualified name"),
}

# The releases in which a gate is known (to the controller), and that in which it came on.
_GATES = {
    "HPAConfigurableTolerance": ("1.33", "1.35"),
    "PodLevelResources": ("1.34", "1.34"),
    "HPAScaleToZero": ("1.36", "1.37"),
    "HPAGeneration": ("1.37", "1.37"),
    "HPAOptimizedSelectorStore": ("1.37", "1.37"),
    "StaleControllerConsistencyHPA": ("1.37", "1.37"),
}


def _minor(version: str) -> int:
    return int(version.split(".")[1])


def _build(version: str) -> Profile:
    minor = _minor(version)
    old = {name: form for name, (since, form) in SINCE.items() if minor < _minor(since)}
    if minor < 34:
        old["per_pod_guard"] = ()
    wording = {
        name: form for name, (since, form) in _DIALECT_SINCE.items() if minor < _minor(since)
    }
    gates = {
        gate: minor >= _minor(on) for gate, (known, on) in _GATES.items() if minor >= _minor(known)
    }
    return Profile(**old, selectors=Dialect(**wording), gates=gates)


PROFILES: Mapping[str, Profile] = {version: _build(version) for version in VERSIONS}

NEWEST = PROFILES[VERSIONS[-1]]


def profile_of(k8s: str | Profile, gates: Mapping[str, bool] | None = None) -> Profile:
    """Return a version's profile; gates that it knows may be overridden."""
    profile = PROFILES[k8s] if isinstance(k8s, str) else k8s
    known = {gate: on for gate, on in (gates or {}).items() if gate in profile.gates}
    return replace(profile, gates={**profile.gates, **known})


def profile_for_flags(k8s: str | Profile, flags: Mapping[str, Any]) -> Profile:
    """Return the profile of a golden case or timeline.

    ``feature_gates`` overrides the version's own gates. Without it HPAScaleToZero is on only if
    ``hpa_scale_to_zero`` says so, which is how the golden data were made.
    """
    gates = flags.get("feature_gates")
    if gates is None:
        gates = {"HPAScaleToZero": bool(flags.get("hpa_scale_to_zero"))}
    return profile_of(k8s, gates)
