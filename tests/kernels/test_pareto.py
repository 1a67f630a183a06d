"""The Pareto front: against its definition, compiled and interpreted."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from hpabatch.kernels.pareto import mark_front

Points = list[list[float]]
VALUES = st.sampled_from([0.0, -0.0, 1.0, 1.5, 2.0, 3.0, math.inf, -math.inf, math.nan])


@st.composite
def points(draw: st.DrawFn) -> Points:
    columns = draw(st.integers(1, 4))
    row = st.lists(VALUES, min_size=columns, max_size=columns)
    return draw(st.lists(row, min_size=1, max_size=14))


def naive_front(rows: Points) -> list[int]:
    """Hold every point against every other one."""

    def dominates(a: list[float], b: list[float]) -> bool:
        return all(x <= y for x, y in zip(a, b, strict=True)) and a != b

    known = [not any(math.isnan(x) for x in row) for row in rows]
    return [
        int(
            known[i] and not any(known[j] and dominates(rows[j], rows[i]) for j in range(len(rows)))
        )
        for i in range(len(rows))
    ]


def marked(rows: NDArray[np.float64], mark: object = mark_front) -> tuple[list[int], int]:
    order = np.lexsort(rows.T[::-1]).astype(np.int64)
    kept, on_front = np.full(len(rows), -77), np.full(len(rows), -77)
    assert callable(mark)
    count = mark(rows, order, kept, on_front)
    return on_front.tolist(), int(count)


@given(points())
def test_the_front_is_what_nothing_dominates(rows: Points) -> None:
    expected = naive_front(rows)
    assert marked(np.array(rows)) == (expected, sum(expected))


@pytest.mark.compiled
def test_compiled_is_interpreted() -> None:
    rng = np.random.default_rng(7)
    for columns in (1, 2, 3, 4):
        rows = rng.integers(0, 12, (400, columns)).astype(float)
        rows[rng.random(rows.shape) < 0.02] = math.nan
        plain = mark_front.function  # type: ignore[attr-defined]
        assert marked(rows) == marked(rows, plain)
