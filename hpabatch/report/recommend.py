"""The result of `hpabatch recommend`: change, keep or no advice for each HPA, and why."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final

import polars as pl

from hpabatch.engine.advise.answer import CHANGE, KEEP, NONE
from hpabatch.engine.advise.frames import advice_frame, candidates_frame, folds_frame, parameters
from hpabatch.engine.advise.objective import saving_told
from hpabatch.engine.advise.request import CONFIDENCES
from hpabatch.engine.advise.run import Recommendations
from hpabatch.engine.advise.unit import Key, is_held, key_of
from hpabatch.engine.columns.recorded import recorded_name
from hpabatch.engine.columns.sweep import ADVICE
from hpabatch.engine.fit.workload import OPEN
from hpabatch.model.plant import CEILINGS_PCT
from hpabatch.model.printable import counted, printable
from hpabatch.report.base import (
    HPA,
    Grid,
    Head,
    Line,
    Result,
    Rows,
    View,
    many_clusters,
    row_label,
)
from hpabatch.report.numbers import BESIDE, beside, number, percent, share
from hpabatch.report.recommend_files import recommendation_files
from hpabatch.report.replay import rules_line

SHOWN_ROWS: Final = 40
SHOWN_REASONS: Final = 10
FEW_BLOCKS: Final = 5
"""Of fewer blocks there are fewer than 126 different resamples."""
_TIME_FORMAT: Final = "%Y-%m-%dT%H:%M:%SZ"  # blocks begin at whole seconds
_ORDER: Final = {CHANGE: 0, KEEP: 1, NONE: 2}
_WHERE: Final = {
    "both": "in the worst block and on average",
    "worst": "in the worst block",
    "mean": "on average",
}
HEADS: Final = (
    HPA,
    Head.of(ADVICE["answer"], "ANSWER", left=True),
    Head.of(ADVICE["confidence"], "CONFIDENCE", lambda sure: sure or "", left=True),
    Head("CHANGE", "what changes in the spec, old -> new", "changes", left=True, folds=True),
    Head("POD-HOURS", "pods over time in the judged blocks, today -> recommended",
         lambda row: measure_cell(row, "pod_hours")),
    Head("COST", "money for the requested hours in the judged blocks, today -> recommended",
         lambda row: measure_cell(row, "cost"), needs="cost_today"),
    Head("SATURATED", "minutes with a pod at its ceiling in the judged blocks; open: not known",
         lambda row: measure_cell(row, "saturated_minutes")),
    Head("MISSING", "pod-hours short of today's target or a stated capacity, in judged blocks",
         lambda row: measure_cell(row, "short_pod_hours")),
    Head("RESCALES", "number of rescales in the judged blocks",
         lambda row: measure_cell(row, "rescales")),
    Head("SAVES", "saving of the objective on the judged blocks, not used for the choice",
         lambda row: saved_cell(row)),
    Head("TRAINING", "saving on the training blocks, with its interval over resampled blocks",
         lambda row: _training(row)),
    Head("BETTER", "share of the resampled training blocks in which it is better than today's",
         lambda row: of_change(row, "better_share"), share),
    Head("WALK", "blocks of the walk-forward in which the choice was better than today's, of those "
         "with another choice",
         lambda row: f"{row['folds_better']}/{row['folds_changed']}" if _is_change(row) else ""),
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class Advice(Result):
    """Changes that a sweep recommends; every answer has its reasons.

    Attributes:
        found: the answers.
        written: lines about files.
        warnings: go to stderr, too.
    """

    found: Recommendations
    written: Sequence[str] = ()
    warnings: Sequence[str] = ()
    csv_times: ClassVar[str] = _TIME_FORMAT

    @property
    def evidence(self) -> dict[str, str]:
        asked = json.dumps(parameters(self.found), sort_keys=True)
        sweep = {"sha256:sweep": self.found.options.sweep} if self.found.options.sweep else {}
        return {**self.found.result.evidence, **sweep, "recommend": asked}

    @property
    def verdict(self) -> str:
        answers = Counter(item.answer for item in self.found.items)
        answers[NONE] += len(self.found.skipped)
        told = ", ".join(f"{answers[answer]:,} {answer}" for answer in _ORDER)
        return f"{counted(answers.total(), 'HPA')}: {told}" + (
            f" (confidence of the changes: {sure})" if (sure := self._sure()) else ""
        )

    def _sure(self) -> str:
        sure = Counter(item.confidence for item in self.found.items if item.answer == CHANGE)
        return ", ".join(f"{sure[c]} {c}" for c in CONFIDENCES if sure[c])

    @property
    def frame(self) -> pl.DataFrame:
        return self.table

    @cached_property
    def table(self) -> pl.DataFrame:
        """One row per HPA: answer, setting, measures before and after, reasons."""
        return advice_frame(self.found)

    @cached_property
    def candidates(self) -> pl.DataFrame:
        """One row per unit and setting: how it stands, and whether it is on the front."""
        return candidates_frame(self.found)

    @cached_property
    def folds(self) -> pl.DataFrame:
        """One row per unit and fold: chosen on the blocks before, judged on one."""
        return folds_frame(self.found)

    @cached_property
    def patches(self) -> dict[str, str]:
        """By `namespace.hpa.yaml` (and `.json`) the patches and certificates as strings."""
        return recommendation_files(self.found)[0]

    def body(self, view: View) -> Iterator[str | Grid]:
        frame = self.table
        yield from _saved(self.found, frame)
        yield ""
        advised = frame.filter(pl.col("answer") != NONE)
        if advised.height:
            yield _grid(self.found, advised, frame)
            yield from of_ceilings(advised)
            yield from coarse_told(advised["training_blocks"].min(), ", and BETTER says little")
            yield ""
        if frame.height:
            doubts = {item.key: item.doubts for item in self.found.items}
            told = {
                k: "; ".join(d.long if view.legend else d.why for d in doubts[k]) for k in doubts
            }
            yield from _reasons(frame, told)

    def basis(self) -> list[str]:
        unit = self.found.result.parameters["block"]["unit"]
        return [
            rules_line(self.evidence),
            _asked(self.found),
            f"blocks: the {unit}s of the history; a setting is chosen on the first, the training "
            "blocks, and checked on the last, the judged ones",
        ]

    def hints(self) -> Sequence[str]:
        return self.written

    def document(self) -> dict[str, Any]:
        return {
            "evidence": self.evidence,
            "parameters": parameters(self.found),
            "hpas": Rows(self.table, _TIME_FORMAT),
            "candidates": Rows(self.candidates, _TIME_FORMAT),
            "folds": Rows(self.folds, _TIME_FORMAT),
            "written": Line(list(self.written)),
            "warnings": Line(list(self.warnings)),
        }


def coarse_told(fewest: object, more: str = "") -> Iterator[str]:
    """Yield a warning where there are too few training blocks for resamples to differ."""
    if isinstance(fewest, int) and fewest < FEW_BLOCKS:
        yield (
            f"Of as few as {fewest} training blocks resamples are few different ones: intervals "
            f"are too narrow{more}."
        )


def _asked(found: Recommendations) -> str:
    options, rules = found.options, found.options.rules
    bounds = ", ".join(f"{k}={v}" for k, v in options.bounds.texts.items()) or "none"
    limits = (
        f"the SLO must hold {_WHERE[rules.robust]} with {rules.margin:.0%} of it left free"
        if options.goal.slos
        else f"without --slo nothing limits what least {options.goal.minimize} does to users"
    )
    return (
        f"asked for: {options.goal} ({options.goal.source}); {limits}; bounds {bounds}; "
        f"seed {rules.seed}"
    )


def _saved(found: Recommendations, frame: pl.DataFrame) -> Iterator[str]:
    changed = frame.filter(pl.col("answer") == CHANGE)
    measure = found.options.goal.minimize
    before, after = f"{measure}_today", f"{measure}_choice"
    if changed.height and before in frame.columns and changed[before].null_count() == 0:
        old, new = float(changed[before].sum()), float(changed[after].sum())
        saving = 100 * (1 - new / old) if old else 0.0
        words = f" ({abs(saving):.1f}% {'less' if saving >= 0 else 'more'})" if old else ""
        yield (
            f"the changes together, on their judged blocks: {measure} {old:,.1f} -> {new:,.1f}"
            f"{words}"
        )


def _grid(found: Recommendations, advised: pl.DataFrame, frame: pl.DataFrame) -> Grid:
    many = many_clusters(frame)
    changes = {item.key: found.changes(item) for item in found.items if item.answer == CHANGE}
    rows = [
        row | {"label": row_label(row, many), "changes": changes.get(key_of(row), "")}
        for row in _sorted(advised).iter_rows(named=True)
    ]
    return Grid.of(HEADS, rows, SHOWN_ROWS, frame=frame, columns=ADVICE.columns)


def of_ceilings(advised: pl.DataFrame) -> Iterator[str]:
    """Yield what `open` and the brackets mean, where they may be shown."""
    if (advised["ceiling"] == OPEN).any():
        yield (
            f"open: no ceiling of its pods is known; ceilings are assumed, {CEILINGS_PCT[0]}% to "
            f"{CEILINGS_PCT[-1]}% of the highest usage seen, and a limit of saturated_minutes is "
            "relative to today's peaks (docs/recommend.md)"
        )
    if advised["pod_hours_recorded"].null_count() < advised.height:
        yield BESIDE


def _sorted(frame: pl.DataFrame) -> pl.DataFrame:
    """Sort changes first, those that save most at the top."""
    order = frame.with_columns(
        order=pl.col("answer").replace_strict(_ORDER, return_dtype=pl.Int8),
        saved=pl.col("judged_today") - pl.col("judged_choice"),
    )
    names = ["order", "saved", "cluster", "namespace", "hpa"]
    down = [False, True, False, False, False]
    return order.sort(names, descending=down, nulls_last=True)


def _is_change(row: Mapping[str, Any]) -> bool:
    return row["answer"] == CHANGE  # type: ignore[no-any-return]


def of_change(row: Mapping[str, Any], name: str) -> Any:
    """Return what is known of a change only."""
    return row[name] if _is_change(row) else None


def saved_cell(row: Mapping[str, Any]) -> str:
    """Return what a change saves; of one that costs, how much more."""
    saved = of_change(row, "judged_saving_pct")
    if saved is None or saved >= 0:
        return percent(saved, 1)
    is_held_at_max = is_held(row["at_max_minutes_today"], row["hours"])
    return saving_told([saved], "", is_lower_bound=is_held_at_max)


def measure_cell(row: Mapping[str, Any], measure: str) -> str:
    """Return a measure of both settings; today's with what was recorded if that differs."""
    if measure == "saturated_minutes" and row["ceiling"] == OPEN:
        return "open"
    today, after = row[f"{measure}_today"], of_change(row, f"{measure}_choice")
    if today is None:
        return ""
    before = beside(number(today), today, row.get(recorded_name(measure)), 1)
    return before if after is None else f"{before} -> {number(after)}"


def _training(row: Mapping[str, Any]) -> str:
    saving = percent(of_change(row, "training_saving_pct"), 1)
    if _is_change(row) and row["saving_low_pct"] is not None:
        saving += f" ({row['saving_low_pct']:.1f} to {row['saving_high_pct']:.1f})"
    return saving


def _reasons(frame: pl.DataFrame, doubts: Mapping[Key, str]) -> Iterator[str]:
    many = many_clusters(frame)
    for answer, words in ((CHANGE, "Change"), (KEEP, "Keep"), (NONE, "No advice")):
        rows = _sorted(frame.filter(pl.col("answer") == answer))
        if not rows.height:
            continue
        first = ", the first of them" if rows.height > SHOWN_REASONS else ""
        yield f"{words} ({rows.height}{first}):"
        for row in rows.head(SHOWN_REASONS).iter_rows(named=True):
            because = ", because" if answer == NONE else ":"
            notes = f" [{row['notes']}]" if row["notes"] else ""
            yield f"  {printable(row_label(row, many))}{because} {row['reasons']}{notes}"
            if told := doubts.get(key_of(row)):
                yield f"    {row['confidence'] or 'also'}: {told}"
            if row["surer"] and answer != NONE:
                yield f"    surer with: {row['surer']}"
        yield ""
