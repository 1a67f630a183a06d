"""Containers of a pod that are looked at one by one, as samples of the pod."""

from __future__ import annotations

import polars as pl

from hpabatch.importers.prometheus.client.samples import Findings
from hpabatch.importers.prometheus.pods.samples import together

KEY = {"pod": pl.UInt32, "container": pl.UInt32, "ts": pl.Int64}


def brought(
    *containers: list[int], lookback_s: int = 300, apart_s: int = 15, window_s: int = 30
) -> tuple[dict[int, dict[int, int]], Findings]:
    """Return by time (s) and container the time (s) of the row taken; containers are numbered."""
    rows = pl.DataFrame(
        [
            (0, number, 1000 * s, 1000 * window_s, s, s)
            for number, times in enumerate(containers)
            for s in times
        ],
        schema={**KEY, "window_ms": pl.Int64, "cpu_milli": pl.Int64, "was": pl.Int64},
        orient="row",
    )
    findings = Findings()
    found = together(rows, 1000 * lookback_s, findings, 1000 * apart_s)
    assert found.columns == rows.columns
    assert not found.select("container", "ts").is_duplicated().any()
    samples: dict[int, dict[int, int]] = {}
    for _, container, ts, _, milli, was in found.sort("ts", "container").rows():
        samples.setdefault(ts // 1000, {})[container] = was if milli == was else -was
    return samples, findings


def test_common_times_stay_as_they_are() -> None:
    samples, findings = brought([0, 30, 60], [0, 30, 60])
    assert samples == {0: {0: 0, 1: 0}, 30: {0: 30, 1: 30}, 60: {0: 60, 1: 60}}
    assert not findings.counts
    # One that is lacking at a time is not made up from another one, before or after.
    samples, findings = brought([0, 30, 60, 90], [0, 60, 90])
    assert samples[30] == {0: 30}
    samples, findings = brought([0, 10, 20, 30], [0, 20, 30])
    assert samples[10] == {0: 10}
    samples, _ = brought([0, 20, 30], [0, 10, 20, 30])
    assert samples[10] == {1: 10}
    assert not findings.counts


def test_the_nearest_rows_go_together_before_and_after() -> None:
    samples, findings = brought([2, 32, 62], [9, 39, 69], [0, 30, 60])
    assert samples == {2: {0: 2, 1: 9, 2: 0}, 32: {0: 32, 1: 39, 2: 30}, 62: {0: 62, 1: 69, 2: 60}}
    assert list(findings.counts.values()) == [1]
    # At equal distances the earlier one.
    assert brought([10, 30], [0, 20, 40])[0] == {10: {0: 10, 1: 0}, 30: {0: 30, 1: 20}}


def test_an_idle_container_is_taken_as_it_was_last() -> None:
    samples, _ = brought([0, 30, 60, 90], [2, 32, 92])
    assert samples[60] == {0: 60, 1: 32}
    # Not one and a half times as long ago as the leading one's own last row.
    samples, _ = brought([0, 30, 60, 90, 120], [2, 32, 122])
    assert samples[90] == {0: 90}


def test_another_one_leads_where_the_first_is_silent() -> None:
    samples, _ = brought([0, 30], [5, 35, 65, 95], [7, 37, 67, 97])
    assert samples[65] == {0: 30, 1: 65, 2: 67}
    assert samples[95] == {1: 95, 2: 97}


def test_nothing_is_older_than_half_the_lookback() -> None:
    samples, _ = brought([0, 200, 400], [190, 210], lookback_s=381)
    assert samples[400] == {0: 400, 1: 210}
    samples, _ = brought([0, 200, 400], [190, 210], lookback_s=380)
    assert samples[400] == {0: 400}


def test_an_older_row_of_a_long_interval_has_no_cpu() -> None:
    samples, _ = brought([2, 32, 62], [0, 39, 60], window_s=150)
    assert samples == {2: {0: 2, 1: 0}, 32: {0: 32, 1: 39}, 62: {0: 62, 1: 60}}
    samples, _ = brought([2, 32, 62], [0, 39, 60], window_s=151)
    assert samples == {2: {0: 2, 1: 0}, 32: {0: 32, 1: 39}, 62: {0: 62, 1: -60}}


def test_pods_are_apart() -> None:
    rows = pl.DataFrame(
        {"pod": [0, 0, 1, 2], "container": [0, 1, 2, 3], "ts": [0, 5000, 4000, 4000]}, schema=KEY
    ).with_columns(window_ms=pl.lit(1), cpu_milli=pl.lit(1))
    found = together(rows, 300_000, Findings()).select(list(KEY)).sort("pod", "container")
    assert found.rows() == [(0, 0, 0), (0, 1, 0), (1, 2, 4000), (2, 3, 4000)]
