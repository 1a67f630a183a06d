"""Laws of simulated runs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import polars as pl
import pytest

from hpabatch.engine.simulate import loop as engine
from hpabatch.engine.simulate.case import SimulationCase
from hpabatch.engine.simulate.loop import simulate
from hpabatch.model.versions import profile_for
from hpabatch.packing.simulation import SimulatedFleet, pack_simulation
from tests.effort import effort
from tests.engine.simulated import (
    Json,
    random_fleet,
)
from tests.kernels.simulations import measures_of, rows_of, run, seeded_case

PROFILE = profile_for("1.38")


# ---- what does not matter


def mixed_cases() -> list[SimulationCase]:
    """Return cases of two controllers that need few and many cohorts and different settings."""
    cases = [
        replace(case, workload=replace(case.workload, namespace=f"fleet-{seed}"))
        for seed in (0, 2)
        for case in random_fleet(seed, 3)[0]
    ]
    return cases + [replace(case, setting="again", events=()) for case in cases[::2]]


def both_frames(cases: Sequence[SimulationCase]) -> tuple[pl.DataFrame, pl.DataFrame]:
    result = simulate(cases, PROFILE, seed=1, keep_points=True)
    assert result.points is not None
    order = ["cluster", "namespace", "hpa", "setting"]
    return result.measures.sort(order), result.points.sort(*order, "ts")


def assert_same(one: Sequence[pl.DataFrame], other: Sequence[pl.DataFrame]) -> None:
    for a, b in zip(one, other, strict=True):
        assert a.equals(b)


def test_order_and_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = mixed_cases()
    whole = both_frames(cases)
    shuffled = list(cases)
    random.Random(2).shuffle(shuffled)
    assert_same(both_frames(shuffled), whole)
    alone = [both_frames([case]) for case in cases[:3]]
    for case, (measures, points) in zip(cases, alone, strict=False):
        w = case.workload
        own = (
            (pl.col("namespace") == w.namespace)
            & (pl.col("hpa") == w.hpa)
            & (pl.col("setting") == case.setting)
        )
        assert measures.equals(whole[0].filter(own))
        assert points.equals(whole[1].filter(own))
    monkeypatch.setattr(engine, "LANES_AT_ONCE", 3)
    monkeypatch.setattr(engine, "POINTS_AT_ONCE", 100)
    assert_same(both_frames(cases), whole)


def test_lanes_without_room_are_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cases, rooms = mixed_cases()[:4], []
    whole = both_frames(cases)

    def pack(*given: object, **named: object) -> SimulatedFleet:
        lanes, flags, profile, seed, cohorts, keep = given
        rooms.append(int(str(cohorts)))
        return pack_simulation(lanes, flags, profile, seed, rooms[-1], keep)  # type: ignore[arg-type]

    monkeypatch.setattr(engine, "pack_simulation", pack)
    monkeypatch.setattr(engine, "FEWEST_COHORTS", 1)
    assert_same(both_frames(cases), whole)
    assert rooms[:2] == [1, 4]


def many(number: int) -> range:
    return range(effort(number))


def uneven_case(seed: int) -> Json:
    """Draw a case of the naive simulator whose pods start at several speeds and often vanish.

    They come in classes that may be alike, wait for room, settle soon and never fail.
    """
    rng, case = random.Random(seed + 10**6), seeded_case(seed)
    pods, span_ms = case["plant"]["pods"], case["steps"] * case["period_ms"]
    classes = rng.choice([1, 1, 1, 2, 3])
    pods |= {
        "shares": [rng.choice([1000, 1000, 500]) for _ in range(classes)],
        "costs": [rng.choice([0, 0, 0, 5]) for _ in range(classes)],
        "capacity": rng.choice([0, 0, 0, 4, 9]),
        "startup_ms": [
            [rng.choice([0, 0, 10_000, 20_000]), rng.choice([0, 10_000, 20_000, 90_000])]
            for _ in range(rng.choice([1, 2, 4, 4]))
        ],
        "failure_at_ms": [],
    }
    case["flags"]["cpu_initialization_period_ms"] = rng.choice([0, 0, 15, 120]) * 1000
    for pipeline in case["plant"]["pipelines"].values():
        first_sample_ms = rng.choice([0, 40_000, 90_000])
        pipeline |= {"interval_ms": 5000, "window_ms": 5000, "lag_ms": 0, "gaps_ms": []}
        pipeline |= {"first_sample_ms": first_sample_ms, "max_age_ms": 300_000}
    for kind in ("lose", "scale", "lose", "rollout", "lose"):
        value = rng.choice([150, 300, 500]) if kind == "lose" else rng.randint(1, 12)
        at_ms = case["start_ms"] + rng.randrange(span_ms)
        case["events"].append({"at_ms": at_ms, "kind": kind, "value": value})
    case["events"].sort(key=lambda event: int(event["at_ms"]))
    return case


# In the first of these pods that have no sample yet stand between settled ones.
@pytest.mark.parametrize("seed", [502, *many(3)])
def test_counting_equal_pods_together_changes_nothing(seed: int) -> None:
    case = uneven_case(seed)
    together, apart = run(case), run(case, individual=True)
    assert rows_of(together) == rows_of(apart)
    assert measures_of(together) == measures_of(apart)
