"""Running settings of a sweep again, for every tick of them: only of what was swept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from hpabatch.engine.advise.specs import settings_of
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.simulate.result import run_loop
from hpabatch.engine.simulate.run import LoopOptions, prepare_loop
from hpabatch.engine.sweep.request import SweepRequest
from hpabatch.engine.sweep.result import SweepResult
from hpabatch.engine.sweep.run import plan_request
from hpabatch.errors import HistoryError, UsageError
from hpabatch.history.reader import open_history
from hpabatch.jobs.publish import Destination
from hpabatch.jobs.sweep import SweepJob, sweep_to_disk, trajectories
from hpabatch.model.objects.hpa import HPA
from tests.cli.histories import edit
from tests.engine.swept import HOUR_MS, cut, only

pytestmark = pytest.mark.compiled

CHECKOUT = ("demo", "shop", "checkout")


def run(history: Path, out: Path, *grids: str, **more: Any) -> SweepResult:
    """Sweep two hours without scores."""
    request = SweepRequest(grid=grids, fidelity=False, length_ms=2 * HOUR_MS, **more)
    plan = plan_request(open_history(history, "replay"), request)
    return sweep_to_disk(SweepJob(request, plan, Destination(out, is_folder=True)))


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Hold three HPAs; no sample of the first one's pods is known."""
    names = ("ingest/enricher", "shop/catalog", "shop/checkout")
    return cut(tmp_path_factory.mktemp("trajectories") / "history", *names)


@pytest.fixture(scope="module")
def result(history: Path) -> SweepResult:
    return run(history, history.with_name("sweep"), "max=+1,+2", "target=70,200m")


def test_trajectories_are_those_of_simulate(history: Path, result: SweepResult) -> None:
    plan = prepare_loop(
        open_history(history), ReplayParameters(), LoopOptions(), only("shop/checkout")
    ).plan
    today = plan.chosen[0].spec
    specs = {"today": today, "target=70 max=+2": spec_of(result, today, 2)}
    assert result.settings["setting"][2] == "target=70 max=+2"
    found = trajectories(result, CHECKOUT, [2, 0])
    assert found["setting"].unique(maintain_order=True).to_list() == list(reversed(specs))
    for name, spec in specs.items():
        options = LoopOptions(
            manifests=(HPA("checkout", "shop", spec=spec),), length_ms=2 * HOUR_MS, keep_points=True
        )
        loop = prepare_loop(
            open_history(history), ReplayParameters(), options, only("shop/checkout")
        )
        points = run_loop(loop, options).points
        assert points is not None
        other = points.filter(setting="proposed").drop("setting")
        assert_frame_equal(found.filter(setting=name).drop("setting"), other)


def spec_of(result: SweepResult, spec: Any, setting_id: int) -> Any:
    row = result.settings.row(setting_id, named=True)
    values = {n: v for n, v in row.items() if v is not None and n in result.parameters["fields"]}
    return settings_of(result)(values, spec)


@pytest.mark.parametrize(
    ("key", "ids", "told"),
    [
        (("demo", "shop", "nobody"), [0], "demo/shop/nobody: there is no such HPA in the sweep"),
        (("demo", "ingest", "enricher"), [0], "there is no such HPA in the sweep"),
        (CHECKOUT, [0, 5], "setting 5: the sweep has settings 0 to 4"),
        (CHECKOUT, [-1], "setting -1: the sweep has settings 0 to 4"),
    ],
)
def test_trajectories_of_what_is_not_there(
    result: SweepResult, key: tuple[str, str, str], ids: list[int], told: str
) -> None:
    with pytest.raises(UsageError, match=told):
        trajectories(result, key, ids)


def test_trajectories_of_a_setting_that_does_not_fit(result: SweepResult) -> None:
    told = r"setting 1 \(target=70 max=\+1\) does not fit demo/shop/catalog"
    with pytest.raises(UsageError, match=told):
        trajectories(result, ("demo", "shop", "catalog"), [0, 1])
    found = trajectories(result, ("demo", "shop", "catalog"), [3])
    assert set(found["hpa"]) == {"catalog"}


CHANGES: dict[str, Callable[[Path], Any]] = {
    "pod_metrics": lambda history: edit(history, "pod_metrics", cpu_milli=pl.col("cpu_milli") + 1),
    "controller": lambda history: (history / "controller.parquet").unlink(),
    "plant.yaml": lambda history: (history.parent / "plant.yaml").write_text(
        "- capacity: 70% of request\n"
    ),
}


@pytest.mark.parametrize("what", list(CHANGES))
def test_trajectories_of_a_history_that_has_changed(tmp_path: Path, what: str) -> None:
    history = cut(tmp_path / "history", "shop/checkout")
    plant = tmp_path / "plant.yaml"
    plant.write_text("- capacity: 80% of request\n")
    result = run(history, tmp_path / "sweep", "max=+1", plant=(str(plant),))
    assert trajectories(result, CHECKOUT, [0]).height == 480
    CHANGES[what](history)
    with pytest.raises(HistoryError, match=rf"has changed \(.*{what}.*\): sweep again"):
        trajectories(result, CHECKOUT, [0])


def test_a_sweep_of_relative_places_says_where_it_can_be_run_again(
    tmp_path: Path, result: SweepResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The history may be named; files that were given beside it must be there."""
    monkeypatch.chdir(tmp_path)
    told = {**result.parameters["request"], "history": "here", "plant": ["plant.yaml"]}
    other = replace(result, parameters={**result.parameters, "request": told})
    with pytest.raises(HistoryError, match=r"here, plant\.yaml as the sweep names them"):
        trajectories(other, CHECKOUT, [0])
    swept = open_history(result.parameters["request"]["history"])
    with pytest.raises(HistoryError, match=r"expected plant\.yaml as the sweep names"):
        trajectories(other, CHECKOUT, [0], swept)
