"""From a history to plants: an exported run is fitted without knowing the plant that made it."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.exported_run import export_run
from hpabatch.engine.fit.run import Fit, fit_history
from hpabatch.engine.fit.workload import FITTED, RECORDED
from hpabatch.engine.fleet.candidates import SpecPeriod
from hpabatch.engine.fleet.frames import ALWAYS_MS, NEVER_MS
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.fleet.plan import ReplayPlan, plan_replay
from hpabatch.engine.simulate.case import SimulationCase
from hpabatch.errors import HistoryError
from hpabatch.history.reader import open_history
from hpabatch.history.store.writer import write_table
from hpabatch.model.plant import AGE, DIVISIBLE, Pipeline, Plant, Pods, Signal
from hpabatch.model.versions import ControllerFlags, profile_for
from hpabatch.packing.workloads import Workload
from tests.cli.histories import last_day
from tests.effort import effort
from tests.engine import naive_align as naive
from tests.engine.closed_loop import CPU, MEMORY, START, STEP_MS, demand, spec_of
from tests.engine.small_history import STEP, histories, write_pieces

PROFILE = profile_for("1.38")
CEILING = 900
BASE = 120
STEPS = 1440  # six hours
STARTUP = ((1_000, 20_000), (2_000, 30_000), (3_000, 45_000))


def case() -> SimulationCase:
    """Return a workload of which everything is known."""
    rng = np.random.default_rng(5)
    work = np.rint(demand(rng, STEPS, bursts=False)).astype(np.int64)
    # Six hours have few changes: a faster day.
    work += np.rint(1500 * np.sin(np.arange(STEPS) / 25)).astype(np.int64)
    plant = Plant(
        signals={
            "resource/cpu": Signal(
                DIVISIBLE,
                base_milli=BASE,
                ceiling_milli=CEILING,
                startup_milli=700,
                request_milli=1000,
            ),
            "resource/memory": Signal(
                AGE,
                base_milli=200 * 10**9,
                growth_milli_per_hour=5 * 10**9,
                request_milli=10**12,
                unit_milli=1000,
            ),
        },
        pods=Pods(startup_ms=STARTUP, termination_ms=20_000, failure_at_ms=(10 * 3_600_000,)),
        pipelines={"resource": Pipeline(phase_ms=4_000, lag_ms=2_000)},
        capacity_milli=400,
    )
    workload = Workload("c1", "shop", "web", plant, {"resource/cpu": work}, START, STEP_MS, 8)
    return SimulationCase(
        workload=workload,
        periods=(SpecPeriod(ALWAYS_MS, NEVER_MS, spec_of([CPU, MEMORY])),),
        setting="today",
        start_ms=START,
        period_ms=STEP_MS,
        steps=STEPS,
        flags=ControllerFlags(),
    )


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[SimulationCase, Fit]:
    """Return a simulated case and what is fitted to its export."""
    made = case()
    folder = tmp_path_factory.mktemp("exported")
    for name, frame in export_run([made], PROFILE).tables.items():
        if frame.height:
            write_table(frame, folder / f"{name}.parquet", name)
    plan = plan_replay(open_history(folder, "replay"), ReplayParameters("1.38"))
    (found,) = fit_history(plan)
    return made, found


@pytest.mark.compiled
def test_the_plant_is_recovered(exported: tuple[SimulationCase, Fit]) -> None:
    made, found = exported
    assert found.problems == ()
    assert found.workload is not None
    plant, true = found.workload.plant, made.workload.plant
    base = found.fact("signals.resource/cpu.base")
    assert base is not None
    assert base.source == FITTED
    assert base.low is not None
    assert base.high is not None
    assert base.low < BASE / 1000 < base.high
    cpu, memory = plant.signals["resource/cpu"], plant.signals["resource/memory"]
    assert cpu.request_milli == 1000
    assert cpu.startup_milli == pytest.approx(700, abs=2)
    assert memory.base_milli == pytest.approx(200e9, rel=1e-3)
    assert memory.growth_milli_per_hour == pytest.approx(5e9, rel=1e-3)
    assert plant.pods.termination_ms == 20_000
    assert plant.pods.removal == true.pods.removal
    assert len(plant.pods.failure_at_ms) == 1
    assert plant.pods.failure_at_ms[0] == pytest.approx(10 * 3_600_000, rel=0.02)
    assert plant.pods.restart_ms == pytest.approx(30_000, abs=1000)
    period = found.fact("sync.period")
    assert period is not None
    assert period.value == pytest.approx(STEP_MS / 1000)


@pytest.mark.compiled
def test_start_up_is_recovered_in_both_parts(exported: tuple[SimulationCase, Fit]) -> None:
    _, found = exported
    assert found.workload is not None
    pairs = found.workload.plant.pods.startup_ms
    assert {starting for _, starting in pairs} <= {s for _, s in STARTUP}
    # Times of pods are whole seconds, and a pod's creation is half a second after the decision.
    for scheduling, starting in pairs:
        expected = {s: p for p, s in STARTUP}[starting]
        assert abs(scheduling - expected) <= 500
    startup = found.fact("pods.startup")
    assert startup is not None
    assert startup.source == RECORDED


@pytest.mark.compiled
def test_the_pipeline_is_recovered(exported: tuple[SimulationCase, Fit]) -> None:
    _, found = exported
    assert found.workload is not None
    pipeline = found.workload.plant.pipelines["resource"]
    assert (pipeline.interval_ms, pipeline.window_ms, pipeline.phase_ms) == (15_000, 15_000, 4_000)
    # Of an export only the tick that saw a sample is known, not when it arrived.
    assert pipeline.lag_ms == 11_000
    assert pipeline.first_sample_ms == pytest.approx(15_000, abs=8_000)


@pytest.mark.compiled
def test_the_work_is_recovered(exported: tuple[SimulationCase, Fit]) -> None:
    made, found = exported
    assert found.workload is not None
    work, fitted = made.workload.work["resource/cpu"], found.workload.work["resource/cpu"]
    # A scrape at second 4 sees 11 s of the piece before and 4 s of its own.
    seen = (11 * work[:-1] + 4 * work[1:]) / 15
    at = (START - found.workload.work_start_ms) // STEP_MS + 1
    rest = fitted[at : at + 1400] - seen[:1400]
    assert np.median(np.abs(rest)) / work.mean() < 0.05
    assert found.gaps == {"resource/cpu": (), "resource/memory": ()}


# ---- shards --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def demo() -> ReplayPlan:
    history = open_history(last_day(), "replay")
    chosen = ReplayParameters("1.38")
    return plan_replay(history, chosen, select=lambda f: f.filter(f["namespace"] == "batch"))


@pytest.mark.compiled
def test_shards_change_nothing(demo: ReplayPlan) -> None:
    count = len(demo.chosen)
    assert len(demo.shards) == 1
    alone = replace(demo, shards=tuple((k, k + 1) for k in range(count)))
    one, other = list(fit_history(demo)), list(fit_history(alone))
    assert [f.facts for f in one] == [f.facts for f in other]
    for first, second in zip(one, other, strict=True):
        assert (first.workload is None) == (second.workload is None)
        if first.workload is not None and second.workload is not None:
            assert first.workload.plant == second.workload.plant
            for name, work in first.workload.work.items():
                np.testing.assert_array_equal(work, second.workload.work[name])


@given(tables=histories(), block=st.sampled_from([1, 3]))
@settings(max_examples=effort(8))
def test_any_history_is_told_of_without_an_exception(tables: naive.Tables, block: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        history = open_history(write_pieces(tables, Path(folder), block))
        try:
            plan = plan_replay(history, ReplayParameters("1.38", sync_period_ms=STEP))
        except HistoryError:
            return
        found = list(fit_history(plan))
    assert [f.candidate for f in found] == list(plan.chosen)
    for told in found:
        assert (told.workload is None) == bool(told.problems)
        for known in told.facts:
            assert all(v is None or np.isfinite(v) for v in (known.value, known.low, known.high))
        if told.workload is not None:
            for name, work in told.workload.work.items():
                assert (work >= 0).all()
                assert work.dtype == np.int64
                assert told.censored[name].shape == work.shape
