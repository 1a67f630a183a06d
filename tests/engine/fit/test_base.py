"""Base of a pod in closed loops, where usage alone says nothing of it, and lives of pods."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hpabatch.engine.fit.base import (
    FEWEST_CHANGES,
    base_from_changes,
    base_from_rate,
    changes_of,
    highest_base,
)
from hpabatch.engine.fit.pods import fit_pods
from hpabatch.engine.fit.run import fit
from hpabatch.engine.fit.signals import growth_of
from hpabatch.engine.fit.usage import Cells, Lives, Probes, Series, SignalUsage, Usage
from hpabatch.engine.fit.workload import ASSUMED, FITTED, RECORDED, Fact
from hpabatch.engine.fleet.frames import NEVER_MS
from hpabatch.kernels.usage import TRACK_USAGE
from hpabatch.layout.records import records_from
from hpabatch.model.plant import Pods
from tests.engine.closed_loop import (
    CPU,
    HOUR_MS,
    RECORDING,
    START,
    STEP_MS,
    TARGET,
    Loop,
    candidate_of,
    run_loop,
    spec_of,
    usage_of,
)

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


def stepped(base: float, work: float = 4000.0, changes: int = 40) -> Loop:
    """Return constant work on a size that moves by itself."""
    ready = np.repeat(np.resize([8, 10, 9, 12], changes), 80)
    usage = base + work / ready
    return Loop(np.full(ready.size, work), ready, usage, ready)


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


def test_the_changes_are_those_between_settled_cells() -> None:
    loop = stepped(0.0, changes=3)
    found = changes_of(loop.series(), loop.cells())
    # Size 8 until cell 80, then two cells that have not settled, and so on.
    assert found.first.tolist() == [83, 163]
    assert found.ahead.tolist() == [4, 4]
    assert found.length.tolist() == [4, 4]
    assert found.past.tolist() == [79, 159]


def test_few_changes_say_nothing() -> None:
    loop = stepped(100.0, changes=FEWEST_CHANGES)
    assert base_from_changes(loop.series(), loop.cells()) is None
    many_in_an_hour = stepped(100.0, changes=3 * FEWEST_CHANGES)
    busy = many_in_an_hour.series()
    assert base_from_changes(busy, Cells(START, STEP_MS // 15, busy.usage.size)) is None


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


def test_no_base_is_above_the_lowest_usage_that_lasted() -> None:
    usage = np.full(200, 300.0)
    usage[50:100] = 120.0
    usage[150:155] = 10.0  # not for ten minutes
    series = Series(usage, usage, np.full(200, 3.0), np.ones(200, bool))
    assert highest_base(series, Cells(START, STEP_MS, 200)) == 120
    nothing = Series(usage, usage, np.zeros(200), np.ones(200, bool))
    assert highest_base(nothing, Cells(START, STEP_MS, 200)) is None


NAME = "resource/cpu"


def usage_with(lives: Lives | None = None, kind: str = "Deployment") -> Usage:
    """Return ten hours of three pods, or of other lives."""
    size = np.full(2400, 3)
    usage = usage_of(Loop(np.full(2400, 900.0), size, np.full(2400, 300.0), size))
    usage = replace(usage, candidate=candidate_of(spec_of([CPU], kind)))
    return usage if lives is None else replace(usage, lives=lives)


def fitted(usage: Usage, signal: SignalUsage | None = None) -> tuple[Pods, dict[str, Fact]]:
    pods, facts = fit_pods(usage, signal, 1.0)
    return pods, {fact.name: fact for fact in facts}


def lives(**columns: Any) -> Lives:
    """Return lives of pods that were there all the time, but for some columns."""
    count = max(len(v) for name, v in columns.items() if not name.startswith(("step", "lost")))
    found: dict[str, Any] = {
        "created_ms": np.full(count, START - HOUR_MS),
        "started_ms": np.full(count, START - HOUR_MS + 1000),
        "ready_ms": np.full(count, START - HOUR_MS + 5000),
        "deleted_ms": np.full(count, NEVER_MS),
        "gone_ms": np.full(count, NEVER_MS),
        "generated": False,
        "step_ms": np.array([START - HOUR_MS]),
        "step_ready": np.array([count]),
        "lost_pod": np.zeros(0, np.int64),
        "lost_ms": np.zeros(0, np.int64),
        "again_ms": np.zeros(0, np.int64),
    }
    found |= {name: np.array(v, np.int64) for name, v in columns.items()}
    return Lives(**found)


def born(*pairs: tuple[int, int]) -> Lives:
    """Return pods that took so long (ms) until they started and until they were ready."""
    at = np.array([START + (k + 1) * 600_000 for k in range(len(pairs))])
    scheduling, starting = np.array(pairs).T
    return lives(created_ms=at, started_ms=at + scheduling, ready_ms=at + scheduling + starting)


def test_pods_that_start_alike_to_the_millisecond_were_not_measured() -> None:
    pods, facts = fitted(usage_with(born(*[(0, 30_000)] * 3)))
    assert pods.startup_ms == ((0, 30_000),) * 3
    assert (facts["pods.startup"].value, facts["pods.startup"].source) == (30, ASSUMED)


@pytest.mark.parametrize(
    ("second_s", "source", "ends"), [(30, ASSUMED, (30, 150)), (90, RECORDED, (0, 150))]
)
def test_starts_that_samples_tell_have_a_range(
    second_s: int, source: str, ends: tuple[int, int]
) -> None:
    """Pods that count as created at their first sample were created up to a spacing before it."""
    usage = usage_with(born((0, 30_000), (0, second_s * 1000)))
    signal = replace(
        usage.signals[NAME],
        probes=Probes(*np.full((4, 9), 60_000)),
        pods=records_from(TRACK_USAGE, 2, first_ms=usage.lives.created_ms - 1),
    )
    fact = fitted(replace(usage, signals={NAME: signal}))[1]["pods.startup"]
    assert (fact.source, (fact.low, fact.high)) == (source, ends)


def test_many_start_up_times_become_eight_of_them() -> None:
    times = [(1000, 1000 * k) for k in range(1, 81)]
    pods, _ = fitted(usage_with(born(*times)))
    assert len(pods.startup_ms) == 8
    assert set(pods.startup_ms) <= set(times)
    mean = sum(b for _, b in pods.startup_ms) / 8
    assert mean == pytest.approx(40_500, rel=0.02)


def test_generated_pods_are_nobodys() -> None:
    usage = usage_with(replace(born((1000, 2000)), generated=True))
    pods, facts = fitted(usage)
    assert pods.startup_ms == Pods().startup_ms
    assert "not its pods" in facts["pods.startup"].note
    assert "pods.mtbf" not in facts


def test_failures_are_told_by_serving_time() -> None:
    lost = START + np.array([HOUR_MS, 4 * HOUR_MS, 5 * HOUR_MS])
    found = lives(
        created_ms=[START - HOUR_MS] * 4,
        lost_pod=[0, 1, 2],
        lost_ms=lost,
        again_ms=[lost[0] + 30_000, lost[1] + 50_000, NEVER_MS],
        gone_ms=[NEVER_MS, NEVER_MS, lost[2] + 60_000, NEVER_MS],
    )
    pods, facts = fitted(usage_with(found))
    # The third pod was on its way out. Four pods served; the first tick is 15 s after the start.
    served = 4 * (np.array([1, 4]) * HOUR_MS - 15_000)
    assert pods.failure_at_ms == tuple(served.tolist())
    assert pods.restart_ms == 40_000
    fact = facts["pods.mtbf"]
    assert fact.value is not None
    assert fact.low is not None
    assert fact.high is not None
    assert fact.value == pytest.approx(4 * (36_000 - 15) / 2)
    # The interval of two events, by the table of the Poisson distribution: 0.242 to 7.22.
    assert fact.value * 2 / fact.high == pytest.approx(0.242, rel=0.1)
    assert fact.value * 2 / fact.low == pytest.approx(7.22, rel=0.02)


def compared(spread: float, noise: float, pods: int = 12, seed: int = 0) -> SignalUsage:
    """Return pods with parts of their own, and noise of half hours on top."""
    rng = np.random.default_rng(seed)
    own = 1 + spread * rng.normal(size=pods)
    even, odd = (own + noise * rng.normal(size=pods) for _ in range(2))
    tracks = records_from(
        TRACK_USAGE, pods, even=100, odd=100, even_ratio=100 * even, odd_ratio=100 * odd
    )
    return replace(usage_with().signals[NAME], pods=tracks)


def test_pods_that_differ_for_good_become_three_classes() -> None:
    pods, facts = fitted(usage_with(), compared(0.1, 0.02))
    low, middle, high = pods.shares
    assert middle == 1000
    assert low + high == 2000
    assert pods.costs == (0, 0, 0)
    fact = facts["pods.shares"]
    assert fact.source == FITTED
    assert fact.value == pytest.approx(0.1, rel=0.4)
    # The classes have the variance of the pods.
    assert (high - 1000) / 1000 == pytest.approx((fact.value or 0) * 1.5**0.5, abs=0.001)


def tracks_of(slopes: list[float], base: float = 1e6, hours: float = 5.0) -> Any:
    """Return pods that grow in straight lines, sampled a hundred times."""
    rows = []
    age = np.linspace(0, hours, 100)
    for slope in slopes:
        above = slope * age
        rows.append((age.sum(), above.sum(), (age * above).sum(), (age**2).sum()))
    sums = np.array(rows).T
    return records_from(
        TRACK_USAGE,
        len(slopes),
        settled=100,
        from_ms=START + HOUR_MS,
        last_ms=START + HOUR_MS + int(hours * HOUR_MS),
        from_milli=round(base) + np.array([round(s) for s in slopes]),
        age_h=sums[0],
        above=sums[1],
        age_above=sums[2],
        age_age=sums[3],
    )


def test_growth_with_age_is_the_median_of_the_pods() -> None:
    slopes = [1000.0] * 7 + [900_000.0]  # one leaks
    found = lives(started_ms=[START] * 8)
    signal = replace(usage_with().signals[NAME], pods=tracks_of(slopes))
    base, growth, count = growth_of(signal, found)
    assert growth is not None
    assert base is not None
    assert count == 8
    assert growth.value == pytest.approx(1000)
    assert base.value == pytest.approx(1e6, rel=1e-3)


def test_too_few_pods_do_not_tell_growth() -> None:
    signal = replace(usage_with().signals[NAME], pods=tracks_of([1000.0] * 5))
    base, growth, _ = growth_of(signal, lives(started_ms=[START] * 5))
    assert growth is None
    assert base is not None
    short = replace(signal, pods=tracks_of([1000.0] * 8, hours=0.4))
    assert growth_of(short, lives(started_ms=[START] * 8))[1] is None
    nobody = replace(signal, pods=records_from(TRACK_USAGE, 2))
    assert growth_of(nobody, lives(started_ms=[START] * 2)) == (None, None, 0)
