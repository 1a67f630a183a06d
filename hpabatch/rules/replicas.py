"""One metric's proposal from its statistics: the calculator's ratio maths.

Source: pkg/controller/podautoscaler/replica_calculator.go and metrics/utilization.go. Replica
counts are int32, quantities int64 milli, ratios float64; expressions keep upstream's order because
floats show it (ceil(62/60 x 30) is 32 here as there).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hpabatch._jit import rule
from hpabatch.layout.codes import (
    METRIC_NO_MATCH,
    METRIC_NO_PODS,
    METRIC_NO_REQUEST,
    METRIC_NO_SAMPLES,
    METRIC_OK,
    STEP_DIRECTION_GUARD,
    STEP_NONE,
    STEP_RATIO,
    STEP_TOLERANCE,
    STEP_TOLERANCE_AFTER_SUBSTITUTION,
)
from hpabatch.layout.records import I64
from hpabatch.layout.switches import (
    AVERAGES_CLAMPED,
    PER_POD_AVERAGE_GUARDED,
    PLAIN_DIRECTION_GUARD,
    RATIO_ONE_ADDS_NOTHING,
    REQUESTS_AFTER_EMPTINESS,
)
from hpabatch.rules.numbers import (
    INT32_MAX,
    INT64_MAX,
    add64,
    ceil_to_int32,
    ceil_to_int64,
    div64,
    divide,
    mul64,
    sub64,
    to_int32,
)
from hpabatch.rules.statistics import PodStatistics


class Tolerance(NamedTuple):
    """The tolerated deviation of a ratio from 1, per direction.

    `by_bounds` (newer versions): 1-t and 1+t are compared with the ratio; before, abs(1-ratio) with
    the one tolerance, which at 1.1 differs in the last bit.
    """

    down: float
    up: float
    by_bounds: bool


class Proposal(NamedTuple):
    """One metric's answer: `code` METRIC_*, `step` STEP_*, replicas, and the status values.

    `utilization_pct` for utilization targets, `average_milli` for those and averages,
    `value_milli` for values; the others are 0. All but `code` are 0 when the metric failed.
    """

    code: int | np.int64
    step: int
    replicas: int
    ratio: float
    utilization_pct: int
    average_milli: int
    value_milli: int


@rule
def failed_metric(code: int) -> Proposal:
    """Return the proposal of a metric that could not be computed."""
    return Proposal(np.int64(code), STEP_NONE, 0, 0.0, 0, 0, 0)


@rule
def is_within_tolerance(ratio: float, tolerance: Tolerance) -> bool:
    """Say whether a ratio is close enough to 1; both ends belong to it, NaN does not."""
    if not tolerance.by_bounds:
        return abs(1.0 - ratio) <= tolerance.up
    return (1.0 - tolerance.down) <= ratio and ratio <= (1.0 + tolerance.up)


@rule
def utilization_of(usage_milli: int, request_milli: int) -> int:
    """Return usage as integer percent of requests, truncated, wrapped to int32.

    Example: 597 of 900 is 66.
    """
    return to_int32(div64(mul64(usage_milli, 100), request_milli))


@rule
def is_contradiction(ratio: float, second_ratio: float) -> bool:
    """Say whether missing and unready pods turned the direction of the first ratio."""
    return (ratio < 1.0 and second_ratio > 1.0) or (ratio > 1.0 and second_ratio < 1.0)


@rule
def replicas_after_substitution(
    ratio: float,
    second_ratio: float,
    entries: int,
    current: int,
    tolerance: Tolerance,
    guarded: bool,
) -> tuple[int, int]:
    """Return (step, replicas) from the second ratio over `entries` pods, with all guards.

    `guarded`: the last one too, which averages lack in old versions.
    """
    if is_within_tolerance(second_ratio, tolerance):
        return STEP_TOLERANCE_AFTER_SUBSTITUTION, current
    if is_contradiction(ratio, second_ratio):
        return STEP_DIRECTION_GUARD, current
    replicas = ceil_to_int32(second_ratio * entries)
    turned = second_ratio < 1.0 and replicas > current
    turned = turned or (second_ratio > 1.0 and replicas < current)
    if guarded and turned:
        return STEP_DIRECTION_GUARD, current
    return STEP_RATIO, replicas


@rule
def replicas_of_ready(
    ratio: float, ready: int, current: int, tolerance: Tolerance
) -> tuple[int, int]:
    """Return (step, replicas) where every pod counts: the ratio times the ready pods."""
    if is_within_tolerance(ratio, tolerance):
        return STEP_TOLERANCE, current
    return STEP_RATIO, ceil_to_int32(ratio * ready)


@rule
def propose_by_utilization(
    pods: PodStatistics, target_pct: int, current: int, tolerance: Tolerance, switches: int
) -> Proposal:
    """Return the proposal of a Resource or ContainerResource metric with averageUtilization.

    Worked example: target 60, 8 pods at 20 % and 2 missing of request 1000: first ratio 0.33,
    missing pods charged their request: (1600 + 2000) / 10000 is 36 %, 0.6 x 10 gives 6.
    Follows GetResourceReplicas.
    """
    if pods.without_request > 0 and switches & REQUESTS_AFTER_EMPTINESS == 0:
        return failed_metric(METRIC_NO_REQUEST)
    if pods.ready + pods.stray == 0:
        return failed_metric(METRIC_NO_SAMPLES)
    if pods.without_request > 0:
        return failed_metric(METRIC_NO_REQUEST)
    if pods.request_milli == 0:
        return failed_metric(METRIC_NO_MATCH)
    utilization = utilization_of(pods.usage_milli, pods.request_milli)
    ratio = divide(float(utilization), float(target_pct))
    average = div64(pods.usage_milli, pods.ready)
    scaling_up_unready = pods.unready > 0 and ratio > 1.0
    if not scaling_up_unready and pods.missing == 0:
        step, replicas = replicas_of_ready(ratio, pods.ready, current, tolerance)
        return Proposal(METRIC_OK, step, replicas, ratio, utilization, average, 0)

    usage, request, entries = pods.usage_milli, pods.request_milli, pods.ready + pods.stray
    if pods.missing > 0 and (ratio < 1.0 or ratio > 1.0):  # NaN is neither
        request = add64(request, pods.missing_request_milli)
        entries += pods.missing
        if ratio < 1.0:
            usage = add64(usage, pods.charge_milli)
    if scaling_up_unready:
        request = add64(request, pods.unready_request_milli)
        entries += pods.unready
    if request == 0:
        return failed_metric(METRIC_NO_MATCH)
    second = divide(float(utilization_of(usage, request)), float(target_pct))
    step, replicas = replicas_after_substitution(
        ratio, second, entries, current, tolerance, guarded=True
    )
    return Proposal(METRIC_OK, step, replicas, second, utilization, average, 0)


@rule
def propose_by_pod_average(
    pods: PodStatistics, target_milli: int, current: int, tolerance: Tolerance, switches: int
) -> Proposal:
    """Return the proposal of a pod metric with averageValue (Resource, ContainerResource, Pods).

    Missing pods are charged the target on scale-down; strays count in the average.
    Follows calcPlainMetricReplicas.
    """
    counted = pods.ready + pods.stray
    if counted == 0:
        return failed_metric(METRIC_NO_SAMPLES)
    usage = add64(pods.usage_milli, pods.stray_milli)
    average = div64(usage, counted)
    ratio = divide(float(average), float(target_milli))
    scaling_up_unready = pods.unready > 0 and ratio > 1.0
    if not scaling_up_unready and pods.missing == 0:
        step, replicas = replicas_of_ready(ratio, pods.ready, current, tolerance)
        return Proposal(METRIC_OK, step, replicas, ratio, 0, average, 0)

    entries = counted
    if pods.missing > 0 and ratio < 1.0:
        usage = add64(usage, mul64(pods.missing, target_milli))
        entries += pods.missing
    elif pods.missing > 0 and (ratio > 1.0 or switches & RATIO_ONE_ADDS_NOTHING == 0):
        entries += pods.missing
    if scaling_up_unready:
        entries += pods.unready
    second = divide(float(div64(usage, entries)), float(target_milli))
    guarded = switches & PLAIN_DIRECTION_GUARD != 0
    step, replicas = replicas_after_substitution(
        ratio, second, entries, current, tolerance, guarded
    )
    return Proposal(METRIC_OK, step, replicas, second, 0, average, 0)


@rule
def propose_by_value(
    usage_milli: int,
    target_milli: int,
    current: int,
    known_pods: int,
    ready_pods: int,
    tolerance: Tolerance,
    clamped: bool,
) -> Proposal:
    """Return the proposal of an Object or External metric with a plain value.

    The multiplier is the number of Running and Ready pods; from zero it is 1 and the tolerance does
    not apply. Follows GetObjectMetricReplicas, GetExternalMetricReplicas and
    getUsageRatioReplicaCount.
    """
    ratio = divide(float(usage_milli), float(target_milli))
    if current == 0:
        return Proposal(METRIC_OK, STEP_RATIO, ceil_to_int32(ratio), ratio, 0, 0, usage_milli)
    if is_within_tolerance(ratio, tolerance):
        return Proposal(METRIC_OK, STEP_TOLERANCE, current, ratio, 0, 0, usage_milli)
    if known_pods == 0:
        return failed_metric(METRIC_NO_PODS)
    wanted = ratio * ready_pods
    replicas = INT32_MAX if clamped and wanted > 2147483647.0 else ceil_to_int32(wanted)
    return Proposal(METRIC_OK, STEP_RATIO, replicas, ratio, 0, 0, usage_milli)


@rule
def average_per_pod(usage_milli: int, status_replicas: int, capped: bool, guarded: bool) -> int:
    """Return the per-pod average that the status shows, rounded up.

    `guarded` (newer versions): 0 at 0 replicas, and capped at MaxInt64 for both kinds; before, the
    cap was External's alone (`capped`; in old versions nobody's) and 0 replicas divided by zero.
    Follows getPerPodUsage.
    """
    if (guarded or capped) and float(usage_milli) >= float(INT64_MAX):
        return INT64_MAX
    if guarded and status_replicas == 0:
        return 0
    return ceil_to_int64(divide(float(usage_milli), float(status_replicas)))


@rule
def propose_by_total_average(
    usage_milli: int,
    target_milli: int,
    status_replicas: int,
    is_external: bool,
    tolerance: Tolerance,
    switches: int,
) -> Proposal:
    """Return the proposal of an Object or External metric with averageValue.

    Within the tolerance the answer is status.replicas. Example: 90 messages, target 30, 2 replicas:
    ratio 1.5, proposal 3. Follows GetObjectPerPodMetricReplicas and
    GetExternalPerPodMetricReplicas.
    """
    capped = is_external and switches & AVERAGES_CLAMPED != 0
    guarded = switches & PER_POD_AVERAGE_GUARDED != 0
    average = average_per_pod(usage_milli, status_replicas, capped, guarded)
    ratio = divide(float(usage_milli), float(target_milli) * float(status_replicas))
    # The older test asked whether the ratio is outside; of NaN that is no more true than inside.
    stays = not tolerance.by_bounds and ratio != ratio
    if stays or is_within_tolerance(ratio, tolerance):
        return Proposal(METRIC_OK, STEP_TOLERANCE, status_replicas, ratio, 0, average, 0)
    wanted = divide(float(usage_milli), float(target_milli))
    if capped and wanted > 2147483647.0:
        return Proposal(METRIC_OK, STEP_RATIO, INT32_MAX, ratio, 0, average, 0)
    return Proposal(METRIC_OK, STEP_RATIO, ceil_to_int32(wanted), ratio, 0, average, 0)


@rule
def sum_for_value(values_milli: I64, first: int, last: int, clamped: bool) -> int:
    """Return the sum of an External metric's series for a value target, capped at MaxInt64.

    The cap is tested before a positive value is added; old versions have none. Follows
    GetExternalMetricReplicas.
    """
    total = 0
    for i in range(first, last):
        value = values_milli[i]
        if clamped and value > 0 and total > sub64(INT64_MAX, value):
            return INT64_MAX
        total = add64(total, value)
    return total


@rule
def sum_for_average(values_milli: I64, first: int, last: int, clamped: bool) -> int:
    """Return the sum for an averageValue target; any negative partial sum is taken as overflow.

    Old versions do not look. Follows GetExternalPerPodMetricReplicas.
    """
    total = 0
    for i in range(first, last):
        total = add64(total, values_milli[i])
        if clamped and total < 0:
            return INT64_MAX
    return total
