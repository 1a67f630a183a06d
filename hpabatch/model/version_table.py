"""Switches and feature gates by Kubernetes release: one row each, with the evidence.

The profiles of all versions are derived from these tables (`model.versions`); docs/versions.md
shows them with what older versions do. Numbers with # are pull requests of kubernetes/kubernetes.
"""

from __future__ import annotations

from typing import Final, NamedTuple

OLDEST: Final = 20
NEWEST: Final = 38


class Since(NamedTuple):
    """The first release 1.`minor` with a switch, and the evidence.

    `assumed`: an inference from `evidence`.
    """

    minor: int
    evidence: str
    assumed: bool = False


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


SINCE: Final[dict[str, Since]] = {
    "partial_failure_guard": Since(
        21, "#99514; its cherry-picks for 1.19 and 1.20, not merged, are of 18 March 2021"
    ),
    "windows_clamp_current": Since(
        21, "#97348; on 3 May 2021 cherry-picks for 1.19 and 1.20 alone were proposed, not merged"
    ),
    "plain_direction_guard": Since(
        21,
        "not in 1.20.2; in a source between 1.20 and 1.22 that checks requests first and still "
        "uses autoscaling/v2beta2",
        assumed=True,
    ),
    "requests_after_emptiness": Since(
        23, "not in 1.20.2 nor in that source; 1.23.0 is the first known to have it", assumed=True
    ),
    "missing_charged_by_target": Since(
        26,
        "#112178, approved on 14 September 2022, after 1.25.0; a cherry-pick for 1.25 was asked "
        "for, none was found",
    ),
    "both_event_lists": Since(
        26,
        "#109058, opened on 27 March 2022; OpenShift still cherry-picked it on 13 October 2022, "
        "after 1.25.0",
        assumed=True,
    ),
    "first_cpu_utilization_kept": Since(
        26, "not in 1.20.2; 1.26 is the first known to have it", assumed=True
    ),
    "ambiguity_checked": Since(26, "#112011"),
    "errors_wrapped": Since(
        26,
        "#112544; of a request's container and pod, and of selectors, 1.26 is the first known to "
        "have the words",
        assumed=True,
    ),
    "stored_as_v2": Since(27, "#114358"),
    "status_round_trips": Since(27, "#114358"),
    "partial_failure_returned": Since(27, "#116010"),
    "no_samples_says_targeted": Since(27, "#114740, approved on 29 December 2022"),
    "container_metric_named": Since(27, "#116045"),
    "ratio_one_adds_nothing": Since(28, "#117845, approved on 30 June 2023"),
    "failure_shows_metrics": Since(29, "#121039"),
    "sidecars_counted": Since(29, "#120001"),
    "texts_are_literal": Since(32, "#127422"),
    "tolerance_by_bounds": Since(33, "#130797"),
    "container_may_lack": Since(33, "#127193, in the list of changes of 1.33"),
    "object_average_described": Since(33, "#124555, under review in January 2025"),
    "lists_as_json": Since(33, "not in apimachinery of 1.20.2", assumed=True),
    "averages_clamped": Since(34, "#127050; #141397 names the release"),
    "api_version_validated": Since(34, "#132537"),
    "binary_memory": Since(34, "#132351"),
    "scale_conflict_retries": Since(34, "#132007"),
    "totals_clamped": Since(
        35, "#126979, whose release #141397 names; #133888, approved on 4 September 2025"
    ),
    "container_must_exist": Since(35, "#133415, opened on 7 August 2025, after the freeze of 1.34"),
    "label_keys_named": Since(
        35, "apimachinery pkg/api/validate/content, `IsLabelKey`", assumed=True
    ),
    "zero_needs_condition": Since(36, "#135118"),
    "object_error_in_order": Since(37, "#139029"),
    "unknown_type_is_spec_error": Since(37, "#139029"),
    "immediate_sync": Since(37, "#138294"),
    "ambiguous_names_two": Since(37, "1.37's sources"),
    "succeeded_pods_ignored": Since(38, "#141302, opened after the freeze of 1.37"),
    "per_pod_average_guarded": Since(38, "#140958, in the changes since 1.37.0"),
    "ambiguous_gives_examples": Since(38, "1.38's sources; 1.37 is not known", assumed=True),
}
"""First release of each switch of a profile; older releases have its opposite (or 0)."""

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
