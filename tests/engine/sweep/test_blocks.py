"""Blocks of a run: each is what its steps come to, and together they are the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from hpabatch.engine.fleet.requested import Requested
from hpabatch.engine.simulate.case import SimulationCase
from hpabatch.engine.simulate.loop import block_cuts, in_order, run_cases, simulate
from hpabatch.engine.simulate.measures import Bounds, measures_frame
from hpabatch.engine.sweep.blocks import (
    COLUMNS,
    DAY_MS,
    UNITS,
    WEEK_MS,
    block_count,
    block_ends,
    block_unit,
    blocks_frame,
)
from hpabatch.model.plant import BACKLOG, DIVISIBLE, EXTERNAL, Signal
from hpabatch.model.versions import profile_for
from tests.engine.simulated import START_MS, hpa_spec, random_fleet, small_case

HOUR_MS = 3_600_000
KEY = ["cluster", "namespace", "hpa", "setting"]
SEEDS = range(4)
# By column of blocks: of the whole run the column that is their sum, or the share of its steps.
SUMS = {
    name: name
    for name in COLUMNS
    if not name.startswith(("under_", "over_", "unstable_", "outside_", "perfect_"))
}
SHARES = {
    "under_minutes": "tau_u_pct",
    "over_minutes": "tau_o_pct",
    "unstable_minutes": "instability_pct",
    "outside_minutes": "outside_pct",
}


def blocks_of(
    cases: Sequence[SimulationCase], unit_ms: int, k8s: str = "1.38", seed: int = 0
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the measures and the blocks of some cases, in their order."""
    bounds = Bounds()
    rans = list(run_cases(cases, profile_for(k8s), seed, block_ms=unit_ms))
    measures = pl.concat([measures_frame(ran.fleet, ran.chosen, bounds) for ran in rans])
    blocks = pl.concat([blocks_frame(ran, unit_ms, bounds) for ran in rans])
    return in_order(measures, cases), in_order(blocks, cases)


@cache
def random_run(seed: int) -> tuple[list[SimulationCase], str, pl.DataFrame, pl.DataFrame]:
    """Return random cases with requests, their version, measures and blocks of about 7 steps."""
    cases, k8s = random_fleet(seed, 4)
    requested = Requested(cpu_milli=250, memory_milli=2**30 * 1000)
    cases = [replace(c, requested=requested) if k % 2 else c for k, c in enumerate(cases)]
    unit_ms = cases[0].period_ms * 7 + 1
    return cases, k8s, *blocks_of(cases, unit_ms, k8s, seed)


# ---- where blocks end


@pytest.mark.parametrize(
    ("steps", "ends"),
    [
        (1, [1]),
        (9, [9]),  # a run that is shorter than a block is one
        (10, [10]),
        (14, [14]),  # a rest of less than half a block is part of the last one
        (15, [10, 15]),  # half a block is one of its own
        (20, [10, 20]),
        (24, [10, 24]),
        (25, [10, 20, 25]),
        (104, [*range(10, 100, 10), 104]),
    ],
)
def test_a_rest_of_half_a_block_is_its_own(steps: int, ends: list[int]) -> None:
    assert block_ends(steps, 1, 10, block_count(steps, 10)) == ends


def test_two_weeks_are_judged_by_the_week() -> None:
    assert block_unit(2 * WEEK_MS) == "week"
    assert block_unit(2 * WEEK_MS - 1) == "day"
    assert UNITS == {"week": 7 * DAY_MS, "day": 24 * HOUR_MS}


# ---- what is in them


@pytest.mark.parametrize("seed", SEEDS)
def test_cutting_a_run_does_not_change_it(seed: int) -> None:
    cases, k8s, measures, _ = random_run(seed)
    assert_frame_equal(measures, simulate(cases, profile_for(k8s), seed=seed).measures)


@pytest.mark.parametrize("seed", SEEDS)
def test_blocks_add_up_to_the_run(seed: int) -> None:
    _, _, measures, blocks = random_run(seed)
    for row, (_, own) in zip(
        measures.iter_rows(named=True), blocks.group_by(KEY, maintain_order=True), strict=True
    ):
        for name, whole in SUMS.items():
            values = own[name].to_list()
            if row[whole] is None:
                assert set(values) == {None}, name
            else:
                assert sum(values) == pytest.approx(row[whole], rel=1e-12, abs=1e-12), name
        for name, whole in SHARES.items():
            if row[whole] is None:
                assert own[name].null_count() == own.height, name
            else:
                share = 100 * own[name].sum() / 60 / row["hours"]
                assert share == pytest.approx(row[whole], rel=1e-12, abs=1e-12), name


def expected(points: pl.DataFrame, case: SimulationCase, first: int, last: int) -> dict[str, Any]:
    """Return what steps first:last of a trajectory come to, by the definitions."""
    own = points.slice(first, last - first)
    period_ms, minutes = case.period_ms, case.period_ms / 60_000
    moves = points.select("replicas", "desired").rows()
    signs = [0 if before == after else (1 if after > before else -1) for before, after in moves]
    moved = [(t, sign) for t, sign in enumerate(signs) if sign]
    mine = signs[first:last]
    found: dict[str, Any] = {
        "hours": (last - first) * period_ms / HOUR_MS,
        "replica_hours": own["desired"].sum() * period_ms / HOUR_MS,
        "pod_hours": own["pods"].sum() * period_ms / HOUR_MS,
        "rescales": len(mine) - mine.count(0),
        "rescales_up": mine.count(1),
        "rescales_down": mine.count(-1),
        # (against the last move, whichever block that was in)
        "reversals": sum(a != b and first <= t < last for (_, a), (t, b) in pairwise(moved)),
    }
    demand = points["demand"].to_list()
    if all(demand):
        serving = points["serving"].to_list()
        pairs = list(zip(serving, demand, strict=True))
        steps = enumerate(pairwise(pairs), start=1)
        found |= {
            "under_minutes": sum(s < d for s, d in pairs[first:last]) * minutes,
            "over_minutes": sum(s > d for s, d in pairs[first:last]) * minutes,
            "short_pod_hours": sum(max(d - s, 0) for s, d in pairs[first:last])
            * period_ms
            / HOUR_MS,
            "perfect_pod_hours": Bounds().hours(case, first, last),
            "unstable_minutes": sum(
                np.sign(s1 - s0) != np.sign(d1 - d0) and first <= t < last
                for t, ((s0, d0), (s1, d1)) in steps
            )
            * minutes,
        }
    else:
        found |= dict.fromkeys(
            ("under_minutes", "over_minutes", "short_pod_hours", "perfect_pod_hours")
        )
    signals = list(case.workload.plant.signals.values())
    if len(signals) == 1 and signals[0].kind == DIVISIBLE:
        left = sum(int(u) * period_ms // 1000 for u in own["unserved_milli"].to_list()) / 1000
        waits = signals[0].overload == "queue"
        found |= {
            "saturated_minutes": own["saturated"].to_list().count(True) * minutes,
            "unserved": None if waits else left,
            "waiting": left if waits else None,
        }
    requested = case.requested
    cores = None if requested.cpu_milli is None else requested.cpu_milli / 1000
    found["core_hours"] = None if cores is None else found["pod_hours"] * cores
    found["gib_hours"] = None if cores is None else found["pod_hours"]
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_a_block_is_what_its_steps_come_to(seed: int) -> None:
    cases, k8s, _, blocks = random_run(seed)
    points = simulate(cases, profile_for(k8s), seed=seed, keep_points=True).points
    assert points is not None
    parts = points.partition_by("hpa", as_dict=True)
    for case in cases:
        own = blocks.filter(pl.col("hpa") == case.workload.hpa)
        unit_ms = cases[0].period_ms * 7 + 1
        count = block_count(case.steps * case.period_ms, unit_ms)
        ends = block_ends(case.steps, case.period_ms, unit_ms, count)
        assert own["block"].to_list() == list(range(len(ends)))
        for row, first, last in zip(own.iter_rows(named=True), [0, *ends], ends, strict=False):
            assert row["start"].timestamp() * 1000 == case.start_ms + first * case.period_ms
            for name, value in expected(parts[case.workload.hpa,], case, first, last).items():
                told = (seed, case.workload.hpa, row["block"], name)
                if value is None:
                    assert row[name] is None, told
                else:
                    assert row[name] == pytest.approx(value, rel=1e-9, abs=1e-9), told


def test_the_random_blocks_have_something_in_them() -> None:
    blocks = pl.concat([random_run(seed)[3] for seed in SEEDS])
    for name in COLUMNS:
        known = blocks[name].drop_nulls()
        if name not in ("waiting", "outside_minutes", "invalid_minutes"):
            assert (known > 0).sum() > 2, name
        assert known.len() > 2, name


@pytest.mark.parametrize("ceiling", [None, 500])
def test_waiting_work_is_known_only_where_a_ceiling_is(ceiling: int | None) -> None:
    signal = Signal(DIVISIBLE, ceiling_milli=ceiling, request_milli=500, overload="queue")
    case = small_case(hpa_spec(50, 1, 4), [3000] * 40, signal=signal)
    for frame in blocks_of([case], 300_000):
        assert frame["unserved"].null_count() == frame.height
        if ceiling is None:
            assert frame["waiting"].null_count() == frame.height
        else:
            assert (frame["waiting"] > 0).any()


def test_a_backlog_waits_without_any_ceiling() -> None:
    signal = Signal(BACKLOG, EXTERNAL, rate_milli=1000)
    case = small_case(hpa_spec(50, 1, 4), [3000] * 40, signal=signal)
    for frame in blocks_of([case], 300_000):
        assert (frame["waiting"] > 0).any()


def test_perfect_forecasts_of_blocks_never_exceed_that_of_the_run() -> None:
    """Each begins with the pods that it likes best: what the run pays to get there is left out."""
    for seed in SEEDS:
        _, _, measures, blocks = random_run(seed)
        sums = blocks.group_by(KEY, maintain_order=True).agg(pl.col("perfect_pod_hours").sum())
        both = zip(sums["perfect_pod_hours"], measures["perfect_pod_hours"], strict=True)
        assert all(b <= whole + 1e-9 for b, whole in both if whole is not None)


def test_runs_of_other_lengths_and_periods_keep_their_own_blocks() -> None:
    """Blocks of 5 min: of 12 min two and the rest of 2, of 18 min four, of 3 min one."""
    spec, work = hpa_spec(50, 1, 8), [800, 3900, 500, 2500] * 18
    cases = [
        small_case(spec, work, steps=48, name="a", setting="x"),
        small_case(spec, work, steps=72, name="b", setting="x"),
        small_case(spec, work, steps=12, name="c", setting="x"),
        replace(small_case(spec, work, name="a", setting="slow"), period_ms=30_000, steps=24),
    ]
    _, blocks = blocks_of(cases, 300_000)
    hours = blocks.group_by(KEY, maintain_order=True).agg(pl.col("hours") * 60)["hours"].to_list()
    assert [[round(h, 9) for h in own] for own in hours] == [[5, 7], [5, 5, 5, 3], [3], [5, 7]]
    for k, case in enumerate(cases):  # (no block knows of the other cases)
        _, alone = blocks_of([case], 300_000)
        own = blocks.filter((pl.col("hpa") == case.key[2]) & (pl.col("setting") == case.setting))
        assert_frame_equal(own, alone), k


def test_a_period_that_does_not_divide_a_block() -> None:
    """Of 40 s there are 7 or 8 in a block of 5 min: those that end until it does."""
    case = small_case(hpa_spec(50, 1, 8), [800] * 160, name="a")
    _, blocks = blocks_of([replace(case, period_ms=40_000, steps=60)], 300_000)
    assert (blocks["hours"] * 90).round(6).to_list() == [7.0, 8.0] * 4
    starts = [int(t.timestamp() * 1000) - START_MS for t in blocks["start"].to_list()]
    assert starts == [40_000 * k for k in (0, 7, 15, 22, 30, 37, 45, 52)]


@pytest.mark.parametrize("period_s", [1, 7, 13, 15, 16, 59, 61, 3600])
@pytest.mark.parametrize("hours", [336, 337, 419, 420, 421, 503, 504, 505])
def test_another_sync_period_has_the_same_blocks(period_s: int, hours: int) -> None:
    """The run is then up to one period shorter; its blocks are those of today's run."""
    length_ms, period_ms = hours * HOUR_MS, 1000 * period_s
    steps = length_ms // period_ms
    count = block_count(length_ms, WEEK_MS)
    ends = block_ends(steps, period_ms, WEEK_MS, count)
    assert len(ends) == count
    assert ends == sorted(set(ends))
    assert list(block_cuts(steps, period_ms, WEEK_MS))[: count - 1] == ends[:-1]
    for k, end in enumerate(ends[:-1], 1):
        assert 0 <= k * WEEK_MS - end * period_ms < period_ms
