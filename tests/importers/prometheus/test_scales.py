"""Sizes of scale targets."""

from __future__ import annotations

import math
from typing import Any

from hpabatch.importers.prometheus.client.samples import Findings, Span, empty_samples
from hpabatch.importers.prometheus.reading.gauges import Gauge, reduce_gauge
from hpabatch.importers.prometheus.reading.window_objects import SCALES, scale_rows
from tests.importers.prometheus.made import made

SPAN = Span(600_000, 1_200_000, 300_000)
KEY = ["namespace", "statefulset"]


def gauge(**sizes: list[tuple[int, float]]) -> Gauge:
    series = [
        ({"namespace": "shop", "statefulset": name}, [(1000 * s, v) for s, v in points])
        for name, points in sizes.items()
    ]
    return reduce_gauge(made(series), empty_samples(), KEY, SPAN, Findings())


def rows(
    spec: Gauge, status: Gauge, initial: bool = False
) -> tuple[list[tuple[Any, ...]], Findings]:
    findings = Findings()
    found = scale_rows(
        "StatefulSet", "statefulset", spec, status, SPAN, initial=initial, findings=findings
    )
    assert found.schema == SCALES
    assert set(found["target_kind"]) <= {"StatefulSet"}
    assert found["selector"].null_count() == found.height
    plain = found.select("target", "ts", "spec_replicas", "status_replicas").rows()
    return [(name, ts // 1000, spec, status) for name, ts, spec, status in plain], findings


def test_at_each_change_the_latest_of_both() -> None:
    spec = gauge(db=[(590, 3), (620, 3), (650, 5), (680, 5)])
    status = gauge(db=[(590, 3), (620, 3), (650, 3), (680, 4), (710, 5)])
    found, findings = rows(spec, status)
    assert found == [("db", 650, 5, 3), ("db", 680, 5, 4), ("db", 710, 5, 5)]
    assert rows(spec, status, initial=True)[0] == [("db", 600, 3, 3), *found]
    assert not findings.counts


def test_where_one_of_both_is_not_exported_the_other_one_serves() -> None:
    spec = gauge(db=[(590, 3), (650, 5)])
    found, findings = rows(spec, gauge())
    assert found == [("db", 650, 5, 5)]
    assert sum(findings.counts.values()) == 1
    found, findings = rows(gauge(), spec)
    assert found == [("db", 650, 5, 5)]


def test_sizes_that_are_none_are_left_out() -> None:
    spec = gauge(db=[(650, -1), (680, 2), (710, math.nan), (740, 1e12)])
    found, findings = rows(spec, gauge(db=[(680, 2)]))
    assert found == [("db", 680, 2, 2)]
    assert findings.counts[("value", "a size that is none")] == 2
