"""Queries for a server: names of series and labels, PromQL, requests and their halves."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.errors import UsageError
from hpabatch.importers.prometheus.client.queries import (
    BUILT_IN,
    SHORTEST_MS,
    Query,
    RangeRequest,
    SeriesRequest,
    need,
    read_queries,
)
from hpabatch.importers.prometheus.reading.window import DAY_MS
from hpabatch.importers.prometheus.request import PrometheusRequest
from tests.importers.mutations import says
from tests.importers.prometheus.made import made


def write(folder: Path, text: str) -> Path:
    path = folder / "queries.yaml"
    path.write_text(text)
    return path


def test_a_copy_of_the_built_in_file_changes_nothing() -> None:
    assert read_queries(BUILT_IN) == read_queries()


def test_a_users_file_changes_what_it_names_only(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "labels: {pod: exported_pod}\n"
        "queries:\n  cpu: {series: [my_cpu], labels: {container: container_name}}\n"
        "scalables:\n  Rollout: {label: rollout, spec: rollout_replicas}\n",
    )
    usual, found = read_queries(), read_queries(path)
    cpu = found.queries["cpu"]
    assert cpu.series == ("my_cpu",)
    assert cpu.where == ""  # what the usual series needs need not fit another
    assert cpu.labels == {"pod": "exported_pod", "container": "container_name"}
    assert found.queries["memory"].where == usual.queries["memory"].where
    assert found.queries["memory"].their("pod") == "exported_pod"
    assert found.scalables["Rollout"].status == "rollout_replicas"
    assert set(usual.scalables) < set(found.scalables)
    assert found != usual


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("queries: {cpus: {series: [x]}}", "did you mean cpu"),
        (
            "queries: {cpu: {series: ['a b']}}",
            "queries.cpu.series[0]: expected the name of a series, got 'a b'",
        ),
        (
            "queries: {cpu: {serie: [x]}}",
            "queries.cpu.serie: expected one of series, where, labels, got 'serie'",
        ),
        ("labels: {pod: 'a-b'}", "labels.pod: expected the name of a label, got 'a-b'"),
        (
            "scalables: {X: {label: x}}",
            "scalables.X.spec: expected the name of a series, got nothing",
        ),
        ("other: 1", "other: expected one of labels, queries, scalables, got 'other'"),
        ("[1]", "expected a mapping, got a list"),
    ],
)
def test_mistakes_are_told_with_their_place(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_queries(write(tmp_path, text))
    assert says(str(caught.value), told)
    assert "queries.yaml" in str(caught.value)


def test_the_series_that_are_there_stay_in_their_order() -> None:
    queries = read_queries()
    beats = queries.queries["heartbeat"].series
    found = queries.present([beats[1], beats[0], "kube_pod_info"])
    assert found["heartbeat"].series == beats
    assert set(found) == {"heartbeat", "pod_info"}


def test_what_is_indispensable_is_named() -> None:
    queries = read_queries()
    with pytest.raises(UsageError, match="kube_horizontalpodautoscaler_info"):
        need({}, queries, "hpa_info")


def test_limits_and_the_way_to_the_server_do_not_make_another_source() -> None:
    one = PrometheusRequest(url="http://localhost:40001/", max_samples=5, start="-1d", step_ms=5)
    assert one.source() == PrometheusRequest(url="http://x:9090").source()
    assert one.source() != PrometheusRequest(url="http://x:9090", namespace=("a",)).source()


def test_an_import_that_an_older_version_began_keeps_its_name() -> None:
    assert PrometheusRequest(url="http://x:9090").source() == "24bc0e0420b8"
    chosen = PrometheusRequest(
        url="http://x:9090", namespace=("b", "a", "b"), cluster="c", cluster_label="l",
        all_workloads=True, tenant="t",
    )  # fmt: skip
    assert chosen.source() == "f0cb7b86dfdd"


def test_times_relative_to_now_and_those_that_are_none() -> None:
    now_ms = 1_790_000_000_000
    request = PrometheusRequest(url="http://x:9090", start="-1d", end="1970-01-01T00:00:01Z")
    assert request.span_ms(now_ms) == (now_ms - DAY_MS, 1000)
    assert PrometheusRequest(url="http://x:9090").span_ms(now_ms) == (None, None)
    with pytest.raises(UsageError, match="--end: expected a time"):
        PrometheusRequest(url="http://x:9090", end="later").span_ms(now_ms)


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
