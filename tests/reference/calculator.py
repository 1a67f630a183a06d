"""The replica calculator: one metric in, one proposed replica count out.

Works directly on the dicts of the golden calculator cases. Upstream:
``pkg/controller/podautoscaler/replica_calculator.go``, ``metrics/utilization.go``,
``metrics/client.go`` and ``horizontal.go computeReplicasForMetric``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

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
from .selector import SelectorError, check_metric_selector, print_metric_selector
from .times import SECOND, parse_time

Json = dict[str, Any]

# Window of a custom metric sample that comes without one (metrics/client.go).
DEFAULT_CUSTOM_WINDOW_S = 60


class ErrorKind(Enum):
    """Why a metric gave no proposal."""

    FETCH_FAILED = "the metrics API call failed"
    NO_METRICS_RETURNED = "the metrics API returned an empty list"
    NO_PODS = "no pods returned by selector while calculating replica count"
    NO_READY_POD_METRICS = "did not receive metrics for targeted pods (pods might be unready)"
    MISSING_REQUEST = "missing request for the resource in a container"
    MISSING_POD_REQUEST = "missing pod-level request for the resource"
    CONTAINER_NOT_FOUND = "container not found in a pod"
    NO_MATCHED_PODS = "no metrics returned matched known pods"
    INVALID_TARGET = "the metric source has no usable target"
    BAD_METRIC_SELECTOR = "the metric's label selector cannot be converted"
    UNKNOWN_SOURCE_TYPE = "unknown metric source type"


class MetricError(Exception):
    """A metric that cannot be computed."""

    def __init__(self, kind: ErrorKind) -> None:
        super().__init__(kind.value)
        self.kind = kind


class Sample(NamedTuple):
    """One pod's metric: times in microseconds, the value in milli-units."""

    timestamp: int
    window: int
    value: int


class PodGroups(NamedTuple):
    """Result of ``groupPods``; a pod with a usable sample is only counted."""

    ready_count: int
    unready: set[str]
    missing: set[str]
    ignored: set[str]


class Proposal(NamedTuple):
    """Result of one metric; the last three are what its status shows."""

    replicas: int
    metric_name: str
    utilization: int | None = None
    average_milli: int | None = None
    value_milli: int | None = None


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
    k8s: str = "1.38"

    def within(self, ratio: float) -> bool:
        """``Tolerances.isWithin``: both ends inclusive, NaN is outside."""
        return (1.0 - self.tolerance_down) <= ratio and ratio <= (1.0 + self.tolerance_up)


# --- pods -----------------------------------------------------------------------------------------


def group_pods(
    pods: list[Json],
    samples: dict[str, Sample],
    resource: str,
    now: int,
    cpu_initialization_period: int,
    initial_readiness_delay: int,
    k8s: str = "1.38",
) -> PodGroups:
    """Calculator, grouping pods (``groupPods``): each pod takes the first branch that fits."""
    # kubernetes#141302 made finished pods equal to failed ones after 1.36.
    terminal = ("Failed",) if k8s == "1.36" else ("Failed", "Succeeded")
    groups = PodGroups(0, set(), set(), set())
    ready_count = 0
    for pod in pods:
        name = pod["name"]
        if pod.get("deletion_timestamp") is not None or pod["phase"] in terminal:
            groups.ignored.add(name)
        elif pod["phase"] == "Pending":
            groups.unready.add(name)
        elif name not in samples:
            groups.missing.add(name)
        elif resource == "cpu" and is_cpu_unready(
            pod, samples[name], now, cpu_initialization_period, initial_readiness_delay
        ):
            groups.unready.add(name)
        else:
            ready_count += 1
    return groups._replace(ready_count=ready_count)


def is_cpu_unready(
    pod: Json,
    sample: Sample,
    now: int,
    cpu_initialization_period: int,
    initial_readiness_delay: int,
) -> bool:
    """Calculator, grouping pods, step 4: is the cpu sample of a started pod not to be trusted?"""
    condition = pod.get("ready")
    if condition is None or pod.get("start_time") is None:
        return True
    start = parse_time(pod["start_time"])
    transition = parse_time(condition["last_transition_time"])
    not_ready = bool(condition["status"] == "False")  # "Unknown" is not "False"
    if start + cpu_initialization_period > now:
        return not_ready or sample.timestamp < transition + sample.window
    return not_ready and start + initial_readiness_delay > transition


def count_ready_pods(pods: list[Json]) -> int:
    """Calculator, Object and External values (``getReadyPodsCount``): Running and Ready pods."""
    if not pods:
        raise MetricError(ErrorKind.NO_PODS)
    return sum(
        1
        for pod in pods
        if pod["phase"] == "Running" and (pod.get("ready") or {}).get("status") == "True"
    )


# --- requests -------------------------------------------------------------------------------------


def calculate_requests(
    pods: list[Json], container: str, resource: str, pod_level_gate: bool = True
) -> dict[str, int]:
    """Calculator, requests (``calculateRequests``): milli-units by pod, over all selected pods."""
    requests = {}
    for pod in pods:
        if pod_level_gate and not container and _has_pod_level_requests(pod):
            requests[pod["name"]] = _pod_level_request(pod, resource)
        else:
            requests[pod["name"]] = _container_requests(pod, container, resource)
    return requests


def _has_pod_level_requests(pod: Json) -> bool:
    """component-helpers ``IsPodLevelRequestsSet``: any of the resources supported there."""
    return any(_is_pod_level_resource(name) for name in pod.get("pod_requests") or {})


def _is_pod_level_resource(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def _container_requests(pod: Json, container: str, resource: str) -> int:
    """``calculateRequestsFromContainers``: the sum over app containers, then sidecars."""
    counted = (pod.get("containers") or []) + [
        candidate
        for candidate in pod.get("init_containers") or []
        if candidate.get("restart_policy") == "Always"
    ]
    total = 0
    for candidate in counted:
        if container and candidate["name"] != container:
            continue
        request = (candidate.get("requests") or {}).get(resource)
        if request is None:
            raise MetricError(ErrorKind.MISSING_REQUEST)
        total = wrap64(total + quantity.milli(request))
        if container:
            return total
    if container:
        raise MetricError(ErrorKind.CONTAINER_NOT_FOUND)
    return total


def _pod_level_request(pod: Json, resource: str) -> int:
    """component-helpers ``PodRequests`` for one resource: ``milli`` is taken once, at the end."""
    own = (pod.get("pod_requests") or {}).get(resource)
    if own is not None and _is_pod_level_resource(resource):
        return quantity.milli(own)
    aggregate = _aggregate_container_requests(pod, resource)
    if aggregate is None:
        raise MetricError(ErrorKind.MISSING_POD_REQUEST)
    return quantity.milli_of(aggregate)


def _aggregate_container_requests(pod: Json, resource: str) -> quantity.Quantity | None:
    """Sum of containers and sidecars, raised to the largest need of an init container."""
    total: quantity.Quantity | None = None
    sidecars: quantity.Quantity | None = None  # those started so far
    largest_init: quantity.Quantity | None = None
    for candidate in pod.get("containers") or []:
        total = _plus(total, _request_of(candidate, resource))
    for candidate in pod.get("init_containers") or []:
        request = _request_of(candidate, resource)
        if candidate.get("restart_policy") == "Always":
            total = _plus(total, request)
            sidecars = _plus(sidecars, request)
            need = sidecars
        else:
            need = _plus(request, sidecars)
        largest_init = _larger(largest_init, need)
    return _larger(total, largest_init)


def _request_of(container: Json, resource: str) -> quantity.Quantity | None:
    text = (container.get("requests") or {}).get(resource)
    return None if text is None else quantity.parse(text)


def _plus(
    left: quantity.Quantity | None, right: quantity.Quantity | None
) -> quantity.Quantity | None:
    """Add two entries of a resource list, either of which may be absent."""
    if left is None or right is None:
        return right if left is None else left
    return quantity.add(left, right)


def _larger(
    left: quantity.Quantity | None, right: quantity.Quantity | None
) -> quantity.Quantity | None:
    """Return the larger of two entries of a resource list, either of which may be absent."""
    if left is None or right is None:
        return right if left is None else left
    return right if quantity.compare(right, left) > 0 else left


# --- samples --------------------------------------------------------------------------------------


def resource_samples(answer: Json, resource: str, container: str) -> dict[str, Sample]:
    """Metric retrieval, metrics.k8s.io (``GetResourceMetric``)."""
    _check_answer(answer, "pod_metrics")
    samples = {}
    for name, item in answer["pod_metrics"].items():
        value = _resource_value(item.get("containers") or {}, resource, container)
        if value is not None:
            window = (item.get("window_s") or 0) * SECOND
            samples[name] = Sample(parse_time(item["timestamp"]), window, value)
    return samples


def _resource_value(containers: Json, resource: str, container: str) -> int | None:
    """One pod's value; None drops the pod, so that it counts as missing."""
    if container:
        text = containers.get(container, {}).get(resource)
        return None if text is None else quantity.milli(text)
    if not containers or any(resource not in usage for usage in containers.values()):
        return None
    return _wrapping_sum(quantity.milli(usage[resource]) for usage in containers.values())


def custom_samples(answer: Json) -> dict[str, Sample]:
    """Metric retrieval, custom.metrics.k8s.io (``GetRawMetric``)."""
    _check_answer(answer, "pod_metrics")
    samples = {}
    for name, item in answer["pod_metrics"].items():
        window = item.get("window_s")
        seconds = DEFAULT_CUSTOM_WINDOW_S if window is None else window
        samples[name] = Sample(
            parse_time(item["timestamp"]), seconds * SECOND, quantity.milli(item["value"])
        )
    return samples


def _check_answer(answer: Json, field: str) -> None:
    """Fail if the API call failed or returned an empty list."""
    if answer.get("metrics_error") is not None:
        raise MetricError(ErrorKind.FETCH_FAILED)
    if not answer.get(field):
        raise MetricError(ErrorKind.NO_METRICS_RETURNED)


def _wrapping_sum(values: Iterable[int]) -> int:
    # Wrapping once at the end gives the same low 64 bits as wrapping at each step.
    return wrap64(sum(values))


# --- Resource, ContainerResource and Pods metrics -------------------------------------------------


def utilization_ratio(
    values: dict[str, int], requests: dict[str, int], target: int
) -> tuple[float, int, int]:
    """utilization.go ``GetResourceUtilizationRatio``: ratio, percent, average milli value.

    The ratio is built from the truncated percent, not from the sums.
    """
    known = [name for name in values if name in requests]
    used = _wrapping_sum(values[name] for name in known)
    requested = _wrapping_sum(requests[name] for name in known)
    if requested == 0:
        raise MetricError(ErrorKind.NO_MATCHED_PODS)
    percent = wrap32(trunc_div(wrap64(used * 100), requested))
    return float_div(float(percent), float(target)), percent, trunc_div(used, len(known))


def average_ratio(values: dict[str, int], target_milli: int) -> tuple[float, int]:
    """utilization.go ``GetMetricUsageRatio``: ratio and average milli value, over all entries."""
    average = trunc_div(_wrapping_sum(values.values()), len(values))
    return float_div(float(average), float(target_milli)), average


def _usable_values(
    samples: dict[str, Sample], resource: str, context: Context
) -> tuple[PodGroups, dict[str, int]]:
    """Group the pods and drop the samples of the ignored and the unready ones."""
    if not context.pods:
        raise MetricError(ErrorKind.NO_PODS)
    groups = group_pods(
        context.pods,
        samples,
        resource,
        context.now,
        context.cpu_initialization_period,
        context.initial_readiness_delay,
        context.k8s,
    )
    values = {
        name: sample.value
        for name, sample in samples.items()
        if name not in groups.ignored and name not in groups.unready
    }
    if not values:
        raise MetricError(ErrorKind.NO_READY_POD_METRICS)
    return groups, values


def replicas_for_pods(
    groups: PodGroups,
    values: dict[str, int],
    first_ratio: float,
    charge_missing: Callable[[str], int],
    ratio_of: Callable[[dict[str, int]], float],
    context: Context,
) -> int:
    """Calculator, the two passes shared by ``GetResourceReplicas`` and ``calcPlainMetricReplicas``.

    ``charge_missing`` gives the value assumed for a pod without a sample on the way down.
    """
    scale_up_with_unready = bool(groups.unready) and first_ratio > 1.0
    if not scale_up_with_unready and not groups.missing:
        if context.within(first_ratio):
            return context.current_replicas
        return ceil_to_int32(first_ratio * float(groups.ready_count))

    # Pods we know nothing about are assumed to be such that they hold the scaling back.
    assumed = dict(values)
    if first_ratio < 1.0:
        assumed.update({name: charge_missing(name) for name in groups.missing})
    elif first_ratio > 1.0:
        assumed.update(dict.fromkeys(groups.missing, 0))
    if scale_up_with_unready:
        assumed.update(dict.fromkeys(groups.unready, 0))

    ratio = ratio_of(assumed)
    flipped = (first_ratio < 1.0 and ratio > 1.0) or (first_ratio > 1.0 and ratio < 1.0)
    if context.within(ratio) or flipped:
        return context.current_replicas
    replicas = ceil_to_int32(ratio * float(len(assumed)))
    wrong_way = (ratio < 1.0 and replicas > context.current_replicas) or (
        ratio > 1.0 and replicas < context.current_replicas
    )
    return context.current_replicas if wrong_way else replicas


def utilization_replicas(
    samples: dict[str, Sample], target: int, resource: str, container: str, context: Context
) -> tuple[int, int, int]:
    """Calculator, utilization (``GetResourceReplicas``): replicas, percent, average milli value.

    The last two are of the first pass, without assumptions about missing and unready pods.
    """
    groups, values = _usable_values(samples, resource, context)
    requests = calculate_requests(context.pods, container, resource)
    first_ratio, percent, average = utilization_ratio(values, requests, target)
    charged_percent = max(100, target)
    replicas = replicas_for_pods(
        groups,
        values,
        first_ratio,
        lambda name: trunc_div(wrap64(requests[name] * charged_percent), 100),
        lambda assumed: utilization_ratio(assumed, requests, target)[0],
        context,
    )
    return replicas, percent, average


def average_replicas(
    samples: dict[str, Sample], target_milli: int, resource: str, context: Context
) -> tuple[int, int]:
    """Calculator, averageValue and Pods metrics (``calcPlainMetricReplicas``).

    ``resource`` is empty for Pods metrics, which ignore readiness.
    """
    groups, values = _usable_values(samples, resource, context)
    first_ratio, average = average_ratio(values, target_milli)
    replicas = replicas_for_pods(
        groups,
        values,
        first_ratio,
        lambda _: target_milli,
        lambda assumed: average_ratio(assumed, target_milli)[0],
        context,
    )
    return replicas, average


def resource_proposal(spec: Json, answer: Json, context: Context) -> Proposal:
    """``computeStatusForResourceMetric`` and ``computeStatusForContainerResourceMetric``."""
    container_metric = spec["type"] == "ContainerResource"
    source = spec["containerResource" if container_metric else "resource"]
    container = source["container"] if container_metric else ""
    resource, target = source["name"], source.get("target") or {}
    if target.get("averageValue") is not None:
        samples = resource_samples(answer, resource, container)
        target_milli = quantity.milli(target["averageValue"])
        replicas, average = average_replicas(samples, target_milli, resource, context)
        return Proposal(replicas, f"{resource} resource", average_milli=average)
    if target.get("averageUtilization") is None:
        raise MetricError(ErrorKind.INVALID_TARGET)
    samples = resource_samples(answer, resource, container)
    replicas, percent, average = utilization_replicas(
        samples, target["averageUtilization"], resource, container, context
    )
    kind = "container resource" if container_metric else "resource"
    name = f"{resource} {kind} utilization (percentage of request)"
    return Proposal(replicas, name, utilization=percent, average_milli=average)


def pods_proposal(spec: Json, answer: Json, context: Context) -> Proposal:
    """``computeStatusForPodsMetric``."""
    source = spec["pods"]
    _convert_metric_selector(source["metric"])
    target_milli = quantity.milli(source["target"]["averageValue"])
    replicas, average = average_replicas(custom_samples(answer), target_milli, "", context)
    return Proposal(replicas, f"pods metric {source['metric']['name']}", average_milli=average)


# --- Object and External metrics ------------------------------------------------------------------


def object_proposal(spec: Json, answer: Json, context: Context) -> Proposal:
    """``computeStatusForObjectMetric``: target.type and its member must agree."""
    source = spec["object"]
    metric, target = source["metric"], source["target"]
    _convert_metric_selector(metric)
    by_value = target.get("type") == "Value" and target.get("value") is not None
    by_average = target.get("type") == "AverageValue" and target.get("averageValue") is not None
    if not by_value and not by_average:
        raise MetricError(ErrorKind.INVALID_TARGET)
    _check_answer(answer, "object_value")
    usage = quantity.milli(answer["object_value"])
    if by_value:
        ratio = float_div(float(usage), float(quantity.milli(target["value"])))
        name = f"{source['describedObject']['kind']} metric {metric['name']}"
        return Proposal(replicas_for_value(ratio, context), name, value_milli=usage)
    target_milli = quantity.milli(target["averageValue"])
    return Proposal(
        replicas_for_average(usage, target_milli, context, ceil_to_int32),
        _external_metric_name(metric),
        average_milli=per_pod_usage(usage, context.status_replicas, "Object", context.k8s),
    )


def external_proposal(spec: Json, answer: Json, context: Context) -> Proposal:
    """``computeStatusForExternalMetric``: only the members of the target count, not its type."""
    metric, target = spec["external"]["metric"], spec["external"]["target"]
    by_average = target.get("averageValue") is not None
    if not by_average and target.get("value") is None:
        raise MetricError(ErrorKind.INVALID_TARGET)
    _convert_metric_selector(metric)
    _check_answer(answer, "external_values")
    values = [quantity.milli(text) for text in answer["external_values"]]
    name = _external_metric_name(metric)
    if by_average:
        usage = external_sum_for_average(values)
        target_milli = quantity.milli(target["averageValue"])
        return Proposal(
            replicas_for_average(usage, target_milli, context, _ceil_capped),
            name,
            average_milli=per_pod_usage(usage, context.status_replicas, "External", context.k8s),
        )
    usage = external_sum_for_value(values)
    ratio = float_div(float(usage), float(quantity.milli(target["value"])))
    return Proposal(replicas_for_value(ratio, context), name, value_milli=usage)


def _convert_metric_selector(metric: Json) -> None:
    try:
        check_metric_selector(metric.get("selector"))
    except SelectorError as error:
        raise MetricError(ErrorKind.BAD_METRIC_SELECTOR) from error


def _external_metric_name(metric: Json) -> str:
    return f"external metric {metric['name']}({print_metric_selector(metric.get('selector'))})"


def replicas_for_value(ratio: float, context: Context) -> int:
    """Calculator, Value targets (``getUsageRatioReplicaCount``)."""
    if context.current_replicas == 0:  # scaling from zero: no pods to count, no tolerance
        return ceil_to_int32(ratio)
    if context.within(ratio):
        return context.current_replicas
    product = ratio * float(count_ready_pods(context.pods))
    return MAX_INT32 if product > float(MAX_INT32) else ceil_to_int32(product)


def replicas_for_average(
    usage: int, target_milli: int, context: Context, to_int32: Callable[[float], int]
) -> int:
    """Calculator, AverageValue targets (``GetObjectPerPodMetricReplicas`` and the External one)."""
    share = float(target_milli) * float(context.status_replicas)
    if context.within(float_div(float(usage), share)):
        return context.status_replicas
    return to_int32(float_div(float(usage), float(target_milli)))


def _ceil_capped(value: float) -> int:
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


def per_pod_usage(usage: int, status_replicas: int, source: str, k8s: str = "1.38") -> int:
    """``getPerPodUsage``: the average that the status shows.

    Up to 1.36 only External had the upper guard, and nobody the one for zero replicas.
    """
    if (k8s != "1.36" or source == "External") and float(usage) >= float(MAX_INT64):
        return MAX_INT64
    if k8s != "1.36" and status_replicas == 0:
        return 0
    return ceil_to_int64(float_div(float(usage), float(status_replicas)))


# --- one metric, one case -------------------------------------------------------------------------

_PROPOSERS: dict[str, tuple[Callable[[Json, Json, Context], Proposal], str]] = {
    "Object": (object_proposal, "FailedGetObjectMetric"),
    "Pods": (pods_proposal, "FailedGetPodsMetric"),
    "Resource": (resource_proposal, "FailedGetResourceMetric"),
    "ContainerResource": (resource_proposal, "FailedGetContainerResourceMetric"),
    "External": (external_proposal, "FailedGetExternalMetric"),
}


def propose(spec: Json, answer: Json, context: Context) -> Proposal:
    """``computeReplicasForMetric``; raises MetricError."""
    if spec["type"] not in _PROPOSERS:
        raise MetricError(ErrorKind.UNKNOWN_SOURCE_TYPE)
    return _PROPOSERS[spec["type"]][0](spec, answer, context)


def failure_reason(spec: Json) -> str:
    """Reason of the ScalingActive=False condition when the metric fails."""
    if spec["type"] not in _PROPOSERS:
        return "InvalidMetricSourceType"
    return _PROPOSERS[spec["type"]][1]


def directional_tolerances(
    flag: float, scale_up: str | None, scale_down: str | None
) -> tuple[float, float]:
    """Calculator, tolerances: (down, up), each overridden by the behavior's quantity."""
    down = float(flag) if scale_down is None else quantity.approx_float(scale_down)
    up = float(flag) if scale_up is None else quantity.approx_float(scale_up)
    return down, up


def case_context(case: Json, k8s: str = "1.38") -> Context:
    """Build the context of a golden calculator case."""
    flags = case["flags"]
    down, up = directional_tolerances(
        flags["tolerance"], flags.get("scale_up_tolerance"), flags.get("scale_down_tolerance")
    )
    return Context(
        now=parse_time(case["now"]),
        cpu_initialization_period=flags.get("cpu_initialization_period_s", 0) * SECOND,
        initial_readiness_delay=flags.get("initial_readiness_delay_s", 0) * SECOND,
        tolerance_down=down,
        tolerance_up=up,
        current_replicas=case["spec_replicas"],
        status_replicas=case["status_replicas"],
        pods=case.get("pods") or [],
        k8s=k8s,
    )


def case_error(case: Json, k8s: str = "1.38") -> ErrorKind | None:
    """Return why a case fails, or None if it gives a proposal."""
    try:
        propose(case["metric"], case, case_context(case, k8s))
    except MetricError as error:
        return error.kind
    return None


def evaluate_case(case: Json, k8s: str = "1.38") -> Json:
    """Evaluate a golden calculator case; the keys are those of ``expected`` without texts."""
    metric = case["metric"]
    reason: str | None = None
    proposal: Proposal | None = None
    try:
        proposal = propose(metric, case, case_context(case, k8s))
    except MetricError:
        reason = failure_reason(metric)
    return {
        "replicas": proposal.replicas if proposal else None,
        "current_average_utilization": proposal.utilization if proposal else None,
        "current_average_value_milli": proposal.average_milli if proposal else None,
        "current_value_milli": proposal.value_milli if proposal else None,
        "metric_name": proposal.metric_name if proposal else None,
        "condition_reason": reason,
    }
