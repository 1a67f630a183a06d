from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from hpabatch.importers.prometheus.client.queries import Query
from hpabatch.importers.prometheus.client.series_requests import (
    SHORTEST_MS,
    RangeRequest,
    SeriesRequest,
)
from tests.importers.prometheus.made import made

HOUR = 3_600_000
CPU = Query("cpu", ("container_cpu_usage_seconds_total",), 'container!=""')


def test_promql_names_its_objects_and_the_extra_matchers() -> None:
    ask = SeriesRequest(CPU, "raw", 0, HOUR, {"pod": ("web-1", "web.2"), "namespace": ("shop",)})
    assert ask.promql() == (
        'container_cpu_usage_seconds_total{namespace="shop",pod=~"web-1|web\\\\.2",container!=""}'
        "[3600000ms]"
    )


def test_quotes_and_backslashes_in_names_are_escaped() -> None:
    ask = SeriesRequest(Query("x", ("x",)), "now", 0, 1, {"pod": ('a"b\\c',)})
    assert ask.promql() == 'x{pod="a\\"b\\\\c"}'


def test_site_names_of_labels_are_asked_for_and_come_back_as_ours() -> None:
    query = Query("x", ("x",), "", {"pod": "exported_pod"})
    ask = SeriesRequest(query, "raw", 0, 100, {"pod": ("a",)})
    assert ask.promql() == 'x{exported_pod="a"}[100ms]'
    assert ask.expected().must["exported_pod"] == frozenset({"a"})
    response = made([({"exported_pod": "a", "pod": "ksm-0"}, [(0, 1.0), (50, 2.0)])])
    found = ask.ours(response)
    assert found.series["pod"].to_list() == ["a"]
    # Prometheus 2 gives the instant at the left end too, which is another window's.
    assert found.points["ts"].to_list() == [50]


@given(st.integers(0, 10**6), st.integers(1, 5 * HOUR), st.integers(1, 9))
def test_halves_cover_a_question_once(begin: int, length: int, count: int) -> None:
    pods = tuple(f"p{k}" for k in range(count))
    whole = SeriesRequest(CPU, "raw", begin, begin + length, {"pod": pods})
    leaves, waiting = [], [whole]
    while waiting:
        ask = waiting.pop()
        halves = ask.halves()
        if halves is None:
            leaves.append(ask)
        else:
            waiting += halves
    cells = sorted((pod, a.from_ms, a.until_ms) for a in leaves for pod in a.names["pod"])
    for pod in pods:
        mine = [(a, b) for name, a, b in cells if name == pod]
        assert mine[0][0] == begin
        assert mine[-1][1] == begin + length
        assert all(x[1] == y[0] for x, y in pairwise(mine))
    assert all(len(a.names["pod"]) == 1 for a in leaves)
    assert all(a.until_ms - a.from_ms < 2 * SHORTEST_MS for a in leaves)


def test_facts_are_divided_by_name_only() -> None:
    ask = SeriesRequest(CPU, "max", 0, HOUR, {"pod": ("a", "b", "c")})
    halves = ask.halves()
    assert halves is not None
    assert [half.names["pod"] for half in halves] == [("a",), ("b", "c")]
    assert SeriesRequest(CPU, "max", 0, HOUR, {"pod": ("a",)}).halves() is None


@given(st.integers(0, 10**6), st.integers(1, 10**6), st.integers(1, 10**5))
def test_halves_of_a_range_evaluate_the_same_instants(begin: int, length: int, step: int) -> None:
    def instants(ask: RangeRequest) -> list[int]:
        return list(range(ask.first_ms, ask.last_ms + 1, step))

    whole = RangeRequest("m", "up", begin, begin + length, step)
    assert all(begin < ms <= begin + length for ms in instants(whole))
    halves = whole.halves()
    if halves is None:
        assert len(instants(whole)) <= 1
    else:
        assert instants(halves[0]) + instants(halves[1]) == instants(whole)
        assert instants(halves[0])
        assert instants(halves[1])


def test_keys_tell_questions_apart() -> None:
    ask = SeriesRequest(CPU, "raw", 0, HOUR, {"pod": ("a",)})
    others = [
        SeriesRequest(CPU, "raw", 0, HOUR, {"pod": ("b",)}),
        SeriesRequest(CPU, "raw", 1, HOUR, {"pod": ("a",)}),
        SeriesRequest(CPU, "raw", 0, HOUR + 1, {"pod": ("a",)}),
        SeriesRequest(CPU, "now", 0, HOUR, {"pod": ("a",)}),
    ]
    assert len({ask.key(), *(other.key() for other in others)}) == 5
