"""Sweeps and advice in Python: the same as of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

import hpabatch
from hpabatch.api.sweeps import Sweep, open_sweep, recommend, sweep
from hpabatch.engine.advise.request import RecommendRequest
from hpabatch.engine.sweep.request import SweepRequest, SweepToRequest
from hpabatch.errors import UsageError
from hpabatch.history.reader import open_history
from tests.engine.swept import HOUR_MS, cut
from tests.sweeps import SweepMaker, weeks

SLO = "saturated_minutes<10/week"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    maker = SweepMaker([{"target": "75"}])
    calm = [5.0] * 6
    weeks_of = {
        k: weeks([pods] * 6, saturated_minutes=calm) for k, pods in enumerate((100.0, 75.0))
    }
    maker.add("api", weeks_of)
    maker.add("new", weeks_of, controller_answer="wrong", why_not="the settings differ")
    return maker.write(tmp_path / "sweep")


def test_advice_of_a_folder(folder: Path) -> None:
    found = open_sweep(folder)
    advice = found.recommend(SLO, minimize="pod_hours")
    told = "2 HPAs: 1 change, 0 keep, 1 no advice (confidence of the changes: "
    assert advice.verdict.startswith(told)
    assert advice.frame["setting"].to_list() == ["target=75", None]
    assert {"shop.api.yaml", "shop.api.json", "shop.new.json"} <= set(advice.patches)
    assert found.digest in advice.patches["shop.api.yaml"]
    assert (advice.candidates.height, advice.folds.height) == (2, 5)
    request = RecommendRequest(slo=(SLO,), minimize="pod_hours")
    assert_frame_equal(recommend(found, request).table, advice.table)


def test_options_of_advice_are_those_of_the_command(folder: Path) -> None:
    found = open_sweep(folder)
    assert found.recommend(SLO, bound=["target=10"]).table["answer"][0] != "change"
    assert found.recommend(SLO, min_history="20w").table["confidence"].to_list() == ["low", None]
    with pytest.raises(UsageError, match=r"unknown option bounds: did you mean bound\?"):
        found.recommend(SLO, bounds="target=10")  # type: ignore[call-arg]


def test_a_grid_is_written_as_strings_or_as_values() -> None:
    given = {"target": "50:85:5", "scaleDown.window": [60, 300], "max": 9}
    grid = ("target=50:85:5", "scaleDown.window=60,300", "max=9")
    assert SweepRequest.of({"grid": given}) == SweepRequest.of({"grid": grid})
    assert SweepRequest.of({"grid": "max=9"}).grid == ("max=9",)
    with pytest.raises(UsageError, match="grid: expected a value, got none"):
        SweepRequest.of({})


@pytest.mark.compiled
def test_a_sweep_needs_no_folder(tmp_path: Path) -> None:
    history = open_history(cut(tmp_path / "history", "shop/checkout"))
    request = SweepToRequest(grid=("max=+1",), fidelity=False, length_ms=HOUR_MS)
    found = sweep(history, request)
    assert found.verdict.startswith("1 HPA under 2 settings; ")
    kept = sweep(history, request, tmp_path / "sweep")
    assert isinstance(kept, Sweep)
    assert kept.frame["hpa"].to_list() == ["checkout"]
    assert_frame_equal(kept.results, found.results)
    assert_frame_equal(open_sweep(tmp_path / "sweep").results, found.results)
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []
    assert kept.trajectories("checkout", [1]).height == 240


@pytest.mark.compiled
def test_a_grid_is_advised_on_with_all_options(tmp_path: Path) -> None:
    recorded = hpabatch.open(cut(tmp_path / "history", "shop/checkout"))
    found = recorded.recommend("max=+1", length="1h", slo=SLO, accept="low")
    assert found.table["answer"].to_list() == ["no advice"]
    assert found.table["reasons"][0].startswith("too few blocks of time: 1")
    assert found.found.options.accept == "low"
    assert_frame_equal(
        recorded.sweep("max=+1", length="1h").recommend(SLO, accept="low").table, found.table
    )
