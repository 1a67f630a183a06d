"""Tests of sources: which of several scrapes counts."""

from __future__ import annotations

from typing import Any

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from hpabatch.importers.prometheus.client.samples import Findings, Samples
from hpabatch.importers.prometheus.reading.gauges import (
    one_source,
    source_ranks,
    sources,
)
from tests.effort import effort
from tests.importers.prometheus.made import Series, made

PLACE = ["namespace", "pod"]
POD = {"namespace": "shop", "pod": "web-1"}


def every(seconds: float, count: int, offset: float = 0.0) -> list[tuple[int, float]]:
    return [(round(1000 * (offset + k * seconds)), float(k)) for k in range(count)]


def kept(samples: Samples, **options: Any) -> tuple[dict[str, list[int]], dict[Any, int]]:
    """Return the kept times (s) by job, and what was noted."""
    findings = Findings()
    found = one_source(samples, PLACE, findings, **options)
    rows = found.joined(["job", "id"])
    times: dict[str, list[int]] = {}
    for job, ident, ts, _ in rows.rows():
        times.setdefault(job or ident, []).append(ts // 1000)
    return times, dict(findings.counts)


def test_one_of_two_jobs_counts() -> None:
    both = made(
        [({**POD, "job": "kubelet"}, every(30, 4)), ({**POD, "job": "cadvisor"}, every(30, 4, 5))]
    )
    times, noted = kept(both)
    assert times == {"kubelet": [0], "cadvisor": [5, 35, 65, 95]}
    assert noted == {("duplicate", ""): 1}


def test_the_finer_one_is_preferred_to_the_one_with_the_smaller_name() -> None:
    both = made(
        [({**POD, "job": "kubelet"}, every(15, 20)), ({**POD, "job": "cadvisor"}, every(60, 5))]
    )
    assert set(kept(both)[0]) == {"kubelet"}


def test_a_sample_more_or_less_makes_no_preference() -> None:
    series: list[Series] = [
        ({**POD, "job": "kubelet"}, every(30, 12)),
        ({**POD, "job": "cadvisor"}, every(30, 10)),
    ]
    ranks = source_ranks([made(series)], PLACE)
    assert ranks == {"job=cadvisor": 0, "job=kubelet": 1}


def test_nodes_have_one_preference_and_their_addresses_come_last() -> None:
    series: list[Series] = []
    for k in range(3):
        place = {"namespace": "shop", "pod": f"web-{k}"}
        for job, address in (("a", f"n{k}"), ("b", f"10.0.0.{k}")):
            labels = {**place, "job": job, "instance": address}
            series.append((labels, every(30, 10 + k * (job == "a"))))
    ranks = source_ranks([made(series)], PLACE)
    assert sorted(ranks, key=lambda source: ranks[source]) == [
        *(f"instance=n{k} job=a" for k in range(3)),
        *(f"instance=10.0.0.{k} job=b" for k in range(3)),
    ]


def test_series_that_follow_one_another_all_stay() -> None:
    parts: list[Series] = [
        ({**POD, "job": "b"}, every(30, 10)),
        ({**POD, "job": "a"}, every(30, 10, 300)),
        ({**POD, "job": "c"}, every(30, 10, 600)),
    ]
    for order in (parts, parts[::-1]):
        times, noted = kept(made(order), silent_ms=45_000)
        assert [len(times[job]) for job in "abc"] == [10, 10, 10]
        assert not noted


def test_another_container_of_the_same_scrape_is_no_duplicate() -> None:
    parts: list[Series] = [
        ({**POD, "job": "a", "id": "/1", "image": "x"}, every(30, 10)),
        ({**POD, "job": "a", "id": "/2", "name": "y"}, every(30, 10)),
    ]
    samples = made(parts)
    assert one_source(samples, PLACE, Findings()) is samples


def test_the_other_one_stands_in_where_the_preferred_is_silent() -> None:
    preferred = [p for p in every(30, 41) if not 300_000 < p[0] < 700_000]
    both = made([({**POD, "job": "a"}, preferred), ({**POD, "job": "b"}, every(30, 41, 10))])
    said: dict[str, Any] = {"silent_ms": 60_000, "ranks": {"job=a": 0, "job=b": 1}}
    times, _ = kept(both, **said)
    assert times["a"] == [ts // 1000 for ts, _ in preferred]
    assert times["b"] == [310 + 30 * k for k in range(14)]
    # The last one of it might be followed by one of the other; here it is known not to be.
    times, _ = kept(both, **said, complete_ms=1_270_001)
    assert times["b"] == [310 + 30 * k for k in range(14)] + [1210]


def test_nulls_are_values_of_an_identity() -> None:
    parts: list[Series] = [
        ({"namespace": "shop", "job": "a"}, every(30, 4)),
        ({**POD, "job": "b"}, every(30, 4)),
        ({"namespace": "shop", "job": "b"}, every(30, 4)),
    ]
    known = sources(made(parts), PLACE)
    assert known["thing"].n_unique() == 2
    assert kept(made(parts))[0] == {"a": [0, 30, 60, 90], "b": [0, 30, 60, 90]}


@settings(max_examples=effort(30), deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from("xy"), st.sets(st.integers(0, 60))),
        max_size=6,
        unique_by=lambda one: one[:2],
    ),
    st.randoms(use_true_random=False),
)
def test_the_order_of_series_is_irrelevant_and_each_time_has_one_source(
    described: list[tuple[str, str, set[int]]], random: Any
) -> None:
    series: list[Series] = [
        ({**POD, "job": job, "id": ident}, [(1000 * s, 1.0) for s in seconds])
        for job, ident, seconds in described
    ]
    said: dict[str, Any] = {"silent_ms": 10_000, "complete_ms": 90_000}
    first = one_source(made(series), PLACE, Findings(), **said)
    random.shuffle(series)
    again = one_source(made(series), PLACE, Findings(), **said)
    assert first.points.equals(again.points)
    rows = first.joined(["job"])
    assert rows.is_empty() or rows.group_by("ts").agg(pl.col("job").n_unique())["job"].max() == 1
    # No time is lost that somebody has, unless another one is near on both sides.
    times = set(rows["ts"].to_list())
    for _, _, seconds in described:
        for s in seconds:
            assert any(1000 * (s - 10) <= t <= 1000 * (s + 10) for t in times)
