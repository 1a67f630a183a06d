"""A small client of a real API server.

It decodes by itself: hpabatch's own client is what is tested here. It takes that one's
way into the cluster, which knows every kind of credentials.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import httpx2

from hpabatch.cluster.connection.connect import connect

Json: TypeAlias = dict[str, Any]
_PATCHES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}


class ServerError(Exception):
    """The API server refused; `status` is the HTTP status code."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status


class Server:
    """An API server at an address."""

    def __init__(self, http: httpx2.Client, address: str) -> None:
        self.http, self.address = http, address

    def is_ready(self) -> bool:
        """Return whether it answers, and says that it is ready."""
        try:
            return self.http.get(f"{self.address}/readyz", timeout=5).status_code == 200
        except httpx2.HTTPError:
            return False

    def call(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        kind: str = "merge",
        query: Mapping[str, str] | None = None,
    ) -> Json:
        """Return the answer to a request (ServerError: it was refused)."""
        headers = {"Content-Type": _PATCHES[kind] if method == "PATCH" else "application/json"}
        content = None if body is None else json.dumps(body)
        answer = self.http.request(
            method,
            self.address + path,
            content=content,
            headers=headers,
            params=query or {},
            timeout=30,
        )
        if answer.status_code >= 400:
            raise ServerError(answer.status_code, answer.text[:500])
        found: Json = answer.json()
        return found

    def get(self, path: str, **query: str) -> Json:
        return self.call("GET", path, query=query)

    def create(self, path: str, body: Json) -> Json:
        return self.call("POST", path, body)

    def patch(self, path: str, body: Json, kind: str = "merge") -> Json:
        return self.call("PATCH", path, body, kind)

    def delete(self, path: str, **query: str) -> None:
        """Delete what may be there."""
        try:
            self.call("DELETE", path, query=query)
        except ServerError as error:
            if error.status != 404:
                raise

    def there(self, path: str) -> bool:
        try:
            self.get(path)
        except ServerError as error:
            if error.status == 404:
                return False
            raise
        return True

    def until(self, what: Callable[[], bool], wanted: str, timeout_s: float = 60) -> None:
        """Wait until something is so (AssertionError: it does not become so)."""
        end = time.monotonic() + timeout_s
        while not what():
            assert time.monotonic() < end, f"not within {timeout_s:.0f} s: {wanted}"
            time.sleep(0.2)


@contextmanager
def open_server(kubeconfig: Path) -> Iterator[Server]:
    """Yield the API server that a kubeconfig names."""
    connection = connect(kubeconfig, None, in_cluster=False, environ=os.environ)
    # Its own requests are announced, those of a test are not.
    setattr(connection.network, "check", lambda buffer, opened: None)  # noqa: B010
    yield Server(connection.client(), connection.server)
    connection.close()
