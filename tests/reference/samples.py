"""Metric retrieval: what the metrics APIs answered, as samples and sums in milli-units.

Upstream: ``pkg/controller/podautoscaler/metrics/client.go``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from . import quantity
from .gomath import wrap64
from .times import SECOND, parse_time

Json = dict[str, Any]

# Window of a custom metric sample that comes without one.
DEFAULT_CUSTOM_WINDOW_S = 60


class CalculationError(Exception):
    """A metric that cannot be computed; the text is upstream's."""


class Sample(NamedTuple):
    """One pod's metric: times in microseconds, the value in milli-units."""

    timestamp: int
    window: int
    value: int


def check_answer(answer: Json, field: str, api: str) -> None:
    """Fail if the API call failed or returned an empty list."""
    if answer.get("metrics_error") is not None:
        raise CalculationError(
            f"unable to fetch metrics from {api} metrics API: {answer['metrics_error']}"
        )
    if not answer.get(field):
        raise CalculationError(f"no metrics returned from {api} metrics API")


def resource_samples(
    answer: Json, resource: str, container: str, namespace: str, required: bool = False
) -> dict[str, Sample]:
    """Metric retrieval, metrics.k8s.io (``GetResourceMetric``).

    ``required``: every sample must have the container (releases before #127193).
    """
    check_answer(answer, "pod_metrics", "resource")
    samples = {}
    for name, item in answer["pod_metrics"].items():
        containers = item.get("containers") or {}
        if required and container and container not in containers:
            raise CalculationError(
                f"failed to get container metrics: container {container} not present in metrics "
                f"for pod {namespace}/{name}"
            )
        value = _resource_value(containers, resource, container)
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
    return wrap64(sum(quantity.milli(usage[resource]) for usage in containers.values()))


def custom_samples(answer: Json) -> dict[str, Sample]:
    """Metric retrieval, custom.metrics.k8s.io (``GetRawMetric``)."""
    check_answer(answer, "pod_metrics", "custom")
    samples = {}
    for name, item in answer["pod_metrics"].items():
        window = item.get("window_s")
        seconds = DEFAULT_CUSTOM_WINDOW_S if window is None else window
        samples[name] = Sample(
            parse_time(item["timestamp"]), seconds * SECOND, quantity.milli(item["value"])
        )
    return samples


def object_value(answer: Json) -> int:
    """Metric retrieval, custom.metrics.k8s.io for one object (``GetObjectMetric``)."""
    if answer.get("metrics_error") is None and answer.get("object_value") is None:
        # the client of the custom metrics API itself refuses any other number of items than one
        answer = {
            "metrics_error": "the custom metrics API server returned 0 results when we asked for "
            "exactly one"
        }
    check_answer(answer, "object_value", "custom")
    return quantity.milli(answer["object_value"])


def external_values(answer: Json) -> list[int]:
    """Metric retrieval, external.metrics.k8s.io (``GetExternalMetric``)."""
    check_answer(answer, "external_values", "external")
    return [quantity.milli(text) for text in answer["external_values"]]
