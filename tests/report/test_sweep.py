"""Tests of a sweep's summary, by hand, and of what its table tells beside the approved screens."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from hpabatch.engine.columns.recorded import ABOVE_MINUTES, RECORDED_MEASURES, recorded_name
from hpabatch.engine.columns.sweep import SWEEP_SUMMARY
from hpabatch.engine.sweep.result import HARM, SweepResult, grid_edges, summarize_sweep
from hpabatch.report.forms import table_text
from hpabatch.report.numbers import BESIDE
from hpabatch.report.sweep import SweepScreen, confidence_told
from tests.sweeps import SweepMaker, weeks

KEY = {"cluster": "east", "namespace": "shop"}
FROM_ELSEWHERE = (*ABOVE_MINUTES, *map(recorded_name, RECORDED_MEASURES))


def row(hpa: str, setting_id: int, **measures: Any) -> dict[str, Any]:
    """Return a row of results; a week of 100 pod-hours without any harm unless told otherwise."""
    found = {
        "setting_id": setting_id,
        "setting": f"max={setting_id}" if setting_id else "today",
        "hours": 168.0,
        "pod_hours": 100.0,
        "cost": None,
        "saturated_minutes": 0.0,
        "unserved": 0.0,
        "waiting": None,
        "short_pod_hours": None,
        **dict.fromkeys(FROM_ELSEWHERE),
        "rescales": 10,
        "usable": True,
    }
    return {**KEY, "hpa": hpa, "unit": "all"} | found | measures


def made(*rows: dict[str, Any]) -> SweepResult:
    names = list(dict.fromkeys(r["hpa"] for r in rows))
    results = pl.DataFrame(
        rows,
        schema_overrides=dict.fromkeys(
            (
                *("cost", "saturated_minutes", "unserved", "waiting", "short_pod_hours"),
                *FROM_ELSEWHERE,
            ),
            pl.Float64,
        ),
    )
    made_of = SweepMaker([])
    for name in names:
        made_of.add(name, {0: weeks([100.0])}, unit="all", days=7.0)
    known = made_of.result()
    ids = sorted({r["setting_id"] for r in rows})
    return SweepResult(
        settings=pl.DataFrame({"setting_id": ids, "setting": [f"max={k}" for k in ids]}),
        hpas=known.hpas,
        results=results,
        blocks=known.blocks,
        evidence={"hpabatch": "0.6.0", "k8s": "1.37", "k8s_evidence": "from sources",
                  "k8s_proof": "by reading", "k8s_source": "given"},
        parameters={"block": {"unit": "week"}, "skipped": [], "notes": []},
    )  # fmt: skip


def summary_of(*rows: dict[str, Any]) -> dict[str, Any]:
    (found,) = summarize_sweep(made(*rows)).iter_rows(named=True)
    return found


# ---- the summary


def test_measures_are_per_week() -> None:
    """Of half a week there is twice as much in one."""
    found = summary_of(
        row("api", 0, hours=84.0, cost=7.0, saturated_minutes=3.0, unserved=1.0, rescales=4)
    )
    assert list(found) == list(SWEEP_SUMMARY.names)
    assert (found["settings"], found["days"], found["unit"]) == (1, 7.0, "all")
    names = ("pod_hours", "cost", "saturated_minutes", "unserved", "rescales")
    assert [found[f"{name}_per_week"] for name in names] == [200.0, 14.0, 6.0, 2.0, 8.0]
    assert (found["cheapest"], found["saving_pct"]) == ("today", 0.0)


def test_the_cheapest_harms_no_more_than_today() -> None:
    today = {"saturated_minutes": 5.0, "unserved": 2.0}
    found = summary_of(
        row("api", 0, **today),
        row("api", 1, pod_hours=20.0, saturated_minutes=5.1, unserved=2.0),
        row("api", 2, pod_hours=30.0, saturated_minutes=5.0, unserved=2.1),
        row("api", 3, pod_hours=70.0, saturated_minutes=5.0, unserved=2.0),
        row("api", 4, pod_hours=70.0, **today),
        row("api", 5, pod_hours=80.0, saturated_minutes=0.0, unserved=0.0),
    )
    assert (found["settings"], found["cheapest"]) == (6, "max=3")
    assert found["saving_pct"] == pytest.approx(30.0)


def test_with_prices_money_counts() -> None:
    found = summary_of(
        row("api", 0, cost=10.0),
        row("api", 1, cost=9.0, pod_hours=120.0),
        row("api", 2, cost=9.5, pod_hours=50.0),
    )
    assert found["cheapest"] == "max=1"
    assert found["saving_pct"] == pytest.approx(10.0)


@pytest.mark.parametrize("harm", HARM)
def test_any_known_harm_counts(harm: str) -> None:
    unknown: dict[str, Any] = dict.fromkeys(HARM)
    found = summary_of(
        row("api", 0, **unknown | {harm: 1.0}),
        row("api", 1, pod_hours=10.0, **unknown | {harm: 1.5}),
        row("api", 2, pod_hours=90.0, **unknown | {harm: 1.0}),
    )
    assert found["cheapest"] == "max=2"


def test_without_any_known_harm_nothing_is_called_cheapest() -> None:
    unknown: dict[str, Any] = dict.fromkeys(HARM)
    found = summary_of(row("api", 0, **unknown), row("api", 1, pod_hours=10.0, **unknown))
    assert found["cheapest"] is found["saving_pct"] is None


# ---- forms


def report(*rows: dict[str, Any], **parameters: Any) -> SweepScreen:
    found = made(*rows)
    return SweepScreen.of(
        replace(found, parameters={**found.parameters, **parameters}), out="sweep/"
    )


def test_the_table_says_what_was_recorded_and_what_is_assumed() -> None:
    made_of = row("api", 0, saturated_minutes=0.0, saturated_minutes_recorded=79.0,
                  pod_hours_recorded=102.0, rescales_recorded=14.0)  # fmt: skip
    above = dict.fromkeys(ABOVE_MINUTES, 1.0)
    found = made(made_of, row("web", 0, saturated_minutes=None, unserved=None, **above))
    hpas = found.hpas.with_columns(ceiling=pl.Series(["recorded", "open"]))
    text = table_text(SweepScreen.of(replace(found, hpas=hpas), out="sweep/"))
    lines = text.splitlines()
    head = next(k for k, line in enumerate(lines) if line.startswith("HPA"))
    assert " 100 " in lines[head + 1]  # (2 % more were recorded: the same)
    assert "0.0 (79.0)" in lines[head + 1]
    assert "10.0 (14.0)" in lines[head + 1]
    assert " open " in lines[head + 2]
    assert "open: no ceiling of its pods is known" in text
    assert BESIDE in text


def test_the_edges_of_a_grid_are_told() -> None:
    names = ("today", "target=50", "target=60", "target=80", "max=x0.8", "max=x1.2", "window=0")
    settings = pl.DataFrame(
        {
            "setting_id": range(7),
            "setting": names,
            "target": [None, "50", "60", "80", None, None, None],
            "max": [None, None, None, None, "x0.8", "x1.2", None],
            "window": [None, "300", "fast", None, None, None, "0"],
        }
    )
    assert grid_edges(settings) == {
        "today": (),
        "target=50": ("target=50", "window=300"),
        "target=60": (),
        "target=80": ("target=80",),
        "max=x0.8": ("max=x0.8",),
        "max=x1.2": ("max=x1.2",),
        "window=0": (),
    }
    found = report(row("api", 0, usable=False), row("api", 1, pod_hours=50.0))
    settings = pl.DataFrame(
        {"setting_id": [0, 1, 2], "setting": ["today", "max=1", "max=2"], "max": [None, "1", "2"]}
    )
    text = table_text(replace(found, settings=settings))
    assert "edge of the grid: max=1: a wider grid may have a better setting" in text
    assert "?: today's row is not to be relied on" in text


def test_the_confidence_that_advice_can_have() -> None:
    """Of all doubts that a sweep's end knows: of scores, of the recording, and of the lens."""
    told = {"saturated_minutes": [2.0]}
    maker = SweepMaker([])
    maker.add("api", {0: weeks([100.0])}, days=28.0)
    maker.add("bare", {0: weeks([100.0])}, days=28.0, controller_answer=None)
    maker.add("web", {0: weeks([100.0], saturated_minutes=[50.0])}, days=28.0, recorded=told)
    maker.add("wrong", {0: weeks([100.0])}, days=28.0, controller_answer="wrong", why_not="no")

    def line(**parameters: Any) -> str:
        found = maker.result()
        known = {**found.parameters, **parameters}
        (text,) = confidence_told(replace(found, parameters=known))
        return text.removeprefix("confidence that advice can have: ").partition(" (")[0]

    assert line() == "1 high, 1 medium, 1 low, 1 none"
    lag = {"signal": "resource/cpu", "lag_ms": 30_000}
    assert line(lenses=[lag]) == "2 medium, 1 low, 1 none"
    ratio = {"signal": "resource/cpu", "scale": 2.0}
    assert line(lens_ratios=[ratio]) == "3 low, 1 none"
    text = table_text(report(row("api", 0)))
    assert "confidence that advice can have: 1 medium (`hpabatch recommend` says why)" in text
