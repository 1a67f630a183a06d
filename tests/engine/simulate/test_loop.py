"""The frames of a simulation: measures by their formulas over the trajectory, and what is null."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise, product

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.engine.simulate.case import SimulationCase
from hpabatch.engine.simulate.loop import elastic_speedup, simulate
from hpabatch.engine.simulate.measures import Bounds, demand_series
from hpabatch.kernels.measures import perfect_pod_ms
from hpabatch.layout.codes import BINDINGS
from hpabatch.model.plant import DIVISIBLE, TOTAL, Signal
from hpabatch.model.versions import profile_for
from tests.engine.simulated import (
    CPU,
    CPU_SIGNAL,
    PROMPT,
    START_MS,
    SYNC_MS,
    hpa_spec,
    random_fleet,
    small_case,
)

PROFILE = profile_for("1.38")
HOUR_MS = 3_600_000
LONGEST_BOUND = 100_000  # pods at once that a test counts one by one


def measured(*cases: SimulationCase) -> pl.DataFrame:
    return simulate(cases, PROFILE).measures


def small_enough(case: SimulationCase) -> bool:
    return int(demand_series(case).max(initial=0)) < LONGEST_BOUND


@cache
def random_run(seed: int) -> tuple[list[SimulationCase], pl.DataFrame, pl.DataFrame]:
    """Return some random cases, their measures and their trajectories."""
    drawn, k8s = random_fleet(seed, 4)
    cases = [case for case in drawn if small_enough(case)]
    result = simulate(cases, profile_for(k8s), seed=seed, keep_points=True)
    assert result.points is not None
    return cases, result.measures, result.points


SEEDS = range(8)
# A case of everything: two pods at first, a burst that they cannot serve, and too many pods after.
BURST = small_case(
    hpa_spec(50, 2, 8),
    [800] * 3 + [3900] * 6 + [500] * 5,
    initial=2,
    signal=Signal(DIVISIBLE, ceiling_milli=1000, request_milli=1000),
    capacity_milli=600,
    steps=15,
)


# ---- columns


def test_trajectories_are_kept_only_where_asked_for() -> None:
    assert simulate([BURST], PROFILE).points is None


def test_progress_ends_at_one() -> None:
    told: list[tuple[str, float]] = []
    simulate([BURST, replace(BURST, setting="again")], PROFILE, progress=lambda *t: told.append(t))
    assert told == [("simulating", 1.0)]


def test_a_metric_without_a_signal_is_refused() -> None:
    plant = replace(BURST.workload.plant, signals={"resource/memory": CPU_SIGNAL})
    with pytest.raises(ValueError, match="shop/web: the plant has no signal resource/cpu"):
        measured(replace(BURST, workload=replace(BURST.workload, plant=plant)))


# ---- one run by hand


# ---- formulas


def expected(points: pl.DataFrame, case: SimulationCase) -> dict[str, float | None]:
    """Return the measures of a trajectory by their definitions, None where there is no demand."""
    s, d = points["serving"].to_list(), points["demand"].to_list()
    hours = len(s) * case.period_ms / HOUR_MS
    minutes = case.period_ms / 60_000
    known: dict[str, float | None] = dict.fromkeys(
        ("theta_u_pct", "theta_o_pct", "tau_u_pct", "tau_o_pct", "instability_pct",
         "jitter_per_hour", "short_pod_hours", "perfect_pod_hours", "regret_pct", "episodes")
    )  # fmt: skip
    if all(d):
        pairs = list(zip(s, d, strict=True))
        steps = list(zip(pairwise(s), pairwise(d), strict=True))
        moved_s, moved_d = (sum(a != b for a, b in pairwise(x)) for x in (s, d))
        before = zip(pairs, [pairs[0], *pairs[:-1]], strict=True)
        starts = [d > s and (t == 0 or d0 <= s0) for t, ((s, d), (s0, d0)) in enumerate(before)]
        short = sum(max(d - s, 0) for s, d in pairs) * case.period_ms / HOUR_MS
        perfect = Bounds().hours(case)
        pod_hours = sum(points["pods"].to_list()) * case.period_ms / HOUR_MS
        known = {
            "theta_u_pct": 100 / len(s) * sum(max(d - s, 0) / d for s, d in pairs),
            "theta_o_pct": 100 / len(s) * sum(max(s - d, 0) / d for s, d in pairs),
            "tau_u_pct": 100 / len(s) * sum(s < d for s, d in pairs),
            "tau_o_pct": 100 / len(s) * sum(s > d for s, d in pairs),
            "instability_pct": 100
            / len(s)
            * sum(np.sign(s1 - s0) != np.sign(d1 - d0) for (s0, s1), (d0, d1) in steps),
            "jitter_per_hour": (moved_s - moved_d) / hours,
            "short_pod_hours": short,
            "perfect_pod_hours": perfect,
            "regret_pct": 100 * (max(pod_hours + short - perfect, 0) + short) / perfect,
            "episodes": sum(starts),
        }
    runs = "".join("x" if cut else " " for cut in points["saturated"].to_list()).split()
    unserved = [int(u) * case.period_ms // 1000 for u in points["unserved_milli"].to_list()]
    moves = points.select("replicas", "desired").iter_rows()
    signs = [1 if after > before else -1 for before, after in moves if before != after]
    signals = case.workload.plant.signals
    of_primary: dict[str, float | None] = {}
    if len(signals) == 1 and next(iter(signals.values())).kind == DIVISIBLE:
        waits = next(iter(signals.values())).overload == "queue"
        of_primary = {
            "saturated_minutes": sum(points["saturated"].to_list()) * minutes,
            "saturated_longest_minutes": max(map(len, runs), default=0) * minutes,
            "unserved": None if waits else sum(unserved) / 1000,
            "waiting": sum(unserved) / 1000 if waits else None,
        }
    return known | {
        "hours": hours,
        "replica_hours": sum(points["desired"].to_list()) * case.period_ms / HOUR_MS,
        "pod_hours": sum(points["pods"].to_list()) * case.period_ms / HOUR_MS,
        "rescales": len(signs),
        "rescales_up": signs.count(1),
        "rescales_down": signs.count(-1),
        "reversals": sum(a != b for a, b in pairwise(signs)),
        **of_primary,
        **{
            f"minutes_{words.name}": int((points["binding"] == words.name).sum()) * minutes
            for words in BINDINGS.values()
        },
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_measures_are_what_their_formulas_say(seed: int) -> None:
    cases, measures, points = random_run(seed)
    parts = points.partition_by("hpa", as_dict=True)
    for case, row in zip(cases, measures.iter_rows(named=True), strict=True):
        own = parts[case.workload.hpa,]
        for name, value in expected(own, case).items():
            if value is None:
                assert row[name] is None, (seed, row["hpa"], name)
            else:
                assert row[name] == pytest.approx(value, rel=1e-9, abs=1e-9), (seed, name)


def test_the_random_runs_have_and_have_not_a_demand() -> None:
    rows = pl.concat([random_run(seed)[1] for seed in SEEDS])
    assert rows["theta_u_pct"].null_count() > 2
    assert (rows["theta_u_pct"] > 0).sum() > 5
    assert (rows["theta_o_pct"] > 0).sum() > 5
    assert (rows["reversals"] > 0).sum() > 2
    assert (rows["saturated_minutes"] > 0).sum() > 5


OF_DEMAND = (
    "theta_u_pct",
    "theta_o_pct",
    "tau_u_pct",
    "tau_o_pct",
    "instability_pct",
    "jitter_per_hour",
    "episodes",
    "reaction_s",
    "settling_s",
    "overshoot",
    "short_pod_hours",
    "perfect_pod_hours",
    "regret_pct",
)


def test_without_a_capacity_there_is_no_demand() -> None:
    plant = replace(BURST.workload.plant, capacity_milli=None)
    row = measured(replace(BURST, workload=replace(BURST.workload, plant=plant)))
    assert row.select(OF_DEMAND).row(0) == (None,) * len(OF_DEMAND)
    assert row["capacity_milli"].to_list() == [None]
    assert row["saturated_minutes"].to_list() == [0.5]  # 2 steps; that needs a ceiling only


def test_without_divisible_work_and_backlog_there_is_no_demand() -> None:
    """A capacity alone says nothing: there is no work that it could do."""
    plant = replace(BURST.workload.plant, signals={CPU: replace(CPU_SIGNAL, kind="per_pod")})
    row = measured(replace(BURST, workload=replace(BURST.workload, plant=plant)))
    assert row.select(OF_DEMAND).row(0) == (None,) * len(OF_DEMAND)


def test_without_an_episode_there_is_no_reaction() -> None:
    quiet = small_case(hpa_spec(50, 2, 8), [100] * 4, initial=2, capacity_milli=600)
    row = measured(quiet).row(0, named=True)
    assert (row["episodes"], row["tau_u_pct"], row["tau_o_pct"]) == (0, 0.0, 100.0)
    assert row["reaction_s"] is row["settling_s"] is row["overshoot"] is None


def test_reaction_settling_and_overshoot() -> None:
    """The burst begins in step 3, is seen at tick 4 and served from step 7 on, by 8 pods for 7."""
    row = measured(BURST).row(0, named=True)
    assert row["episodes"] == 1
    assert (row["reaction_s"], row["settling_s"], row["overshoot"]) == (15.0, 60.0, 1.0)


# ---- drivers


def drivers_of(case: SimulationCase) -> str:
    return str(measured(case)["drivers"][0])


def with_totals(names: Sequence[str], values: Sequence[Sequence[int]]) -> SimulationCase:
    """Return a case of cpu at 10 % and some External metrics of value / 1 pods each."""
    more = [
        {
            "type": "External",
            "external": {
                "metric": {"name": name},
                "target": {"type": "AverageValue", "averageValue": "1"},
            },
        }
        for name in names
    ]
    case = small_case(hpa_spec(50, 1, 9, more=more), [100] * len(values[0]), initial=1)
    plant = replace(
        case.workload.plant,
        signals=case.workload.plant.signals
        | {f"external/{name}": Signal(TOTAL, "external") for name in names},
    )
    work = dict(case.workload.work) | {
        f"external/{name}": np.array(series, np.int64)
        for name, series in zip(names, values, strict=True)
    }
    return replace(case, workload=replace(case.workload, plant=plant, work=work))


def test_drivers_name_the_metrics_by_their_share_of_ticks() -> None:
    """A total of n thousands asks for n pods; cpu asks for one."""
    case = with_totals(["depth", "orders"], [[3000] * 9 + [0], [0] * 9 + [5000]])
    # the tick sees the value of the step before it: orders never drives
    assert drivers_of(case) == "depth 100%"
    case = with_totals(["depth", "orders"], [[3000] * 8 + [0, 0], [0] * 5 + [5000] * 5])
    assert drivers_of(case) == "depth 60%, orders 40%"


def test_drivers_of_containers_and_of_nothing() -> None:
    assert drivers_of(BURST) == "cpu 100%"
    unknown = replace(BURST.workload.plant, signals={CPU: replace(CPU_SIGNAL, request_milli=None)})
    assert drivers_of(replace(BURST, workload=replace(BURST.workload, plant=unknown))) == ""


# ---- the perfect forecast


def cheapest(demand: Sequence[int], period_ms: int, restart_ms: int) -> int:
    """Return the least cost of any path of pods that is never below the demand."""
    top = max(demand)
    best = math.inf
    for path in product(*(range(d, top + 1) for d in demand)):
        started = sum(max(b - a, 0) for a, b in pairwise(path))
        best = min(best, sum(path) * period_ms + started * restart_ms)
    return int(best)


@given(
    demand=st.lists(st.integers(1, 4), min_size=1, max_size=6),
    period_ms=st.sampled_from([1, 15_000, 60_000]),
    restart_ms=st.integers(0, 200_000),
)
def test_the_bound_is_the_cheapest_path(demand: list[int], period_ms: int, restart_ms: int) -> None:
    scratch = np.full(max(demand), 77, np.int64)
    found = perfect_pod_ms(np.array(demand, np.int64), period_ms, restart_ms, scratch)
    assert found == cheapest(demand, period_ms, restart_ms)


def test_the_bound_of_a_case_pays_mean_start_and_end() -> None:
    """Demands 1, 3, 1, 3: keeping two pods for a step costs 2 × 15 s, making them anew 2 × 25 s."""
    pods = replace(PROMPT, startup_ms=((1000, 9000), (0, 20_000)), termination_ms=10_000)
    case = small_case(hpa_spec(), [600, 1300, 600, 1300], pods=pods, capacity_milli=600, initial=1)
    assert demand_series(case).tolist() == [1, 3, 1, 3]
    # 4 + 4 pod-steps of 15 s, and twice two pods kept for a step: those of the start are free
    hours = Bounds().hours(case)
    assert hours is not None
    assert hours * 3600 == pytest.approx(8 * 15 + 2 * 15 + 2 * 15)


def test_the_demand_is_that_of_the_piece_at_each_tick() -> None:
    """At least one pod; before the first and after the last piece these count."""
    case = small_case(
        hpa_spec(), [0, 1200, 1201], resolution_ms=30_000, capacity_milli=600, steps=8
    )
    early = replace(case, start_ms=START_MS - SYNC_MS)
    assert demand_series(case).tolist() == [1, 1, 2, 2, 3, 3, 3, 3]
    assert demand_series(early).tolist() == [1, 1, 1, 2, 2, 3, 3, 3]


# ---- against a baseline


def speedup(base: Sequence[float | None], other: Sequence[float | None]) -> list[float | None]:
    names = ["theta_u_pct", "theta_o_pct", "tau_u_pct", "tau_o_pct"]
    rows = [
        {"cluster": "c", "namespace": "n", "hpa": "h", "setting": setting}
        | dict(zip(names, values, strict=True))
        for setting, values in (("recorded", base), ("proposed", other))
    ]
    schema = {"cluster": pl.String(), "namespace": pl.String(), "hpa": pl.String(),
              "setting": pl.String(), **dict.fromkeys(names, pl.Float64())}  # fmt: skip
    frame = elastic_speedup(pl.DataFrame(rows, schema=schema), "recorded")
    assert frame.columns == [*schema, "elastic_speedup"]
    return frame["elastic_speedup"].to_list()


def test_the_speedup_is_the_geometric_mean_of_the_ratios() -> None:
    assert speedup([8.0, 9.0, 10.0, 27.0], [4.0, 3.0, 5.0, 9.0]) == pytest.approx(
        [1.0, (2 * 3 * 2 * 3) ** 0.25]
    )


def test_nothing_against_nothing_counts_as_equal() -> None:
    assert speedup([0.0, 9.0, 0.0, 8.0], [0.0, 3.0, 0.0, 4.0]) == pytest.approx(
        [1.0, (3 * 2) ** 0.25]
    )


def test_a_ratio_with_nothing_below_is_not_known() -> None:
    assert speedup([8.0, 9.0, 1.0, 1.0], [0.0, 9.0, 1.0, 1.0]) == [1.0, None]


def test_without_a_demand_there_is_no_speedup() -> None:
    assert speedup([None] * 4, [1.0] * 4) == [None, None]


def test_hpas_without_the_baseline_have_no_speedup() -> None:
    frame = elastic_speedup(measured(BURST), "recorded")
    assert frame["elastic_speedup"].to_list() == [None]
