"""Bounds without behavior."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.layout import codes
from hpabatch.rules.normalize import limit_legacy
from tests.reference.controller import limit_legacy as naive

sizes = st.integers(0, 2**31 - 1)


def limited(*arguments: int) -> tuple[int, str]:
    size, condition = limit_legacy(*arguments)
    return int(size), codes.CONDITIONS[int(condition)].reason


@pytest.mark.parametrize(
    ("current", "wanted", "low", "high", "expected"),
    [
        (1, 9, 1, 100, (4, "ScaleUpLimit")),
        (2, 9, 1, 100, (4, "ScaleUpLimit")),
        (3, 9, 1, 100, (6, "ScaleUpLimit")),
        (3, 6, 1, 100, (6, "DesiredWithinRange")),
        (3, 9, 1, 6, (6, "TooManyReplicas")),  # the maximum equals the limit
        (3, 9, 1, 5, (5, "TooManyReplicas")),
        (5, 0, 2, 9, (2, "TooFewReplicas")),
        (5, 2, 2, 9, (2, "DesiredWithinRange")),
        (0, 9, 7, 100, (4, "ScaleUpLimit")),  # from zero the limit comes before the minimum
        (0, 2, 7, 100, (7, "TooFewReplicas")),
        # twice the current size does not fit: the limit becomes the smallest number
        (2**30, 2**30, 1, 2**31 - 1, (-(2**31), "ScaleUpLimit")),
        (2**30 - 1, 2**31 - 1, 1, 2**31 - 1, (2**31 - 2, "ScaleUpLimit")),
    ],
)
def test_at_most_double_or_four(
    current: int, wanted: int, low: int, high: int, expected: tuple[int, str]
) -> None:
    assert limited(current, wanted, low, high) == expected


@given(sizes, sizes, sizes, sizes)
def test_legacy_bounds_equal_the_naive_reference(
    current: int, wanted: int, low: int, high: int
) -> None:
    assert limited(current, wanted, low, high) == tuple(naive(current, wanted, low, high))


@given(st.integers(1, 1000), st.integers(0, 5000), st.integers(0, 1000))
def test_the_condition_is_true_exactly_if_the_number_changed(
    current: int, wanted: int, high: int
) -> None:
    size, condition = limit_legacy(current, wanted, 1, max(high, current))
    assert (size != wanted) == (condition != codes.DESIRED_WITHIN_RANGE)
    assert 1 <= size <= max(high, current)
    assert size <= max(2 * current, 4)
