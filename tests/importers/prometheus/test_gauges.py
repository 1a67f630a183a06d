"""Gauges as changes: constant and raw series, several sources, windows cut anywhere."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hpabatch.importers.prometheus.client.samples import Findings, Span
from hpabatch.importers.prometheus.reading.gauges import reduce_gauge
from tests.effort import effort
from tests.importers.prometheus.made import Series, made, seen

NAMES = ["namespace", "pod", "phase"]
POD = {"namespace": "shop", "pod": "web-1", "phase": "Running"}
SPAN = Span(600_000, 1_200_000, 300_000)


def seconds(*points: tuple[int, float]) -> list[tuple[int, float]]:
    return [(1000 * s, v) for s, v in points]


def reduced(
    raw: list[Series], constant: list[Series] | None = None, span: Span = SPAN
) -> tuple[list[Any], list[Any], Findings]:
    """Return changes (s, value) and seen (s, s), of things that have one name; and findings."""
    findings = Findings()
    gauge = reduce_gauge(made(raw), made(constant or []), NAMES, span, findings)
    assert gauge.labels == NAMES
    changes = [(ts // 1000, value) for *_, ts, value in gauge.changes.rows()]
    return changes, [(a // 1000, b // 1000) for *_, a, b in gauge.seen.rows()], findings


def test_reappearing_after_more_than_the_lookback_is_a_change() -> None:
    same = seconds((610, 1), (910, 1), (940, 1))
    assert reduced([(POD, same)])[0] == [(610, 1.0)]
    later = seconds((610, 1), (911, 1), (940, 1))
    assert reduced([(POD, later)])[0] == [(610, 1.0), (911, 1.0)]


def test_a_constant_source_stands_in_for_one_that_changes() -> None:
    frozen = ({**POD, "instance": "b"}, seconds((1200, 1)))
    gone = ({**POD, "instance": "a"}, seconds((590, 0), (620, 0), (650, 0)))
    changes, seen, _ = reduced([gone], [frozen])
    assert [value for _, value in changes] == [0.0, 1.0]
    # The constant one is known to have been there: about then, when the other one ended.
    assert 650 < changes[1][0] <= 800
    assert seen == [(375, 1200)]
    # The preferred one counts all the time.
    preferred = ({**POD, "instance": "0"}, seconds((1200, 1)))
    assert reduced([gone], [preferred])[0] == [(600, 1.0)]


def test_two_constant_sources_that_differ_are_noted() -> None:
    pair: list[Series] = [
        ({**POD, "instance": "b"}, seconds((1200, 1))),
        ({**POD, "instance": "a"}, seconds((1200, 0))),
    ]
    for order in (pair, pair[::-1]):
        changes, _, findings = reduced([], order)
        assert changes == [(600, 0.0)]
        assert findings.counts == {("conflict", "two sources differ"): 1}


def test_values_that_are_none_are_left_out() -> None:
    changes, _, findings = reduced([(POD, seconds((610, math.nan), (640, 1), (670, math.inf)))])
    assert changes == [(640, 1.0)]
    assert findings.counts == {("value", "not a finite number"): 2}


LOOKBACK = 100_000


@st.composite
def gauges(draw: st.DrawFn) -> list[Series]:
    found: list[Series] = []
    for pod in ("a", "b")[: draw(st.integers(1, 2))]:
        at, value, points = draw(st.integers(0, 400)) * 1000, 0, []
        for _ in range(draw(st.integers(1, 40))):
            value = draw(st.sampled_from([value, value, value, 1 - value]))
            points.append((at, float(value)))
            at += draw(st.sampled_from([20_000] * 8 + [60_000, 100_000, 100_001, 150_000]))
        found.append(({**POD, "pod": pod}, points))
    return found


@settings(max_examples=effort(30), deadline=None)
@given(gauges(), st.lists(st.integers(100_001, 1_499_999), max_size=4, unique=True))
def test_windows_cut_anywhere_give_the_same_changes(series: list[Series], cuts: list[int]) -> None:
    bounds = [100_000, *sorted(cuts), 1_500_000]
    parts = [seen(series, NAMES, Span(a, b, LOOKBACK)) for a, b in pairwise(bounds)]
    whole = seen(series, NAMES, Span(bounds[0], bounds[-1], LOOKBACK))
    inside = [
        row
        for part, begin in zip(parts, bounds, strict=False)
        for row in part.changes.rows()
        if row[3] > begin
    ]
    assert sorted(inside) == [row for row in whole.changes.rows() if row[3] > bounds[0]]
    # What holds at a window's beginning is what the changes before it say.
    for part, begin in zip(parts, bounds, strict=False):
        for row in part.changes.rows():
            if row[3] == begin:
                before = [r for r in whole.changes.rows() if r[:3] == row[:3] and r[3] <= begin]
                assert before[-1][4] == row[4]
