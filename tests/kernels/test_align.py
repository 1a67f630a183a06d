"""The alignment kernel: loads, blocks, lanes and threads change nothing; compiled or not."""

from __future__ import annotations

import hashlib
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpabatch.engine.fleet.frames import NEVER_MS
from hpabatch.engine.fleet.parameters import STANDING_MS
from hpabatch.kernels.align import block_length, pods_in_view, replay_observations
from hpabatch.layout import codes
from tests.effort import effort
from tests.engine.small_history import STEP, T0
from tests.kernels.shards import LAST, Run, made_load, made_plan, made_tables, run

SEEDS = (1, 2, 3)


def assert_same(one: Run, other: Run) -> None:
    """Compare decisions by HPA, and what the controllers remember."""
    assert one.decided == other.decided
    for name in ("head", "recs", "events"):
        np.testing.assert_array_equal(getattr(one.memory, name), getattr(other.memory, name), name)


@pytest.mark.parametrize("events", ["recorded", "decided"])
def test_something_is_decided(events: str) -> None:
    found = [run(made_plan(made_tables(seed), events)) for seed in SEEDS]
    rows = [row for done in found for rows in done.decided.values() for row in rows]
    assert len({row["desired"] for row in rows}) > 4
    assert {row["invalid_metrics"] for row in rows} == {0, 1, 2, 3}
    assert len({row["binding"] for row in rows}) > 5
    assert all(done.shard.observations.seen.sum() > 50 for done in found)
    ticks = [done.shard.fleet.ticks[: int(done.shard.fleet.lanes.last_tick[-1])] for done in found]
    assert {int(code) for part in ticks for code in part.scale} >= {
        codes.SCALE_OK,
        codes.SCALE_GET_FAILED,
        codes.SCALE_NO_RESOURCE,
    }


@given(
    seed=st.integers(0, 10_000),
    cuts=st.lists(st.integers(T0 - STEP, LAST), max_size=4),
    block=st.sampled_from([0, 1, 2, 5, 17, 8192]),
    max_age=st.sampled_from([45_000, STANDING_MS]),
)
@settings(max_examples=effort(12, kernel=True))
def test_loads_cut_at_any_time_and_blocks_of_any_size_give_the_same(
    seed: int, cuts: list[int], block: int, max_age: int
) -> None:
    plan = made_plan(made_tables(seed), max_age_ms=max_age)
    assert_same(run(plan), run(plan, cuts, block=block))


@given(seed=st.integers(0, 10_000), order=st.permutations(range(3)))
@settings(max_examples=effort(6, kernel=True))
def test_the_order_of_hpas_does_not_matter(seed: int, order: list[int]) -> None:
    plan = made_plan(made_tables(seed))
    straight, shuffled = run(plan), run(plan, order=order)
    assert straight.decided == shuffled.decided
    alone = run(plan, order=order[:1])
    assert alone.decided == {name: straight.decided[name] for name in alone.decided}


@pytest.mark.parametrize("seed", SEEDS[: effort(6, kernel=True)])
def test_nothing_is_read_that_was_not_written(seed: int) -> None:
    plan = made_plan(made_tables(seed))
    cuts = [T0 + 7 * STEP, T0 + 15 * STEP]
    assert_same(run(plan, cuts, block=3, byte=0xA5), run(plan, cuts, block=3, byte=0x5A))
    assert_same(run(plan, byte=0x00), run(plan, byte=0x01))


@pytest.mark.parametrize("seed", SEEDS[: effort(6, kernel=True)])
def test_ticks_that_were_decided_are_not_decided_again(seed: int) -> None:
    plan = made_plan(made_tables(seed))
    done = run(plan)
    shard, nothing = done.shard, made_load(plan, done.shard, LAST, LAST)
    before = [table.tobytes() for table in (*done.results, *done.memory, shard.fleet.ticks)]
    replay_observations(
        shard.observations,
        nothing.rows,
        shard.fleet,
        shard.memory,
        False,
        NEVER_MS,
        True,
        shard.results,
    )
    after = [table.tobytes() for table in (*done.results, *done.memory, shard.fleet.ticks)]
    assert after == before


@given(
    seed=st.integers(0, 10_000), until_ms=st.integers(T0, LAST), block=st.sampled_from([1, 4, 9])
)
@settings(max_examples=effort(6, kernel=True))
def test_a_block_has_room_for_the_pods_of_all_its_ticks(
    seed: int, until_ms: int, block: int
) -> None:
    shard = run(made_plan(made_tables(seed)), block=block).shard
    obs = shard.observations
    obs.cursors[:] = 0
    for h in range(shard.fleet.lanes.size):
        lane = obs.lanes[h]
        times = obs.clock_ms[lane.first_clock : lane.last_clock]
        times = times[: block_length(obs, h, until_ms)]
        times = times[times < until_ms]
        if times.size:
            pods = pods_in_view(obs, h, int(times[0]), int(times[-1]))
            assert times.size * pods <= lane.row_capacity


# ---- compiled and interpreted --------------------------------------------------------------------


@cache
def digests() -> list[str]:
    """Return digests of some replays: one load, many loads, and small blocks."""
    found = []
    for seed in SEEDS[:2]:
        max_age_ms = STANDING_MS if seed == 2 else 45_000
        plan = made_plan(made_tables(seed), "decided" if seed == 1 else "recorded", max_age_ms)
        for done in (run(plan), run(plan, [T0 + 7 * STEP], block=3)):
            memory = b"".join(np.ascontiguousarray(part).tobytes() for part in done.memory)
            text = repr(sorted(done.decided.items())).encode()
            found.append(hashlib.sha256(text + memory).hexdigest())
    return found


@pytest.mark.parametrize(
    "name", ["pod_custom_metrics", "external_metrics", "metric_fetches", "controller"]
)
def test_tables_without_rows_and_columns_without_values_are_of_the_types_that_kernels_take(
    name: str,
) -> None:
    tables = made_tables(4)
    for row in tables["pod_metrics"]:
        row["fetched_at"] = None
    tables[name] = []
    run(made_plan(tables))
