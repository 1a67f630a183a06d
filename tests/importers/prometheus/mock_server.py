"""A server without sockets for tests of the client: replies from a function, time from a list."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qs

import httpx2

from hpabatch.importers.prometheus.client.http import Limits, Server
from hpabatch.importers.prometheus.client.login import Login
from hpabatch.importers.prometheus.client.queries import Query, SeriesRequest

URL = "http://prom.test:9090"
AT = 1_700_000_000_000
ONE = SeriesRequest(Query("up", ("up",)), "now", AT - 60_000, AT)
"""A request that cannot be divided; `TWO` can."""
TWO = replace(ONE, names={"pod": ("a", "b")})
PROMETHEUS = {"version": "2.42.0", "revision": "", "goVersion": "go1.19"}


class Clock:
    """Time that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []
        self._lock = threading.Lock()

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self.slept.append(seconds)
            self.now += seconds


@dataclass
class Sent:
    """A request as it came."""

    method: str
    path: str
    fields: dict[str, list[str]]
    headers: httpx2.Headers


Replying = httpx2.Response | Exception


@dataclass
class Mock:
    """Responses of a Prometheus, after some other replies.

    Attributes:
        replies: to the first requests that are none for build information.
        facts: what the server says of itself; a response: that instead.
        otherwise: the reply when there are no more others.
    """

    replies: list[Replying] = field(default_factory=list)
    facts: dict[str, Any] | httpx2.Response = field(default_factory=lambda: dict(PROMETHEUS))
    otherwise: Callable[[Sent], Replying] = field(default_factory=lambda: lambda _: vector())
    sent: list[Sent] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    clock: Clock = field(default_factory=Clock)

    def server(self, url: str = URL, login: Login | None = None, **limits: Any) -> Server:
        """Return a client whose requests come here."""
        return Server(
            url, login, Limits(**limits), tell=self.told.append, clock=self.clock,
            sleep=self.clock.sleep, transport=httpx2.MockTransport(self.reply),
        )  # fmt: skip

    def reply(self, request: httpx2.Request) -> httpx2.Response:
        """Return a reply as it comes over a network: its body was not read yet."""
        found = self._found(request)
        if not found.is_stream_consumed:
            return found
        body = httpx2.ByteStream(found.content)
        return httpx2.Response(found.status_code, headers=found.headers, stream=body)

    def _found(self, request: httpx2.Request) -> httpx2.Response:
        text = request.content.decode() or request.url.query.decode()
        path = request.url.path
        sent = Sent(request.method, path, parse_qs(text, True), request.headers)
        if path.endswith("/status/buildinfo") and not isinstance(self.facts, httpx2.Response):
            return success(self.facts)
        if path.endswith("/status/buildinfo"):
            assert isinstance(self.facts, httpx2.Response)
            return httpx2.Response(self.facts.status_code, content=self.facts.content)
        self.sent.append(sent)
        found = self.replies.pop(0) if self.replies else self.otherwise(sent)
        if isinstance(found, Exception):
            raise found
        return found


def success(data: object, **more: object) -> httpx2.Response:
    return httpx2.Response(200, json={"status": "success", "data": data, **more})


def vector(value: str = "1", at_ms: int = AT, **labels: str) -> httpx2.Response:
    metric = {"__name__": "up", "pod": "a", **labels}
    result = [{"metric": metric, "value": [at_ms / 1000, value]}]
    return success({"resultType": "vector", "result": result})


def matrix(values: Sequence[tuple[float, str]], **labels: str) -> httpx2.Response:
    result = [{"metric": labels, "values": [list(pair) for pair in values]}]
    return success({"resultType": "matrix", "result": result})


def failure(status: int, text: str, kind: str = "execution", **headers: str) -> httpx2.Response:
    body = json.dumps({"status": "error", "errorType": kind, "error": text})
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx2.Response(status, content=body, headers=names)


def page(status: int = 200, text: str = "<html><title>Log in</title></html>") -> httpx2.Response:
    return httpx2.Response(status, headers={"Content-Type": "text/html"}, content=text)


def trickle(clock: Clock, seconds: float, chunk: bytes = b" ") -> httpx2.Response:
    """Return a reply whose bytes come one by one, each after some seconds, for ever."""

    def chunks() -> Iterator[bytes]:
        while True:
            clock.now += seconds
            yield chunk

    return httpx2.Response(200, content=chunks())


def again(reply: Replying) -> Replying:
    """Return the same reply once more; a response can be read once only."""
    if isinstance(reply, httpx2.Response):
        return httpx2.Response(reply.status_code, headers=reply.headers, content=reply.content)
    return type(reply)(str(reply))
