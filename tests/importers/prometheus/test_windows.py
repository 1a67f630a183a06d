from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.errors import UsageError
from hpabatch.importers.common.claims import DONE, Coverage, coverage, windows_at_work
from hpabatch.importers.prometheus.request import PrometheusRequest
from hpabatch.importers.prometheus.windows import DAY_MS, has_begun, windows

HOUR = 3_600_000
LOOKBACK = 300_000


@pytest.mark.parametrize(("done_to", "at_work"), [(None, 1), (5, 1), (8, 0)])
def test_a_window_that_another_run_has_covered_is_not_at_work(
    done_to: int | None, at_work: int
) -> None:
    parts = {f"prometheus/me/main/0-{6 * HOUR}/begin"}
    if done_to is not None:
        parts |= {f"prometheus/me/main/0-{done_to * HOUR}/{name}" for name in ("begin", DONE)}
    assert windows_at_work(parts, "main", (HOUR, 2 * HOUR)).height == at_work


@given(st.integers(0, 10 * DAY_MS), st.integers(1, 5 * DAY_MS))
def test_windows_follow_one_another_and_end_at_days(start: int, length: int) -> None:
    found = windows(start, start + length, LOOKBACK, Coverage())
    assert found[0].span.after_ms == start
    assert found[-1].span.until_ms == start + length
    assert [w.initial for w in found] == [True] + [False] * (len(found) - 1)
    for one, other in pairwise(found):
        assert one.span.until_ms == other.span.after_ms
        assert one.span.until_ms % DAY_MS == 0


@given(st.integers(0, 3 * DAY_MS), st.integers(1, 3 * DAY_MS), st.integers(1, 3 * DAY_MS))
def test_a_second_run_adds_what_is_missing(start: int, first: int, more: int) -> None:
    done = windows(start, start + first, LOOKBACK, Coverage())
    covered = Coverage(tuple((w.span.after_ms, w.span.until_ms) for w in done))
    rest = windows(start, start + first + more, LOOKBACK, covered)
    assert rest[0].span.after_ms == start + first
    assert not any(w.initial for w in rest)
    assert windows(start, start + first, LOOKBACK, covered) == []


def test_parts_tell_what_is_complete() -> None:
    request = PrometheusRequest(url="http://x:9090")
    source = request.source()
    first, second = windows(0, 2 * DAY_MS, LOOKBACK, Coverage())
    parts = {first.part(source, "a/b", DONE), second.part(source, "a/b", "usage-0")}
    assert coverage(parts, source, "a/b").windows == ((0, DAY_MS),)
    assert coverage(parts, source, "a").windows == ()
    assert has_begun(parts, source)
    assert not has_begun(parts, PrometheusRequest(url="http://x:9090", all_workloads=True).source())


def test_a_hole_is_refused() -> None:
    covered = Coverage(((0, DAY_MS),))
    with pytest.raises(UsageError, match="no holes"):
        windows(DAY_MS + HOUR, 2 * DAY_MS, LOOKBACK, covered)


def test_an_earlier_time_is_refused() -> None:
    with pytest.raises(UsageError, match="grows forward only"):
        windows(0, 3 * DAY_MS, LOOKBACK, Coverage(((DAY_MS, 2 * DAY_MS),)))
