"""What each switch of a version's profile means when it is on, in a few words.

A switch without words is told by its name; docs/versions.md has the evidence of each.
"""

from __future__ import annotations

from typing import Final

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
