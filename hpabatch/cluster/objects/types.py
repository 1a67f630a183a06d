"""Cluster state as plain values: objects, changes, and responses of the metrics APIs.

Times are UTC ms. A change carries the time at which this process learned of it (`seen_ms`): the
controller's own cache learns of it a few ms before or after, and object times are cut to seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from hpabatch.model.objects.hpa import HPA
from hpabatch.model.quantity import Quantity
from hpabatch.model.requests import ContainerRequests


class Kind(StrEnum):
    """The kind of a changed object."""

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
    """Requests of a pod's spec; one object is shared among pods with equal specs.

    `pod_level` and `pod_limits` are spec.resources, `overhead` spec.overhead; None: unset.
    """

    containers: tuple[ContainerSpec, ...] = ()
    init_containers: tuple[ContainerSpec, ...] = ()
    pod_level: Mapping[str, Quantity] | None = None
    pod_limits: Mapping[str, Quantity] | None = None
    overhead: Mapping[str, Quantity] | None = None


@dataclass(frozen=True, slots=True)
class PodObject:
    """The fields of a pod that an HPA uses; `owner` is its controlling object as Kind/name."""

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
    """An HPA as read and defaulted; `problem`: why its spec is unusable, "" if it is usable.

    `hpa` carries name, namespace, uid, labels, annotations, generation, spec and status.
    """

    namespace: str
    name: str
    hpa: HPA
    problem: str = ""


class ScaleKey(NamedTuple):
    """Key of a target: API group ("" for the core group), kind, namespace and name."""

    group: str
    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class ScaleObject:
    """A target's scale: sizes, and its selector in string form ("" if it has none).

    `error`: why it cannot be read, in the API server's words; then the rest is not known.
    `code` is SCALE_OK, SCALE_GET_FAILED, SCALE_BAD_VERSION or SCALE_NO_RESOURCE. Of a scale that
    follows from a watched object, `uid` and `version` are the object's, and `apply` is its
    annotation hpabatch/apply; otherwise they are "" and None.
    """

    key: ScaleKey
    replicas: int = 0
    status_replicas: int = 0
    selector: str = ""
    error: str = ""
    code: int = 0
    uid: str = field(default="", compare=False)
    version: str = field(default="", compare=False)
    apply: str | None = field(default=None, compare=False)


Thing: TypeAlias = PodObject | HpaObject | ScaleObject
PodKey: TypeAlias = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True)
class Change:
    """The new state of an object, None for a deleted one.

    `key`: (namespace, name) of pods and HPAs, a `ScaleKey` of scales. `listed`: known from a list
    rather than from a watch, so the time of the change itself is unknown. A pod or HPA that was
    deleted and created again under the same name between two lists comes as a removal, then a
    change.
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
class Response:
    """A metrics API's response to one request; `error`: its message, "" for none."""

    fetched_ms: int
    samples: tuple[UsageSample, ...] | tuple[PodSample, ...] | tuple[SeriesSample, ...] = ()
    error: str = ""


class PodMetricKey(NamedTuple):
    """A Pods metric of a namespace's pods; `selector` in the history's string form.

    `api` tells keys of several kinds apart.
    """

    namespace: str
    metric: str
    selector: str
    api: str = "pods"


class ObjectMetricKey(NamedTuple):
    """An Object metric; `group` and `kind` of the described object, "" its core group."""

    namespace: str
    group: str
    kind: str
    name: str
    metric: str
    selector: str


class ExternalMetricKey(NamedTuple):
    """An External metric as requested in a namespace."""

    namespace: str
    metric: str
    selector: str
    api: str = "external"


MetricKey: TypeAlias = str | PodMetricKey | ObjectMetricKey | ExternalMetricKey
"""One request to a metrics API; a string is a namespace whose usage is requested."""

WHOLE_CLUSTER: Final = ""
"""The key of the usage of all namespaces."""

Responses: TypeAlias = Mapping[MetricKey, Response]
"""Fetched responses by request."""


def response_to(key: MetricKey, responses: Responses) -> Response | None:
    """Return the response to a request, None if there is none."""
    found = responses.get(key)
    return responses.get(WHOLE_CLUSTER) if found is None and isinstance(key, str) else found
