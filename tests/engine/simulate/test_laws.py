"""Laws of simulated runs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import TypedDict

import numpy as np
import polars as pl
import pytest

from hpabatch.engine.analyze.run import Assumed, analyze_hpa
from hpabatch.engine.fit.workload import Workload
from hpabatch.engine.fleet.candidates import SpecPeriod
from hpabatch.engine.simulate import loop as engine
from hpabatch.engine.simulate.case import SimulationCase
from hpabatch.engine.simulate.loop import simulate
from hpabatch.model.objects.defaults import default_hpa
from hpabatch.model.objects.hpa import HPA, Behavior, HPASpec, ScalingRules
from hpabatch.model.plant import (
    BACKLOG,
    DIVISIBLE,
    EXTERNAL,
    RESOURCE,
    Pipeline,
    Plant,
    Pods,
    Signal,
)
from hpabatch.model.versions import ControllerFlags, profile_for
from hpabatch.packing.simulation import SimulatedFleet, pack_simulation
from tests.effort import effort
from tests.engine.constant_demand import fixed_points, settles
from tests.engine.simulated import (
    CPU,
    START_MS,
    SYNC_MS,
    Json,
    hpa_spec,
    random_fleet,
    run_points,
    small_case,
)
from tests.kernels.simulations import measures_of, rows_of, run, seeded_case

NO_WAITING = ControllerFlags(
    downscale_stabilization_ms=0, cpu_initialization_period_ms=0, initial_readiness_delay_ms=0
)
PROFILE = profile_for("1.38")


def many(number: int) -> range:
    return range(effort(number))


def by_hpa(points: pl.DataFrame) -> dict[str, pl.DataFrame]:
    parts = points.partition_by("hpa", as_dict=True, maintain_order=True)
    return {str(key[0]): part for key, part in parts.items()}


# ---- constant demand


def random_rules(rng: random.Random, windows_s: Sequence[int]) -> Json:
    """Draw one direction of a behavior that can move by at least a pod a minute."""
    policies = [
        {"type": "Pods", "value": rng.randint(1, 6), "periodSeconds": rng.choice([15, 30, 60])},
        {"type": "Percent", "value": rng.choice([10, 50, 100, 200]), "periodSeconds": 30},
    ]
    return {
        "policies": policies[: rng.randint(1, 2)],
        "stabilizationWindowSeconds": rng.choice(windows_s),
        "tolerance": rng.choice(["0", "0", "50m", "100m", "300m"]),
    }


def constant_case(rng: random.Random, name: str, windows_s: Sequence[int]) -> SimulationCase:
    """Draw an HPA, pods that use a base, and a constant demand around what its bounds can take."""
    low, high = rng.randint(1, 3), rng.randint(4, 12)
    behavior = {way: random_rules(rng, windows_s) for way in ("scaleUp", "scaleDown")}
    target = rng.randint(30, 90)
    spec = hpa_spec(target, low, high, None if rng.random() < 0.3 else behavior)
    request = rng.choice([1000, 1000, 250, 333])
    base = rng.choice([0, 0, 0, request * target // rng.randint(150, 900)])
    unit = rng.choice([1, 1, 1, 10, request // 10])
    signal = Signal(DIVISIBLE, request_milli=request, base_milli=base, unit_milli=unit)
    demand = rng.randint(0, high * request * target // 90)
    flags = replace(NO_WAITING, tolerance=rng.choice([0.0, 0.0, 0.05, 0.1]))
    initial = rng.randint(low, high)
    return small_case(
        spec, [demand], steps=1, signal=signal, initial=initial, flags=flags, name=name
    )


def with_every_other_tick_frozen(case: SimulationCase, rounds: int) -> SimulationCase:
    """Let the HPA decide in every second tick only; in between both directions are disabled.

    Pods that come and go at once serve in the next step, which the sample of the tick after shows
    in whole: so each decision sees exactly what the last one led to, and the loop is the map that
    the static analysis runs.
    """
    spec = case.periods[0].spec
    rules = ScalingRules(select_policy="Disabled")
    frozen = default_hpa(HPA(spec=replace(spec, behavior=Behavior(rules, rules)))).spec
    since = [START_MS + t * SYNC_MS for t in range(2 * rounds)]
    periods = [
        SpecPeriod(ms, ms + SYNC_MS, frozen if t % 2 else spec) for t, ms in enumerate(since)
    ]
    return replace(case, periods=tuple(periods), steps=2 * rounds)


class Amounts(TypedDict):
    request_milli: int
    base_milli: int
    unit_milli: int


def amounts(case: SimulationCase) -> Amounts:
    signal = case.workload.plant.signals[CPU]
    return Amounts(
        request_milli=signal.request_milli or 0,
        base_milli=signal.base_milli,
        unit_milli=signal.unit_milli,
    )


def demand_of(case: SimulationCase) -> int:
    return int(case.workload.work[CPU][0])


def follow_each_other(tail: Sequence[int], members: Sequence[int]) -> bool:
    """Say whether a tail of sizes runs through a cycle's members in their order."""
    steps = [tail[0], *(after for before, after in pairwise(tail) if after != before)]
    following = set(zip(members, [*members[1:], members[0]], strict=True))
    return set(tail) == set(members) and set(pairwise(steps)) <= following


def cycling_case(rng: random.Random, name: str) -> SimulationCase:
    """Draw a case until the static analysis knows a demand that one of its cycles lives on."""
    while True:
        case = constant_case(rng, name, [0])
        w, spec = case.workload, case.periods[0].spec
        signal = replace(w.plant.signals[CPU], unit_milli=1, base_milli=0)
        assumed = Assumed({"cpu": signal.request_milli or 0})
        found = analyze_hpa(spec, case.flags, PROFILE, assumed).metrics[0].cycles
        if found:
            cycle = rng.choice(found).cycle
            demand = {CPU: np.array([rng.randint(cycle.low_milli, cycle.high_milli)], np.int64)}
            initial = rng.choice(cycle.members)
            plant = replace(w.plant, signals={CPU: signal})
            return replace(case, workload=replace(w, plant=plant, work=demand, initial=initial))


def test_constant_demand_ends_as_the_static_analysis_says() -> None:
    """With fresh samples at every decision and no windows: at rest, or in the predicted cycle."""
    rounds, rng = 60, random.Random(11)
    cases = [constant_case(rng, f"web-{k}", [0]) for k in many(8)]
    cases += [cycling_case(rng, f"loop-{k}") for k in many(8)]
    points = by_hpa(run_points([with_every_other_tick_frozen(case, rounds) for case in cases]))
    ended: list[tuple[int, ...]] = []
    for case in cases:
        w = case.workload
        flags = replace(case.flags, sync_period_ms=2 * SYNC_MS)
        spec = case.periods[0].spec
        members = settles(spec, demand_of(case), w.initial, flags=flags, **amounts(case))
        tail = points[w.hpa]["replicas"].to_list()[::2][rounds // 2 :]
        assert follow_each_other(tail, members), (case, tail, members)
        ended.append(members)
    assert sum(len(members) == 1 for members in ended) >= len(cases) // 3
    assert sum(len(members) > 1 for members in ended) >= len(cases) // 3


def any_plant(rng: random.Random, case: SimulationCase) -> SimulationCase:
    """Give a case slow pods, a slow pipeline and the controller's usual waiting times."""
    pods = Pods(
        startup_ms=((rng.randint(0, 20_000), rng.randint(0, 60_000)),),
        reaction_ms=rng.choice([1, 500, 3000]),
        termination_ms=rng.choice([0, 30_000]),
        initial_age_ms=3_600_000,
    )
    pipeline = Pipeline(
        interval_ms=rng.choice([5000, 15_000, 30_000, 60_000]),
        phase_ms=rng.randint(0, 60_000),
        window_ms=rng.choice([0, 15_000, 30_000, 60_000]),
        lag_ms=rng.choice([0, 700, 20_000]),
        first_sample_ms=rng.choice([0, 15_000]),
        max_age_ms=200_000,
    )
    plant = replace(case.workload.plant, pods=pods, pipelines={RESOURCE: pipeline})
    flags = ControllerFlags(tolerance=case.flags.tolerance)
    return replace(case, workload=replace(case.workload, plant=plant), flags=flags)


def resting_sizes(case: SimulationCase) -> tuple[int, ...]:
    spec = case.periods[0].spec
    return fixed_points(spec, demand_of(case), flags=case.flags, **amounts(case))


def test_whatever_rests_is_a_fixed_point() -> None:
    """Whatever pods, pipeline and windows are like: what no longer moves obeys the inequality.

    The other way round a fixed point need not be reached: late samples may drive the loop for ever.
    """
    rng, quiet, steps = random.Random(5), 60, 130
    drawn = [constant_case(rng, f"web-{k}", [0, 30, 120]) for k in many(8)]
    cases = [replace(any_plant(rng, case), steps=steps) for case in drawn]
    points, rested = by_hpa(run_points(cases)), 0
    for case in cases:
        last = points[case.workload.hpa]["replicas"].to_list()[-quiet:]
        if len(set(last)) == 1:  # longer than any window, start-up and lag
            rested += 1
            assert last[0] in resting_sizes(case), case
    assert rested >= len(cases) // 2


def test_a_fixed_point_is_never_left() -> None:
    """All has been so for ever before the start, so nothing ever happens."""
    rng = random.Random(6)
    drawn = [any_plant(rng, constant_case(rng, f"web-{k}", [0, 30, 120])) for k in many(24)]
    cases, starts = [], set()
    for case in drawn:
        for size in rng.sample(resting_sizes(case), min(1, len(resting_sizes(case)))):
            workload = replace(case.workload, initial=size)
            cases.append(replace(case, workload=workload, steps=25))
            starts.add(size)
    assert len(cases) >= len(drawn) // 2
    assert len(starts) > min(4, len(drawn) // 3)
    points = by_hpa(run_points(cases))
    for case in cases:
        found = points[case.workload.hpa]
        assert set(found["replicas"]) | set(found["desired"]) == {case.workload.initial}, case


# ---- more capacity


def forced_path(rng: random.Random, steps: int) -> tuple[SpecPeriod, ...]:
    """Return specs that force a random size each, whatever the metrics say."""
    since = sorted({0, *rng.sample(range(1, steps), 6)})
    periods = []
    for begin, end in zip(since, [*since[1:], steps], strict=True):
        size = rng.randint(1, 9)
        spec = hpa_spec(60, size, size)
        periods.append(SpecPeriod(START_MS + begin * SYNC_MS, START_MS + end * SYNC_MS, spec))
    return tuple(periods)


def capacity_pair(rng: random.Random, name: str, kind: str) -> list[SimulationCase]:
    """Draw two workloads that differ in their pods' ceiling or rate only, the second has more."""
    steps = 30
    less = rng.randint(100, 1500)
    amount = [less, less + rng.randint(0, 700)]
    pods = Pods(
        startup_ms=tuple((rng.randint(0, 9000), rng.randint(0, 40_000)) for _ in range(2)),
        shares=rng.choice([(1000,), (500, 1500), (200, 1000, 900)]),
        serves_while_terminating=rng.random() < 0.5,
        failure_at_ms=tuple(sorted(rng.randint(0, steps * SYNC_MS) for _ in range(3))),
    )
    base, overload = rng.randint(0, 90), rng.choice(["drop", "queue"])
    unit = 1 if kind == DIVISIBLE else 10
    load = np.array([rng.randint(0, 9000) // unit for _ in range(steps)], np.int64)
    cases = []
    for setting, most in zip(("less", "more"), amount, strict=True):
        if kind == DIVISIBLE:
            signal = Signal(kind, RESOURCE, base, most, overload=overload)
        else:
            signal = Signal(kind, EXTERNAL, rate_milli=most // 10, queue_milli=500)
        plant = Plant({CPU: replace(signal, request_milli=1000)}, pods)
        if kind == BACKLOG:
            plant = Plant({"external/depth": signal, CPU: Signal("per_pod", request_milli=1)}, pods)
        series = {next(iter(plant.signals)): load}
        workload = Workload("demo", kind, name, plant, series, START_MS, SYNC_MS, 4)
        cases.append(
            SimulationCase(workload, (), setting, START_MS, SYNC_MS, steps, ControllerFlags())
        )
    path = forced_path(rng, steps)
    return [replace(case, periods=path) for case in cases]


@pytest.mark.parametrize("kind", [DIVISIBLE, BACKLOG])
def test_for_the_same_path_more_capacity_never_serves_less(kind: str) -> None:
    rng = random.Random(3)
    pairs = [capacity_pair(rng, f"web-{k}", kind) for k in many(8)]
    points = run_points([case for pair in pairs for case in pair])
    more, less = (points.filter(pl.col("setting") == s).sort("hpa", "ts") for s in ("more", "less"))
    for column in ("ts", "replicas", "serving", "pods", "work_milli"):
        assert more[column].equals(less[column]), column
    assert (more["unserved_milli"] <= less["unserved_milli"]).all()
    assert (more["unserved_milli"] < less["unserved_milli"]).sum() > more.height // 10


# ---- what a decision may do


def disabled(spec: HPASpec, way: str) -> HPASpec:
    """Return a spec that never moves one way by itself."""
    behavior = spec.behavior or Behavior()
    rules = replace(getattr(behavior, way) or ScalingRules(), select_policy="Disabled")
    return default_hpa(HPA(spec=replace(spec, behavior=replace(behavior, **{way: rules})))).spec


@cache
def fleets(seeds: range, way: str | None = None) -> list[tuple[SimulationCase, pl.DataFrame]]:
    """Run random fleets, one way disabled; return each case with its trajectory."""
    found = []
    for seed in seeds:
        cases, k8s = random_fleet(seed, 4)
        if way is not None:
            cases = [
                replace(
                    case,
                    periods=tuple(replace(p, spec=disabled(p.spec, way)) for p in case.periods),
                )
                for case in cases
            ]
        points = by_hpa(run_points(cases, k8s, seed))
        found += [(case, points[case.workload.hpa]) for case in cases]
    return found


def bounds_at(case: SimulationCase, now_ms: int) -> tuple[int, int]:
    spec = [p.spec for p in case.periods if p.from_ms <= now_ms][-1]
    return 1 if spec.min_replicas is None else spec.min_replicas, spec.max_replicas


@pytest.mark.parametrize(("way", "sign"), [("scale_up", 1), ("scale_down", -1)])
def test_disabled_never_moves_that_way_on_the_metrics_path(way: str, sign: int) -> None:
    """Forced moves excepted: to minReplicas from below and to maxReplicas from above."""
    forced = other = 0
    for case, points in fleets(many(3), way):
        for now_ms, before, after in points.select(
            pl.col("ts").to_physical(), "replicas", "desired"
        ).iter_rows():
            low, high = bounds_at(case, now_ms)
            if (after - before) * sign > 0:
                assert not low <= before <= high, (case.workload.hpa, now_ms, before, after)
                assert after == (low if sign > 0 else high)
                forced += 1
            other += (after - before) * sign < 0
    assert forced > 0
    assert other > 5


def test_bounds_hold_after_every_tick() -> None:
    """Whatever the size was before (a manual scaling, an edit); a target at 0 is left alone."""
    corrected = 0
    for case, points in fleets(many(3)):
        for now_ms, before, after in points.select(
            pl.col("ts").to_physical(), "replicas", "desired"
        ).iter_rows():
            low, high = bounds_at(case, now_ms)
            corrected += not low <= before <= high
            assert low <= after <= high or before == after == 0, (case.workload.hpa, now_ms)
    assert corrected > 10


def test_a_tick_begins_with_the_size_that_the_last_one_left() -> None:
    """Only a manual scaling comes between."""
    for case, points in fleets(many(3)):
        manual = [e.at_ms for e in case.events if e.kind == "scale"]
        rows = points.select(pl.col("ts").to_physical(), "replicas", "desired").rows()
        for (now_ms, _, left), (after_ms, found, _) in pairwise(rows):
            if not any(now_ms <= at_ms < after_ms for at_ms in manual):
                assert found == left, (case.workload.hpa, now_ms)


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


def test_rows_come_in_the_order_of_the_cases() -> None:
    cases = [
        small_case(hpa_spec(), [100] * 3, name=name, setting=setting)
        for name, setting in (("b", "today"), ("a", "today"), ("b", "again"), ("a", "again"))
    ]
    found = simulate(cases, PROFILE).measures.select("namespace", "hpa", "setting").rows()
    assert found == [(c.workload.namespace, c.workload.hpa, c.setting) for c in cases]


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
