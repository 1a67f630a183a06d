"""Default HPAs over real demand: what one sees in their trajectories, as bounds.

Each series is scaled so that its mean keeps ten pods at a target of 60 % busy; requests are 500m,
limits 1000m, a pod takes 30 s to be ready, a sample is 5 s old when it can be seen. The traces are
no part of the project: HPABATCH_TRACES names their folder.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from hpabatch.engine.fit.workload import Workload
from hpabatch.engine.fleet.candidates import SpecPeriod
from hpabatch.engine.fleet.frames import NEVER_MS
from hpabatch.engine.simulate.case import SimulationCase
from hpabatch.engine.simulate.loop import simulate
from hpabatch.layout.records import I64
from hpabatch.model.plant import DIVISIBLE, RESOURCE, Pipeline, Plant, Pods, Signal
from hpabatch.model.versions import ControllerFlags, profile_for
from tests.engine.simulated import hpa_spec
from tests.real.settings import VARIABLE

FILE = Path(os.environ.get(VARIABLE, "") or ".") / "demand.parquet"
pytestmark = [
    pytest.mark.skipif(
        not os.environ.get(VARIABLE), reason=f"{VARIABLE} does not name the folder of the traces"
    ),
    pytest.mark.compiled,
]

SYNC_MS = 15_000
MEAN_PODS = 10
AT_TARGET_MILLI = 300  # what a pod does at 60 % of its request
LOWEST, HIGHEST = 2, 200
SETTINGS: dict[str, Any] = {"absent": None, "default": {}}

SMOOTH = (
    "autothrottle/bursty",
    "autothrottle/diurnal",
    "autothrottle/noisy",
    "nab/ec2_cpu_utilization_825cc2",
    "vasim/alibaba_c_12104",
)
WORLD_CUP, NASA = "worldcup98/rpm", "nasa_http_1995/rpm"
JUMPS = (
    "nab/ec2_cpu_utilization_fe7f93",
    "nab/ec2_cpu_utilization_77c1ca",
    "nab/ec2_cpu_utilization_ac20cd",
    "nab/ec2_cpu_utilization_24ae8d",
    "nab/rds_cpu_utilization_cc0c53",
    "nab/rds_cpu_utilization_e47b3b",
    "nab/cpu_utilization_asg_misconfiguration",
    "nab/elb_request_count_8c0756",
)
ALL = (*SMOOTH, WORLD_CUP, NASA, *JUMPS)


def demand(name: str) -> tuple[I64, int]:
    """Return a series as work in milli, a gap going on as before, and its resolution.

    What is finer than a sync is averaged over one: a step takes its work at its tick.
    """
    rows = pl.read_parquet(FILE).filter(pl.col("series") == name).sort("ts")
    resolution_ms = int(rows["resolution_s"][0]) * 1000
    ts = rows["ts"].to_physical().to_numpy()
    values = rows["value"].fill_null(strategy="forward").fill_null(0).to_numpy()
    series = np.full(int((ts[-1] - ts[0]) // resolution_ms) + 1, -1.0)
    series[(ts - ts[0]) // resolution_ms] = values
    last = np.maximum.accumulate(np.where(series < 0, 0, np.arange(series.size)))
    series = series[last]
    if resolution_ms < SYNC_MS:
        group = SYNC_MS // resolution_ms
        series = series[: series.size // group * group].reshape(-1, group).mean(axis=1)
        resolution_ms = SYNC_MS
    work = series / series.mean() * MEAN_PODS * AT_TARGET_MILLI
    return work.astype(np.int64), resolution_ms


def cases() -> list[SimulationCase]:
    plant = Plant(
        signals={
            "resource/cpu": Signal(
                DIVISIBLE, ceiling_milli=1000, startup_milli=200, request_milli=500
            )
        },
        pods=Pods(startup_ms=((2000, 28_000),)),
        pipelines={RESOURCE: Pipeline(lag_ms=5000, phase_ms=7000)},
        capacity_milli=500,
    )
    found = []
    for name in ALL:
        work, resolution_ms = demand(name)
        workload = Workload(
            "real", name, "web", plant, {"resource/cpu": work}, 0, resolution_ms, MEAN_PODS
        )
        for setting, behavior in SETTINGS.items():
            spec = hpa_spec(60, LOWEST, HIGHEST, behavior)
            found.append(
                SimulationCase(
                    workload=workload,
                    periods=(SpecPeriod(0, NEVER_MS, spec),),
                    setting=setting,
                    start_ms=0,
                    period_ms=SYNC_MS,
                    steps=work.size * resolution_ms // SYNC_MS,
                    flags=ControllerFlags(),
                )
            )
    return found


@cache
def run() -> tuple[dict[tuple[str, str], dict[str, Any]], dict[tuple[str, str], pl.DataFrame]]:
    """Return measures and trajectories by series and setting."""
    result = simulate(cases(), profile_for("1.38"), keep_points=True)
    assert result.points is not None
    rows = {(r["namespace"], r["setting"]): r for r in result.measures.iter_rows(named=True)}
    parts = result.points.partition_by("namespace", "setting", as_dict=True)
    return rows, {(str(n), str(s)): part for (n, s), part in parts.items()}


def measured(name: str, setting: str) -> dict[str, Any]:
    return run()[0][name, setting]


def trajectory(name: str, setting: str) -> pl.DataFrame:
    return run()[1][name, setting]


def column(points: pl.DataFrame, name: str) -> I64:
    return points[name].cast(pl.Int64).to_numpy()


every = pytest.mark.parametrize("name", ALL)
both = pytest.mark.parametrize("setting", SETTINGS)


@every
@both
def test_every_run_is_driven_by_cpu_within_its_bounds(name: str, setting: str) -> None:
    row, points = measured(name, setting), trajectory(name, setting)
    assert row["drivers"] == "cpu 100%"
    assert row["invalid_minutes"] == 0
    assert int(column(points, "replicas").min()) >= LOWEST
    assert int(column(points, "replicas").max()) <= HIGHEST
    assert (points["binding"] == "max").sum() < 40  # ten minutes: none needs 200 pods for long


@every
@both
def test_replicas_follow_the_work(name: str, setting: str) -> None:
    """No fewer pods on average than the target asks for, less the tolerance; and up to twice as
    many: a window keeps the largest wish of five minutes, and two pods are the least.
    """
    row, points = measured(name, setting), trajectory(name, setting)
    wanted = np.maximum(column(points, "work_milli") / AT_TARGET_MILLI, LOWEST).sum() * SYNC_MS
    ratio = row["replica_hours"] * 3_600_000 / wanted
    assert 0.9 < ratio < 2.0, ratio


@pytest.mark.parametrize("name", SMOOTH)
@both
def test_smooth_demand_is_always_served(name: str, setting: str) -> None:
    row = measured(name, setting)
    assert row["saturated_minutes"] == 0
    assert row["tau_u_pct"] < 0.02  # at most the one jump of 825cc2


@every
@both
def test_supply_falls_short_for_minutes_only(name: str, setting: str) -> None:
    """A jump is seen within a sync or two, and over when the pods of some doublings are ready."""
    row = measured(name, setting)
    assert row["tau_u_pct"] < (8 if "elb" in name else 5)
    assert row["saturated_longest_minutes"] <= 4
    if row["episodes"]:
        assert row["reaction_s"] <= 30
        assert 30 <= row["settling_s"] <= 150


@every
def test_nothing_is_given_back_that_was_asked_for_in_the_last_five_minutes(name: str) -> None:
    """Without behavior the largest recommendation of 300 s stands, however slowly demand falls."""
    points = trajectory(name, "absent")
    wished = np.clip(column(points, "proposal"), LOWEST, HIGHEST)
    before, after = column(points, "replicas"), column(points, "desired")
    highest = wished.copy()
    for back in range(1, 300 // 15):
        highest[back:] = np.maximum(highest[back:], wished[:-back])
    down = after < before
    assert (after[down] >= highest[down]).all()


@every
def test_behavior_by_default_costs_what_none_costs(name: str) -> None:
    """The defaults say nearly the same: 4 pods or double, five minutes down."""
    absent, default = measured(name, "absent"), measured(name, "default")
    assert default["replica_hours"] == pytest.approx(absent["replica_hours"], rel=0.05)
    assert default["rescales"] >= 0.95 * absent["rescales"]


# ---- single series


def of_hours(points: pl.DataFrame, first: float, last: float) -> pl.DataFrame:
    ticks = 3_600_000 // SYNC_MS
    return points[round(first * ticks) : round(last * ticks)]


@both
def test_busy_days_of_the_world_cup_stay_near_the_target(setting: str) -> None:
    """From the 40th day on there are many pods and a step of one is small: nothing oscillates."""
    busy = of_hours(trajectory(WORLD_CUP, setting), 970, 1200)
    usage = column(busy, "usage_milli") / 500
    assert ((usage > 0.48) & (usage < 0.72)).mean() > 0.95
    assert (column(busy, "serving") >= column(busy, "demand")).mean() > 0.9999
    reversals = np.diff(np.sign(column(busy, "desired") - column(busy, "replicas")))
    assert (reversals != 0).mean() < 0.05


@both
def test_the_flash_crowd_of_the_world_cup(setting: str) -> None:
    """From one pod's work to that of 70 within minutes: saturated while the size doubles and pods
    start, held for five minutes, given back at once.
    """
    crowd = of_hours(trajectory(WORLD_CUP, setting), 273, 273.5)
    replicas, saturated = column(crowd, "replicas"), column(crowd, "saturated")
    assert (replicas[0], replicas[-1]) == (2, 2)
    assert 60 <= replicas.max() <= 80
    assert 4 <= saturated.sum() <= 24  # up to six minutes in two waves
    steps = replicas[1:][np.diff(replicas) > 0] / replicas[:-1][np.diff(replicas) > 0]
    assert steps.max() <= 4.5  # from two pods four more are more than double
    top = np.flatnonzero(replicas == replicas.max())
    assert 280 <= (top[-1] - top[0] + 1) * 15 <= 700


@both
def test_nasas_minutes_are_noise_that_the_window_rides_out(setting: str) -> None:
    """Counts of a few requests a minute swing by half: the size sits on the crest of five minutes,
    so a pod is at 45 % of its request on average and not at 60 %.
    """
    points = trajectory(NASA, setting)
    usage = column(points, "usage_milli") / 500
    assert 0.35 < usage[column(points, "serving") > LOWEST].mean() < 0.55
    assert 8 < measured(NASA, setting)["rescales"] / 62 / 24 < 20  # an hour


def test_a_window_as_long_as_the_pieces_of_work_makes_a_difference() -> None:
    """Half as much work for one piece of five minutes. Behavior forgets a wish that is 300 s old,
    without it that one still counts: only with behavior pods are given back, one sync before they
    are needed again. Series as coarse as the window show more of this than there is.
    """
    name = "nab/ec2_cpu_utilization_24ae8d"
    absent, default = measured(name, "absent"), measured(name, "default")
    assert default["episodes"] > 10 * absent["episodes"]
    assert default["rescales"] > 1.5 * absent["rescales"]


def test_a_lasting_step_ends_in_one_of_several_sizes_at_rest() -> None:
    """The work of 24 pods: 23 and 25 are both within the tolerance, whichever comes first stays."""
    name = "nab/ec2_cpu_utilization_ac20cd"
    ends = {s: of_hours(trajectory(name, s), 310, 336)["replicas"].unique() for s in SETTINGS}
    assert all(len(sizes) == 1 for sizes in ends.values())
    assert all(22 <= sizes[0] <= 27 for sizes in ends.values())
