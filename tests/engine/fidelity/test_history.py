"""Both scores of whole histories: simulated ones, whose truth is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from benchmarks.exported_run import export_run
from hpabatch.engine.fidelity.run import Fidelity, first_part, split_ms
from hpabatch.engine.fit.pipeline import recording_of
from hpabatch.engine.fit.run import fit
from hpabatch.engine.fit.usage import Usage, observed_usage
from hpabatch.engine.fleet.candidates import SpecPeriod
from hpabatch.engine.fleet.frames import NEVER_MS
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.fleet.plan import plan_replay
from hpabatch.history.reader import History, open_history
from hpabatch.history.store.writer import write_table
from hpabatch.model.plant import (
    DIVISIBLE,
    PER_POD,
    RESOURCE,
    SCALE,
    Event,
    Pipeline,
    Plant,
    Pods,
    Signal,
)
from hpabatch.model.versions import ControllerFlags, profile_for
from hpabatch.packing.workloads import Workload
from tests.engine.closed_loop import (
    START,
    STEP_MS,
)
from tests.engine.scored import fidelity

NAME = "resource/cpu"


SIMULATED = (
    # name, kind of the truth, base, minReplicas, who moves the pods
    ("hpa", DIVISIBLE, 0, 2, "hpa"),
    ("moved", DIVISIBLE, 100, 2, "hand"),
    ("per-pod", PER_POD, 0, 2, "hand"),
    ("pinned", DIVISIBLE, 0, 8, "hpa"),
)
HOURS = 3


def simulated_case(name: str, kind: str, base: int, least: int, mover: str) -> Any:
    """Return hours of a workload, on an HPA or on sizes set by hand every 450 seconds."""
    from hpabatch.engine.simulate.case import SimulationCase
    from tests.engine.simulated import hpa_spec

    rng = np.random.default_rng(len(name))
    t = np.arange(HOURS * 60)
    waves = np.repeat(rng.uniform(0.4, 1.6, size=HOURS * 4), 15) if mover == "hpa" else 1.0
    work = (300 if kind == PER_POD else 3000) * waves * (1 + 0.02 * rng.normal(size=t.size))
    still = {"selectPolicy": "Disabled"}
    quick = {"scaleDown": {"stabilizationWindowSeconds": 300}}
    behavior = {"scaleUp": still, "scaleDown": still} if mover == "hand" else quick
    spec = hpa_spec(60, least, 8 if least == 8 else 40, behavior)
    spec = replace(spec, scale_target_ref=replace(spec.scale_target_ref, name=name))
    plant = Plant({NAME: Signal(kind, base_milli=base, request_milli=500)}, Pods(),
                  {RESOURCE: Pipeline()})  # fmt: skip
    events = tuple(
        Event(START + k * 450_000 + 100_000, SCALE, (6, 12, 8, 10)[k % 4])
        for k in range(HOURS * 8 if mover == "hand" else 0)
    )
    series = {NAME: work.astype(np.int64)}
    return SimulationCase(
        workload=Workload("c1", "shop", name, plant, series, START, 60_000, 8),
        periods=(SpecPeriod(START, NEVER_MS, spec),),
        setting="today",
        start_ms=START,
        period_ms=2 * STEP_MS,
        steps=HOURS * 120,
        flags=ControllerFlags(),
        events=events,
    )  # fmt: skip


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> History:
    run = export_run([simulated_case(*given) for given in SIMULATED], profile_for("1.38"))
    folder = tmp_path_factory.mktemp("simulated")
    for name, frame in run.tables.items():
        write_table(frame, folder / f"{name}.parquet", name)
    return open_history(folder)


def parameters() -> ReplayParameters:
    return ReplayParameters("1.38", phase_ms=0, max_age_ms=60_000)


@pytest.fixture(scope="module")
def both(simulated: History) -> Fidelity:
    return fidelity(simulated, parameters())


@pytest.mark.compiled
def test_simulated_histories_are_scored_by_their_truth(both: Fidelity) -> None:
    rows = {row["hpa"]: row for row in both.hpas.iter_rows(named=True)}
    assert list(rows) == ["hpa", "moved", "per-pod", "pinned"]
    assert rows["hpa"]["controller_explained_share"] > 0.95
    assert rows["hpa"]["controller_agreement_share"] > 0.95
    assert rows["hpa"]["plant_skill"] > 0.4
    assert rows["hpa"]["plant_skill_low"] > 0
    assert rows["hpa"]["why_not"] is None
    assert rows["hpa"]["advice"] is True
    # Moved by hand: the plant is known, the rules have never decided a move.
    assert rows["moved"]["plant_skill"] > 0.6
    assert rows["moved"]["why_not"].startswith("controller: ")
    assert rows["per-pod"]["plant_skill"] < -2
    assert rows["per-pod"]["plant_skill_high"] < 0
    assert "plant (resource/cpu): skill" in rows["per-pod"]["why_not"]
    assert "pods never changed" in rows["pinned"]["plant_unscored"]
    assert rows["pinned"]["controller_unscored"] == "the recorded size never changed"
    assert both.totals.advice == 1
    assert both.totals.plant_scored == 3
    assert both.totals.controller.scored == 3


@pytest.mark.compiled
def test_the_judged_plant_knows_the_first_part_only(simulated: History, both: Fidelity) -> None:
    plan = plan_replay(simulated, parameters())
    found = {row["hpa"]: (row["base"], row["ceiling"]) for row in both.signals.to_dicts()}

    def signal_of(usage: Usage) -> Signal:
        workload = fit(usage, recording_of(plan, usage.candidate)).workload
        assert workload is not None
        return workload.plant.signals[NAME]

    usages = list(observed_usage(plan))
    first = {u.candidate.name: signal_of(first_part(u, split_ms(u, 0.5))) for u in usages}
    assert found == {name: (s.base_milli / 1000, s.ceiling_milli) for name, s in first.items()}
    assert any(first[u.candidate.name] != signal_of(u) for u in usages)


@pytest.mark.compiled
def test_no_score_hangs_on_other_hpas(simulated: History, both: Fidelity) -> None:
    alone = fidelity(
        simulated, parameters(), select=lambda frame: frame.filter(pl.col("hpa") == "moved")
    )
    assert_frame_equal(alone.hpas, both.hpas.filter(pl.col("hpa") == "moved"))
    assert_frame_equal(alone.changes, both.changes.filter(pl.col("hpa") == "moved"))
