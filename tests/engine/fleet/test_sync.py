"""Sync estimates: planted periods and phases are found, and too little data says so."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.engine.fleet.sync import (
    MIN_INSTANTS,
    SEARCH,
    estimate_fleet,
    estimate_sync,
    sync_ticks,
)
from hpabatch.history.columns import TIME
from hpabatch.history.schema import empty_frame

T0 = 1_791_331_200_000
HINT = 15_000


def distance_to_grid(time: float, anchor: float, period: float) -> float:
    """Return how far a time is from the nearest anchor + k * period."""
    rest = (time - anchor) % period
    return min(rest, period - rest)


def planted(
    draw: random.Random, count: int, period: float, share: float, delay: float, walk: float = 0.0
) -> tuple[np.ndarray[Any, np.dtype[np.int64]], list[float]]:
    """Return what is seen of `count` syncs (a share, each some delay late), and all syncs."""
    time = T0 + draw.uniform(0, period)
    syncs, seen = [], []
    for _ in range(count):
        syncs.append(time)
        if draw.random() < share:
            seen.append(round(time + (draw.expovariate(1 / delay) if delay else 0)))
        time += period + draw.gauss(0, walk)
    return np.array(seen, np.int64), syncs


@given(
    seed=st.integers(0, 2**32),
    drift=st.floats(-0.02, 0.035),
    share=st.sampled_from([0.02, 0.1, 0.5, 1.0]),
    delay=st.sampled_from([0.0, 20.0, 200.0, 600.0]),
    hint=st.sampled_from([1_000, 15_000, 60_000]),
)
def test_planted_syncs_are_found(
    seed: int, drift: float, share: float, delay: float, hint: int
) -> None:
    draw = random.Random(seed)
    period, delay = hint * (1 + drift), delay * hint / 15_000
    seen, syncs = planted(draw, 3_000, period, share, delay)
    found = estimate_sync(seen, hint)
    assert found is not None
    assert found.estimated
    assert found.support <= seen.size
    # Over all of the time the grid is off by less than a delay and a half.
    least = 0.002 * hint
    for sync in (syncs[0], syncs[1_500], syncs[-1]):
        off = distance_to_grid(sync, found.anchor_ms, found.period_ms)
        assert off <= 1.5 * delay + least
    assert found.spread_ms <= 1.5 * delay + least
    assert found.phase_ms == pytest.approx(found.anchor_ms % found.period_ms)


def test_a_few_instants_keep_the_hint_and_have_a_phase() -> None:
    times = T0 + 4_000 + HINT * np.array([0, 7, 30, 31]) + np.array([10, 0, 20, 10])
    found = estimate_sync(times, HINT)
    assert found is not None
    assert not found.estimated
    assert (found.period_ms, found.support) == (15_000.0, 4)
    assert found.phase_ms == pytest.approx((T0 + 4_010) % HINT, abs=10)
    assert found.spread_ms <= 10


@pytest.mark.parametrize("seed", range(20))
def test_chance_is_not_taken_for_a_rhythm(seed: int) -> None:
    draw = random.Random(seed)
    times = np.array([draw.randrange(T0, T0 + 86_400_000) for _ in range(300)], np.int64)
    found = estimate_sync(times, HINT)
    assert found is not None
    assert not found.estimated
    assert found.spread_ms > HINT / 8


def test_after_a_restart_the_later_rhythm_counts() -> None:
    draw = random.Random(5)
    first, syncs = planted(draw, 900, 15_030, 0.5, 50)
    later = first + round(syncs[-1] - syncs[0]) + 6_500 + 15_030
    found = estimate_sync(np.concatenate([first, later]), HINT)
    assert found is not None
    assert found.estimated
    off = distance_to_grid(float(later[100]), found.anchor_ms, found.period_ms)
    assert off < 400


def test_ticks_lie_on_the_grid_and_within_the_bounds() -> None:
    seen, _ = planted(random.Random(1), 500, 15_012.5, 1.0, 0)
    found = estimate_sync(seen, HINT)
    assert found is not None
    ticks = sync_ticks(found, T0, T0 + 3_600_000)
    assert ticks[0] >= T0
    assert ticks[-1] <= T0 + 3_600_000
    assert ticks[0] - T0 < 15_013
    assert T0 + 3_600_000 - ticks[-1] < 15_013
    assert set(np.diff(ticks).tolist()) <= {15_012, 15_013}
    assert sync_ticks(found, T0, T0 - 1).size == 0
    assert sync_ticks(found, int(ticks[3]), int(ticks[3])).tolist() == [int(ticks[3])]


# A fleet


def rows(table: str, **columns: Any) -> pl.DataFrame:
    frame = pl.DataFrame(columns).with_columns(pl.col("ts").cast(TIME))
    return frame.with_columns(cluster=pl.lit("c1"), namespace=pl.lit("shop"))


def candidates(*pairs: tuple[str, str]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "cluster": ["c1"] * len(pairs),
            "namespace": ["shop"] * len(pairs),
            "hpa": [hpa for hpa, _ in pairs],
            "target_kind": ["Deployment"] * len(pairs),
            "target": [target for _, target in pairs],
        }
    )


def test_a_fleet_uses_changes_of_status_and_scale_and_all_fetches() -> None:
    syncs = T0 + 15_010 * np.arange(400)
    status = rows("hpa_status", ts=syncs[::10] + 30, name=["cart"] * 40, current=list(range(40)))
    fetches = rows("metric_fetches", ts=syncs[::20] + 60, name=["api"] * 20)
    # Only every second change is one of the spec; the others come when pods do.
    when = np.sort(np.concatenate([syncs[5::20] + 20, syncs[5::20] + 9_000]))
    sizes = [k // 2 for k in range(when.size)]
    scales = rows(
        "scales",
        ts=when,
        target_kind=["Deployment"] * when.size,
        target=["queue"] * when.size,
        spec_replicas=sizes,
    )
    found = estimate_fleet(
        status,
        fetches,
        scales,
        candidates(("queue", "queue"), ("cart", "cart"), ("api", "api"), ("idle", "idle")),
        HINT,
    )
    queue, cart, api, idle = found
    assert idle is None
    assert queue is not None
    assert cart is not None
    assert api is not None
    assert [e.estimated for e in (queue, cart, api)] == [True] * 3
    assert [e.support for e in (queue, cart, api)] == [19, 39, 20]
    assert [e.period_ms for e in (queue, cart, api)] == pytest.approx([15_010] * 3, rel=1e-4)


def test_rows_that_repeat_a_status_are_not_syncs() -> None:
    syncs = T0 + 15_010 * np.arange(60)
    told = rows("hpa_status", ts=syncs, name=["cart"] * 60, current=list(range(60)))
    again = told.with_columns(pl.col("ts") + pl.duration(milliseconds=6_000))
    one = candidates(("cart", "cart"))
    none = empty_frame("metric_fetches"), empty_frame("scales"), one, HINT
    repeated = estimate_fleet(pl.concat([told, again]), *none)
    assert repeated[0] is not None
    assert repeated == estimate_fleet(told, *none)


def test_a_shared_target_tells_nothing_of_either() -> None:
    scales = rows(
        "scales",
        ts=T0 + 15_000 * np.arange(50),
        target_kind=["Deployment"] * 50,
        target=["web"] * 50,
        spec_replicas=list(range(50)),
    )
    none = empty_frame("hpa_status"), empty_frame("metric_fetches")
    two = estimate_fleet(*none, scales, candidates(("a", "web"), ("b", "web")), HINT)
    assert two == [None, None]
    (one,) = estimate_fleet(*none, scales, candidates(("a", "web")), HINT)
    assert one is not None
    assert one.support == 49


@given(st.lists(st.integers(T0, T0 + 10**9), max_size=30), st.integers(1, 100_000))
def test_any_instants_and_hint_give_an_answer(times: list[int], hint: int) -> None:
    found = estimate_sync(np.array(times, np.int64), hint)
    if found is None:
        return
    assert abs(found.period_ms / hint - 1) <= SEARCH
    assert 0 <= found.phase_ms < found.period_ms
    assert 0 <= found.spread_ms <= found.period_ms / 2
    assert MIN_INSTANTS <= found.support <= len(set(times))
    assert min(times) - hint <= found.anchor_ms <= max(times) + hint
