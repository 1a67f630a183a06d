"""Capacity plans: small ones worked out by hand, and what holds of all of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest

from hpabatch.engine.capacity.run import CapacityOptions, growths_of, planned_part, summed
from hpabatch.engine.capacity.runs import (
    BOUNDS,
    CEILING,
    CEILING_APART,
    FREE,
    TODAY,
    UNCLAMPED,
    bounded,
    ceiling_of,
    grown,
    run_all,
)
from hpabatch.engine.fleet.candidates import Skipped
from hpabatch.engine.fleet.requested import Requested
from hpabatch.engine.simulate.case import SimulationCase
from hpabatch.engine.simulate.loop import simulate
from hpabatch.engine.simulate.run import LoopOptions
from hpabatch.errors import RefusedError, UsageError
from hpabatch.inputs.prices import PriceList, Prices
from hpabatch.model.plant import DIVISIBLE, TOTAL, Pods, Signal
from hpabatch.model.quota import CORES, GIB, LIMIT_CORES, PODS, Limit, Quota
from hpabatch.model.versions import profile_for
from tests.engine.planned import PROFILE, loop_of, plan_loop, planned, total
from tests.engine.simulated import (
    CPU,
    START_MS,
    SYNC_MS,
    hpa_spec,
    random_fleet,
    run_points,
    small_case,
)

START = datetime.fromtimestamp(START_MS / 1000, UTC)
SYNC = timedelta(milliseconds=SYNC_MS)
GIB_MILLI = 1000 * 2**30
SHOP = ("demo", "shop", "web")

# A pod requests a core and half a GiB; target 50 %, so 500m of work a pod. At tick 4 the burst of
# step 3 is seen: 3000m are 6 pods, but from 1 the rules go to 4 at once, then to 6. At tick 10 the
# 500m of step 9 are seen: 1 pod. With maxReplicas 4 it stays at 4 from tick 4 to 9.
BURST = replace(
    small_case(hpa_spec(50, 1, 4), [400] * 3 + [3000] * 6 + [500] * 5, capacity_milli=500),
    requested=Requested(1000, GIB_MILLI // 2),
)


def moved(case: SimulationCase, name: str, by_ms: int = 0, **more: Any) -> SimulationCase:
    """Return a case as another HPA, which begins later."""
    workload = replace(
        case.workload, hpa=name, work_start_ms=case.workload.work_start_ms + by_ms, **more
    )
    return replace(case, workload=workload, start_ms=case.start_ms + by_ms)


def held_of(run: dict[str, Any]) -> list[int]:
    """Return the pods that a run holds after each tick."""
    changes = np.zeros(run["steps"] + 1, np.int64)
    changes[run["ticks"]] = run["changes"]
    assert not changes.sum()
    return list(map(int, changes.cumsum()[:-1]))


# ---- one HPA by hand


def test_one_hpa_by_hand() -> None:
    row = planned(BURST).hpas.row(0, named=True)
    # Unclamped: 1 in the ticks 0 to 3, 4, then 6 in 5 to 9, then 1 in 10 to 13: of 14 sorted values
    # rank 7 is the median (the eight 1 come first), ranks 14 and 14 (13.3, 13.86) the others.
    assert [row[f"desired_{n}"] for n in ("p50", "p95", "p99", "max")] == [1, 6, 6, 6]
    assert (row["max_sufficient"], row["min_sufficient"], row["max_with_min"]) == (6, 1, 6)
    assert row["first_at_max"] == START + 4 * SYNC
    assert row["at_max_minutes"] == 6 * 15 / 60
    assert row["at_max_pct"] == pytest.approx(100 * 6 / 14)
    assert row["held_minutes"] == 6 * 15 / 60  # at each of them the metrics ask for 6
    assert row["hours"] == pytest.approx(14 * 15 / 3600)
    # Pods there: 1 until tick 4, 4 (or 4, then 6) in 5 to 10, then 1.
    assert row["pod_hours"] == pytest.approx((5 + 6 * 4 + 3) * 15 / 3600)
    assert row["pod_hours_unclamped"] == pytest.approx((5 + 4 + 5 * 6 + 3) * 15 / 3600)
    assert row["usable"]
    assert row["why_not"] == ""
    work, twice = (case.workload.work[CPU] for case in (BURST, grown(BURST, 2000, PROFILE)))
    assert twice.tolist() == (2 * work).tolist()


def test_its_sums_by_hand() -> None:
    plan = planned(BURST, options=CapacityOptions(loop=LoopOptions(prices=PRICES)))
    # Held are the larger of the size and the pods that are there: 1 1 1 1 4 6 6 6 6 6 6 1 1 1.
    pods = total(plan, scope="fleet", bounds=UNCLAMPED, covers="all", resource=PODS)
    assert [pods[n] for n in ("p50", "p95", "p99", "max", "sum_of_peaks")] == [1, 6, 6, 6, 6]
    gib = total(plan, scope="namespace", bounds=TODAY, covers="all", resource=GIB)
    # Today: 1 1 1 1 4 4 4 4 4 4 4 1 1 1, of half a GiB each; rank 7 of 14 is the last of the ones.
    assert [gib[n] for n in ("p50", "p95", "p99", "max", "sum_of_peaks")] == [0.5, 2, 2, 2, 2]
    assert gib["unit"] == "GiB"
    # 42 pods for 15 s: 0.175 pod-hours; a run of 210 s is 12,342.86 times in 30 days.
    assert pods["run_total"] == pytest.approx(0.175)
    assert pods["month_total"] == pytest.approx(0.175 * 30 * 86_400 / 210)
    money = total(plan, scope="fleet", bounds=UNCLAMPED, covers="all", resource="money")
    assert money["run_total"] == pytest.approx(0.175 * (0.5 + 0.5 * 0.1 + 0.25))
    assert money["month_total"] == pytest.approx(0.14 * 30 * 86_400 / 210)
    assert money["unit"] == "EUR"
    assert money["max"] is None
    assert plan.hpas["month_unclamped"][0] == pytest.approx(money["month_total"])


PRICES = PriceList(Prices(core_hour=0.5, gib_hour=0.1, pod_hour=0.25, currency="EUR"))


# ---- sums are of one instant


def test_the_value_in_force_counts_at_an_instant() -> None:
    """The other HPA syncs 5 s later every 20 s: each instant sees its last tick."""
    slow = replace(moved(BURST, "slow", 5000), period_ms=20_000, steps=10)
    held = held_of(run_all([slow], 1000, PROFILE, 0).row(BOUNDS.index(UNCLAMPED), named=True))
    plan = planned(BURST, slow)
    alone = planned(BURST)
    row = total(plan, scope="fleet", bounds=UNCLAMPED, covers="all", resource=PODS)
    # Grid: every 15 s from the first one's start; at 15 k the tick (15 k - 5) // 20, from k = 1 on.
    theirs = [0, *(held[(15 * k - 5) // 20] for k in range(1, 14))]
    first = [1, 1, 1, 1, 4, 6, 6, 6, 6, 6, 6, 1, 1, 1]
    assert row["max"] == max(a + b for a, b in zip(first, theirs, strict=True))
    assert total(alone, scope="fleet", bounds=UNCLAMPED, covers="all", resource=PODS)["max"] == 6


def test_unknown_requests_are_not_in_the_sums() -> None:
    unknown = replace(moved(BURST, "unknown"), requested=Requested(None, None))
    plan = planned(BURST, unknown)
    for resource, hpas, most in ((PODS, 2, 12), (CORES, 1, 6.0)):
        row = total(plan, scope="fleet", bounds=UNCLAMPED, covers="all", resource=resource)
        assert (row["hpas"], row["of"], row["max"]) == (hpas, 2, most)


# ---- quotas


def quota(cluster: str | None = None, **limits: int) -> Quota:
    return Quota("shop", "q", {k: Limit(v, k, "q") for k, v in limits.items()}, cluster)


def test_a_quota_by_hand() -> None:
    """5 cores: six pods hold 6 in the instants 5 to 10; with 4 pods nothing is above."""
    options = CapacityOptions(quotas=(quota(cores=9000), quota(cores=5000), quota("other", pods=0)))
    plan = planned(BURST, options=options)
    row = total(plan, scope="namespace", bounds=UNCLAMPED, covers="all", resource=CORES)
    assert (row["quota"], row["quota_name"], row["lowest_headroom"]) == (5.0, "q: cores", -1.0)
    assert row["first_exceeded"] == START + 5 * SYNC
    assert row["exceeded_minutes"] == 6 * 15 / 60
    assert row["exceeded_pct"] == pytest.approx(100 * 6 / 14)
    today = total(plan, scope="namespace", bounds=TODAY, covers="all", resource=CORES)
    assert (today["first_exceeded"], today["exceeded_pct"]) == (None, 0.0)
    assert today["lowest_headroom"] == 1.0
    fleet = total(plan, scope="fleet", bounds=UNCLAMPED, covers="all", resource=CORES)
    pods = total(plan, scope="namespace", bounds=UNCLAMPED, covers="all", resource=PODS)
    assert fleet["quota"] is pods["quota"] is None


def test_limits_are_summed_where_a_quota_is_about_them() -> None:
    options = CapacityOptions(quotas=(quota(limit_cores=10_000),))
    plan = planned(BURST, options=options, limits={SHOP: Requested(cpu_milli=2000)})
    row = total(plan, scope="namespace", bounds=UNCLAMPED, covers="all", resource=LIMIT_CORES)
    assert (row["max"], row["lowest_headroom"], row["run_total"]) == (12.0, -2.0, None)
    assert plan.totals.filter(pl.col("resource") == LIMIT_CORES)["scope"].unique().to_list() == [
        "namespace"
    ]


def test_a_quota_of_a_namespace_without_hpas_is_told() -> None:
    lost = replace(quota(pods=1), namespace="lost", place="q.yaml, line 3")
    plan = planned(BURST, options=CapacityOptions(quotas=(lost,)))
    assert plan.notes == ("q.yaml, line 3: no HPA is in the namespace lost",)


# ---- what cannot be planned


def test_unusable_plans_are_apart_and_skipped_ones_are_counted() -> None:
    doubtful = moved(BURST, "doubtful")
    key = doubtful.key[:3]
    skipped = Skipped("demo", "shop", "lost", "its pods were never measured")
    plan = planned(
        BURST,
        doubtful,
        problems={key: ("plant not identified",)},
        censored={key: 40.0},
        skipped=(skipped,),
    )
    rows = {row["hpa"]: row for row in plan.hpas.iter_rows(named=True)}
    assert rows["web"]["usable"]
    assert rows["doubtful"]["why_not"].startswith("plant not identified; 40% of its work is only a")
    for covers, hpas, most in (("all", 2, 12), ("usable", 1, 6)):
        row = total(plan, scope="namespace", bounds=UNCLAMPED, covers=covers, resource=PODS)
        assert (row["hpas"], row["of"], row["max"]) == (hpas, 3, most)
    assert plan.skipped == (skipped,)


@pytest.mark.compiled
def test_a_metric_that_no_pods_bring_down_has_no_end() -> None:
    """A base above the target: each step asks for more, from 1 to CEILING by doubling.

    In the sums it counts with today's bounds, and not without: its number says nothing.
    """
    signal = Signal(DIVISIBLE, base_milli=900, request_milli=1000)
    case = small_case(hpa_spec(50, 1, 4), [100] * 40, signal=signal)
    plan = planned(case)
    row = plan.hpas.row(0, named=True)
    assert row["desired_max"] == CEILING
    assert [row[n] for n in ("max_sufficient", "min_sufficient", "max_with_min")] == [None] * 3
    assert not row["usable"]
    assert "asks for ever more pods (beyond 100,000)" in row["why_not"]
    found = {b: total(plan, scope="fleet", bounds=b, covers="all", resource=PODS)
             for b in (TODAY, UNCLAMPED)}  # fmt: skip
    assert (found[TODAY]["hpas"], found[UNCLAMPED]["hpas"]) == (1, 0)
    assert found[UNCLAMPED]["max"] is None


def test_pods_that_are_told_apart_end_sooner() -> None:
    """With room for 10 and two start-up times each pod is its own; today's maximum is kept."""
    pods = Pods(startup_ms=((0, 0), (0, 1000)), capacity=10)
    for most, ceiling in ((4, CEILING_APART), (6000, 6000), (10**6, CEILING)):
        case = small_case(hpa_spec(50, 1, most), [400], pods=pods)
        assert ceiling_of(case) == ceiling
        assert bounded(case, FREE).periods[0].spec.max_replicas == max(ceiling, most)
    assert ceiling_of(BURST) == CEILING


def test_a_run_that_still_rises_has_no_end() -> None:
    """One pod a minute at most: at the ticks 0, 4, 8, 12 and 16, from 1 to 6, with 10 wanted."""
    policies = [{"type": "Pods", "value": 1, "periodSeconds": 60}]
    rules = {"stabilizationWindowSeconds": 0, "policies": policies}
    case = small_case(hpa_spec(50, 1, 4, {"scaleUp": rules}), [5000] * 20)
    row = planned(case).hpas.row(0, named=True)
    assert row["desired_max"] == 6
    assert row["max_sufficient"] is None
    assert "still rising (at 6), held back by its scale-up rules alone" in row["why_not"]
    disabled = {**rules, "selectPolicy": "Disabled"}
    still = planned(small_case(hpa_spec(50, 1, 4, {"scaleUp": disabled}), [5000] * 20))
    assert still.hpas["max_sufficient"].to_list() == [1]


def test_nothing_to_plan_is_refused() -> None:
    skipped = Skipped("demo", "shop", "lost", "its pods were never measured")
    with pytest.raises(RefusedError, match="shop/lost: its pods were never measured"):
        plan_loop(loop_of(skipped=(skipped,)), CapacityOptions())


# ---- what holds of every plan


@pytest.mark.compiled
@pytest.mark.parametrize("seed", range(10))
def test_bounds_that_suffice_leave_the_run_as_it_is(seed: int) -> None:
    cases, k8s = random_fleet(seed, 3)
    profile = profile_for(k8s)
    checked = 0
    for run in run_all(cases, 1000, profile, seed).iter_rows(named=True):
        if run["setting"] == TODAY or run["highest"] >= CEILING_APART:
            continue
        case = next(case for case in cases if case.key[2] == run["hpa"])
        whole = bounded(case, run["setting"])
        spec = whole.periods[0].spec
        least = spec.min_replicas if run["setting"] == UNCLAMPED else run["lowest"]
        spec = replace(spec, min_replicas=least, max_replicas=max(run["highest"], 1))
        tight = replace(whole, periods=(replace(whole.periods[0], spec=spec),), setting="tight")
        desired = [
            simulate([c], profile, seed=seed, keep_points=True).points for c in (whole, tight)
        ]
        assert desired[0] is not None
        assert desired[1] is not None
        assert desired[0]["desired"].to_list() == desired[1]["desired"].to_list()
        checked += 1
    assert checked


@pytest.mark.compiled
@pytest.mark.parametrize("seed", range(6))
def test_tracks_are_simulates_trajectories(seed: int) -> None:
    cases, k8s = random_fleet(seed, 3)
    profile = profile_for(k8s)
    runs = run_all(cases, 1500, profile, seed)
    wanted = [(case, bounds) for case in cases for bounds in BOUNDS]
    for row, (case, bounds) in zip(runs.iter_rows(named=True), wanted, strict=True):
        result = simulate(
            [bounded(grown(case, 1500, profile), bounds)], profile, seed=seed, keep_points=True
        )
        assert result.points is not None
        points = result.points
        held = points.select(pl.max_horizontal("desired", "pods")).to_series().to_list()
        assert (held_of(row), row["peak"]) == (held, max(held))
        assert row["highest"] == max(points["replicas"].to_list() + points["desired"].to_list())
        measures = result.measures.row(0, named=True)
        assert {name: row[name] for name in measures} == measures


@pytest.mark.compiled
@pytest.mark.parametrize("seed", range(4))
def test_a_fleets_sum_is_that_of_its_trajectories(seed: int) -> None:
    """Cases of a fleet share their ticks: a join by time is the sum."""
    cases, k8s = random_fleet(seed, 4)
    plan = plan_loop(loop_of(*cases, k8s=k8s), CapacityOptions(loop=LoopOptions(seed=seed)))
    points = run_points([bounded(case, TODAY) for case in cases], k8s, seed)
    held = points.with_columns(held=pl.max_horizontal("desired", "pods"))
    sums = plan.totals.filter(bounds=TODAY, covers="all", resource=PODS)
    assert sums["scope"].sort().to_list() == ["cluster"] * 2 + ["fleet"] + ["namespace"] * 3
    for row in sums.iter_rows(named=True):
        place = {name: row[name] for name in ("cluster", "namespace") if row[name] is not None}
        theirs = held.filter(pl.lit(value=True), **place)
        together = theirs.group_by("ts").agg(pl.col("held").sum())["held"].sort().to_list()
        ranks = [-(-p * len(together) // 100) - 1 for p in (50, 95, 99)]
        assert [row[f"p{p}"] for p in (50, 95, 99)] == [together[rank] for rank in ranks]
        assert row["max"] == together[-1]
        peaks = theirs.group_by("hpa").agg(pl.col("held").max())["held"]
        assert (row["hpas"], row["of"], row["sum_of_peaks"]) == (
            len(peaks),
            len(peaks),
            peaks.sum(),
        )


@pytest.mark.compiled
def test_parts_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    cases, k8s = random_fleet(3, 5)
    loop = loop_of(*cases, k8s=k8s)
    whole = plan_loop(loop, CapacityOptions(growths=(1000, 2000), loop=LoopOptions(prices=PRICES)))
    monkeypatch.setattr("hpabatch.engine.capacity.runs.POINTS_AT_ONCE", 1)
    parts = plan_loop(loop, CapacityOptions(growths=(1000, 2000), loop=LoopOptions(prices=PRICES)))
    assert parts.hpas.equals(whole.hpas)
    assert parts.totals.equals(whole.totals)


@pytest.mark.compiled
def test_cuts_between_hpas_do_not_show() -> None:
    """The cases of a fleet planned together, and each as a part of its own."""
    cases, k8s = random_fleet(5, 5)
    options = CapacityOptions(growths=(700, 1000), loop=LoopOptions(prices=PRICES))
    whole = plan_loop(loop_of(*cases, k8s=k8s), options)
    alone = [
        planned_part(loop_of(case, k8s=k8s), options.growths, options.loop, {})
        for case in sorted(cases, key=lambda case: case.key)
    ]
    parts = summed(alone, options, (), (), {})
    assert parts.hpas.equals(whole.hpas)
    assert parts.totals.equals(whole.totals)


def test_scale_to_zero_keeps_its_zero() -> None:
    """An HPA that may go to 0 keeps that without its bounds; others go to 1 at the least."""
    metric = {
        "type": "External",
        "external": {
            "metric": {"name": "jobs"},
            "target": {"type": "AverageValue", "averageValue": "10"},
        },
    }
    spec = replace(hpa_spec(50, 1, 4, more=[metric]), min_replicas=0)
    signals = {
        CPU: Signal(DIVISIBLE, request_milli=1000),
        "external/jobs": Signal(TOTAL, api="external"),
    }
    case = small_case(spec, [0] * 6 + [0] * 4)
    plant = replace(case.workload.plant, signals=signals)
    work = {CPU: np.zeros(10, np.int64), "external/jobs": np.zeros(10, np.int64)}
    case = replace(case, workload=replace(case.workload, plant=plant, work=work))
    assert planned(case).hpas["min_sufficient"].to_list() == [0]
    kept = replace(case, periods=(replace(case.periods[0], spec=replace(spec, min_replicas=1)),))
    assert planned(kept).hpas["min_sufficient"].to_list() == [1]


# ---- growths


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("1,", "--growth"),
        ("much", "much"),
        ("1,1.0", "1.0 stands twice"),
        ("0", "without any work"),
        ("-1", "-1"),
        ("1e9", "--growth"),
    ],
)
def test_wrong_growths_are_sentences(text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        growths_of(text)
