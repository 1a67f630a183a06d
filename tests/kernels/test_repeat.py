"""Steps that repeat the one before them come to what the naive simulator computes one by one."""

from __future__ import annotations

from functools import cache

import pytest

from hpabatch.kernels.simulate import simulate_fleet
from hpabatch.model.versions import profile_for
from hpabatch.packing.simulation import SimulatedFleet, pack_simulation
from tests.effort import effort
from tests.kernels.simulations import (
    Json,
    assert_as_naive,
    flags_of,
    lane_of,
    measures_of,
    naive_rows,
    rows_of,
    run,
    seeded_case,
    state_of,
)
from tests.reference.simulator import simulate
from tests.reference.simulator_cases import CPU, START, spec, utilization
from tests.reference.simulator_cases import case as made
from tests.reference.simulator_measures import measures

RARE = (30, 34)
"""Seeds of a rest that ends where a pod fails, and of usage that grows by itself."""
SEEDS = sorted({*range(effort(60, kernel=True)), *RARE})


def calm_case(seed: int) -> Json:
    """Return a random case whose work stays the same for a while, so that lanes come to rest."""
    case = seeded_case(seed)
    case["steps"] = 120
    case["resolution_ms"] *= 10 + seed % 23
    if seed % 3:
        case["plant"]["pods"]["failure_at_ms"] = []
        case["periods"] = case["periods"][:1]
    if seed % 2:  # what grows with a pod's age never rests
        for signal in case["plant"]["signals"].values():
            signal["kind"] = "divisible" if signal["kind"] == "age" else signal["kind"]
    return case


@cache
def ran(seed: int) -> SimulatedFleet:
    """Return the run of a case, to be looked at only."""
    return run(calm_case(seed))


@pytest.mark.parametrize("block", range(6))
def test_equals_the_naive_simulator(block: int) -> None:
    for seed in SEEDS[block::6]:
        assert_as_naive(ran(seed), calm_case(seed), f"seed {seed}")


@pytest.mark.compiled  # interpreted there are too few seeds to say so
def test_many_steps_repeat() -> None:
    """Otherwise the comparison would say nothing: a twentieth of all steps."""
    repeated = [int(ran(seed).simulation.states.repeated[0]) for seed in SEEDS]
    steps = sum(calm_case(seed)["steps"] for seed in SEEDS)
    assert sum(repeated) > steps / 20
    assert sum(n > 0 for n in repeated) > len(SEEDS) / 5
    assert not all(repeated)  # (and there are lanes that never rest)


@pytest.mark.parametrize("chunk", [1, 5])
def test_one_call_equals_several(chunk: int) -> None:
    """A rest that a call's end cuts goes on in the next one: all state is the same."""
    for seed in SEEDS[: effort(32, kernel=True)]:
        chunked = run(calm_case(seed), chunk=chunk)
        assert state_of(chunked) == state_of(ran(seed)), f"seed {seed}"


def pressed_case(seed: int) -> Json:
    """Return a case whose work is far more than maxReplicas pods can do, for ever."""
    case = calm_case(seed)
    case["periods"] = case["periods"][:1]
    case["plant"]["pods"]["failure_at_ms"] = []
    case["events"] = []
    spec = case["periods"][0]["spec"]
    spec["maxReplicas"] = max(spec.get("minReplicas", 1), 3)
    for name, signal in case["plant"]["signals"].items():
        if signal["kind"] in ("divisible", "age"):
            ceiling = signal["base_milli"] + 200
            signal |= {"kind": "divisible", "ceiling_milli": ceiling, "overload": "drop"}
            signal["queue_milli"] = 0
            case["work"][name] = [50_000_000]
    return case


def test_saturated_steps_repeat() -> None:
    """What a pod at its ceiling leaves undone counts in every repeated step."""
    # (seed 3 rests while saturated, however few are drawn)
    reached, seeds = 0, sorted({3, *SEEDS[: effort(48, kernel=True)]})
    for seed in seeds:
        case = pressed_case(seed)
        fleet, known = run(case), measures(simulate(case), case)
        found = measures_of(fleet)
        for name in ("saturated_steps", "saturated_longest", "unserved_milli_s", "under_ratio"):
            if known.get(name) is not None:
                assert found[name] == known[name], f"seed {seed}: {name}"
        repeated = int(fleet.simulation.states.repeated[0])
        reached += int(repeated > 0 and found["saturated_steps"] > 0)
    assert reached > len(seeds) // 8


def test_a_queue_that_drains_is_no_rest() -> None:
    """The pod stays full and the HPA at its maximum, but what waits is less in every step."""
    signal = {"ceiling_milli": 500, "request_milli": 500, "overload": "queue", "queue_milli": 4000}
    known = made(
        80, 1, signals={CPU: signal}, work={CPU: [400]}, resolution_ms=10**9,
        periods=[{"from_ms": START, "spec": spec([utilization(50)], 1, 1)}],
    )  # fmt: skip
    fleet = run(known)
    assert rows_of(fleet) == naive_rows(simulate(known))
    assert fleet.simulation.flows.queue_milli[0] == 0
    assert int(fleet.simulation.states.repeated[0]) > 0


@pytest.mark.parametrize("seed", [18, 19, 23, 36])
def test_samples_seen_through_a_lens_rest_too(seed: int) -> None:
    """Scaled, later and longer samples rest, and one time of each API is not the other's."""
    assert any("sight" in signal for signal in calm_case(seed)["plant"]["signals"].values())
    assert int(ran(seed).simulation.states.repeated[0]) > 0


def test_a_trajectory_need_not_be_kept() -> None:
    for seed in (4, *SEEDS[: effort(16, kernel=True)]):  # seed 4 rests
        case = calm_case(seed)
        fleet = pack_simulation(
            [lane_of(case)], flags_of(case), profile_for(case["k8s"]), cohorts=512
        )
        fleet.simulation.draws[:] = case["draws"]
        simulate_fleet(fleet.simulation, fleet.fleet, fleet.memory, 1 << 40, fleet.results)
        assert measures_of(fleet) == measures_of(ran(seed)), f"seed {seed}"
