"""Cases of the naive simulator as arrays, and what both say of a run, in the same words."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np

from hpabatch.kernels.simulate import simulate_fleet
from hpabatch.layout.plant import LANE_FULL
from hpabatch.model.objects.decode import hpa_from_json
from hpabatch.model.objects.hpa import HPASpec
from hpabatch.model.plant import Event, Pipeline, Plant, Pods, Sight, Signal
from hpabatch.model.versions import ControllerFlags, profile_for
from hpabatch.packing.simulation import (
    FEWEST_COHORTS,
    SimulatedFleet,
    SimulatedLane,
    pack_simulation,
)
from hpabatch.packing.workloads import Workload
from tests.reference.generate_plants import random_case
from tests.reference.simulator import simulate
from tests.reference.simulator_measures import measures

Json = dict[str, Any]

MEASURES = (
    "steps",
    "replica_ms",
    "pod_ms",
    "short_ms",
    "under_steps",
    "over_steps",
    "under_ratio",
    "over_ratio",
    "unstable_steps",
    "supply_changes",
    "demand_changes",
    "saturated_steps",
    "saturated_longest",
    "unserved_milli_s",
    "rescales",
    "rescales_up",
    "rescales_down",
    "reversals",
    "at_max_steps",
    "invalid_steps",
    "outside_steps",
    "episodes",
    "episodes_ended",
    "episodes_reacted",
    "reaction_ms",
    "settling_ms",
    "overshoot",
    "above_steps",
)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value


def _fields(values: Json) -> Json:
    return {name: _tuples(value) for name, value in values.items()}


def signal_of(given: Json) -> Signal:
    """Return a case's signal."""
    sight = Sight(**given.get("sight", {}))
    return Signal(**_fields({k: v for k, v in given.items() if k != "sight"}), sight=sight)


def plant_of(case: Json) -> Plant:
    """Return a case's plant."""
    given = case["plant"]
    return Plant(
        signals={name: signal_of(s) for name, s in given["signals"].items()},
        pods=Pods(**_fields(given["pods"])),
        pipelines={api: Pipeline(**_fields(p)) for api, p in given["pipelines"].items()},
        capacity_milli=given["capacity_milli"],
        first_draw=given["first_draw"],
    )


def spec_of(spec: Json) -> HPASpec:
    hpa, problems = hpa_from_json(json.dumps(spec))
    assert not problems, problems
    return hpa.spec


def workload_of(case: Json, name: str = "web") -> Workload:
    work = {key: np.array(values, np.int64) for key, values in case["work"].items()}
    return Workload(
        cluster="c",
        namespace=name,
        hpa=name,
        plant=plant_of(case),
        work=work,
        work_start_ms=case["work_start_ms"],
        resolution_ms=case["resolution_ms"],
        initial=case["initial"],
    )


def lane_of(case: Json, individual: bool = False, name: str = "web") -> SimulatedLane:
    return SimulatedLane(
        workload=workload_of(case, name),
        specs=tuple((p["from_ms"], spec_of(p["spec"])) for p in case["periods"]),
        start_ms=case["start_ms"],
        period_ms=case["period_ms"],
        steps=case["steps"],
        events=tuple(Event(**event) for event in case["events"]),
        individual=individual,
    )


def flags_of(case: Json) -> ControllerFlags:
    flags = case["flags"]
    return ControllerFlags(
        tolerance=flags["tolerance"],
        cpu_initialization_period_ms=flags["cpu_initialization_period_ms"],
        initial_readiness_delay_ms=flags["initial_readiness_delay_ms"],
        downscale_stabilization_ms=flags["downscale_stabilization_ms"],
        sync_period_ms=case["period_ms"],
    )


def packed(case: Json, individual: bool = False, cohorts: int = FEWEST_COHORTS) -> SimulatedFleet:
    """Return the arrays of one case, with the case's own draws."""
    fleet = pack_simulation(
        [lane_of(case, individual)],
        flags_of(case),
        profile_for(case["k8s"]),
        cohorts=cohorts,
        keep_points=True,
    )
    fleet.simulation.draws[:] = case["draws"]
    return fleet


def run(case: Json, individual: bool = False, chunk: int | None = None) -> SimulatedFleet:
    """Run a case to its end, in one call or `chunk` steps at a time."""
    cohorts = FEWEST_COHORTS
    while True:
        fleet = packed(case, individual, cohorts)
        steps = case["steps"]
        for until in range(chunk or steps, steps + (chunk or steps), chunk or steps):
            simulate_fleet(fleet.simulation, fleet.fleet, fleet.memory, until, fleet.results)
        if fleet.simulation.states.status[0] != LANE_FULL:
            return fleet
        cohorts *= 4


def seeded_case(seed: int) -> Json:
    return random_case(random.Random(seed))


def rows_of(fleet: SimulatedFleet) -> list[Json]:
    """Return what a run's trajectory says, tick by tick."""
    points = fleet.simulation.points
    return [
        {
            "now_ms": int(p.now_ms),
            "replicas": int(p.replicas),
            "desired": int(p.desired),
            "proposal": int(p.proposal),
            "serving": int(p.serving),
            "existing": int(p.pods),
        }
        for p in points
    ]


def naive_rows(rows: list[Json]) -> list[Json]:
    """Return the same of the naive simulator's rows."""
    return [
        {
            "now_ms": row["now_ms"],
            "replicas": row["replicas"],
            "desired": row["size"],
            "proposal": row["proposal"],
            "serving": len(row["serving"]),
            "existing": len(row["existing"]),
        }
        for row in rows
    ]


def measures_of(fleet: SimulatedFleet) -> Json:
    """Return a run's measures by name."""
    record = fleet.simulation.measures[0]
    above = fleet.simulation.peaks[0, ::-1].cumsum()[-2::-1]
    return {name: record[name].item() for name in MEASURES[:-1]} | {"above_steps": above.tolist()}


def state_of(fleet: SimulatedFleet) -> dict[str, list[object]]:
    """Return everything that a run has come to, as plain values."""
    sim = fleet.simulation
    # (sure_until_ms is what is known ahead, not what has become)
    names = [name for name in sim.states.dtype.names or () if name != "sure_until_ms"]
    tables = ("measures", "points", "flows", "scrapes", "rings", "slots", "bindings", "peaks",
              "drivers")  # fmt: skip
    found = {name: getattr(sim, name).tolist() for name in tables}
    return found | {"states": sim.states[names].tolist(), "recs": fleet.memory.recs.tolist()}


def assert_as_naive(fleet: SimulatedFleet, case: Json, where: str) -> None:
    """Assert that all ticks and measures of a run are those of the naive simulator."""
    rows = simulate(case)
    pairs = zip(rows_of(fleet), naive_rows(rows), strict=True)
    for t, (one, other) in enumerate(pairs):
        assert one == other, f"{where}, tick {t}"
    found = measures_of(fleet)
    known = {k: v for k, v in measures(rows, case).items() if v is not None and k in MEASURES}
    if "demand_changes" not in known:
        known.pop("supply_changes")  # not counted where there is no demand to hold it against
    assert {name: found[name] for name in known} == known, where
