"""Observed usage on a grid, and the small statistics of a fit against tables and plain loops."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpabatch.engine.fit.stats import (
    int_median,
    past_means,
    slope,
    t_quantile,
)
from hpabatch.engine.fit.usage import (
    TICK_COLUMNS,
    SignalUsage,
    Usage,
    cells_of,
    filled,
    gaps_of,
    series_of,
)
from tests.effort import effort
from tests.engine.closed_loop import CPU, QUEUE, START, STEP_MS, Loop, usage_of

NAME = "resource/cpu"


def flat(steps: int = 40, ready: int = 4, value: float = 300.0) -> Usage:
    """Return usage that never changes."""
    size = np.full(steps, ready)
    return usage_of(Loop(np.full(steps, value), size, np.full(steps, value), size))


def kept(signal: SignalUsage, rows: object) -> SignalUsage:
    """Return a signal with some of its rows."""
    columns = ("tick", *TICK_COLUMNS)
    return replace(signal, **{name: getattr(signal, name)[rows] for name in columns})


def test_jitter_moves_no_sample_into_another_cell() -> None:
    usage = flat(400)
    rng = np.random.default_rng(0)
    signal = usage.signals[NAME]
    late = rng.integers(-3_000, 3_000, 400)
    moved = replace(signal, mean_ms=signal.mean_ms + late, newest_ms=signal.newest_ms + late)
    usage = replace(usage, signals={NAME: moved})
    cells = cells_of(usage)
    assert cells is not None
    assert cells.resolution_ms == STEP_MS
    assert not np.isnan(series_of(usage, moved, cells).usage).any()


def test_a_window_over_a_change_has_the_pods_in_between() -> None:
    ready = np.array([4] * 20 + [6] * 20)
    usage = usage_of(Loop(np.full(40, 1.0), ready, np.full(40, 100.0), ready))
    signal = usage.signals[NAME]
    half = replace(signal, mean_ms=signal.mean_ms - 7_500, newest_ms=signal.newest_ms - 7_500)
    usage = replace(usage, signals={NAME: half})
    cells = cells_of(usage)
    assert cells is not None
    found = series_of(usage, half, cells)
    assert sorted(set(found.ready.tolist())) == [4, 5, 6]
    # Neither the window over the change nor the 30 s after it are still.
    assert np.flatnonzero(~found.still).tolist() == [20, 21, 22]


def test_gaps_are_told_and_filled() -> None:
    usage = flat(40)
    rows = [k for k in range(40) if k != 5 and not 20 <= k < 25]
    signal = kept(usage.signals[NAME], rows)
    usage = replace(usage, signals={NAME: signal})
    cells = cells_of(usage)
    assert cells is not None
    found = series_of(usage, signal, cells)
    assert np.flatnonzero(np.isnan(found.usage)).tolist() == [5, *range(20, 25)]
    # One lost sample is no gap; times are those of samples, at the end of what they measure.
    (gap,) = gaps_of(found, signal, cells)
    missing = START + np.arange(21, 26) * STEP_MS
    assert ((missing >= gap[0]) & (missing < gap[1])).all()
    assert gap[1] - gap[0] == 5 * STEP_MS
    assert not (gap[0] <= START + 20 * STEP_MS < gap[1])
    assert not (gap[0] <= START + 26 * STEP_MS < gap[1])
    assert filled(np.array([np.nan, 1, np.nan, 3, np.nan])).tolist() == [1, 1, 2, 3, 3]
    assert filled(np.array([np.nan, np.nan])).tolist() == [0, 0]


def test_a_total_is_its_value_whatever_the_pods() -> None:
    size = np.full(30, 3)
    value = np.arange(30, dtype=np.float64)
    value *= 1000
    loop = Loop(value, size, np.full(30, 10.0), size)
    usage = usage_of(loop, (CPU, QUEUE), depth=value)
    cells = cells_of(usage)
    assert cells is not None
    found = series_of(usage, usage.signals["external/depth"], cells)
    known = found.usage[~np.isnan(found.usage)]
    assert known.tolist() == value.tolist()
    nothing = {name: kept(s, slice(0)) for name, s in usage.signals.items()}
    assert cells_of(replace(usage, signals=nothing)) is None


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


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=9))
def test_the_median_of_integers_is_numpys(values: list[int]) -> None:
    assert int_median(np.array(values, np.int64)) == int(np.median(values))
