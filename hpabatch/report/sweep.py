"""The result of `hpabatch sweep`: one row per HPA, with its cheapest setting."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final

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
    Result,
    Rows,
    View,
    skipped_line,
)
from hpabatch.report.lens import lens_told
from hpabatch.report.numbers import BESIDE, beside, nonempty, number, percent
from hpabatch.report.replay import rules_line

SHOWN_ROWS: Final = 40
HEADS: Final = (
    HPA._replace(
        meaning=f"{HPA.meaning}; `?`: today's row is not to be relied on",
        value=lambda row: row["label"] + ("" if row["usable"] else " ?"),
    ),
    Head.of(SWEEP_SUMMARY["settings"], "SETTINGS"),
    Head.of(SWEEP_SUMMARY["days"], "DAYS", lambda days: _number(days)),
    Head("POD-HOURS", "a week's pod-hours under today's settings",
         lambda row: _today(row, "pod_hours")),
    Head("COST", "money for a week's requested hours under today's settings", "cost_per_week",
         lambda cost: _number(cost), needs="cost_per_week"),
    Head("SATURATED", "a week's minutes with a pod at its ceiling, under today's settings; open: "
         "it is not known",
         lambda row: "open" if row["ceiling"] == OPEN else _today(row, "saturated_minutes")),
    Head("UNSERVED", "a week's work that was cut off, in units times seconds", "unserved_per_week",
         lambda unserved: _number(unserved)),
    Head("RESCALES", "a week's rescales under today's settings",
         lambda row: _today(row, "rescales")),
    Head("MISSING", "a week's pod-hours short of today's target or a stated capacity, today -> "
         "under CHEAPEST", lambda row: _missing(row)),
    Head("SAVES", "what CHEAPEST saves of the cost; without prices, of the pod-hours", "saving_pct",
         lambda pct: nonempty(percent(pct, 1))),
    Head("CHEAPEST", "the cheapest setting with no more saturated time, unserved or waiting work "
         "than today's: a hint, no advice", "cheapest", lambda name: name or "-", left=True,
         folds=True),
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class SweepScreen(SweepResult, Result):
    """A sweep as it is shown.

    Attributes:
        settings: one row per setting; 0 is today's.
        hpas: one row per HPA.
        results: one row per HPA and setting, with all measures (docs/output.md).
        blocks: one row per HPA, setting and week (of a short history day).
        digest: that of its files; "": it is not kept.
        out: its folder.
    """

    digest: str = ""
    out: str = ""
    layout: ClassVar[Layout] = Layout(keys=1, values=1)
    __repr__ = Result.__repr__

    @property
    def verdict(self) -> str:
        hpas, settings = self.hpas.height, self.settings.height
        cheaper = self.frame.filter(pl.col("saving_pct") > 0).height
        return (
            f"{counted(hpas, 'HPA')} under {counted(settings, 'setting')}; {cheaper:,} have a "
            "cheaper setting with no more saturated time, unserved or waiting work than today's"
        )

    @property
    def frame(self) -> pl.DataFrame:
        return self.summary

    @cached_property
    def summary(self) -> pl.DataFrame:
        """One row per HPA: today's measures, and the cheapest setting that harms no more."""
        return summarize_sweep(self)

    def body(self, view: View) -> Iterator[str | Grid]:
        if self.hpas.height:
            yield "Today's settings, in a week (DAYS were simulated), and the cheapest setting:"
        frame = self.frame
        yield Grid.of(HEADS, frame, SHOWN_ROWS, frame=frame, columns=SWEEP_SUMMARY.columns)
        if not frame["usable"].fill_null(value=True).all():
            yield "?: today's row is not to be relied on (why_not in results.parquet)"
        if (frame["ceiling"] == OPEN).any():
            yield (
                "open: no ceiling of its pods is known; CHEAPEST is above none of the assumed ones "
                f"({CEILINGS_PCT[0]}% to {CEILINGS_PCT[-1]}% of the highest usage seen) for longer"
            )
        if frame["pod_hours_recorded_per_week"].null_count() < frame.height:
            yield BESIDE
        yield from _edges(self, frame)
        yield from confidence_told(self)
        if frame.height:
            yield "CHEAPEST does not limit MISSING; check that column as well"
        yield ""
        yield from skipped_line(self.parameters["skipped"])

    def basis(self) -> list[str]:
        result = self
        units, unit = result.hpas["unit"].n_unique(), result.parameters["block"]["unit"]
        return [
            rules_line(result.evidence),
            f"swept: {counted(units, 'unit')}, setting 0 is today's, judged by the {unit}; the "
            "rules are exact, the pods and their work are modelled (docs/simulation.md)"
            f"{lens_told(result.evidence)}",
        ]

    def hints(self) -> list[str]:
        # Without any work of pods nothing says when they are at a ceiling.
        knows = self.hpas["ceiling"].is_in(["recorded", "given", "fitted", OPEN]).any()
        measure = "saturated_minutes" if knows else "short_pod_hours"
        out = shlex.quote(self.out)
        return [
            f"{self.out}: settings, hpas, results and blocks as Parquet; go on with",
            f"  hpabatch recommend {out} --slo '{measure}<10/week'",
            f"  hpabatch plot {out} --front --out pictures/",
        ]

    def document(self) -> dict[str, Any]:
        return {
            "out": self.out,
            "evidence": self.evidence,
            "parameters": self.parameters,
            "settings": Rows(self.settings),
            "hpas": Rows(self.frame),
        }


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
