"""The pictures themselves: what is in them, and the same bytes again."""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import numpy as np
import polars as pl
import pytest
import vl_convert

from hpabatch.engine.advise.objective import Goal, parse_goal
from hpabatch.engine.sweep.result import SweepResult
from hpabatch.errors import RefusedError, UsageError
from hpabatch.report.pictures.data import Marked, NothingToDrawError
from hpabatch.report.pictures.front import front_chart
from hpabatch.report.pictures.heatmap import heatmap_chart
from hpabatch.report.pictures.recorded import recorded_chart
from hpabatch.report.pictures.style import save_chart
from hpabatch.report.pictures.timeline import Shown, timeline_chart
from tests.approved import hold_approved
from tests.report.pictured import came_to, maker, swept
from tests.sweeps import SweepMaker, Values, weeks

START = datetime(2026, 9, 7, tzinfo=UTC)
FIELDS = ("target", "scaleDown.window")


def texts(chart: Any) -> list[str]:
    """Return what is written in a chart, as it is drawn; how much is cut off depends on fonts."""
    written = (element.text for element in svg_of(chart).iter())
    return [re.sub(r"(?<=^.{40}).*…$", "…", text) for text in written if text and text.strip()]


def svg_of(chart: Any) -> Element:
    with TemporaryDirectory() as folder:
        save_chart(chart, Path(folder) / "a.svg")
        return ElementTree.parse(Path(folder) / "a.svg").getroot()


def data_of(chart: Any, *names: str) -> list[list[dict[str, Any]]]:
    """Return the data of a chart in which rows have these fields, in the order of its layers."""
    known = chart.to_dict()
    found = []

    def search(part: Any) -> None:
        if isinstance(part, dict):
            data = part.get("data", {})
            values = known.get("datasets", {}).get(data.get("name"), data.get("values", ()))
            if values and set(names) <= set(values[0]):
                found.append(list(values))
            for child in part.values():
                search(child)
        elif isinstance(part, list):
            for child in part:
                search(child)

    search(known)
    return found


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


def long_names() -> Any:
    settings = [{"target.external/depth{queue=" + "o" * 90 + "}": "x0.8"}]
    result = of_settings(
        settings, lambda k: weeks([9.0 - k], saturated_minutes=[1.0]),
        unit="団体 $x$ \x1b[31m" + "y" * 200,
    )  # fmt: skip
    return front_chart(result, result.hpas["unit"][0])


def many_values() -> Any:
    rng = np.random.default_rng(5)
    settings = [
        {"target": str(rng.integers(40, 95)), "scaleDown.window": str(rng.integers(0, 3600))}
        for _ in range(300)
    ]
    values = [weeks([float(rng.uniform(1e4, 1e6))], saturated_minutes=[1.0]) for _ in range(301)]
    return heatmap_chart(of_settings(settings, values.__getitem__), "shop/api", FIELDS)


def two_fields(*settings: tuple[str, str]) -> Any:
    """Return the heat map of settings that nothing but target and min tell apart."""
    result = of_settings(
        [{"target": target, "min": least} for target, least in settings],
        lambda k: weeks([10.0 + k], saturated_minutes=[1.0]),
    )
    return heatmap_chart(result, "shop/api", ("target", "min"))


def timeline(*shown: Shown, points: pl.DataFrame | None = None, **more: Any) -> Any:
    points = trajectory() if points is None else points
    return timeline_chart(points, "shop/api", list(shown), profile="1.37", **more)


FIGURES: dict[str, Callable[[], Any]] = {
    "front": lambda: front_chart(swept(), "shop/api"),
    "front-slo": lambda: front_chart(
        swept(), "shop/api", goal=slo("saturated_minutes<20/week", None), marked=Marked(9)
    ),
    "front-kept": lambda: front_chart(swept(), "shop/api", marked=Marked(0)),
    "front-group": lambda: front_chart(
        swept(("api", "web"), "g"), "g", goal=slo("saturated_minutes<20/week")
    ),
    "front-objective": lambda: front_chart(swept(), "shop/api", goal=slo("pod_hours<100/week")),
    "front-unusable": lambda: front_chart(unusable(3), "shop/api"),
    "front-nothing-usable": lambda: front_chart(unusable(), "shop/api"),
    "front-alike": lambda: front_chart(
        of_settings(
            [{"target": "70"}, {"target": "80"}], lambda k: weeks([5.0], saturated_minutes=[0.0])
        ),
        "shop/api",
    ),
    "front-long-names": long_names,
    "heatmap": lambda: heatmap_chart(swept(), "shop/api", FIELDS),
    # A window of 60 s: 0; 15 or 7.5 (fast); 45 or 22.5; 75 or 37.5. Of 300 s: 0; 5; 15 or 7.5; …
    "heatmap-slo": lambda: heatmap_chart(
        swept(), "shop/api", FIELDS, goal=slo("saturated_minutes<10/week", None), marked=Marked(5)
    ),
    "heatmap-two-fields": lambda: two_fields(("50", "1"), ("50", "2"), ("60", "1"), ("60", "2")),
    "heatmap-holes": lambda: two_fields(("50", "1"), ("70", "5")),
    "heatmap-ranges": many_values,
    "recorded": lambda: recorded_chart(decisions(), "shop/api", profile="1.37"),
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
    hold_approved(f"pictures/{name}", "\n".join(texts(FIGURES[name]())) + "\n")


# ---- what is drawn ------------------------------------------------------------------------------


def large(count: int) -> SweepResult:
    """Return an HPA under many settings, spread at random."""
    rng = np.random.default_rng(7)
    made = SweepMaker([{"min": str(k), "target": "70"} for k in range(1, count)])
    cost, harm = rng.lognormal(5, 0.3, count), rng.lognormal(2, 1.5, count)
    lots = {k: weeks([float(cost[k])], saturated_minutes=[float(harm[k])]) for k in range(count)}
    return made.add("api", lots).result()


def test_of_a_cloud_of_many_settings_what_lies_together_is_drawn_once(tmp_path: Path) -> None:
    chart = front_chart(large(3000), "shop/api")
    save_chart(chart, tmp_path / "front.svg")
    assert (tmp_path / "front.svg").stat().st_size < 700_000
    (cloud,) = data_of(chart, "kind", "x")
    assert 500 < len(cloud) < 2500
    numbers = {row["number"] for rows in data_of(chart, "number", "label") for row in rows}
    assert numbers == {"", *"12345678"}


def test_cells_without_slo_are_means_over_the_other_fields() -> None:
    chart = heatmap_chart(swept(), "shop/api", FIELDS)
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
    _, cells = data_of(chart, "row", "column", "text")[::3]  # (three layers a panel)
    assert [float(cell["text"]) for cell in cells] == pytest.approx(harm, abs=0.06)
    assert [cell["value"] for cell in cells] == pytest.approx(harm)


def test_cells_in_which_nothing_holds_the_slo_are_struck_through() -> None:
    cells, _ = data_of(FIGURES["heatmap-slo"](), "broken")[::3]
    assert len([cell for cell in cells if cell["broken"]]) == 3


def test_panels_of_many_values_are_stacked() -> None:
    assert many_values().to_dict()["columns"] == 1


def test_what_cannot_be_drawn() -> None:
    half = of_settings(
        [{"target": "70"}],
        lambda k: {"pod_hours": [None if k else 1.0], "saturated_minutes": [1.0 if k else None]},
    )
    with pytest.raises(NothingToDrawError, match="no setting has both"):
        front_chart(half, "shop/api")
    with pytest.raises(UsageError, match="the sweep's fields are target"):
        heatmap_chart(swept(), "shop/api", ("target", "max"))
    with pytest.raises(NothingToDrawError, match="it is from 2026-09-07 to 2026-09-10"):
        timeline(TODAY, from_ms=ms(START) - 10**9, length_ms=60_000)
    with pytest.raises(UsageError, match="no trajectory of setting target=80"):
        timeline(Shown("target=80", "chosen"))
    with pytest.raises(RefusedError, match="could not be simulated"):
        timeline(TODAY, points=trajectory().clear())


def ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def test_replicas_and_saturated_stretches_are_where_they_were() -> None:
    chart = timeline_chart(
        trajectory(), "shop/api", [TODAY, OTHER], profile="1.37", from_ms=ms(START),
        length_ms=3 * 86_400_000,
    )  # fmt: skip
    day = ms(START) + 86_400_000
    sizes = [
        [(row["ts"], row["replicas"]) for row in rows] for rows in data_of(chart, "ts", "replicas")
    ]
    today, chosen = (
        [(ms(START), 5), (day, most), (day + 86_400_000, 5), (day + 2 * 86_400_000, 5)]
        for most in (8, 12)
    )
    assert sizes == [today, today, chosen]
    spans = [[(row["ts"], row["until"]) for row in rows] for rows in data_of(chart, "until")]
    assert spans == [[(day, day + 86_400_000)]]


SIZES = ("min_replicas", "max_replicas", "applied", "desired", "proposal")


def decisions(days: int = 2, period_s: int = 60) -> pl.DataFrame:
    """Return decisions of an HPA that stands at maxReplicas on the second day."""
    ticks = days * 86_400 // period_s
    second = np.arange(ticks) * period_s >= 86_400
    ts = pl.datetime_range(START, START + timedelta(days=days), f"{period_s}s", closed="left",
                           time_unit="ms", eager=True)  # fmt: skip
    return pl.DataFrame({"ts": ts}).with_columns(
        min_replicas=pl.lit(2),
        max_replicas=pl.lit(5),
        applied=pl.Series(np.where(second, 5, 3)),
        desired=pl.Series(np.where(second, 5, 3)),
        proposal=pl.Series(np.where(second, 9, 3)),
        binding=pl.Series(np.where(second, "max", "tolerance")),
    )


def test_sizes_and_rules_of_a_recording_are_where_they_were() -> None:
    day, end = ms(START) + 86_400_000, ms(START) + 2 * 86_400_000
    chart = recorded_chart(decisions(), "shop/api", profile="1.37")
    assert "24 hours from 2026-09-08, the busiest day of 2" in " ".join(texts(chart))
    chart = recorded_chart(
        decisions(), "shop/api", profile="1.37", from_ms=ms(START), length_ms=2 * 86_400_000
    )
    sizes = {
        rows[0]["line"]: [(row["ts"], row["size"]) for row in rows]
        for rows in data_of(chart, "line")
    }
    assert sizes["metrics ask for"] == [(ms(START), 3), (day, 9), (end, 9)]
    assert sizes["the rules decide"] == sizes["recorded"] == [(ms(START), 3), (day, 5), (end, 5)]
    assert sizes["maxReplicas"] == [(ms(START), 5), (end, 5)]
    (rules,) = data_of(chart, "rule")
    assert rules == [
        {"ts": ms(START), "until": day, "rule": "tolerance"},
        {"ts": day, "until": end, "rule": "max"},
    ]


def test_a_size_that_is_not_known_for_a_while_is_a_gap() -> None:
    gaps = decisions().with_columns(
        proposal=pl.when(pl.int_range(pl.len()) % 600 < 590).then("proposal")
    )
    chart = recorded_chart(gaps, "shop/api", profile="1.37", from_ms=ms(START))
    (asked,) = [rows for rows in data_of(chart, "line") if rows[0]["line"] == "metrics ask for"]
    sizes = [(row["ts"] - ms(START)) / 60_000 if row["size"] else None for row in asked]
    assert sizes == [0, 590, None, 600, 1190, None, 1200, 1440]
    empty = decisions().with_columns(pl.lit(None, pl.Int64).alias(n) for n in SIZES)
    with pytest.raises(NothingToDrawError, match="no size is known"):
        recorded_chart(empty, "shop/api", profile="1.37")
    one = recorded_chart(decisions().head(1), "shop/api", profile="1.37")
    assert [row["rule"] for rows in data_of(one, "rule") for row in rows] == ["tolerance"]


def test_names_are_drawn_as_they_are() -> None:
    assert "shop/clip77: what the metrics ask for" in " ".join(
        texts(recorded_chart(decisions(), "shop/clip77", profile="1.37"))
    )
    words = texts(timeline(Shown("today", "a\x01b", 9)))
    assert "replicas, a\\x01b" in words


def test_a_restless_recording_is_drawn_by_its_highest_sizes() -> None:
    restless = decisions(1, 15).with_columns(proposal=2 + pl.int_range(pl.len()) % 7)
    chart = recorded_chart(restless, "shop/api", profile="1.37")
    (asked,) = [rows for rows in data_of(chart, "line") if rows[0]["line"] == "metrics ask for"]
    assert len(asked) <= 802
    assert {row["size"] for row in asked[:-1]} == {8}


# ---- files --------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["svg", "png"])
def test_the_same_bytes_again(tmp_path: Path, form: str) -> None:
    paths = [tmp_path / f"{k}.{form}" for k in range(2)]
    for path in paths:
        save_chart(front_chart(swept(), "shop/api"), path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_files_are_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = front_chart(swept(), "shop/api")
    path = tmp_path / "a.svg"
    path.write_text("old")

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("in the middle")

    monkeypatch.setattr(vl_convert, "vegalite_to_svg", fail)
    with pytest.raises(RuntimeError):
        save_chart(figure, path)
    assert [p.name for p in tmp_path.iterdir()] == ["a.svg"]
    assert path.read_text() == "old"
    with pytest.raises(UsageError, match=r"ends with \.svg or \.png"):
        save_chart(figure, tmp_path / "a.pdf")


def test_without_altair_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    load = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name.startswith("altair"):
            raise ModuleNotFoundError("No module named 'altair'")
        return load(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(UsageError, match=r"pip install 'hpabatch\[plot\]'"):
        front_chart(swept(), "shop/api")


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
