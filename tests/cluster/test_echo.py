"""A gateway that repeats the headers of requests in its errors: no message shows a secret."""

from __future__ import annotations

import base64
import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from hpabatch.cluster.apis.discovery import Discovery, Resource, read_scale_from
from hpabatch.cluster.apis.metrics import Fetcher
from hpabatch.cluster.connection.auth import VERSIONS
from hpabatch.cluster.connection.client import ApiClient
from hpabatch.cluster.connection.connect import connect
from hpabatch.cluster.connection.errors import ApiError, Unreachable
from hpabatch.cluster.objects.types import ExternalMetricKey, PodMetricKey, ScaleKey
from hpabatch.errors import UsageError
from tests.cluster.asked import Kinds
from tests.cluster.connection.test_client import PODS
from tests.cluster.fake_api import Got, Json, Wire, connected, kubeconfig, serving, status
from tests.cluster.watch.test_watch import watched

TOKEN = "eyJhbGciOiJub25lIn0.swordfish-swordfish-swordfish.trout_trout"
Echo = Callable[[Got, Wire], None]


def credentials(got: Got) -> str:
    return got.headers["authorization"]


def as_message(got: Got, wire: Wire) -> None:
    wire.reply(500, status(500, f"upstream said no to {credentials(got)}"))


def as_text(got: Got, wire: Wire) -> None:
    wire.reply(403, f"headers: {got.headers}".encode(), {"Content-Type": "text/plain"})


def in_base64(got: Got, wire: Wire) -> None:
    text = base64.b64encode(json.dumps(dict(got.headers)).encode())
    wire.reply(503, status(503, f"request {text.decode()}"))


def percent(got: Got, wire: Wire) -> None:
    wire.reply(502, quote(credentials(got)).encode(), {"Content-Type": "text/html"})


def over_lines(got: Got, wire: Wire) -> None:
    text = credentials(got)
    wire.reply(400, status(400, f"{text[:40]}\n   {text[40:]}"))


def beyond_the_cut(got: Got, wire: Wire) -> None:
    text = ("x" * 2030 + credentials(got)).encode()
    wire.reply(500, text, {"Content-Type": "text/plain"})


def as_no_http(got: Got, wire: Wire) -> None:
    wire.send(f"{credentials(got)}\r\n\r\n".encode())
    wire.cut()


def redirected(got: Got, wire: Wire) -> None:
    wire.reply(302, b"", {"Location": f"http://elsewhere/{credentials(got)}"})


ECHOES: list[Echo] = [
    as_message, as_text, in_base64, percent, over_lines, beyond_the_cut, as_no_http, redirected
]  # fmt: skip


def check(text: str) -> None:
    """Fail if a text shows anything of the token, decoded or not."""
    for shown in (text, text.replace("-", "+").replace("_", "/")):
        for form in (TOKEN, base64.b64encode(TOKEN.encode()).decode()):
            assert not any(form[k : k + 12] in shown for k in range(len(form) - 11)), text
    assert "swordf" not in text


def users(folder: Path) -> dict[str, Json]:
    (folder / "token").write_text(f"{TOKEN}\n")
    answer = {"kind": "ExecCredential", "apiVersion": VERSIONS[0], "status": {"token": TOKEN}}
    plugin = {"apiVersion": VERSIONS[0], "command": "echo", "args": [json.dumps(answer)]}
    return {
        "token": {"token": TOKEN},
        "tokenFile": {"tokenFile": str(folder / "token")},
        "password": {"username": "jo", "password": TOKEN},
        "exec": {"exec": plugin},
    }


@pytest.mark.parametrize(
    ("user", "echo"),
    [*(("token", echo) for echo in ECHOES),
     *((user, as_message) for user in ("tokenFile", "password", "exec"))],
)  # fmt: skip
def test_no_error_of_any_request_shows_it(tmp_path: Path, user: str, echo: Echo) -> None:
    with (
        serving(echo) as server,
        ApiClient(connected(tmp_path, server.url, users(tmp_path)[user]), attempts=1) as client,
    ):
        told: list[str] = []
        for ask in (
            lambda: client.get(PODS),
            lambda: list(client.list_pages(PODS)),
            lambda: client.watch(PODS, "1").__enter__(),
            lambda: client.date(30.0),
            lambda: Discovery(client).server_version(),
            lambda: Discovery(client).metric_resource("apps", "Deployment"),
        ):
            with pytest.raises(ApiError) as caught:
                ask()
            told += [str(caught.value), caught.value.text, repr(caught.value), caught.value.reason]
        key = ScaleKey("apps", "Deployment", "shop", "web")
        kinds = Kinds(resources={("apps", "Deployment"): Resource("apps", "v1", "deployments")})
        told.append(read_scale_from(client, kinds, key, 30.0).error)
        fetcher = Fetcher(client, kinds)
        found = fetcher.fetch(
            {"shop", PodMetricKey("shop", "rps", ""), ExternalMetricKey("shop", "lag", "")}
        )
        assert len(found) == 3
        told += [answer.error for answer in found.values()]
        for text in told:
            check(text)
        assert len(server.got) >= 9
        assert all(got.headers["authorization"] for got in server.got)


def test_no_error_about_unreadable_contents_shows_it(tmp_path: Path) -> None:
    """What is recorded and logged of a response of status 200."""

    def script(got: Got, wire: Wire) -> None:
        token = credentials(got)
        item = {"metadata": {"name": token}, "timestamp": token, "window": token, "value": "1"}
        wire.reply(200, {"items": [item]})

    lag = ExternalMetricKey("shop", "lag", "")
    with (
        serving(script) as server,
        ApiClient(connected(tmp_path, server.url, {"token": TOKEN}), attempts=1) as client,
    ):
        fetcher = Fetcher(client, Kinds())
        found = fetcher.fetch({"shop", lag})
    for answer in found.values():
        check(answer.error)
        assert "***" in answer.error


def test_a_watch_tells_and_keeps_nothing_of_it(tmp_path: Path) -> None:
    replies = iter(range(10**6))

    def script(got: Got, wire: Wire) -> None:
        if not got.is_watch:
            odd = {"metadata": {"name": "odd", "uid": "1"}, "spec": TOKEN}
            return wire.reply(200, {"metadata": {"resourceVersion": "1"}, "items": [odd]})
        wire.begin()
        if next(replies) % 2:
            wire.event("ERROR", status(500, f"no: {TOKEN}"))
        else:
            wire.event(f"Bearer {TOKEN}", {})
            wire.event("ADDED", {"metadata": {"name": "a", "uid": TOKEN}, "broken": TOKEN})
        wire.end()

    with watched(tmp_path, script, user={"token": TOKEN}) as run:
        run.wait(lambda: "no: ***" in run.watcher.state.last_error)
        run.wait(lambda: any("unknown type" in one for one in run.watcher.wrong.values()))
        for text in [*run.watcher.wrong.values(), run.watcher.state.last_error]:
            check(text)


def test_tokens_that_are_replaced_meanwhile(tmp_path: Path) -> None:
    """Also the answer to a request with the token before does not show it."""
    path, seen = tmp_path / "token", list[str]()
    old, new = f"{TOKEN}-old", f"{TOKEN[::-1]}-new"
    path.write_text(old)

    def script(got: Got, wire: Wire) -> None:
        seen.append(got.headers["authorization"].removeprefix("Bearer "))
        code = 401 if seen[-1] == old and len(seen) > 1 else 500
        wire.reply(code, status(code, f"of {seen}"))

    user = {"tokenFile": str(path)}
    with (
        serving(script) as server,
        ApiClient(connected(tmp_path, server.url, user), attempts=1) as client,
    ):
        for _ in range(3):
            with pytest.raises(ApiError) as caught:
                client.get(PODS)
            path.write_text(new)
            check(caught.value.text)
            assert "dton" not in caught.value.text
        assert seen[0] == old
        assert seen[-1] == new


@pytest.mark.parametrize("how", ["environment", "kubeconfig"])
def test_a_proxys_password(tmp_path: Path, how: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy = f"http://jo:swordfish99@127.0.0.1:{listener.getsockname()[1]}"
        cluster = {"proxy-url": proxy} if how == "kubeconfig" else {}
        config = kubeconfig(tmp_path, "https://cluster.test:6443", {"token": TOKEN}, cluster)
        environ = {"HTTPS_PROXY": proxy} if how == "environment" else {}
        connection = connect(config, None, False, environ)
        assert "swordfish" not in f"{connection!r}{connection._target!r}"

        def answer() -> None:
            peer, _ = listener.accept()
            with peer:
                head = peer.recv(2**16).decode()
                said = next(one for one in head.split("\r\n") if one.startswith("Proxy-Auth"))
                peer.sendall(f"HTTP/1.1 407 {said} jo:swordfish99\r\n\r\n".encode())

        thread = threading.Thread(target=answer)
        thread.start()
        with ApiClient(connection, attempts=1) as client, pytest.raises(Unreachable) as caught:
            client.get(PODS)
        thread.join(60)
    assert "407" in caught.value.text
    assert "swordfish" not in caught.value.text
    assert base64.b64encode(b"jo:swordfish99").decode() not in caught.value.text


@pytest.mark.parametrize(
    ("server", "proxy"),
    [
        ("htps://jo:trout@h:1", None),
        ("https://jo:tro/ut@h:1", None),
        ("https://jo:trout@[h", None),
        ("https://h", "socks4://jo:trout@h:1"),
        ("https://h", "http://jo:trout@[h"),
        ("https://h", "http://jo:trout@h:999999"),
    ],
)
def test_bad_addresses_are_told_without_their_passwords(
    tmp_path: Path, server: str, proxy: str | None
) -> None:
    cluster = {"proxy-url": proxy} if proxy else {}
    config = kubeconfig(tmp_path, server, {}, cluster)
    with (
        pytest.raises((UsageError, Unreachable)) as caught,
        ApiClient(connect(config, None, False, {}), attempts=1) as client,
    ):
        client.get(PODS)
    assert "tro" not in str(caught.value)
