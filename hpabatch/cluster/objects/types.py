"""Cluster state as plain values: objects, changes, and requests and responses of the metrics APIs.

Times are UTC ms. A change carries the time at which this process learned of it (`seen_ms`): the
controller's own cache learns of it a few ms before or after, and object times are cut to seconds.
Changes queue for the next decision in the order in which they became known (`Inbox`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from hpabatch.layout import codes
from hpabatch.model.objects.hpa import HPA, HPASpec, LabelSelector, MetricIdentifier, MetricSpec
from hpabatch.model.quantity import Quantity
from hpabatch.model.requests import ContainerRequests
from hpabatch.model.selectors import selector_from_object
from hpabatch.packing.specs import pack_metric


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
    follows from a watched object, `uid` and `version` are the object's; otherwise they are "".
    """

    key: ScaleKey
    replicas: int = 0
    status_replicas: int = 0
    selector: str = ""
    error: str = ""
    code: int = 0
    uid: str = field(default="", compare=False)
    version: str = field(default="", compare=False)


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


def clock_ms() -> int:
    """Return the time, UTC ms."""
    return time.time_ns() // 1_000_000


def show_ms(ms: int) -> str:
    """Return a timestamp as RFC 3339 with milliseconds, in UTC."""
    shown = datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
    return shown.replace("+00:00", "Z")


def elapsed_ms() -> int:
    """Return monotonic time, ms."""
    return time.monotonic_ns() // 1_000_000


class Inbox:
    """Changes since the last cut. Several threads may put, one cuts.

    A decision knows the changes that were put before its cut, and no later ones. So changes and
    cuts alone tell what each decision knew.
    """

    def __init__(
        self, clock: Callable[[], int] = clock_ms, elapsed: Callable[[], int] = elapsed_ms
    ) -> None:
        """Begin empty.

        Args:
            clock: UTC ms. It may step back; times given here then continue at the pace of
                `elapsed`, as windows and policies need, until the clock has caught up.
            elapsed: monotonic ms.
        """
        self._clock = clock
        self._elapsed = elapsed
        self._last_elapsed = elapsed()
        self._lock = threading.Lock()
        self._changes: list[Change] = []
        self._last_ms = self._cut_ms = -(2**63)

    def __len__(self) -> int:
        return len(self._changes)

    def put(
        self, kind: Kind, key: PodKey | ScaleKey, thing: Thing | None, listed: bool = False
    ) -> int:
        """Add a change, and return the time from which it counts as known (UTC ms)."""
        with self._lock:
            self._last_ms = seen_ms = max(self._now(), self._cut_ms + 1)
            self._changes.append(Change(kind, key, thing, seen_ms, listed))
        return seen_ms

    def cut(self) -> tuple[list[Change], int]:
        """Take all changes, in order, and the time of the cut (UTC ms).

        It is later than the times of all taken changes and of the last cut, and earlier than that
        of any later change: so the times alone tell what was known.
        """
        with self._lock:
            changes, self._changes = self._changes, []
            before = self._last_ms
            self._last_ms = self._cut_ms = now_ms = max(self._now(), before + 1)
        return changes, now_ms

    def behind_ms(self) -> int:
        """Return by how much the clock is behind the times given here, after it was set back."""
        with self._lock:
            return max(self._now() - self._clock(), 0)

    def _now(self) -> int:
        """Return the time, not before any given earlier."""
        wall, elapsed = self._clock(), self._elapsed()
        passed = max(elapsed - self._last_elapsed, 0)
        if wall < self._last_ms:
            self._last_ms += passed
        else:
            self._last_ms = wall
        self._last_elapsed = elapsed
        return self._last_ms


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
