"""The closed loop in memory: rules, pods, metric pipeline and all standard measures.

One thread, so that figures are per core. In the same run the naive simulator of the tests does the
same work, and must come to the same trajectory. `make bench` writes the figures to docs/proof.md.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

import numpy as np
import pytest

from hpabatch import _jit
from hpabatch.kernels.simulate import simulate_fleet
from hpabatch.layout.records import I64
from hpabatch.model.objects.decode import hpa_from_json
from hpabatch.model.objects.defaults import default_hpa
from hpabatch.model.objects.encode import spec_to_json
from hpabatch.model.objects.hpa import HPA, HPASpec
from hpabatch.model.plant import (
    AGE,
    BACKLOG,
    CUSTOM,
    DIVISIBLE,
    EXTERNAL,
    RESOURCE,
    Pipeline,
    Plant,
    Pods,
    Signal,
)
from hpabatch.model.versions import ControllerFlags, profile_for
from hpabatch.packing.simulation import SimulatedFleet, SimulatedLane, draw_table, pack_simulation
from hpabatch.packing.workloads import Workload
from tests.reference.simulator import simulate as simulate_naively

START_MS: Final = 1_760_000_040_000
SYNC_MS: Final = 15_000
MINUTE_MS: Final = 60_000
TICKS_A_DAY: Final = 5760
MIB_MILLI: Final = 2**20 * 1000

CPU: Final = Signal(
    DIVISIBLE,
    base_milli=50,
    ceiling_milli=1000,
    startup_milli=300,
    request_milli=500,
    observed_milli=(0, 800),
)
CAPACITY_MILLI: Final = 400


def swinging(hpa: int, days: int, level: int, piece_ms: int = MINUTE_MS) -> I64:
    """Return pieces of work around a level, from 30 to 170 % over a day, with 5 % of noise."""
    random = np.random.Generator(np.random.PCG64(hpa))
    minute = np.arange(0, 1440 * days, piece_ms / MINUTE_MS)
    swing = 1 + 0.7 * np.sin(minute / 1440 * 2 * np.pi + hpa)
    noise = 1 + 0.05 * random.standard_normal(minute.size)
    return np.maximum(level * swing * noise, 0).astype(np.int64)


def hpa_spec(metrics: Sequence[dict[str, Any]], down_s: int, up_s: int) -> HPASpec:
    """Return a spec of 2 to 40 replicas with two windows and the default policies."""
    spec = {
        "scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"},
        "minReplicas": 2,
        "maxReplicas": 40,
        "metrics": metrics,
        "behavior": {
            "scaleDown": {"stabilizationWindowSeconds": down_s},
            "scaleUp": {"stabilizationWindowSeconds": up_s},
        },
    }
    hpa, problems = hpa_from_json(json.dumps(spec))
    assert not problems, problems
    return default_hpa(HPA(name="web", namespace="shop", spec=hpa.spec)).spec


def cpu_metric(target_pct: int = 60) -> dict[str, Any]:
    """Return a cpu utilization metric."""
    target = {"type": "Utilization", "averageUtilization": target_pct}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _lane(plant: Plant, work: dict[str, I64], spec: HPASpec, hpa: int, days: int) -> SimulatedLane:
    workload = Workload("c", f"team-{hpa}", "web", plant, work, START_MS, MINUTE_MS, 10)
    return SimulatedLane(workload, ((0, spec),), START_MS, SYNC_MS, TICKS_A_DAY * days)


def standard_lanes(hpas: int, days: int, down_s: int = 300, up_s: int = 60) -> list[SimulatedLane]:
    """Return HPAs with one cpu metric and pods that all take 15 s to be ready."""
    plant = Plant({"resource/cpu": CPU}, Pods(), {RESOURCE: Pipeline()}, CAPACITY_MILLI)
    spec = hpa_spec([cpu_metric()], down_s, up_s)
    return [
        _lane(plant, {"resource/cpu": swinging(h, days, 4000)}, spec, h, days) for h in range(hpas)
    ]


def restless_lanes(hpas: int, days: int, window_s: int) -> list[SimulatedLane]:
    """Return standard lanes whose work changes at every sync, so that no step repeats another.

    How many steps repeat the one before depends on the windows; what a step costs does not.
    """
    lanes = standard_lanes(hpas, days, window_s, window_s)
    return [
        replace(
            lane,
            workload=replace(
                lane.workload,
                work={"resource/cpu": swinging(h, days, 4000, SYNC_MS)},
                resolution_ms=SYNC_MS,
            ),
        )
        for h, lane in enumerate(lanes)
    ]


def _memory() -> Signal:
    return Signal(
        AGE,
        base_milli=100 * MIB_MILLI,
        ceiling_milli=500 * MIB_MILLI,
        growth_milli_per_hour=10 * MIB_MILLI,
        request_milli=500 * MIB_MILLI,
        unit_milli=1000,
    )


def full_lanes(hpas: int, days: int, *, with_memory: bool = False) -> list[SimulatedLane]:
    """Return HPAs with cpu, a Pods metric and a queue; start-ups are drawn, samples lag.

    `with_memory`: and with memory that grows as pods age, so that no two batches ever are alike.
    """

    def average(value: str) -> dict[str, Any]:
        return {"type": "AverageValue", "averageValue": value}

    metrics = [
        cpu_metric(),
        {"type": "Pods", "pods": {"metric": {"name": "requests"}, "target": average("20")}},
        {
            "type": "External",
            "external": {"metric": {"name": "queue"}, "target": average("30")},
        },
    ]
    signals = {
        "resource/cpu": CPU,
        "pods/requests": Signal(DIVISIBLE, CUSTOM, ceiling_milli=60_000),
        "external/queue": Signal(BACKLOG, EXTERNAL, rate_milli=10_000),
    }
    if with_memory:
        target = average("300Mi")
        metrics.append({"type": "Resource", "resource": {"name": "memory", "target": target}})
        signals["resource/memory"] = _memory()
    slow = [1000, 2000, 2000, 3000, 5000, 9000, 20_000, 60_000]
    plant = Plant(
        signals=signals,
        pods=Pods(startup_ms=tuple((wait, 10_000 + 2 * wait) for wait in slow)),
        pipelines={
            RESOURCE: Pipeline(lag_ms=4000, phase_ms=3000),
            CUSTOM: Pipeline(interval_ms=30_000, window_ms=60_000, lag_ms=7000, phase_ms=11_000),
            EXTERNAL: Pipeline(interval_ms=60_000, window_ms=60_000, lag_ms=2000, phase_ms=20_000),
        },
        capacity_milli=CAPACITY_MILLI,
    )
    spec = hpa_spec(metrics, 300, 60)
    levels = {"resource/cpu": 4000, "pods/requests": 180_000, "external/queue": 70_000}
    return [
        _lane(
            plant,
            {name: swinging(h, days, level) for name, level in levels.items()},
            spec,
            h,
            days,
        )
        for h in range(hpas)
    ]


# ---- measured ------------------------------------------------------------------------------------

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
