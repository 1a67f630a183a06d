"""Columnar layouts of what kernels write: decisions, statuses, trajectories, measures."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from hpabatch.layout.records import (
    F64,
    I8,
    I16,
    I32,
    I64,
    A,
    I64x2,
    RecordArray,
    RecordType,
    record_dtype,
    records_from,
)


class Decisions(RecordArray):
    """What was decided in a tick; codes as in `layout.codes`. `desired` and `current` are the HPA
    status after it; `proposal` the metrics' answer, `stabilized` after the windows, `limited` after
    policies and bounds (where the metrics path was not taken these repeat the current replicas);
    `metric` the position of the driving metric or -1.
    """

    desired: I32
    current: I32
    proposal: I32
    stabilized: I32
    limited: I32
    rescaled: I8
    metric: I16
    invalid_metrics: I16
    binding: I8
    reason: I8
    condition_0: I8
    condition_1: I8
    condition_2: I8
    condition_3: I8


DECISION: Final = record_dtype(Decisions)


class MetricDecisions(RecordArray):
    """What one metric said in a tick, at its answer's index: code METRIC_*, step STEP_*, the last
    ratio formed (usage to target, after substitutions) and the status values of that kind of
    metric.
    """

    average_milli: I64
    value_milli: I64
    ratio: F64
    proposal: I32
    utilization_pct: I32
    code: I8
    step: I8


METRIC_DECISION: Final = record_dtype(MetricDecisions)


class Details(RecordArray):
    """What a metric's answer in a tick was made of, at its answer's index: how many pods were in
    each group, samples of pods that the cache does not hold, and the text of an error.
    """

    ready: I32
    unready: I32
    missing: I32
    ignored: I32
    stray: I32
    text: I32


DETAIL: Final = record_dtype(Details)


NO_DETAILS: Final = records_from(DETAIL, 0)


class KeptStatistics(RecordArray):
    """The sums over a stream's pods (`rules.statistics`) at `tick` (-1: none yet), for a metric
    whose missing pods are charged by `target_pct`.
    """

    tick: I64
    target_pct: I64
    ready: I64
    unready: I64
    missing: I64
    ignored: I64
    stray: I64
    usage_milli: I64
    stray_milli: I64
    request_milli: I64
    unready_request_milli: I64
    missing_request_milli: I64
    charge_milli: I64
    without_request: I64


KEPT_STATISTICS: Final = record_dtype(KeptStatistics)
NO_STATISTICS: Final = records_from(KEPT_STATISTICS, 0)


class Results(NamedTuple):
    """Everything that a replay writes: DECISION (T,) and METRIC_DECISION (A,) records.

    `details` (A,) DETAIL records, or (0,) where nobody asks for them. `statistics` (G,)
    KEPT_STATISTICS records where a tick is decided under several settings, one after the other,
    else (0,).
    """

    decisions: Decisions
    metrics: MetricDecisions
    details: Details = NO_DETAILS
    statistics: KeptStatistics = NO_STATISTICS


def poisoned(dtype: RecordType[A], length: int) -> A:
    """Return records that hold what no rule writes."""
    array = np.full(length, 0, dtype)
    array.view(np.uint8).fill(0xA5)
    return array.view(np.recarray)  # type: ignore[return-value]


def empty_results(ticks: int, answers: int, details: bool = False) -> Results:
    """Return results of the given sizes, filled with values that no decision has (poison)."""
    return Results(
        poisoned(DECISION, ticks),
        poisoned(METRIC_DECISION, answers),
        poisoned(DETAIL, answers) if details else NO_DETAILS,
    )


class Totals(RecordArray):
    """Sums over the decided ticks of an HPA; their definitions are in `kernels.totals`. The least
    of no tick is LEAST_OF_NONE, the greatest MOST_OF_NONE, the greatest ratio of none -inf.
    """

    known: I64
    decided: I64
    differs: I64
    recorded_changes: I64
    rescales: I64
    reversals: I64
    ambiguous: I64
    invalid: I64
    above_target: I64
    policy_up_later: I64
    asked_in: I64
    asked_out: I64
    applied_sum: I64
    decided_sum: I64
    first_mismatch_ms: I64
    step_ms: I64
    asked_min: I64
    asked_max: I64
    asked_at_min: I64
    asked_at_max: I64
    asked_min_disabled: I64
    asked_max_disabled: I64
    bound_min: I64
    bound_max: I64
    ratio_max: F64


TOTALS: Final = record_dtype(Totals)

LEAST_OF_NONE = 2**62
MOST_OF_NONE = -(2**62)


class Sums(NamedTuple):
    """Counts of a walk over decided ticks, for H HPAs and M metrics: `totals` (H,) TOTALS records,
    `bindings` (H, codes) ticks by BOUND_BY_*, `errors` (H, codes) ticks by the METRIC_* code of the
    first metric that failed, `driven` (M,) ticks by the metric that drove the decision.
    """

    totals: Totals
    bindings: I64x2
    errors: I64x2
    driven: I64


class Statuses(RecordArray):
    """The HPA's status after a tick, beside its DECISION. Of each condition slot: when its status
    last changed, and the tick (of all ticks) whose words it has, -1: those of the status before the
    first tick. `metrics_tick` is the tick whose metrics `currentMetrics` shows (-1: those of the
    status before the first tick, NO_METRICS: null); `last_scale_ms` NO_TIME_MS before the first
    scale; `observed` the row of the spec whose generation is `observedGeneration` (-1: that of the
    status before the first tick, NO_GENERATION: unset); `written`: the status differs from the last
    one, so it was sent to the API server.
    """

    transition_0_ms: I64
    transition_1_ms: I64
    transition_2_ms: I64
    transition_3_ms: I64
    last_scale_ms: I64
    set_0: I32
    set_1: I32
    set_2: I32
    set_3: I32
    metrics_tick: I32
    observed: I32
    written: I8


STATUS: Final = record_dtype(Statuses)

NO_TIME_MS = -(2**62)
NO_METRICS = -2
NO_GENERATION = -2
FROM_BEFORE = -1


class ShownMetrics(RecordArray):
    """One entry of `currentMetrics` as last shown: its stream and kind, or NO_ENTRY."""

    stream: I64
    kind: I64
    utilization_pct: I64
    average_milli: I64
    value_milli: I64


SHOWN_METRIC: Final = record_dtype(ShownMetrics)


class StatusMemory(NamedTuple):
    """Each HPA's status between ticks, for what `Memory` does not hold.

    `head` (H, STATUS_LENGTH) at the STATUS_* positions, of conditions four each; `shown` (G,)
    SHOWN_METRIC, a lane's from its first stream on, in the order of `currentMetrics`;
    `generations` (S,) the generation of each spec, as a number that is equal for equal ones.
    """

    head: I64x2
    shown: ShownMetrics
    generations: I64


STATUS_NEXT = 0  # the next tick to note, as an offset
STATUS_CURRENT = 1
STATUS_DESIRED = 2
STATUS_LAST_SCALE = 3
STATUS_SHOWN = 4  # entries of `currentMetrics`
STATUS_METRICS_TICK = 5
STATUS_CODES = 6
STATUS_TIMES = 10
STATUS_WORDS = 14  # what a condition's message says, as a number: equal for equal messages
STATUS_SETS = 18
STATUS_OBSERVED = 22  # the spec whose generation the status shows
STATUS_LENGTH = 23


class Points(RecordArray):
    """What one tick and step came to, where a trajectory is kept. Sizes are numbers of pods;
    `demand` is the number that the work asks for (0: unknown); `usage_milli` per pod of the first
    class of the primary signal, `work_milli` its offered work, `queue_milli` what is left of it.
    """

    now_ms: I64
    replicas: I32
    desired: I32
    proposal: I32
    stabilized: I32
    serving: I32
    pods: I32
    demand: I64
    binding: I8
    reason: I8
    metric: I16
    invalid_metrics: I16
    saturated: I8
    usage_milli: I64
    work_milli: I64
    unserved_milli: I64


POINT: Final = record_dtype(Points)


class Measures(RecordArray):
    """The measures of a lane, sums over its steps; their definitions are in `kernels.measures`. The
    fields after `overshoot` are the state between two steps.
    """

    steps: I64
    replica_ms: I64
    pod_ms: I64
    short_ms: I64
    under_steps: I64
    over_steps: I64
    under_ratio: F64
    over_ratio: F64
    unstable_steps: I64
    supply_changes: I64
    demand_changes: I64
    saturated_steps: I64
    saturated_longest: I64
    unserved_milli_s: I64
    rescales: I64
    rescales_up: I64
    rescales_down: I64
    reversals: I64
    at_max_steps: I64
    invalid_steps: I64
    outside_steps: I64
    episodes: I64
    episodes_ended: I64
    episodes_reacted: I64
    reaction_ms: I64
    settling_ms: I64
    overshoot: I64
    saturated_run: I64
    last_serving: I64
    last_demand: I64
    last_direction: I64
    episode_start: I64
    episode_reacted: I64
    episode_peak: I64
    watching: I64
    watched_demand: I64
    watched_size: I64


MEASURES: Final = record_dtype(Measures)
