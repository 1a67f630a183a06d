"""Ratios and replica counts: the arithmetic of the replica calculator.

Upstream: ``pkg/controller/podautoscaler/replica_calculator.go`` and ``metrics/utilization.go``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import quantity
from .gomath import (
    MAX_INT32,
    MAX_INT64,
    ceil_float,
    ceil_to_int32,
    ceil_to_int64,
    float_div,
    float_to_int32,
    trunc_div,
    wrap32,
    wrap64,
)
from .pods import NO_PODS, PodGroups, calculate_requests, count_ready_pods, group_pods
from .profiles import NEWEST, Profile
from .samples import CalculationError, Sample

Json = dict[str, Any]


@dataclass(frozen=True)
class Context:
    """Everything about one computation except the metric and the API's answer to it."""

    now: int
    cpu_initialization_period: int
    initial_readiness_delay: int
    tolerance_down: float
    tolerance_up: float
    current_replicas: int
    status_replicas: int
    pods: list[Json]
    namespace: str = "default"
    profile: Profile = NEWEST

    def within(self, ratio: float) -> bool:
        """``Tolerances.isWithin``: both ends inclusive, NaN is outside."""
        if not self.profile.tolerance_by_direction:
            return abs(1.0 - ratio) <= self.tolerance_up
        return (1.0 - self.tolerance_down) <= ratio and ratio <= (1.0 + self.tolerance_up)

    def beyond(self, ratio: float) -> bool:
        """Say whether an AverageValue target is to be acted on: for NaN only in new releases."""
        if not self.profile.tolerance_by_direction:
            return abs(1.0 - ratio) > self.tolerance_up
        return not self.within(ratio)


def directional_tolerances(
    flag: float, scale_up: str | None, scale_down: str | None
) -> tuple[float, float]:
    """Calculator, tolerances: (down, up), each overridden by the behavior's quantity."""
    down = float(flag) if scale_down is None else quantity.approx_float(scale_down)
    up = float(flag) if scale_up is None else quantity.approx_float(scale_up)
    return down, up


# --- Resource, ContainerResource and Pods metrics -------------------------------------------------


def utilization_ratio(
    values: dict[str, int], requests: dict[str, int], target: int
) -> tuple[float, int, int]:
    """utilization.go ``GetResourceUtilizationRatio``: ratio, percent, average milli value.

    The ratio is built from the truncated percent, not from the sums.
    """
    known = [name for name in values if name in requests]
    used = wrap64(sum(values[name] for name in known))
    requested = wrap64(sum(requests[name] for name in known))
    if requested == 0:
        raise CalculationError("no metrics returned matched known pods")
    percent = wrap32(trunc_div(wrap64(used * 100), requested))
    return float_div(float(percent), float(target)), percent, trunc_div(used, len(known))


def average_ratio(values: dict[str, int], target_milli: int) -> tuple[float, int]:
    """utilization.go ``GetMetricUsageRatio``: ratio and average milli value, over all entries."""
    average = trunc_div(wrap64(sum(values.values())), len(values))
    return float_div(float(average), float(target_milli)), average


def _group(samples: dict[str, Sample], resource: str, context: Context) -> PodGroups:
    if not context.pods:
        raise CalculationError(NO_PODS)
    return group_pods(
        context.pods,
        samples,
        resource,
        context.now,
        context.cpu_initialization_period,
        context.initial_readiness_delay,
        context.profile,
    )


def _usable_values(
    samples: dict[str, Sample], groups: PodGroups, profile: Profile
) -> dict[str, int]:
    """Drop the samples of the ignored and the unready pods; some must be left."""
    values = {
        name: sample.value
        for name, sample in samples.items()
        if name not in groups.ignored and name not in groups.unready
    }
    if not values and profile.no_samples_text_new:
        raise CalculationError("did not receive metrics for targeted pods (pods might be unready)")
    if not values:
        raise CalculationError("did not receive metrics for any ready pods")
    return values


def replicas_for_pods(
    groups: PodGroups,
    values: dict[str, int],
    first_ratio: float,
    assumed_of_missing: dict[str, int],
    ratio_of: Callable[[dict[str, int]], float],
    guarded: bool,
    context: Context,
) -> int:
    """Calculator, the two passes shared by ``GetResourceReplicas`` and ``calcPlainMetricReplicas``.

    ``guarded``: the number must not go against the ratio.
    """
    current = context.current_replicas
    scale_up_with_unready = bool(groups.unready) and first_ratio > 1.0
    if not scale_up_with_unready and not groups.missing:
        if context.within(first_ratio):
            return current
        return ceil_to_int32(first_ratio * float(groups.ready_count))

    # Pods we know nothing about are assumed to be such that they hold the scaling back.
    assumed = {**values, **assumed_of_missing}
    if scale_up_with_unready:
        assumed.update(dict.fromkeys(groups.unready, 0))

    ratio = ratio_of(assumed)
    flipped = (first_ratio < 1.0 and ratio > 1.0) or (first_ratio > 1.0 and ratio < 1.0)
    if context.within(ratio) or flipped:
        return current
    replicas = ceil_to_int32(ratio * float(len(assumed)))
    wrong_way = (ratio < 1.0 and replicas > current) or (ratio > 1.0 and replicas < current)
    return current if guarded and wrong_way else replicas


def utilization_replicas(
    samples: dict[str, Sample], target: int, resource: str, container: str, context: Context
) -> tuple[int, int, int]:
    """Calculator, utilization (``GetResourceReplicas``): replicas, percent, average milli value.

    The last two are of the first pass, without assumptions about missing and unready pods.
    """
    profile = context.profile
    groups = _group(samples, resource, context)
    if profile.requests_before_emptiness:
        requests = _requests(resource, container, context)
        values = _usable_values(samples, groups, profile)
    else:
        values = _usable_values(samples, groups, profile)
        requests = _requests(resource, container, context)
    first_ratio, percent, average = utilization_ratio(values, requests, target)
    assumed: dict[str, int] = {}
    if first_ratio < 1.0:
        charged_percent = max(100, target) if profile.missing_charged_target else 100
        assumed = {
            name: trunc_div(wrap64(requests[name] * charged_percent), 100)
            for name in groups.missing
        }
    elif first_ratio > 1.0:
        assumed = dict.fromkeys(groups.missing, 0)
    replicas = replicas_for_pods(
        groups,
        values,
        first_ratio,
        assumed,
        lambda all_values: utilization_ratio(all_values, requests, target)[0],
        True,
        context,
    )
    return replicas, percent, average


def _requests(resource: str, container: str, context: Context) -> dict[str, int]:
    profile = context.profile
    gate = profile.on("PodLevelResources")
    return calculate_requests(context.pods, container, resource, gate, profile)


def average_replicas(
    samples: dict[str, Sample], target_milli: int, resource: str, context: Context
) -> tuple[int, int]:
    """Calculator, averageValue and Pods metrics (``calcPlainMetricReplicas``).

    ``resource`` is empty for Pods metrics, which ignore readiness.
    """
    profile = context.profile
    groups = _group(samples, resource, context)
    values = _usable_values(samples, groups, profile)
    first_ratio, average = average_ratio(values, target_milli)
    assumed: dict[str, int] = {}
    if first_ratio < 1.0:
        assumed = dict.fromkeys(groups.missing, target_milli)
    elif first_ratio > 1.0 or profile.plain_missing_zero_at_one:
        assumed = dict.fromkeys(groups.missing, 0)
    replicas = replicas_for_pods(
        groups,
        values,
        first_ratio,
        assumed,
        lambda all_values: average_ratio(all_values, target_milli)[0],
        profile.plain_direction_guard,
        context,
    )
    return replicas, average


# --- Object and External metrics ------------------------------------------------------------------


def replicas_for_value(ratio: float, context: Context) -> int:
    """Calculator, Value targets (``getUsageRatioReplicaCount``)."""
    if context.current_replicas == 0:  # scaling from zero: no pods to count, no tolerance
        return ceil_to_int32(ratio)
    if context.within(ratio):
        return context.current_replicas
    product = ratio * float(count_ready_pods(context.pods))
    if context.profile.ready_product_capped and product > float(MAX_INT32):
        return MAX_INT32
    return ceil_to_int32(product)


def replicas_for_average(
    usage: int, target_milli: int, context: Context, to_int32: Callable[[float], int]
) -> int:
    """Calculator, AverageValue targets (``GetObjectPerPodMetricReplicas`` and the External one)."""
    share = float(target_milli) * float(context.status_replicas)
    if not context.beyond(float_div(float(usage), share)):
        return context.status_replicas
    return to_int32(float_div(float(usage), float(target_milli)))


def ceil_capped(value: float) -> int:
    """Only External AverageValue is capped before the conversion to int32."""
    ceiling = ceil_float(value)
    return MAX_INT32 if ceiling > float(MAX_INT32) else float_to_int32(ceiling)


def external_sum_for_value(values: list[int]) -> int:
    """``GetExternalMetricReplicas``: stops at an overflow to the positive side."""
    total = 0
    for value in values:
        if value > 0 and total > MAX_INT64 - value:
            return MAX_INT64
        total = wrap64(total + value)
    return total


def external_sum_for_average(values: list[int]) -> int:
    """``GetExternalPerPodMetricReplicas``: any negative partial sum is taken for an overflow."""
    total = 0
    for value in values:
        total = wrap64(total + value)
        if total < 0:
            return MAX_INT64
    return total


def per_pod_usage(usage: int, status_replicas: int, source: str, profile: Profile = NEWEST) -> int:
    """``getPerPodUsage``: the average that the status shows."""
    if source in profile.per_pod_guard and float(usage) >= float(MAX_INT64):
        return MAX_INT64
    if profile.per_pod_zero_guard and status_replicas == 0:
        return 0
    return ceil_to_int64(float_div(float(usage), float(status_replicas)))
