"""Catalogue of findings: stable ids, where each is seen, severity, group, and what to do."""

from __future__ import annotations

from typing import Final, NamedTuple

from hpabatch.engine.replay.attention import ACT, ASK, HARM, RULES

HISTORY: Final = "history"
SPEC: Final = "spec"
MANIFESTS: Final = "manifests"
RECORDING: Final = "recording"
GATE: Final = "gate"
ANYWHERE: Final = "anywhere"
"""Sources: the replay of a history, its samples and pods (as `history quality` tells), the spec of
an HPA alone, the objects of manifests, two sets of manifests, any of them."""

SEVERITIES: Final = ("high", "medium", "low")


class Kind(NamedTuple):
    """A finding of the catalogue; `fix` is what to do."""

    name: str
    source: str
    severity: str
    group: str
    fix: str


_REQUEST = "request it in every container, or use averageValue or a ContainerResource metric"
_KINDS: Final = (
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
    ("gate_unread", GATE, "high", ACT, "correct the document (hpabatch validate tells where)"),
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

_RULES: Final = (Kind(r.name, HISTORY, r.severity, r.group, r.fix) for r in RULES)
CATALOGUE: Final = {kind.name: kind for kind in (*_RULES, *(Kind(*row) for row in _KINDS))}
"""Findings by their id; those of replays are the rules by which `replay` ranks HPAs.

What a spec shows of the same id as a history is the same finding.
"""
