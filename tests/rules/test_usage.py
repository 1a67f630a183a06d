"""A pod's usage from its containers' samples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.rules.usage import pod_usage


@pytest.mark.parametrize(
    ("known", "values", "first", "last", "expected"),
    [
        ([1, 1], [300, 45], 0, 2, (1, 345)),
        ([1, 0], [300, 45], 0, 2, (0, 0)),  # one container lacks the resource
        ([0, 1], [300, 45], 1, 2, (1, 45)),
        ([1, 1], [300, 45], 1, 1, (0, 0)),  # no containers at all
        ([1], [0], 0, 1, (1, 0)),
        ([1, 1], [2**63 - 1, 1], 0, 2, (1, -(2**63))),
    ],
)
def test_a_pod_is_summed_or_dropped_whole(
    known: list[int], values: list[int], first: int, last: int, expected: tuple[int, int]
) -> None:
    result = pod_usage(np.array(known, np.int8), np.array(values, np.int64), first, last)
    assert (int(result[0]), int(result[1])) == expected


@given(st.lists(st.tuples(st.booleans(), st.integers(-(2**40), 2**40)), max_size=6))
def test_the_order_of_containers_does_not_matter(containers: list[tuple[bool, int]]) -> None:
    def usage(rows: list[tuple[bool, int]]) -> tuple[int, int]:
        known = np.array([k for k, _ in rows], np.int8)
        values = np.array([v for _, v in rows], np.int64)
        present, total = pod_usage(known, values, 0, len(rows))
        return int(present), int(total) if present else 0

    whole = bool(containers) and all(known for known, _ in containers)
    expected = (1, sum(v for _, v in containers)) if whole else (0, 0)
    assert usage(containers) == usage(containers[::-1]) == expected
