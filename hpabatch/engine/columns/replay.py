"""Columns of replays: decisions, summary, score."""

from __future__ import annotations

from typing import Final

from hpabatch.engine.columns.column import KEY, STRING, Column, table

DECISIONS: Final = table(
    "an HPA and tick",
    "the file of `replay --out`",
    *KEY,
    """
    ts timestamp: the tick: when the decision is made
    min_replicas integer: minReplicas of the spec in force
    max_replicas integer: maxReplicas of the spec in force
    replicas integer: the size that the controller saw (recorded); null with the other sizes:
        not recorded, or it could not be read
    desired integer: the size that the decision leaves the target at
    applied integer: the size recorded at the next tick
    proposal integer: what the metrics ask for; `replicas` where they were not asked
    stabilized integer: the proposal after the stabilization windows
    limited integer: after policies, minReplicas and maxReplicas
    rescaled boolean: the rules would have written another size
    binding string: the rule that made the number, see below
    reason string: the reason that the rescale's event would give; empty: none
    metric string: the metric that decided; null: none
    ratio number: usage of that metric relative to its target; null: none
    invalid_metrics integer: how many metrics failed
    error string: why the first of them failed; null: none did
    able_to_scale string: reason of the condition AbleToScale; null: not set
    scaling_active string: reason of the condition ScalingActive; null: not set
    scaling_limited string: reason of the condition ScalingLimited; null: not set
    """,
)

WHY: Final = table(
    "an HPA and tick, beside the decision",
    "`replay --why`",
    """
    metrics list: an entry per metric of the spec, in its order
    status_written boolean: the HPA's status differed from the one before, so it was sent to the
        API server
    last_scale_time timestamp: `status.lastScaleTime` after the tick; null: never scaled
    scaled_to_zero string: reason of the condition ScaledToZero; null: not set
    """,
)

METRICS: Final = table(
    "a metric, in the list `metrics`",
    "`replay --why`",
    """
    metric string: its description, as in events
    proposal integer: replicas that it asks for alone; null: it failed or was not asked
    ratio number: usage to target, after missing and unready pods were counted
    utilization_pct integer: the status' number, from before that; null: not of this kind
    average_milli integer: the status' number, from before that; null: not of this kind
    value_milli integer: the status' number, from before that; null: not of this kind
    step string: how the proposal came about: `ratio`; `within tolerance`; `within tolerance
        after missing and unready pods` were counted; `missing and unready pods turn the
        direction`, so the size stays
    error string: why it failed; null: it did not
    ready integer: ready pods; null: it looks at no pods, or did not come to it
    unready integer: unready pods; null: as above
    missing integer: pods without a sample that counts; null: as above
    ignored integer: pods that it does not look at; null: as above
    stray integer: samples of pods that are gone; null: as above
    """,
)

SUMMARY: Final = table(
    "an HPA",
    "`replay --output csv`, `parquet`; `hpas` in JSON",
    *KEY,
    """
    target_kind string: kind of the target
    target string: name of the target
    min_replicas integer: minReplicas of the last spec
    max_replicas integer: maxReplicas of the last spec
    has_behavior boolean: whether the last spec has a behavior
    specs integer: how many specs were in force
    rivals string: HPAs on the same target, this one included, sorted; null: it is alone
    first_ts timestamp: first tick
    last_ts timestamp: last tick
    ticks integer: how many ticks were decided
    hours number: the time they stand for
    applied_first integer: recorded size after the first tick
    applied_last integer: recorded size after the last tick
    applied_mean number: mean recorded size
    decided_mean number: mean size that the rules decide
    applied_replica_hours number: recorded size times time
    decided_replica_hours number: decided size times time
    agreement_share number: ticks with a decision whose size is the recorded one; null: none has
        one
    undecided_share number: ticks without a decision: metrics, selector or scale were not usable
    first_mismatch_ts timestamp: first tick whose decided size is not the recorded one; null: none
    recorded_changes integer: how often the recorded size changed
    foreign_changes integer: how many of these no rule made: the rules took them back within 2
        minutes, or do not act at 0
    foreign_told string: the first three of them in words; null: none
    rescales integer: ticks in which the rules would have written another size
    reversals integer: how often two recorded changes of size that follow each other have opposite
        directions
    reversals_per_day number: the same for a day
    at_min_share number: bound by min or forced_min
    at_max_share number: bound by max or forced_max
    tolerance_share number: bound by tolerance
    window_up_share number: bound by window_up
    window_down_share number: bound by window_down
    policy_up_share number: bound by policy_up or legacy_limit
    policy_up_later_share number: the same, without the first 5 minutes of its ticks and after 0
        replicas, in which the burst of a start may drive it
    policy_down_share number: bound by policy_down
    disabled_up_share number: bound by disabled_up
    disabled_down_share number: bound by disabled_down
    pod_guard_share number: bound by pod_guard
    blocked_share number: bound by invalid_metric
    selector_share number: bound by selector
    zero_share number: bound by zero
    no_scale_share number: bound by no_scale or scale_read
    ambiguous_share number: the selector was ambiguous
    invalid_share number: at least one metric failed
    above_target_share number: the driving metric was above its target, yet within the tolerance
    asked_in_share number: the metrics asked for fewer than there were
    asked_out_share number: the metrics asked for more than there were
    asked_min integer: smallest size that the metrics asked for; null: they never answered
    asked_max integer: largest size that the metrics asked for; null: they never answered
    ratio_max number: largest ratio of the driving metric to its target; null: none
    bound_max integer: maxReplicas in the ticks that it bound; null: it never did
    bound_min integer: minReplicas in the ticks that it bound; null: it never did
    asked_at_max integer: largest size that the metrics asked for in the ticks bound by
        maxReplicas
    asked_at_min integer: largest size that the metrics asked for in the ticks bound by
        minReplicas
    asked_min_disabled integer: smallest size that they asked for while scaling down was
        disabled
    asked_max_disabled integer: largest size that they asked for while scaling up was disabled
    metric string: the metric that drove most ticks; null: none did
    error string: the most frequent error of a metric; null: none failed
    """,
)

ATTENTION: Final = table(
    "an HPA most worth a look",
    "`replay --top`; `attention` in JSON",
    """
    rank integer: 1: most worth a look
    """,
    *KEY,
    """
    rule string: what was found
    score number: by which the ranks are
    why string: up to three reasons, a failed metric first
    """,
)

SCORE: Final = table(
    "an HPA",
    "`replay --score`; `score.hpas` in JSON",
    *KEY,
    """
    unscored string: why there is no score; null: there is one
    ticks integer: how many ticks were replayed
    undecided_ticks integer: ticks without a decision, which are left out
    tolerance_ms integer: how far a decided rescale may be from a recorded one
    recorded_events integer: recorded rescales
    undecided_events integer: recorded rescales in ticks without a decision, which are left out
    decided_events integer: decided rescales; a wish that stands for several ticks is one
    decided_ticks integer: ticks in which the rules would have rescaled
    matched_events integer: recorded rescales that were decided, within the tolerance and in
        direction
    precision number: part of the decided rescales that were recorded; null: none was decided
    recall number: part of the recorded rescales that were decided
    mae number: mean absolute difference of decided and recorded size
    agreement_share number: ticks in which the decided size is the recorded one
    within_1_share number: ticks in which the decided size is at most one beside the recorded one
    constant integer: the constant baseline: the median of the recorded sizes
    constant_mae number: its mean absolute error
    constant_agreement_share number: ticks in which it is the recorded size
    constant_within_1_share number: ticks in which it is wrong by at most 1
    constant_skill number: skill against the best constant size
    persistence_mae number: mean absolute error of the size a tick before
    persistence_skill number: skill against the size a tick before
    window_ticks integer: ticks within the window (±10 min) of a recorded rescale
    window_mae number: mean absolute difference of decided and recorded size around recorded
        rescales
    window_constant_mae number: the same of the constant
    window_constant_skill number: skill against it
    window_persistence_mae number: the same of the size a tick before
    window_persistence_skill number: skill against it
    window_horizon_mae number: the same of the size a window before
    window_horizon_skill number: skill against it
    exact integer: rescales recorded and decided at one tick, to one size
    early integer: rescales decided before it was recorded, within the tolerance, to the same
        size
    late integer: rescales decided after it was recorded, within the tolerance, to the same size
    other_size integer: rescales recorded and decided within the tolerance, in one direction, to
        other sizes
    foreign integer: changes recorded that no rule made; they count nowhere else
    missed_up integer: rescales recorded upwards, not decided
    missed_down integer: rescales recorded downwards, not decided
    extra_up integer: rescales decided upwards, not recorded
    extra_down integer: rescales decided downwards, not recorded
    """,
    *(
        Column(f"{kind}_binding", STRING, f"the most frequent rule of {kind}")
        for kind in (
            *("early", "late", "other_size", "foreign"),
            *("missed_up", "missed_down", "extra_up", "extra_down"),
        )
    ),
)

EVENTS: Final = table(
    "a recorded or decided rescale",
    "`Replay.score().events` in Python",
    *KEY,
    """
    ts timestamp: tick of the recorded rescale, else of the decided one
    class string: agreement or kind of disagreement
    recorded_ts timestamp: tick of the recorded rescale; null: extra
    decided_ts timestamp: first tick of the decided rescale; null: missed
    replicas integer: size before
    recorded_size integer: recorded size after the tick
    decided_size integer: size that the rules decided at the tick that counts (see binding)
    binding string: the rule that made the decided size: of a missed rescale at its own tick,
        else at the decision's tick nearest to the recorded rescale
    """,
)
