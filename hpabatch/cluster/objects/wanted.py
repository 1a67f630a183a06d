"""Requests that HPAs need from the metrics APIs.

A metric that the controller refuses before any request (an unusable target, a selector that does
not convert, an unknown type) needs none.
"""

from __future__ import annotations

from hpabatch.cluster.objects.types import (
    ExternalMetricKey,
    MetricKey,
    ObjectMetricKey,
    PodMetricKey,
)
from hpabatch.layout import codes
from hpabatch.model.objects.hpa import HPASpec, LabelSelector, MetricIdentifier, MetricSpec
from hpabatch.model.selectors import selector_from_object
from hpabatch.packing.specs import pack_metric


def metric_key(
    namespace: str, metric: MetricSpec
) -> PodMetricKey | ObjectMetricKey | ExternalMetricKey | None:
    """Return the key of a metric's request; None: a metric of usage, or of no metrics API.

    Raises:
        ValueError: its selector does not convert.
    """
    if metric.type == "Pods" and metric.pods is not None:
        return PodMetricKey(namespace, *_name_and_selector(metric.pods.metric))
    if metric.type == "External" and metric.external is not None:
        return ExternalMetricKey(namespace, *_name_and_selector(metric.external.metric))
    if metric.type == "Object" and metric.object is not None:
        of = metric.object.described_object
        return ObjectMetricKey(
            namespace,
            group_of(of.api_version),
            of.kind,
            of.name,
            *_name_and_selector(metric.object.metric),
        )
    return None


def group_of(api_version: str) -> str:
    """Return the group of an apiVersion, "" for the core group and where it has no slash."""
    return api_version.partition("/")[0] if "/" in api_version else ""


def selector_form(selector: LabelSelector | None) -> str:
    """Return a metric selector in the string form of queries and of the history, "" if unset.

    Raises:
        ValueError: it does not convert.
    """
    return "" if selector is None else str(selector_from_object(selector))


def _name_and_selector(metric: MetricIdentifier) -> tuple[str, str]:
    return metric.name, selector_form(metric.selector)


def requests_of(namespace: str, spec: HPASpec) -> frozenset[MetricKey]:
    """Return the requests that one defaulted spec needs."""
    usable = [m for m in spec.metrics if pack_metric(m).kind != codes.METRIC_UNUSABLE]
    return frozenset(metric_key(namespace, metric) or namespace for metric in usable)
