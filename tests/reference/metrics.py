"""One metric of an HPA: its proposal, its status, or everything that is said about its failure.

Upstream: ``pkg/controller/podautoscaler/horizontal.go computeReplicasForMetric`` and what it calls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from . import quantity
from .gomath import ceil_to_int32, float_div, wrap64
from .replicas import (
    Context,
    average_replicas,
    ceil_capped,
    external_sum_for_average,
    external_sum_for_value,
    per_pod_usage,
    replicas_for_average,
    replicas_for_value,
    utilization_replicas,
)
from .samples import (
    CalculationError,
    custom_samples,
    external_values,
    object_value,
    resource_samples,
)
from .selector import SelectorError, check_metric_selector, go_quote, print_metric_selector

Json = dict[str, Any]

UNABLE = "the HPA was unable to compute the replica count: "

INVALID_RESOURCE = (
    "invalid resource metric source: neither an average utilization target nor an average value "
    "(usage) target was set"
)
INVALID_RESOURCE_OLD = (
    "invalid resource metric source: neither a utilization target nor a value target was set"
)


class MetricError(Exception):
    """A metric that gives no proposal: its event and condition, and the error in the summary."""

    def __init__(self, reason: str, inner: str, error: str) -> None:
        super().__init__(error)
        self.reason = reason
        self.inner = inner  # message of the event, and of the condition after UNABLE
        self.error = error
        self.unknown_type = reason == "InvalidMetricSourceType"


@dataclass(frozen=True)
class Proposal:
    """Result of one metric: replicas, the metric's name in texts, and its status."""

    replicas: int
    metric_name: str
    status: Json = field(hash=False)
    utilization: int | None = None
    average_milli: int | None = None
    value_milli: int | None = None


def _current(
    context: Context,
    resource: str = "",
    utilization: int | None = None,
    average_milli: int | None = None,
    value_milli: int | None = None,
) -> Json:
    """Write ``current`` of a metric status; only memory has binary suffixes."""
    binary = resource == "memory" and context.profile.memory_is_binary
    current: Json = {}
    if utilization is not None:
        current["averageUtilization"] = utilization
    if average_milli is not None:
        current["averageValue"] = quantity.text_of_milli(average_milli, binary)
    if value_milli is not None:
        current["value"] = quantity.text_of_milli(value_milli, binary)
    return current


def _convert_selector(metric: Json, context: Context) -> None:
    try:
        check_metric_selector(metric.get("selector"), context.profile.selectors)
    except SelectorError as error:
        raise CalculationError(str(error)) from error


def _shown_metric(metric: Json) -> Json:
    return {key: metric[key] for key in ("name", "selector") if metric.get(key) is not None}


# --- Resource and ContainerResource ---------------------------------------------------------------


def resource_proposal(spec: Json, answer: Json, context: Context) -> Proposal:
    """``computeStatusForResourceMetric`` and ``computeStatusForContainerResourceMetric``."""
    container_metric = spec["type"] == "ContainerResource"
    source = spec["containerResource" if container_metric else "resource"]
    reason = f"FailedGet{spec['type']}Metric"
    try:
        replicas, name, utilization, average = _resource_replicas(
            source, container_metric, answer, context
        )
    except CalculationError as error:
        inner = str(error)
        label = (
            f"{source['container']} container"
            if container_metric
            else (f"{source['name']} resource")
        )
        prefix = f"failed to get {label} metric value: "
        raise MetricError(
            reason, inner, prefix * context.profile.metric_errors_prefixed + inner
        ) from error
    shown = {"name": source["name"]}
    if container_metric:
        shown["container"] = source["container"]
    shown["current"] = _current(context, source["name"], utilization, average)
    member = "containerResource" if container_metric else "resource"
    status = {"type": spec["type"], member: shown}
    return Proposal(replicas, name, status, utilization=utilization, average_milli=average)


def _resource_replicas(
    source: Json, container_metric: bool, answer: Json, context: Context
) -> tuple[int, str, int | None, int]:
    """``computeStatusForResourceMetricGeneric``: replicas, name, percent, average milli value."""
    profile = context.profile
    container = source["container"] if container_metric else ""
    resource, target = source["name"], source.get("target") or {}
    by_average = target.get("averageValue") is not None
    if not by_average and target.get("averageUtilization") is None:
        new = profile.invalid_resource_text_new
        raise CalculationError(INVALID_RESOURCE if new else INVALID_RESOURCE_OLD)
    wanted = "usage" if by_average and profile.usage_errors_say_usage else "utilization"
    try:
        samples = _fetched(
            f"unable to get metrics for resource {resource}: ",
            lambda: resource_samples(
                answer, resource, container, context.namespace, profile.container_sample_required
            ),
        )
        if by_average:
            target_milli = quantity.milli(target["averageValue"])
            replicas, average = average_replicas(samples, target_milli, resource, context)
            return replicas, f"{resource} resource", None, average
        replicas, percent, average = utilization_replicas(
            samples, target["averageUtilization"], resource, container, context
        )
    except CalculationError as error:
        raise CalculationError(f"failed to get {resource} {wanted}: {error}") from error
    kind = (
        "container resource"
        if container_metric and profile.container_metric_name_new
        else ("resource")
    )
    name = f"{resource} {kind} utilization (percentage of request)"
    return replicas, name, percent, average


def _fetched(prefix: str, fetch: Callable[[], Any]) -> Any:
    """Fetch from an API; its errors get a prefix."""
    try:
        return fetch()
    except CalculationError as error:
        raise CalculationError(f"{prefix}{error}") from error


# --- Pods -----------------------------------------------------------------------------------------


def pods_proposal(spec: Json, answer: Json, context: Context) -> Proposal:
    """``computeStatusForPodsMetric``."""
    metric, target = spec["pods"]["metric"], spec["pods"]["target"]
    try:
        _convert_selector(metric, context)
        samples = _fetched(
            f"unable to get metric {metric['name']}: ", lambda: custom_samples(answer)
        )
        target_milli = quantity.milli(target["averageValue"])
        replicas, average = average_replicas(samples, target_milli, "", context)
    except CalculationError as error:
        text = str(error)
        raise MetricError(
            "FailedGetPodsMetric", text, f"failed to get pods metric value: {text}"
        ) from error
    shown = {"metric": _shown_metric(metric), "current": _current(context, average_milli=average)}
    status = {"type": "Pods", "pods": shown}
    return Proposal(replicas, f"pods metric {metric['name']}", status, average_milli=average)


# --- Object ---------------------------------------------------------------------------------------


def object_proposal(spec: Json, answer: Json, context: Context) -> Proposal:
    """``computeStatusForObjectMetric``: target.type and its member must agree."""
    source = spec["object"]
    metric, target = source["metric"], source["target"]
    name, described = metric["name"], source["describedObject"]
    by_value = target.get("type") == "Value" and target.get("value") is not None
    by_average = target.get("type") == "AverageValue" and target.get("averageValue") is not None
    prefix = "failed to get object metric value: "
    try:
        _convert_selector(metric, context)
        if not by_value and not by_average:
            raise CalculationError(
                "invalid object metric source: neither a value target nor an average value target "
                "was set"
            )
        if by_average:
            prefix = f"failed to get object metric value: failed to get {name} object metric: "
            usage = _object_usage(name, described, answer, context)
            return _object_average(source, usage, context)
        usage = _object_usage(name, described, answer, context)
        ratio = float_div(float(usage), float(quantity.milli(target["value"])))
        replicas = replicas_for_value(ratio, context)
    except CalculationError as error:
        text = str(error)
        raise MetricError("FailedGetObjectMetric", text, f"{prefix}{text}") from error
    shown = {
        "metric": _shown_metric(metric),
        "describedObject": described,
        "current": _current(context, value_milli=usage),
    }
    status = {"type": "Object", "object": shown}
    return Proposal(replicas, f"{described['kind']} metric {name}", status, value_milli=usage)


def _object_usage(name: str, described: Json, answer: Json, context: Context) -> int:
    try:
        return object_value(answer)
    except CalculationError as error:
        where = (described["kind"], context.namespace, described["name"])
        if context.profile.object_error_in_order:
            text = "unable to get metric {} on {} {}/{}: {}".format(name, *where, error)
        else:  # the arguments of the format string were in the wrong order
            text = "unable to get metric {}: {} on {} {}/{}".format(name, *where, error)
        raise CalculationError(text) from error


def _object_average(source: Json, usage: int, context: Context) -> Proposal:
    metric = source["metric"]
    target_milli = quantity.milli(source["target"]["averageValue"])
    replicas = replicas_for_average(usage, target_milli, context, ceil_to_int32)
    average = per_pod_usage(usage, context.status_replicas, "Object", context.profile)
    described = source["describedObject"]
    if not context.profile.object_average_names_object:
        described = {"kind": "", "name": ""}
    shown = {
        "metric": _shown_metric(metric),
        "describedObject": described,
        "current": _current(context, average_milli=average),
    }
    status = {"type": "Object", "object": shown}
    return Proposal(replicas, _external_name(metric), status, average_milli=average)


# --- External -------------------------------------------------------------------------------------


def external_proposal(spec: Json, answer: Json, context: Context) -> Proposal:
    """``computeStatusForExternalMetric``: only the members of the target count, not its type."""
    metric, target = spec["external"]["metric"], spec["external"]["target"]
    name = metric["name"]
    outer = f"failed to get {name} external metric value: " * context.profile.metric_errors_prefixed
    prefix = ""
    try:
        if target.get("averageValue") is not None:
            prefix = f"failed to get {name} external metric: "
            replicas, average = _external_average(metric, target, answer, context)
            current = _current(context, average_milli=average)
            value = None
        elif target.get("value") is not None:
            prefix = f"failed to get external metric {name}: "
            replicas, value = _external_value(metric, target, answer, context)
            current = _current(context, value_milli=value)
            average = None
        else:
            raise CalculationError(
                "invalid external metric source: neither a value target nor an average value "
                "target was set"
            )
    except CalculationError as error:
        text = str(error)
        raise MetricError("FailedGetExternalMetric", text, f"{outer}{prefix}{text}") from error
    status = {
        "type": "External",
        "external": {"metric": _shown_metric(metric), "current": current},
    }
    return Proposal(
        replicas, _external_name(metric), status, average_milli=average, value_milli=value
    )


def _external_answer(metric: Json, answer: Json, context: Context) -> list[int]:
    _convert_selector(metric, context)
    where = f"{context.namespace}/{metric['name']}/{print_metric_selector(metric.get('selector'))}"
    values: list[int] = _fetched(
        f"unable to get external metric {where}: ", lambda: external_values(answer)
    )
    return values


def _external_average(
    metric: Json, target: Json, answer: Json, context: Context
) -> tuple[int, int]:
    values = _external_answer(metric, answer, context)
    clamped = context.profile.external_average_clamped
    usage = external_sum_for_average(values) if clamped else wrap64(sum(values))
    target_milli = quantity.milli(target["averageValue"])
    to_int32 = ceil_capped if clamped else ceil_to_int32
    replicas = replicas_for_average(usage, target_milli, context, to_int32)
    return replicas, per_pod_usage(usage, context.status_replicas, "External", context.profile)


def _external_value(metric: Json, target: Json, answer: Json, context: Context) -> tuple[int, int]:
    values = _external_answer(metric, answer, context)
    clamped = context.profile.external_value_clamped
    usage = external_sum_for_value(values) if clamped else wrap64(sum(values))
    ratio = float_div(float(usage), float(quantity.milli(target["value"])))
    return replicas_for_value(ratio, context), usage


def _external_name(metric: Json) -> str:
    return f"external metric {metric['name']}({print_metric_selector(metric.get('selector'))})"


# --- any metric ----------------------------------------------------------------------------------

_PROPOSERS: dict[str, Callable[[Json, Json, Context], Proposal]] = {
    "Object": object_proposal,
    "Pods": pods_proposal,
    "Resource": resource_proposal,
    "ContainerResource": resource_proposal,
    "External": external_proposal,
}


def propose(spec: Json, answer: Json, context: Context) -> Proposal:
    """``computeReplicasForMetric``; raises MetricError."""
    if spec["type"] not in _PROPOSERS:
        text = context.profile.printed(f"unknown metric source type {go_quote(spec['type'])}")
        raise MetricError("InvalidMetricSourceType", text, text)
    return _PROPOSERS[spec["type"]](spec, answer, context)
