"""The columns of simulated measures and trajectories, with their formulas.

s(t) are the pods that serve in step t, d(t) = max(1, ceil(work(t) / capacity)) those that its work
asks for, one pod doing `capacity_milli`, the same for every setting. The elasticity metrics are
those of SPEC RG: Herbst et al., "Quantifying Cloud Performance and Dependability: Taxonomy, Metric
Design, and Emerging Challenges", ACM ToMPECS 3(4), 2018. Their sums are made in `kernels.measures`.
"""

from __future__ import annotations

from typing import Final

from hpabatch.layout.codes import BINDINGS

COLUMNS: Final[dict[str, str]] = {
    "cluster": "cluster",
    "namespace": "namespace",
    "hpa": "name of the HPA",
    "setting": "recorded: the HPA as it was in force; proposed: that of the manifests",
    "hours": "length of the run",
    "replica_hours": "the target's size over time",
    "pod_hours": "pods that are scheduled and there, starting and terminating ones too",
    "core_hours": "requested cores of these; null: requests not known",
    "gib_hours": "requested GiB of memory of these; null: requests not known",
    "theta_u_pct": "under-provisioning accuracy: mean of max(d - s, 0) / d; null: demand not known",
    "theta_o_pct": "over-provisioning accuracy: mean of max(s - d, 0) / d",
    "tau_u_pct": "under-provisioning timeshare: steps with s < d",
    "tau_o_pct": "over-provisioning timeshare: steps with s > d",
    "instability_pct": "steps in which s and d do not change in the same direction",
    "jitter_per_hour": "changes of s less changes of d; above 0: it moves more often than demand",
    "saturated_minutes": "steps in which a pod was at a ceiling; null: no work of pods is known",
    "saturated_longest_minutes": "the longest run of them",
    "unserved": "work that was cut off: units of the signal times seconds; null: it waits",
    "waiting": "work that waited for its turn: units times seconds; null: it is cut off",
    "rescales": "changes of size that the HPA made",
    "rescales_up": "of these, up",
    "rescales_down": "of these, down",
    "reversals": "of these, against the direction of the last one",
    "episodes": "runs of steps with s < d",
    "episodes_ended": "of these, those that ended within the run",
    "episodes_reacted": "of these, those in which a rescale up was made",
    "reaction_s": "mean time from such a run's first step to the first rescale up in it",
    "settling_s": "mean length of those that ended",
    "overshoot": "mean of how far the size then stands above the run's largest d",
    "at_max_minutes": "at maxReplicas while the metrics asked for more",
    "invalid_minutes": "with a failed metric",
    "outside_pct": "steps in which a pod used more or less than recorded; null: no shared work",
    "short_pod_hours": "pods that were missing: max(d - s, 0) over time",
    "perfect_pod_hours": "the fewest pod-hours with s >= d throughout, start and end paid",
    "regret_pct": "surplus pod-hours and short_pod_hours, in percent of perfect_pod_hours",
    "capacity_milli": "the work that one pod is meant to do; null: not known",
    "drivers": "share of the ticks in which each metric drove the decision",
    **{
        f"minutes_{words.name}": f"minutes in which this bound the decision: {words.sentence}"
        for words in BINDINGS.values()
    },
    "elastic_speedup": (
        "geometric mean of recorded / this over theta_u, theta_o, tau_u, tau_o; above 1 is better"
    ),
    "cost": "what the requested hours cost; null: no prices",
    "currency": "of the cost",
    "censored_pct": "work that is only a lower bound, because pods were at their ceiling",
    "usable": "nothing known speaks against it; advice needs `hpabatch fidelity` too",
    "why_not": "if not, why",
}

POINT_COLUMNS: Final[dict[str, str]] = {
    "cluster": "cluster",
    "namespace": "namespace",
    "hpa": "name of the HPA",
    "setting": "as above",
    "ts": "the tick",
    "replicas": "the target's size before the decision",
    "desired": "and after it",
    "proposal": "the metrics' own answer",
    "stabilized": "after the windows",
    "serving": "pods that serve in the step",
    "pods": "pods that are scheduled and there",
    "demand": "pods that the work asks for, 0: not known",
    "saturated": "whether a pod was at its ceiling",
    "usage_milli": "usage of a serving pod (of the first class)",
    "work_milli": "work of the step",
    "unserved_milli": "what was left of it",
    "binding": "the rule that made the number",
}
