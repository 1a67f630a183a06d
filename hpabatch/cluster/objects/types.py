"""What a cluster shows, as plain values: objects, changes of them, and metrics APIs' answers.

Times are UTC ms. A change carries the instant at which this process got to know of it (`seen_ms`):
the controller's own cache learns of it a few ms before or after, and object times are cut to
seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from hpabatch.model.objects.hpa import HPA
from hpabatch.model.quantity import Quantity
from hpabatch.model.requests import ContainerRequests


class Kind(StrEnum):
    """What a change is of."""

    pod = "pod"
    hpa = "hpa"
    scale = "scale"


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """A container of a pod's spec: requests and limits as given, by resource."""

    requests: ContainerRequests
    limits: Mapping[str, Quantity] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """What a pod's spec says of requests; one object is shared among pods whose spec is equal.

    `pod_level` and `pod_limits` are spec.resources, `overhead` spec.overhead; None: unset.
    """

    containers: tuple[ContainerSpec, ...] = ()
    init_containers: tuple[ContainerSpec, ...] = ()
    pod_level: Mapping[str, Quantity] | None = None
    pod_limits: Mapping[str, Quantity] | None = None
    overhead: Mapping[str, Quantity] | None = None


@dataclass(frozen=True, slots=True)
class PodObject:
    """A pod as far as an HPA looks at it; `owner` is its controlling object as Kind/name."""

    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str]
    owner: str | None
    created_ms: int
    started_ms: int | None
    deletion_ms: int | None
    node: str | None
    phase: str
    ready: str | None
    transition_ms: int | None
    template: PodTemplate


@dataclass(frozen=True, slots=True)
class HpaObject:
    """An HPA as read and defaulted; `problem`: why its spec cannot be used, "" if it can.

    `hpa` carries name, namespace, uid, labels, annotations, generation, spec and status.
    """

    namespace: str
    name: str
    hpa: HPA
    problem: str = ""


class ScaleKey(NamedTuple):
    """Which target: its API group ("" is the core's), kind, namespace and name."""

    group: str
    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class ScaleObject:
    """A target's scale: sizes, and its selector in string form ("" if it has none).

    `error`: why it cannot be read, as the API server says it; then the rest is not known.
    `code` is SCALE_OK, SCALE_GET_FAILED, SCALE_BAD_VERSION or SCALE_NO_RESOURCE.
    """

    key: ScaleKey
    replicas: int = 0
    status_replicas: int = 0
    selector: str = ""
    error: str = ""
    code: int = 0


Thing: TypeAlias = PodObject | HpaObject | ScaleObject
PodKey: TypeAlias = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True)
class Change:
    """Something is now as `thing` says, or (None) no longer there.

    `key`: (namespace, name) of pods and HPAs, a `ScaleKey` of scales. `listed`: known from a list
    rather than from a watch: since when it has been so is not known. A pod or HPA that was deleted
    and made anew under the same name between two lists comes as a removal, then a change.
    """

    kind: Kind
    key: PodKey | ScaleKey
    thing: Thing | None
    seen_ms: int
    listed: bool = False


class ContainerUsage(NamedTuple):
    """A container's usage in milli-units (memory in milli-bytes); None: the sample lacks it."""

    name: str
    cpu_milli: int | None
    memory_milli: int | None


class UsageSample(NamedTuple):
    """A pod's item of metrics.k8s.io; `window_ms` None: absent."""

    namespace: str
    pod: str
    ts_ms: int
    window_ms: int | None
    containers: tuple[ContainerUsage, ...]


class PodSample(NamedTuple):
    """A pod's value of a custom metric."""

    pod: str
    ts_ms: int
    window_ms: int | None
    value_milli: int


class SeriesSample(NamedTuple):
    """A value of an Object metric (series "") or of one series of an External metric.

    `series` names it by its labels, `k=v,…` sorted; a second one of the same labels gets `#2`.
    """

    series: str
    ts_ms: int
    value_milli: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What a metrics API answered to one request, and when; `error`: its text, "" if fine."""

    fetched_ms: int
    samples: tuple[UsageSample, ...] | tuple[PodSample, ...] | tuple[SeriesSample, ...] = ()
    error: str = ""


class PodMetricKey(NamedTuple):
    """A Pods metric of a namespace's pods; `selector` in the history's string form."""

    namespace: str
    metric: str
    selector: str


class ObjectMetricKey(NamedTuple):
    """An Object metric; `group` and `kind` of the described object, "" its core group."""

    namespace: str
    group: str
    kind: str
    name: str
    metric: str
    selector: str


class ExternalMetricKey(NamedTuple):
    """An External metric as asked for in a namespace."""

    namespace: str
    metric: str
    selector: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """What has to be fetched for some HPAs: namespaces with Resource metrics, and the others."""

    usage: frozenset[str] = frozenset()
    pods: frozenset[PodMetricKey] = frozenset()
    objects: frozenset[ObjectMetricKey] = frozenset()
    external: frozenset[ExternalMetricKey] = frozenset()


@dataclass(frozen=True, slots=True)
class Answers:
    """What was fetched; `usage` by namespace, "" for one answer of the whole cluster."""

    usage: Mapping[str, Answer] = field(default_factory=dict)
    pods: Mapping[PodMetricKey, Answer] = field(default_factory=dict)
    objects: Mapping[ObjectMetricKey, Answer] = field(default_factory=dict)
    external: Mapping[ExternalMetricKey, Answer] = field(default_factory=dict)

    def usage_of(self, namespace: str) -> Answer | None:
        """Return the answer that holds a namespace's usage, None if none was asked for."""
        return self.usage.get(namespace) or self.usage.get("")
