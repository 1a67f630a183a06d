"""Tests of what-ifs beyond any version: smallest or mean proposal, other requests."""

from __future__ import annotations

import json
from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpabatch.kernels.simulate import simulate_fleet
from hpabatch.model.objects.decode import hpa_from_json
from hpabatch.model.plant import DIVISIBLE, EXTERNAL, TOTAL, Pipeline, Plant, Signal
from hpabatch.model.versions import ControllerFlags, profile_for
from hpabatch.packing.simulation import SimulatedLane, pack_simulation
from hpabatch.packing.workloads import Workload
from tests.effort import effort

START_MS, SYNC_MS = 1_760_000_040_000, 15_000


def lane(metrics: list[Any], signals: dict[str, Signal], work: dict[str, int]) -> SimulatedLane:
    spec = {
        "scaleTargetRef": {"kind": "Deployment", "name": "web"},
        "minReplicas": 1,
        "maxReplicas": 100_000,
        "metrics": metrics,
    }
    hpa, problems = hpa_from_json(json.dumps(spec))
    assert not problems
    plant = Plant(signals, pipelines={api: Pipeline() for api in ("resource", EXTERNAL)})
    series = {name: np.array([value], np.int64) for name, value in work.items()}
    workload = Workload("c", "shop", "web", plant, series, START_MS, 60_000, 10)
    return SimulatedLane(workload, ((0, hpa.spec),), START_MS, SYNC_MS, 1)


def first_proposal(asked: SimulatedLane) -> int:
    fleet = pack_simulation([asked], ControllerFlags(), profile_for("1.37"), keep_points=True)
    simulate_fleet(fleet.simulation, fleet.fleet, fleet.memory, 1, fleet.results)
    return int(fleet.simulation.points.proposal[0])


def queues(lengths: list[int]) -> SimulatedLane:
    """Return a lane whose External metrics propose these sizes (target 1 a pod)."""
    names = [f"q{k}" for k in range(len(lengths))]
    target = {"type": "AverageValue", "averageValue": "1"}
    metrics = [
        {"type": "External", "external": {"metric": {"name": name}, "target": target}}
        for name in names
    ]
    signals = {f"external/{name}": Signal(TOTAL, EXTERNAL) for name in names}
    work = {f"external/{n}": 1000 * length for n, length in zip(names, lengths, strict=True)}
    return lane(metrics, signals, work)


@given(st.lists(st.integers(20, 500), min_size=1, max_size=5))
@settings(max_examples=effort(40), deadline=None)
def test_combinations(lengths: list[int]) -> None:
    known = {"max": max(lengths), "min": min(lengths), "mean": ceil(sum(lengths) / len(lengths))}
    for combine, size in known.items():
        assert first_proposal(replace(queues(lengths), combine=combine)) == size, combine


def test_a_failed_metric_takes_no_part() -> None:
    """A metric without samples is none of those that are combined, whatever the combination."""
    asked = queues([30, 50])
    signals = {**asked.workload.plant.signals, "external/gone": Signal(TOTAL, EXTERNAL)}
    target = {"type": "AverageValue", "averageValue": "1"}
    gone = {"type": "External", "external": {"metric": {"name": "gone"}, "target": target}}
    names = ["q0", "q1"]
    metrics = [
        {"type": "External", "external": {"metric": {"name": n}, "target": target}} for n in names
    ]
    # (a selector that cannot be parsed makes a metric fail before it is fetched)
    gone["external"]["metric"] = {  # type: ignore[index]
        "name": "gone",
        "selector": {"matchExpressions": [{"key": "a", "operator": "Never", "values": ["b"]}]},
    }
    several = lane([*metrics, gone], signals, {"external/q0": 30_000, "external/q1": 50_000})
    assert first_proposal(replace(several, combine="min")) == 30
    assert first_proposal(replace(several, combine="mean")) == 40


@pytest.mark.parametrize(("request_milli", "proposal"), [(500, 20), (1000, 10), (250, 40)])
def test_utilization_of_other_requests(request_milli: int, proposal: int) -> None:
    """10 pods of 500m at a target of 50 %: of a request of 500m that is 100 %, twice the target."""
    target = {"type": "Utilization", "averageUtilization": 50}
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    signals = {"resource/cpu": Signal(DIVISIBLE, request_milli=500)}
    asked = lane([metric], signals, {"resource/cpu": 5000})
    asked = replace(asked, requests={"resource/cpu": request_milli})
    assert first_proposal(asked) == proposal
