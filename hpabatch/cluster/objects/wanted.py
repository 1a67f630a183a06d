"""Requests that HPAs need from the metrics APIs.

A metric that the controller refuses before any request (an unusable target, a selector that does
not convert, an unknown type) needs none.
"""

from __future__ import annotations

from typing import Any

from hpabatch.cluster.objects.types import (
    ExternalMetricKey,
    HpaObject,
    MetricKey,
    ObjectMetricKey,
    PodKey,
    PodMetricKey,
    Wanted,
    api_field,
)
from hpabatch.layout import codes
from hpabatch.model.objects.hpa import HPASpec, LabelSelector, MetricIdentifier, MetricSpec
from hpabatch.model.selectors import selector_from_object
from hpabatch.packing.specs import pack_metric

_Request = tuple[str, MetricKey]
"""A field of `Wanted` and a key in it: equal keys of two kinds are two requests."""


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


def _requests_of(namespace: str, spec: HPASpec) -> list[_Request]:
    """Return the requests that one defaulted spec needs, each once."""
    usable = [m for m in spec.metrics if pack_metric(m).kind != codes.METRIC_UNUSABLE]
    keys = [metric_key(namespace, metric) or namespace for metric in usable]
    return list(dict.fromkeys((api_field(key), key) for key in keys))


class WantedBook:
    """The requests that all HPAs of a cluster need, kept up to date as the HPAs change."""

    def __init__(self) -> None:
        """Begin without HPAs."""
        self._specs: dict[PodKey, tuple[HPASpec, list[_Request]]] = {}
        self._wanted: Wanted | None = None

    def put(self, key: PodKey, item: HpaObject | None) -> None:
        """Take an HPA as it is now, None: it is gone; cheap if its spec is the same object.

        An HPA with a `problem` needs no requests.
        """
        spec = None if item is None or item.problem else item.hpa.spec
        known = self._specs.get(key)
        if (known[0] if known else None) is spec:
            return
        self._wanted = None
        if spec is None:
            del self._specs[key]
        else:
            self._specs[key] = spec, _requests_of(key[0], spec)

    def wanted(self) -> Wanted:
        """Return the requests of all HPAs; the same object as before if nothing changed."""
        if self._wanted is None:
            groups: dict[str, set[MetricKey]] = {}
            for _, requests in self._specs.values():
                for field, key in requests:
                    groups.setdefault(field, set()).add(key)
            fields: dict[str, frozenset[Any]] = {f: frozenset(keys) for f, keys in groups.items()}
            self._wanted = Wanted(**fields)
        return self._wanted
