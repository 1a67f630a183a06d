"""Controller flags and Kubernetes version profiles.

A profile is the one dataclass of everything that a Kubernetes version switches; no rule asks for
a version number. Sources: pkg/controller/podautoscaler, pkg/features/kube_features.go.
"""

from __future__ import annotations

from dataclasses import dataclass

from hpabatch.errors import UsageError


@dataclass(frozen=True, slots=True)
class ControllerFlags:
    """kube-controller-manager's horizontal-pod-autoscaler flags, with upstream's defaults.

    Raises nothing; times are milliseconds, `tolerance` is the plain float of the flag.
    """

    tolerance: float = 0.1
    cpu_initialization_period_ms: int = 300_000
    initial_readiness_delay_ms: int = 30_000
    downscale_stabilization_ms: int = 300_000
    sync_period_ms: int = 15_000


@dataclass(frozen=True, slots=True)
class Profile:
    """What one Kubernetes version does, and how well that is proved.

    Switches are named by behaviour: d10 and so on of the project's rule tables.
    """

    name: str
    evidence: str
    # what the evidence rests on, in the words that follow it: "proved against …"
    proof: str
    # d10, kubernetes#141302: pods in phase Succeeded are ignored like Failed ones.
    succeeded_pods_ignored: bool
    # d11, kubernetes#140958: the per-pod average shown in status is 0 at 0 replicas and capped
    # at MaxInt64 for Object metrics too; before, a division by zero and a cap for External only.
    per_pod_average_guarded: bool
    # Feature gates in force by default.
    gate_scale_to_zero: bool
    gate_configurable_tolerance: bool
    gate_pod_level_resources: bool


PROFILES: dict[str, Profile] = {
    "1.36": Profile(
        name="1.36",
        evidence="proved",
        proof="against upstream's code with later changes switched off",
        succeeded_pods_ignored=False,
        per_pod_average_guarded=False,
        gate_scale_to_zero=False,
        gate_configurable_tolerance=True,
        gate_pod_level_resources=True,
    ),
    "1.38": Profile(
        name="1.38",
        evidence="proved",
        proof="against upstream's code",
        succeeded_pods_ignored=True,
        per_pod_average_guarded=True,
        gate_scale_to_zero=True,
        gate_configurable_tolerance=True,
        gate_pod_level_resources=True,
    ),
}

DEFAULT_K8S = "1.38"


def profile_for(version: str) -> Profile:
    """Return the profile of a Kubernetes version such as `1.38` or `v1.38.2`.

    Raises:
        UsageError: no profile for that version exists.
    """
    text = version.removeprefix("v")
    parts = text.split(".")
    name = ".".join(parts[:2])
    if name not in PROFILES or not all(p.isdigit() for p in parts) or len(parts) > 3:
        known = ", ".join(sorted(PROFILES))
        raise UsageError(
            f"--k8s {version}: no profile for this version; known: {known}; take the nearest, and "
            "mind what changed between them"
        )
    return PROFILES[name]
