"""Simulated HPAs for benchmarks: a day of work that swings, with noise, at a sync of 15 s."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from hpabatch.layout.records import I64
from hpabatch.model.objects.decode import hpa_from_json
from hpabatch.model.objects.defaults import default_hpa
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
from hpabatch.packing.simulation import SimulatedLane
from hpabatch.packing.workloads import Workload

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
