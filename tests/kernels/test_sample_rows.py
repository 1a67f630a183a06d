"""Sample rows: where owners change, a pod's usage, and the times at which samples are visible."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.kernels.steps import (
    add_container,
    add_step,
    fetched_at,
    seen_from,
)
from hpabatch.layout.observations import NOT_FETCHED_MS, STEP, empty_steps


def usage(containers: list[tuple[int, int]]) -> tuple[int, int]:
    """Return (present, usage) of containers (is known, milli), which need not be any."""
    present, total = 1, 0
    for is_known, milli in containers:
        present, total = add_container(present, total, is_known, milli)
    return int(present), int(total)


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        ([(1, 300), (1, 45)], (1, 345)),
        ([(1, 300), (0, 45)], (0, 0)),  # one container lacks the resource
        ([(0, 45), (1, 300)], (0, 0)),
        ([(1, 0)], (1, 0)),
        ([(1, 2**63 - 1), (1, 1)], (1, -(2**63))),
    ],
)
def test_a_pod_is_summed_or_dropped_whole(
    containers: list[tuple[int, int]], expected: tuple[int, int]
) -> None:
    assert usage(containers) == expected


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(-(2**40), 2**40)), max_size=6))
def test_the_order_of_containers_does_not_matter(containers: list[tuple[int, int]]) -> None:
    whole = all(is_known for is_known, _ in containers)
    expected = (1, sum(milli for _, milli in containers)) if whole else (0, 0)
    assert usage(containers) == usage(containers[::-1]) == expected


@pytest.mark.parametrize(
    ("fetched_ms", "delay_ms", "expected"),
    [
        (NOT_FETCHED_MS, 0, 1000),
        (NOT_FETCHED_MS, 30, 1030),
        (1007, 30, 1007),
        (900, 30, 900),  # a clock that is wrong
        (0, 30, 0),
    ],
)
def test_a_sample_is_seen_from_its_fetch_else_after_the_delay(
    fetched_ms: int, delay_ms: int, expected: int
) -> None:
    assert seen_from(1000, fetched_ms, delay_ms) == expected


def test_an_empty_column_means_that_no_fetch_was_recorded() -> None:
    assert fetched_at(np.zeros(0, np.int64), 5) == NOT_FETCHED_MS
    assert fetched_at(np.array([7, 8], np.int64), 1) == 8


def stacked(seen_ms: list[int], first: int = 0) -> list[tuple[int, ...]]:
    """Return the steps of samples taken at 0, 1, 2 …, visible at these times."""
    steps = empty_steps(first + len(seen_ms))
    for name in STEP.names or ():
        steps[name] = -91
    top = first
    for ts_ms, at in enumerate(seen_ms):
        top = add_step(steps, first, top, at, ts_ms, 10 + ts_ms, 20 + ts_ms, ts_ms % 2)
    assert (np.array(steps[:first].tolist()) == -91).all()
    return [tuple(row) for row in steps[first:top].tolist()]


def test_a_sample_that_arrives_after_a_newer_one_is_never_the_newest() -> None:
    assert stacked([5, 9, 7, 7, 20]) == [
        (5, 0, 10, 20, 0),
        (7, 3, 13, 23, 1),
        (20, 4, 14, 24, 0),
    ]
    assert stacked([3, 2, 1], first=2) == [(1, 2, 12, 22, 0)]


@given(st.lists(st.integers(0, 30), max_size=12), st.integers(0, 2))
def test_the_steps_are_the_newest_samples_seen_so_far(seen_ms: list[int], first: int) -> None:
    steps = stacked(seen_ms, first)
    for now in range(-1, 32):
        arrived = [ts for ts, at in enumerate(seen_ms) if at <= now]
        shown = [step[1] for step in steps if step[0] <= now]
        assert (shown[-1] if shown else None) == (max(arrived) if arrived else None)
    times = [step[0] for step in steps]
    assert times == sorted(set(times))
