"""The pictures themselves: what is in them, that nothing is cut off, and the same bytes again."""

from __future__ import annotations

import builtins
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from hpabatch.engine.advise.objective import parse_goal
from hpabatch.engine.sweep.result import SweepResult
from hpabatch.errors import RefusedError, UsageError
from hpabatch.report.pictures.data import Marked, NothingToDrawError
from hpabatch.report.pictures.front import front_figure
from hpabatch.report.pictures.heatmap import heatmap_figure
from hpabatch.report.pictures.style import save_figure
from hpabatch.report.pictures.timeline import Shown, busiest_day, timeline_figure
from tests.report.pictured import came_to, maker, swept
from tests.sweeps import SweepMaker, weeks

START = datetime(2026, 9, 7, tzinfo=UTC)
FIELDS = ("target", "scaleDown.window")


def texts(figure: Figure) -> list[str]:
    """Return what is written in a figure."""
    found = [item.get_text() for item in figure.findobj(Text)]
    return [text for text in found if text]


def check_texts(figure: Figure) -> None:
    """Nothing is cut off at the figure's edges, and no two texts cover each other."""
    figure.draw_without_rendering()
    width, height = figure.bbox.size
    boxes, beyond = [], set[Text]()
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        beyond |= {t.label1 for t in axis.get_major_ticks() if not low <= t.get_loc() <= high}
    for item in figure.findobj(Text):
        if not item.get_text() or not item.get_visible() or item in beyond:
            continue
        box = item.get_window_extent()
        assert box.x0 >= 0, item
        assert box.y0 >= 0, item
        assert box.x1 <= width, item
        assert box.y1 <= height, item
        boxes.append((item.get_text(), box))
    for k, (text, box) in enumerate(boxes):
        for other, its in boxes[:k]:
            over = min(box.x1, its.x1) - max(box.x0, its.x0)
            under = min(box.y1, its.y1) - max(box.y0, its.y0)
            assert min(over, under) < 2, (text, other)


def trajectory(days: int = 3, settings: tuple[str, ...] = ("today", "target=70")) -> pl.DataFrame:
    """Return a tick every ten minutes; the second day is the busiest."""
    ticks = days * 144
    ts = [START + timedelta(minutes=10 * k) for k in range(ticks)]
    demand = np.array([10 if k // 144 == 1 else 4 for k in range(ticks)])
    frames = []
    for n, name in enumerate(settings):
        replicas = np.where(demand == 10, 8 + 4 * n, 5)
        frames.append(
            pl.DataFrame(
                {
                    "setting": name,
                    "ts": pl.Series(ts, dtype=pl.Datetime("ms", "UTC")),
                    "replicas": replicas,
                    "desired": np.append(replicas[1:], replicas[-1]),
                    "pods": replicas,
                    "demand": demand,
                    "saturated": demand > replicas,
                }
            )
        )
    return pl.concat(frames)


TODAY = Shown("today", "today", 9)
OTHER = Shown("target=70", "chosen", 20)


# ---- front --------------------------------------------------------------------------------------


def test_a_front_names_unit_rules_measures_time_and_settings() -> None:
    figure = front_figure(swept(), "shop/api")
    told = texts(figure)
    assert "shop/api: pod-hours against saturated minutes" in told
    assert "17 settings · 28 days from 2026-09-07 · rules of Kubernetes 1.37 · simulated" in told
    assert "target=80 scaleDown.window=60 scaleUp.policies=default" in told
    assert {"pod-hours per week", "today"} <= set(told)
    assert any(text.startswith("saturated minutes per week") for text in told)
    check_texts(figure)


def test_the_recommended_setting_and_the_slo_are_shown() -> None:
    result = swept()
    goal = parse_goal(["saturated_minutes<20/week"], None, result.blocks)
    figure = front_figure(result, "shop/api", goal=goal, marked=Marked(9))
    told = texts(figure)
    assert told.count("recommended") == 2  # beside the point, and in the key
    assert "target=70 scaleDown.window=60 scaleUp.policies=default" in told
    assert "SLO saturated_minutes<20/week" in told
    assert {"beaten, holds the SLO", "beaten, breaks it"} <= set(told)
    check_texts(figure)


def test_keeping_todays_setting_is_said() -> None:
    assert "today, kept" in texts(front_figure(swept(), "shop/api", marked=Marked(0)))


def test_a_group_has_the_limit_of_all() -> None:
    result = swept(("api", "web"), "g")
    goal = parse_goal(["saturated_minutes<20/week"], "pod_hours")
    figure = front_figure(result, "g", goal=goal)
    assert "SLO saturated_minutes<20/week × 2 HPAs" in texts(figure)
    assert any("sum of 2 HPAs" in text for text in texts(figure))


def test_an_slo_of_the_objective_is_upright() -> None:
    goal = parse_goal(["pod_hours<100/week"], "pod_hours")
    figure = front_figure(swept(), "shop/api", goal=goal)
    assert "SLO pod_hours<100/week" in texts(figure)
    check_texts(figure)


def large(count: int) -> SweepResult:
    """Return an HPA under many settings, spread at random."""
    rng = np.random.default_rng(7)
    made = SweepMaker([{"min": str(k), "target": "70"} for k in range(1, count)])
    cost, harm = rng.lognormal(5, 0.3, count), rng.lognormal(2, 1.5, count)
    lots = {k: weeks([float(cost[k])], saturated_minutes=[float(harm[k])]) for k in range(count)}
    return made.add("api", lots).result()


def test_a_cloud_of_many_settings_is_pixels_and_the_rest_is_not(tmp_path: Path) -> None:
    figure = front_figure(large(3000), "shop/api")
    save_figure(figure, tmp_path / "front.svg")
    svg = (tmp_path / "front.svg").read_text()
    assert svg.count("<image") == 1
    assert len(svg) < 700_000
    numbers = [item.get_text() for item in figure.axes[0].texts]
    assert sorted(filter(str.isdigit, numbers)) == list("12345678")
    check_texts(figure)


def test_long_names_and_signs_that_there_are_none_for() -> None:
    made = SweepMaker([{"target.external/depth{queue=" + "o" * 90 + "}": "x0.8"}])
    lots = {k: weeks([9.0 - k], saturated_minutes=[1.0]) for k in (0, 1)}
    result = made.add("api", lots, unit="団体 $x$ \x1b[31m" + "y" * 200).result()
    figure = front_figure(result, result.hpas["unit"][0])
    assert any(text.startswith("?? $x$ ") for text in texts(figure))
    assert any("…" in text and "target.external" in text for text in texts(figure))
    check_texts(figure)


def test_runs_that_cannot_be_relied_on_are_told() -> None:
    made = maker()
    lots = {k: came_to(s) for k, s in enumerate(made.settings)}
    some = made.add("api", lots, unusable={3: "outside"}).result()
    assert any("1 runs cannot be relied on" in t for t in texts(front_figure(some, "shop/api")))
    made = maker()
    none = made.add("api", lots, unusable=dict.fromkeys(lots, "plant")).result()
    told = texts(front_figure(none, "shop/api"))
    assert any("none of the runs can be relied on" in text for text in told)


def test_all_the_same_and_nothing_at_all() -> None:
    made = SweepMaker([{"target": "70"}, {"target": "80"}])
    lots = {k: weeks([5.0], saturated_minutes=[0.0]) for k in range(3)}
    figure = front_figure(made.add("api", lots).result(), "shop/api")
    assert "and 2 alike" in texts(figure)
    check_texts(figure)
    made = SweepMaker([{"target": "70"}])
    half = {
        k: {"pod_hours": [None if k else 1.0], "saturated_minutes": [1.0 if k else None]}
        for k in (0, 1)
    }
    with pytest.raises(NothingToDrawError, match="no setting has both"):
        front_figure(made.add("api", half).result(), "shop/api")


# ---- heat map -----------------------------------------------------------------------------------


def cells(figure: Figure, panel: int) -> list[str]:
    """Return the texts of a panel's cells, row by row from below."""
    return [text.get_text() for text in figure.axes[panel].texts]


def test_cells_without_slo_are_means_over_the_other_fields() -> None:
    figure = heatmap_figure(swept(), "shop/api", FIELDS)
    harm = [
        sum(
            came_to({"target": t, "scaleDown.window": w, "scaleUp.policies": p})[
                "saturated_minutes"
            ][0]
            for p in ("default", "fast")
        )
        / 2
        for w in ("60", "300")
        for t in ("50", "60", "70", "80")
    ]
    assert [float(text) for text in cells(figure, 1)] == pytest.approx(harm, abs=0.06)
    told = texts(figure)
    assert any("mean over scaleUp.policies (up to 2 settings)" in text for text in told)
    assert {"target (%)", "scaleDown.window (s)", "today's values"} <= set(told)
    check_texts(figure)


def test_cells_with_an_slo_are_the_best_that_holds_it() -> None:
    result = swept()
    goal = parse_goal(["saturated_minutes<10/week"], None, result.blocks)
    figure = heatmap_figure(result, "shop/api", FIELDS, goal=goal, marked=Marked(5))
    # A window of 60 s: 0; 15 or 7.5 (fast); 45 or 22.5; 75 or 37.5. Of 300 s: 0; 5; 15 or 7.5; …
    assert cells(figure, 1) == ["0", "7.5", "22.5", "37.5", "0", "5", "7.5", "12.5"]
    told = texts(figure)
    assert "recommended setting" in told
    assert any("hatched: none of the settings there holds the SLO" in text for text in told)
    hatched = [p for p in figure.axes[0].patches if p.get_hatch()]
    assert len(hatched) == 3
    check_texts(figure)


def test_two_fields_alone_are_settings() -> None:
    made = SweepMaker([{"target": t, "min": m} for t in ("50", "60") for m in ("1", "2")])
    lots = {k: weeks([10.0 + k], saturated_minutes=[1.0]) for k in range(5)}
    figure = heatmap_figure(made.add("api", lots).result(), "shop/api", ("target", "min"))
    assert cells(figure, 0) == ["11", "13", "12", "14"]
    assert any("each cell is one setting" in text for text in texts(figure))


def test_cells_without_any_setting_and_values_that_are_not_todays() -> None:
    made = SweepMaker([{"target": "50", "min": "1"}, {"target": "70", "min": "5"}])
    lots = {k: weeks([10.0 + k], saturated_minutes=[1.0]) for k in range(3)}
    figure = heatmap_figure(made.add("api", lots).result(), "shop/api", ("target", "min"))
    assert cells(figure, 0) == ["11", "–", "–", "12"]
    told = " ".join(texts(figure))
    assert "–: no setting" in told
    assert "today's values are not in the grid" in told
    check_texts(figure)


def test_many_values_are_stacked_ranges() -> None:
    rng = np.random.default_rng(5)
    made = SweepMaker(
        [{"target": str(rng.integers(40, 95)), "scaleDown.window": str(rng.integers(0, 3600))}
         for _ in range(300)]
    )  # fmt: skip
    lots = {k: weeks([float(rng.uniform(1e4, 1e6))], saturated_minutes=[1.0]) for k in range(301)}
    figure = heatmap_figure(made.add("api", lots).result(), "shop/api", FIELDS)
    left, right = (axes.get_position() for axes in figure.axes)
    assert left.x0 == right.x0
    assert left.y0 > right.y1
    assert {"40–45", "0–500"} <= set(texts(figure))
    check_texts(figure)


def test_a_heat_map_of_other_fields_is_refused() -> None:
    with pytest.raises(UsageError, match="the sweep's fields are target"):
        heatmap_figure(swept(), "shop/api", ("target", "max"))


# ---- timeline -----------------------------------------------------------------------------------


def test_the_busiest_day_is_shown_by_itself() -> None:
    points = trajectory()
    begin, end = busiest_day(points)
    assert datetime.fromtimestamp(begin / 1000, UTC) == START + timedelta(days=1)
    assert end - begin == 86_400_000
    figure = timeline_figure(points, "shop/api", [TODAY, OTHER], profile="1.37")
    told = texts(figure)
    assert "shop/api: replicas under today's setting and the chosen one" in told
    assert any("24 hours from 2026-09-08, the busiest day of 3" in text for text in told)
    assert "192 pod-hours · 1,440 saturated minutes · 1 rescale" in told
    assert "288 pod-hours · 0 saturated minutes · 1 rescale" in told
    assert {"time (UTC)", "pods", "saturated", "maxReplicas"} <= set(told)
    check_texts(figure)


def test_without_demand_the_day_with_the_most_replicas() -> None:
    points = trajectory().with_columns(demand=pl.lit(0))
    assert busiest_day(points) == busiest_day(trajectory())
    figure = timeline_figure(points, "shop/api", [TODAY], profile="1.37")
    assert not any("demand" in text for text in texts(figure))


def ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def test_a_time_can_be_chosen() -> None:
    begin = START + timedelta(days=1, hours=-1)
    figure = timeline_figure(
        trajectory(), "shop/api", [TODAY], profile="1.37", from_ms=ms(begin), length_ms=7_200_000
    )
    told = texts(figure)
    assert any("2.0 hours from 2026-09-07 23:00 UTC" in text for text in told)
    assert "13 pod-hours · 60 saturated minutes · 1 rescale" in told
    with pytest.raises(UsageError, match="it was from 2026-09-07 to 2026-09-10"):
        timeline_figure(
            trajectory(), "shop/api", [TODAY], profile="1.37", from_ms=ms(START) - 10**9,
            length_ms=60_000,
        )  # fmt: skip


def test_replicas_and_saturated_stretches_are_where_they_were() -> None:
    figure = timeline_figure(
        trajectory(), "shop/api", [TODAY, OTHER], profile="1.37", from_ms=ms(START),
        length_ms=3 * 86_400_000,
    )  # fmt: skip
    above, below = figure.axes
    day, column = np.datetime64("2026-09-08", "ms"), np.timedelta64(3 * 86_400_000 // 800, "ms")
    saturated, calm = (
        np.asarray(axes.collections[0].get_paths()[0].vertices) for axes in (above, below)
    )
    at = saturated[saturated[:, 1] > 0, 0] * 86_400_000  # (days)
    spans = [np.datetime64(round(end), "ms") for end in (min(at), max(at))]
    assert abs(spans[0] - day) <= column
    assert abs(spans[1] - day - np.timedelta64(1, "D")) <= column
    assert not calm[:, 1].any()
    (thick,) = [line for line in below.lines if line.get_linewidth() > 1.5]
    ts, replicas = np.asarray(thick.get_xdata()), np.asarray(thick.get_ydata())
    inside = (ts >= day) & (ts < day + np.timedelta64(1, "D"))
    assert set(replicas[inside]) == {12}
    assert set(replicas[~inside]) == {5}
    assert (ts[0], ts[-1]) == (day - np.timedelta64(1, "D"), day + np.timedelta64(2, "D"))


def test_a_setting_without_a_trajectory_and_no_trajectory() -> None:
    with pytest.raises(UsageError, match="no trajectory of setting target=80"):
        timeline_figure(trajectory(), "a", [Shown("target=80", "chosen")], profile="1.37")
    with pytest.raises(RefusedError, match="could not be simulated"):
        timeline_figure(trajectory().clear(), "a", [TODAY], profile="1.37")


# ---- files --------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["svg", "png"])
def test_the_same_bytes_again_whatever_the_users_style(tmp_path: Path, form: str) -> None:
    paths = [tmp_path / f"{k}.{form}" for k in range(2)]
    before = dict(mpl.rcParams)
    save_figure(front_figure(swept(), "shop/api"), paths[0])
    assert dict(mpl.rcParams) == before
    with mpl.rc_context({"font.size": 20, "svg.hashsalt": None, "axes.facecolor": "red"}):
        save_figure(front_figure(swept(), "shop/api"), paths[1])
    assert paths[0].read_bytes() == paths[1].read_bytes()
    data = paths[0].read_bytes()
    for word in (b"Matplotlib v", b"dc:date", b"Software"):
        assert word not in data


def test_a_picture_is_900_pixels_wide(tmp_path: Path) -> None:
    save_figure(front_figure(swept(), "shop/api"), tmp_path / "a.png")
    data = (tmp_path / "a.png").read_bytes()
    assert int.from_bytes(data[16:20]) == 900


def test_files_are_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = front_figure(swept(), "shop/api")
    path = tmp_path / "a.svg"
    path.write_text("old")

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("in the middle")

    monkeypatch.setattr(figure, "savefig", fail)
    with pytest.raises(RuntimeError):
        save_figure(figure, path)
    assert [p.name for p in tmp_path.iterdir()] == ["a.svg"]
    assert path.read_text() == "old"
    with pytest.raises(UsageError, match=r"ends with \.svg or \.png"):
        save_figure(figure, tmp_path / "a.pdf")


def test_without_matplotlib_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    load = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ModuleNotFoundError("No module named 'matplotlib'")
        return load(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(UsageError, match=r"pip install 'hpabatch\[plot\]'"):
        front_figure(swept(), "shop/api")


def test_pyplot_is_never_loaded() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from tests.report.pictured import swept;"
        "from hpabatch.report.pictures.front import front_figure;"
        "from hpabatch.report.pictures.heatmap import heatmap_figure;"
        "front_figure(swept(), 'shop/api');"
        "heatmap_figure(swept(), 'shop/api', ('target', 'scaleDown.window'));"
        "sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[3])


def test_the_python_of_the_documentation_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (Path(__file__).parents[3] / "docs/plot.md").read_text()
    code = text.partition("```python\n")[2].partition("```")[0]
    sweep = maker()
    sweep.add("api", {k: came_to(s) for k, s in enumerate(sweep.settings)})
    sweep.write(tmp_path / "sweep")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "docs/plot.md", "exec"), {})
    assert (tmp_path / "front.svg").stat().st_size > 10_000
