"""Gauges in two steps: raw samples are asked only of what changed, and nothing is missed."""

from __future__ import annotations

import polars as pl
import pytest

from hpabatch.importers.prometheus.client.queries import Query, SeriesRequest
from hpabatch.importers.prometheus.client.samples import Findings, Span
from hpabatch.importers.prometheus.reading.reader import Reader, Things
from tests.importers.prometheus.made import Series
from tests.importers.prometheus.responses import Memory

MINUTE = 60_000
AFTER, UNTIL = 100 * MINUTE, 200 * MINUTE
SPAN = Span(AFTER, UNTIL, 5 * MINUTE)


def steady(value: float, begin: int = 0, end: int = 400) -> list[tuple[int, float]]:
    return [(m * MINUTE + 7, value) for m in range(begin, end)]


def one(pod: str, points: list[tuple[int, float]], **labels: str) -> Series:
    return ({"__name__": "x", "namespace": "ns", "pod": pod, **labels}, points)


def read(
    series: list[Series], partial: tuple[str, ...] = (), *,
    labels: tuple[str, ...] = (), there: pl.DataFrame | None = None,
) -> tuple[pl.DataFrame, set[str]]:  # fmt: skip
    """Return the changes, and the pods of which raw samples were asked for."""
    server = Memory(series)
    pods = sorted({labels["pod"] for labels, _ in series})
    things = Things(
        "pod", tuple(("ns", pod) for pod in pods), frozenset(("ns", pod) for pod in partial)
    )
    with server:
        reader = Reader(server, {"x": Query("x", ("x",))}, SPAN, {}, MINUTE, 10_000, 50, Findings())
        gauge = reader.gauge("x", labels, things, there)
    raw = {
        p
        for a in server.asked
        if isinstance(a, SeriesRequest) and a.form == "raw"
        for p in a.names["pod"]
    }
    return gauge.changes.select("pod", *labels, "ts", "value"), raw


def test_raw_samples_are_asked_of_what_changed_only() -> None:
    series = [one("calm", steady(1.0)), one("moves", steady(1.0, end=150) + steady(2.0, begin=150))]
    changes, raw = read(series)
    assert raw == {"moves"}
    assert changes.rows() == [
        ("calm", AFTER, 1.0), ("moves", AFTER, 1.0), ("moves", 150 * MINUTE + 7, 2.0),
    ]  # fmt: skip


def test_exporters_that_followed_one_another_hide_no_change() -> None:
    series = [
        one("p", steady(1.0, end=150), instance="a"),
        one("p", steady(3.0, begin=150), instance="b"),
    ]
    changes, raw = read(series)
    assert raw == {"p"}
    assert changes["value"].to_list() == [1.0, 3.0]


def test_what_was_not_there_all_the_time_is_asked_raw() -> None:
    changes, raw = read([one("new", steady(1.0, begin=120))], partial=("new",))
    assert raw == {"new"}
    assert changes.rows() == [("new", 120 * MINUTE + 7, 1.0)]


def test_known_lives_spare_raw_samples() -> None:
    there = pl.DataFrame(
        {"namespace": ["ns"], "pod": ["new"], "first": [120 * MINUTE + 7], "last": [UNTIL]}
    )
    changes, raw = read([one("new", steady(1.0, begin=120))], partial=("new",), there=there)
    assert raw == set()
    assert changes.rows() == [("new", 120 * MINUTE + 7, 1.0)]


def test_an_object_that_switches_to_another_series_is_asked_raw() -> None:
    series = [
        one("p", steady(50.0, end=150), kind="utilization"),
        one("p", steady(0.5, begin=150), kind="average"),
    ]
    changes, raw = read(series, labels=("kind",))
    assert raw == {"p"}
    assert changes.rows() == [
        ("p", "average", 150 * MINUTE + 7, 0.5), ("p", "utilization", AFTER, 50.0),
    ]  # fmt: skip


@pytest.mark.parametrize("most", [50, 300])
def test_answers_stay_small(most: int) -> None:
    server = Memory([one(f"p{k}", steady(1.0)) for k in range(20)])
    things = Things("pod", tuple(("ns", f"p{k}") for k in range(20)))
    with server:
        reader = Reader(server, {}, SPAN, {}, MINUTE, most, 5, Findings())
        whole = reader.raw(Query("x", ("x",)), things, 1)
    assert whole.count == 20 * 105
    largest = max(
        len(a.names["pod"]) * (a.until_ms - a.from_ms) / MINUTE
        for a in server.asked if isinstance(a, SeriesRequest)
    )  # fmt: skip
    assert largest <= most + 5
