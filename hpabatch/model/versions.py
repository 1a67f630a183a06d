"""Controller flags and Kubernetes version profiles.

A profile is the one dataclass of everything that a Kubernetes version switches; no rule asks for
a version number. Each switch says which release brought it, and the evidence (docs/versions.md has
them in a table); numbers with # are pull requests of kubernetes/kubernetes. Sources:
pkg/controller/podautoscaler, pkg/features/kube_features.go.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, NamedTuple

from hpabatch.errors import UsageError
from hpabatch.layout import switches
from hpabatch.model.suggestions import did_you_mean

OLDEST: Final = 20
NEWEST: Final = 38


class Gate(NamedTuple):
    """A feature gate: the field of a profile that it switches, and its releases 1.N.

    `known` is the first whose HPAs depend on it, `on` the first that has it on by default, `locked`
    the first that does not let it be switched off, `gone` the first without it.
    """

    field: str
    known: int
    on: int
    evidence: str
    locked: int | None = None
    gone: int | None = None


GATES: Final[dict[str, Gate]] = {
    "HPAContainerMetrics": Gate(
        "gate_container_metrics", 20, 27, "#116043, #116046; upstream's table of features", 30, 32
    ),
    "HPAScaleToZero": Gate(
        "gate_scale_to_zero", 16, 37, "upstream's table of features; alpha 1.16 to 1.36"
    ),
    "HPAConfigurableTolerance": Gate(
        "gate_configurable_tolerance", 33, 35, "#130797, #133128 (beta), #140107 (stable)", 37
    ),
    "PodLevelResources": Gate(
        "gate_pod_level_resources", 34, 34, "#132430; alpha in 1.32, but not for HPAs"
    ),
    "HPAGeneration": Gate("gate_generation", 37, 37, "#138228"),
    "HPAOptimizedSelectorStore": Gate(
        "gate_optimized_selectors", 37, 37, "#139142; 1.37 by a list of features"
    ),
    "StaleControllerConsistencyHPA": Gate("stale_status_check", 37, 37, "#139025"),
}
"""The feature gates that HPAs depend on, in display order."""

_BY_CHANGES: Final = ("from sources", "each change by its pull request")

GRADES: Final[dict[int, tuple[str, str]]] = {
    **dict.fromkeys(range(OLDEST, NEWEST + 1), _BY_CHANGES),
    20: ("from sources", "1.20.2's own source, read line by line"),
    23: ("from sources", "parts of 1.23.0's own source, other changes by their pull requests"),
    26: ("from sources", "1.26's calculator, and its controller from the versions around it"),
    32: ("from sources", "1.33's rules without what 1.33 brought, its test of the tolerance first"),
    33: ("from sources", "1.35's rules without what 1.34 and 1.35 brought"),
    35: ("from sources", "1.36's rules with the older ones for a target at zero"),
    36: ("proved", "against upstream's code with later changes switched off"),
    37: ("from sources", "1.38's rules without three late changes"),
    38: ("proved", "against upstream's code"),
}
"""Evidence level of the rules of each minor release, and its basis."""


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


_SINCE: Final = "since"


class Since(NamedTuple):
    """The first release 1.`minor` with a switch, and the evidence.

    `assumed`: an inference from `evidence`.
    """

    minor: int
    evidence: str
    assumed: bool = False


def _since(minor: int, evidence: str, *, assumed: bool = False, newest: Any = True) -> Any:
    """Return a switch that older releases have off; `newest` is its state from 1.`minor` on."""
    return field(default=newest, metadata={_SINCE: Since(minor, evidence, assumed)})


@dataclass(frozen=True, slots=True)
class Profile:
    """Behavior of one Kubernetes version, and the evidence for it.

    Every switch is named by what a newer version does; the defaults are the newest.
    `evidence` is proved (against upstream's code), checked live or from sources; `proof` explains
    it. `notes` is for users of another version.
    """

    name: str
    evidence: str
    proof: str
    notes: str = ""

    # ---- switches of rules
    # Pods in phase Succeeded are ignored like Failed ones.
    succeeded_pods_ignored: bool = _since(38, "#141302, opened after the freeze of 1.37")
    # The per-pod average in a status is 0 at 0 replicas and capped at MaxInt64 for Object metrics
    # too; before, a division by zero and a cap for External only.
    per_pod_average_guarded: bool = _since(38, "#140958, in the changes since 1.37.0")
    # Within tolerance is 1-t <= ratio <= 1+t; before, abs(1-ratio) <= t.
    tolerance_by_bounds: bool = _since(33, "#130797")
    # A target at 0 stays disabled unless the condition ScaledToZero says that the HPA put it there.
    zero_needs_condition: bool = _since(36, "#135118")
    # With some metrics invalid nothing shrinks.
    partial_failure_guard: bool = _since(
        21, "#99514; its cherry-picks for 1.19 and 1.20, not merged, are of 18 March 2021"
    )
    # A missing pod is charged the target percent of its request where that is above 100.
    missing_charged_by_target: bool = _since(
        26,
        "#112178, approved on 14 September 2022, after 1.25.0; a cherry-pick for 1.25 was asked "
        "for, none was found",
    )
    # Averages: at a ratio of exactly 1 (or none) missing pods add nothing.
    ratio_one_adds_nothing: bool = _since(28, "#117845, approved on 30 June 2023")
    # Averages: the last guard against a proposal on the other side of the current size.
    plain_direction_guard: bool = _since(
        21,
        "not in 1.20.2; in a source between 1.20 and 1.22 that checks requests first and still "
        "uses autoscaling/v2beta2",
        assumed=True,
    )
    # A pod's missing request is an error only once some sample is left.
    requests_after_emptiness: bool = _since(
        23, "not in 1.20.2 nor in that source; 1.23.0 is the first known to have it", assumed=True
    )
    # With behavior, the current size is pulled into both windows' bounds; before, the window of the
    # wish's own direction was looked at alone.
    windows_clamp_current: bool = _since(
        21, "#97348; on 3 May 2021 cherry-picks for 1.19 and 1.20 alone were proposed, not merged"
    )
    # Both lists of scale events count in both directions' limits.
    both_event_lists: bool = _since(
        26,
        "#109058, opened on 27 March 2022; OpenShift still cherry-picked it on 13 October 2022, "
        "after 1.25.0",
        assumed=True,
    )
    # Sums, proposals and per-pod averages of External averages are capped.
    averages_clamped: bool = _since(34, "#127050; #141397 names the release")
    # Sums of External values, and proposals of External and Object values, are capped.
    totals_clamped: bool = _since(
        35, "#126979, whose release #141397 names; #133888, approved on 4 September 2025"
    )
    # A sample that lacks the metric's container is a missing pod; before, the metric failed.
    container_may_lack: bool = _since(33, "#127193, in the list of changes of 1.33")
    # A failed sync shows the metrics that it could compute; before, the older ones stayed.
    failure_shows_metrics: bool = _since(29, "#121039")

    # ---- switches of how objects are read
    # The API versions of scaleTargetRef and describedObject are validated; before, a bad one failed
    # at the sync.
    api_version_validated: bool = _since(34, "#132537")
    # The HPA is stored as v2; before, as v1, which moves the cpu utilization last, loses a second
    # one and derives each target's type from its members.
    stored_as_v2: bool = _since(27, "#114358")
    # So is a status; before, an Object or External average came back with a value of 0 and so was
    # written again at every sync.
    status_round_trips: bool = _since(27, "#114358")
    # As v1: the first cpu utilization is kept; before, none where an average of cpu comes first.
    first_cpu_utilization_kept: bool = _since(
        26, "not in 1.20.2; 1.26 is the first known to have it", assumed=True
    )
    sidecars_counted: bool = _since(29, "#120001")
    # A container that a pod does not have is an error; before, it requests 0.
    container_must_exist: bool = _since(
        35, "#133415, opened on 7 August 2025, after the freeze of 1.34"
    )
    # An HPA that shares pods with another does not scale.
    ambiguity_checked: bool = _since(26, "#112011")

    # ---- switches of messages and of a status's contents
    # The words of an Object metric's failed fetch stand in the right order.
    object_error_in_order: bool = _since(37, "#139029")
    # AmbiguousSelector names two HPAs at most; before, all of them.
    ambiguous_names_two: bool = _since(37, "1.37's sources")
    # It says "more than one HPA (e.g. [...])"; before, "multiple HPAs: [...]".
    ambiguous_gives_examples: bool = _since(38, "1.38's sources; 1.37 is not known", assumed=True)
    # An unknown metric type counts as an error of the spec in the controller's own metrics.
    unknown_type_is_spec_error: bool = _since(37, "#139029")
    # Errors say whose metric it is, and a request's which container and pod; selectors' errors.
    errors_wrapped: bool = _since(
        26,
        "#112544; of a request's container and pod, and of selectors, 1.26 is the first known to "
        "have the words",
        assumed=True,
    )
    # Lists in a selector's error are JSON; before, Go source.
    lists_as_json: bool = _since(33, "not in apimachinery of 1.20.2", assumed=True)
    # A selector's error speaks of label keys and bytes; before, of qualified names and characters.
    label_keys_named: bool = _since(
        35, "apimachinery pkg/api/validate/content, `IsLabelKey`", assumed=True
    )
    # A sync that goes on in spite of a failed metric returns its error.
    partial_failure_returned: bool = _since(27, "#116010")
    # "for targeted pods (pods might be unready)"; before, "for any ready pods".
    no_samples_says_targeted: bool = _since(27, "#114740, approved on 29 December 2022")
    # A ContainerResource metric's name says "container".
    container_metric_named: bool = _since(27, "#116045")
    # Some messages are no longer taken for format strings.
    texts_are_literal: bool = _since(32, "#127422")
    # The status of an Object average names its object.
    object_average_described: bool = _since(33, "#124555, under review in January 2025")
    # memory in a status is BinarySI.
    binary_memory: bool = _since(34, "#132351")

    # ---- behavior of a live controller alone
    scale_conflict_retries: int = _since(34, "#132007", newest=5)
    immediate_sync: bool = _since(37, "#138294")
    stale_status_check: bool = True

    # ---- feature gates
    gate_container_metrics: bool = True
    gate_scale_to_zero: bool = True
    gate_configurable_tolerance: bool = True
    gate_pod_level_resources: bool = True
    gate_generation: bool = True
    # An HPA that is deleted under way fails before its selector is looked at.
    gate_optimized_selectors: bool = True

    @property
    def minor(self) -> int:
        """N of Kubernetes 1.N."""
        return int(self.name.removeprefix("1."))

    def rules(self) -> Profile:
        """Return the profile without name, proof and notes: versions that do the same are equal."""
        return replace(self, name="", evidence="", proof="", notes="")

    def switches(self) -> int:
        """Return the switches of rules as bits."""
        return sum(bit for name, bit in _BITS.items() if getattr(self, name))


SINCE: Final[dict[str, Since]] = {
    name: since
    for since, name in sorted(
        ((f.metadata[_SINCE], f.name) for f in fields(Profile) if f.metadata),
        key=lambda item: item[0].minor,
    )
}
"""First release of each switch of a profile, the oldest first; before it is off (or 0)."""

_GATE_BITS: Final = {
    "gate_scale_to_zero": switches.SCALE_TO_ZERO,
    "gate_generation": switches.GENERATION_OBSERVED,
}
# A bit has the name of its switch.
_BITS: Final[dict[str, int]] = _GATE_BITS | {
    item.name: bit
    for item in fields(Profile)
    if isinstance(bit := getattr(switches, item.name.upper(), None), int)
}


def _profile(minor: int) -> Profile:
    """Return the profile of 1.`minor`: every switch that came later is off, a number 0."""
    evidence, proof = GRADES[minor]
    newest = Profile(f"1.{minor}", evidence, proof)
    later = [name for name, since in SINCE.items() if minor < since.minor]
    later += [gate.field for gate in GATES.values() if minor < gate.on]
    off: dict[str, Any] = {name: type(getattr(newest, name))() for name in later}
    return replace(newest, **off)


PROFILES: Final[dict[str, Profile]] = {
    f"1.{minor}": _profile(minor) for minor in range(OLDEST, NEWEST + 1)
}

DEFAULT_K8S: Final = "1.37"
NEWEST_K8S: Final = f"1.{NEWEST}"
OLDEST_K8S: Final = f"1.{OLDEST}"


def profile_for(version: str, gates: str = "") -> Profile:
    """Return the profile of a Kubernetes version such as `1.36`, `v1.36.2` or `1.36.2-gke.100`.

    A newer version than the newest profile's takes that one's, and `notes` of the result says so.
    `gates` overrides feature gates: `HPAScaleToZero=false,…`.

    Raises:
        UsageError: not a version, older than the oldest profile, not a gate, or one that this
            version does not have or does not let be switched so.
    """
    minor = _minor(version)
    if minor < OLDEST:
        raise UsageError(
            f"--k8s {version}: older than {OLDEST_K8S}, the oldest version whose rules are known"
        )
    profile = PROFILES[f"1.{min(minor, NEWEST)}"]
    if minor > NEWEST:
        notes = f"there is no profile of 1.{minor}: {profile.name}'s rules were taken"
        profile = replace(profile, notes=notes)
    return override_gates(profile, gates, minor)


def _minor(version: str) -> int:
    """Return the minor number of a version 1.N (UsageError: it is none)."""
    main = version.strip().removeprefix("v").partition("-")[0].partition("+")[0]
    parts = main.split(".")
    good = len(parts) in (2, 3) and all(p.isascii() and p.isdigit() and len(p) < 4 for p in parts)
    if not good or int(parts[0]) != 1:
        raise UsageError(
            f"--k8s {version}: not a Kubernetes version such as {DEFAULT_K8S} or v1.36.2; "
            f"known: {OLDEST_K8S} to {NEWEST_K8S}"
        )
    return int(parts[1])


def override_gates(profile: Profile, text: str, minor: int | None = None) -> Profile:
    """Return a profile with feature gates as in `Gate=true,Other=false`.

    Raises:
        UsageError: another form, no gate, or one that version 1.`minor` (None: any) does not have
            or does not let be switched so.
    """
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = item.partition("=")
        if value.lower() not in ("true", "false"):
            raise UsageError(
                f"--feature-gates {item}: expected GATE=true or GATE=false; gates: "
                + ", ".join(GATES)
            )
        if name not in GATES:
            raise UsageError(
                f"--feature-gates {item}: expected a gate that HPAs have ({', '.join(GATES)}), got "
                f"{name}{did_you_mean(name, GATES)}"
            )
        gate, on = GATES[name], value.lower() == "true"
        if minor is not None and (reason := _refusal(gate, on, minor)):
            raise UsageError(f"--feature-gates {item}: {reason}")
        states: dict[str, Any] = {gate.field: on}
        profile = replace(profile, **states)
    return profile


def taken_gates(version: str, text: str) -> str:
    """Return the feature gates that a version accepts in their states.

    For gates of another release, such as those of a cluster before its upgrade. An invalid form
    stays, and is refused where it is used.

    Raises:
        UsageError: not a version.
    """
    minor, taken = _minor(version), []
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = item.partition("=")
        gate = GATES.get(name)
        if gate is None or not _refusal(gate, value.lower() == "true", minor):
            taken.append(item)
    return ",".join(taken)


def _refusal(gate: Gate, on: bool, minor: int) -> str:
    """Return why 1.`minor` does not accept a state of a gate, "" if it does."""
    if minor < gate.known:
        return (
            f"Kubernetes 1.{minor} has no such gate for HPAs, it came with 1.{gate.known}; "
            "leave it out"
        )
    if gate.gone is not None and minor >= gate.gone:
        return (
            f"Kubernetes 1.{minor} has no such gate any more: what it switched is always on since "
            f"1.{gate.locked}; leave it out"
        )
    if gate.locked is not None and minor >= gate.locked and not on:
        return f"Kubernetes has it locked on since 1.{gate.locked}; leave it out"
    return ""
