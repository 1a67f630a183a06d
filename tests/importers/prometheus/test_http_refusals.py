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
from hpabatch.importers.prometheus.request import LoginOptions
from tests.importers.prometheus.mock_server import (
    AT,
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
        ([failure(422, "found duplicate series for the match group")], RefusedQueryError, "422"),
        ([failure(406, "no such format")], RefusedQueryError, "406"),
        ([failure(401, "who are you")], CredentialsError, "missing, wrong or outdated"),
        ([failure(403, "no"), failure(403, "no")], CredentialsError, "another token, user"),
        ([failure(404, "page not found")], UsageError, "No Prometheus API is there"),
        ([failure(400, 'unsupported path requested: "/x"')], UsageError, "No Prometheus API"),
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
        mock.server().instant("up", AT)
    assert len(mock.sent) == count
    assert mock.clock.slept == []
    assert SECRET not in str(caught.value)
    assert str(caught.value).startswith(URL)


# --- what is too large ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "text", "reason"),
    [
        # Prometheus, and what runs its engine
        (422, "query processing would load too many samples into memory in query execution",
         "samples"),
        (400, "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the "
         "query resolution (?step=XX)", "samples"),
        # Mimir
        (422, "the query exceeded the maximum number of series (limit: 5 series) "
         "(err-mimir-max-series-per-query). Consider reducing the time range", "samples"),
        (422, "the query exceeded the maximum number of chunks (limit: 2 chunks) "
         "(err-mimir-max-chunks-per-query). Consider", "samples"),
        (422, "(err-mimir-max-estimated-memory-consumption-per-query)", "samples"),
        (422, "the query time range exceeds the limit (err-mimir-max-query-length)", "samples"),
        (422, "the total query time range exceeds the limit (err-mimir-max-total-query-length)",
         "samples"),
        (400, "the raw query size exceeds (err-mimir-max-query-expression-size-bytes)", "query"),
        # Cortex
        (422, "the query hit the max number of chunks limit (limit: 2 chunks)", "samples"),
        (422, "the query hit the aggregated chunks size limit (limit: 5 bytes)", "samples"),
        (422, "the query time range exceeds the limit (query length: 2d, limit: 1d)", "samples"),
        # Thanos
        (422, "expanding series: proxy Series(): rpc error: code = Aborted desc = fetch series: "
         "rpc error: code = ResourceExhausted desc = exceeded series limit: limit 5 violated "
         "(got 6)", "samples"),
        (422, "exceeded samples limit: limit 1200 violated (got 2400)", "samples"),
        (422, "rpc error: code = Internal desc = received message larger than max (5 vs. 4)",
         "samples"),
        # VictoriaMetrics
        (422, "cannot select more than -search.maxSamplesPerQuery=5 samples; possible solutions",
         "samples"),
        (422, "the number of matching timeseries exceeds 5; either narrow down the search",
         "samples"),
        (422, "the number of matching unique timeseries exceeds 300000", "samples"),
        (422, "too many points for the given step=1, start=1 and end=9: 9", "samples"),
        (422, "not enough memory for processing 9 data points across 3 time series", "samples"),
        (422, "too long query; got 9 bytes; mustn't exceed `-search.maxQueryLen=5` bytes",
         "query"),
        # whoever stands before them
        (413, "", "bytes"),
        (414, "", "query"),
        (431, "", "query"),
        (400, "error parsing form values: http: request body too large", "query"),
        (503, "query processing would load too many samples", "samples"),
    ],
)  # fmt: skip
def test_too_much(status: int, text: str, reason: str) -> None:
    mock = Mock([failure(status, text)])
    with pytest.raises(TooMuchError, match=f"responds with status {status}") as caught:
        mock.server().instant("up", AT)
    assert caught.value.reason == reason
    assert len(mock.sent) == 1


def test_too_much_with_status_200() -> None:
    text = '{"status":"error","error":"would load too many samples into memory"}'
    mock = Mock([httpx2.Response(200, content=text)])
    with pytest.raises(TooMuchError):
        mock.server().instant("up", AT)


def test_an_answer_larger_than_we_take() -> None:
    mock = Mock()
    mock.replies = [trickle(mock.clock, 0, b" " * 300_000)]
    with pytest.raises(TooMuchError, match="more than 1 MiB") as caught:
        mock.server(response_bytes=2**20).instant("up", AT)
    assert caught.value.reason == "bytes"
    assert len(mock.sent) == 1


SLOW: list[Replying] = [
    failure(503, "query timed out in expression evaluation", "timeout"),
    failure(504, "gateway"),
    page(504),
    failure(422, "timeout exceeded during query execution: 30.000 seconds; the timeout can be "
            "adjusted with `-search.maxQueryDuration` command-line flag"),
    failure(422, "rpc error: code = DeadlineExceeded desc = context deadline exceeded"),
]  # fmt: skip


@pytest.mark.parametrize("reply", SLOW)
def test_a_question_that_takes_too_long_twice_is_too_large(reply: httpx2.Response) -> None:
    mock = Mock(otherwise=lambda _: again(reply))
    with pytest.raises(TooMuchError, match="twice") as caught:
        mock.server().instant("up", AT)
    assert caught.value.reason == "time"
    assert len(mock.sent) == 2
    once = Mock([again(reply)])
    assert once.server().instant("up", AT).count == 1


def test_a_full_queue_is_no_large_question() -> None:
    text = "query timed out in query queue"
    mock = Mock(otherwise=lambda _: failure(503, text, "timeout"))
    with pytest.raises(GaveUpError, match="query queue"):
        mock.server().instant("up", AT)
    assert len(mock.sent) == 8


def test_an_answer_that_trickles() -> None:
    mock = Mock()
    mock.replies = [trickle(mock.clock, 100), trickle(mock.clock, 100)]
    with pytest.raises(TooMuchError, match="still coming after 480 s"):
        mock.server().instant("up", AT)


def test_silence_is_a_large_question_if_the_server_still_says_other_things() -> None:
    mock = Mock(otherwise=lambda _: httpx2.ReadTimeout(""))
    with pytest.raises(TooMuchError, match="sent no reply for 135 s, twice"):
        mock.server().instant("up", AT)


def test_silence_is_a_dead_server_if_it_says_nothing_at_all() -> None:
    mock = Mock()
    server = mock.server()
    assert server.instant("up", AT).count == 1

    def silent(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ReadTimeout("", request=request)

    server._wire._client._transport = httpx2.MockTransport(silent)
    with pytest.raises(GaveUpError, match="It was tried 8 times"):
        server.instant("up", AT)


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
    assert server.instant("up", AT).count == 1
    assert server.instant("up", AT).count == 1
    assert [s.headers["Authorization"][7:] for s in mock.sent] == ["old", "new", "new"]
    assert mock.told == []
    mock.otherwise = lambda _: failure(401, "expired")
    path.write_text("newer")
    with pytest.raises(CredentialsError):
        server.instant("up", AT)
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
            server.instant("up", AT)
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


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    mock = Mock([failure(500, "x")])
    mock.server().instant("up", AT)
    assert capfd.readouterr() == ("", "")
