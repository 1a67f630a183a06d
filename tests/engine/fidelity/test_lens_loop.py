"""Simulations through a lens, of sources whose controllers saw usage through a known one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.answers_truth import K8S, SYNC_MS
from benchmarks.lens_loop import history_of
from benchmarks.truth_fleet import CPU, FleetOptions, Truth, make_fleet
from hpabatch.engine.fidelity import lens as estimating
from hpabatch.engine.fidelity.lens import seen_through, through_lens
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.fleet.plan import plan_replay
from hpabatch.engine.simulate.run import LoopOptions
from hpabatch.engine.sweep.run import SweepOptions, plan_sweep
from hpabatch.history.reader import open_history
from hpabatch.inputs.grid import read_grids
from hpabatch.inputs.lenses import Lens
from hpabatch.model.settings.fields import SHIPPED
from hpabatch.report.lens import lens_lines

pytestmark = pytest.mark.compiled

FLEET: Sequence[Truth] = make_fleet(FleetOptions(hpas=6, weeks=1, seed=7, sample_ms=SYNC_MS))
PARAMETERS = ReplayParameters(K8S, events="decided")


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
    monkeypatch.setattr(estimating, "FEWEST_SHARING", 5)
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
    # One that most HPAs share is applied unasked.
    monkeypatch.undo()
    shared, estimates = through_lens(plan_replay(history, PARAMETERS), "auto")
    assert [seen.scale for seen in shared.lenses] == [ratio.scale]
    assert shared.evidence["ratio"].endswith(" % (applied)")
    (seen, *_) = [line for line in lens_lines(estimates) if line.startswith("  - ")]
    assert f"scale: {ratio.scale:g}" in seen
