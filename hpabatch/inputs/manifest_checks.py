"""Check of manifests: defaults, the API server's rules, and more warnings.

Warnings are for a key given twice, an HPA given twice in one input tree, a DaemonSet target, API
versions that are no longer served, fields that the server drops, and a target whose type is not
that of its value. They refuse a document only with `strict`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from hpabatch.errors import EXIT_OK, EXIT_REFUSED, EXIT_UNREADABLE
from hpabatch.inputs.keda_file import in_fields_of
from hpabatch.inputs.manifests import ManifestEntry
from hpabatch.model.objects.decode_fields import Severity
from hpabatch.model.objects.defaults import default_hpa
from hpabatch.model.objects.hpa import HPA
from hpabatch.model.objects.validate import drop_disabled_fields, dropped_fields, validate_hpa
from hpabatch.model.objects.validate_metrics import other_targets
from hpabatch.model.versions import Profile

VALID = "valid"
REFUSED = "refused"
UNREADABLE = "unreadable"
_UNSERVED_SINCE: Final = {
    ("autoscaling/v2beta1", "HorizontalPodAutoscaler"): 25,
    ("autoscaling/v2beta2", "HorizontalPodAutoscaler"): 26,
    ("extensions/v1beta1", "Deployment"): 16,
    ("extensions/v1beta1", "ReplicaSet"): 16,
}
"""Release 1.N without an API version of a kind (Kubernetes' deprecated API migration guide).

Of a target the controller looks up group and kind alone: apps/v1beta1 and apps/v1beta2 still work.
"""


@dataclass(frozen=True, slots=True)
class CheckedEntry:
    """A manifest entry with its verdict; `hpa` is defaulted, None unless the result is valid."""

    entry: ManifestEntry
    result: str
    hpa: HPA | None = None
    complaints: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def check_manifests(
    entries: Iterable[ManifestEntry], profile: Profile, strict: bool = False
) -> list[CheckedEntry]:
    """Default and validate every entry, in order; with `strict` warnings are complaints."""
    first: dict[tuple[str, str, str], str] = {}
    return [_check(entry, profile, strict, first) for entry in entries]


def exit_code(checked: Iterable[CheckedEntry]) -> int:
    """Return 0, 2 if anything was unreadable, else 3 if anything was refused."""
    results = {item.result for item in checked}
    if UNREADABLE in results:
        return EXIT_UNREADABLE
    return EXIT_REFUSED if REFUSED in results else EXIT_OK


def _check(
    entry: ManifestEntry, profile: Profile, strict: bool, first: dict[tuple[str, str, str], str]
) -> CheckedEntry:
    if entry.hpa is None:
        return CheckedEntry(entry, UNREADABLE, complaints=(entry.error or "unreadable",))
    hpa = default_hpa(drop_disabled_fields(entry.hpa, profile))
    complaints = [str(item) for item in entry.problems if item.severity is Severity.error]
    if not complaints:  # the server decodes before it validates
        complaints = [in_fields_of(hpa, str(error)) for error in validate_hpa(hpa, profile)]
    warnings = [str(item) for item in entry.problems if item.severity is Severity.warning]
    warnings += [*entry.duplicates, *_beyond_the_server(entry, hpa, first)]
    warnings += _unserved(entry.hpa, profile)
    warnings += [in_fields_of(hpa, text) for text in dropped_fields(entry.hpa, profile)]
    warnings += other_targets(hpa, profile)
    if strict:
        complaints, warnings = complaints + warnings, []
    warnings += [str(item) for item in entry.problems if item.severity is Severity.note]
    result = REFUSED if complaints else VALID
    return CheckedEntry(
        entry, result, None if complaints else hpa, tuple(complaints), tuple(warnings)
    )


def _beyond_the_server(
    entry: ManifestEntry, hpa: HPA, first: dict[tuple[str, str, str], str]
) -> list[str]:
    """Return warnings beyond the server's rules."""
    warnings: list[str] = []
    if hpa.name:
        key = (entry.tree, hpa.namespace, hpa.name)
        if key in first:
            warnings.append(f"metadata.name: this HPA is given twice, first at {first[key]}")
        first.setdefault(key, entry.place)
    if hpa.spec.scale_target_ref.kind == "DaemonSet":
        warnings.append(
            "spec.scaleTargetRef.kind: a DaemonSet cannot be scaled, it has no scale subresource"
        )
    return warnings


def _unserved(hpa: HPA, profile: Profile) -> list[str]:
    """Return a warning for each API version that the release no longer serves."""
    target = hpa.spec.scale_target_ref
    stated = (
        (
            "",
            hpa.api_version,
            "HorizontalPodAutoscaler",
            "the server refuses it; use autoscaling/v2",
        ),
        (
            "spec.scaleTargetRef.",
            target.api_version,
            target.kind,
            "the HPA fails with FailedGetScale and never acts; use apps/v1",
        ),
    )
    return [
        f"{path}apiVersion: {version} of {kind} is not served since Kubernetes 1.{since}: {why}"
        for path, version, kind, why in stated
        if (since := _UNSERVED_SINCE.get((version, kind))) is not None and profile.minor >= since
    ]
