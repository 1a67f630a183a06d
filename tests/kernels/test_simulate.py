"""The compiled simulation against the naive simulator, and properties that hold for any run."""

from __future__ import annotations

import hashlib
from functools import cache

import numpy as np
import pytest

from hpabatch import _jit
from hpabatch.kernels.simulate import simulate_fleet
from hpabatch.layout.plant import LANE_FULL, LANE_OK, NEVER_MS
from hpabatch.model.versions import profile_for
from hpabatch.packing.simulation import FEWEST_COHORTS, SimulatedFleet, groups_pods, pack_simulation
from tests.effort import effort
from tests.kernels.simulations import (
    Json,
    assert_as_naive,
    flags_of,
    lane_of,
    measures_of,
    naive_rows,
    packed,
    rows_of,
    run,
    seeded_case,
    state_of,
)
from tests.reference.simulator import simulate
from tests.reference.simulator_cases import PERIOD, START
from tests.reference.simulator_cases import case as quiet_case

SEEDS = range(effort(120, kernel=True))
FEW = range(effort(40, kernel=True))


@cache
def ran(seed: int) -> SimulatedFleet:
    """Return the run of a random case, to be looked at only."""
    return run(seeded_case(seed))


@pytest.mark.parametrize("block", range(6))
def test_equals_the_naive_simulator(block: int) -> None:
    for seed in SEEDS[block::6]:
        assert_as_naive(ran(seed), seeded_case(seed), f"seed {seed}")


@pytest.mark.parametrize("chunk", [1, 7])
def test_one_call_equals_several(chunk: int) -> None:
    for seed in FEW:
        chunked = run(seeded_case(seed), chunk=chunk)
        assert state_of(chunked) == state_of(ran(seed)), f"seed {seed}"


def test_cohorts_change_nothing() -> None:
    """Equal pods counted together and one by one come to the same."""
    grouped = 0
    for seed in FEW:
        case = seeded_case(seed)
        case["plant"]["pods"]["failure_at_ms"] = []  # where pods fail each is its own
        together, apart = run(case), run(case, individual=True)
        grouped += groups_pods(lane_of(case))
        assert rows_of(together) == rows_of(apart), f"seed {seed}"
        assert measures_of(together) == measures_of(apart), f"seed {seed}"
    assert grouped > len(FEW) // 3


def _several(cases: list[Json], order: list[int]) -> dict[int, tuple[object, ...]]:
    """Run some cases as lanes of one fleet; return what each came to."""
    lanes = [lane_of(cases[k], name=f"web-{k}") for k in order]
    cohorts = 8
    while True:
        fleet = pack_simulation(
            lanes, flags_of(cases[0]), profile_for("1.38"), seed=3, cohorts=cohorts
        )
        simulate_fleet(fleet.simulation, fleet.fleet, fleet.memory, 10**6, fleet.results)
        if not (fleet.simulation.states.status == LANE_FULL).any():
            break
        cohorts *= 4
    m = fleet.simulation.measures
    return {k: tuple(m[place].tolist()) for place, k in enumerate(order)}


def test_results_do_not_depend_on_what_was_there() -> None:
    """Rows of results and of the fleet are written before they are read."""
    for seed in FEW:
        case = seeded_case(seed)
        plain, poisoned = packed(case, cohorts=64), packed(case, cohorts=64)
        fleet = poisoned.fleet
        for table in (fleet.ticks, fleet.states, fleet.timing, poisoned.results.decisions):
            table.view(np.uint8).fill(0x5A)
        fleet.value_milli.fill(-(10**15))
        fleet.values_milli.fill(-(10**15))
        fleet.row_weight.fill(77)
        poisoned.simulation.cohorts.view(np.uint8).fill(0x5A)
        for one in (plain, poisoned):
            simulate_fleet(one.simulation, one.fleet, one.memory, case["steps"], one.results)
        assert plain.simulation.states.status[0] == LANE_OK
        assert state_of(plain) == state_of(poisoned), f"seed {seed}"


@pytest.mark.parametrize("draws", [(0, 1, 0), (1, 0, 1), (0, 0, 1), (1, 1, 0)])
def test_of_pods_ready_at_one_instant_the_last_to_start_goes_first(draws: tuple[int, ...]) -> None:
    """Two are scheduled at once and start in 20 s, or wait for 10 s and start in 10."""
    startup = [[0, 20_000], [10_000, 10_000]]
    given = quiet_case(
        9,
        1,
        pods={"startup_ms": startup},
        events=[(START + 1, "scale", 4), (START + 5 * PERIOD + 1, "scale", 3)],
        draws=dict(enumerate(draws, start=1)),
    )
    fleet = run(given)
    assert rows_of(fleet) == naive_rows(simulate(given))
    live = fleet.simulation.cohorts[: fleet.simulation.states.cohorts[0]]
    live = live[live.deletion_ms == NEVER_MS]
    left = np.repeat(live.startup, live.weight)[np.repeat(live.created_ms, live.weight) > START]
    assert sorted(left) == sorted(draws)[:-1]


@pytest.mark.parametrize("max_age_ms", [45_000, 44_999])
def test_a_run_may_begin_in_a_gap(max_age_ms: int) -> None:
    """The first tick sees the newest scrape before the gap, if it is not too old."""
    given = quiet_case(
        4,
        2,
        signals={"resource/cpu": {"request_milli": 1000}},
        work={"resource/cpu": [3000]},
        pipeline={"gaps_ms": [[START - 40_000, START + 1]], "max_age_ms": max_age_ms},
    )
    fleet = run(given)
    assert rows_of(fleet) == naive_rows(simulate(given))
    seen = max_age_ms == 45_000
    assert fleet.simulation.points.proposal[0] == (6 if seen else 2)
    assert fleet.simulation.measures.invalid_steps[0] == (0 if seen else 1)


def test_a_lane_without_room_says_so() -> None:
    case = seeded_case(0) | {"initial": 30}
    fleet = packed(case, individual=True, cohorts=-25)
    simulate_fleet(fleet.simulation, fleet.fleet, fleet.memory, case["steps"], fleet.results)
    assert fleet.simulation.states.status[0] == LANE_FULL
    assert fleet.simulation.states.step[0] < case["steps"]


def test_room_may_end_anywhere() -> None:
    """Wherever a lane has no room for one cohort more, it says so and writes nowhere else."""
    full = 0
    for seed in FEW:
        case = seeded_case(seed)
        least = int(packed(case, individual=seed % 2 == 0).simulation.lanes.cohort_capacity[0])
        for capacity in (1, 2, 3, 5, 8):
            cohorts = FEWEST_COHORTS - least + capacity
            fleet = packed(case, individual=seed % 2 == 0, cohorts=cohorts)
            simulate_fleet(
                fleet.simulation, fleet.fleet, fleet.memory, case["steps"], fleet.results
            )
            full += int(fleet.simulation.states.status[0] == LANE_FULL)
            assert fleet.simulation.states.cohorts[0] <= capacity
    assert full > 1.5 * len(FEW)


@cache
def digests() -> list[str]:
    """Return digests of some random runs."""
    texts = [repr((rows_of(fleet), measures_of(fleet))) for fleet in map(ran, range(6))]
    return [hashlib.sha256(text.encode()).hexdigest() for text in texts]


@pytest.mark.compiled
def test_the_number_of_threads_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    cases, order = [seeded_case(seed) for seed in FEW], list(FEW)
    one = _several(cases, order)
    monkeypatch.setattr(_jit, "THREADS", 2)
    assert _several(cases, order) == one


@pytest.mark.parametrize("kind", ["scale", "lose", "wait"])
def test_a_cohort_that_cannot_be_split_stops_the_lane(kind: str) -> None:
    full = 0
    for seed in range(12):
        case = seeded_case(seed) | {"k8s": "1.38", "initial": 6}
        spec = case["periods"][0]["spec"] | {"minReplicas": 6, "maxReplicas": 6}
        at_ms = case["start_ms"] + 3 * case["period_ms"] + 1
        pods = case["plant"]["pods"] | {"shares": [1000], "costs": [0], "removal": "replicaset"}
        pods |= {"startup_ms": [[0, 0]], "capacity": 0, "failure_at_ms": []}
        case |= {"periods": [case["periods"][0] | {"spec": spec}], "events": []}
        if kind == "wait":
            pods["capacity"] = 7
            scale = {"at_ms": at_ms, "kind": "scale", "value": 9}
            case["events"] = [scale, {"at_ms": at_ms + 1, "kind": "lose", "value": 120}]
        else:
            value = 3 if kind == "scale" else 400
            case["events"] = [{"at_ms": at_ms, "kind": kind, "value": value}]
        case["plant"] = case["plant"] | {"pods": pods}
        least = int(packed(case).simulation.lanes.cohort_capacity[0])
        fleet = packed(case, cohorts=FEWEST_COHORTS - least + (3 if kind == "wait" else 1))
        simulate_fleet(fleet.simulation, fleet.fleet, fleet.memory, case["steps"], fleet.results)
        full += int(fleet.simulation.states.status[0] == LANE_FULL)
    assert full > 6


def test_a_metric_that_is_refused_needs_no_signal() -> None:
    case = seeded_case(3)
    spec = case["periods"][0]["spec"]
    broken = {"type": "Pods", "pods": {"metric": {"name": "none"}, "target": {"type": "Value"}}}
    case["periods"] = [
        case["periods"][0] | {"spec": spec | {"metrics": [broken], "behavior": {"scaleUp": {}}}}
    ]
    fleet = run(case)
    assert fleet.simulation.measures.invalid_steps[0] > 0
    assert fleet.simulation.stream_signal.tolist() == [-1]
