"""The calculator's ratio maths from statistics: failures in their order, guards, caps, monotony."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.layout import codes
from hpabatch.model.versions import PROFILES
from hpabatch.rules.numbers import INT64_MAX
from hpabatch.rules.replicas import (
    Proposal,
    Tolerance,
    failed_metric,
    is_within_tolerance,
    propose_by_utilization,
    replicas_after_substitution,
    replicas_of_ready,
    sum_for_average,
    sum_for_value,
)
from hpabatch.rules.statistics import PodStatistics

NEWEST = PROFILES["1.38"].switches()
TEN_PERCENT = Tolerance(0.1, 0.1, True)
NOTHING = Tolerance(0.0, 0.0, True)
INT32_MAX, INT32_MIN = 2**31 - 1, -(2**31)


def statistics(**sums: int) -> PodStatistics:
    return PodStatistics(*[0] * 12)._replace(**sums)


def plain(proposal: Proposal) -> Proposal:
    values: Any = [float(v) if isinstance(v, float) else int(v) for v in proposal]
    return Proposal(*values)


@given(st.floats(0, 3), st.floats(0, 1), st.floats(0, 1))
def test_each_direction_has_its_own_tolerance(ratio: float, down: float, up: float) -> None:
    within = is_within_tolerance(ratio, Tolerance(down, up, True))
    assert within == (ratio >= 1.0 - down if ratio < 1.0 else ratio <= 1.0 + up)


@pytest.mark.parametrize(
    ("first", "second", "entries", "current", "expected"),
    [
        (1.5, 1.05, 8, 10, (codes.STEP_TOLERANCE_AFTER_SUBSTITUTION, 10)),
        (0.5, 1.2, 8, 10, (codes.STEP_DIRECTION_GUARD, 10)),
        (1.5, 1.2, 10, 10, (codes.STEP_RATIO, 12)),
        (0.5, 0.6, 10, 10, (codes.STEP_RATIO, 6)),
        # more entries than replicas: down would grow, up would shrink
        (0.5, 0.6, 20, 10, (codes.STEP_DIRECTION_GUARD, 10)),
        (1.5, 1.2, 5, 10, (codes.STEP_DIRECTION_GUARD, 10)),
        (0.5, 0.5, 20, 10, (codes.STEP_RATIO, 10)),
        # a number that does not fit becomes the smallest, which the last guard catches
        (2.0, 1e300, 5, 10, (codes.STEP_DIRECTION_GUARD, 10)),
        (math.nan, math.nan, 5, 10, (codes.STEP_RATIO, INT32_MIN)),
    ],
)
def test_the_guards_after_substitution(
    first: float, second: float, entries: int, current: int, expected: tuple[int, int]
) -> None:
    result = replicas_after_substitution(first, second, entries, current, TEN_PERCENT, True)
    assert (int(result[0]), int(result[1])) == expected


@given(
    st.floats(0, 100),
    st.floats(0, 100),
    st.integers(1, 10_000),
    st.integers(1, 10_000),
    st.floats(0, 0.9),
)
def test_after_substitution_nothing_moves_against_the_ratio(
    first: float, second: float, entries: int, current: int, tolerance: float
) -> None:
    both = Tolerance(tolerance, tolerance, True)
    step, replicas = replicas_after_substitution(first, second, entries, current, both, True)
    if second < 1.0:
        assert replicas <= current
    elif second > 1.0:
        assert replicas >= current
    else:
        assert (step, replicas) == (codes.STEP_TOLERANCE_AFTER_SUBSTITUTION, current)
    if step != codes.STEP_RATIO:
        assert replicas == current


@given(st.floats(0, 10), st.integers(0, 1000), st.integers(0, 1000))
def test_where_every_pod_counts_the_ratio_times_ready_pods(
    ratio: float, ready: int, current: int
) -> None:
    step, replicas = replicas_of_ready(ratio, ready, current, TEN_PERCENT)
    within = 1.0 - 0.1 <= ratio <= 1.0 + 0.1
    assert (step == codes.STEP_TOLERANCE) == within
    assert replicas == (current if within else math.ceil(ratio * ready))


# ---- utilization ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pods", "code"),
    [
        (statistics(unready=3, missing=2), codes.METRIC_NO_SAMPLES),
        (statistics(missing=2, without_request=2), codes.METRIC_NO_SAMPLES),
        (statistics(ready=1, request_milli=100, without_request=1), codes.METRIC_NO_REQUEST),
        (statistics(stray=1, without_request=1), codes.METRIC_NO_REQUEST),
        (statistics(stray=1, missing=1, missing_request_milli=100), codes.METRIC_NO_MATCH),
        (statistics(ready=1), codes.METRIC_NO_MATCH),
        # a request that wrapped to -1000 and one of 1000 make nothing of the second sum
        (
            statistics(ready=1, missing=1, request_milli=-1000, missing_request_milli=1000),
            codes.METRIC_NO_MATCH,
        ),
    ],
)
def test_what_fails_a_utilization_metric_in_order(pods: PodStatistics, code: int) -> None:
    assert plain(propose_by_utilization(pods, 60, 3, TEN_PERCENT, NEWEST)) == plain(
        failed_metric(code)
    )


@given(
    st.integers(1, 50),
    st.integers(1, 200),
    st.integers(1, 150),
    st.integers(0, 100),
)
def test_more_usage_never_wants_fewer_replicas(
    ready: int, percent: int, target: int, more: int
) -> None:
    def replicas(usage: int) -> int:
        pods = statistics(ready=ready, usage_milli=usage, request_milli=1000 * ready)
        return int(propose_by_utilization(pods, target, ready, NOTHING, NEWEST).replicas)

    usage = 10 * percent * ready
    assert replicas(usage + 10 * more * ready) >= replicas(usage)


# ---- sums of External series ---------------------------------------------------------------------


def sums(values: list[int]) -> tuple[int, int]:
    array = np.array([5, *values, 5], np.int64)
    last = len(array) - 1
    return int(sum_for_value(array, 1, last, True)), int(sum_for_average(array, 1, last, True))


@given(st.lists(st.integers(0, INT64_MAX), max_size=6))
def test_sums_of_what_is_not_negative_are_capped(values: list[int]) -> None:
    assert sums(values)[0] == min(sum(values), INT64_MAX)
    partial, overflowed = 0, False
    for value in values:
        partial = (partial + value) % 2**64
        overflowed = overflowed or partial >= 2**63
    assert overflowed == (sums(values)[1] == INT64_MAX != sum(values))
