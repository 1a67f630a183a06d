"""Tests of final refusals, of responses that are too large, and of secrets that stay hidden."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import httpx2
import pytest

from hpabatch.errors import HpabatchError, UsageError
from hpabatch.importers.prometheus.client.http import (
    CredentialsError,
    GaveUpError,
    RefusedQueryError,
    Server,
    TooMuchError,
)
from hpabatch.importers.prometheus.client.login import Login, read_login
from hpabatch.importers.prometheus.client.series_requests import SeriesRequest
from hpabatch.importers.prometheus.request import LoginOptions
from tests.importers.prometheus.mock_server import (
    ONE,
    TWO,
    URL,
    Mock,
    Replying,
    again,
    failure,
    page,
    trickle,
    vector,
)

SECRET = "s3cr3t-Zx9"


# --- what is not tried again ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replies", "error", "told"),
    [
        ([failure(400, 'parse error: "x"', "bad_data")], RefusedQueryError, "400: parse error"),
        ([failure(406, "no such format")], RefusedQueryError, "406"),
        ([failure(401, "who are you")], CredentialsError, "missing, wrong or outdated"),
        ([failure(403, "no"), failure(403, "no")], CredentialsError, "another token, user"),
        ([failure(404, "page not found")], UsageError, "No Prometheus API is there"),
        ([failure(405, "no"), failure(405, "no")], UsageError, "No Prometheus API is there"),
        (
            [httpx2.Response(302, headers={"Location": f"http://sso/auth?state={SECRET}"})],
            UsageError,
            "redirects to http://sso/auth: use that",
        ),
        ([page(400, "Client sent an HTTP request to an HTTPS server.")], UsageError, "https://"),
        ([httpx2.UnsupportedProtocol("x")], UsageError, "cannot be asked"),
        (
            [httpx2.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate")],
            CredentialsError,
            "with --ca; --insecure",
        ),
        ([httpx2.ConnectError("[SSL: WRONG_VERSION_NUMBER] wrong")], UsageError, "speaks no TLS"),
        (
            [httpx2.ReadError("[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert certificate")],
            CredentialsError,
            "--cert and --key",
        ),
    ],
)
def test_what_no_other_attempt_changes(
    replies: list[Replying], error: type[HpabatchError], told: str
) -> None:
    mock = Mock(replies)
    count = len(replies)
    with pytest.raises(error, match=told) as caught:
        mock.server().fetch(ONE)
    assert len(mock.sent) == count
    assert mock.clock.slept == []
    assert SECRET not in str(caught.value)
    assert str(caught.value).startswith(URL)


# --- what is too large ---------------------------------------------------------------------------


@pytest.mark.parametrize("status", [413, 414, 431])
def test_a_status_of_size_is_not_tried_again(status: int) -> None:
    mock = Mock([failure(status, "x")])
    with pytest.raises(TooMuchError, match=f"responds with status {status}"):
        mock.server().fetch(TWO)
    assert len(mock.sent) == 1


def test_an_answer_larger_than_we_take() -> None:
    mock = Mock()
    mock.replies = [trickle(mock.clock, 0, b" " * 300_000)]
    with pytest.raises(TooMuchError, match="more than 1 MiB"):
        mock.server(response_bytes=2**20).fetch(TWO)
    assert len(mock.sent) == 1


LARGE: list[Replying] = [
    failure(422, "query processing would load too many samples into memory"),
    failure(503, "query timed out in expression evaluation", "timeout"),
    failure(504, "gateway"),
    page(504),
    httpx2.ReadTimeout("no reply"),  # while the server still says other things
]


@pytest.mark.parametrize("reply", LARGE, ids=str)
def test_what_fails_twice_is_divided_where_a_smaller_request_succeeds(reply: Replying) -> None:
    mock = Mock(otherwise=lambda sent: again(reply) if "a|b" in str(sent.fields) else vector())
    with pytest.raises(TooMuchError, match="twice"):
        mock.server().fetch(TWO)
    assert len(mock.sent) in (2, 2 + 1)


@pytest.mark.parametrize("reply", LARGE[:-1], ids=str)
@pytest.mark.parametrize("request_", [ONE, TWO], ids=["one", "two"])
def test_what_fails_at_any_size_passes_or_is_refused(
    request_: SeriesRequest, reply: Replying
) -> None:
    clock = Mock().clock
    mock = Mock(otherwise=lambda _: again(reply) if clock() < 60 else vector(), clock=clock)
    assert mock.server().fetch(request_).count == 1
    is_422 = isinstance(reply, httpx2.Response) and reply.status_code == 422
    mock.otherwise = lambda _: again(reply)
    with pytest.raises(RefusedQueryError if is_422 else GaveUpError, match="tried 8 times") as told:
        mock.server().fetch(request_)
    assert ("refuses this query" in str(told.value)) == is_422
    assert len(mock.sent) < 32


def test_an_answer_that_trickles() -> None:
    mock = Mock()
    mock.replies = [trickle(mock.clock, 100), trickle(mock.clock, 100)]
    with pytest.raises(TooMuchError, match="still coming after 480 s"):
        mock.server().fetch(TWO)


def test_silence_is_a_dead_server_if_it_says_nothing_at_all() -> None:
    mock = Mock()
    server = mock.server()
    assert server.fetch(TWO).count == 1

    def silent(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ReadTimeout("", request=request)

    server._wire._client._transport = httpx2.MockTransport(silent)
    with pytest.raises(GaveUpError, match="It was tried 8 times"):
        server.fetch(TWO)


# --- secrets -------------------------------------------------------------------------------------


def test_a_token_is_read_again_when_it_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old")

    def reply(sent: Any) -> httpx2.Response:
        good = sent.headers["Authorization"] == "Bearer new"
        return vector() if good else failure(401, "expired")

    mock = Mock(otherwise=reply)
    server = mock.server(login=read_login({}, LoginOptions(token_file=str(path))))
    path.write_text("new")
    assert server.fetch(ONE).count == 1
    assert server.fetch(ONE).count == 1
    assert [s.headers["Authorization"][7:] for s in mock.sent] == ["old", "new", "new"]
    assert mock.told == []
    mock.otherwise = lambda _: failure(401, "expired")
    path.write_text("newer")
    with pytest.raises(CredentialsError):
        server.fetch(ONE)
    assert len(mock.sent) == 5, "no other attempt with the same token"


ECHO = {"Authorization": f"Bearer {SECRET}"}


@pytest.mark.parametrize(
    "reply",
    [
        failure(400, f"bad header {ECHO}"),
        failure(401, f"bad token {SECRET}"),
        failure(403, f"bad token {SECRET}"),
        failure(404, f"no such page for {SECRET}"),
        failure(422, f"would load too many samples for {SECRET}"),
        failure(429, f"too many requests of {SECRET}"),
        failure(500, f"panic: {ECHO}"),
        failure(504, f"slow: {ECHO}"),
        page(200, f"<html>{SECRET}</html>"),
        httpx2.Response(200, json={"status": "error", "error": SECRET}),
        httpx2.Response(200, json={"status": "success", "data": [], "warnings": [SECRET]}),
        vector(token=SECRET, at_ms=1),
        httpx2.ConnectError(f"cannot resolve {SECRET}"),
        httpx2.RemoteProtocolError(f"{ECHO}"),
    ],
    ids=range(14),
)
def test_no_secret_is_shown_whatever_the_server_says(
    reply: Replying, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    mock = Mock(otherwise=lambda _: again(reply))
    with mock.server(login=Login(token=SECRET), attempts=2) as server:
        with pytest.raises(HpabatchError) as caught:
            server.fetch(ONE)
        shown = [repr(server), *mock.told, str(caught.value), repr(caught.value), caplog.text]
        shown += [repr(server.figures), repr(server.findings), *capfd.readouterr()]
    assert mock.sent[0].headers["Authorization"] == f"Bearer {SECRET}"
    assert all(SECRET not in text for text in shown)


@pytest.mark.parametrize(
    "proxy", ["http://jo:swordfish@h:port", "http://jo:sword/fish@h:1", "gopher://jo:swordfish@h:1"]
)
def test_a_proxy_that_is_none_is_a_sentence(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", proxy)
    monkeypatch.setenv("http_proxy", proxy)
    with pytest.raises(UsageError, match="a proxy of the environment cannot be used") as caught:
        Server("http://10.0.0.1:9090")
    assert "sword" not in str(caught.value)
    assert caught.value.__suppress_context__
