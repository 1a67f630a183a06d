"""Columns of simulations and fits.

s(t) are the pods that serve in step t, d(t) = max(1, ceil(work(t) / capacity)) those that its work
asks for, one pod doing `capacity_milli`, the same for every setting. The elasticity metrics are
those of SPEC RG: Herbst et al., "Quantifying Cloud Performance and Dependability: Taxonomy, Metric
Design, and Emerging Challenges", ACM ToMPECS 3(4), 2018. Their sums are made in `kernels.measures`.
"""

from __future__ import annotations

from typing import Final

from hpabatch.engine.columns.column import KEY, NUMBER, Column, table
from hpabatch.engine.columns.recorded import ABOVE, RECORDED
from hpabatch.layout.codes import BINDINGS

MEASURES: Final = table(
    "an HPA and setting",
    "`simulate`",
    *KEY,
    """
    setting string: recorded: the HPA as it was in force; proposed: that of the manifests
    hours number: length of the run
    replica_hours number: the target's size over time
    pod_hours number: pods that are scheduled and there, starting and terminating ones too
    core_hours number: requested cores of these; null: requests not known
    gib_hours number: requested GiB of memory of these; null: requests not known
    theta_u_pct number: under-provisioning accuracy: mean of max(d - s, 0) / d; null: demand not
        known
    theta_o_pct number: over-provisioning accuracy: mean of max(s - d, 0) / d
    tau_u_pct number: under-provisioning timeshare: steps with s < d
    tau_o_pct number: over-provisioning timeshare: steps with s > d
    instability_pct number: steps in which s and d do not change in the same direction
    jitter_per_hour number: changes of s less changes of d; above 0: it moves more often than
        demand
    saturated_minutes number: steps in which a pod was at a ceiling; null: no work of pods, or no
        ceiling is known
    saturated_longest_minutes number: the longest run of them
    """,
    *ABOVE,
    """
    unserved number: work that was cut off: units of the signal times seconds; null: it waits, or no
        ceiling is known
    waiting number: work that waited for its turn: units times seconds; null: it is cut off, or no
        ceiling is known
    rescales integer: changes of size that the HPA made
    rescales_up integer: of these, up
    rescales_down integer: of these, down
    reversals integer: of these, against the direction of the last one
    episodes integer: runs of steps with s < d
    episodes_ended integer: of these, those that ended within the run
    episodes_reacted integer: of these, those in which a rescale up was made
    reaction_s number: mean time from such a run's first step to the first rescale up in it
    settling_s number: mean length of those that ended
    overshoot number: mean of how far the size then stands above the run's largest d
    at_max_minutes number: at maxReplicas while the metrics asked for more
    invalid_minutes number: with a failed metric
    outside_pct number: steps in which a pod used more or less than recorded; null: no shared
        work
    short_pod_hours number: pods that were missing: max(d - s, 0) over time; null: demand not known
    perfect_pod_hours number: the fewest pod-hours with s >= d throughout, start and end paid; null:
        demand not known
    regret_pct number: surplus pod-hours and short_pod_hours, in percent of perfect_pod_hours
    capacity_milli integer: the work that one pod is meant to do; null: not known
    drivers string: share of the ticks in which each metric drove the decision
    """,
    *(
        Column(
            f"minutes_{words.name}",
            NUMBER,
            f"minutes in which this bound the decision: {words.sentence}",
            "minutes",
        )
        for words in BINDINGS.values()
    ),
    """
    elastic_speedup number: geometric mean of recorded / this over theta_u, theta_o, tau_u,
        tau_o; above 1 is better
    cost number: what the requested hours cost; null: no prices
    currency string: of the cost
    censored_pct number: work that is only a lower bound, because pods were at their ceiling
    usable boolean: nothing known speaks against it; advice needs `hpabatch fidelity` too
    why_not string: if not, why
    """,
    *RECORDED,
)

POINTS: Final = table(
    "an HPA, setting and tick",
    "`simulate --trajectories`",
    *KEY,
    """
    setting string: recorded: the HPA as it was in force; proposed: that of the manifests
    ts timestamp: the tick
    replicas integer: the target's size before the decision
    desired integer: and after it
    proposal integer: the metrics' own answer
    stabilized integer: after the windows
    serving integer: pods that serve in the step
    pods integer: pods that are scheduled and there
    demand integer: pods that the work asks for, 0: not known
    saturated boolean: whether a pod was at its ceiling; null: it is not known
    usage_milli integer: usage of a serving pod (of the first class)
    work_milli integer: work of the step
    unserved_milli integer: what was left of it
    binding string: the rule that made the number
    """,
)

FIT_FACTS: Final = table(
    "an HPA and fact",
    "`fit --output csv`, `parquet`",
    *KEY,
    """
    plant boolean: whether the HPA can be simulated
    fact string: name of the fact (docs/fit.md)
    value number: its value; null: none, or it is not a number
    unit string: unit of the numbers
    low number: lower end of the interval; null: none
    high number: upper end; null: none
    source string: where it is from: recorded, fitted, guessed, assumed, given or not identified
    note string: what else is known
    """,
)
