"""A proxy before an object storage that answers chosen requests as a failing network would."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlsplit

from tests.cluster.fake_api import Got, Wire, forwarded, serving

LOST: Final = "lost"
"""The request is carried out, then the connection is reset before the response."""
CUT: Final = "cut"
"""The connection is reset in the middle of the response's body."""
EXPIRED: Final = "expired"
"""403, as for credentials that ran out."""

Choose = Callable[[str, str], str | None]
"""From method and path to a fault, None: none."""


class Faults:
    """The fault that the next matching requests meet.

    Attributes:
        met: method and path of those that did.
    """

    def __init__(self, kind: str, method: str, part: str, count: int = 1) -> None:
        """Take a fault, and which requests meet it: method, part of the path, how many."""
        self._kind, self._method, self._part, self._left = kind, method, part, count
        self._lock = threading.Lock()
        self.met: list[tuple[str, str]] = []

    def begin(self, kind: str, count: int) -> None:
        """Let the next so many requests meet a fault."""
        with self._lock:
            self._kind, self._left = kind, count

    def __call__(self, method: str, path: str) -> str | None:
        """Return what the request meets."""
        with self._lock:
            if method != self._method or self._part not in path or not self._left:
                return None
            self._left -= 1
            self.met.append((method, path))
            return self._kind


@contextmanager
def faulty(endpoint: str, choose: Choose) -> Iterator[str]:
    """Yield the endpoint of a proxy before another one."""

    def script(got: Got, wire: Wire) -> None:
        kind = choose(got.method, got.target)
        if kind == EXPIRED:
            return wire.reply(403, b"<Error><Code>ExpiredToken</Code></Error>")
        status, headers, data = forwarded(urlsplit(endpoint).netloc, got)
        if kind == LOST:
            return wire.reset()
        headers = {"Content-Length": str(len(data)), **headers}
        wire.reply(status, data[: len(data) // 2] if kind == CUT else data, headers)
        if kind == CUT:
            wire.reset()

    with serving(script) as server:
        yield server.url
