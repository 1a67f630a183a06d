"""The result of `hpabatch advise`: what to change, what that comes to, how sure it is."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from hpabatch.engine.advise.answer import CHANGE, KEEP, NONE
from hpabatch.engine.advise.bounds import changes_told
from hpabatch.engine.advise.confidence import CONFIDENCES
from hpabatch.engine.advise.frames import advice_frame
from hpabatch.engine.advise.objective import MINUTES_AN_HOUR
from hpabatch.engine.advise.request import AdviseRequest, RecommendRequest
from hpabatch.engine.advise.run import Recommendation
from hpabatch.engine.advise.unit import KEY, MOST_AT_MAX, Key, key_of
from hpabatch.engine.columns.sweep import ADVICE
from hpabatch.engine.sweep.result import WEEK_HOURS
from hpabatch.model.options import flag
from hpabatch.model.printable import counted, printable
from hpabatch.model.times import show_duration
from hpabatch.report.base import HPA, Grid, Head, View, label, many_clusters
from hpabatch.report.numbers import percent
from hpabatch.report.recommend import RecommendReport, measure_cell, of_ceilings

if TYPE_CHECKING:
    from rich.text import Text

SHOWN_CHANGES: Final = 10
SHOWN_OTHERS: Final = 3
_RANK: Final = {confidence: k for k, confidence in enumerate(CONFIDENCES)}
_CORES: Final = "core_hours"
_MEASURES: Final = ("cost", _CORES, "pod_hours")
HEADS: Final = (
    HPA,
    Head("CHANGE", "what changes in the spec, old -> new", left=True, folds=True),
    Head("CONFIDENCE", ADVICE["confidence"].meaning, left=True),
    Head("SAVES", "saving of the objective on the judged blocks, which it was not chosen on"),
    Head("MISSING", "missing pod-hours in the judged blocks, today -> recommended"),
    Head("RESCALES", "rescales in the judged blocks, today -> recommended"),
    Head(
        "SATURATED",
        "minutes with a pod at its ceiling there, today -> recommended; open: not known",
    ),
)


@dataclass(frozen=True, slots=True)
class AdviseReport(RecommendReport):
    """Advice from data in one command; `folder` holds everything that it rests on."""

    folder: str = ""
    asked: AdviseRequest | None = None

    def verdict(self) -> str:
        """Return how many HPAs should change, what that saves, and how sure it is."""
        items = self.found.items
        changes = [item for item in items if item.answer == CHANGE]
        if not changes:
            return f"none of {counted(len(items), 'HPA')} should change"
        sure = Counter(item.confidence for item in changes)
        told = ", ".join(f"{sure[c]} {c}" for c in CONFIDENCES if sure[c])
        saved = self._saved({item.key for item in changes})
        written = {item.key for item in self.found.written()}
        alone = self._saved(written) if 0 < len(written) < len(changes) else []
        return (
            f"{len(changes)} of {counted(len(items), 'HPA')} should change"
            + (f": saves {', '.join(saved)}" if saved else "")
            + f"; confidence {told}"
            + (f"; what is written saves {alone[0]}" if alone else "")
        )

    def _saved(self, keys: Collection[Key]) -> list[str]:
        """Return what some changes save, in money, cores or pods."""
        frame = advice_frame(self.found).filter(
            pl.struct(KEY).map_elements(lambda row: key_of(row) in keys, return_dtype=pl.Boolean())
        )
        parts: list[str] = []
        for name in _MEASURES:
            old, new = frame[f"{name}_today"], frame[f"{name}_choice"]
            if old.null_count() or (name == "pod_hours" and parts):
                continue
            week = WEEK_HOURS / frame["hours"]
            before, after = float((old * week).sum()), float((new * week).sum())
            saved, share = before - after, (1 - after / before) * 100 if before else 0.0
            parts.append(f"{_amount(name, saved, frame)} ({share:.1f}% of theirs)")
        return parts

    def body(self, view: View) -> Iterator[str | Text | Grid]:
        """Generate the changes, and one line for each other kind of answer."""
        frame = advice_frame(self.found)
        many = many_clusters(frame)
        rows = {(r["cluster"], r["namespace"], r["hpa"]): r for r in frame.iter_rows(named=True)}
        changes = sorted(self._of(CHANGE), key=lambda item: _first(item, rows[item.key]))
        if changes:
            told = [self._change(item, rows[item.key], many) for item in changes]
            left = len(changes) - SHOWN_CHANGES
            more = f"… and {left} more: --output csv shows all" if left > 0 else ""
            yield Grid(HEADS, told[:SHOWN_CHANGES], more, frame=frame, columns=ADVICE.columns)
            yield from of_ceilings(frame.filter(pl.col("answer") == CHANGE))
            yield from self._doubted(changes, rows, many)
        yield from self._others(KEEP, "keep", rows, many)
        yield from self._others(NONE, "no advice", rows, many)
        yield from self._at_max(rows, many)

    def _of(self, answer: str) -> list[Recommendation]:
        return [item for item in self.found.items if item.answer == answer]

    def _change(self, item: Recommendation, row: Mapping[str, Any], many: bool) -> tuple[str, ...]:
        specs, wanted = self.found.specs, item.wanted
        assert wanted is not None
        told = changes_told(specs.today(item.key), wanted, specs.flags[0])
        return (
            label(*item.key, with_cluster=many),
            ", ".join(told),
            item.confidence or "",
            percent(row["judged_saving_pct"], 1),
            measure_cell(row, "short_pod_hours", is_change=True),
            measure_cell(row, "rescales", is_change=True),
            measure_cell(row, "saturated_minutes", is_change=True),
        )

    def _doubted(
        self, changes: Sequence[Recommendation], rows: Mapping[Any, Any], many: bool
    ) -> Iterator[str]:
        """Yield why the first changes of each confidence below high are not surer."""
        doubted = [c for c in changes if c.confidence != CONFIDENCES[0]]
        shown: Counter[str | None] = Counter()
        for item in doubted:
            shown[item.confidence] += 1
            if shown[item.confidence] > SHOWN_OTHERS:
                continue
            row = rows[item.key]
            surer = f"; surer with {row['surer']}" if row["surer"] else ""
            name = printable(label(*item.key, with_cluster=many))
            yield f"{item.confidence}: {name}: {row['doubts']}{surer}"

    def _others(
        self, answer: str, words: str, rows: Mapping[Any, Any], many: bool
    ) -> Iterator[str]:
        """Yield the HPAs with an answer, the first of them with their reasons."""
        items = self._of(answer)
        if not items:
            return
        yield f"{words}: {counted(len(items), 'HPA')}"
        for item in items[:SHOWN_OTHERS]:
            sure = f" ({item.confidence})" if item.confidence else ""
            name, row = printable(label(*item.key, with_cluster=many)), rows[item.key]
            surer = f"; surer with {row['surer']}" if row["surer"] and answer == KEEP else ""
            yield f"  {name}{sure}: {row['reasons']}{surer}"
        if len(items) > SHOWN_OTHERS:
            yield f"  … and {len(items) - SHOWN_OTHERS} more: --output csv shows all"

    def _at_max(self, rows: Mapping[Any, Any], many: bool) -> Iterator[str]:
        """Yield the HPAs whose maxReplicas binds, which no saving can show; the longest first."""
        bound = []
        for item in self.found.items:
            row = rows[item.key]
            minutes, hours = row["at_max_minutes_today"], row["hours"]
            if minutes and hours and minutes > MOST_AT_MAX * hours * MINUTES_AN_HOUR:
                bound.append((-minutes / hours, item.key, minutes / MINUTES_AN_HOUR, hours))
        for _, key, wanted, hours in sorted(bound)[:SHOWN_OTHERS]:
            name = printable(label(*key, with_cluster=many))
            yield (
                f"at maxReplicas: {name} wanted more for {wanted:.1f} of the {hours:.0f} judged "
                "hours; `hpabatch plan` says what it would take"
            )
        if len(bound) > SHOWN_OTHERS:
            yield f"  … and {len(bound) - SHOWN_OTHERS} more: --output csv shows all"

    def hints(self) -> Sequence[str]:
        """Return where patches and everything else lie, and what to type next."""
        kept = {item.key for item in self.found.written()}
        left = Counter(c.confidence for c in self._of(CHANGE) if c.key not in kept)
        more = [
            f"not written: {counted(left[confidence], 'change')} of {confidence} confidence "
            f"(--accept {confidence})"
            for confidence in CONFIDENCES
            if left[confidence]
        ]
        place = shlex.quote(f"{self.folder}/sweep")
        return [
            *self.written,
            *more,
            f"next: hpabatch recommend {place}{self._asked()}; hpabatch plot {place}",
        ]

    def _asked(self) -> str:
        """Return the options with which `recommend` gives the same answers."""
        request = self.asked or AdviseRequest()
        words = [word for slo in self.found.options.goal.slos for word in ("--slo", slo.text)]
        for name, option in RecommendRequest.options().items():
            value = getattr(request, name)
            if name == "slo" or value == option.default:
                continue
            values = value if isinstance(value, tuple) else (value,)
            shown = (show_duration(v) if option.kind == "duration" else str(v) for v in values)
            words += [word for text in shown for word in (flag(name, option), text)]
        return f" {shlex.join(words)}" if words else ""

    def basis(self) -> list[str]:
        """Return rules, what was asked for, and the defaults that stand behind it."""
        request, options = self.found.result.parameters["request"], self.found.options
        grid = " ".join(request.get("grid", ()))
        return [
            *RecommendReport.basis(self),
            f"settings: {grid} (--grid); lens {request.get('lens', 'none')} (--lens); nothing "
            f"changes for a saving below {options.rules.least_saving_pct:g}% on the training "
            "blocks (--least-saving); "
            f"written: changes of {options.accept} confidence"
            + ("" if options.accept == CONFIDENCES[0] else " or better")
            + " (--accept)",
        ]


def _first(item: Recommendation, row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what changes are sorted by: the surest, of these the largest saving."""
    saved = (row["judged_today"] or 0.0) - (row["judged_choice"] or 0.0)
    return _RANK[item.confidence or CONFIDENCES[-1]], -saved, item.key


def _amount(name: str, saved: float, changed: pl.DataFrame) -> str:
    """Return a saving a week: money with its currency, cores, or pods."""
    if name == "cost":
        currency = changed["currency"].drop_nulls().to_list()
        return " ".join([f"{saved:,.2f}", *currency[:1], "a week"])
    if name == _CORES:
        return f"{saved / WEEK_HOURS:,.2f} requested cores on average"
    return f"{saved / WEEK_HOURS:,.2f} pods on average"
