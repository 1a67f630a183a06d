"""How many requests an API server was sent, by what they were."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import NamedTuple


class Request(NamedTuple):
    """What was asked: `verb` is get, list or watch, `resource` e.g. pods or deployments.apps/scale.

    `status` is of the reply, 0: there was none.
    """

    verb: str
    resource: str
    status: int


class RequestCounter:
    """Counts requests, repeated ones among them. Several threads may count at once."""

    def __init__(self) -> None:
        """Begin at none."""
        self._lock = threading.Lock()
        self._counts: dict[Request, int] = {}

    def add(self, verb: str, resource: str, status: int) -> None:
        """Count a request whose reply has begun, or failed."""
        key = Request(verb, resource, status)
        with self._lock:
            self._counts[key] = self._counts.get(key, 0) + 1

    @property
    def total(self) -> int:
        """How many there were."""
        with self._lock:
            return sum(self._counts.values())

    def snapshot(self) -> Mapping[Request, int]:
        """Return how many there were of each; a copy."""
        with self._lock:
            return dict(self._counts)

    def by_resource(self) -> Mapping[tuple[str, str], int]:
        """Return how many there were by verb and resource."""
        found: dict[tuple[str, str], int] = {}
        for request, count in self.snapshot().items():
            key = request.verb, request.resource
            found[key] = found.get(key, 0) + count
        return found
