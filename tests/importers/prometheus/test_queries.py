"""Names of series and labels, and the options of an import."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpabatch.errors import UsageError
from hpabatch.importers.prometheus.client.queries import BUILT_IN, need, read_queries
from hpabatch.importers.prometheus.request import PrometheusRequest
from hpabatch.importers.prometheus.windows import DAY_MS
from tests.importers.mutations import says


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
    rates = queries.queries["cpu_rate"].series
    found = queries.present([rates[2], rates[1], "kube_pod_info"])
    assert found["cpu_rate"].series == (rates[1], rates[2])
    assert set(found) == {"cpu_rate", "pod_info"}


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
