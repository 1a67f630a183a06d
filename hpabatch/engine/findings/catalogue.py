"""Catalogue of findings: stable ids, where each is seen, severity, group, and what to do."""

from __future__ import annotations

from typing import Final, NamedTuple

HISTORY: Final = "history"
SPEC: Final = "spec"
MANIFESTS: Final = "manifests"
RECORDING: Final = "recording"
GATE: Final = "gate"
ANYWHERE: Final = "anywhere"
"""Sources: the replay of a history, its samples and pods (as `history quality` tells), the spec of
an HPA alone, the objects of manifests, two sets of manifests, any of them."""

ACT: Final = "act"
HARM: Final = "harm"
ASK: Final = "ask"
"""Groups: a setting to correct, a limit that does harm, a question that is open."""

SEVERITIES: Final = ("high", "medium", "low")


class Kind(NamedTuple):
    """A finding of the catalogue; `fix` is what to do."""

    name: str
    source: str
    severity: str
    group: str
    fix: str


_METRIC = (
    "make the metric available (its adapter, the pods' requests, its selector), or remove it from "
    "the HPA"
)
_RECORD = (
    "check that spec, requests and times are those of the recording (hpabatch fidelity, hpabatch "
    "history quality)"
)
_REQUEST = "request it in every container, or use averageValue or a ContainerResource metric"
_RANGE = "give minReplicas and maxReplicas different values, or remove the HPA"
_KINDS: Final = (
    ("ambiguous_selector", HISTORY, "high", ACT,
     "scale the target by one HPA with both metrics, or make the targets' selectors distinct"),
    ("selector", HISTORY, "high", ACT, "give the target a valid spec.selector"),
    ("invalid_metrics", HISTORY, "high", ACT, _METRIC),
    ("failing_metric", HISTORY, "high", ACT, _METRIC),
    ("mostly_differs", HISTORY, "high", ASK, _RECORD),
    ("at_max", HISTORY, "high", HARM,
     "raise maxReplicas to what the metrics asked for, if the cluster has room (hpabatch plan)"),
    ("flapping", HISTORY, "medium", HARM,
     "lengthen behavior.scaleDown.stabilizationWindowSeconds, or smooth the metric"),
    ("scale_down_disabled", HISTORY, "medium", ACT,
     "allow scaling down: remove selectPolicy Disabled from behavior.scaleDown"),
    ("scale_up_disabled", HISTORY, "medium", ACT,
     "allow scaling up: remove selectPolicy Disabled from behavior.scaleUp"),
    ("min_is_max", HISTORY, "medium", ACT, _RANGE),
    ("idle_minimum", HISTORY, "low", ACT,
     "lower minReplicas as far as availability allows (hpabatch advise)"),
    ("never_scales_in", HISTORY, "medium", ASK,
     "find out whether the metric falls when there are more pods; memory that is not given back "
     "does not"),
    ("never_scales_out", HISTORY, "medium", ASK,
     "find out whether usage can rise beyond the tolerance: a limit near the request caps it"),
    ("not_recorded", HISTORY, "medium", ASK, "record the size of the target (table scales)"),
    ("foreign_changes", HISTORY, "medium", ASK,
     "find out what else writes spec.replicas: deploys, kubectl scale, an operator, KEDA"),
    ("scale_up_policy", HISTORY, "medium", HARM,
     "allow faster scaling up: larger behavior.scaleUp.policies"),
    ("scale_up_window", HISTORY, "low", HARM,
     "shorten behavior.scaleUp.stabilizationWindowSeconds"),
    ("pod_guard", HISTORY, "low", HARM, "make pods ready sooner, or their metrics complete"),
    ("differs", HISTORY, "low", ASK, _RECORD),
    ("at_zero", HISTORY, "low", ASK,
     "expected with KEDA or a schedule; else find out what set it to 0"),
    ("without_cpu_request", RECORDING, "high", ACT, _REQUEST),
    ("without_memory_request", RECORDING, "high", ACT, _REQUEST),
    ("foreign_pods", RECORDING, "medium", ACT,
     "give the workloads and jobs labels and selectors that tell them apart"),
    ("at_limit", RECORDING, "medium", HARM,
     "raise the cpu limit, or remove it: a metric cannot ask for what a limit cuts off"),
    ("slow_interval", RECORDING, "low", ASK,
     "sample more often; what is shorter than that cannot be judged"),
    ("window_below_interval", RECORDING, "low", ASK,
     "lengthen behavior.scaleDown.stabilizationWindowSeconds to several samples"),
    ("bad_ignore", ANYWHERE, "medium", ACT,
     "write a line for each: FINDING until 2027-01-31: REASON"),
    ("deprecated_api", MANIFESTS, "high", ACT, "write the document for autoscaling/v2, apps/v1"),
    ("same_target", MANIFESTS, "high", ACT, "scale the target by one HPA with all metrics"),
    ("same_target_apart", MANIFESTS, "low", ASK,
     "apply only one of them; scale the target by one HPA with all metrics"),
    ("keda_and_hpa", MANIFESTS, "high", ACT, "move the HPA's metrics into the ScaledObject"),
    ("overlapping_selectors", MANIFESTS, "high", ACT,
     "give the workloads labels and selectors that tell them apart"),
    ("missing_request", MANIFESTS, "high", ACT, _REQUEST),
    ("sidecars_count", MANIFESTS, "low", ASK,
     "look at the container that does the work: a ContainerResource metric"),
    ("gate_limit", GATE, "high", HARM, "change the settings, or the limit (docs/gate.md)"),
    ("gate_unknown", GATE, "high", ASK,
     "give a plant file (hpabatch fit --init-plant), a longer history, or --allow-unknown"),
    ("metric_error", SPEC, "high", ACT, "correct the metric's target, or remove the metric"),
    ("cycle", SPEC, "medium", HARM,
     "widen the tolerance, raise the target, or set a scale-down window"),
    ("stuck_at_zero", SPEC, "high", ACT, "add a scale-up policy of type Pods"),
    ("never_grows", SPEC, "high", ACT, "lower the target, or the tolerance"),
    ("beyond_request", SPEC, "low", ASK,
     "find out whether pods may use more than they request; else lower the target"),
    ("base_too_high", SPEC, "medium", ASK, "raise the target above what an idle pod uses"),
    ("never_idle", SPEC, "low", ASK, "raise the target, or accept the size that it rests at"),
    ("slow_up", SPEC, "medium", HARM, "allow faster scaling up: larger behavior.scaleUp.policies"),
    ("slow_down", SPEC, "low", ASK, "allow faster scaling down, if it is not meant"),
    ("no_dead_band", SPEC, "low", ASK, "expect that these sizes are only passed"),
    ("plain_value", SPEC, "low", ASK, "use averageValue, unless more pods bring the value down"),
    ("memory_kind", SPEC, "low", ASK, "state whether pods share their memory (--base)"),
    ("not_all_sizes", SPEC, "low", ASK, "ask for one size (hpabatch analyze --at-size)"),
)  # fmt: skip

CATALOGUE: Final = {kind.name: kind for kind in (Kind(*row) for row in _KINDS)}
"""Findings by their id. What a spec shows of the same id as a history is the same finding."""
