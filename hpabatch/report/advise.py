"""The result of `hpabatch advise`: what to change, what that comes to, how sure it is."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Final

import polars as pl

from hpabatch.engine.advise.answer import CHANGE, EDGE, KEEP, NONE
from hpabatch.engine.advise.objective import (
    MINUTES_AN_HOUR,
    NO_SLO,
    SATURATED,
    short_number,
)
from hpabatch.engine.advise.request import CONFIDENCES, MEDIUM, AdviseRequest, RecommendRequest
from hpabatch.engine.advise.run import Recommendation
from hpabatch.engine.advise.unit import KEY, MOST_AT_MAX, TODAY_ID, Key, key_of
from hpabatch.engine.capacity.sums import MONTH_HOURS
from hpabatch.engine.columns.recorded import recorded_name
from hpabatch.engine.columns.sweep import ADVICE
from hpabatch.engine.fit.workload import OPEN
from hpabatch.engine.sweep.result import WEEK_HOURS
from hpabatch.model.options import flag
from hpabatch.model.printable import counted, printable
from hpabatch.model.times import show_duration
from hpabatch.report.base import HPA, Grid, Head, View, label, many_clusters, more, row_label
from hpabatch.report.numbers import percent
from hpabatch.report.recommend import Advice, measure_cell, of_ceilings, of_change
from hpabatch.report.replay import coarse, evidence_lines

SHOWN_CHANGES: Final = 10
SHOWN_OTHERS: Final = 3
_RANK: Final = {confidence: k for k, confidence in enumerate(CONFIDENCES)}
_CORES: Final = "core_hours"
_MEASURES: Final = ("cost", _CORES, "pod_hours")
_MOVES: Final = recorded_name("rescales")
MORE: Final = 1.5
"""Times the minutes of the judged days from which on those of all days are told, too."""
OFTEN: Final = 72.0
"""Recorded rescales a day that are told: one every 20 minutes."""
_NOUNS: Final = {_CORES: "requested cores", "pod_hours": "pods"}
HEADS: Final = (
    HPA,
    Head("CHANGE", "what changes in the spec, old -> new", "told", left=True, folds=True),
    Head.of(ADVICE["confidence"], "CONFIDENCE", lambda sure: sure or "", left=True),
    Head("SAVES", "saving of the objective on the judged blocks, which it was not chosen on",
         lambda row: of_change(row, "judged_saving_pct"), partial(percent, digits=1)),
    Head("MISSING", "pod-hours short of today's target or a stated capacity, in the judged blocks, "
         "today -> recommended", lambda row: measure_cell(row, "short_pod_hours")),
    Head("RESCALES", "rescales in the judged blocks, today -> recommended",
         lambda row: measure_cell(row, "rescales")),
    Head("SATURATED", "minutes with a pod at its ceiling there, today -> recommended; open: not "
         "known", lambda row: measure_cell(row, "saturated_minutes")),
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class DataAdvice(Advice):
    """Advice from a history in one command; `folder` holds everything that it rests on."""

    folder: str = ""
    history: str = ""
    asked: AdviseRequest = field(default_factory=AdviseRequest)

    @property
    def verdict(self) -> str:
        items = self.found.items
        changes = [item for item in items if item.answer == CHANGE]
        hpas = counted(len(items), "HPA")
        if not changes:
            return "; ".join([f"none of {hpas} should change", *self._beside()])
        saved = list(self._saved({item.key for item in changes}))
        written = {item.key for item in self.found.written()}
        some = written or {item.key for item in self.found.reviewed()}
        alone = list(self._saved(some)) if 0 < len(some) < len(changes) else []
        which = "what is written" if written else "what is to be reviewed"
        parts = [
            f"{len(changes)} of {hpas} should change" + (f": {', '.join(saved)}" if saved else ""),
            f"confidence {self._sure()}",
            *(f"{which} {text}" for text in alone[:1]),
            *self._beside(),
        ]
        return "; ".join(parts)

    def _beside(self) -> Iterator[str]:
        """Yield what is written where, and the HPA without advice that is saturated for longest."""
        yield from self.written
        none = [item.key for item in self._of(NONE) if item.key in self._today]
        today = {key: self._today[key] for key in none}
        shares = [(_saturated(row) / row["hours"], key) for key, row in today.items()]
        worst, key = max(shares, default=(0.0, ("", "", "")))
        if worst * WEEK_HOURS >= 1:
            minutes = short_number(worst * WEEK_HOURS)
            yield f"worst without advice: {self._name(key)}, {minutes} saturated minutes a week"

    @cached_property
    def _rows(self) -> dict[Key, dict[str, Any]]:
        return {key_of(row): row for row in self.table.iter_rows(named=True)}

    def _name(self, key: Key) -> str:
        return printable(label(*key, with_cluster=many_clusters(self.table)))

    @cached_property
    def _today(self) -> dict[Key, dict[str, Any]]:
        """Hours and measures of each HPA under today's setting; None: not always known."""
        blocks = self.found.result.blocks
        names = (*_MEASURES, SATURATED, recorded_name(SATURATED), _MOVES)
        today = blocks.filter((pl.col("setting_id") == TODAY_ID) & (pl.col("hours") > 0))
        summed = today.group_by(KEY, maintain_order=True).agg(
            pl.col("hours").sum(),
            *(
                pl.when(pl.col(name).null_count() == 0).then(pl.col(name).sum()).alias(name)
                for name in names
            ),
        )
        return {key_of(row): row for row in summed.iter_rows(named=True)}

    def _per_hour(self, name: str) -> dict[Key, float]:
        """Return what each HPA takes of a measure in an hour; empty: of one it is not known."""
        rows = self._today
        if any(row[name] is None for row in rows.values()):
            return {}
        return {key: row[name] / row["hours"] for key, row in rows.items()}

    def _saved(self, keys: Collection[Key]) -> Iterator[str]:
        """Yield what some changes save of all that the fleet takes, in money, cores or pods."""
        told = False
        for name in _MEASURES:
            per_hour = self._per_hour(name)
            if not per_hour or (name == "pod_hours" and told):
                continue
            now, saved = sum(per_hour.values()), 0.0
            for key in sorted(keys):
                row = self._rows[key]
                before, after = row[f"{name}_today"], row[f"{name}_choice"]
                if before and after is not None:
                    saved += per_hour.get(key, 0.0) * (1.0 - after / before)
            share, told = saved / now * 100 if now else 0.0, True
            currency = next((r["currency"] for r in self._rows.values() if r["currency"]), None)
            way, amount = "costs" if saved < 0 else "saves", _amount(name, abs(saved), currency)
            yield f"{way} {amount} ({abs(share):.1f}% of the fleet's)"

    def body(self, view: View) -> Iterator[str | Grid]:
        frame, rows, many = self.table, self._rows, many_clusters(self.table)
        changes = sorted(self._of(CHANGE), key=lambda item: _first(item, rows[item.key]))
        bound = self._bound()
        yield from self._at_max(bound)
        yield from self._restless()
        held = [item for item in bound[:SHOWN_OTHERS] if item.answer != CHANGE]
        shown = [*held, *changes]
        if shown:
            theirs = [rows[item.key] for item in shown]
            told = [
                row | {"label": row_label(row, many), "told": self._told(item, row)}
                for item, row in zip(shown, theirs, strict=True)
            ]
            yield Grid.of(HEADS, told, SHOWN_CHANGES, frame=frame, columns=ADVICE.columns)
            yield from of_ceilings(pl.DataFrame(theirs, schema=frame.schema))
        for item in changes[:SHOWN_CHANGES]:
            row = rows[item.key]
            whole = self._today.get(item.key)
            if _is_broken(row) and row["hours"] and whole is not None and _saturated(whole):
                urgent = f"{self.found.changes(item)}: {_urgent(row, whole)}"
                yield f"first: {self._name(item.key)}: {urgent}"
        for item in changes[:SHOWN_OTHERS]:
            notes = (note for note in item.notes if EDGE in note)
            yield from (f"note: {self._name(item.key)}: {note}" for note in notes)
        yield from self._doubted(changes, verbose=bool(view.legend))
        yield from self._others(KEEP, "keep")
        yield from self._others(NONE, "no advice")
        yield from self._total()

    def _of(self, answer: str) -> list[Recommendation]:
        return [item for item in self.found.items if item.answer == answer]

    def _told(self, item: Recommendation, row: Mapping[str, Any]) -> str:
        """Return what changes, and what is to be answered of an HPA that stays at maxReplicas."""
        changes, most = self.found.changes(item), item.today.max_replicas
        is_open = row["ceiling"] == OPEN
        lifts = item.wanted is not None and item.wanted.max_replicas > most
        if lifts or not _is_bound(row) or (changes and not is_open):
            return changes
        needs = "the reason is below"
        if is_open:
            needs = "state a pod's ceiling (hpabatch fit --init-plant), or raise maxReplicas"
        return f"{changes or item.answer}; at maxReplicas {most}: {needs}"

    def _doubted(self, changes: Sequence[Recommendation], *, verbose: bool) -> Iterator[str]:
        """Yield why the first changes of each confidence below high are not surer."""
        doubted = [c for c in changes if c.confidence != CONFIDENCES[0]]
        shown: Counter[str | None] = Counter()
        for item in doubted:
            shown[item.confidence] += 1
            if shown[item.confidence] > SHOWN_OTHERS and not verbose:
                continue
            yield f"{item.confidence}: {self._name(item.key)}"
            yield from (f"  {d.long if verbose else d.why}" for d in item.doubts)
            if verbose and (surer := self._rows[item.key]["surer"]):
                yield f"  surer with {surer}"
        hidden = sum(max(number - SHOWN_OTHERS, 0) for number in shown.values())
        if hidden and not verbose:
            yield f"  {more(hidden, '-v shows all')}"

    def _others(self, answer: str, words: str) -> Iterator[str]:
        """Yield the HPAs with an answer, the first of them with their reasons."""
        items = self._of(answer)
        if not items:
            return
        yield f"{words}: {counted(len(items), 'HPA')}"
        for item in items[:SHOWN_OTHERS]:
            sure = f" ({item.confidence})" if item.confidence else ""
            row = self._rows[item.key]
            surer = f"; surer with {row['surer']}" if row["surer"] and answer == KEEP else ""
            yield f"  {self._name(item.key)}{sure}: {row['reasons']}{surer}"
        if line := more(len(items) - SHOWN_OTHERS):
            yield f"  {line}"

    def _bound(self) -> list[Recommendation]:
        """Return the HPAs whose maxReplicas binds, those first that wanted more for longest."""
        bound = [item for item in self.found.items if _is_bound(self._rows[item.key])]

        def share(item: Recommendation) -> float:
            row = self._rows[item.key]
            return float(row["at_max_minutes_today"] / row["hours"])

        return sorted(bound, key=lambda item: (-share(item), item.key))

    def _at_max(self, bound: Sequence[Recommendation]) -> Iterator[str]:
        """Yield what no saving can show: HPAs whose maxReplicas binds."""
        for item in bound[:SHOWN_OTHERS]:
            row, name = self._rows[item.key], self._name(item.key)
            wanted = row["at_max_minutes_today"] / MINUTES_AN_HOUR
            yield (
                f"at maxReplicas: {name} wanted more for {wanted:.1f} of the {row['hours']:.0f} "
                f"judged hours; `hpabatch plan {shlex.join((self.history, name))}` says what it "
                "would take"
            )
        if line := more(len(bound) - SHOWN_OTHERS):
            yield f"  {line}"

    def _restless(self) -> Iterator[str]:
        """Yield the HPAs that were recorded to change their size often, the most restless first."""
        rates = [
            ((row[_MOVES] or 0.0) / row["hours"] * 24.0, key) for key, row in self._today.items()
        ]
        often = sorted(((-rate, key) for rate, key in rates if rate >= OFTEN))
        for rate, key in often[:SHOWN_OTHERS]:
            moves = f"changed its size {-rate:,.0f} times a day, as recorded"
            yield f"many rescales: {self._name(key)} {moves}"
        if line := more(len(often) - SHOWN_OTHERS):
            yield f"  {line}"

    def _total(self) -> Iterator[str]:
        """Yield what the fleet takes now and with all changes, and the part that is not judged."""
        for name in _MEASURES:
            per_hour = self._per_hour(name)
            now = least = most = unjudged = 0.0
            for item in self.found.items:
                theirs = per_hour.get(item.key, 0.0)
                low, high = self._left(item, name)
                now, least, most = now + theirs, least + theirs * low, most + theirs * high
                unjudged += theirs if item.answer == NONE else 0.0
            if not now:
                continue
            is_money, currency = name == "cost", next(iter(self._rows.values()))["currency"]
            hours = MONTH_HOURS if is_money else 1.0
            words = f"{currency or ''} a month".strip() if is_money else _NOUNS[name]
            proposed = _ends(f"{least * hours:,.1f}", f"{most * hours:,.1f}")
            change = _ends(f"{least / now - 1:+.1%}", f"{most / now - 1:+.1%}")
            yield (
                f"fleet: {now * hours:,.1f} -> {proposed} {words} with all changes ({change}); "
                f"not judged: {unjudged * hours:,.1f} ({unjudged / now:.1%})"
            )

    def _left(self, item: Recommendation, name: str) -> tuple[float, float]:
        """Return which part is left of what an HPA takes of a measure, at the least and most.

        The interval is known only of the saving of the objective.
        """
        row = self._rows[item.key]
        before, after = row[f"{name}_today"], row[f"{name}_choice"]
        if item.answer != CHANGE or not before or after is None:
            return 1.0, 1.0
        ends = [row["saving_low_pct"], row["saving_high_pct"]]
        known = ends if name == self.found.options.goal.minimize else []
        left = [after / before, *(1.0 - pct / 100.0 for pct in known if pct is not None)]
        return min(left), max(left)

    def hints(self) -> Sequence[str]:
        kept = {item.key for item in self.found.written()}
        left = Counter(c.confidence for c in self._of(CHANGE) if c.key not in kept)
        unwritten = [
            f"not written: {counted(left[confidence], 'change')} of {confidence} confidence "
            f"(--accept {confidence})"
            for confidence in CONFIDENCES
            if left[confidence] and not (confidence == MEDIUM and self.folder)
        ]
        place = shlex.quote(f"{self.folder}/sweep")
        slos = "".join(f" --slo {shlex.quote(slo)}" for slo in self.asked.slo if slo != NO_SLO)
        edit = " --hpas MANIFESTS --patches FOLDER (edits copies of them)" if kept else ""
        return [
            *unwritten,
            f"next: hpabatch recommend {place}{self._asked()}{edit}; hpabatch plot {place}{slos}",
        ]

    def _asked(self) -> str:
        """Return the options with which `recommend` gives the same answers."""
        words: list[str] = []
        for name, option in RecommendRequest.options().items():
            value = getattr(self.asked, name)
            if value == option.default:
                continue
            values = value if isinstance(value, tuple) else (value,)
            shown = (show_duration(v) if option.kind == "duration" else str(v) for v in values)
            words += [word for text in shown for word in (flag(name, option), text)]
        return f" {shlex.join(words)}" if words else ""

    def basis(self) -> list[str]:
        request, options = self.found.result.parameters["request"], self.found.options
        grid = " ".join(request.get("grid", ()))
        parameters = [evidence_lines(self.evidence)[1], coarse(self.evidence)]
        return [
            *Advice.basis(self),
            f"settings: {grid} (--grid); lens {request.get('lens', 'none')} (--lens); nothing "
            f"changes for a saving below {options.rules.least_saving_pct:g}% on the training "
            "blocks (--least-saving); "
            f"written: changes of {options.accept} confidence"
            + ("" if options.accept == CONFIDENCES[0] else " or better")
            + " (--accept)",
            *filter(None, ["; ".join(filter(None, parameters))]),
        ]


def _first(item: Recommendation, row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what changes are sorted by: a broken SLO, then the surest, then the largest saving."""
    saved = (row["judged_today"] or 0.0) - (row["judged_choice"] or 0.0)
    return not _is_broken(row), _RANK[item.confidence or CONFIDENCES[-1]], -saved, item.key


def _is_bound(row: Mapping[str, Any]) -> bool:
    """Say whether maxReplicas bound for long in the judged blocks under today's setting."""
    most = MOST_AT_MAX * (row["hours"] or 0.0) * MINUTES_AN_HOUR
    return (row["at_max_minutes_today"] or 0.0) > most > 0


def _is_broken(row: Mapping[str, Any]) -> bool:
    """Say whether today's setting breaks the SLO."""
    return row["slo_today_judged"] is False or row["slo_today_training"] is False


def _saturated(row: Mapping[str, Any], modelled: str = SATURATED) -> float:
    """Return today's saturated minutes as recorded; where that is not known, by the model."""
    recorded = row[recorded_name(SATURATED)]
    return float(row[modelled] or 0.0) if recorded is None else float(recorded)


def _urgent(row: Mapping[str, Any], whole: Mapping[str, Any]) -> str:
    """Return what a change comes to that ends a broken SLO, a week; `whole` is all of today's."""
    week, parts = WEEK_HOURS / row["hours"], []
    after = row[f"{SATURATED}_choice"]
    if after is not None and row[f"{SATURATED}_today"] is not None:
        before = _saturated(row, f"{SATURATED}_today")
        numbers = f"{short_number(before * week)} -> {short_number(after * week)}"
        # What pods at their ceiling could not do is not in the work that was recorded.
        known = " of the known work" if before > after and _is_bound(row) else ""
        parts.append(f"saturated minutes{known} {numbers}")
        all_along = _saturated(whole) / whole["hours"]
        if all_along * row["hours"] > MORE * before:
            parts[0] += f" in the judged days ({short_number(all_along * WEEK_HOURS)} in all days)"
    before, after = row["pod_hours_today"], row["pod_hours_choice"]
    if before is not None and after is not None:
        least = "at least " if after > before and _is_bound(row) else ""
        parts.append(f"{least}{(after - before) * week:+,.0f} pod-hours a week")
    return ", ".join(parts)


def _ends(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


def _amount(name: str, per_hour: float, currency: str | None) -> str:
    """Return a saving: money a month with its currency, cores, or pods."""
    if name == "cost":
        return f"{per_hour * MONTH_HOURS:,.2f} {currency or ''}".strip() + " a month"
    return f"{per_hour:,.2f} {_NOUNS[name]} on average"
