"""The pictures themselves: what is in them, that nothing is cut off, and the same bytes again."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from hpabatch.engine.advise.objective import Goal, parse_goal
from hpabatch.engine.sweep.result import SweepResult
from hpabatch.errors import RefusedError, UsageError
from hpabatch.report.pictures.data import Marked, NothingToDrawError
from hpabatch.report.pictures.front import front_figure
from hpabatch.report.pictures.heatmap import heatmap_figure
from hpabatch.report.pictures.style import save_figure
from hpabatch.report.pictures.timeline import Shown, timeline_figure
from tests.approved import hold_approved
from tests.report.pictured import came_to, maker, swept
from tests.sweeps import SweepMaker, Values, weeks

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


# ---- what is written ----------------------------------------------------------------------------


def slo(text: str, measure: str | None = "pod_hours") -> Goal:
    return parse_goal([text], measure, swept().blocks)


def of_settings(
    settings: list[dict[str, str]], values: Callable[[int], Values], **more: Any
) -> SweepResult:
    """Return an HPA of today's and some other settings, and what each number came to."""
    made = SweepMaker(settings)
    return made.add("api", {k: values(k) for k in range(len(settings) + 1)}, **more).result()


def unusable(*settings: int) -> SweepResult:
    made = maker()
    lots = {k: came_to(s) for k, s in enumerate(made.settings)}
    return made.add("api", lots, unusable=dict.fromkeys(settings or lots, "outside")).result()


def long_names() -> Figure:
    settings = [{"target.external/depth{queue=" + "o" * 90 + "}": "x0.8"}]
    result = of_settings(
        settings, lambda k: weeks([9.0 - k], saturated_minutes=[1.0]),
        unit="団体 $x$ \x1b[31m" + "y" * 200,
    )  # fmt: skip
    return front_figure(result, result.hpas["unit"][0])


def many_values() -> Figure:
    rng = np.random.default_rng(5)
    settings = [
        {"target": str(rng.integers(40, 95)), "scaleDown.window": str(rng.integers(0, 3600))}
        for _ in range(300)
    ]
    values = [weeks([float(rng.uniform(1e4, 1e6))], saturated_minutes=[1.0]) for _ in range(301)]
    return heatmap_figure(of_settings(settings, values.__getitem__), "shop/api", FIELDS)


def two_fields(*settings: tuple[str, str]) -> Figure:
    """Return the heat map of settings that nothing but target and min tell apart."""
    result = of_settings(
        [{"target": target, "min": least} for target, least in settings],
        lambda k: weeks([10.0 + k], saturated_minutes=[1.0]),
    )
    return heatmap_figure(result, "shop/api", ("target", "min"))


def timeline(*shown: Shown, points: pl.DataFrame | None = None, **more: Any) -> Figure:
    points = trajectory() if points is None else points
    return timeline_figure(points, "shop/api", list(shown), profile="1.37", **more)


FIGURES: dict[str, Callable[[], Figure]] = {
    "front": lambda: front_figure(swept(), "shop/api"),
    "front-slo": lambda: front_figure(
        swept(), "shop/api", goal=slo("saturated_minutes<20/week", None), marked=Marked(9)
    ),
    "front-kept": lambda: front_figure(swept(), "shop/api", marked=Marked(0)),
    "front-group": lambda: front_figure(
        swept(("api", "web"), "g"), "g", goal=slo("saturated_minutes<20/week")
    ),
    "front-objective": lambda: front_figure(swept(), "shop/api", goal=slo("pod_hours<100/week")),
    "front-unusable": lambda: front_figure(unusable(3), "shop/api"),
    "front-nothing-usable": lambda: front_figure(unusable(), "shop/api"),
    "front-alike": lambda: front_figure(
        of_settings(
            [{"target": "70"}, {"target": "80"}], lambda k: weeks([5.0], saturated_minutes=[0.0])
        ),
        "shop/api",
    ),
    "front-long-names": long_names,
    "heatmap": lambda: heatmap_figure(swept(), "shop/api", FIELDS),
    # A window of 60 s: 0; 15 or 7.5 (fast); 45 or 22.5; 75 or 37.5. Of 300 s: 0; 5; 15 or 7.5; …
    "heatmap-slo": lambda: heatmap_figure(
        swept(), "shop/api", FIELDS, goal=slo("saturated_minutes<10/week", None), marked=Marked(5)
    ),
    "heatmap-two-fields": lambda: two_fields(("50", "1"), ("50", "2"), ("60", "1"), ("60", "2")),
    "heatmap-holes": lambda: two_fields(("50", "1"), ("70", "5")),
    "heatmap-ranges": many_values,
    "timeline": lambda: timeline(TODAY, OTHER),
    "timeline-from": lambda: timeline(
        TODAY, from_ms=ms(START + timedelta(days=1, hours=-1)), length_ms=7_200_000
    ),
    "timeline-without-demand": lambda: timeline(
        TODAY, points=trajectory().with_columns(demand=pl.lit(0))
    ),
}


@pytest.mark.parametrize("name", FIGURES)
def test_figures_say_what_was_approved(name: str) -> None:
    figure = FIGURES[name]()
    hold_approved(f"pictures/{name}", "\n".join(texts(figure)) + "\n")
    check_texts(figure)


# ---- what is drawn ------------------------------------------------------------------------------


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


def test_cells_in_which_nothing_holds_the_slo_are_hatched() -> None:
    figure = FIGURES["heatmap-slo"]()
    assert len([p for p in figure.axes[0].patches if p.get_hatch()]) == 3


def test_panels_of_many_values_are_stacked() -> None:
    left, right = (axes.get_position() for axes in many_values().axes)
    assert left.x0 == right.x0
    assert left.y0 > right.y1


def test_what_cannot_be_drawn() -> None:
    half = of_settings(
        [{"target": "70"}],
        lambda k: {"pod_hours": [None if k else 1.0], "saturated_minutes": [1.0 if k else None]},
    )
    with pytest.raises(NothingToDrawError, match="no setting has both"):
        front_figure(half, "shop/api")
    with pytest.raises(UsageError, match="the sweep's fields are target"):
        heatmap_figure(swept(), "shop/api", ("target", "max"))
    with pytest.raises(UsageError, match="it was from 2026-09-07 to 2026-09-10"):
        timeline(TODAY, from_ms=ms(START) - 10**9, length_ms=60_000)
    with pytest.raises(UsageError, match="no trajectory of setting target=80"):
        timeline(Shown("target=80", "chosen"))
    with pytest.raises(RefusedError, match="could not be simulated"):
        timeline(TODAY, points=trajectory().clear())


def ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)


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
