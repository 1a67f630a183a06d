"""Metrics API client: one fetch of all metrics that a cluster's HPAs need, and its decoding.

Usage is requested once (metrics.k8s.io has it for the whole cluster), a Pods metric once per
namespace, the other metrics one by one; several requests run at once, up to a deadline. A failure
is the error of the responses that it affects. A response with an item that cannot be read fails as
a whole, as upstream's does.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Set
from functools import partial
from typing import Final, TypeAlias, TypeVar
from urllib.parse import quote

import msgspec

from hpabatch.cluster.apis.discovery import Discovery
from hpabatch.cluster.connection.client import ApiClient, RequestPool
from hpabatch.cluster.connection.errors import ApiError
from hpabatch.cluster.objects.objects import UNREADABLE, Text, duration_ms, optional_ms
from hpabatch.cluster.objects.types import (
    WHOLE_CLUSTER,
    ContainerUsage,
    ExternalMetricKey,
    MetricKey,
    ObjectMetricKey,
    PodSample,
    Response,
    Responses,
    SeriesSample,
    UsageSample,
    clock_ms,
)
from hpabatch.model.quantity import Quantity

_Amount: TypeAlias = str | int | float | None

ListT = TypeVar("ListT")


class _Named(msgspec.Struct, gc=False):
    namespace: Text = None
    name: Text = None


class _Amounts(msgspec.Struct, gc=False):
    cpu: _Amount = None
    memory: _Amount = None


class _Container(msgspec.Struct, gc=False):
    name: Text = None
    usage: _Amounts | None = None


class _PodMetrics(msgspec.Struct, gc=False):
    metadata: _Named | None = None
    timestamp: Text = None
    window: Text = None
    containers: list[_Container] | None = None


class _Value(msgspec.Struct, gc=False):
    """A MetricValue; v1beta1's `window` is windowSeconds in v1beta2."""

    describedObject: _Named | None = None  # noqa: N815
    timestamp: Text = None
    window: int | None = None
    windowSeconds: int | None = None  # noqa: N815
    value: _Amount = None


class _ExternalValue(msgspec.Struct, gc=False):
    metricLabels: dict[str, Text] | None = None  # noqa: N815
    timestamp: Text = None
    value: _Amount = None


class _UsageList(msgspec.Struct, gc=False):
    items: list[_PodMetrics] | None = None


class _ValueList(msgspec.Struct, gc=False):
    items: list[_Value] | None = None


class _ExternalList(msgspec.Struct, gc=False):
    items: list[_ExternalValue] | None = None


_USAGE_LIST = msgspec.json.Decoder(_UsageList)
_VALUE_LIST = msgspec.json.Decoder(_ValueList)
_EXTERNAL_LIST = msgspec.json.Decoder(_ExternalList)


def read_usage(body: bytes, namespace: str = "") -> tuple[UsageSample, ...]:
    """Return the samples of a PodMetricsList.

    Args:
        namespace: of items that name none.

    Raises:
        ValueError: the response is no such list.
    """
    return tuple([_usage(item, namespace) for item in _decoded(_USAGE_LIST, body).items or ()])


def _usage(item: _PodMetrics, namespace: str) -> UsageSample:
    named = item.metadata
    if named is None or not named.name:
        raise ValueError("metadata.name is missing")
    window = item.window
    return UsageSample(
        named.namespace or namespace,
        named.name,
        optional_ms(item.timestamp) or 0,
        None if window is None else duration_ms(window),
        tuple([_container(container) for container in item.containers or ()]),
    )


def _container(item: _Container) -> ContainerUsage:
    usage = item.usage
    if usage is None:
        return ContainerUsage(item.name or "", None, None)
    cpu, memory = usage.cpu, usage.memory
    return ContainerUsage(
        item.name or "",
        None if cpu is None else milli_of(cpu),
        None if memory is None else milli_of(memory),
    )


def read_pod_values(body: bytes) -> tuple[PodSample, ...]:
    """Return the samples of pods in a MetricValueList, the last of each pod's.

    Raises:
        ValueError: the response is no such list.
    """
    samples = [_pod_value(item) for item in _decoded(_VALUE_LIST, body).items or ()]
    return tuple({sample.pod: sample for sample in samples}.values())


def _pod_value(item: _Value) -> PodSample:
    of = item.describedObject
    if of is None or not of.name:
        raise ValueError("describedObject.name is missing")
    window_s = item.window if item.windowSeconds is None else item.windowSeconds
    return PodSample(
        of.name,
        optional_ms(item.timestamp) or 0,
        None if window_s is None else _window_ms(window_s),
        _milli(item.value),
    )


def _window_ms(seconds: int) -> int:
    """Return windowSeconds in ms, as metrics/client.go has it: in ns of 64 bits, which wrap."""
    if not -(2**63) <= seconds < 2**63:
        raise ValueError(f"expected a window as a 64-bit number of seconds, got {seconds}")
    wrapped_ns = (seconds * 10**9 + 2**63) % 2**64 - 2**63
    return wrapped_ns // 10**6


def read_object_value(body: bytes) -> tuple[SeriesSample, ...]:
    """Return the one sample of a MetricValueList.

    Raises:
        ValueError: it has another number of items (in upstream's words), or is no such list.
    """
    items = _decoded(_VALUE_LIST, body).items or []
    if len(items) != 1:
        raise ValueError(
            f"the custom metrics API server returned {len(items)} results when we asked for "
            "exactly one"
        )
    item = items[0]
    ts_ms = optional_ms(item.timestamp) or 0
    return (SeriesSample("", ts_ms, _milli(item.value)),)


def read_external_values(body: bytes) -> tuple[SeriesSample, ...]:
    """Return the samples of an ExternalMetricValueList, named by their labels.

    Raises:
        ValueError: it is no such list.
    """
    samples = []
    seen: dict[str, int] = {}
    for item in _decoded(_EXTERNAL_LIST, body).items or ():
        labels = item.metricLabels or {}
        series = ",".join(f"{key}={value or ''}" for key, value in sorted(labels.items()))
        nth = seen[series] = seen.get(series, 0) + 1
        ts_ms = optional_ms(item.timestamp) or 0
        name = series if nth == 1 else f"{series}#{nth}"
        samples.append(SeriesSample(name, ts_ms, _milli(item.value)))
    return tuple(samples)


def _milli(value: _Amount) -> int:
    return 0 if value is None else milli_of(value)


def _decoded(decoder: msgspec.json.Decoder[ListT], body: bytes) -> ListT:
    try:
        return decoder.decode(body)
    except UNREADABLE as error:
        raise ValueError(f"the response cannot be decoded: {error}") from None


_UNITS_PER_MILLI = {"n": 1_000_000, "u": 1000, "m": 1}
_BINARY_MILLI = {"Ki": (1024_000, 11), "Mi": (1024_000 << 10, 8), "Gi": (1024_000 << 20, 5)}
_MAX_DIGITS = 18
_MAX_WHOLE_DIGITS = 15


def milli_of(value: str | int | float) -> int:
    """Return what `Quantity.parse(value).milli()` returns, for all that it takes.

    The forms that metrics servers write (`123456789n`, `52m`, `123456Ki`, `104857600`) are read
    at once, as far as upstream keeps them exactly in 64 bits: more is rounded up to whole milli.

    Raises:
        ValueError: not a quantity.
    """
    if type(value) is str and value.isascii():
        digits, unit = value[:-1], value[-1:]
        if digits.isdigit():
            divisor = _UNITS_PER_MILLI.get(unit)
            if divisor is not None and len(digits) <= _MAX_DIGITS:
                return -(-int(digits) // divisor)
            if unit.isdigit() and len(digits) < _MAX_WHOLE_DIGITS:
                return int(value) * 1000
        elif unit == "i":
            factor, most = _BINARY_MILLI.get(value[-2:], (0, 0))
            digits = value[:-2]
            if len(digits) <= most and digits.isdigit():
                return int(digits) * factor
    return Quantity.parse(value).milli()


USAGE_PATH: Final = "/apis/metrics.k8s.io/v1beta1"
CUSTOM_PATH: Final = "/apis/custom.metrics.k8s.io"
EXTERNAL_PATH: Final = "/apis/external.metrics.k8s.io/v1beta1"

_LIST_BYTES: Final = 256 * 2**20  # of samples of many pods
_VALUE_BYTES: Final = 16 * 2**20
_ATTEMPTS: Final = 2
_FEW_NAMESPACES: Final = 2
_SAFE: Final = ":@!$&'()*+,;=~"  # what may stand in a path's segment unquoted


Read: TypeAlias = Callable[[bytes], tuple[object, ...]]


class Fetcher:
    """Client of the metrics APIs. One thread may call `fetch`."""

    def __init__(
        self,
        client: ApiClient,
        apis: Discovery,
        *,
        workers: int = 8,
        deadline_s: float = 10.0,
        cluster_wide: bool = True,
        clock: Callable[[], int] = clock_ms,
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            client: sends requests; several threads use it.
            apis: the custom metrics API's version, and the resources of kinds.
            cluster_wide: False: only some namespaces are watched, so usage is requested in each.
            clock: UTC ms, for the timestamp of a response.
        """
        self._client, self._apis = client, apis
        self._deadline_s, self._cluster_wide = deadline_s, cluster_wide
        self._clock = clock
        self._pool: RequestPool[Response] = RequestPool(workers)

    def fetch(self, wanted: Set[MetricKey]) -> Responses:
        """Return a response to every request, by the deadline; never raises.

        A late request has the error `context deadline exceeded`. Usage comes first, the others in
        any order, so that none is always the last one.
        """
        deadline = self._pool.now() + self._deadline_s
        namespaces = sorted(key for key in wanted if isinstance(key, str))
        others = [key for key in wanted if not isinstance(key, str)]
        is_whole = self._cluster_wide and len(namespaces) > _FEW_NAMESPACES
        keys: list[MetricKey] = [WHOLE_CLUSTER] if is_whole else [*namespaces]
        keys += random.sample(others, len(others))
        found: dict[MetricKey, Response] = {}
        replies = self._pool.run([partial(self._ask, key) for key in keys], deadline)
        for key, reply in zip(keys, replies, strict=True):
            if isinstance(reply, BaseException):  # it was late, or a bug, which ends no loop
                reply = Response(self._clock(), error=str(reply) or type(reply).__name__)
            found[key] = reply
        return found

    def end(self) -> None:
        """End a running fetch soon, with errors; for any thread."""
        self._pool.end()

    def _request(self, key: MetricKey) -> tuple[str, dict[str, str], Read, int]:
        """Return path, parameters, reader and largest size of a request (ApiError: no API)."""
        if isinstance(key, str):
            place = f"/namespaces/{quote(key, _SAFE)}" if key else ""
            return f"{USAGE_PATH}{place}/pods", {}, partial(read_usage, namespace=key), _LIST_BYTES
        namespace, metric = quote(key.namespace, _SAFE), quote(key.metric, _SAFE)
        if isinstance(key, ExternalMetricKey):
            params = {"labelSelector": key.selector} if key.selector else {}
            path = f"{EXTERNAL_PATH}/namespaces/{namespace}/{metric}"
            return path, params, read_external_values, _VALUE_BYTES
        params = {"metricLabelSelector": key.selector} if key.selector else {}
        about = "pods/*"
        if isinstance(key, ObjectMetricKey):
            about = "metrics"  # of a Namespace: the HPA's own, whatever its name
            if (key.group, key.kind) != ("", "Namespace"):
                resource = self._apis.metric_resource(key.group, key.kind)
                about = f"{quote(resource, _SAFE)}/{quote(key.name, _SAFE)}"
        root = f"{CUSTOM_PATH}/{self._apis.custom_metrics_version()}"
        path = f"{root}/namespaces/{namespace}/{about}/{metric}"
        if isinstance(key, ObjectMetricKey):
            return path, params, read_object_value, _VALUE_BYTES
        return path, params, read_pod_values, _LIST_BYTES

    def _ask(self, key: MetricKey, timeout: float) -> Response:
        """Send one request and read its response; any failure becomes the response's error."""
        try:
            path, params, read, limit_bytes = self._request(key)
            body = self._client.get(
                path, params, limit_bytes=limit_bytes, timeout=timeout, attempts=_ATTEMPTS,
                verb="list",
            )  # fmt: skip
            fetched_ms = self._clock()
            return Response(fetched_ms, read(body))  # type: ignore[arg-type]
        except ApiError as error:
            return Response(self._clock(), error=error.text)
        except ValueError as error:
            return Response(self._clock(), error=self._client.hide(str(error)))
