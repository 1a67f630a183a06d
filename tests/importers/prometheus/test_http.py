"""The client: what it sends, from many threads; retries, refusals, secrets that stay hidden."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from hpabatch.errors import HpabatchError, UsageError
from hpabatch.importers.prometheus.client.errors import Reply, error_text
from hpabatch.importers.prometheus.client.http import (
    CredentialsError,
    GaveUpError,
    Limits,
    RefusedQueryError,
    Server,
    StoppedError,
    TooMuchError,
)
from hpabatch.importers.prometheus.client.login import Login, read_login
from hpabatch.importers.prometheus.client.queries import Query, SeriesRequest
from hpabatch.importers.prometheus.request import LoginOptions
from tests.importers.prometheus.mock_server import (
    AT,
    ONE,
    TWO,
    URL,
    Clock,
    Mock,
    Replying,
    again,
    failure,
    matrix,
    page,
    success,
    trickle,
    vector,
)

# --- what is sent --------------------------------------------------------------------------------


def test_an_instant_query_is_a_form() -> None:
    mock = Mock()
    with mock.server(f"{URL}/prometheus/", Login(tenant="a")) as server:
        found = server.fetch(ONE)
    assert found.points.rows() == [(0, AT, 1.0)]
    (sent,) = mock.sent
    assert (sent.method, sent.path) == ("POST", "/prometheus/api/v1/query")
    wanted = {"query": ["up{}"], "time": ["1700000000.000"], "timeout": ["120s"]}
    assert {name: sent.fields[name] for name in wanted} == wanted
    # Fields for exact responses: a partial or rounded response is none.
    assert sent.fields["partial_response"] == ["false"]
    assert sent.fields["nocache"] == sent.fields["deny_partial_response"] == ["1"]
    assert sent.headers["X-Scope-OrgID"] == "a"
    assert sent.headers["Accept-Encoding"] == "gzip"
    assert sent.headers["User-Agent"].startswith("hpabatch/")
    assert not mock.told


def test_raw_samples_are_of_the_series_and_names_that_were_requested() -> None:
    query = Query("cpu", ("cpu_total",), labels={"pod": "pod_name"})
    ask = SeriesRequest(query, "raw", AT - 60_000, AT, {"pod": ("a", "b")})
    # Prometheus 2 gives the left end of a range, too.
    values = [(AT / 1000 - 60, "1"), (AT / 1000 - 0.001, "2")]
    others = [
        matrix([(AT / 1000 - 30, "1")], __name__="cpu_total", pod_name="c"),
        matrix([(AT / 1000 - 30, "1")], __name__="other", pod_name="b"),
        matrix([(AT / 1000 - 60.001, "1")], __name__="cpu_total", pod_name="b"),
    ]
    mock = Mock([*others, matrix(values, __name__="cpu_total", pod_name="b")])
    found = mock.server().fetch(ask)
    assert found.points["ts"].to_list() == [AT - 60_000, AT - 1]
    assert found.series["pod_name"].to_list() == ["b"]
    assert len(mock.told) == 3
    assert mock.sent[0].fields["query"] == ['cpu_total{pod_name=~"a|b"}[60000ms]']


# --- which server it is --------------------------------------------------------------------------


@pytest.mark.parametrize("reply", [failure(404, "x"), failure(403, "x"), page(), page(404)])
def test_a_server_that_says_nothing_of_itself(reply: httpx2.Response) -> None:
    server = Mock(facts=reply).server()
    assert server.build_info() == {}
    assert server.fetch(ONE).count == 1


def test_a_server_that_refuses_fields_gets_none() -> None:
    text = 'Invalid JSON payload received. Unknown name "dedup": Cannot find field.'
    mock = Mock([failure(400, text)])
    server = mock.server()
    assert server.fetch(ONE).count == 1
    assert server.fetch(ONE).count == 1
    assert [("dedup" in sent.fields) for sent in mock.sent] == [True, False, False]
    mock.replies = [failure(400, "bad_data: dedup is no function")]
    with pytest.raises(RefusedQueryError):
        server.fetch(ONE)


@pytest.mark.parametrize("status", [403, 405])
def test_a_server_without_post_gets_get(status: int) -> None:
    mock = Mock([failure(status, "POST is not allowed")])
    server = mock.server()
    assert server.fetch(ONE).count == 1
    assert server.fetch(ONE).count == 1
    assert [sent.method for sent in mock.sent] == ["POST", "GET", "GET"]
    assert mock.sent[0].fields == mock.sent[1].fields
    assert not mock.told


# --- many threads --------------------------------------------------------------------------------


def test_all_threads_wait_for_a_server_that_wants_rest() -> None:
    mock = Mock([failure(429, "x", Retry_After="30")])
    server = mock.server()
    with ThreadPoolExecutor(4) as pool:
        assert server.fetch(ONE).count == 1
        mock.replies = [failure(503, "x", Retry_After="30")]
        assert [found.count for found in pool.map(server.fetch, [ONE] * 4)] == [1] * 4
    assert mock.clock.now >= 60
    assert server.figures.paused_s >= 60


def test_a_stop_ends_waits_and_questions() -> None:
    mock = Mock(otherwise=lambda _: failure(503, "x", Retry_After="100"))
    told = threading.Event()
    server = Server(
        URL, limits=Limits(), tell=lambda _: told.set(), transport=httpx2.MockTransport(mock.reply)
    )
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(server.fetch, ONE) for _ in range(3)]
        assert told.wait(10)
        server.stop()
        for one in waiting:
            with pytest.raises(StoppedError, match="the client was stopped"):
                one.result(timeout=10)
    with pytest.raises(StoppedError):
        server.fetch(ONE)


def test_a_stop_ends_an_answer_that_is_coming() -> None:
    mock = Mock()

    def chunks() -> Iterator[bytes]:
        yield b"{"
        server.stop()
        yield b"}"

    mock.replies = [httpx2.Response(200, content=chunks())]
    server = mock.server()
    with pytest.raises(StoppedError):
        server.fetch(ONE)


# --- figures and texts ---------------------------------------------------------------------------


def test_texts_of_errors_are_one_short_line() -> None:
    text, _ = error_text(Reply(500, {}, bytearray(b"<html><style>x{}</style><b>a</b>\n c</html>")))
    assert text == "a c"
    text, kind = error_text(Reply(500, {}, bytearray(b'{"error":"a\\nb","errorType":"internal"}')))
    assert (text, kind) == ("a b", "internal")
    assert error_text(Reply(500, {}, bytearray(b'{"message":"quota"}')))[0] == "quota"
    assert error_text(Reply(500, {}, bytearray(b"\xff\xfe")))[0] == "\ufffd\ufffd"
    assert len(error_text(Reply(500, {}, bytearray(b"x" * 9999)))[0]) < 410


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
            "asks for a client certificate",
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

    server._client._transport = httpx2.MockTransport(silent)
    told = "It was tried 8 times; to continue, repeat the command with --resume"
    with pytest.raises(GaveUpError, match=told):
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


# --- what is tried again -------------------------------------------------------------------------


PASSING: list[Replying] = [
    *[failure(status, "later") for status in (408, 422, 425, 429, 500, 502, 503, 504, 520)],
    page(),
    page(502),
    httpx2.Response(200, content=b'{"status":"succ'),
    httpx2.Response(204),
    success({"resultType": "matrix", "result": []}),
    success({"resultType": "vector", "result": []}, warnings=["a store is away"]),
    vector(at_ms=AT + 1),
    vector("one"),
    httpx2.ConnectError("[Errno 111] Connection refused"),
    httpx2.ConnectTimeout("timed out"),
    httpx2.ReadTimeout("timed out"),
    httpx2.ReadError("[Errno 104] Connection reset by peer"),
    httpx2.RemoteProtocolError("peer closed connection without sending complete message body"),
    httpx2.DecodingError("Error -3 while decompressing data"),
    httpx2.ProxyError("502 Bad Gateway"),
]


@pytest.mark.parametrize("reply", PASSING, ids=range(len(PASSING)))
def test_what_may_pass_is_tried_again(reply: Replying) -> None:
    mock = Mock([again(reply)])
    server = mock.server()
    assert server.fetch(TWO).points["value"].to_list() == [1.0]
    assert len(mock.sent) == 2
    (told,) = mock.told
    assert told.startswith(URL)
    assert "retry in 1 s (2 of " in told
    assert server.figures.retries == 1
    assert 0.7 < sum(mock.clock.slept) < 1.3


def test_waits_grow_up_to_the_longest() -> None:
    mock = Mock(otherwise=lambda _: failure(500, "x"))
    with pytest.raises(GaveUpError):
        mock.server(longest_wait_s=20).fetch(ONE)
    waits = mock.clock.slept
    assert len(waits) == 7
    for wait, about in zip(waits, (1, 2, 4, 8, 16, 20, 20), strict=True):
        assert 0.75 * about <= wait <= min(20, 1.25 * about)


def test_an_address_where_nobody_is_is_told_of_soon() -> None:
    refused = httpx2.ConnectError("[Errno -2] Name or service not known")

    def reply(request: httpx2.Request) -> httpx2.Response:
        raise refused

    clock = Clock()
    server = Server(URL, clock=clock, sleep=clock.sleep, transport=httpx2.MockTransport(reply))
    with pytest.raises(GaveUpError, match=r"cannot be reached.*It was tried 4 times"):
        server.build_info()
    assert sum(clock.slept) < 10


# --- Retry-After ---------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_server_is_left_alone_as_long_as_it_asks(status: int) -> None:
    mock = Mock([failure(status, "x", Retry_After="17")])
    assert mock.server().fetch(ONE).count == 1
    assert mock.clock.slept == [17.0]
    mock = Mock([failure(status, "x", Retry_After="Mon, 01 Jan 2029 00:00:00 GMT")])
    assert mock.server().fetch(ONE).count == 1
    assert mock.clock.now < 2
    mock = Mock([failure(status, "x", Retry_After="86400")])
    assert mock.server(longest_wait_s=60).fetch(ONE).count == 1
    assert mock.clock.slept == [60.0]


def test_loopback_is_asked_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://10.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "")
    with Server("http://127.0.0.1:9090") as near, Server("http://prom:9090") as far:
        assert (near._proxy(), far._proxy()) == (None, "http://10.0.0.1:9")
