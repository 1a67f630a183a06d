"""Simulations through a lens, of sources whose controllers saw usage through a known one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from benchmarks.answers_record import K8S, SYNC_MS
from benchmarks.lens_loop import CEILING, bases_held, history_of, reproduced, simulated
from benchmarks.lens_truth import MAX_AGE_MS, NEVER, Tables, run, without_last_metric, write
from benchmarks.truth_fleet import CPU, FleetOptions, Truth, make_fleet
from hpabatch.engine.fidelity import lens as estimating
from hpabatch.engine.fidelity.lens import seen_through
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.fleet.plan import plan_replay, with_lenses
from hpabatch.engine.replay.run import join_results, replay_shards
from hpabatch.engine.simulate.run import Loop, LoopOptions
from hpabatch.engine.sweep.run import SweepOptions, plan_sweep, prepare_part, run_part
from hpabatch.history.base import History
from hpabatch.history.reader import open_history
from hpabatch.history.schema import empty_frame
from hpabatch.inputs.grid import read_grids
from hpabatch.inputs.lenses import Lens
from hpabatch.model.plant import CUSTOM, RESOURCE, Pipeline, signal_name
from hpabatch.model.settings.policy_sets import SHIPPED
from tests.engine.scored import fidelity

pytestmark = pytest.mark.compiled

LATER = Lens(CPU, None, 60_000, 120_000, 0.8)
LATE = Lens(CPU, None, -60_000, 0, 1.2)
FLEET: Sequence[Truth] = make_fleet(FleetOptions(hpas=6, weeks=1, seed=7, sample_ms=SYNC_MS))
PARAMETERS = ReplayParameters(K8S, events="decided")


@pytest.fixture(scope="module")
def later(tmp_path_factory: pytest.TempPathFactory) -> History:
    """A recording in time, of a controller that sees means of less, later."""
    return open_history(history_of(FLEET, LATER, 7, tmp_path_factory.mktemp("later") / "history"))


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> History:
    """A recording that is late, of a controller that sees more."""
    return open_history(history_of(FLEET, LATE, 7, tmp_path_factory.mktemp("late") / "history"))


def values_of(loop: Loop, name: str) -> list[float | None]:
    return [f.value for facts in loop.facts.values() for f in facts if f.name.endswith(name)]


def file_of(lens: Lens, folder: Path) -> str:
    times = f"lag: {lens.lag_ms // 1000}s, smoothing: {lens.smoothing_ms // 1000}s"
    place = folder / "lens.yaml"
    place.write_text(f"- {{signal: {lens.signal}, {times}, scale: {lens.scale}}}\n")
    return str(place)


def test_a_simulation_through_the_estimated_lens_is_like_the_recording(later: History) -> None:
    plain, points = simulated(later, "none")
    seen, through = simulated(later, "auto")
    raw, better = reproduced(later, points), reproduced(later, through)
    assert better["error"] < 0.5 * raw["error"], (raw, better, seen.evidence["lens"])
    assert better["within_1"] > 0.97
    assert abs(better["hours"] - 1) < 0.5 * abs(raw["hours"] - 1)
    # What pods did is what it is: what they ask for, and (within its interval) base. Their limit is
    # in the controller's units: recorded usage reaches it where what the controller sees does.
    limits = values_of(plain, CEILING)
    assert limits
    assert np.array(values_of(seen, CEILING)) * LATER.scale == pytest.approx(limits, rel=0.02)
    assert [c.requested for c in seen.cases] == [c.requested for c in plain.cases]
    held, known = bases_held(seen, FLEET)
    assert known > 0
    assert held >= known - 1


def test_late_samples_are_fitted_at_the_time_of_their_usage(late: History, tmp_path: Path) -> None:
    """The base is hidden where pods come a minute before what is recorded of them."""
    plain, _ = simulated(late, "none")
    seen, _ = simulated(late, file_of(LATE, tmp_path))
    (_, known), (held, more) = bases_held(plain, FLEET), bases_held(seen, FLEET)
    assert held >= more - 1
    assert more >= known
    for case in seen.cases:
        plant = case.workload.plant
        assert plant.pipeline_of(plant.signals[CPU]).lag_ms == plant.pipelines[RESOURCE].lag_ms


def test_a_lens_without_effect_changes_no_byte(later: History, tmp_path: Path) -> None:
    _, points = simulated(later, "none")
    _, same = simulated(later, file_of(Lens(CPU), tmp_path))
    assert_frame_equal(points, same, check_exact=True)


def recorded_raw(tables: Tables) -> Tables:
    """Return the tables with the pods' own samples, which no controller needs, as usage."""
    sharp = tables.pop("pod_custom_metrics").select("uid", "ts", "value_milli")
    pods = tables["pod_metrics"].unique("uid", keep="first", maintain_order=True)
    rows = pods.drop("ts", "cpu_milli", "window_ms", "fetched_at").join(
        sharp.rename({"value_milli": "cpu_milli"}), on="uid", maintain_order="left"
    )
    rows = rows.with_columns(
        window_ms=pl.lit(SYNC_MS, dtype=pl.Int64),
        fetched_at=pl.lit(None, dtype=pl.Datetime("ms", "UTC")),
    )
    usage = {"pod_metrics": rows.select(empty_frame("pod_metrics").columns)}
    return without_last_metric(tables | usage)


@pytest.mark.parametrize(
    ("lens", "least"),
    [
        (Lens(CPU, None, 30_000, 0, 1.3), 0.9998),  # (pods that go meanwhile)
        (Lens(CPU, None, 15_000, 0, 0.7), 0.9998),
        (Lens(CPU, None, 30_000, 60_000, 1.1), 0.995),
    ],
)
def test_a_replay_through_a_lens_decides_what_was_simulated_through_it(
    lens: Lens, least: float, tmp_path: Path
) -> None:
    """Of means a replay knows samples alone, a simulation all of the time between them."""
    name = signal_name(NEVER)
    pipeline = Pipeline(window_ms=SYNC_MS, max_age_ms=MAX_AGE_MS)

    def through(truth: Truth) -> Truth:
        workload = truth.workload
        signal = workload.plant.signals[CPU]
        plant = replace(
            workload.plant,
            signals={CPU: replace(signal, sight=lens.sight), name: replace(signal, api=CUSTOM)},
            pipelines={RESOURCE: pipeline, CUSTOM: pipeline},
        )
        work = {CPU: workload.work[CPU], name: workload.work[CPU]}
        spec = replace(truth.spec, metrics=(*truth.spec.metrics, NEVER))
        return replace(truth, spec=spec, workload=replace(workload, plant=plant, work=work))

    tables = recorded_raw(run([through(t) for t in FLEET[:3]], 7))
    history = open_history(write(tables, tmp_path / "history"))
    parameters = replace(PARAMETERS, sync_period_ms=SYNC_MS, phase_ms=0, max_age_ms=MAX_AGE_MS)

    def agreement(*lenses: Lens) -> float:
        plan = with_lenses(plan_replay(history, parameters), lenses)
        found = join_results(plan, list(replay_shards(plan, range(len(plan.shards))))).decisions
        decided = found.filter(pl.col("ts") > pl.col("ts").min() + pl.duration(minutes=5))
        sizes = decided.sort("hpa", "ts").with_columns(
            after=pl.col("replicas").shift(-1).over("hpa")
        )
        return float(sizes.select((pl.col("after") == pl.col("desired")).mean()).item())

    assert agreement(lens) >= least > agreement() + 0.002


def test_a_sweep_simulates_today_as_simulate_does(later: History, tmp_path: Path) -> None:
    lens = file_of(LATER, tmp_path)
    loop, points = simulated(later, lens)
    options = SweepOptions(read_grids(["target=x0.9"], SHIPPED), SHIPPED, (), LoopOptions())
    sweep = plan_sweep(later, PARAMETERS, options, see=seen_through(lens))
    assert sweep.evidence["lens"] == loop.evidence["lens"] == str(LATER)
    part = prepare_part(sweep, 0, scored=True)
    results, _ = run_part(sweep, part, 0, 1)
    today = results.select("hpa", "replica_hours").sort("hpa")
    hours = points.group_by("hpa").agg(pl.col("desired").sum() * SYNC_MS / 3_600_000).sort("hpa")
    assert today["replica_hours"].to_list() == pytest.approx(hours["desired"].to_list(), rel=0.002)
    plain = prepare_part(plan_sweep(later, PARAMETERS, options), 0, scored=True)
    of_plants = [n for n in part.scores.columns if n.startswith("plant_")]
    assert_frame_equal(part.scores.select(of_plants), plain.scores.select(of_plants))
    answers = [s["controller_answer"].to_list().count("right") for s in (part.scores, plain.scores)]
    assert answers[0] > answers[1]


def test_a_ratio_alone_is_told_and_applied_if_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All targets are 60 %: less usage that is seen is as good as higher targets."""

    def alike(truth: Truth) -> Truth:
        (metric,) = truth.spec.metrics
        assert metric.resource is not None
        target = replace(metric.resource.target, average_utilization=60)
        metric = replace(metric, resource=replace(metric.resource, target=target))
        return replace(truth, spec=replace(truth.spec, metrics=(metric,)))

    fleet = [alike(truth) for truth in FLEET[:4]]
    place = history_of(fleet, Lens(CPU, None, 0, 0, 0.75), 7, tmp_path / "history", days=1)
    history = open_history(place)
    found = estimating.estimate_lenses(plan_replay(history, PARAMETERS))
    monkeypatch.setattr(estimating, "estimate_lenses", lambda *_: found)
    options = SweepOptions(read_grids(["target=x0.9"], SHIPPED), SHIPPED, (), LoopOptions())
    sweep = plan_sweep(history, PARAMETERS, options, see=seen_through("auto"))
    (ratio,) = sweep.plan.ratios
    assert ratio.signal == CPU
    assert ratio.scale == pytest.approx(0.75, rel=0.02)
    assert all(seen.scale == 1 for seen in sweep.plan.lenses)
    told = f"proof: {CPU} scale {ratio.scale:g}, as if the target were {60 / ratio.scale:.0f} "
    assert sweep.evidence["ratio"].startswith(f"{told}instead of 60, or requests ")
    assert sweep.evidence["ratio"].endswith(" % (not applied; --lens ratio applies it)")
    (note,) = [note for note in sweep.notes if "relative to today's target" in note]
    assert told in note
    applied = plan_sweep(history, PARAMETERS, options, see=seen_through("ratio"))
    assert applied.plan.ratios == (ratio,)
    assert [seen.scale for seen in applied.plan.lenses] == [ratio.scale]
    assert applied.evidence["ratio"].endswith(" % (applied)")
    (note,) = [note for note in applied.notes if "relative to today's target" in note]
    assert told in note


def test_plants_are_scored_as_they_are_simulated(late: History, tmp_path: Path) -> None:
    """On samples at the time of their usage, both by `fidelity` and by a sweep."""
    lens = file_of(LATE, tmp_path)
    options = SweepOptions(read_grids(["target=x0.9"], SHIPPED), SHIPPED, (), LoopOptions())
    sweep = plan_sweep(late, PARAMETERS, options, see=seen_through(lens))
    swept = prepare_part(sweep, 0, scored=True).scores
    ways = (seen_through(way) for way in (lens, "none"))
    seen, plain = (fidelity(late, PARAMETERS, see=way).hpas for way in ways)
    assert_frame_equal(swept, seen.select(swept.columns))
    skills = [frame["plant_skill"].drop_nulls() for frame in (seen, plain)]
    assert len(skills[0]) >= len(skills[1])
    assert skills[0].sum() > skills[1].sum()
