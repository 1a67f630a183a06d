"""Facts of a cluster: server version, API groups, resources, clock skew.

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

import msgspec

from hpabatch.cluster.connection.client import ApiClient
from hpabatch.cluster.connection.errors import ApiError, InvalidResponse, NotFound
from hpabatch.cluster.objects.objects import UNREADABLE

CUSTOM: Final = "custom.metrics.k8s.io"
EXTERNAL: Final = "external.metrics.k8s.io"
USAGE: Final = "metrics.k8s.io"
AUTOSCALING: Final = "autoscaling"
_CUSTOM_VERSIONS: Final = ("v1beta2", "v1beta1")
_HPA_VERSIONS: Final = ("v2", "v2beta2", "v2beta1", "v1")
_TIMEOUT_S: Final = 5.0
_ATTEMPTS: Final = 2

T = TypeVar("T")


class ServerVersion(NamedTuple):
    """The version that a server reports, e.g. v1.20.2, and the numbers in it (0: unknown)."""

    text: str
    major: int
    minor: int


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
    major: str | None = None
    minor: str | None = None


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

    def server_version(self) -> ServerVersion:
        """Return the server's version.

        Raises:
            ApiError: there is no response.
        """
        found = self._ask("/version", _Server)
        if found is None:
            raise NotFound("the server does not say its version", 404)
        return ServerVersion(
            found.gitVersion or "", _number(found.major or ""), _number(found.minor or "")
        )

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


def _number(text: str) -> int:
    """Return the number that a string begins with, e.g. of `20+`; 0: none."""
    digits = text.rstrip("+")
    return int(digits) if digits.isdecimal() else 0


_MOST_S: Final = 2.0
"""Accepted clock skew."""


class ClockSkew:
    """Measures the API server's clock, each time in a thread that ends with the response.

    Attributes:
        seconds: the API server's clock less the local clock, to about a second; None: unknown.
    """

    def __init__(self, client: ApiClient) -> None:
        """Prepare; nothing is sent yet."""
        self.seconds: float | None = None
        self._client = client
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
                self.seconds = date_s - (asked_s + came_s) / 2
