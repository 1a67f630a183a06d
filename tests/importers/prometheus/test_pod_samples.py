"""Rows of pods: from samples, assigned by uid or name, without repeats."""

from __future__ import annotations

from typing import Any

import polars as pl

from hpabatch.history.columns import TIME
from hpabatch.importers.common.rows import continued_requests, without_repeats
from hpabatch.importers.prometheus.client.samples import Findings
from hpabatch.importers.prometheus.pods.lives import TABLE_COLUMNS, assign_pods
from hpabatch.importers.prometheus.pods.usage import together
from tests.importers.prometheus.ksm import found_pods, owned_by, pod, steady

KEY = {"pod": pl.UInt32, "container": pl.UInt32, "ts": pl.Int64}


def brought(
    *containers: list[int], lookback_s: int = 300, window_s: int = 30
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
    found = together(rows, 1000 * lookback_s, findings)
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


INFO = [
    (pod("db-0", "u1"), steady(630, 990)),
    (pod("db-0", "u2"), steady(1020, 1500)),
    (pod("web-1", "u3"), steady(630, 4200)),
]
PODS = found_pods(
    INFO,
    created=[(pod("db-0", "u1"), 620), (pod("db-0", "u2"), 1001), (pod("web-1", "u3"), 10)],
    owners=[pod("db-0", uid, **owned_by("StatefulSet", "db")) for uid in ("u1", "u2")],
    heartbeats=range(300, 4201, 30),
)


def assigned(*rows: tuple[str, str | None, int], pods: pl.DataFrame = PODS) -> tuple[Any, Findings]:
    """Return (number, uid, target) of rows that were kept; rows are pod, uid, s."""
    findings = Findings()
    frame = pl.DataFrame(
        [("shop", name, uid, 1000 * s, n) for n, (name, uid, s) in enumerate(rows)],
        schema={
            **dict.fromkeys(("namespace", "pod", "pod_uid"), pl.String),
            "ts": pl.Int64,
            "n": pl.Int64,
        },
        orient="row",
    )
    found = assign_pods(frame, pods, findings)
    assert found.columns == ["namespace", "pod", "ts", "n", "uid", "target"]
    return found.select("n", "uid", "target").rows(), findings


def test_by_uid_whatever_the_time() -> None:
    rows, findings = assigned(("db-0", "u2", 1600), ("web-1", "u3", 5), ("db-0", "u1", 700))
    assert rows == [(0, "u2", "db"), (1, "u3", None), (2, "u1", "db")]
    assert not findings.counts


def test_by_name_and_time() -> None:
    rows, findings = assigned(
        *(("db-0", None, s) for s in (619, 620, 1000, 1001, 1530, 1531)), ("db-9", None, 700)
    )
    assert rows == [(1, "u1", "db"), (2, "u1", "db"), (3, "u2", "db"), (4, "u2", "db")]
    assert findings.counts == {("no pod", "namespace shop"): 3}


def test_another_uid_is_another_pod() -> None:
    rows, findings = assigned(("db-0", "other", 700), ("db-0", "u1", 700), ("web-1", None, 900))
    assert rows == [(1, "u1", "db"), (2, "u3", None)]
    assert sum(findings.counts.values()) == 1


def test_uids_that_we_made_stand_for_any() -> None:
    made = found_pods([(pod("db-0", None), steady(630, 990))], created=[(pod("db-0", None), 620)])
    rows, _ = assigned(("db-0", "real", 700), ("db-0", None, 700), pods=made)
    assert [uid for _, uid, _ in rows] == made["uid"].to_list() * 2
    # Unless nobody says so.
    table = made.select(TABLE_COLUMNS)
    assert assigned(("db-0", "real", 700), pods=table)[0] == []


def test_without_rows_or_pods() -> None:
    assert assigned()[0] == []
    assert assigned(("db-0", None, 700), pods=PODS.clear())[0] == []


WHOSE, SAID = ["uid"], ["phase"]


def rows(*told: tuple[str, int, str]) -> pl.DataFrame:
    schema = {"uid": pl.String, "ts": pl.Int64, "phase": pl.String}
    return pl.DataFrame(list(told), schema=schema, orient="row")


def stored(*told: tuple[str, int, str]) -> pl.DataFrame:
    return rows(*told).with_columns(pl.col("ts").cast(TIME))


def test_a_repeated_row_is_left_out() -> None:
    told = rows(("a", 1, "x"), ("a", 2, "x"), ("a", 3, "y"), ("b", 4, "y"), ("a", 5, "x"))
    assert without_repeats(told, None, WHOSE, SAID)["ts"].to_list() == [1, 3, 4, 5]


def test_the_store_has_said_it_before() -> None:
    before = stored(("a", 1, "z"), ("a", 5, "x"), ("b", 1, "x"), ("a", 99, "y"))
    told = rows(("a", 10, "x"), ("a", 11, "y"), ("b", 10, "y"), ("c", 10, "x"))
    kept = without_repeats(told, before, WHOSE, SAID)
    assert kept.rows() == [("a", 11, "y"), ("b", 10, "y"), ("c", 10, "x")]


def test_a_row_that_is_stored_already_is_given_again() -> None:
    told = rows(("a", 10, "x"))
    assert without_repeats(told, stored(("a", 1, "y"), ("a", 10, "x")), WHOSE, SAID).equals(told)


def requests(*told: tuple[str, int, int]) -> pl.DataFrame:
    schema = {"uid": pl.String, "valid_from": pl.Int64, "cpu_milli": pl.Int64}
    none = dict.fromkeys(("memory_milli", "cpu_limit_milli", "memory_limit_milli"))
    return pl.DataFrame(list(told), schema=schema, orient="row").with_columns(
        *(pl.lit(None, dtype=pl.Int64).alias(name) for name in none),
        kind=pl.lit("app"), container=pl.lit("main"),
    )  # fmt: skip


def test_a_pod_seen_again_after_an_outage_was_not_always_as_it_is_now() -> None:
    before = requests(("a", 100, 500), ("b", 100, 500)).with_columns(
        pl.col("valid_from").cast(TIME)
    )
    seen = pl.DataFrame({"uid": ["a", "b", "c"], "first": [900, 900, 900]})
    found = continued_requests(
        requests(("a", 100, 777), ("b", 100, 500), ("c", 850, 1)), before, seen
    )
    assert found.select("uid", "valid_from", "cpu_milli").rows() == [("a", 900, 777), ("c", 850, 1)]
