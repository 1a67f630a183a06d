"""The small statistics against tables and plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpabatch.engine.fit.stats import (
    int_median,
    median_interval,
    past_means,
    rolling_mean,
    runs_of,
    slope,
    t_quantile,
)
from tests.effort import effort

some_cells = st.lists(st.none() | st.floats(-50, 50), min_size=1, max_size=30).map(
    lambda v: np.array([math.nan if x is None else x for x in v])
)


@pytest.mark.parametrize(
    ("freedom", "expected"),
    [(1, 12.706), (4, 2.776), (5, 2.571), (10, 2.228), (30, 2.042), (120, 1.980)],
)
def test_quantiles_are_those_of_the_tables(freedom: int, expected: float) -> None:
    assert t_quantile(freedom) == pytest.approx(expected, abs=0.01)


@given(values=some_cells, lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4))
@settings(max_examples=effort(60))
def test_means_of_the_past_are_those_of_a_plain_loop(
    values: np.ndarray[tuple[int], np.dtype[np.float64]], lengths: list[int]
) -> None:
    found = past_means(values, tuple(lengths))
    assert found.shape == (values.size, len(lengths))
    for cell in range(values.size):
        known = [v for v in values[: cell + 1].tolist() if not math.isnan(v)]
        expected = known[-1] if known else values[0]
        end = cell + 1
        for k, length in enumerate(lengths):
            begin = max(end - length, 0)
            part = [v for v in values[begin:end].tolist() if not math.isnan(v)]
            expected = sum(part) / len(part) if part else expected
            np.testing.assert_allclose(found[cell, k], expected, atol=1e-9)
            end = begin


@given(values=some_cells, length=st.integers(1, 5))
@settings(max_examples=effort(40))
def test_rolling_means_are_those_of_a_plain_loop(
    values: np.ndarray[tuple[int], np.dtype[np.float64]], length: int
) -> None:
    found = rolling_mean(values, length)
    expected = [values[k : k + length].mean() for k in range(values.size - length + 1)]
    np.testing.assert_allclose(found, np.array(expected), atol=1e-9)


def test_runs_are_where_they_are() -> None:
    first, end = runs_of(np.array([True, False, True, True, False, True]))
    assert first.tolist() == [0, 2, 5]
    assert end.tolist() == [1, 4, 6]
    assert runs_of(np.zeros(3, bool))[0].size == 0


def test_a_slope_has_the_error_of_its_clusters() -> None:
    rng = np.random.default_rng(0)
    found = []
    for _ in range(300):
        cluster = np.repeat(np.arange(20), 5)
        x = rng.normal(size=100) + np.repeat(rng.normal(size=20), 5)
        shared = np.repeat(rng.normal(size=20), 5)  # residuals of a cluster hang together
        y = 2 * x + shared * x.mean() + shared + rng.normal(size=100)
        value, error, clusters = slope(x, y, x, cluster)
        assert clusters == 20
        found.append((value, error))
    values, errors = np.array(found).T
    assert values.mean() == pytest.approx(2, abs=0.05)
    assert errors.mean() == pytest.approx(values.std(), rel=0.15)


def test_a_slope_of_nothing_is_unknown() -> None:
    zero, some = np.zeros(4), np.array([0, 0, 1, 1])
    assert math.isnan(slope(zero, zero, zero, some)[0])
    one = np.ones(4)
    assert math.isnan(slope(one, one, one, np.zeros(4, np.int64))[1])


@pytest.mark.parametrize("size", [6, 7, 30, 101])
def test_the_interval_of_a_median_covers_it(size: int) -> None:
    rng = np.random.default_rng(size)
    covered = 0
    for _ in range(400):
        found = median_interval(np.exp(rng.normal(size=size)))
        assert found.low <= found.value <= found.high
        covered += found.low <= 1 <= found.high
    assert covered / 400 >= 0.93


def test_the_interval_of_many_values_is_not_all_of_them() -> None:
    found = median_interval(np.arange(101.0))
    assert found.value == 50
    assert (found.low, found.high) == (40, 60)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=9))
def test_the_median_of_integers_is_numpys(values: list[int]) -> None:
    assert int_median(np.array(values, np.int64)) == int(np.median(values))
