"""The closed loop in memory: rules, pods, metric pipeline and all standard measures.

One thread, so that figures are per core. In the same run the naive simulator of the tests does the
same work, and must come to the same trajectory. `make bench` writes the figures to docs/proof.md.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import pytest

from benchmarks.plants import (
    START_MS,
    SYNC_MS,
    TICKS_A_DAY,
    full_lanes,
    restless_lanes,
    standard_lanes,
)
from hpabatch import _jit
from hpabatch.kernels.simulate import simulate_fleet
from hpabatch.model.objects.encode import spec_to_json
from hpabatch.model.objects.hpa import HPA
from hpabatch.model.versions import ControllerFlags, profile_for
from hpabatch.packing.simulation import SimulatedFleet, SimulatedLane, draw_table, pack_simulation
from tests.reference.simulator import simulate as simulate_naively

HPAS, DAYS = 32, 2
NAIVE_TICKS = 400  # the naive simulator keeps every pod and computes everything anew
LEAST_FACTOR = 50  # over the naive simulator; the figures are in docs/proof.md


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_jit, "THREADS", 1)


def fresh(lanes: Sequence[SimulatedLane], keep_points: bool = False) -> SimulatedFleet:
    flags, profile = ControllerFlags(), profile_for("1.38")
    return pack_simulation(lanes, flags, profile, cohorts=32, keep_points=keep_points)


def arguments(lanes: Sequence[SimulatedLane]) -> tuple[tuple[object, ...], dict[str, Any]]:
    fleet = fresh(lanes)
    return (fleet.simulation, fleet.fleet, fleet.memory, 1 << 40, fleet.results), {}


def run(lanes: Sequence[SimulatedLane], keep_points: bool = False) -> tuple[SimulatedFleet, float]:
    """Run lanes to their end; return their arrays and the seconds."""
    fleet = fresh(lanes, keep_points)
    start = time.process_time()
    simulate_fleet(fleet.simulation, fleet.fleet, fleet.memory, 1 << 40, fleet.results)
    seconds = time.process_time() - start
    assert not fleet.simulation.states.status.any()
    return fleet, seconds


def best(lanes: Sequence[SimulatedLane], rounds: int = 5) -> float:
    """Return the seconds of the fastest of some runs."""
    return min(run(lanes)[1] for _ in range(rounds))


def sizes(lanes: Sequence[SimulatedLane]) -> list[int]:
    return [int(n) for n in run(lanes, keep_points=True)[0].simulation.points.replicas]


def naive_python(lane: SimulatedLane, ticks: int) -> tuple[list[int], float]:
    """Run an HPA in the naive simulator of the tests; return its sizes and the seconds."""
    workload, flags = lane.workload, ControllerFlags()
    plant = asdict(workload.plant)
    plant["pods"]["costs"] = list(plant["pods"]["costs"]) * len(plant["pods"]["shares"])
    spec = spec_to_json(HPA(name="web", namespace="shop", spec=lane.specs[0][1]))
    case = {
        "k8s": "1.38",
        "start_ms": START_MS,
        "period_ms": SYNC_MS,
        "steps": ticks,
        "initial": workload.initial,
        "flags": {
            "tolerance": flags.tolerance,
            "cpu_initialization_period_ms": flags.cpu_initialization_period_ms,
            "initial_readiness_delay_ms": flags.initial_readiness_delay_ms,
            "downscale_stabilization_ms": flags.downscale_stabilization_ms,
            "hpa_scale_to_zero": True,
        },
        "periods": [{"from_ms": START_MS, "spec": json.loads(spec)}],
        "plant": plant,
        "work": {
            name: workload.work[name].tolist() if name in workload.work else [0]
            for name in plant["signals"]
        },
        "work_start_ms": START_MS,
        "resolution_ms": workload.resolution_ms,
        "events": [],
        "draws": draw_table(0).tolist(),
    }
    start = time.process_time()
    rows = simulate_naively(case)
    return [row["replicas"] for row in rows], time.process_time() - start


PLANTS: dict[str, Callable[[int, int], list[SimulatedLane]]] = {
    "one metric, constant start-up": standard_lanes,
    "drawn start-up, lags, backlog, 3 metrics": full_lanes,
}


@pytest.mark.parametrize("name", list(PLANTS))
def test_simulate(benchmark: Any, name: str) -> None:
    lanes = PLANTS[name](HPAS, DAYS)
    ticks = HPAS * DAYS * TICKS_A_DAY
    seconds = best(lanes)  # compiles, too
    found, naive_seconds = naive_python(lanes[0], NAIVE_TICKS)
    assert sizes(lanes[:1])[:NAIVE_TICKS] == found
    assert len(set(found)) > 3  # (something must have happened in both)
    factor = (naive_seconds / NAIVE_TICKS) / (seconds / ticks)
    benchmark.group = "simulate"
    benchmark.extra_info.update(
        plant=name,
        ticks=ticks,
        hpa_days=HPAS * DAYS,
        python_ns_per_tick=1e9 * naive_seconds / NAIVE_TICKS,
        factor=factor,
    )
    benchmark.pedantic(simulate_fleet, setup=lambda: arguments(lanes), rounds=7)
    assert factor > LEAST_FACTOR


def test_window_length_does_not_matter(benchmark: Any) -> None:
    """A step costs the same with windows of 0, 300 and 3600 s, within 1.3 (in one run)."""
    lanes = {w: restless_lanes(HPAS, 1, w) for w in (0, 300, 3600)}
    for some in lanes.values():
        run(some)
    seconds = dict.fromkeys(lanes, float("inf"))
    for _ in range(7):  # in turns: a machine that slows down slows all of them
        for window, some in lanes.items():
            seconds[window] = min(seconds[window], run(some)[1])
    ticks = HPAS * TICKS_A_DAY
    benchmark.group = "ratios"
    benchmark.extra_info["ns_per_tick_by_window"] = {
        str(w): 1e9 * s / ticks for w, s in seconds.items()
    }
    benchmark.pedantic(lambda: None, rounds=1)
    assert max(seconds.values()) <= 1.3 * min(seconds.values())
