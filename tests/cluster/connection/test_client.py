"""Gets and lists against a server at the wire: what is tried again, and what errors say."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from hpabatch import __version__
from hpabatch.cluster.connection import client as client_module
from hpabatch.cluster.connection import errors
from hpabatch.cluster.connection.client import ApiClient
from hpabatch.cluster.connection.errors import ApiError, requested_resource
from hpabatch.cluster.connection.wire import Request
from tests.cluster.asked import by_resource
from tests.cluster.fake_api import FakeApi, Got, Script, Wire, connected, serving, status
from tests.ports import hold_port, port_of

PODS = "/api/v1/pods"
WEB = "/apis/apps/v1/namespaces/shop/deployments/web"
USAGE = "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods"
CUSTOM = "/apis/custom.metrics.k8s.io/v1beta1/namespaces/shop/pods/*/rps"
EXTERNAL = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/queue"


@contextmanager
def asking(folder: Path, script: Script) -> Iterator[tuple[ApiClient, FakeApi]]:
    with serving(script) as server:
        with ApiClient(connected(folder, server.url)) as client:
            yield client, server
        assert {got.method for got in server.got} <= {"GET"}


def in_turn(*replies: tuple[int, object, dict[str, str]]) -> Script:
    """Reply one after the other, and the last one for ever."""
    left = list(replies)
    lock = threading.Lock()

    def script(got: Got, wire: Wire) -> None:
        with lock:
            code, body, headers = left.pop(0) if len(left) > 1 else left[0]
        wire.reply(code, body, headers)

    return script


def refused(client: ApiClient, path: str = PODS, **more: float) -> ApiError:
    with pytest.raises(ApiError) as caught:
        client.get(path, **more)  # type: ignore[arg-type]
    return caught.value


def test_get(tmp_path: Path) -> None:
    with asking(tmp_path, in_turn((200, b"x" * 100_000, {}))) as (client, server):
        found = client.get(CUSTOM, {"labelSelector": "app in (a,b),c!=d e"})
        assert found == b"x" * 100_000
        assert client.get("/version", verb="get") == found
        got = server.got[0]
        assert (got.path, got.params) == (CUSTOM, {"labelSelector": "app in (a,b),c!=d e"})
        assert got.headers["user-agent"] == f"hpabatch/{__version__}"
        assert "authorization" not in got.headers
        assert client.requests.snapshot() == {
            Request("get", "custom.metrics.k8s.io", 200): 1, Request("get", "/version", 200): 1,
        }  # fmt: skip
        assert client.requests.total == 2


@pytest.mark.parametrize(
    ("path", "code", "body", "kind", "text"),
    [
        (PODS, 403, status(403, "pods is forbidden: User x", "Forbidden"), errors.Refused,
         "pods is forbidden: User x"),
        (WEB, 404, status(404, 'deployments.apps "web" not found', "NotFound"), errors.NotFound,
         'deployments.apps "web" not found'),
        (PODS, 401, b"", errors.Refused,
         "the server has asked for the client to provide credentials (get pods)"),
        (USAGE, 404, b"404 page not found", errors.NotFound,
         "the server could not find the requested resource (get pods.metrics.k8s.io)"),
        (USAGE, 503, b"service unavailable", errors.Busy,
         "the server is currently unable to handle the request (get pods.metrics.k8s.io)"),
        (CUSTOM, 503, b"", errors.Busy,
         "the server is currently unable to handle the request "
         "(get pods.custom.metrics.k8s.io *)"),
        (EXTERNAL, 503, b"", errors.Busy,
         "the server is currently unable to handle the request "
         "(get queue.external.metrics.k8s.io)"),
        (PODS, 500, b"null \"quoted\"", errors.Busy,
         'an error on the server ("null \\"quoted\\"") has prevented the request from succeeding '
         "(get pods)"),
        (PODS, 504, b"", errors.Busy,
         "the server was unable to return a response in the time allotted, but may still be "
         "processing the request (get pods)"),
        (f"{WEB}/scale", 404, b"", errors.NotFound,
         "the server could not find the requested resource (get deployments web)"),
        (PODS, 410, status(410, "too old", "Expired"), errors.Expired, "too old"),
        (PODS, 504, status(504, "Timeout: Too large resource version: 9, current: 5", "Timeout"),
         errors.Expired, "Timeout: Too large resource version: 9, current: 5"),
        (PODS, 403, b"no <b>way</b>", errors.Refused, "no <b>way</b> (get pods)"),
        (PODS, 302, b"", errors.InvalidResponse,
         "the server responded with the status code 302 but did not return more information "
         "(get pods)"),
        ("/version", 404, {"kind": "Status", "status": "Success"}, errors.NotFound,
         "the server could not find the requested resource"),
    ],
)  # fmt: skip
def test_errors_say_what_the_controllers_client_says(
    tmp_path: Path, path: str, code: int, body: object, kind: type[ApiError], text: str
) -> None:
    headers = {"Content-Type": "text/plain"} if isinstance(body, bytes) else {}
    with asking(tmp_path, in_turn((code, body, headers))) as (client, server):
        error = refused(client, path, attempts=1)
        assert type(error) is kind
        assert (error.text, error.status) == (text, code)
        assert str(error) == f"{server.url}: {text}"
        assert error.exit_code == 2


def test_what_may_pass_is_tried_again(tmp_path: Path) -> None:
    script = in_turn((503, b"", {}), (429, b"", {"Retry-After": "0"}), (200, b"fine", {}))
    with asking(tmp_path, script) as (client, server):
        assert client.get(PODS) == b"fine"
        assert len(server.got) == 3
        assert by_resource(client.requests) == {("get", "pods"): 3}


def test_a_wait_beyond_the_deadline_is_not_begun(tmp_path: Path) -> None:
    with asking(tmp_path, in_turn((429, b"", {"Retry-After": "100"}))) as (client, server):
        error = refused(client, timeout=20)
        assert isinstance(error, errors.Busy)
        assert error.retry_after == 100
        assert len(server.got) == 1


def test_broken_connections(tmp_path: Path) -> None:
    how = ""

    def script(got: Got, wire: Wire) -> None:
        if how == "cut":
            wire.cut()
        elif how == "reset":
            wire.reset()
        elif how == "half":
            wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
            wire.cut()
        elif how == "rubbish":
            wire.send(b"SSH-2.0-OpenSSH\r\n\r\n")
            wire.cut()
        else:
            wire.stopped.wait()

    with asking(tmp_path, script) as (client, server):
        said = {}
        for how in ("cut", "reset", "half", "rubbish", "silent"):
            timeout = 0.2 if how == "silent" else 20
            error = refused(client, attempts=1, timeout=timeout)
            assert isinstance(error, errors.Unreachable)
            said[how] = error.text.removeprefix(f'Get "{server.url}{PODS}": ')
        assert said["cut"] == "Server disconnected without sending a response."
        assert said["reset"] == "connection reset by peer"
        assert said["half"].startswith("peer closed connection without sending complete message")
        assert "illegal status line" in said["rubbish"]
        assert said["silent"] == "context deadline exceeded"


def test_a_slow_answer_ends_at_the_deadline(tmp_path: Path) -> None:
    def script(got: Got, wire: Wire) -> None:
        wire.begin()
        while not wire.stopped.wait(0.01):
            wire.chunk(b" ")  # always a little, so that no pause is too long

    with asking(tmp_path, script) as (client, _):
        error = refused(client, timeout=0.3, attempts=1)
        assert isinstance(error, errors.Unreachable)
        assert error.text.endswith("context deadline exceeded")


def test_nobody_listens(tmp_path: Path) -> None:
    with hold_port() as held:
        port = port_of(held)
        with ApiClient(connected(tmp_path, f"http://127.0.0.1:{port}")) as client:
            error = refused(client, attempts=2)
    assert error.text == f'Get "http://127.0.0.1:{port}{PODS}": connection refused'
    assert client.requests.snapshot() == {Request("get", "pods", 0): 2}


def test_no_such_host(tmp_path: Path) -> None:
    with ApiClient(connected(tmp_path, "http://nowhere.invalid:1")) as client:
        assert (
            'nowhere.invalid:1/api/v1/pods": name or service not known'
            in refused(client, attempts=1).text
        )


def test_too_large(tmp_path: Path) -> None:
    with asking(tmp_path, in_turn((200, b"x" * 1001, {}))) as (client, server):
        error = refused(client, limit_bytes=1000)
        assert isinstance(error, errors.TooLarge)
        assert len(server.got) == 1
        assert client.get(PODS, limit_bytes=1001) == b"x" * 1001


def test_close_ends_a_handshake(tmp_path: Path) -> None:
    """Of a server that takes connections and says nothing; its limit is ten seconds."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        client = ApiClient(connected(tmp_path, f"https://127.0.0.1:{server.getsockname()[1]}"))
        refusal = pool.submit(refused, client)
        silent, _ = server.accept()
        silent.recv(1)  # of its greeting
        begun = time.monotonic()
        client.close()
        assert "closed" in refusal.result(30).text
        assert time.monotonic() - begun < 5
        silent.close()


def test_close_ends_what_waits(tmp_path: Path) -> None:
    asked = threading.Event()

    def script(got: Got, wire: Wire) -> None:
        asked.set()
        wire.stopped.wait()

    with asking(tmp_path, script) as (client, _), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(refused, client)
        assert asked.wait(60)
        client.close()
        assert waiting.result(60).text == "the client was closed"
        assert refused(client).text == "the client was closed"


def test_a_token_file_that_is_none_is_an_error_of_the_request(tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b"\xff\xfe very-secret")
    with serving(in_turn((200, b"{}", {}))) as server:
        connection = connected(tmp_path, server.url, {"tokenFile": str(tmp_path / "token")})
        with ApiClient(connection, attempts=1) as client:
            error = refused(client)
    assert "getting credentials" in error.text
    assert "secret" not in error.text


def test_connections_are_given_back_where_there_are_no_new_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with asking(tmp_path, in_turn((401, b"x" * 100_000, {}))) as (client, server):

        def renew(used: object) -> bool:
            raise errors.Unreachable("getting credentials: no")

        monkeypatch.setattr(client.connection, "renew", renew)
        for _ in range(5):
            assert "getting credentials" in refused(client, attempts=1).text
        until = time.monotonic() + 30
        while server.connections:
            assert time.monotonic() < until
            time.sleep(0.01)


def test_pages_that_are_too_large_are_asked_for_in_smaller_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = [{"n": number, "text": "x" * 100} for number in range(20)]

    def script(got: Got, wire: Wire) -> None:
        start = int(got.params.get("continue", "0"))
        end = start + int(got.params["limit"])
        meta = {"resourceVersion": "7", "continue": str(end) if end < 20 else ""}
        wire.reply(200, {"metadata": meta, "items": items[start:end]})

    with asking(tmp_path, script) as (client, server):
        monkeypatch.setattr(client_module, "PAGE_BYTES", 700)
        pages = list(client.list_pages(PODS, chunk=16))
        found = [json.loads(bytes(item))["n"] for page in pages for item in page.items]
        assert found == list(range(20))
        assert [page.first for page in pages] == [True, *[False] * 4]
        assert {page.resource_version for page in pages} == {"7"}
        assert [got.params["limit"] for got in server.got] == ["16", *["4"] * 5]
        monkeypatch.setattr(client_module, "PAGE_BYTES", 50)
        with pytest.raises(errors.TooLarge):
            list(client.list_pages(PODS, chunk=16))


def test_a_list_that_expires_for_ever_ends(tmp_path: Path) -> None:
    def script(got: Got, wire: Wire) -> None:
        if "continue" in got.params:
            return wire.reply(410, status(410, "expired", "Expired"))
        wire.reply(200, {"metadata": {"resourceVersion": "1", "continue": "x"}, "items": [{}]})

    with asking(tmp_path, script) as (client, _):
        pages = client.list_pages(PODS)
        assert [next(pages).first for _ in range(3)] == [True] * 3
        with pytest.raises(errors.Expired):
            next(pages)


def test_what_paths_ask_for() -> None:
    def asked(path: str) -> tuple[str, str]:
        return requested_resource(path).label, requested_resource(path).name

    assert asked("/api/v1/namespaces/shop") == ("namespaces", "shop")
    assert asked(f"{WEB}/scale?x=y") == ("deployments.apps/scale", "web")
    assert asked(CUSTOM) == ("pods.custom.metrics.k8s.io/rps", "*")
    assert asked("/apis/apps/v1") == ("", "")
    assert asked("/healthz") == ("", "")
