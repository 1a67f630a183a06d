"""The controller's messages: conditions, events and errors, word for word.

Kernels give codes and numbers; `engine.explain.status` combines them with these strings. Clients
match on these words. Sources: pkg/controller/podautoscaler/horizontal.go, replica_calculator.go
and metrics/client.go. The event recorder's component is `horizontal-pod-autoscaler`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from hpabatch.layout import codes
from hpabatch.model.go_format import go_format
from hpabatch.model.objects.field_errors import go_quote
from hpabatch.model.objects.hpa import LabelSelector, MetricSpec
from hpabatch.model.selectors import go_print, selector_from_object, selector_words
from hpabatch.model.versions import Profile

COMPONENT: Final = "horizontal-pod-autoscaler"
NORMAL: Final = "Normal"
WARNING: Final = "Warning"


@dataclass(frozen=True, slots=True)
class Event:
    """One event, or the same one `count` times between `first_ms` and `last_ms` (UTC ms)."""

    type: str
    reason: str
    message: str
    first_ms: int = 0
    last_ms: int = 0
    count: int = 1


# ---- conditions --------------------------------------------------------------------------------

_FIXED: Final[dict[int, str]] = {
    codes.FAILED_GET_SCALE: "the HPA controller was unable to get the target's current scale: {}",
    codes.SUCCEEDED_GET_SCALE: ("the HPA controller was able to get the target's current scale"),
    codes.READY_FOR_NEW_SCALE: "recommended size matches current size",
    codes.SCALE_DOWN_STABILIZED: (
        "recent recommendations were higher than current one, applying the highest recent "
        "recommendation"
    ),
    codes.SCALE_UP_STABILIZED: (
        "recent recommendations were lower than current one, applying the lowest recent "
        "recommendation"
    ),
    codes.SUCCEEDED_RESCALE: "the HPA controller was able to update the target scale to {}",
    codes.FAILED_UPDATE_SCALE: "the HPA controller was unable to update the target scale: {}",
    codes.VALID_METRIC_FOUND: (
        "the HPA was able to successfully calculate a replica count from {}"
    ),
    codes.SCALING_DISABLED: ("scaling is disabled since the replica count of the target is zero"),
    codes.INVALID_SELECTOR: "{}",
    codes.AMBIGUOUS_SELECTOR: "{}",
    codes.DESIRED_WITHIN_RANGE: "the desired count is within the acceptable range",
    codes.TOO_FEW_REPLICAS: "the desired replica count is less than the minimum replica count",
    codes.TOO_MANY_REPLICAS: "the desired replica count is more than the maximum replica count",
    codes.SCALE_UP_LIMIT: (
        "the desired replica count is increasing faster than the maximum scale rate"
    ),
    codes.SCALE_DOWN_LIMIT: (
        "the desired replica count is decreasing faster than the maximum scale rate"
    ),
    codes.IS_SCALED_TO_ZERO: "the HPA controller scaled the workload to zero",
    codes.NOT_SCALED_TO_ZERO: "the HPA controller did not scale the workload to zero",
}
CONDITION_MESSAGES: Final[dict[int, str]] = _FIXED | dict.fromkeys(
    range(codes.INVALID_METRIC_SOURCE_TYPE, codes.FAILED_GET_EXTERNAL_METRIC + 1),
    "the HPA was unable to compute the replica count: {}",
)


def printed(text: str, profile: Profile) -> str:
    """Return a finished message, which old versions take for a format without arguments."""
    return text if profile.texts_are_literal else go_format(text)


def condition_message(code: int, detail: str = "") -> str:
    """Return a condition's message; `detail` is the error, metric or number that it names."""
    return CONDITION_MESSAGES[code].format(detail)


# ---- selectors ---------------------------------------------------------------------------------

NO_SELECTOR_EVENT: Final = ("SelectorRequired", "selector is required")
NO_SELECTOR_CONDITION: Final = "the HPA target's scale is missing a selector"


def invalid_selector(error: str) -> str:
    """Return the message for a scale's selector that does not parse."""
    return f"couldn't convert selector into a corresponding internal selector object: {error}"


def ambiguous_selector(selector: str, names: Sequence[str], profile: Profile) -> str:
    """Return the message for a selector whose pods several HPAs control.

    `names` are these HPAs as `namespace/name`, ascending (upstream's order is random).
    """
    shown = " ".join(names[:2] if profile.ambiguous_names_two else names)
    if profile.ambiguous_gives_examples:
        return f"pods by selector {selector} are controlled by more than one HPA (e.g. [{shown}])"
    return f"pods by selector {selector} are controlled by multiple HPAs: [{shown}]"


# ---- metrics -----------------------------------------------------------------------------------

_FETCH_CODES = (
    codes.METRIC_FETCH_FAILED,
    codes.METRIC_ANSWER_EMPTY,
    codes.METRIC_CONTAINER_LACKS,
)
_NO_PODS = "no pods returned by selector while calculating replica count"
_APIS = {
    codes.SOURCE_RESOURCE: "resource",
    codes.SOURCE_CONTAINER_RESOURCE: "resource",
    codes.SOURCE_PODS: "custom",
    codes.SOURCE_OBJECT: "custom",
    codes.SOURCE_EXTERNAL: "external",
}
_BAD_TARGETS = {
    codes.SOURCE_RESOURCE: "resource metric source: neither an average utilization target nor an "
    "average value (usage) target was set",
    codes.SOURCE_OBJECT: "object metric source: neither a value target nor an average value target "
    "was set",
    codes.SOURCE_EXTERNAL: "external metric source: neither a value target nor an average value "
    "target was set",
}


_OLD_BAD_RESOURCE_TARGET: Final = (
    "invalid resource metric source: neither a utilization target nor a value target was set"
)


class MetricFailure(NamedTuple):
    """Messages for a failed metric: in its event (and condition), and in the error."""

    event: str
    error: str


def metric_failure(
    metric: MetricSpec, kind: int, code: int, text: str, namespace: str, profile: Profile
) -> MetricFailure:
    """Return the messages for a failed metric.

    Args:
        metric: as in the spec.
        kind: the calculator's, METRIC_UNUSABLE where it was refused before.
        code: METRIC_*, the reason.
        text: the API's error, or the one of a pod's request.
        namespace: of the HPA.
        profile: the Kubernetes version.
    """
    source = codes.SOURCE_TYPES.get(metric.type, codes.SOURCE_UNKNOWN)
    if source == codes.SOURCE_UNKNOWN:
        inner = printed(f"unknown metric source type {go_quote(metric.type)}", profile)
        return MetricFailure(inner, inner)
    cause = _cause(metric, source, code, text, namespace, profile)
    if source in (codes.SOURCE_RESOURCE, codes.SOURCE_CONTAINER_RESOURCE):
        return _resource_failure(metric, kind, cause, profile)
    if source == codes.SOURCE_PODS:
        return MetricFailure(cause, f"failed to get pods metric value: {cause}")
    if source == codes.SOURCE_OBJECT:
        name = metric.object.metric.name if metric.object else ""
        average = f"failed to get {name} object metric: " * (kind == codes.OBJECT_AVERAGE)
        return MetricFailure(cause, f"failed to get object metric value: {average}{cause}")
    return _external_failure(metric, cause, profile)


def _external_failure(metric: MetricSpec, cause: str, profile: Profile) -> MetricFailure:
    """Return the messages for an External metric; the error depends on the used target."""
    name, step = "", ""
    if metric.external is not None:
        name, target = metric.external.metric.name, metric.external.target
        if target.average_value is not None:
            step = f"failed to get {name} external metric: "
        elif target.value is not None:
            step = f"failed to get external metric {name}: "
    place = f"failed to get {name} external metric value: " if profile.errors_wrapped else ""
    return MetricFailure(cause, f"{place}{step}{cause}")


def _resource_failure(metric: MetricSpec, kind: int, cause: str, profile: Profile) -> MetricFailure:
    """Return the messages for a Resource or ContainerResource metric."""
    resource = metric.resource.name if metric.resource else ""
    place = f"{resource} resource"
    if metric.type == "ContainerResource" and metric.container_resource:
        resource = metric.container_resource.name
        place = f"{metric.container_resource.container} container"
    average = "usage" if profile.errors_wrapped else "utilization"
    step = {
        codes.RESOURCE_AVERAGE: f"failed to get {resource} {average}: ",
        codes.RESOURCE_UTILIZATION: f"failed to get {resource} utilization: ",
    }.get(kind, "")
    event = step + cause
    if not profile.errors_wrapped:
        return MetricFailure(event, event)
    return MetricFailure(event, f"failed to get {place} metric value: {event}")


def _cause(
    metric: MetricSpec, source: int, code: int, text: str, namespace: str, profile: Profile
) -> str:
    """Return the innermost error: of the calculator, the metrics client or the spec."""
    if code in _FETCH_CODES:
        return _fetch_error(metric, source, code, text, namespace, profile)
    if code == codes.METRIC_NO_PODS:
        total = source in (codes.SOURCE_OBJECT, codes.SOURCE_EXTERNAL)
        return "unable to calculate ready pods: " * total + _NO_PODS
    if code == codes.METRIC_BAD_SELECTOR:
        return _selector_error(metric, profile)
    if code == codes.METRIC_BAD_TARGET:
        kind = source if source in _BAD_TARGETS else codes.SOURCE_RESOURCE
        if kind == codes.SOURCE_RESOURCE and not profile.errors_wrapped:
            return _OLD_BAD_RESOURCE_TARGET
        return f"invalid {_BAD_TARGETS[kind]}"
    if code == codes.METRIC_NO_REQUEST:
        return text
    if code == codes.METRIC_NO_SAMPLES and not profile.no_samples_says_targeted:
        return "did not receive metrics for any ready pods"
    return codes.METRIC_ERRORS[code]


def _fetch_error(
    metric: MetricSpec, source: int, code: int, text: str, namespace: str, profile: Profile
) -> str:
    """Return the error of a metrics API that failed or had no items."""
    api = _APIS[source]
    error = f"unable to fetch metrics from {api} metrics API: {text}"
    if code == codes.METRIC_CONTAINER_LACKS:
        error = f"failed to get container metrics: {text}"
    if code == codes.METRIC_ANSWER_EMPTY:
        error = f"no metrics returned from {api} metrics API"
        if source == codes.SOURCE_OBJECT:
            error = (
                "unable to fetch metrics from custom metrics API: the custom metrics API server "
                "returned 0 results when we asked for exactly one"
            )
    if source == codes.SOURCE_OBJECT and metric.object is not None:
        of, name = metric.object.described_object, metric.object.metric.name
        if profile.object_error_in_order:
            return f"unable to get metric {name} on {of.kind} {namespace}/{of.name}: {error}"
        return f"unable to get metric {name}: {of.kind} on {namespace} {of.name}/{error}"
    if source == codes.SOURCE_EXTERNAL and metric.external is not None:
        identifier = metric.external.metric
        selector = go_print(identifier.selector)
        return f"unable to get external metric {namespace}/{identifier.name}/{selector}: {error}"
    if source == codes.SOURCE_PODS and metric.pods is not None:
        return f"unable to get metric {metric.pods.metric.name}: {error}"
    member = metric.container_resource or metric.resource
    return f"unable to get metrics for resource {member.name if member else ''}: {error}"


def lacking_container(container: str, namespace: str, pod: str) -> str:
    """Return the message of old versions for a sample that lacks a metric's container."""
    return f"container {container} not present in metrics for pod {namespace}/{pod}"


def _selector_error(metric: MetricSpec, profile: Profile) -> str:
    """Return why a metric's selector cannot be converted."""
    member = metric.object or metric.pods or metric.external
    selector: LabelSelector | None = member.metric.selector if member else None
    try:
        selector_from_object(selector, selector_words(profile))
    except ValueError as error:
        return str(error)
    return ""


def invalid_metrics(invalid: int, count: int, first: str) -> str:
    """Return the error of a computation in which some metrics failed."""
    return f"invalid metrics ({invalid} invalid out of {count}), first error is: {first}"


# ---- rescales and errors of a sync -------------------------------------------------------------


def new_size(desired: int, reason: str) -> str:
    """Return the message of a SuccessfulRescale event."""
    return f"New size: {desired}; reason: {reason}"


def failed_new_size(desired: int, reason: str, error: str) -> str:
    """Return the message of a FailedRescale event."""
    return f"New size: {desired}; reason: {reason}; error: {error}"


def scale_error(scale: int, target: str, error: str) -> str:
    """Return a sync's error where the scale was not read; `scale` SCALE_*, target kind/ns/name."""
    if scale == codes.SCALE_BAD_VERSION:
        return f"invalid API version in scale target reference: {error}"
    if scale == codes.SCALE_NO_RESOURCE:
        return f"unable to determine resource for scale target reference: {error}"
    return f"failed to query scale subresource for {target}: {error}"


def compute_error(target: str, error: str) -> str:
    """Return a sync's error where no metric gave a proposal; target kind/ns/name."""
    return (
        "failed to compute desired number of replicas based on listed metrics for "
        f"{target}: {error}"
    )


def rescale_error(target: str, error: str) -> str:
    """Return a sync's error where the scale was not written; target kind/ns/name."""
    return f"failed to rescale {target}: {error}"


def status_update_error(name: str, error: str) -> str:
    """Return a sync's error where the status was not written; the HPA's name alone."""
    return f"failed to update status for {name}: {error}"
