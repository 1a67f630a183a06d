"""An API server's answers without a server: by path, each bytes, an error, or a wait."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hpabatch.cluster.apis.discovery import Discovery, Resource
from hpabatch.cluster.connection.client import ApiClient
from hpabatch.cluster.connection.errors import ApiError, InvalidResponse, NotFound
from hpabatch.cluster.connection.wire import RequestCounter
from hpabatch.cluster.watch.watch import Watcher

Reply = bytes | Exception | Callable[[float], bytes]


@dataclass
class Asked(ApiClient):
    """Responses by path and query; what it was asked for is kept, in the order of the replies."""

    replies: Mapping[str, Reply] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    def get(
        self,
        path: str,
        params: Mapping[str, str] | None = None,
        *,
        limit_bytes: int = 0,
        timeout: float = 0.0,
        attempts: int | None = None,
        verb: str = "get",
    ) -> bytes:
        assert limit_bytes > 0
        assert timeout > 0
        query = "&".join(f"{key}={value}" for key, value in sorted((params or {}).items()))
        whole = f"{path}?{query}" if query else path
        with self._lock:
            self.paths.append(whole)
        reply = self.replies.get(whole)
        if reply is None:
            raise NotFound("the server could not find the requested resource", 404)
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, bytes) else reply(timeout)

    def hide(self, text: str) -> str:
        return text


@dataclass
class Kinds(Discovery):
    """What discovery says."""

    version: str = "v1beta1"
    resources: Mapping[tuple[str, str], Resource] = field(default_factory=dict)

    def custom_metrics_version(self) -> str:
        if not self.version:
            raise ApiError("no custom metrics API (custom.metrics.k8s.io) registered")
        return self.version

    def scale_resource(self, group: str, kind: str) -> Resource:
        found = self.resources.get((group, kind))
        if found is None:
            raise InvalidResponse(f'no matches for kind "{kind}" in group "{group}"')
        return found

    def metric_resource(self, group: str, kind: str) -> str:
        try:
            found = self.scale_resource(group, kind)
        except InvalidResponse as error:
            text = f"unable to map kind {kind}.{group} to resource: {error.text}"
            raise InvalidResponse(text) from None
        return f"{found.name}.{found.group}" if found.group else found.name


def by_resource(counter: RequestCounter) -> dict[tuple[str, str], int]:
    """Return the numbers of requests by verb and resource, whatever their status."""
    found: dict[tuple[str, str], int] = {}
    for request, count in counter.snapshot().items():
        key = request.verb, request.resource
        found[key] = found.get(key, 0) + count
    return found


def shows(watcher: Watcher, namespace: str) -> bool:
    """Return whether all objects of a namespace were listed once."""
    return any(one.synced and one.namespace in ("", namespace) for one in watcher.states)
