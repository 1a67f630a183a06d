"""The client: what it sends, to which server, from many threads, and what it counts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from hpabatch.importers.prometheus.client.http import (
    Limits,
    RefusedQueryError,
    Server,
    StoppedError,
)
from hpabatch.importers.prometheus.client.login import Login
from hpabatch.importers.prometheus.client.queries import Query
from hpabatch.importers.prometheus.client.replies import Reply, error_text
from hpabatch.importers.prometheus.client.series_requests import (
    RangeRequest,
    SeriesRequest,
)
from hpabatch.importers.prometheus.client.wire import GOOD_ANSWERS, Gate
from tests.importers.prometheus.mock_server import (
    AT,
    ONE,
    URL,
    Clock,
    Mock,
    failure,
    matrix,
    page,
    success,
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


def test_a_range_query() -> None:
    mock = Mock([matrix([(60, "1"), (120, "2")], pod="a")])
    server = mock.server()
    found = server.fetch(RangeRequest("x", "sum(x)", 0, 190_000, 60_000))
    assert found.points["ts"].to_list() == [60_000, 120_000]
    (sent,) = mock.sent
    assert sent.path == "/api/v1/query_range"
    assert (sent.fields["start"], sent.fields["end"]) == (["60.000"], ["180.000"])
    assert sent.fields["step"] == ["60.000"]
    assert server.fetch(RangeRequest("x", "sum(x)", 0, 50_000, 60_000)).count == 0
    assert len(mock.sent) == 1, "there is no such instant"


def test_values_of_a_label() -> None:
    mock = Mock([success(["b", "a"])])
    assert mock.server().label_values("pod", ['x{a="b"}', "y"], 1000, 2000) == ["a", "b"]
    (sent,) = mock.sent
    assert (sent.method, sent.path) == ("GET", "/api/v1/label/pod/values")
    wanted = {"match[]": ['x{a="b"}', "y"], "start": ["1.000"], "end": ["2.000"]}
    assert {name: sent.fields[name] for name in wanted} == wanted


def test_names_of_labels() -> None:
    mock = Mock([failure(405, "no"), success(["b", "a"])])
    assert mock.server().label_names(["x"], 1000, 2000) == ["a", "b"]
    assert [(sent.method, sent.path) for sent in mock.sent] == [
        ("POST", "/api/v1/labels"),
        ("GET", "/api/v1/labels"),
    ]


# --- which server it is --------------------------------------------------------------------------


@pytest.mark.parametrize("reply", [failure(404, "x"), failure(403, "x"), page(), page(404)])
def test_a_server_that_says_nothing_of_itself(reply: httpx2.Response) -> None:
    server = Mock(facts=reply).server()
    assert server.build_info() == {}
    assert server.fetch(ONE).count == 1


def test_what_a_server_says_of_itself() -> None:
    facts = {"version": "0.37.2", "goVersion": "go1.24", "features": {}}
    found = Mock(facts=facts).server().build_info()
    assert found == {"version": "0.37.2", "goVersion": "go1.24"}


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
