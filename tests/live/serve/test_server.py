"""The endpoint over real sockets: answers, refusals, and clients that hang."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from prometheus_client import CollectorRegistry, Gauge

from hpabatch.cluster.watch.watch import WatchState
from hpabatch.errors import UsageError
from hpabatch.live.serve import server as server_module
from hpabatch.live.serve.server import Health, MetricsServer, parse_address


class Loop:
    """What a health looks at, set by hand."""

    def __init__(self, period_s: float = 15) -> None:
        self.now_s = 1000.0
        self.watches = [WatchState("pods", synced=True), WatchState("hpas", synced=True)]
        self.health = Health(period_s, lambda: self.watches, lambda: self.now_s)
        self.registry = CollectorRegistry()
        Gauge("answer", "What it is.", registry=self.registry).set(42)


@contextmanager
def serving(loop: Loop, address: str = "127.0.0.1:0") -> Iterator[MetricsServer]:
    server = MetricsServer(address, loop.registry, loop.health)
    try:
        yield server
    finally:
        server.close()


def ask(server: MetricsServer, path: str, method: str = "GET") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def test_the_loop_is_alive_until_it_is_late() -> None:
    loop = Loop(period_s=30)
    with serving(loop) as server:
        assert ask(server, "/healthz") == (200, b"ok\n")
        loop.now_s += 89.9
        assert ask(server, "/healthz")[0] == 200
        loop.now_s += 0.1
        said = b"the last pass began 90 s ago (at most 90 s is well)\n"
        assert ask(server, "/healthz") == (503, said)
        loop.health.began()
        assert ask(server, "/healthz")[0] == 200


def test_it_is_ready_once_all_was_listed_and_a_pass_done() -> None:
    loop = Loop()
    loop.watches = [WatchState("pods"), WatchState("hpas", synced=True)]
    with serving(loop) as server:
        assert ask(server, "/readyz") == (503, b"not yet listed: pods\n")
        loop.watches = [WatchState("pods", synced=True), WatchState("hpas")]
        assert ask(server, "/readyz") == (503, b"no pass was done yet\n")
        loop.health.done()
        assert ask(server, "/readyz") == (200, b"ok\n")
        loop.watches.append(WatchState("scales"))
        assert ask(server, "/readyz") == (503, b"not yet listed: scales\n")


def test_other_paths_and_methods() -> None:
    with serving(Loop()) as server:
        assert b"\nanswer 42.0\n" in ask(server, "/metrics?x=1")[1]
        assert ask(server, "/")[0] == 404
        assert ask(server, "/metrics/..")[0] == 404
        assert ask(server, "/metrics", "POST")[0] == 405
        assert ask(server, "/healthz", "DELETE")[0] == 405


def connected(server: MetricsServer, stack: ExitStack, sent: bytes = b"") -> socket.socket:
    client = stack.enter_context(socket.socket())
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(30)
    client.connect(("127.0.0.1", server.port))
    client.sendall(sent)
    return client


def test_a_silent_client_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module._Handler, "timeout", 0.2)
    with serving(Loop()) as server, ExitStack() as stack:
        client = connected(server, stack, b"GET /metrics HTTP/1.1\r\nHo")  # and no more
        assert ask(server, "/healthz")[0] == 200
        assert _is_closed(client)


def _is_closed(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (":9099", ("", 9099)),
        ("localhost:1", ("localhost", 1)),
        ("[::1]:9099", ("::1", 9099)),
        ("0.0.0.0:65535", ("0.0.0.0", 65535)),
    ],
)
def test_addresses(text: str, found: tuple[str, int]) -> None:
    assert parse_address(text) == found


@pytest.mark.parametrize("text", ["", "9099", "host", "host:", "a:b:1", ":70000", "::1:9099"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(UsageError, match="expected :9099 or HOST:PORT"):
        parse_address(text)


def test_an_address_that_is_taken_is_said() -> None:
    with serving(Loop()) as server, pytest.raises(UsageError, match="cannot listen there"):
        MetricsServer(f"127.0.0.1:{server.port}", CollectorRegistry(), Loop().health)
