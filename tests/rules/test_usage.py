"""A pod's usage from its containers' samples."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.rules.usage import add_container


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
