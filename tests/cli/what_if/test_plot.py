"""`hpabatch plot` at the command line: files, notes, exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import hpabatch
from hpabatch.cli import plot_pictures
from hpabatch.errors import HistoryError
from tests.cli.commands import Done, Run, runner
from tests.report.pictured import came_to, maker
from tests.report.pictures.test_draw import trajectory
from tests.sweeps import SweepMaker, Values, weeks


@pytest.fixture
def run(
    capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Run:
    monkeypatch.chdir(tmp_path)
    return runner("plot", capsysbinary, monkeypatch)


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    return made(tmp_path / "sweep", ("api", "web"))


def made(folder: Path, hpas: tuple[str, ...], unit: str | None = None) -> Path:
    sweep = maker()
    for hpa in hpas:
        sweep.add(hpa, {k: came_to(s) for k, s in enumerate(sweep.settings)}, unit=unit)
    return sweep.write(folder)


def named(done: Done) -> list[str]:
    """Return the names of the files that stdout names, once they are there."""
    paths = [Path(line) for line in done.lines]
    assert all(path.is_file() for path in paths)
    return [path.name for path in paths]


def test_nothing_asked_is_the_front_of_every_unit(run: Run, sweep: Path) -> None:
    done = run(sweep)
    assert (done.code, done.stderr) == (0, "")
    assert done.lines == ["pictures/front-shop.api.svg", "pictures/front-shop.web.svg"]
    assert named(done)


def test_what_is_asked_for_is_drawn_in_the_form_and_place_asked_for(run: Run, sweep: Path) -> None:
    asked = ("--front", "--heatmap", "target,scaleDown.window", "--heatmap")
    done = run(
        sweep, *asked, "target,scaleUp.policies", "shop/web", "--out", "a/b", "--format",
        "png", "--measure", "pod_hours,rescales",
    )  # fmt: skip
    assert done.code == 0
    assert named(done) == [
        "front-shop.web.png",
        "heatmap-shop.web-target-scaleDown.window.png",
        "heatmap-shop.web-target-scaleUp.policies.png",
    ]
    assert all(line.startswith("a/b/") for line in done.lines)


def test_a_group_and_one_of_its_hpas(run: Run, tmp_path: Path) -> None:
    sweep = made(tmp_path / "grouped", ("api", "web"), "tier=web")
    done = run(sweep, "--unit", "tier=web", "shop/web")
    assert named(done) == ["front-tier=web.svg", "front-shop.web.svg"]


def test_of_many_units_the_largest_are_drawn_and_that_is_said(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plot_pictures, "MOST_UNITS", 2)
    many = SweepMaker([{"target": "70"}])
    for k in range(4):
        lots = {s: weeks([100.0 - k - s], saturated_minutes=[float(s)]) for s in (0, 1)}
        many.add(f"hpa{k:02}", lots)
    done = run(many.write(tmp_path / "many"))
    assert done.code == 0
    assert named(done) == [f"front-shop.hpa{k:02}.svg" for k in range(2)]
    assert "only the 2 units with the most pod-hours of 4 are drawn" in done.stderr


def test_what_is_recommended_is_marked_and_why_not_is_told(run: Run, tmp_path: Path) -> None:
    swept = maker()
    swept.add("api", {k: came_to(s) for k, s in enumerate(swept.settings)})
    wrong: dict[str, Any] = {"controller_answer": "wrong"}
    wrong["why_not"] = "controller: the settings differ"
    swept.add("old", {k: came_to(s) for k, s in enumerate(swept.settings)}, **wrong)
    done = run(swept.write(tmp_path / "s"), "--slo", "saturated_minutes<20/week")
    assert done.code == 0
    assert "note: shop/old: no setting is recommended: fidelity: controller" in done.stderr
    assert "shop/api" not in done.stderr
    assert len(named(done)) == 2
    marked = (tmp_path / "pictures/front-shop.api.svg").read_bytes()
    plain = run(tmp_path / "s", "shop/api", "--out", "plain")
    assert marked != Path(plain.lines[0]).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--heatmap", "target,max"), "max is no field of this sweep"),
        (("--heatmap", "target"), "give two fields"),
        (("--heatmap", "target,scaledown.windo"), "did you mean scaleDown.window"),
        (("--measure", "pod_hours,saturated_minute"), "did you mean saturated_minutes"),
        (("--heatmap", "target,max"), "fields are target, scaleDown.window, scaleUp.policies"),
        (("--unit", "nobody"), "no such unit (it has shop/api, shop/web)"),
        (("shop/nobody",), "no such HPA (it has shop/api, shop/web)"),
        (("--timeline", "shop/nobody", "--setting", "1"), "--timeline shop/nobody: the sweep has"),
        (("--timeline", "shop/api"), "which setting beside today's?"),
        (("--setting", "99"), "the sweep has settings 0 to 16"),
        (("--setting", "target=99"), "no such setting"),
        (("--setting", "nothing"), "'nothing' is not FIELD=VALUE"),
        (("--measure", "pod_hours"), "give two"),
        (("--slo", "saturated_minutes<10"), "per what?"),
        (("--for", "6h"), "--for is for timelines"),
        (("--from", "soon"), "--from: expected a time"),
        (("--out", "sweep/sweep.json"), "is a file; name a folder"),
        (("--out", "s3://here/there"), "a local folder"),
    ],
)
def test_what_cannot_be_is_said_and_nothing_is_written(
    run: Run, sweep: Path, arguments: tuple[str, ...], told: str
) -> None:
    done = run(sweep, *arguments)
    assert done.code == 2
    assert told in done.stderr
    assert done.stderr.startswith("error: ")
    assert not Path("pictures").exists()


def test_a_folder_of_advice_is_its_sweep(run: Run, sweep: Path, tmp_path: Path) -> None:
    advice = tmp_path / "advice"
    advice.mkdir()
    (advice / "advice.json").write_text("{}")
    sweep.rename(advice / "sweep")
    assert run(advice, "shop/api", "--front").code == 0


def test_no_sweep_and_one_setting_only(run: Run, tmp_path: Path) -> None:
    done = run(tmp_path / "nowhere")
    assert done.code == 2
    assert "is not the folder of a sweep" in done.stderr
    one = SweepMaker([]).add("api", {0: weeks([1.0, 2.0])}).write(tmp_path / "one")
    done = run(one)
    assert done.code == 3
    assert "today's setting only" in done.stderr


def test_units_that_cannot_be_drawn_are_named_and_the_others_drawn(
    run: Run, tmp_path: Path
) -> None:
    made = SweepMaker([{"target": "70"}])
    good = {k: weeks([10.0 - k], saturated_minutes=[float(k)]) for k in (0, 1)}
    null: dict[int, Values] = {
        k: {"pod_hours": [10.0], "saturated_minutes": [None]} for k in (0, 1)
    }
    folder = made.add("api", good).add("web", null).write(tmp_path / "s")
    done = run(folder, "--measure", "pod_hours,saturated_minutes")
    assert done.code == 3
    assert named(done) == ["front-shop.api.svg"]
    assert "not drawn: shop/web: saturated_minutes is not known of it" in done.stderr
    done = run(folder, "--measure", "pod_hours,saturated_minutes", "shop/web")
    assert done.code == 3
    assert done.stderr.startswith("error: shop/web: saturated_minutes is not known")
    assert not done.lines


# ---- timelines ----------------------------------------------------------------------------------


def asked(monkeypatch: pytest.MonkeyPatch, folder: Path, points: pl.DataFrame) -> list[list[int]]:
    """Stand in for the simulation; return what it was asked for."""
    import json

    calls: list[list[int]] = []
    monkeypatch.setattr("hpabatch._code.has_compiled", lambda name: True)

    def trajectories(_: object, key: object, ids: list[int], history: object) -> pl.DataFrame:
        assert key == ("east", "shop", "api")
        calls.append(list(ids))
        names = pl.read_parquet(folder / "settings.parquet")["setting"]
        return points.filter(pl.col("setting").is_in([names[k] for k in ids]))

    about = json.loads((folder / "sweep.json").read_text())
    about["parameters"]["request"] = {}
    (folder / "sweep.json").write_text(json.dumps(about))
    monkeypatch.setattr("hpabatch.jobs.sweep.trajectories", trajectories)
    return calls


def test_a_timeline_is_of_today_and_the_setting_that_is_named(
    run: Run, sweep: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "target=70 scaleDown.window=60 scaleUp.policies=fast"
    points = trajectory(settings=("today", name))
    calls = asked(monkeypatch, sweep, points)
    texts = [name, "scaleUp.policies=fast target=70 scaleDown.window=1m"]
    for k, text in enumerate(texts):
        done = run(sweep, "--timeline", "shop/api", "--setting", text, "--out", f"{k}")
        assert (done.code, done.lines) == (0, [f"{k}/timeline-shop.api.svg"])
    assert calls == [[0, 10]] * 2
    pictures = {Path(f"{k}/timeline-shop.api.svg").read_bytes() for k in range(2)}
    assert len(pictures) == 1
    done = run(sweep, "--timeline", "shop/api", "--setting", "0", "--from", "2026-09-08 06:00",
               "--for", "6h", "--out", "alone")  # fmt: skip
    assert done.code == 0
    assert calls[-1] == [0]


def test_a_timeline_of_what_is_recommended_or_none(
    run: Run, sweep: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = pl.read_parquet(sweep / "settings.parquet")["setting"].to_list()
    calls = asked(monkeypatch, sweep, trajectory(days=2, settings=tuple(names)))
    done = run(sweep, "--timeline", "shop/api", "--slo", "saturated_minutes<20/week")
    assert (done.code, done.stderr) == (0, "")
    ((today, chosen),) = calls
    assert today == 0
    assert came_to(maker().settings[chosen])["saturated_minutes"][0] < 20
    done = run(sweep, "--timeline", "shop/api", "--slo", "saturated_minutes<=0")
    assert done.code in (0, 3)
    frame = pl.read_parquet(sweep / "hpas.parquet").with_columns(controller_answer=pl.lit("wrong"))
    frame.write_parquet(sweep / "hpas.parquet")
    done = run(sweep, "--timeline", "shop/api", "--slo", "saturated_minutes<20/week")
    assert done.code == 3
    assert "no setting is recommended" in done.stderr


def test_a_history_that_has_moved_can_be_named(
    run: Run, sweep: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(monkeypatch, sweep, trajectory())

    def gone(*_: object) -> pl.DataFrame:
        raise HistoryError("history/ is not there")

    monkeypatch.setattr("hpabatch.jobs.sweep.trajectories", gone)
    done = run(sweep, "--timeline", "shop/api", "--setting", "1")
    assert done.code == 2
    assert "history/ is not there (--history says where" in done.stderr


def test_a_setting_that_does_not_fit_the_hpa_is_not_drawn(
    run: Run, sweep: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(monkeypatch, sweep, trajectory(settings=("today",)))
    done = run(sweep, "--timeline", "shop/api", "--setting", "1")
    assert done.code == 3
    assert "cannot be simulated for it: the setting does not fit" in done.stderr


DEMO = str(Path(__file__).parents[3] / "data/demo")


def test_hpas_of_a_history_are_drawn_over_time(run: Run, tmp_path: Path) -> None:
    done = run(DEMO, "payments/api", "--from", "2026-10-07", "--for", "6h", "--out", "p")
    assert (done.code, done.stderr) == (0, "")
    assert named(done) == ["timeline-payments.api.svg"]
    done = run(DEMO, "payments/api", "--from", "2020-01-01", "--for", "1h")
    assert (done.code, "there is nothing of that time" in done.stderr) == (3, True)
    chart = hpabatch.open(DEMO).replay("payments/api").plot()
    assert "payments/api" in chart.to_json()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "which HPAs? Name them after"),
        (("payments/api", "--front"), "--front is for sweeps"),
        (("payments/api", "--slo", "rescales<9/day"), "--slo is for sweeps"),
        (("payments/apy",), "payments/apy: there is no such HPA"),
        (("payments/api", "--from", "soon"), "--from: expected a time"),
        (("payments/api", "--out", "a.png"), "expected a folder"),
    ],
)
def test_a_history_takes_no_options_of_sweeps(run: Run, words: tuple[str, ...], told: str) -> None:
    done = run(DEMO, *words)
    assert done.code == 2
    assert told in done.stderr
