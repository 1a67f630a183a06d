"""The client: what it sends, to which server, from many threads, and what it counts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.errors import UsageError
from hpabatch.importers.prometheus.client.gate import GOOD_ANSWERS, Gate
from hpabatch.importers.prometheus.client.http import (
    Limits,
    RefusedQueryError,
    Server,
    StoppedError,
)
from hpabatch.importers.prometheus.client.login import Login
from hpabatch.importers.prometheus.client.params import expected_at, expected_in_steps, seconds
from hpabatch.importers.prometheus.client.queries import Query
from hpabatch.importers.prometheus.client.replies import Reply, error_text, flavour_of
from hpabatch.importers.prometheus.client.responses import Expected
from hpabatch.importers.prometheus.client.series_requests import RangeRequest, SeriesRequest
from tests.importers.prometheus.mock_server import (
    AT,
    URL,
    Clock,
    Mock,
    failure,
    matrix,
    page,
    success,
    vector,
)

SECRET = "s3cr3t-Zx9"


# --- what is sent --------------------------------------------------------------------------------


def test_an_instant_query_is_a_form() -> None:
    mock = Mock()
    with mock.server(f"{URL}/prometheus/", Login(tenant="a")) as server:
        found = server.instant("up", AT)
    assert found.points.rows() == [(0, AT, 1.0)]
    (sent,) = mock.sent
    assert (sent.method, sent.path) == ("POST", "/prometheus/api/v1/query")
    assert sent.fields == {"query": ["up"], "time": ["1700000000.000"], "timeout": ["120s"]}
    assert sent.headers["X-Scope-OrgID"] == "a"
    assert sent.headers["Accept-Encoding"] == "gzip"
    assert sent.headers["User-Agent"].startswith("hpabatch/")
    assert not mock.told


def test_a_query_that_ends_in_a_range_gives_raw_samples() -> None:
    values = [(AT / 1000 - 60, "1"), (AT / 1000 - 0.001, "2")]
    mock = Mock([matrix(values, pod="a")])
    found = mock.server().instant("x[1m]", AT, must={"pod": {"a"}})
    assert found.points["ts"].to_list() == [AT - 60_000, AT - 1]


def test_a_range_query() -> None:
    mock = Mock([matrix([(60, "1"), (120, "2")], pod="a")])
    found = mock.server().ranged("up", 60_000, 180_000, 60_000)
    assert found.points["ts"].to_list() == [60_000, 120_000]
    (sent,) = mock.sent
    assert sent.path == "/api/v1/query_range"
    assert (sent.fields["start"], sent.fields["end"]) == (["60.000"], ["180.000"])
    assert sent.fields["step"] == ["60.000"]


def test_values_of_a_label() -> None:
    mock = Mock([success(["b", "a"])])
    assert mock.server().label_values("pod", ['x{a="b"}', "y"], 1000, 2000) == ["a", "b"]
    (sent,) = mock.sent
    assert (sent.method, sent.path) == ("GET", "/api/v1/label/pod/values")
    assert sent.fields == {"match[]": ['x{a="b"}', "y"], "start": ["1.000"], "end": ["2.000"]}


def test_names_of_labels() -> None:
    mock = Mock([failure(405, "no"), success(["b", "a"])])
    assert mock.server().label_names(["x"], 1000, 2000) == ["a", "b"]
    assert [(sent.method, sent.path) for sent in mock.sent] == [
        ("POST", "/api/v1/labels"),
        ("GET", "/api/v1/labels"),
    ]
    assert mock.sent[1].fields == {"match[]": ["x"], "start": ["1.000"], "end": ["2.000"]}


def test_questions() -> None:
    query = Query("cpu", ("cpu_total",), labels={"pod": "pod_name"})
    ask = SeriesRequest(query, "raw", AT - 60_000, AT, {"pod": ("a", "b")})
    right = matrix([(AT / 1000 - 30, "1")], __name__="cpu_total", pod_name="b")
    others = [
        matrix([(AT / 1000 - 30, "1")], __name__="cpu_total", pod_name="c"),
        matrix([(AT / 1000 - 30, "1")], __name__="other", pod_name="b"),
    ]
    mock = Mock([*others, right])
    server = mock.server()
    assert server.fetch(ask).series["pod_name"].to_list() == ["b"]
    assert len(mock.told) == 2
    assert mock.sent[0].fields["query"] == ['cpu_total{pod_name=~"a|b"}[60000ms]']
    mock.replies = [matrix([(60, "1")])]
    assert server.fetch(RangeRequest("x", "sum(x)", 0, 100_000, 60_000)).count == 1
    assert mock.sent[-1].fields["start"] == ["60.000"]
    sent = len(mock.sent)
    assert server.fetch(RangeRequest("x", "sum(x)", 0, 50_000, 60_000)).count == 0
    assert len(mock.sent) == sent, "there is no such instant"


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("up", (AT, AT, "vector")),
        ("sum(rate(x[5m])) by (pod)", (AT, AT, "vector")),
        ('x{a="[5m]"}', (AT, AT, "vector")),
        ("x offset 5m", (AT, AT, "vector")),
        ("x[5m]", (AT - 300_000, AT, "matrix")),
        ("x[1h30m] ", (AT - 5_400_000, AT, "matrix")),
        ("x[90000ms]", (AT - 90_000, AT, "matrix")),
        ("x[1d]", (AT - 86_400_000, AT, "matrix")),
        ("max(x)[1h:5m]", (AT - 3_600_000, AT, "matrix")),
        ("x[5m] offset 1d", (0, 2**43, "matrix")),
        ("x[5m] offset -1d", (0, 2**43, "matrix")),
        ("x[5m] @ 1700000000", (0, 2**43, "matrix")),
        ("x[5m] @ end() offset 5m", (0, 2**43, "matrix")),
    ],
)
def test_what_an_answer_has_to_be(query: str, asked: tuple[int, int, str]) -> None:
    found = expected_at(query, AT, {})
    assert (found.from_ms, found.until_ms, found.kind) == asked


def test_a_start_that_a_server_may_move() -> None:
    assert expected_in_steps(60_000, 90_000, 30_000, {}).from_ms == 60_000
    assert expected_in_steps(61_000, 90_000, 30_000, {}) == Expected(
        31_000, 90_000, {}, "matrix", 30_000
    )
    for moved in (60, 61):
        mock = Mock([matrix([(moved, "1")])])
        assert mock.server().ranged("x", 61_000, 90_000, 30_000).count == 1


@given(st.integers(0, 2**43))
def test_times_are_written_to_the_millisecond(ms: int) -> None:
    assert round(float(seconds(ms)) * 1000) == ms


# --- which server it is --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "flavour"),
    [
        ({"version": "2.42.0", "goVersion": "go1.19"}, "prometheus"),
        ({"version": "3.5.0", "goVersion": "go1.24"}, "prometheus"),
        ({"version": "v0.37.2", "goVersion": "go1.24"}, "thanos"),
        ({"application": "Grafana Mimir", "version": "2.16", "goVersion": "x"}, "mimir"),
        ({"application": "Grafana Enterprise Metrics", "version": "v2"}, "mimir"),
        ({"application": "Cortex", "version": "1.19.0", "goVersion": "x"}, "cortex"),
        ({"version": "2.24.0"}, "victoriametrics"),
        ({"version": "", "goVersion": "x"}, "unknown"),
        ({"application": "Other", "version": "1.0", "goVersion": "x"}, "unknown"),
        ({}, "unknown"),
    ],
)
def test_flavours(facts: dict[str, str], flavour: str) -> None:
    assert flavour_of(facts) == flavour
    assert Mock(facts=facts).server().flavour == flavour


@pytest.mark.parametrize("reply", [failure(404, "x"), failure(403, "x"), page(), page(404)])
def test_a_server_that_says_nothing_of_itself(reply: httpx2.Response) -> None:
    mock = Mock(facts=reply)
    server = mock.server()
    assert server.build_info() == {}
    assert server.flavour == "unknown"
    assert server.instant("up", AT).count == 1


def test_what_a_server_says_of_itself() -> None:
    facts = {"version": "0.37.2", "goVersion": "go1.24", "features": {}}
    assert Mock(facts=facts).server().build_info() == {
        "flavour": "thanos", "version": "0.37.2", "goVersion": "go1.24",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "names"),
    [
        ({"version": "2.42.0", "goVersion": "x"}, set()),
        (
            {"version": "0.37.2", "goVersion": "x"},
            {"dedup", "partial_response", "max_source_resolution"},
        ),
        ({"version": "2.24.0"}, {"nocache", "deny_partial_response"}),
        (
            {},
            {"dedup", "partial_response", "max_source_resolution", "nocache",
             "deny_partial_response"},
        ),
    ],
)  # fmt: skip
def test_fields_that_a_flavour_needs(facts: dict[str, str], names: set[str]) -> None:
    mock = Mock(facts=facts)
    mock.server().instant("up", AT)
    assert set(mock.sent[0].fields) == {"query", "time", "timeout", *names}


def test_an_unknown_server_that_refuses_fields_gets_none() -> None:
    text = 'Invalid JSON payload received. Unknown name "dedup": Cannot find field.'
    mock = Mock([failure(400, text)], facts=page())
    server = mock.server()
    assert server.instant("up", AT).count == 1
    assert server.instant("up", AT).count == 1
    assert [("dedup" in sent.fields) for sent in mock.sent] == [True, False, False]
    mock.replies = [failure(400, "bad_data: dedup is no function")]
    with pytest.raises(RefusedQueryError):
        server.instant("dedup(up)", AT)


@pytest.mark.parametrize("status", [403, 405])
def test_a_server_without_post_gets_get(status: int) -> None:
    mock = Mock([failure(status, "POST is not allowed")])
    server = mock.server()
    assert server.instant("up", AT).count == 1
    assert server.instant("up", AT).count == 1
    assert [sent.method for sent in mock.sent] == ["POST", "GET", "GET"]
    assert mock.sent[0].fields == mock.sent[1].fields
    assert not mock.told


# --- many threads --------------------------------------------------------------------------------


def test_all_threads_wait_for_a_server_that_wants_rest() -> None:
    clock = Clock()
    gate = Gate(4, clock, clock.sleep)
    with gate.request() as begun, gate.request():
        gate.slow_down(30, begun)
        gate.slow_down(10, begun)  # both were told; the longer counts, and one halving
    assert gate.allowed == 2
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: _pass(gate), range(4)))
    assert clock.now >= 30
    assert gate.paused_s >= 30


def _pass(gate: Gate) -> float:
    with gate.request() as begun:
        return begun


def test_fewer_requests_after_a_push_back_and_more_after_good_answers() -> None:
    clock = Clock()
    gate = Gate(4, clock, clock.sleep)
    for allowed in (2, 1, 1):
        clock.now += 1
        with gate.request() as begun:
            gate.slow_down(0, begun)
        assert gate.allowed == allowed
    for allowed in (2, 3, 4, 4):
        for _ in range(GOOD_ANSWERS):
            gate.answered()
        assert gate.allowed == allowed
    for _ in range(GOOD_ANSWERS - 1):
        gate.answered()
    clock.now += 1
    gate.slow_down(0, clock.now)
    gate.answered()
    assert gate.allowed == 2, "good responses in a row count"


def test_no_more_requests_at_once_than_allowed() -> None:
    busy, most, lock = 0, 0, threading.Lock()
    both = threading.Barrier(2, timeout=10)

    def reply(_: Any) -> httpx2.Response:
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        both.wait()  # two are there at once, or this fails
        with lock:
            busy -= 1
        return vector()

    mock = Mock(otherwise=reply)
    with mock.server(concurrency=2) as server, ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda _: server.instant("up", AT).count, range(12)))
    assert found == [1] * 12
    assert most == 2
    assert len([s for s in mock.sent if s.path.endswith("query")]) == 12


def test_a_stop_ends_waits_and_questions() -> None:
    mock = Mock(otherwise=lambda _: failure(503, "x", Retry_After="100"))
    told = threading.Event()
    server = Server(
        URL, limits=Limits(), tell=lambda _: told.set(), transport=httpx2.MockTransport(mock.reply)
    )
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(server.instant, "up", AT) for _ in range(3)]
        assert told.wait(10)
        server.stop()
        for one in waiting:
            with pytest.raises(StoppedError, match="the client was stopped"):
                one.result(timeout=10)
    with pytest.raises(StoppedError):
        server.instant("up", AT)


def test_a_stop_ends_an_answer_that_is_coming() -> None:
    mock = Mock()

    def chunks() -> Iterator[bytes]:
        yield b"{"
        server.stop()
        yield b"}"

    mock.replies = [httpx2.Response(200, content=chunks())]
    server = mock.server()
    with pytest.raises(StoppedError):
        server.instant("up", AT)


# --- figures and texts ---------------------------------------------------------------------------


def test_figures() -> None:
    mock = Mock([failure(503, "x", Retry_After="5"), httpx2.ReadError("x")])
    server = mock.server()
    server.instant("up", AT)
    mock.replies = [matrix([(AT / 1000 - 1, "1"), (AT / 1000, "2")])]
    server.instant("x[5m]", AT)
    found = server.figures
    assert found.requests == 5  # one for the build information
    assert found.retries == 2
    assert found.by_status == {200: 3, 503: 1, 0: 1}
    assert (found.samples, found.largest_samples) == (3, 2)
    assert 0 < found.largest_bytes < found.bytes
    assert found.paused_s == 5.0
    found.by_status.clear()
    assert server.figures.by_status[200] == 3, "a copy"


def test_texts_of_errors_are_one_short_line() -> None:
    text, _ = error_text(Reply(500, {}, bytearray(b"<html><style>x{}</style><b>a</b>\n c</html>")))
    assert text == "a c"
    text, kind = error_text(Reply(500, {}, bytearray(b'{"error":"a\\nb","errorType":"internal"}')))
    assert (text, kind) == ("a b", "internal")
    assert error_text(Reply(500, {}, bytearray(b'{"message":"quota"}')))[0] == "quota"
    assert error_text(Reply(500, {}, bytearray(b"\xff\xfe")))[0] == "\ufffd\ufffd"
    assert len(error_text(Reply(500, {}, bytearray(b"x" * 9999)))[0]) < 410


def test_a_wrong_address_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match="holds a user or a password"):
        Server(f"http://a:{SECRET}@prom")
