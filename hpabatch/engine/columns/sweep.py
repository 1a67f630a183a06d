"""Columns of sweeps and recommendations."""

from __future__ import annotations

from typing import Final

from hpabatch.engine.columns.column import KEY, NUMBER, Column, table
from hpabatch.engine.columns.fidelity import FIDELITY_HPAS
from hpabatch.engine.columns.recorded import ABOVE_MINUTES, RECORDED
from hpabatch.engine.columns.simulate import MEASURES

SETTINGS: Final = table(
    "a setting",
    "`settings.parquet` of a sweep; a further column for each field of the grid",
    """
    setting_id integer: number of the setting; 0 is today's
    setting string: its name: `target=70 scaleDown.window=300`, or `today`
    """,
)

SWEEP_HPAS: Final = table(
    "an HPA",
    "`hpas.parquet` of a sweep",
    *KEY,
    """
    target_kind string: kind of the target
    target string: name of the target
    spec string: today's spec, as JSON of autoscaling/v2
    min_replicas integer: minReplicas of that spec
    max_replicas integer: maxReplicas of that spec
    cpu_milli integer: what the newest pod requests, in thousandths of a core; null: not known
    memory_milli integer: what the newest pod requests, in thousandths of a byte; null: not
        known
    days number: length of the run
    blocks integer: how many blocks it has
    problems string: why the model of its pods gives no advice; empty: nothing known
    censored_pct number: share of the work that is only a lower bound, as pods were at their
        ceiling
    ceiling string: where the most that a pod can do is known from: recorded, given, fitted,
        or open: it is not known, and ceilings are assumed; null: no such work
    base_share number: fitted base, as a share of a pod's median usage; null: none was fitted
    starting_share number: the same of what a pod uses while it starts
    starts_assumed string: what is assumed of when pods are ready: totals (only the workload's size
        was recorded) or at once (as the history has them); null: nothing is assumed, or no pod
        started
    metadata string: labels, annotations and owner that say who writes the HPA, as JSON, at the
        history's end
    availability string: PodDisruptionBudgets and topology spread of its target's pods, as JSON, at
        the history's end; null: not recorded
    advice boolean: whether both scores are good; null with the others below:
        not measured
    why_not string: why they are not
    plant_unscored string: why its plant has no score; null: it has one
    plant_why_not string: why the plant score is not good enough, or why there is none; null: it is
    plant_skill number: plant score
    plant_skill_low number: lower end of its 95 % interval
    plant_skill_high number: upper end
    """,
    *FIDELITY_HPAS.some("controller_answer", "controller_explained_share"),
    """
    unit string: the unit that gets one setting: a group, or cluster/namespace/hpa
    """,
)

BLOCKS: Final = table(
    "an HPA, setting and block of time",
    "`blocks.parquet` of a sweep",
    *KEY,
    """
    setting_id integer: number of the setting; 0 is today's
    block integer: number of the block, from 0 on in order of time
    start timestamp: its first tick
    hours number: length of the block
    """,
    *MEASURES.some(
        *("replica_hours", "pod_hours", "core_hours", "gib_hours", "saturated_minutes"),
        *(*ABOVE_MINUTES, "unserved", "waiting", "short_pod_hours", "perfect_pod_hours"),
    ),
    """
    under_minutes number: steps with fewer pods than the work asked for; null: demand not known
    over_minutes number: steps with more; null: as above
    unstable_minutes number: steps in which pods and demand move apart; null: as above
    """,
    *MEASURES.some(
        *("rescales", "rescales_up", "rescales_down", "reversals"),
        *("at_max_minutes", "invalid_minutes"),
    ),
    """
    outside_minutes number: steps outside the usage per pod that was recorded; null: not known
    cost number: what its requested hours cost; null without prices
    """,
    *RECORDED,
)

SWEEP_SUMMARY: Final = table(
    "an HPA",
    "`sweep --output csv`, `parquet`; `hpas` in JSON",
    *KEY,
    """
    unit string: the unit that gets one setting
    settings integer: settings that fit it
    days number: days that were simulated
    pod_hours_per_week number: today's pod-hours
    cost_per_week number: what they cost; null without prices
    saturated_minutes_per_week number: today's minutes with a pod at its ceiling
    unserved_per_week number: today's work that was cut off, in units times seconds
    rescales_per_week number: today's changes of size
    ceiling string: where the most that a pod can do is known from: recorded, given, fitted,
        or open: assumed
    pod_hours_recorded_per_week number: today's pod-hours as recorded
    saturated_minutes_recorded_per_week number: today's minutes with a pod at its ceiling as
        recorded
    rescales_recorded_per_week number: today's changes of size as recorded
    short_pod_hours_per_week number: today's missing pod-hours; null: demand not known
    cheapest string: the cheapest setting with no more saturated time (where the ceiling is assumed:
        above each of those), unserved or waiting work than today's; null: none of them is known
    cheapest_short_pod_hours_per_week number: the missing pod-hours under it, which may be more
    saving_pct number: what it saves of the cost; without prices of the pod-hours
    usable boolean: nothing known speaks against relying on today's row
    """,
)

ADVICE: Final = table(
    "an HPA",
    "`recommend`; `hpas` in JSON",
    *KEY,
    """
    unit string: the group that it was judged in; alone: cluster/namespace/hpa
    answer string: change, keep or no advice
    setting_id integer: what is recommended, 0: as it is; null: nothing
    setting string: the same in words
    considered string: the setting that was looked at; null: none could be
    confidence string: how sure the answer is: high, medium or low; null: there is no advice
    reasons string: why this answer
    doubts string: what lowers the confidence
    surer string: what would raise it
    notes string: what else should be known, such as better settings that no HPA can have
    goal string: what was asked for
    members integer: HPAs that the unit was judged by; null: it gives no advice by itself
    training_blocks integer: blocks of time that the choice was made on
    judged_blocks integer: blocks after them that it was judged on
    judged_from timestamp: start of the first of these
    training_today number: the unit's objective on the training blocks under today's setting
    training_choice number: and under the considered one
    training_saving_pct number: what that saves; negative: it costs more
    saving_low_pct number: lower end of the saving's interval over resampled training blocks
    saving_high_pct number: upper end
    better_share number: share of the resamples in which the considered setting is better
    judged_today number: the unit's objective on the judged blocks under today's setting
    judged_choice number: and under the considered one
    judged_saving_pct number: what that saves there
    slo_today_training boolean: whether today's setting holds the SLO on the training blocks
    slo_choice_training boolean: whether the considered one does, without any margin
    slo_today_judged boolean: the same for today's setting on the judged blocks
    slo_choice_judged boolean: the same for the considered one
    folds integer: blocks of the rolling walk-forward that a setting was chosen for
    folds_changed integer: of these, those with another setting than today's
    folds_better integer: of these, those in which it was better than today's, or held the SLO that
        today's broke on the blocks before
    folds_held integer: of the blocks of `folds`, those in which the SLO held
    hours number: this HPA's hours in the judged blocks
    """,
    *(
        Column(f"{name}_{which}", NUMBER, f"this HPA's {name} there, under {whose}{more}", unit)
        for name, more, unit in (
            *((n, "", "") for n in ("pod_hours", "core_hours", "gib_hours", "cost")),
            ("saturated_minutes", "", ""),
            *((n, "; null: its ceiling is known", "minutes") for n in ABOVE_MINUTES),
            *((n, "", "") for n in ("unserved", "waiting", "short_pod_hours", "rescales")),
            *((n, "", "") for n in ("at_max_minutes", "regret_pct")),
        )
        for which, whose in (("today", "today's setting"), ("choice", "the considered one"))
    ),
    """
    pod_hours_recorded number: this HPA's pod_hours there as recorded, under today's setting
    saturated_minutes_recorded number: this HPA's saturated_minutes there as recorded
    rescales_recorded number: this HPA's rescales there as recorded
    ceiling string: where the most that a pod can do is known from: recorded, given, fitted,
        or open: it is not known, and ceilings are assumed
    currency string: of the cost
    days number: length of its history
    advice boolean: whether both fidelity scores are good; null: not measured
    plant_skill number: plant score: skill of the predicted usage
    """,
    *FIDELITY_HPAS.some("controller_answer", "controller_explained_share"),
    """
    patch string: what changes in the spec, as JSON; null: nothing
    source string: the controller or tool that writes the HPA that would change; null: none is known
    withheld string: why no patch is written for a change; null: one is
    """,
)

CANDIDATES: Final = table(
    "a unit and setting",
    "`candidates` in JSON of `recommend`",
    """
    unit string: the unit
    setting_id integer: the setting
    setting string: its name
    candidate boolean: whether it could be recommended
    why_not string: if not, why
    objective_training number: the objective on the training blocks
    objective_judged number: and on the judged ones
    slo_training boolean: whether the SLO holds on the training blocks
    slo_judged boolean: and on the judged ones
    objective number: the objective on all blocks
    saturated_minutes number: minutes in which a pod was at a ceiling, on all blocks
    unserved number: work that was cut off
    waiting number: work that waited
    rescales number: changes of size
    regret_pct number: surplus and missing pod-hours, in percent of a perfect forecast's
    on_front boolean: of today's and those within the recorded usage per pod no other setting is
        at least as good in objective, saturated_minutes, unserved, waiting and rescales, and
        better in one
    """,
)

FOLDS: Final = table(
    "a unit and block",
    "`folds` in JSON of `recommend`",
    """
    unit string: the unit
    block integer: judged on this block, chosen on all before it
    start timestamp: its start
    setting_id integer: the choice; null: no setting held the SLO before
    setting string: its name
    today number: the objective of the block under today's setting
    choice number: and under the choice
    saving_pct number: what that saves
    slo_today boolean: whether today's setting holds the SLO in the block
    slo_choice boolean: whether the choice does
    better boolean: whether the choice is better than today's; null: it is today's
    """,
)
