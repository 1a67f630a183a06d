"""The stand-in of the benchmark answers as a real Prometheus does that holds the same samples."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.prometheus_standin import StandIn
from benchmarks.prometheus_standin_answer import Answers
from benchmarks.prometheus_standin_fleet import DAY, MINUTE_MS, Fleet
from tests.real.openmetrics_text import write_openmetrics
from tests.real.openmetrics_write import with_stale_ends, write_blocks
from tests.real.prometheus import ask, backfill, missing, running_prometheus
from tests.real.standin_families import families

FLEET = Fleet(pods=20, namespaces=2, days=2)
NOON = FLEET.start_ms + (DAY + 610) * MINUTE_MS


@contextmanager
def serving(answers: Answers, gzip_level: int = 0) -> Iterator[StandIn]:
    with StandIn(answers, gzip_level=gzip_level) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Yield the addresses of the stand-in and of a real server with the same samples."""
    folder = tmp_path_factory.mktemp("standin")
    made = families(FLEET)
    gauges = [family for family in made if family.name.startswith("kube")]
    grid = np.unique(np.concatenate([family.ts for family in gauges]))
    backfill(
        write_openmetrics([f for f in made if f not in gauges], folder / "text"), folder / "data"
    )
    ended = [with_stale_ends(family, grid) for family in gauges]
    write_blocks(ended, folder / "server", folder / "data")
    with serving(Answers(FLEET)) as server, running_prometheus(folder, folder / "data") as url:
        yield server.url, url


POD = FLEET.lives[3]
PODS = "|".join(pod.name for pod in FLEET.lives[:30])
SELECTORS = [
    f'container_cpu_usage_seconds_total{{namespace="{POD.namespace}",pod=~"{PODS}",'
    'container!="",container!="POD"}',
    'container_memory_working_set_bytes{container="app",namespace!="ns-01"}',
    "container_cpu_usage_seconds_total",
    "kube_pod_owner",
    'kube_pod_status_phase{namespace=~"ns-0[01]"}',
    'kube_pod_status_ready{condition="true"}',
    "kube_pod_status_ready_time",
    f'kube_pod_container_resource_requests{{pod=~"{PODS}",resource=~"cpu|memory"}}',
    'kube_deployment_spec_replicas{deployment=~"app-0001|app\\\\.0002"}',
    "kube_horizontalpodautoscaler_status_target_metric",
    "kube_horizontalpodautoscaler_status_condition",
    '{__name__=~"kube_pod_info|kube_namespace_created|kubernetes_build_info"}',
    'kube_pod_info{pod="nobody"}',
]
TIMES = [NOON, FLEET.start_ms + 30_000, FLEET.start_ms + 700 * MINUTE_MS + 5_000, FLEET.end_ms]

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


def told(found: Any) -> dict[str, Any]:
    """Return an answer's series by their labels, with numbers as numbers."""
    rows = {}
    for one in found["result"]:
        samples = one["values"] if "values" in one else [one["value"]]
        key = json.dumps(one["metric"], sort_keys=True)
        assert key not in rows
        rows[key] = [(round(seconds * 1000), float(value)) for seconds, value in samples]
    return {"type": found["resultType"], "rows": rows}


@pytest.mark.parametrize("selector", SELECTORS)
def test_raw_samples_and_vectors_are_the_same(urls: tuple[str, str], selector: str) -> None:
    queries = [selector, *(f"{selector}[{length}]" for length in ("1h", "90500ms", "60s", "1d1h"))]
    queries += [
        f"{name}_over_time({selector}[6h])"
        for name in ("last", "min", "max", "count", "present")
        if "__name__" not in selector  # would be two metrics of the same labels
    ]
    for query in queries:
        for at in TIMES:
            answers = [told(ask(url, "query", query=query, time=at / 1000)) for url in urls]
            assert answers[0] == answers[1], (query, at)


@pytest.mark.parametrize(
    "query",
    [
        "count by (namespace) (kube_pod_info)",
        "count(kube_pod_info) by (namespace, job)",
        "group by (job, instance) (container_memory_working_set_bytes)",
        "sum(kube_deployment_spec_replicas)",
        "max by (deployment) (max_over_time(kube_deployment_spec_replicas[1d]))",
    ],
)
def test_groups_are_the_same(urls: tuple[str, str], query: str) -> None:
    for at in TIMES:
        answers = [told(ask(url, "query", query=query, time=at / 1000)) for url in urls]
        assert answers[0] == answers[1]


def test_steps_are_the_same(urls: tuple[str, str]) -> None:
    for query in ('kube_pod_status_ready{condition="true"}', "count(kube_pod_info)",
                  "max_over_time(container_memory_working_set_bytes[5m])"):  # fmt: skip
        answers = [
            told(ask(url, "query_range", query=query, start=NOON / 1000 - 3600,
                     end=NOON / 1000, step=300))
            for url in urls
        ]  # fmt: skip
        assert answers[0] == answers[1]
        assert answers[0]["rows"]


def test_labels_are_the_same(urls: tuple[str, str]) -> None:
    start, end = NOON / 1000 - 600, NOON / 1000
    for path, fields in (
        ("labels", {}),
        ("label/__name__/values", {}),
        ("label/namespace/values", {"match[]": 'kube_pod_info{namespace!="ns-02"}'}),
        ("label/cluster/values", {"match[]": "kube_horizontalpodautoscaler_info"}),
    ):
        found = [ask(url, path, start=start, end=end, **fields) for url in urls]
        assert found[0] == found[1], path
    match = {
        "match[]": ['kube_deployment_spec_replicas{namespace="ns-01"}', "kubernetes_build_info"]
    }
    found = [ask(url, "series", start=start, end=end, **match) for url in urls]
    assert sorted(map(str, map(sorted, (one.items() for one in found[0])))) == sorted(
        map(str, map(sorted, (one.items() for one in found[1])))
    )


@pytest.mark.parametrize(
    "query", ["up[1m", "up[1x]", "rate(up[5m]", "sum(up[1m])", "up{a=b}", "up{", "", '{a=""}',
              "max_over_time(up)", "up[0s]", 'up{a=~"("}', "up up"],
)  # fmt: skip
def test_what_is_no_query_is_refused_by_both(urls: tuple[str, str], query: str) -> None:
    for url in urls:
        with pytest.raises(RuntimeError, match=r'400.*"errorType":"bad_data"'):
            ask(url, "query", query=query, time=NOON / 1000)


def test_too_many_samples_are_refused_by_both(tmp_path: Path) -> None:
    family = families(Fleet(pods=10, namespaces=1, days=1))[0]
    backfill(write_openmetrics([family], tmp_path / "text"), tmp_path / "data")
    flags = ["--query.max-samples=1000"]
    with (
        serving(Answers(FLEET, max_samples=1000)) as server,
        running_prometheus(tmp_path, tmp_path / "data", extra_flags=flags) as url,
    ):
        for one in (url, server.url):
            with pytest.raises(RuntimeError, match=r'422.*"execution".*too many samples'):
                ask(one, "query", query=f"{family.name}[1d]", time=FLEET.start_ms / 1000 + 86_400)


def test_a_series_that_is_not_marked_stale_is_seen_for_five_minutes(urls: tuple[str, str]) -> None:
    pod = next(pod for pod in FLEET.lives if 0 < pod.last < FLEET.minutes)
    query = f'container_memory_working_set_bytes{{pod="{pod.name}",container="app"}}'
    found = told(ask(urls[1], "query", query=f"{query}[2d]", time=FLEET.end_ms / 1000))
    last_ms = next(iter(found["rows"].values()))[-1][0]
    for after_ms, count in ((0, 1), (299_999, 1), (300_000, 1), (300_001, 0)):
        at = (last_ms + after_ms) / 1000
        answers = [told(ask(url, "query", query=query, time=f"{at:.3f}")) for url in urls]
        assert [len(answer["rows"]) for answer in answers] == [count, count], after_ms


def test_ranges_may_leave_their_first_instant_out() -> None:
    first = FLEET.start_ms + 5_000
    query = 'kube_pod_info{namespace="ns-00"}[1m]'
    closed, opened = (
        Answers(FLEET, left_open=left_open).query(query, first + MINUTE_MS).samples
        for left_open in (False, True)
    )
    assert closed == 2 * opened > 0
