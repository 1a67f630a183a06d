"""Facts of a cluster: server version, API groups, resources, paths of scales, clock skew.

Responses are cached, the absence of something only shortly: a group may be installed at any time.
While the server fails, the last response counts.

The clock skew follows from the Date of a response, which has whole seconds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec

from hpabatch.cluster.connection.client import ApiClient
from hpabatch.cluster.connection.errors import ApiError, InvalidResponse, NotFound
from hpabatch.cluster.objects.decoders import REPLICATION_CONTROLLER, read_scale
from hpabatch.cluster.objects.objects import UNREADABLE, BrokenObjectError
from hpabatch.cluster.objects.types import ScaleKey, ScaleObject
from hpabatch.layout import codes
from hpabatch.model.objects.hpa import CrossVersionObjectReference

_SCALE_BYTES: Final = 4 * 2**20
REFRESH_S: Final = 5.0
"""Default time limit of all requests for scales of a pass."""
# The server's name of the resource of a missing object (pkg/registry/apps and core).
_NOT_FOUND: Final = {
    ("apps", "Deployment"): "deployments/scale.apps",
    ("apps", "StatefulSet"): "statefulsets.apps",
    ("apps", "ReplicaSet"): "replicasets/scale.apps",
    REPLICATION_CONTROLLER: "replicationcontrollers/scale.autoscaling",
}
_SAFE: Final = ":@!$&'()*+,;=~"


def target_key(namespace: str, target: CrossVersionObjectReference) -> ScaleKey:
    """Return the key of a target's scale; the version in its apiVersion does not matter.

    An apiVersion that does not parse (two slashes or more) is kept whole as the group, see
    `bad_version`.
    """
    version = target.api_version
    slashes = version.count("/")
    group = version if slashes > 1 else version.partition("/")[0] if slashes else ""
    return ScaleKey(group, target.kind, namespace, target.name)


def bad_version(key: ScaleKey) -> ScaleObject | None:
    """Return the scale of a target whose apiVersion does not parse, None if it does."""
    if "/" not in key.group:
        return None
    text = f"unexpected GroupVersion string: {key.group}"
    return ScaleObject(key, error=text, code=codes.SCALE_BAD_VERSION)


def missing_scale(key: ScaleKey) -> ScaleObject:
    """Return the scale of a missing target of a built-in kind."""
    text = f'{_NOT_FOUND[(key.group, key.kind)]} "{key.name}" not found'
    return ScaleObject(key, error=text, code=codes.SCALE_GET_FAILED)


def scale_path(apis: Discovery, key: ScaleKey) -> str:
    """Return the path of a target's scale (ApiError: its kind is not served)."""
    at = apis.scale_resource(key.group, key.kind)
    root = f"/apis/{at.group}/{at.version}" if at.group else f"/api/{at.version}"
    namespace, name = quote(key.namespace, _SAFE), quote(key.name, _SAFE)
    return f"{root}/namespaces/{namespace}/{at.name}/{name}/scale"


def read_scale_from(
    client: ApiClient, apis: Discovery, key: ScaleKey, timeout: float
) -> ScaleObject:
    """Request a target's scale; a failure becomes its error."""
    try:
        path = scale_path(apis, key)
    except ApiError as error:
        return ScaleObject(key, error=error.text, code=codes.SCALE_NO_RESOURCE)
    try:
        body = client.get(path, limit_bytes=_SCALE_BYTES, timeout=timeout, attempts=_ATTEMPTS)
        return read_scale(key, body)
    except ApiError as error:
        return ScaleObject(key, error=error.text, code=codes.SCALE_GET_FAILED)
    except BrokenObjectError as error:
        return ScaleObject(key, error=client.hide(str(error)), code=codes.SCALE_GET_FAILED)


CUSTOM: Final = "custom.metrics.k8s.io"
EXTERNAL: Final = "external.metrics.k8s.io"
USAGE: Final = "metrics.k8s.io"
AUTOSCALING: Final = "autoscaling"
_CUSTOM_VERSIONS: Final = ("v1beta2", "v1beta1")
_HPA_VERSIONS: Final = ("v2", "v2beta2", "v2beta1", "v1")
_TIMEOUT_S: Final = 5.0
_ATTEMPTS: Final = 2

T = TypeVar("T")


class Resource(NamedTuple):
    """The resource of a kind: `/apis/GROUP/VERSION/…/RESOURCE`."""

    group: str
    version: str
    name: str


class _Version(msgspec.Struct, gc=False):
    version: str | None = None


class _Group(msgspec.Struct, gc=False):
    versions: list[_Version] | None = None
    preferredVersion: _Version | None = None  # noqa: N815


class _Core(msgspec.Struct, gc=False):
    versions: list[str] | None = None


class _Resource(msgspec.Struct, gc=False):
    name: str | None = None
    kind: str | None = None


class _Resources(msgspec.Struct, gc=False):
    resources: list[_Resource] | None = None


class _Server(msgspec.Struct, gc=False):
    gitVersion: str | None = None  # noqa: N815


@dataclass(frozen=True, slots=True)
class _Kept:
    """A cached response (None: absent), valid until a time of the clock."""

    value: Any
    until: float


class Discovery:
    """Discovery of one server, cached. Several threads may use it."""

    def __init__(
        self,
        client: ApiClient,
        *,
        fresh_s: float = 600.0,
        absent_s: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            fresh_s: how long a response is valid.
            absent_s: how long the absence of something is valid.
            clock: monotonic seconds.
        """
        self._client = client
        self._fresh_s = fresh_s
        self._absent_s = absent_s
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}

    def server_version(self) -> str:
        """Return the version that the server reports, e.g. v1.20.2.

        Raises:
            ApiError: there is no response.
        """
        found = self._ask("/version", _Server)
        if found is None:
            raise NotFound("the server does not say its version", 404)
        return found.gitVersion or ""

    def versions(self, group: str) -> tuple[str, ...]:
        """Return the versions of a group that are served, the preferred one first; () if none are.

        Raises:
            ApiError: there is no response.
        """
        if not group:
            core = self._ask("/api", _Core)
            return tuple(core.versions or ()) if core is not None else ()
        found = self._ask(f"/apis/{group}", _Group)
        if found is None:
            return ()
        names = [found.preferredVersion, *(found.versions or ())]
        return tuple(dict.fromkeys(one.version for one in names if one and one.version))

    def hpa_version(self) -> str:
        """Return the version of autoscaling in which HPAs are best read: v2 where it is served.

        Raises:
            ApiError: there is no response, or no version that is known.
        """
        served = self.versions(AUTOSCALING)
        for version in _HPA_VERSIONS:
            if version in served:
                return version
        raise NotFound(_no_match("HorizontalPodAutoscaler", AUTOSCALING), 404)

    def custom_metrics_version(self) -> str:
        """Return the version of custom.metrics.k8s.io to use: the preferred one if it is known.

        Raises:
            ApiError: there is no response, or no usable version, in the words of
                k8s.io/metrics, custom_metrics/discovery.go.
        """
        served = self.versions(CUSTOM)
        if not served:
            raise NotFound(f"no custom metrics API ({CUSTOM}) registered", 404)
        for version in served:
            if version in _CUSTOM_VERSIONS:
                return version
        raise NotFound("no known available metric versions found", 404)

    def scale_resource(self, group: str, kind: str) -> Resource:
        """Return a kind's resource, in the version that its group prefers; it may have no scale.

        Args:
            group: "" is the core's.
            kind: e.g. Deployment.

        Raises:
            ApiError: there is no response; NotFound if there is no such kind, in the words of
                apimachinery's RESTMapper.
        """
        for version in self.versions(group):
            root = f"/apis/{group}/{version}" if group else f"/api/{version}"
            served = self._ask(root, _Resources)
            for one in (served.resources or []) if served is not None else []:
                if one.kind == kind and one.name and "/" not in one.name:
                    return Resource(group, version, one.name)
        raise NotFound(_no_match(kind, group), 404)

    def metric_resource(self, group: str, kind: str) -> str:
        """Return a kind's resource as the custom metrics API names it, e.g. `deployments.apps`.

        Raises:
            ApiError: see `scale_resource`; in the words of k8s.io/metrics, versioned_client.go.
        """
        try:
            found = self.scale_resource(group, kind)
        except ApiError as error:
            named = f"{kind}.{group}" if group else kind
            text = f"unable to map kind {named} to resource: {error.text}"
            raise type(error)(text, error.status, error.reason) from None
        return f"{found.name}.{found.group}" if found.group else found.name

    def _ask(self, path: str, kind: type[T]) -> T | None:
        """Return the response to a path, None: 404."""
        with self._lock:
            kept = self._kept.get(path)
        if kept is not None and self._clock() < kept.until:
            value: T | None = kept.value
            return value
        try:
            found = self._read(path, kind)
        except NotFound:
            found = None
        except ApiError:
            if kept is not None and kept.value is not None:
                old: T = kept.value
                return old
            raise
        lasts_s = self._absent_s if found is None else self._fresh_s
        with self._lock:
            self._kept[path] = _Kept(found, self._clock() + lasts_s)
        return found

    def _read(self, path: str, kind: type[T]) -> T:
        body = self._client.get(path, timeout=_TIMEOUT_S, attempts=_ATTEMPTS)
        try:
            return msgspec.json.decode(body, type=kind)
        except UNREADABLE as error:
            raise InvalidResponse(f"{path}: {error}", 200) from None


def _no_match(kind: str, group: str) -> str:
    return f'no matches for kind "{kind}" in group "{group}"'


_MOST_S: Final = 2.0
"""Accepted clock skew."""


class ClockSkew:
    """Measures the API server's clock, each time in a thread that ends with the response.

    Attributes:
        seconds: the API server's clock less that of decisions, to about a second; None: unknown.
    """

    def __init__(self, client: ApiClient, behind_ms: Callable[[], int] = lambda: 0) -> None:
        """Prepare; nothing is sent yet.

        Args:
            behind_ms: by how much the local clock is behind the times of decisions.
        """
        self.seconds: float | None = None
        self._client = client
        self._behind_ms = behind_ms
        self._thread: threading.Thread | None = None

    @property
    def problem(self) -> str:
        """The problem of the clocks, "" if the skew is accepted."""
        if self.seconds is None or abs(self.seconds) <= _MOST_S:
            return ""
        side = "ahead of" if self.seconds > 0 else "behind"
        return (
            f"the API server's clock is more than {_MOST_S:g} s {side} ours: ages of pods and "
            "samples are wrong by that"
        )

    def look(self) -> None:
        """Start a measurement; its result is known once the response is there."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._measure, name="clock", daemon=True)
            self._thread.start()

    def _measure(self) -> None:
        with suppress(Exception):  # the watches report failures of the server
            asked_s, date, came_s = self._client.date(_TIMEOUT_S)
            # A Date is cut off to whole seconds.
            date_s = parsedate_to_datetime(date).timestamp() + 0.5
            if came_s >= asked_s:  # otherwise our own clock was set back
                self.seconds = date_s - (asked_s + came_s) / 2 - self._behind_ms() / 1000
