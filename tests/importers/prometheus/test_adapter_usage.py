"""cpu and memory as the adapter responses them: NaN, negative values, what is missing."""

from __future__ import annotations

import math

from hpabatch.importers.prometheus.client.samples import Findings, Samples
from hpabatch.importers.prometheus.metrics.adapter import ResourceQuery
from hpabatch.importers.prometheus.reading.window_usage import served_rows
from tests.importers.prometheus.made import made

QUERY = ResourceQuery("x", "pod", "c", 180_000)


def response(**values: dict[int, float]) -> Samples:
    """Return samples by `pod_container`."""
    return made(
        [
            ({"pod": name.split("_")[0], "c": name.split("_")[1]}, list(points.items()))
            for name, points in values.items()
        ]
    )


def test_rows_are_what_the_adapter_answers() -> None:
    findings = Findings()
    cpu = response(a_app={1: 0.2505, 2: math.nan, 3: 1.0}, a_side={1: -2.0}, b_app={1: 9.0})
    memory = response(a_app={1: 1000.0001, 2: 5.0}, a_log={1: 7.0}, c_app={1: 1.0})
    rows = served_rows("shop", (QUERY, cpu), (QUERY, memory), findings)
    assert rows.rows() == [
        ("shop", "a", "app", 1, 180_000, 250, 1000),
        ("shop", "a", "log", 1, 180_000, 0, 7),
        ("shop", "a", "side", 1, 180_000, 0, 0),
        ("shop", "a", "app", 2, 180_000, 0, 5),
    ]
    assert not findings.counts


def test_thousandths_of_bytes_are_rounded_up_once() -> None:
    rows = served_rows(
        "shop", (QUERY, response(a_app={1: 0.0})), (QUERY, response(a_app={1: 10.0015})), Findings()
    )
    assert rows["memory_bytes"].to_list() == [11]


def test_what_no_column_holds_is_left_out_and_counted() -> None:
    findings = Findings()
    cpu = response(a_app={1: math.inf, 2: 1e13, 3: 1.0})
    memory = response(a_app={1: 1.0, 2: 1.0, 3: 1e17})
    rows = served_rows("shop", (QUERY, cpu), (QUERY, memory), findings)
    assert not rows.height
    assert findings.counts == {
        ("usage beyond all bounds", "cpu_milli"): 2,
        ("usage beyond all bounds", "memory_milli"): 1,
    }


def test_answers_without_series_or_labels_are_no_rows() -> None:
    nothing = made([])
    some = response(a_app={1: 1.0})
    for cpu, memory in ((nothing, nothing), (some, nothing), (nothing, some)):
        assert not served_rows("shop", (QUERY, cpu), (QUERY, memory), Findings()).height
    bare = made([({"pod": "a"}, [(1, 1.0)])])
    rows = served_rows("shop", (QUERY, bare), (QUERY, bare), Findings())
    assert rows["container"].to_list() == [""]
