"""The result of `hpabatch fidelity`: controller score and plant score, one row per HPA.

What the scores leave to `advise` is told in the words of `advise`. JSON also has every signal's
score, and the totals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

import polars as pl

from hpabatch.engine.advise.answer import NONE
from hpabatch.engine.advise.doubts import refusals, score_doubts
from hpabatch.engine.advise.request import CONFIDENCES
from hpabatch.engine.advise.rules import confidence_of
from hpabatch.engine.columns.fidelity import FIDELITY_HPAS
from hpabatch.engine.fidelity.answer import RIGHT, UNTOLD, WRONG
from hpabatch.engine.fidelity.run import Fidelity
from hpabatch.engine.replay.summary import KEY
from hpabatch.model.printable import counted, printable
from hpabatch.report.base import (
    HPA,
    Grid,
    Head,
    Result,
    Rows,
    View,
    many_clusters,
    more,
    row_label,
    skipped_line,
    skipped_rows,
)
from hpabatch.report.lens import lens_lines, lens_rows, ratio_lines
from hpabatch.report.numbers import nonempty, share, significant, skill
from hpabatch.report.replay import evidence_lines, sizes_line

SHOWN_HPAS: Final = 40
SHOWN_REASONS: Final = 10

NO: Final = "no"
ANSWERS: Final = (RIGHT, WRONG, UNTOLD)

HEADS: Final = (
    HPA,
    Head("RESCALES", "number of recorded rescales", "controller_recorded_events"),
    Head("EXPLAINED", "share of the recorded changes that the rules decide, above chance",
         "controller_explained_share", lambda value: _share(value)),
    Head("WITHIN 1", "share of the ticks whose size is decided to within one",
         "controller_within_1_share", lambda value: _share(value), room=100),
    Head("SETTINGS", "whether the stated settings are the controller's; ?: cannot be told",
         "controller_answer", lambda answer: "?" if answer == UNTOLD else answer),
    Head("SIGNAL", "the worst of the signals that the HPA reads", "plant_signal",
         lambda signal: signal or "-", left=True, folds=True, room=120),
    Head("BASE", "what a pod uses without work; `?`: not identified", lambda row: _base(row),
         room=150),
    Head("CHANGES", "changes of ready pods: used/found", lambda row: _changes(row)),
    Head("SKILL", "of the predicted usage against usage as it was before; 1 is perfect",
         "plant_skill", skill),
    Head("95 %", "95 % interval of the skill", lambda row: _interval(row), room=150),
    Head("MEDIAN", "median error of the predicted usage", "plant_median_error_pct",
         lambda error: "-" if error is None else f"{error:.1f}%", room=100),
    Head("BIAS", "mean signed error of the predicted usage; + is too much", "plant_bias_pct",
         lambda error: "-" if error is None else f"{error:+.1f}%"),
    Head("ADVICE", "the highest confidence that the scores leave to `advise`; no: it gives none",
         lambda row: _most(row)),
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class FidelityScores(Fidelity, Result):
    """How far the rules and the plant of each HPA can be trusted.

    Attributes:
        hpas: one row per HPA: the controller score, that of its worst signal, and the advice.
        signals: one row per HPA and signal: the plant score.
        changes: one row per judged change of the number of pods.
        evidence: the versions, parameters and digests that the scores rest on.
    """

    __repr__ = Result.__repr__

    @property
    def verdict(self) -> str:
        most = Counter(_most(row) for row in self.hpas.iter_rows(named=True))
        told = [f"{c} for {most[c]:,}" for c in CONFIDENCES if most[c]]
        told += [f"{NONE} for {most[NO]:,}"] if most[NO] else []
        hpas = counted(self.totals.hpas, "HPA")
        return (
            f"{hpas}; highest confidence that the scores allow: {', '.join(told)}" if told else hpas
        )

    @property
    def frame(self) -> pl.DataFrame:
        return self.hpas

    def body(self, view: View) -> Iterator[str | Grid]:
        hpas = self.hpas
        yield from ratio_lines(self.evidence)
        yield from _total_lines(self)
        yield from lens_lines(self.lenses)
        yield ""
        if hpas.height:
            key = ["controller_recorded_events", *KEY]
            most = hpas.sort(key, descending=[True, False, False, False])
            columns = FIDELITY_HPAS.columns
            yield Grid.of(HEADS, most, SHOWN_HPAS, frame=hpas, columns=columns)
            yield ""
            yield from _answer_lines(hpas)
        yield from _limit_lines(hpas)
        yield ""
        yield from skipped_line(self.skipped)

    def basis(self) -> list[str]:
        p = self.parameters
        return [
            *evidence_lines(self.evidence),
            "good are settings that the recording does not refute, and a plant with "
            f"{p.fewest_changes} changes, skill {p.least_skill:g} with its interval above "
            f"{p.least_skill_low:g}, median error up to {p.most_median_error_pct:g} %, bias up to "
            f"{p.most_bias_pct:g} %",
        ]

    def document(self) -> dict[str, Any]:
        found, totals = self, self.totals
        return {
            "evidence": dict(found.evidence),
            "parameters": asdict(found.parameters),
            "totals": totals._asdict()
            | {
                "controller": totals.controller._asdict(),
                "pooled": None if totals.pooled is None else asdict(totals.pooled),
            },
            "hpas": Rows(found.hpas),
            "signals": Rows(found.signals),
            "lenses": lens_rows(found.lenses),
            "skipped": skipped_rows(found.skipped),
            "warnings": list(found.warnings),
        }


def _total_lines(found: Fidelity) -> Iterator[str]:
    totals, p = found.totals, found.parameters
    controller = totals.controller
    yield (
        f"Controller score: {controller.scored:,} of {counted(totals.hpas, 'HPA')} can be scored; "
        f"held replays decide {int(found.controller['explained'].sum()):,} of "
        f"{counted(int(found.controller['held'].sum()), 'recorded change')} in time "
        f"({found.controller['by_chance'].sum():,.0f} would match by chance)"
    )
    if controller.scored:
        yield sizes_line(controller)
    line = (
        f"Plant score: fitted on the first {p.split_share:.0%} of each HPA's ticks, judged on the "
        f"rest: {totals.plant_scored:,} of {counted(totals.hpas, 'HPA')} can be scored"
    )
    if totals.changes:
        line += f"; {totals.used:,} of {totals.changes:,} changes can be used"
    yield line
    pooled = totals.pooled
    if pooled is not None and pooled.skill is not None:
        yield (
            f"all changes of divisible work together: skill {skill(pooled.skill)} "
            f"({skill(pooled.low)} to {skill(pooled.high)}), mean error {pooled.error:.1%}, of "
            f"usage as it was before {pooled.persistence_error:.1%}"
        )


def _answer_lines(hpas: pl.DataFrame) -> Iterator[str]:
    """Yield how many settings are right or wrong, and what each HPA's recording can tell."""
    counts = {name: hpas.filter(pl.col("controller_answer") == name).height for name in ANSWERS}
    yield "Stated settings: " + ", ".join(f"{name} {count}" for name, count in counts.items()) + ":"
    many = many_clusters(hpas)
    for row in hpas.head(SHOWN_REASONS).iter_rows(named=True):
        told, why = row["controller_told_apart"], row["controller_answer_why"]
        parts = [row["controller_answer"], f"would show: {told}" if told else "", why or ""]
        yield f"  {printable(row_label(row, many))}: {'; '.join(filter(None, parts))}"
    if line := more(hpas.height - SHOWN_REASONS):
        yield f"  {line}"


def _changes(row: Mapping[str, Any]) -> str:
    used, changes = row["plant_used"], row["plant_changes"]
    return "-" if changes is None else f"{used}/{changes}"


def _interval(row: Mapping[str, Any]) -> str:
    low, high = row["plant_skill_low"], row["plant_skill_high"]
    return "-" if low is None else f"{skill(low)} to {skill(high)}"


def _most(row: Mapping[str, Any]) -> str:
    """Return the highest confidence that `advise` can have in an HPA with these scores."""
    return NO if any(refusals(row)) else confidence_of(score_doubts(row))


def _limit_lines(hpas: pl.DataFrame) -> Iterator[str]:
    """Yield why `advise` gives no advice on some HPAs, or has no high confidence."""
    many = many_clusters(hpas)
    reasons: dict[str, list[str]] = {}
    for row in hpas.iter_rows(named=True):
        told = [text.removeprefix("fidelity: ") for text in refusals(row)] or [
            doubt.long for doubt in score_doubts(row)
        ]
        line = f"  {printable(row_label(row, many))}: {'; '.join(told)}"
        reasons.setdefault(_most(row), []).append(line)
    for most in (NO, *reversed(CONFIDENCES[1:])):
        lines = reasons.get(most, [])
        if lines:
            first = ", the first of them" if len(lines) > SHOWN_REASONS else ""
            words = "No advice" if most == NO else f"At most {most} confidence"
            yield from ("", f"{words} ({len(lines)}{first}):", *lines[:SHOWN_REASONS])


def _base(row: Mapping[str, Any]) -> str:
    """Return the base, `?` where it was not identified."""
    if row["plant_base"] is None:
        return "-"
    return "?" if row["plant_base_source"] == "not identified" else significant(row["plant_base"])


def _share(value: float | None) -> str:
    return "0%" if value == 0 else nonempty(share(value))
