"""Bounds without behavior."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hpabatch.layout import codes
from hpabatch.rules.normalize import limit_legacy
from tests.reference.normalize import limit_legacy as naive

sizes = st.integers(0, 2**31 - 1)


def limited(*arguments: int) -> tuple[int, str]:
    size, condition = limit_legacy(*arguments)
    return int(size), codes.CONDITIONS[int(condition)].reason


@given(sizes, sizes, sizes, sizes)
def test_legacy_bounds_equal_the_naive_reference(
    current: int, wanted: int, low: int, high: int
) -> None:
    assert limited(current, wanted, low, high) == tuple(naive(current, wanted, low, high))
