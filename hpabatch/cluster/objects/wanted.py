"""What has to be fetched from the metrics APIs for HPAs.

A metric that the controller refuses before it asks (a target that is not usable, a selector that
does not convert, an unknown type) wants nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from hpabatch.cluster.objects.types import (
    ExternalMetricKey,
    HpaObject,
    ObjectMetricKey,
    PodKey,
    PodMetricKey,
    Wanted,
)
from hpabatch.layout import codes
from hpabatch.model.objects.hpa import HPASpec, LabelSelector, MetricIdentifier, MetricSpec
from hpabatch.model.selectors import selector_from_object
from hpabatch.packing.specs import pack_metric

NOTHING = Wanted()


def wanted(hpas: Iterable[HpaObject]) -> Wanted:
    """Return what some HPAs want; one with a `problem` wants nothing."""
    book = WantedBook()
    for item in hpas:
        book.put((item.namespace, item.name), item)
    return book.wanted()


def wanted_by(namespace: str, spec: HPASpec) -> Wanted:
    """Return what one defaulted spec wants."""
    found = _Found()
    for metric in spec.metrics:
        if pack_metric(metric).kind != codes.METRIC_UNUSABLE:
            found.add(namespace, metric)
    return Wanted(
        frozenset(found.usage),
        frozenset(found.pods),
        frozenset(found.objects),
        frozenset(found.external),
    )


def metric_key(
    namespace: str, metric: MetricSpec
) -> PodMetricKey | ObjectMetricKey | ExternalMetricKey | None:
    """Return under which key a metric's answer stands; None: it is of usage, or of no API.

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
    """Return the group of an apiVersion, "" for the core's and where it has no slash."""
    return api_version.partition("/")[0] if "/" in api_version else ""


def selector_form(selector: LabelSelector | None) -> str:
    """Return a metric selector in the string form of queries and of the history, "" if unset.

    Raises:
        ValueError: it does not convert.
    """
    return "" if selector is None else str(selector_from_object(selector))


def _name_and_selector(metric: MetricIdentifier) -> tuple[str, str]:
    return metric.name, selector_form(metric.selector)


@dataclass(slots=True)
class _Found:
    usage: set[str] = field(default_factory=set)
    pods: set[PodMetricKey] = field(default_factory=set)
    objects: set[ObjectMetricKey] = field(default_factory=set)
    external: set[ExternalMetricKey] = field(default_factory=set)

    def add(self, namespace: str, metric: MetricSpec) -> None:
        key = metric_key(namespace, metric)
        if key is None:
            self.usage.add(namespace)
        elif isinstance(key, PodMetricKey):
            self.pods.add(key)
        elif isinstance(key, ObjectMetricKey):
            self.objects.add(key)
        else:
            self.external.add(key)


KeyT = TypeVar("KeyT", bound=Hashable)


class _Counted(Generic[KeyT]):
    """A set whose members are there as often as they were added."""

    def __init__(self) -> None:
        self._counts: Counter[KeyT] = Counter()

    def add(self, members: Iterable[KeyT], times: int) -> None:
        for member in members:
            self._counts[member] += times
            if not self._counts[member]:
                del self._counts[member]

    def members(self) -> frozenset[KeyT]:
        return frozenset(self._counts)


class WantedBook:
    """What all HPAs of a cluster want, kept up as they change."""

    def __init__(self) -> None:
        """Begin without HPAs."""
        self._specs: dict[PodKey, tuple[HPASpec, Wanted]] = {}
        self._usage: _Counted[str] = _Counted()
        self._pods: _Counted[PodMetricKey] = _Counted()
        self._objects: _Counted[ObjectMetricKey] = _Counted()
        self._external: _Counted[ExternalMetricKey] = _Counted()
        self._wanted: Wanted | None = NOTHING

    def put(self, key: PodKey, item: HpaObject | None) -> None:
        """Take an HPA as it is now, None: it is gone; cheap if its spec is the same object."""
        spec = None if item is None or item.problem else item.hpa.spec
        known = self._specs.get(key)
        if known is not None:
            if known[0] is spec:
                return
            del self._specs[key]
            self._count(known[1], -1)
        if spec is not None:
            wants = wanted_by(key[0], spec)
            self._specs[key] = spec, wants
            self._count(wants, 1)

    def wanted(self) -> Wanted:
        """Return what they want together; the same object as before if nothing changed."""
        if self._wanted is None:
            self._wanted = Wanted(
                self._usage.members(),
                self._pods.members(),
                self._objects.members(),
                self._external.members(),
            )
        return self._wanted

    def _count(self, wants: Wanted, times: int) -> None:
        self._usage.add(wants.usage, times)
        self._pods.add(wants.pods, times)
        self._objects.add(wants.objects, times)
        self._external.add(wants.external, times)
        self._wanted = None
