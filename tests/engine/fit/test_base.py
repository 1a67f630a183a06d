"""The base of a pod is found in closed loops, where usage alone says nothing of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hpabatch.engine.fit.base import (
    FEWEST_CHANGES,
    base_from_changes,
    base_from_rate,
    changes_of,
    highest_base,
)
from hpabatch.engine.fit.run import fit
from hpabatch.engine.fit.usage import Cells, Series
from hpabatch.engine.fit.workload import ASSUMED, FITTED
from tests.engine.closed_loop import RECORDING, START, STEP_MS, TARGET, Loop, run_loop, usage_of

SEEDS = (1, 2, 3)
DAY = 24 * 3_600_000 // STEP_MS


def test_closed_loops_have_their_base_recovered() -> None:
    covered = []
    for base in (0, 100, 200):
        values = []
        for seed in SEEDS:
            loop = run_loop(seed, base)
            estimate = base_from_changes(loop.series(), loop.cells())
            assert estimate is not None
            value, low, high = estimate.interval
            assert high - low < 0.3 * TARGET
            covered.append(low < base < high)
            values.append(value)
        assert abs(np.mean(values) - base) < 20
    # Of intervals of 95 % one of twenty may miss (of 240 loops, half of them with bursts, 4 did).
    assert sum(covered) >= len(covered) - 1


def test_bursts_are_no_base() -> None:
    for base in (0, 200):
        loop = run_loop(4, base, bursts=True)
        estimate = base_from_changes(loop.series(), loop.cells())
        assert estimate is not None
        assert estimate.interval.low < base < estimate.interval.high


def stepped(base: float, work: float = 4000.0, changes: int = 40) -> Loop:
    """Return constant work on a size that moves by itself."""
    ready = np.repeat(np.resize([8, 10, 9, 12], changes), 80)
    usage = base + work / ready
    return Loop(np.full(ready.size, work), ready, usage, ready)


def test_without_noise_the_base_is_exact() -> None:
    loop = stepped(137.0)
    estimate = base_from_changes(loop.series(), loop.cells())
    assert estimate is not None
    assert estimate.interval.value == pytest.approx(137, abs=0.01)
    assert estimate.interval.high - estimate.interval.low < 0.1


@pytest.mark.parametrize("burn", [0.0, 300.0])
def test_pods_that_burn_while_they_start_do_not_move_the_base(burn: float) -> None:
    """Where no readiness tells them from others, pods that come show base and burn together."""
    loop = run_loop(1, 100)
    came = np.maximum(np.diff(loop.ready, prepend=loop.ready[0]), 0)
    starting = np.convolve(came, np.ones(16))[: came.size]  # for 4 min
    burning = Loop(loop.work, loop.ready, loop.usage + burn * starting / loop.ready, loop.size)
    estimate = base_from_changes(burning.series(), burning.cells())
    assert estimate is not None
    assert estimate.interval.low < 100 < estimate.interval.high
    assert estimate.interval.value == pytest.approx(100, abs=60)
    assert (estimate.starting is not None) == (burn > 0)
    if estimate.starting is not None:
        assert estimate.starting == pytest.approx(400, abs=100)


@pytest.mark.parametrize(("most", "source"), [(5000, FITTED), (300, ASSUMED)])
def test_no_pod_starts_with_more_than_any_was_seen_to_use(most: int, source: str) -> None:
    loop = run_loop(1, 100)
    came = np.maximum(np.diff(loop.ready, prepend=loop.ready[0]), 0)
    starting = np.convolve(came, np.ones(16))[: came.size]
    usage = usage_of(replace(loop, usage=loop.usage + 300 * starting / loop.ready))
    name, signal = next(iter(usage.signals.items()))
    signal = replace(signal, most_milli=np.full_like(signal.most_milli, most))
    fact = fit(replace(usage, signals={name: signal}), RECORDING).fact(f"signals.{name}.startup")
    assert fact is not None
    assert fact.source == source


def test_everything_grows_with_the_unit() -> None:
    loop = run_loop(5, 100, days=1)
    one = base_from_changes(loop.series(), loop.cells())
    larger = Loop(loop.work * 1000, loop.ready, loop.usage * 1000, loop.size)
    other = base_from_changes(larger.series(), larger.cells())
    assert one is not None
    assert other is not None
    np.testing.assert_allclose(other.interval, np.array(one.interval) * 1000, rtol=0.01, atol=500)


def test_the_changes_are_those_between_settled_cells() -> None:
    loop = stepped(0.0, changes=3)
    found = changes_of(loop.series(), loop.cells())
    # Size 8 until cell 80, then two cells that have not settled, and so on.
    assert found.first.tolist() == [83, 163]
    assert found.ahead.tolist() == [4, 4]
    assert found.length.tolist() == [4, 4]
    assert found.past.tolist() == [79, 159]


def test_a_change_that_does_not_last_is_averaged_over_less() -> None:
    ready = np.array([8] * 50 + [9] * 5 + [10] * 50)
    loop = Loop(ready * 1.0, ready, ready * 1.0, ready)
    found = changes_of(loop.series(), loop.cells())
    assert found.first.tolist() == [53, 58]
    assert found.length.tolist() == [2, 4]


def test_a_long_silence_is_no_change() -> None:
    ready = np.array([8] * 50 + [9] * 50)
    still = np.ones(100, bool)
    still[40:90] = False  # 12 min
    series = Series(ready * 1.0, ready * 1.0, ready * 1.0, still)
    assert changes_of(series, Cells(START, STEP_MS, 100)).first.size == 0


def test_few_changes_say_nothing() -> None:
    loop = stepped(100.0, changes=FEWEST_CHANGES)
    assert base_from_changes(loop.series(), loop.cells()) is None
    many_in_an_hour = stepped(100.0, changes=3 * FEWEST_CHANGES)
    busy = many_in_an_hour.series()
    assert base_from_changes(busy, Cells(START, STEP_MS // 15, busy.usage.size)) is None


def test_a_rate_of_work_makes_the_interval_narrower() -> None:
    loop = run_loop(6, 100, days=1)
    rng = np.random.default_rng(0)
    rate = loop.work / 25 * (1 + rng.normal(size=loop.work.size) * 0.01)
    alone = base_from_changes(loop.series(), loop.cells())
    beside = base_from_changes(loop.series(), loop.cells(), rate)
    assert alone is not None
    assert beside is not None
    assert beside.interval.low < 100 < beside.interval.high
    width = beside.interval.high - beside.interval.low
    assert width < 0.6 * (alone.interval.high - alone.interval.low)


def pinned(
    base: float, seed: int = 0
) -> tuple[Series, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """Return a day at one size, and a rate of work that is measured with much noise."""
    rng = np.random.default_rng(seed)
    day = np.arange(DAY) / DAY
    true = 20 * (1 + 0.2 * np.sin(2 * np.pi * day) + 0.1 * np.sin(2 * np.pi * 12 * day))
    usage = (base + 15 * true) * (1 + rng.normal(size=DAY) * 0.03)
    rate = true * (1 + rng.normal(size=DAY) * 0.1)
    ready = np.full(DAY, 4.0)
    return Series(usage, usage, ready, np.ones(DAY, bool)), rate


def test_where_the_size_is_pinned_a_noisy_rate_tells_the_base() -> None:
    series, rate = pinned(100.0)
    cells = Cells(START, STEP_MS, DAY)
    found = base_from_rate(series, rate, np.ones(DAY), cells)
    assert found is not None
    assert found.interval.low < 100 < found.interval.high
    assert found.hours == 24
    # Least squares take the noise of the rate for a base.
    columns = np.stack([np.ones(DAY), rate], axis=1)
    plain = np.linalg.lstsq(columns, series.usage, rcond=None)[0][0]
    assert plain > found.interval.high


def test_only_pinned_cells_count() -> None:
    series, rate = pinned(100.0)
    cells = Cells(START, STEP_MS, DAY)
    assert base_from_rate(series, rate, np.zeros(DAY), cells) is None
    held = np.ones(DAY)
    held[: DAY // 2] = 0
    wrong = series.usage.copy()
    wrong[: DAY // 2] = 5000.0
    half = base_from_rate(Series(wrong, wrong, series.ready, series.still), rate, held, cells)
    assert half is not None
    assert half.interval.low < 100 < half.interval.high


def test_a_rate_that_never_moves_tells_nothing() -> None:
    series, rate = pinned(100.0)
    flat = np.full_like(rate, 20.0)
    assert base_from_rate(series, flat, np.ones(DAY), Cells(START, STEP_MS, DAY)) is None


def test_no_base_is_above_the_lowest_usage_that_lasted() -> None:
    usage = np.full(200, 300.0)
    usage[50:100] = 120.0
    usage[150:155] = 10.0  # not for ten minutes
    series = Series(usage, usage, np.full(200, 3.0), np.ones(200, bool))
    assert highest_base(series, Cells(START, STEP_MS, 200)) == 120
    nothing = Series(usage, usage, np.zeros(200), np.ones(200, bool))
    assert highest_base(nothing, Cells(START, STEP_MS, 200)) is None
