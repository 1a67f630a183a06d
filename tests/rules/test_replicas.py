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
from hpabatch.rules.numbers import INT64_MAX, INT64_MIN
from hpabatch.rules.replicas import (
    Proposal,
    Tolerance,
    average_per_pod,
    failed_metric,
    is_contradiction,
    is_within_tolerance,
    propose_by_pod_average,
    propose_by_total_average,
    propose_by_utilization,
    propose_by_value,
    replicas_after_substitution,
    replicas_of_ready,
    sum_for_average,
    sum_for_value,
    utilization_of,
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


def test_a_failed_metric_proposes_nothing() -> None:
    expected = Proposal(codes.METRIC_NO_PODS, codes.STEP_NONE, 0, 0.0, 0, 0, 0)
    assert plain(failed_metric(codes.METRIC_NO_PODS)) == expected


@pytest.mark.parametrize(
    ("ratio", "within"),
    [
        (0.9, True),
        (1.1, True),
        (1.0, True),
        (0.8999999999999999, False),
        (1.1000000000000003, False),
        (math.nan, False),
        (math.inf, False),
        (-math.inf, False),
    ],
)
def test_both_ends_belong_to_the_tolerance(ratio: float, within: bool) -> None:
    assert is_within_tolerance(ratio, TEN_PERCENT) is within


def test_a_tolerance_down_of_one_covers_every_ratio_below() -> None:
    wide = Tolerance(1.0, 0.0, True)
    assert is_within_tolerance(0.0, wide)
    assert not is_within_tolerance(-0.1, wide)
    assert not is_within_tolerance(1.0000000001, wide)


@given(st.floats(0, 3), st.floats(0, 1), st.floats(0, 1))
def test_each_direction_has_its_own_tolerance(ratio: float, down: float, up: float) -> None:
    within = is_within_tolerance(ratio, Tolerance(down, up, True))
    assert within == (ratio >= 1.0 - down if ratio < 1.0 else ratio <= 1.0 + up)


@pytest.mark.parametrize(
    ("usage", "request_milli", "percent"),
    [
        (597, 900, 66),
        (-597, 900, -66),
        (0, 5, 0),
        (INT32_MAX + 1, 100, INT32_MIN),
        (2**62, 1, 0),
        (92_233_720_368_547_759, 10**9, -9_223_372_036 + 2 * 2**32),
    ],
)
def test_utilization_truncates_and_wraps(usage: int, request_milli: int, percent: int) -> None:
    assert utilization_of(usage, request_milli) == percent


@pytest.mark.parametrize(
    ("first", "second", "turned"),
    [
        (0.5, 1.5, True),
        (1.5, 0.5, True),
        (0.5, 0.7, False),
        (1.5, 1.2, False),
        (1.0, 2.0, False),
        (0.5, 1.0, False),
        (1.5, 1.0, False),
        (math.nan, 2.0, False),
    ],
)
def test_a_contradiction_is_a_turned_direction(first: float, second: float, turned: bool) -> None:
    assert is_contradiction(first, second) is turned


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


def test_strays_count_as_entries_but_not_in_sums() -> None:
    pods = statistics(
        ready=2, stray=3, stray_milli=10**9, usage_milli=2400, request_milli=2000, missing=1,
        missing_request_milli=1000,
    )  # fmt: skip
    result = plain(propose_by_utilization(pods, 60, 3, TEN_PERCENT, NEWEST))
    assert (result.utilization_pct, result.average_milli) == (120, 1200)
    assert result.ratio == 80 / 60  # 2400 of 3000
    assert result.replicas == 8  # ceil(1.333 x 6 entries)


def test_average_is_over_the_pods_with_request_of_the_first_pass() -> None:
    pods = statistics(ready=3, usage_milli=-1000, request_milli=3000)
    result = plain(propose_by_utilization(pods, 60, 3, TEN_PERCENT, NEWEST))
    assert (result.average_milli, result.utilization_pct) == (-333, -33)
    assert result.replicas == -1  # ceil(-0.55 x 3)


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


# ---- averages ------------------------------------------------------------------------------------


def test_an_average_without_samples_fails() -> None:
    pods = statistics(unready=1, missing=2)
    result = plain(propose_by_pod_average(pods, 100, 3, TEN_PERCENT, NEWEST))
    assert result == plain(failed_metric(codes.METRIC_NO_SAMPLES))


@pytest.mark.parametrize(
    ("pods", "average", "ratio", "replicas"),
    [
        # all ready
        (statistics(ready=3, usage_milli=600), 200, 2.0, 6),
        # strays are in the average and among the entries, but not ready
        (statistics(ready=1, stray=1, usage_milli=300, stray_milli=101), 200, 2.0, 2),
        # missing: at the target on the way down, 0 on the way up, nothing at exactly 1
        (statistics(ready=2, missing=2, usage_milli=100), 50, 0.75, 3),
        (statistics(ready=2, missing=2, usage_milli=800), 400, 2.0, 8),
        (statistics(ready=2, missing=2, usage_milli=200), 100, 1.0, 4),
        # unready: 0 on the way up, absent on the way down
        (statistics(ready=2, unready=1, usage_milli=900), 450, 3.0, 9),
        (statistics(ready=2, unready=1, usage_milli=100), 50, 0.5, 1),
        # both
        (statistics(ready=2, unready=1, missing=1, usage_milli=1600), 800, 4.0, 16),
        # truncated averages in both passes
        (statistics(ready=3, missing=1, usage_milli=1000), 333, 2.5, 10),
    ],
)
def test_averages_with_missing_and_unready_pods(
    pods: PodStatistics, average: int, ratio: float, replicas: int
) -> None:
    result = plain(propose_by_pod_average(pods, 100, 4, TEN_PERCENT, NEWEST))
    assert (result.average_milli, result.ratio, result.replicas) == (average, ratio, replicas)
    assert (result.utilization_pct, result.value_milli) == (0, 0)


def test_at_a_ratio_of_exactly_one_unready_pods_are_absent() -> None:
    average = statistics(ready=2, unready=1, usage_milli=200)
    result = plain(propose_by_pod_average(average, 100, 3, NOTHING, NEWEST))
    assert (result.step, result.replicas) == (codes.STEP_TOLERANCE, 3)
    utilization = average._replace(request_milli=400, unready_request_milli=200)
    result = plain(propose_by_utilization(utilization, 50, 3, NOTHING, NEWEST))
    assert (result.step, result.replicas) == (codes.STEP_TOLERANCE, 3)


def test_the_first_pass_has_no_guard() -> None:
    # Up by the ratio, and yet down: one pod counts of the four that there are.
    pods = statistics(ready=1, usage_milli=200, request_milli=200)
    result = plain(propose_by_pod_average(pods, 100, 4, TEN_PERCENT, NEWEST))
    assert (result.step, result.replicas) == (codes.STEP_RATIO, 2)
    result = plain(propose_by_utilization(pods, 50, 4, TEN_PERCENT, NEWEST))
    assert (result.step, result.replicas) == (codes.STEP_RATIO, 2)


@pytest.mark.parametrize(
    ("target", "ratio", "replicas"), [(0, math.inf, INT32_MIN), (-100, -2.0, -4)]
)
def test_targets_of_extreme_quantities_are_no_special_case(
    target: int, ratio: float, replicas: int
) -> None:
    pods = statistics(ready=2, usage_milli=400)
    result = plain(propose_by_pod_average(pods, target, 3, TEN_PERCENT, NEWEST))
    assert (result.ratio, result.replicas) == (ratio, replicas)


# ---- Object and External totals ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("usage", "current", "known", "ready", "replicas", "step"),
    [
        (150_000, 0, 0, 0, 2, codes.STEP_RATIO),  # from zero: no tolerance, no pods
        (101_000, 0, 0, 0, 2, codes.STEP_RATIO),
        (110_000, 5, 0, 0, 5, codes.STEP_TOLERANCE),  # within: pods are not looked for
        (250_000, 5, 5, 4, 10, codes.STEP_RATIO),
        (250_000, 5, 5, 0, 0, codes.STEP_RATIO),
        (2**62, 5, 5, 4, INT32_MAX, codes.STEP_RATIO),
        (-(2**62), 5, 5, 4, INT32_MIN, codes.STEP_RATIO),
        (2**62, 0, 0, 0, INT32_MIN, codes.STEP_RATIO),  # no cap from zero
    ],
)
def test_values_times_ready_pods(
    usage: int, current: int, known: int, ready: int, replicas: int, step: int
) -> None:
    result = plain(propose_by_value(usage, 100_000, current, known, ready, TEN_PERCENT, True))
    assert (result.code, result.replicas, result.step) == (codes.METRIC_OK, replicas, step)
    assert (result.value_milli, result.average_milli) == (usage, 0)


def test_a_value_outside_the_tolerance_needs_pods() -> None:
    result = plain(propose_by_value(250_000, 100_000, 5, 0, 0, TEN_PERCENT, True))
    assert result == plain(failed_metric(codes.METRIC_NO_PODS))


@pytest.mark.parametrize(
    ("wanted", "replicas"),
    [
        (2147483648, INT32_MAX),
        (2147483647.5, INT32_MAX),
        (2147483647, INT32_MAX),
        (2147483646.5, INT32_MAX),
        (2147483646, 2147483646),
    ],
)
def test_the_cap_of_values_is_max_int32(wanted: float, replicas: int) -> None:
    usage = round(wanted * 2)
    result = propose_by_value(usage, 2, 5, 5, 1, TEN_PERCENT, True)
    assert int(result.replicas) == replicas


@pytest.mark.parametrize(
    ("usage", "status", "is_external", "guarded", "average"),
    [
        (90_001, 2, True, True, 45_001),
        (-90_001, 2, True, True, -45_000),
        (7, 0, True, True, 0),
        (7, 0, False, True, 0),
        (7, 0, True, False, INT64_MIN),
        (7, 0, False, False, INT64_MIN),
        (INT64_MAX, 0, False, True, INT64_MAX),
        (INT64_MAX, 2, True, True, INT64_MAX),
        (INT64_MAX, 2, True, False, INT64_MAX),
        (INT64_MAX, 2, False, True, INT64_MAX),
        (INT64_MAX, 2, False, False, 2**62),
        (INT64_MAX - 600, 1, False, True, INT64_MAX - 1023),
        (INT64_MAX - 200, 1, False, False, INT64_MIN),
    ],
)
def test_the_per_pod_average_of_the_status(
    usage: int, status: int, is_external: bool, guarded: bool, average: int
) -> None:
    assert average_per_pod(usage, status, is_external, guarded) == average


@pytest.mark.parametrize(
    ("usage", "status", "is_external", "replicas", "step"),
    [
        (90_000, 2, True, 3, codes.STEP_RATIO),
        (62_000, 2, True, 2, codes.STEP_TOLERANCE),
        (62_000, 2, False, 2, codes.STEP_TOLERANCE),
        (1, 0, True, 1, codes.STEP_RATIO),
        (0, 0, True, 0, codes.STEP_RATIO),
        (INT64_MAX, 2, True, INT32_MAX, codes.STEP_RATIO),
        (INT64_MAX, 2, False, INT32_MIN, codes.STEP_RATIO),  # no cap for Object
        (-90_000, 2, False, -3, codes.STEP_RATIO),
    ],
)
def test_totals_by_average(
    usage: int, status: int, is_external: bool, replicas: int, step: int
) -> None:
    result = plain(
        propose_by_total_average(usage, 30_000, status, is_external, TEN_PERCENT, NEWEST)
    )
    assert (result.replicas, result.step, result.value_milli) == (replicas, step, 0)


# ---- sums of External series ---------------------------------------------------------------------


def sums(values: list[int]) -> tuple[int, int]:
    array = np.array([5, *values, 5], np.int64)
    last = len(array) - 1
    return int(sum_for_value(array, 1, last, True)), int(sum_for_average(array, 1, last, True))


@pytest.mark.parametrize(
    ("values", "for_value", "for_average"),
    [
        ([], 0, 0),
        ([1, 2], 3, 3),
        ([-5, 10], 5, INT64_MAX),
        ([10, -5], 5, 5),
        ([INT64_MAX, 1], INT64_MAX, INT64_MAX),
        ([INT64_MAX, 1, -7], INT64_MAX, INT64_MAX),
        ([INT64_MAX - 1, 1], INT64_MAX, INT64_MAX),
        ([1, INT64_MAX], INT64_MAX, INT64_MAX),
        ([INT64_MIN, -1], INT64_MAX, INT64_MAX),  # downward nothing is capped for values
        ([INT64_MIN, -2], INT64_MAX - 1, INT64_MAX),
        ([-1, INT64_MIN, 3], INT64_MAX, INT64_MAX),
    ],
)
def test_overflow_of_series_sums(values: list[int], for_value: int, for_average: int) -> None:
    assert sums(values) == (for_value, for_average)


@given(st.lists(st.integers(0, INT64_MAX), max_size=6))
def test_sums_of_what_is_not_negative_are_capped(values: list[int]) -> None:
    assert sums(values)[0] == min(sum(values), INT64_MAX)
    partial, overflowed = 0, False
    for value in values:
        partial = (partial + value) % 2**64
        overflowed = overflowed or partial >= 2**63
    assert overflowed == (sums(values)[1] == INT64_MAX != sum(values))
