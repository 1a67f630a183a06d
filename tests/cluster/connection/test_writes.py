"""The client that writes: what is sent, how often, and that no other client can."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import httpcore2._trace
import pytest

from hpabatch.cluster.connection.client import ApiClient
from hpabatch.cluster.connection.errors import (
    ApiError,
    Busy,
    InvalidResponse,
    NotFound,
    Refused,
    Unreachable,
    Withheld,
)
from hpabatch.cluster.connection.wire import Body
from hpabatch.cluster.connection.wire import Wire as Sender
from hpabatch.cluster.connection.writes import WriteClient, is_uncertain
from tests.cluster.connection.test_auth import Plugin
from tests.cluster.fake_api import Got, Wire, connected, serving, status

PATH = "/apis/apps/v1/namespaces/shop/deployments/web/scale"


def test_reading_clients_refuse_to_write(tmp_path: Path) -> None:
    with serving(lambda got, wire: wire.reply(200, {})) as server:
        sender = Sender(connected(tmp_path, server.url))
        body = Body("PUT", b"{}", "application/json")
        with (
            pytest.raises(AssertionError, match="this client is read-only"),
            sender.replied("update", PATH, {}, 5, body=body),
        ):
            pass
        sender.close()
        assert server.got == []
        with ApiClient(connected(tmp_path, server.url)) as client:
            client.get(PATH)
        assert [got.method for got in server.got] == ["GET"]


@pytest.mark.parametrize("dry_run", [False, True])
def test_what_is_sent(tmp_path: Path, dry_run: bool) -> None:
    with (
        serving(lambda got, wire: wire.reply(200, {"kind": "Scale"})) as server,
        WriteClient(connected(tmp_path, server.url), dry_run=dry_run) as client,
    ):
        for method in ("PUT", "POST", "PATCH", "DELETE"):
            document = None if method == "DELETE" else {"spec": {"replicas": 3}}
            assert client.write(method, PATH, document, 3) == {"kind": "Scale"}
        for got in server.got:
            assert got.params["timeout"] == "2s"
            assert got.params.get("dryRun") == ("All" if dry_run else None)
            assert got.params.get("fieldManager") == (
                None if got.method == "DELETE" else "hpabatch"
            )
        put, _, patch, delete = server.got
        assert json.loads(put.body) == {"spec": {"replicas": 3}}
        assert put.headers["content-type"] == "application/json"
        assert patch.headers["content-type"] == "application/merge-patch+json"
        assert delete.body == b""
        counted = {(r.verb, r.resource, r.status) for r in client.requests.snapshot()}
        label = "deployments.apps/scale"
        verbs = ("update", "create", "patch", "delete")
        assert counted == {(verb, label, 200) for verb in verbs}


def test_the_fence_is_asked_before_each_sending(tmp_path: Path) -> None:
    """A plugin may take longer than a lease, and a refused login sends a second request."""
    plugin = Plugin(tmp_path)
    plugin.answers(token="t-COUNT")
    asked: list[float] = []

    def fence(longest_s: float) -> str:
        asked.append(longest_s)
        return "" if plugin.runs < 2 else "the lease is over"

    with (
        serving(lambda got, wire: wire.reply(401, status(401, "no"))) as server,
        WriteClient(connected(tmp_path, server.url, plugin.user()), fence=fence) as client,
    ):
        with pytest.raises(Withheld, match=r"PUT .* was not sent: the lease is over") as caught:
            client.write("PUT", PATH, {}, 3)
        assert not is_uncertain(caught.value)
        asked_before = [3, 3, 3]  # headers and body of the first, headers of the second
        assert (len(server.got), asked, plugin.runs) == (1, asked_before, 2)
        with pytest.raises(Refused):
            client.read(PATH, 3)
        assert asked == asked_before, "reading needs no fence"


def test_the_fence_depends_on_no_name_in_the_http_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = httpcore2._trace.Trace.trace
    monkeypatch.setattr(
        httpcore2._trace.Trace, "trace", lambda self, name, info: trace(self, f"{name}.x", info)
    )
    closed = "the lease is over"
    with (
        serving(lambda got, wire: wire.reply(200, {})) as server,
        WriteClient(connected(tmp_path, server.url), fence=lambda longest_s: closed) as client,
    ):
        for method in ("PUT", "POST", "PATCH", "DELETE"):
            with pytest.raises(Withheld, match=closed):
                client.write(method, PATH, {}, 3)
        client.read(PATH, 3)
        assert [got.method for got in server.got] == ["GET"]


def test_no_request_is_sent_past_the_fence(tmp_path: Path) -> None:
    with (
        serving(lambda got, wire: wire.reply(200, {})) as server,
        WriteClient(connected(tmp_path, server.url)) as client,
    ):
        http = client.connection.client()
        with pytest.raises(AssertionError, match="inside a request that was announced"):
            http.put(server.url + PATH)
        reading = partial(client._check_fence, None, PATH, 3, 0)
        with (
            client.connection.network.sending(3, reading),
            pytest.raises(AssertionError, match="only a GET is sent without a body"),
        ):
            http.put(server.url + PATH)
        assert server.got == []


def test_a_write_whose_time_went_to_the_plugin_is_not_sent(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path)
    plugin.answers(token="t-COUNT")
    slow = plugin.program.read_text().replace("print(", "import time; time.sleep(1); print(")
    with (
        serving(lambda got, wire: wire.reply(200, {})) as server,
        WriteClient(connected(tmp_path, server.url, plugin.user())) as client,
    ):
        client.write("PUT", PATH, {}, 3)  # its connection is kept
        plugin.program.write_text(slow)
        client.connection._plugin._current = None  # type: ignore[union-attr]
        plugin.answers(token="t-COUNT")
        with pytest.raises(Withheld, match="its time limit passed before it could be sent"):
            client.write("PUT", PATH, {}, 0.5)
        assert len(server.got) == 1
        assert client.write("PUT", PATH, {}, 3) == {}


def test_only_a_servers_own_fault_is_uncertain() -> None:
    refusals = [Refused("", 403), NotFound("", 404), ApiError("", 409), Busy("", 429)]
    assert [is_uncertain(error) for error in (*refusals, Busy("", 500))] == [False] * 4 + [True]


def test_a_lost_response_is_uncertain_and_ends_in_time(tmp_path: Path) -> None:
    def script(got: Got, wire: Wire) -> None:
        if got.path.endswith("cut"):
            wire.cut()
        elif got.path.endswith("text"):
            wire.reply(200, b"text")
        else:
            time.sleep(3)

    with (
        serving(script) as server,
        WriteClient(connected(tmp_path, server.url)) as client,
    ):
        for end in ("cut", "text", "hang"):
            begun = time.monotonic()
            with pytest.raises((Unreachable, InvalidResponse)) as caught:
                client.write("PUT", f"{PATH}/{end}", {}, 1)
            assert is_uncertain(caught.value)
            assert time.monotonic() - begun < 2
        assert len(server.got) == 3


@contextmanager
def _silent_listener() -> Iterator[socket.socket]:
    """Yield a server that takes connections and 2 kB of their bytes: the rest stays unsent."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener


def _received(listener: socket.socket) -> bytes:
    """Return what a server reads at last of its one connection."""
    found = b""
    link, _ = listener.accept()
    with link, suppress(ConnectionError):
        link.settimeout(20)
        while piece := link.recv(65536):
            found += piece
    return found


@pytest.mark.parametrize("end", ["timeout", "close"])
def test_a_write_that_was_given_up_does_not_reach_the_server_later(
    tmp_path: Path, end: str
) -> None:
    document = {"fills": "x" * 30_000}
    with _silent_listener() as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        client = WriteClient(connected(tmp_path, url))
        if end == "close":
            threading.Timer(0.5, client.close).start()
        with pytest.raises(Unreachable):
            client.write("PUT", PATH, document, 1 if end == "timeout" else 10)
        read = _received(listener)
        client.close()
    assert read.startswith(b"PUT "), "it has begun to be sent"
    assert len(read) < 30_000


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="no TCP_USER_TIMEOUT")
def test_a_write_without_an_acknowledgment_ends_by_itself(tmp_path: Path) -> None:
    """The kernel ends it, while this process may be suspended."""
    with _silent_listener() as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with WriteClient(connected(tmp_path, url)) as client:
            begun = time.monotonic()
            with pytest.raises(Unreachable):
                client.write("PUT", PATH, {"fills": "x" * 30_000}, 20)
            assert time.monotonic() - begun < 10
        assert len(_received(listener)) < 30_000
