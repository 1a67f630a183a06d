"""From a history to simulated settings: a run that is fitted and simulated again comes back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from benchmarks.exported_run import export_run
from hpabatch.engine.fleet.candidates import SpecPeriod
from hpabatch.engine.fleet.frames import ALWAYS_MS, NEVER_MS
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.simulate.case import SimulationCase
from hpabatch.engine.simulate.loop import simulate
from hpabatch.engine.simulate.result import run_loop
from hpabatch.engine.simulate.run import (
    PROPOSED,
    RECORDED,
    Loop,
    LoopOptions,
    prepare_loop,
)
from hpabatch.errors import UsageError
from hpabatch.history.reader import open_history
from hpabatch.history.store.writer import write_table
from hpabatch.inputs.prices import PriceList, Prices
from hpabatch.model.objects.hpa import HPA
from hpabatch.model.plant import DIVISIBLE, RESOURCE, Pipeline, Plant, Pods, Signal
from hpabatch.model.versions import ControllerFlags, profile_for
from hpabatch.packing.workloads import Workload
from tests.kernels.simulations import spec_of

START = 1_760_000_400_000
STEPS = 2400  # ten hours
PROFILE = profile_for("1.38")
SPEC = spec_of(
    {
        "scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"},
        "minReplicas": 2,
        "maxReplicas": 30,
        "metrics": [
            {
                "type": "Resource",
                "resource": {
                    "name": "cpu",
                    "target": {"type": "Utilization", "averageUtilization": 60},
                },
            }
        ],
    }
)

pytestmark = pytest.mark.compiled


def truth() -> SimulationCase:
    t = np.arange(STEPS // 4)
    rng = np.random.default_rng(5)
    wave = 3000 * (1 + 0.6 * np.sin(t / 600 * 12)) * (1 + 0.02 * rng.standard_normal(t.size))
    plant = Plant(
        signals={
            "resource/cpu": Signal(DIVISIBLE, base_milli=100, startup_milli=100, request_milli=500)
        },
        pods=Pods(startup_ms=((1000, 14_000),)),
        pipelines={RESOURCE: Pipeline()},
    )
    workload = Workload(
        cluster="c",
        namespace="shop",
        hpa="web",
        plant=plant,
        work={"resource/cpu": wave.astype(np.int64)},
        work_start_ms=START,
        resolution_ms=60_000,
        initial=10,
    )
    periods = (SpecPeriod(ALWAYS_MS, NEVER_MS, SPEC),)
    return SimulationCase(workload, periods, RECORDED, START, 15_000, STEPS, ControllerFlags())


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    for name, frame in export_run([truth()], PROFILE).tables.items():
        write_table(frame, folder / f"{name}.parquet", name)
    return folder


def looped(history: Path, options: LoopOptions) -> tuple[Loop, pl.DataFrame, pl.DataFrame]:
    parameters = ReplayParameters(k8s="1.38", events="decided", phase_ms=0)
    loop = prepare_loop(open_history(history), parameters, options)
    result = run_loop(loop, options)
    assert result.points is not None
    return loop, result.measures, result.points


KEEP = LoopOptions(keep_points=True)


def test_at_the_passes_of_a_loop_a_run_begins_with_one_and_ticks_as_often(
    history: Path, tmp_path: Path
) -> None:
    """Late passes do not count: ticks come evenly."""
    source = open_history(history)
    for name in source.tables:
        write_table(source.read(name), tmp_path / f"{name}.parquet", name)
    at = START + 7_000 + 20_000 * np.arange(200) + np.where(np.arange(200) % 9 == 4, 900, 0)
    rows = {"cluster": "c", "start": False, "k8s": "v1.38.0", "hpas": 1, "duration_ms": 5}
    ts = pl.Series("ts", at).cast(pl.Datetime("ms", "UTC"))
    frame = pl.DataFrame({"ts": ts}).with_columns(pl.lit(v).alias(k) for k, v in rows.items())
    write_table(
        frame.select("cluster", "ts", pl.exclude("cluster", "ts")),
        tmp_path / "passes.parquet",
        "passes",
    )
    parameters = ReplayParameters(k8s="1.38", events="decided", instants="passes")
    loop = prepare_loop(open_history(tmp_path), parameters, KEEP)
    (case,) = loop.cases
    assert (case.start_ms, case.period_ms, case.steps) == (at[0], 20_000, 200)
    (facts,) = loop.facts.values()
    (sync,) = [fact for fact in facts if fact.name == "sync.period"]
    assert (sync.value, sync.note) == (20.0, "median time between the passes of the live loop")


def test_the_truth_comes_back(history: Path) -> None:
    """Fitted on its own run and simulated again, the workload's sizes are those of the truth."""
    _, measures, points = looped(history, KEEP)
    true = simulate([truth()], PROFILE, keep_points=True).points
    assert true is not None
    both = points.join(true, on="ts", suffix="_true")
    apart = (both["desired"] - both["desired_true"]).abs()
    assert both.height > 0.95 * STEPS
    assert apart.mean() < 0.5  # type: ignore[operator]
    assert apart.max() <= 3  # type: ignore[operator]
    assert measures["elastic_speedup"].to_list() == [1.0]


def test_a_proposal_runs_on_the_same_work(history: Path) -> None:
    calm = replace(SPEC, max_replicas=6)
    proposed = (HPA(name="web", namespace="shop", spec=calm),)
    prices = PriceList(Prices(core_hour=0.5, gib_hour=0.0, pod_hour=0.1, currency="EUR"))
    options = replace(KEEP, manifests=proposed, prices=prices)
    _, measures, points = looped(history, options)
    assert measures["setting"].to_list() == [RECORDED, PROPOSED]
    work = points.partition_by("setting", maintain_order=True)
    assert work[0]["work_milli"].to_list() == work[1]["work_milli"].to_list()
    assert work[1]["desired"].max() == 6
    assert measures["cost"][1] < measures["cost"][0]
    hours = measures["pod_hours"][0]
    assert measures["cost"][0] == pytest.approx(hours * (0.5 * 0.5 + 0.1))
    assert measures["at_max_minutes"][1] > 0


def test_a_run_longer_than_the_work_is_refused(history: Path) -> None:
    with pytest.raises(UsageError, match="needs more work: give a shorter --for"):
        looped(history, replace(KEEP, length_ms=48 * 3_600_000))


def test_settings_cover_the_same_time_and_rivals_are_left_out(history: Path) -> None:
    twice = (
        HPA(name="web", namespace="shop", spec=SPEC),
        HPA(name="other", namespace="shop", spec=SPEC),
    )
    loop, measures, _ = looped(history, replace(KEEP, manifests=twice))
    assert measures["setting"].to_list() == [RECORDED]
    assert any("shares pods with" in skipped.reason for skipped in loop.skipped)
    one, measures, _ = looped(history, replace(KEEP, manifests=twice[:1]))
    spans = {(case.start_ms, case.period_ms, case.steps) for case in one.cases}
    assert len(spans) == 1
    assert measures["regret_pct"].min() >= 0  # type: ignore[operator]
