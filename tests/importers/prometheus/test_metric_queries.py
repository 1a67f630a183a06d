"""Rows of metrics from responses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from hpabatch.importers.prometheus.client.samples import Findings, Samples
from hpabatch.importers.prometheus.metrics.mapping import read_mappings
from hpabatch.importers.prometheus.metrics.queries import (
    MetricQuery,
    ValueRule,
    go_milli,
    instants_near,
    metric_rows,
)
from tests.importers.prometheus.made import made
from tests.importers.prometheus.mapping_help import (
    external_metric,
    hpa_of,
    object_metric,
    pods_metric,
    write,
)
from tests.real.prometheus import ask, backfill, missing, running_prometheus

LEAST = -(2**63)
NAN, INF = math.nan, math.inf


def query(kind: Any, rule: ValueRule, **more: Any) -> MetricQuery:
    label = {"pods": "pod", "object": "service"}.get(kind, "")
    more = {"label": label, "object_kind": "Service", "object_name": "front"} | more
    return MetricQuery(kind, "shop", "m", "a=b", "x", rule, **more)


@pytest.mark.parametrize(
    ("value", "milli"),
    [(0.0, 0), (1.0, 1000), (0.0015, 1), (-0.0015, -1), (-0.0005, 0), (0.57, 570), (4.35, 4350),
     (1.005, 1004), (9223372036854774.0, 9223372036854773760), (1e16, None), (-1e16, None),
     (NAN, None), (INF, None), (-INF, None), (-9223372036854775.808, -(2**63)), (5e-324, 0),
     (1.7e308, None)],
)  # fmt: skip
def test_thousandths_are_gos(value: float, milli: int | None) -> None:
    found, fits = go_milli(np.array([value]))
    assert bool(fits[0]) == (milli is not None)
    assert int(found[0]) == (LEAST if milli is None else milli)


def test_rows_of_pods() -> None:
    response = made(
        [({"pod": "b"}, [(1, 2.5), (2, 2.5)]), ({"pod": "a"}, [(1, NAN)]), ({}, [(1, 7.0)])]
    )
    findings = Findings()
    rows = metric_rows(query("pods", ValueRule.plain), response, findings=findings)
    assert rows.rows(named=True) == [
        row("pods", pod=pod, ts=ts, window_ms=None, value_milli=value)
        for pod, ts, value in (("b", 1, 2500), ("b", 2, 2500))
    ]
    title = "pods metric shop/m{a=b} of Service/front"
    assert findings.counts == {
        ("metric response without label", f"{title}: pod"): 1,
        ("metric value beyond 64 bits", title): 1,
    }


def row(kind: str, **more: Any) -> dict[str, Any]:
    first = {"namespace": "shop", "metric": "m", "selector": "a=b"}
    if kind == "object":
        first = {"namespace": "shop", "kind": "Service", "name": "front", **first}
    return first | more


def test_several_series_of_a_pod_are_no_rows() -> None:
    response = made(
        [({"pod": "a", "v": "2"}, [(1, 2.0)]), ({"pod": "a", "v": "1"}, [(1, 1.0), (2, 1.0)])]
    )
    findings = Findings()
    rows = metric_rows(query("pods", ValueRule.plain), response, findings=findings)
    assert rows.select("ts", "value_milli").rows() == [(2, 1000)]
    assert list(findings.counts.values()) == [1]


def test_rows_of_an_object() -> None:
    response = made([({"service": "front"}, [(1, 1.5), (2, INF)]),
                         ({"service": "back"}, [(1, 9.0)])])  # fmt: skip
    findings = Findings()
    rows = metric_rows(query("object", ValueRule.plain), response, findings=findings)
    assert rows.rows(named=True) == [row("object", ts=1, value_milli=1500)]
    assert list(findings.counts) == [
        ("metric value beyond 64 bits", "object metric shop/m{a=b} of Service/front")
    ]
    bare = made([({}, [(1, 1.5), (2, NAN)])])
    assert not metric_rows(query("object", ValueRule.plain), bare).height
    rows = metric_rows(query("object", ValueRule.plain, label=""), bare)
    assert rows.select("ts", "value_milli").rows() == [(1, 1500)]


def test_rows_of_external_metrics_have_their_series() -> None:
    response = made([({"q": "b", "__name__": "x"}, [(1, 1.0)]), ({"q": 'a"'}, [(1, NAN)]),
                         ({}, [(1, -0.5)])])  # fmt: skip
    rows = metric_rows(query("external", ValueRule.plain), response)
    assert rows.rows(named=True) == [
        row("external", series=series, ts=1, value_milli=value)
        for series, value in (("", -500), ('__name__="x",q="b"', 1000))
    ]


def test_kedas_answers() -> None:
    response = made([({"q": "b"}, [(30, 1.5), (60, 2.0), (90, NAN)]),
                         ({"q": "a"}, [(60, 1.0), (120, INF)])])  # fmt: skip
    instants = pl.Series("ts", range(0, 151, 30))
    findings = Findings()
    rows = metric_rows(query("external", ValueRule.keda), response, instants, findings)
    assert rows["series"].unique().to_list() == [""]
    assert rows.select("ts", "value_milli").rows() == [
        (0, 0), (30, 1500), (90, 0), (120, 0), (150, 0)
    ]  # fmt: skip
    title = "external metric shop/m{a=b} of Service/front"
    assert findings.counts == {
        ("metric response with several series", title): 1,
        ("empty metric response, 0 to KEDA", title): 2,
    }
    rows = metric_rows(query("external", ValueRule.keda_strict), response, instants)
    assert rows.select("ts", "value_milli").rows() == [(30, 1500)]
    there = instants_near(instants, [20, 100], 45)
    assert there.to_list() == [30, 60, 120]
    rows = metric_rows(query("external", ValueRule.keda), made([]), there)
    assert rows["ts"].to_list() == [30, 60, 120]
    nothing = metric_rows(query("external", ValueRule.keda), made([]), instants)
    assert nothing["value_milli"].to_list() == [0] * 6
    assert not metric_rows(query("external", ValueRule.keda), made([])).height


START_S, STEP_S, COUNT = 1_700_000_400, 15, 80
CONFIG = """
metrics:
- {type: pods, name: http_requests_per_second, query: 'sum(rate(http_requests_total{
    namespace="$namespace",pod=~"$pods"}[2m])) by (pod)'}
- {type: object, name: http_requests_per_second, kind: Namespace, label: namespace,
   query: 'sum(rate(http_requests_total{namespace="$object"}[2m])) by (namespace)'}
- {type: external, name: queue_depth, query: 'queue_depth{$selector}'}
"""


@pytest.mark.skipif(bool(missing()), reason=missing())
def test_against_a_real_server(tmp_path: Path) -> None:
    lines = []
    for pod, rate in (("web-1", 2), ("web-2", 5), ("other-1", 9)):
        for method in ("GET", "PUT"):
            labels = f'namespace="shop",pod="{pod}",method="{method}"'
            lines += [
                f"http_requests_total{{{labels}}} {rate * STEP_S * k} {START_S + STEP_S * k}"
                for k in range(COUNT)
            ]
    gauge = [
        f'queue_depth{{queue="{q}"}} {k + n} {START_S + STEP_S * k}'
        for n, q in enumerate("ab")
        for k in range(COUNT)
    ]
    text = ["# TYPE http_requests counter", *lines, "# TYPE queue_depth gauge", *gauge, "# EOF\n"]
    file = write(tmp_path, "\n".join(text), "metrics.txt")
    backfill(file, tmp_path / "data")
    mappings = read_mappings([write(tmp_path, CONFIG)])
    selector = {"matchExpressions": [{"key": "queue", "operator": "In", "values": ["a", "b"]}]}
    hpa = hpa_of(
        pods_metric("http_requests_per_second"),
        object_metric("http_requests_per_second", "Namespace", "x"),
        external_metric("queue_depth", selector),
    )
    with running_prometheus(tmp_path, tmp_path / "data") as url:
        plan = mappings.plan([hpa])
        assert not plan.unmapped
        start, end = START_S + 300, START_S + 900
        rows = {}
        for asked in plan.queries:
            data = ask(url, "query_range", query=asked.text(["web-1", "web-2"]),
                       start=start, end=end, step=30)  # fmt: skip
            rows[asked.kind] = metric_rows(asked, _samples(data["result"]))
    pods = rows["pods"].group_by("pod").agg("value_milli", "ts").sort("pod")
    assert pods["pod"].to_list() == ["web-1", "web-2"]
    assert pods["ts"].to_list() == [[1000 * t for t in range(start, end + 1, 30)]] * 2
    assert [set(values) for values in pods["value_milli"].to_list()] == [{4000}, {10_000}]
    assert set(rows["object"]["value_milli"].to_list()) == {32_000}
    assert rows["external"]["series"].unique().sort().to_list() == [
        '__name__="queue_depth",queue="a"',
        '__name__="queue_depth",queue="b"',
    ]
    first = rows["external"].group_by("series").first().sort("series")
    assert first["value_milli"].to_list() == [20_000, 21_000]


def _samples(result: Sequence[Mapping[str, Any]]) -> Samples:
    return made(
        [(one["metric"], [(round(t * 1000), float(v)) for t, v in one["values"]]) for one in result]
    )
