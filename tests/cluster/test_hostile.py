"""Servers that give no end to a reply, a list or a header: each request ends, in bytes and time."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hpabatch.cluster.connection import client as client_module
from hpabatch.cluster.connection import errors
from hpabatch.cluster.connection.client import ApiClient
from hpabatch.cluster.watch import watch as watch_module
from hpabatch.cluster.watch.watch import WatchLimits
from hpabatch.importers.prometheus.client.http import GaveUpError, Limits, Server
from tests.cluster.connection.test_client import PODS, asking, in_turn, refused
from tests.cluster.fake_api import Got, Wire, connected, serving, status
from tests.cluster.watch.test_watch import watched
from tests.importers.prometheus.mock_server import ONE

Reply = Callable[[Wire], None]
SHORT = Limits(attempts=3, first_wait_s=0.001, longest_wait_s=0.01, timeout_s=0.2)


def never_ends(piece: bytes) -> Reply:
    """Send the beginning of a reply, and the piece for ever."""

    def reply(wire: Wire) -> None:
        wire.send(b"HTTP/1.1 ")
        while not wire.stopped.wait(0.01):
            wire.send(piece)

    return reply


def headers(wire: Wire) -> None:
    wire.send(b"HTTP/1.1 200 OK\r\n")
    never_ends(b"X")(wire)


def interim_replies(wire: Wire) -> None:
    while not wire.stopped.wait(0.01):
        wire.send(b"HTTP/1.1 103 Early Hints\r\n\r\n")


@pytest.mark.parametrize("reply", [headers, interim_replies])
def test_a_head_without_an_end_ends_at_the_deadline(tmp_path: Path, reply: Reply) -> None:
    with asking(tmp_path, lambda got, wire: reply(wire)) as (client, _):
        error = refused(client, timeout=0.3, attempts=1)
        assert isinstance(error, errors.Unreachable)
        assert error.text.endswith("context deadline exceeded")


def test_a_watch_whose_head_has_no_end_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "_REPLY_S", 0.3)
    with (
        asking(tmp_path, lambda got, wire: interim_replies(wire)) as (client, _),
        pytest.raises(errors.Unreachable, match="deadline exceeded"),
        client.watch(PODS, "1"),
    ):
        pass


def test_a_watch_that_is_never_ended_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_GRACE_S", 0.3)

    def script(got: Got, wire: Wire) -> None:
        wire.begin()
        while not wire.stopped.wait(0.01):
            wire.event("BOOKMARK", {})

    with asking(tmp_path, script) as (client, _), client.watch(PODS, "1", timeout_s=0) as stream:
        assert len(list(stream)) > 0


def test_an_error_without_an_end_is_read_up_to_a_size(tmp_path: Path) -> None:
    def script(got: Got, wire: Wire) -> None:
        wire.send(b"HTTP/1.1 500 X\r\nContent-Type: text/plain\r\n\r\n")
        while not wire.stopped.is_set():
            wire.send(b"x" * 2**16)

    with asking(tmp_path, script) as (client, _):
        error = refused(client, attempts=1)
        assert isinstance(error, errors.Busy)
        assert len(error.text) < 4096
    large = status(500, "x" * 10**6, "y" * 10**6)
    with asking(tmp_path, in_turn((500, large, {}))) as (client, _):
        error = refused(client, attempts=1)
        assert len(error.text) < 20_000
        assert error.reason == ""


@pytest.mark.parametrize("code", [200, 500])
def test_a_reply_that_unfolds_is_not_unfolded(tmp_path: Path, code: int) -> None:
    """By any client; other encodings: tests/web."""
    body = gzip.compress(gzip.compress(b"x" * 10**6))
    packed = in_turn((code, body, {"Content-Encoding": "gzip, gzip"}))
    with asking(tmp_path, packed) as (client, _):
        error = refused(client, attempts=1)
        assert "Content-Encoding that was not requested" in error.text
    with (
        serving(packed) as server,
        Server(server.url, limits=SHORT) as prometheus,
        pytest.raises(GaveUpError, match="Content-Encoding that was not requested"),
    ):
        prometheus.fetch(ONE)
    good = gzip.compress(b"{}")
    with asking(tmp_path, in_turn((200, good, {"Content-Encoding": "gzip"}))) as (client, _):
        assert client.get(PODS) == b"{}"


def endless(kind: str) -> Callable[[Got, Wire], None]:
    """Answer lists that go on for ever: with a token given before, without objects, or not."""
    count = iter(range(10**9))

    def script(got: Got, wire: Wire) -> None:
        number = next(count)
        token = "x" if kind == "same" else f"{number}"
        items = [] if kind == "empty" else [{"metadata": {"name": f"{number}"}}]
        meta = {"resourceVersion": "7", "continue": token}
        wire.reply(200, {"metadata": meta, "items": items})

    return script


@pytest.mark.parametrize(
    ("kind", "most", "told"),
    [
        ("same", 40, "expected a list that ends, got 40 pages and no end"),
        ("empty", 40, "expected a list that ends, got 40 pages and no end"),
    ],
)
def test_a_list_without_an_end_is_an_invalid_response(
    tmp_path: Path, kind: str, most: int, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "_MOST_PAGES", 40)
    with asking(tmp_path, endless(kind)) as (client, server):
        with pytest.raises(errors.InvalidResponse, match=told):
            list(client.list_pages(PODS))
        assert len(server.got) == most


def test_a_list_without_an_end_is_not_asked_for_at_once_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "_MOST_PAGES", 17)
    patient = WatchLimits(first_wait_s=3600, longest_wait_s=3600)
    with watched(tmp_path, endless("same"), limits=patient) as run:
        text = "/api/v1/pods: expected a list that ends, got 17 pages"
        run.wait(lambda: run.watcher.state.last_error.startswith(text))
        assert len(run.server.got) == 17
        assert not run.watcher.state.synced


@pytest.mark.parametrize("expires", [True, False])
def test_watches_that_end_after_an_event_are_not_begun_at_once_for_ever(
    tmp_path: Path, expires: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_module, "_SHORT_S", 1000.0)  # a slow machine is no patient server

    def script(got: Got, wire: Wire) -> None:
        if not got.is_watch:
            wire.reply(200, {"metadata": {"resourceVersion": "7"}, "items": []})
            return
        wire.begin()
        wire.event("BOOKMARK", {"metadata": {"resourceVersion": "8"}})
        if expires:
            wire.event("ERROR", status(410, "too old", "Expired"))
        wire.end()

    patient = WatchLimits(first_wait_s=3600, longest_wait_s=3600)
    with watched(tmp_path, script, limits=patient) as run:
        run.wait(lambda: sum(s.failed for s in run.watcher.states) >= (4 if expires else 1))
        assert sum(got.is_watch for got in run.server.got) == 4
        if not expires:
            assert "at once, again and again" in run.watcher.state.last_error


def test_a_page_may_be_asked_for_anew_after_its_token_expired(tmp_path: Path) -> None:
    """A list that begins again gives the same tokens again, which is right."""
    replies = iter(range(100))

    def script(got: Got, wire: Wire) -> None:
        if got.params.get("continue") == "b" and next(replies) == 0:
            return wire.reply(410, status(410, "expired", "Expired"))
        token = {"": "a", "a": "b"}.get(got.params.get("continue", ""), "")
        wire.reply(200, {"metadata": {"resourceVersion": "1", "continue": token}, "items": [{}]})

    with asking(tmp_path, script) as (client, _):
        assert [page.first for page in client.list_pages(PODS)] == [True, False, True, False, False]


@pytest.mark.parametrize("reply", [headers, interim_replies])
def test_a_prometheus_whose_head_has_no_end_is_given_up(
    reply: Reply, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hpabatch.importers.prometheus.client.http._GRACE_S", 0.1)
    monkeypatch.setattr("hpabatch.importers.prometheus.client.http._CONNECT_S", 0.3)
    with (
        serving(lambda got, wire: reply(wire)) as server,
        Server(server.url, limits=SHORT) as prometheus,
        pytest.raises(GaveUpError, match="sent no reply for 0 s"),
    ):
        prometheus.fetch(ONE)


def test_a_slow_head_leaves_no_deadline_behind(tmp_path: Path) -> None:
    """The thread's next wait is as long as it was allowed to be."""

    def script(got: Got, wire: Wire) -> None:
        wire.begin()
        wire.event("BOOKMARK", {})
        wire.stopped.wait(0.5)
        wire.event("BOOKMARK", {})
        wire.end()

    with serving(script) as server, ApiClient(connected(tmp_path, server.url)) as client:
        begun = time.monotonic()
        with client.connection.network.sending(0.1, lambda sent: None):
            pass
        with client.watch(PODS, "1", timeout_s=60) as stream:
            assert len(list(stream)) == 2
        assert time.monotonic() >= begun + 0.5
