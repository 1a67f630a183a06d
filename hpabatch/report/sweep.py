"""The result of `hpabatch sweep`: one row per HPA, with its cheapest setting."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from hpabatch.engine.advise.doubts import prospects
from hpabatch.engine.advise.objective import Goal, RecommendOptions, parse_goal
from hpabatch.engine.advise.request import CONFIDENCES, DEFAULT_SLO
from hpabatch.engine.columns.sweep import SWEEP_SUMMARY
from hpabatch.engine.fit.workload import OPEN
from hpabatch.engine.sweep.result import SweepResult, grid_edges, summarize_sweep
from hpabatch.model.plant import CEILINGS_PCT
from hpabatch.model.printable import counted
from hpabatch.report.base import (
    HPA,
    Grid,
    Head,
    Layout,
    Report,
    Rows,
    View,
    many_clusters,
    row_label,
)
from hpabatch.report.lens import lens_told
from hpabatch.report.numbers import BESIDE, beside, nonempty, number, percent
from hpabatch.report.replay import rules_line

if TYPE_CHECKING:
    from rich.text import Text

SHOWN_ROWS: Final = 40
HEADS: Final = (
    HPA._replace(meaning=f"{HPA.meaning}; `?`: today's row is not to be relied on"),
    Head.of(SWEEP_SUMMARY["settings"], "SETTINGS"),
    Head.of(SWEEP_SUMMARY["days"], "DAYS"),
    Head("POD-HOURS", "a week's pod-hours under today's settings"),
    Head("COST", "money for a week's requested hours under today's settings"),
    Head(
        "SATURATED",
        "a week's minutes with a pod at its ceiling, under today's settings; open: it is not known",
    ),
    Head("UNSERVED", "a week's work that was cut off, in units times seconds"),
    Head("RESCALES", "a week's rescales under today's settings"),
    Head(
        "MISSING",
        "a week's pod-hours short of today's target or a stated capacity, today -> under CHEAPEST",
    ),
    Head("SAVES", "what CHEAPEST saves of the cost; without prices, of the pod-hours"),
    Head(
        "CHEAPEST",
        "the cheapest setting with no more saturated time, unserved or waiting work than today's: "
        "a hint, no advice",
        left=True,
        folds=True,
    ),
)


@dataclass(frozen=True, slots=True)
class SweepReport(Report):
    """A sweep; `out` is its folder."""

    result: SweepResult
    out: str

    def verdict(self) -> str:
        """Return on how many HPAs another setting is cheaper."""
        result = self.result
        hpas, settings = result.hpas.height, result.settings.height
        cheaper = self.frame().filter(pl.col("saving_pct") > 0).height
        return (
            f"{counted(hpas, 'HPA')} under {counted(settings, 'setting')}; {cheaper:,} have a "
            "cheaper setting with no more saturated time, unserved or waiting work than today's"
        )

    def body(self, view: View) -> Iterator[str | Text | Grid]:
        """Generate the HPAs."""
        if self.result.hpas.height:
            yield "Today's settings, in a week (DAYS were simulated), and the cheapest setting:"
        frame = self.frame()
        yield _grid(frame)
        if not frame["usable"].fill_null(value=True).all():
            yield "?: today's row is not to be relied on (why_not in results.parquet)"
        if (frame["ceiling"] == OPEN).any():
            yield (
                "open: no ceiling of its pods is known; CHEAPEST is above none of the assumed ones "
                f"({CEILINGS_PCT[0]}% to {CEILINGS_PCT[-1]}% of the highest usage seen) for longer"
            )
        if frame["pod_hours_recorded_per_week"].null_count() < frame.height:
            yield BESIDE
        yield from _edges(self.result, frame)
        yield from confidence_told(self.result)
        if frame.height:
            yield "CHEAPEST does not limit MISSING; check that column as well"
        if self.result.parameters["skipped"]:
            skipped = len(self.result.parameters["skipped"])
            yield ""
            yield f"skipped: {counted(skipped, 'HPA')} (why: on stderr)"

    def basis(self) -> list[str]:
        """Return rules and model."""
        result = self.result
        units, unit = result.hpas["unit"].n_unique(), result.parameters["block"]["unit"]
        return [
            rules_line(result.evidence),
            f"swept: {counted(units, 'unit')}, setting 0 is today's, judged by the {unit}; the "
            "rules are exact, the pods and their work are modelled (docs/simulation.md)"
            f"{lens_told(result.evidence)}",
        ]

    def hints(self) -> list[str]:
        """Return the commands that read the sweep."""
        # Without any work of pods nothing says when they are at a ceiling.
        knows = self.result.hpas["ceiling"].is_in(["recorded", "given", OPEN]).any()
        measure = "saturated_minutes" if knows else "short_pod_hours"
        out = shlex.quote(self.out)
        return [
            f"{self.out}: settings, hpas, results and blocks as Parquet; go on with",
            f"  hpabatch recommend {out} --slo '{measure}<10/week'",
            f"  hpabatch plot {out} --front --out pictures/",
        ]

    def frame(self) -> pl.DataFrame:
        """Return one row per HPA."""
        return summarize_sweep(self.result)

    def metadata(self) -> Mapping[str, str]:
        """Return the evidence."""
        return self.result.evidence

    def layout(self) -> Layout:
        """Return how the JSON document is written."""
        return Layout(keys=1, values=1)

    def document(self) -> dict[str, Any]:
        """Return evidence, parameters, settings and HPAs."""
        return {
            "out": self.out,
            "evidence": self.result.evidence,
            "parameters": self.result.parameters,
            "settings": Rows(self.result.settings),
            "hpas": Rows(self.frame()),
        }


def _grid(summary: pl.DataFrame) -> Grid:
    many = many_clusters(summary)
    rows = [
        (
            row_label(row, many) + ("" if row["usable"] else " ?"),
            str(row["settings"]),
            _number(row["days"]),
            _today(row, "pod_hours"),
            _number(row["cost_per_week"]),
            "open" if row["ceiling"] == OPEN else _today(row, "saturated_minutes"),
            _number(row["unserved_per_week"]),
            _today(row, "rescales"),
            _missing(row),
            nonempty(percent(row["saving_pct"], 1)),
            row["cheapest"] or "-",
        )
        for row in summary.head(SHOWN_ROWS).iter_rows(named=True)
    ]
    more = summary.height - SHOWN_ROWS
    words = f"… and {counted(more, 'more HPA')}: --output csv shows all" if more > 0 else ""
    grid = Grid(HEADS, rows, words, frame=summary, columns=SWEEP_SUMMARY.columns)
    priced = summary["cost_per_week"].null_count() < summary.height
    return grid if priced else grid.without("COST")


def _today(row: Mapping[str, Any], measure: str) -> str:
    """Return a week's measure under today's setting, with what was recorded if that differs."""
    modelled, recorded = row[f"{measure}_per_week"], row[f"{measure}_recorded_per_week"]
    digits = 0 if max(modelled or 0.0, recorded or 0.0) >= 100 else 1
    return beside(_number(modelled), modelled, recorded, digits)


def _missing(row: Mapping[str, Any]) -> str:
    today, cheapest = row["short_pod_hours_per_week"], row["cheapest_short_pod_hours_per_week"]
    if cheapest is None or row["cheapest"] == "today":
        return _number(today)
    return f"{_number(today)} -> {_number(cheapest)}"


def _edges(result: SweepResult, frame: pl.DataFrame) -> Iterator[str]:
    """Yield which cheapest settings are at an edge of the grid."""
    edges = grid_edges(result.settings)
    chosen = frame["cheapest"].drop_nulls().unique(maintain_order=True)
    found = dict.fromkeys(text for name in chosen for text in edges.get(name, ()))
    if found:
        yield f"edge of the grid: {', '.join(found)}: a wider grid may have a better setting"


def confidence_told(result: SweepResult) -> Iterator[str]:
    """Yield how many HPAs can get advice of each confidence, at most, under the default SLO."""
    goal = Goal("pod_hours", parse_goal(DEFAULT_SLO).slos)
    found = Counter(prospects(result, RecommendOptions(goal)).values())
    told = [f"{found[c]} {c}" for c in CONFIDENCES if found[c]]
    told += [f"{found[None]} none" if found[None] else ""]
    if result.hpas.height:
        yield (
            f"confidence that advice can have: {', '.join(filter(None, told))} (`hpabatch "
            "recommend` says why)"
        )


def _number(value: float | None) -> str:
    return "-" if value is None else number(value, 0 if abs(value) >= 100 else 1)
