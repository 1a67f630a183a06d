"""Cases of the simulation: random ones of the naive simulator, and small ones told in few words."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from hpabatch.engine.fleet.candidates import SpecPeriod
from hpabatch.engine.fleet.frames import NEVER_MS
from hpabatch.engine.simulate.case import SimulationCase
from hpabatch.engine.simulate.loop import simulate
from hpabatch.model.objects.decode import hpa_from_json
from hpabatch.model.objects.defaults import default_hpa
from hpabatch.model.objects.hpa import HPA, HPASpec
from hpabatch.model.plant import DIVISIBLE, RESOURCE, Event, Pipeline, Plant, Pods, Signal
from hpabatch.model.versions import ControllerFlags, profile_for
from hpabatch.packing.workloads import Workload
from tests.kernels.simulations import flags_of, plant_of, spec_of
from tests.reference.generate_plants import random_case

Json = dict[str, Any]

START_MS = 1_760_000_040_000  # a full minute
SYNC_MS = 15_000
CPU = "resource/cpu"


# ---- random cases


def case_from(given: Json, common: Json, name: str, namespace: str, cluster: str) -> SimulationCase:
    """Return a random case in the ticks and under the flags of another one.

    Its target has the case's name, and memory is sampled in whole bytes, as histories hold it.
    """
    by_ms = common["start_ms"] - given["start_ms"]
    plant = plant_of(given)
    pipelines = {
        api: replace(p, gaps_ms=tuple((a + by_ms, b + by_ms) for a, b in p.gaps_ms))
        for api, p in plant.pipelines.items()
    }
    signals = {
        key: replace(s, unit_milli=1000) if key.endswith("/memory") else s
        for key, s in plant.signals.items()
    }
    workload = Workload(
        cluster=cluster,
        namespace=namespace,
        hpa=name,
        plant=replace(plant, pipelines=pipelines, signals=signals),
        work={key: np.array(values, np.int64) for key, values in given["work"].items()},
        work_start_ms=given["work_start_ms"] + by_ms,
        resolution_ms=given["resolution_ms"],
        initial=given["initial"],
    )
    since = [p["from_ms"] + by_ms for p in given["periods"]]
    specs = [spec_of(p["spec"]) for p in given["periods"]]
    named = [replace(s, scale_target_ref=replace(s.scale_target_ref, name=name)) for s in specs]
    return SimulationCase(
        workload=workload,
        periods=tuple(map(SpecPeriod, since, [*since[1:], NEVER_MS], named)),
        setting="today",
        start_ms=common["start_ms"],
        period_ms=common["period_ms"],
        steps=common["steps"],
        flags=flags_of(common),
        events=tuple(Event(e["at_ms"] + by_ms, e["kind"], e["value"]) for e in given["events"]),
    )


def with_max_age(case: SimulationCase, max_age_ms: int) -> SimulationCase:
    """Return the case with one max_age in all its pipelines."""
    plant = case.workload.plant
    pipelines = {a: replace(p, max_age_ms=max_age_ms) for a, p in plant.pipelines.items()}
    return replace(case, workload=replace(case.workload, plant=replace(plant, pipelines=pipelines)))


def random_fleet(seed: int, hpas: int) -> tuple[list[SimulationCase], str]:
    """Draw cases that share ticks, flags and max_age, two to a namespace; and their version."""
    rng = random.Random(seed)
    common = random_case(rng)
    drawn = [common]
    while len(drawn) < hpas:
        other = random_case(rng)
        if other["k8s"] == common["k8s"]:
            drawn.append(other)
    max_age_ms = rng.choice([60_000, 60_000, 300_000, rng.randint(1, 100_000)])
    cases = [
        case_from(one, common, f"web-{k}", f"team-{k // 2}", f"cluster-{k % 3 // 2}")
        for k, one in enumerate(drawn)
    ]
    return [with_max_age(case, max_age_ms) for case in cases], common["k8s"]


# ---- small cases


def hpa_spec(
    target_pct: int = 60,
    low: int = 1,
    high: int = 100,
    behavior: Json | None = None,
    more: Sequence[Json] = (),
) -> HPASpec:
    """Return a defaulted spec with a cpu target and `more` metrics."""
    target = {"type": "Utilization", "averageUtilization": target_pct}
    spec: Json = {
        "scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"},
        "minReplicas": low,
        "maxReplicas": high,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}, *more],
    }
    if behavior is not None:
        spec["behavior"] = behavior
    hpa, problems = hpa_from_json(json.dumps(spec))
    assert not problems, problems
    return default_hpa(HPA(name="web", namespace="shop", spec=hpa.spec)).spec


CPU_SIGNAL = Signal(DIVISIBLE, request_milli=1000)
PROMPT = Pods(startup_ms=((0, 0),), reaction_ms=1, termination_ms=0)
"""Pods that come and go at once: ready at the tick after the decision."""


def small_case(
    spec: HPASpec,
    work: Sequence[int],
    *,
    initial: int = 1,
    steps: int | None = None,
    resolution_ms: int = SYNC_MS,
    signal: Signal = CPU_SIGNAL,
    pods: Pods = PROMPT,
    pipeline: Pipeline | None = None,
    capacity_milli: int | None = None,
    flags: ControllerFlags | None = None,
    events: tuple[Event, ...] = (),
    name: str = "web",
    setting: str = "today",
) -> SimulationCase:
    """Return a case with one cpu signal; a piece of `work` is a step unless told otherwise.

    Samples are of the step before, and the windows of the flags are 0, unless given.
    """
    chosen = pipeline or Pipeline(first_sample_ms=0)
    plant = Plant({CPU: signal}, pods, {RESOURCE: chosen}, capacity_milli)
    series = np.array(work, np.int64)
    workload = Workload(
        "demo", "shop", name, plant, {CPU: series}, START_MS, resolution_ms, initial
    )
    return SimulationCase(
        workload=workload,
        periods=(SpecPeriod(START_MS, NEVER_MS, spec),),
        setting=setting,
        start_ms=START_MS,
        period_ms=SYNC_MS,
        steps=len(work) * resolution_ms // SYNC_MS if steps is None else steps,
        flags=flags or ControllerFlags(downscale_stabilization_ms=0, cpu_initialization_period_ms=0,
                                       initial_readiness_delay_ms=0),
        events=events,
    )  # fmt: skip


def run_points(cases: Sequence[SimulationCase], k8s: str = "1.38", seed: int = 0) -> pl.DataFrame:
    """Return the trajectories of some cases."""
    points = simulate(cases, profile_for(k8s), seed=seed, keep_points=True).points
    assert points is not None
    return points
