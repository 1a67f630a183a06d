"""Changes between the sides of a comparison, in words: switches of versions, fields of specs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Final

from hpabatch.model.objects.encode import encode_spec
from hpabatch.model.objects.hpa import HPA, HPASpec
from hpabatch.model.objects.validate import validate_hpa
from hpabatch.model.versions import Profile

SWITCHES: Final[dict[str, str]] = {
    "succeeded_pods_ignored": "pods that succeeded are ignored, like failed ones",
    "tolerance_by_bounds": "within the tolerance is 1-t <= ratio <= 1+t, not abs(1-ratio) <= t",
    "zero_needs_condition": "a target at 0 stays disabled unless its HPA put it there",
    "partial_failure_guard": "nothing shrinks while some metrics are invalid",
    "missing_charged_by_target": (
        "a missing pod is charged the target of its request where that is above 100%"
    ),
    "ratio_one_adds_nothing": "at a ratio of exactly 1, missing pods add nothing to an average",
    "plain_direction_guard": "an average never turns to the other side of the current size",
    "requests_after_emptiness": "a missing request is an error only once some sample is left",
    "windows_clamp_current": "both stabilization windows bound the current size",
    "both_event_lists": "moves up and down both count in either direction's policies",
    "averages_clamped": "sums, proposals and averages of External averages are capped",
    "totals_clamped": "sums of External values, and proposals of plain values, are capped",
    "container_may_lack": "a sample without the metric's container is a missing pod, not an error",
    "stored_as_v2": "metrics stay as written; before, stored as v1, cpu utilization moved last",
    "first_cpu_utilization_kept": "the first cpu utilization is kept, wherever it stands",
    "sidecars_counted": "requests of restartable init containers count",
    "container_must_exist": "a container that a pod does not have is an error, not a request of 0",
    "ambiguity_checked": "an HPA that shares pods with another one does not scale",
    "api_version_validated": "the API server checks the apiVersion of targets",
    "gate_container_metrics": "feature gate HPAContainerMetrics: ContainerResource metrics",
    "gate_scale_to_zero": "feature gate HPAScaleToZero",
    "gate_configurable_tolerance": "feature gate HPAConfigurableTolerance: tolerances in behavior",
    "gate_pod_level_resources": "feature gate PodLevelResources: requests of the pod as a whole",
}
"""Meanings of a profile's switches that are on; docs/versions.md has the evidence of each."""

PARTS: Final[dict[str, str]] = {
    "minReplicas": "min_replicas",
    "maxReplicas": "max_replicas",
    "metrics": "metrics",
    "behavior": "behavior",
}
"""The fields of a spec that make decisions, as the API calls them and as `HPASpec` does."""


# ---- versions ------------------------------------------------------------------------------------


def changed_switches(before: Profile, after: Profile) -> tuple[str, ...]:
    """Return the switches in which two versions differ: what is not words."""
    return tuple(
        field.name
        for field in fields(Profile)
        if not isinstance(getattr(before, field.name), str)
        and getattr(before, field.name) != getattr(after, field.name)
    )


def switch_words(name: str, before: Profile, after: Profile) -> str:
    """Return a switch, its meaning and its two states in words."""
    states = " -> ".join(_state(getattr(profile, name)) for profile in (before, after))
    meaning = SWITCHES.get(name, "")
    return f"{name} {states}" + (f" ({meaning})" if meaning else "")


def _state(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


# ---- specs ---------------------------------------------------------------------------------------


def parts_that_differ(before: HPASpec, after: HPASpec) -> tuple[str, ...]:
    """Return which of `PARTS` differ."""
    return tuple(
        part for part, name in PARTS.items() if getattr(before, name) != getattr(after, name)
    )


def with_part(spec: HPASpec, part: str, other: HPASpec) -> HPASpec:
    """Return a spec with one of `PARTS` as in another one."""
    values = {PARTS[part]: getattr(other, PARTS[part])}
    return replace(spec, **values)


def is_valid(name: str, namespace: str, spec: HPASpec, profile: Profile) -> bool:
    """Return whether an API server would take a spec."""
    return not validate_hpa(HPA(name=name, namespace=namespace, spec=spec), profile)


def part_words(before: HPASpec, after: HPASpec, part: str) -> str:
    """Return what differs in one of `PARTS`, as `maxReplicas 10 -> 20`; empty: nothing does."""
    ours, theirs = (encode_spec(spec).get(part) for spec in (before, after))
    return ", ".join(f"{path} {a} -> {b}" for path, a, b in _leaves(part, ours, theirs))


def _leaves(path: str, before: object, after: object) -> Iterator[tuple[str, str, str]]:
    """Yield the path and both values of everything that differs, as deep as both have it."""
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for name in dict.fromkeys([*before, *after]):
            yield from _leaves(f"{path}.{name}", before.get(name), after.get(name))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for k, (ours, theirs) in enumerate(zip(before, after, strict=True)):
            yield from _leaves(f"{path}[{k}]", ours, theirs)
    else:
        yield path, _text(before), _text(after)


def _text(value: object) -> str:
    """Return a value as YAML's flow form would have it, as far as an HPA's go."""
    if value is None:
        return "none"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_text(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_text(item) for item in value) + "]"
    return str(value)
