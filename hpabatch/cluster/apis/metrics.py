"""Metrics API client: one fetch of all metrics that a cluster's HPAs need.

Usage is requested once (metrics.k8s.io has it for the whole cluster), a Pods metric once per
namespace, the other metrics one by one; several requests run at once, up to a deadline. A failure
is the error of the responses that it affects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import quote

from hpabatch.cluster.apis.discovery import Discovery
from hpabatch.cluster.apis.metrics_wire import (
    read_external_values,
    read_object_value,
    read_pod_values,
    read_usage,
)
from hpabatch.cluster.connection.client import ApiClient
from hpabatch.cluster.connection.errors import ApiError, Refused
from hpabatch.cluster.connection.pool import RequestPool, Turns
from hpabatch.cluster.objects.inbox import clock_ms
from hpabatch.cluster.objects.types import (
    WHOLE_CLUSTER,
    ExternalMetricKey,
    MetricKey,
    ObjectMetricKey,
    PodMetricKey,
    Response,
    Responses,
)

USAGE_PATH: Final = "/apis/metrics.k8s.io/v1beta1"
CUSTOM_PATH: Final = "/apis/custom.metrics.k8s.io"
EXTERNAL_PATH: Final = "/apis/external.metrics.k8s.io/v1beta1"

_LIST_BYTES: Final = 256 * 2**20  # of samples of many pods
_VALUE_BYTES: Final = 16 * 2**20
_ATTEMPTS: Final = 2
_FORBIDDEN_S: Final = 600.0  # so long no cluster-wide usage is requested once it was forbidden
_SLOW_SHARE: Final = 0.9
_FEW_NAMESPACES: Final = 2
_SAFE: Final = ":@!$&'()*+,;=~"  # what may stand in a path's segment unquoted


class _Reply(NamedTuple):
    """A response with notes on broken items; `slow`: it failed after all of its time."""

    response: Response
    notes: tuple[str, ...] = ()
    forbidden: bool = False
    slow: bool = False


Read: TypeAlias = Callable[[bytes, list[str]], tuple[object, ...]]


class Fetcher:
    """Client of the metrics APIs. One thread may call `fetch`.

    Attributes:
        notes: broken items that the last fetch left out, with reasons.
    """

    def __init__(
        self,
        client: ApiClient,
        apis: Discovery,
        *,
        workers: int = 8,
        deadline_s: float = 10.0,
        cluster_wide: bool = True,
        clock: Callable[[], int] = clock_ms,
        pool: RequestPool[_Reply] | None = None,
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            client: sends requests; several threads use it.
            apis: the custom metrics API's version, and the resources of kinds.
            workers: number of concurrent requests.
            deadline_s: time limit of a fetch.
            cluster_wide: False: only some namespaces are watched, so usage is requested in each.
            clock: UTC ms, for the timestamp of a response.
            pool: the threads, None: `workers` new ones.
        """
        self.notes: tuple[str, ...] = ()
        self._client = client
        self._apis = apis
        self._deadline_s = deadline_s
        self._cluster_wide = cluster_wide
        self._clock = clock
        self._pool: RequestPool[_Reply] = pool or RequestPool(workers)
        self._forbidden_until: float | None = None
        self._turns: Turns[MetricKey] = Turns()

    def fetch(self, wanted: Set[MetricKey]) -> Responses:
        """Return a response to every request, by the deadline; never raises.

        A late request has the error `context deadline exceeded`.
        """
        deadline = self._pool.now() + self._deadline_s
        found: dict[MetricKey, Response] = {}
        self._notes: list[str] = []
        namespaces = sorted(key for key in wanted if isinstance(key, str))
        whole = self._asks_whole(len(namespaces))
        first = [WHOLE_CLUSTER] if whole else []
        keys: list[MetricKey] = [] if whole else [*namespaces]
        keys += [key for key in wanted if not isinstance(key, str)]
        self._turns.keep(set(keys))
        forbidden = self._run([*first, *self._turns.order(keys)], deadline, found)
        if forbidden and whole:
            self._forbidden_until = self._pool.now() + _FORBIDDEN_S
            del found[WHOLE_CLUSTER]
            self._run(namespaces, deadline, found)
        self.notes = tuple(self._notes)
        return found

    def end(self) -> None:
        """End a running fetch soon, with errors; for any thread."""
        self._pool.end()

    def close(self) -> None:
        """Release the threads."""
        self._pool.close()

    def _asks_whole(self, namespaces: int) -> bool:
        """Whether usage is requested once for the whole cluster."""
        if not self._cluster_wide or namespaces <= _FEW_NAMESPACES:
            return False
        if self._forbidden_until is None:
            return True
        if self._pool.now() < self._forbidden_until:
            return False
        self._forbidden_until = None
        return True

    def _call(self, key: MetricKey) -> Callable[[float], _Reply]:
        if isinstance(key, PodMetricKey):
            return partial(self._pod_values, key)
        if isinstance(key, ObjectMetricKey):
            return partial(self._object_value, key)
        if isinstance(key, ExternalMetricKey):
            return partial(self._external, key)
        return partial(self._usage, key)

    def _run(
        self, keys: Sequence[MetricKey], deadline: float, found: dict[MetricKey, Response]
    ) -> bool:
        """Send requests and store their responses; True: the cluster's usage was forbidden."""
        forbidden = False
        replies = self._pool.run([self._call(key) for key in keys], deadline)
        for key, reply in zip(keys, replies, strict=True):
            self._turns.note(key, reply, isinstance(reply, _Reply) and reply.slow)
            if isinstance(reply, BaseException):
                # A TimeoutError of the pool, or a bug, which must not end the loop.
                text = str(reply) or type(reply).__name__
                found[key] = Response(self._clock(), error=text)
                continue
            found[key] = reply.response
            self._notes += reply.notes
            if key == WHOLE_CLUSTER and reply.forbidden:
                forbidden = True
        return forbidden

    def _usage(self, namespace: str, left_s: float) -> _Reply:
        place = f"/namespaces/{quote(namespace, _SAFE)}" if namespace else ""
        read = partial(read_usage, namespace=namespace)
        return self._ask(f"{USAGE_PATH}{place}/pods", {}, read, left_s, _LIST_BYTES)

    def _pod_values(self, key: PodMetricKey, left_s: float) -> _Reply:
        place = f"namespaces/{quote(key.namespace, _SAFE)}/pods/*/{quote(key.metric, _SAFE)}"
        selector = {"metricLabelSelector": key.selector} if key.selector else {}
        return self._ask_custom(place, selector, read_pod_values, left_s, _LIST_BYTES)

    def _object_value(self, key: ObjectMetricKey, left_s: float) -> _Reply:
        """Request an object's metric; for a Namespace the HPA's own is used, whatever its name."""
        place = f"namespaces/{quote(key.namespace, _SAFE)}"
        if (key.group, key.kind) == ("", "Namespace"):
            place += "/metrics"
        else:
            try:
                resource = self._apis.metric_resource(key.group, key.kind)
            except ApiError as error:
                return _Reply(Response(self._clock(), error=error.text))
            place += f"/{quote(resource, _SAFE)}/{quote(key.name, _SAFE)}"
        selector = {"metricLabelSelector": key.selector} if key.selector else {}
        place += f"/{quote(key.metric, _SAFE)}"
        return self._ask_custom(
            place, selector, lambda body, _: read_object_value(body), left_s, _VALUE_BYTES
        )

    def _external(self, key: ExternalMetricKey, left_s: float) -> _Reply:
        place = f"namespaces/{quote(key.namespace, _SAFE)}/{quote(key.metric, _SAFE)}"
        selector = {"labelSelector": key.selector} if key.selector else {}
        return self._ask(
            f"{EXTERNAL_PATH}/{place}",
            selector,
            lambda body, _: read_external_values(body),
            left_s,
            _VALUE_BYTES,
        )

    def _ask_custom(
        self, place: str, params: Mapping[str, str], read: Read, left_s: float, limit_bytes: int
    ) -> _Reply:
        try:
            version = self._apis.custom_metrics_version()
        except ApiError as error:
            return _Reply(Response(self._clock(), error=error.text))
        path = f"{CUSTOM_PATH}/{version}/{place}"
        return self._ask(path, params, read, left_s, limit_bytes)

    def _ask(
        self, path: str, params: Mapping[str, str], read: Read, timeout: float, limit_bytes: int
    ) -> _Reply:
        """Send one request and read its response; any failure becomes the response's error."""
        notes: list[str] = []
        begun = self._pool.now()
        try:
            body = self._client.get(
                path, params, limit_bytes=limit_bytes, timeout=timeout, attempts=_ATTEMPTS,
                verb="list",
            )  # fmt: skip
            fetched_ms = self._clock()
            samples = read(body, notes)
        except ApiError as error:
            forbidden = isinstance(error, Refused) and error.status == 403
            slow = self._pool.now() - begun >= _SLOW_SHARE * timeout
            return _Reply(Response(self._clock(), error=error.text), (), forbidden, slow)
        except ValueError as error:
            return _Reply(Response(self._clock(), error=self._client.hide(str(error))))
        hide = self._client.hide
        named = tuple(f"{path.removeprefix('/apis/')}: {hide(note)}" for note in notes)
        return _Reply(Response(fetched_ms, samples), named)  # type: ignore[arg-type]
