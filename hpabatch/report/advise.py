"""The result of `hpabatch advise`: what to change, what that comes to, how sure it is."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import polars as pl

from hpabatch.engine.advise.answer import CHANGE, EDGE, KEEP, NONE
from hpabatch.engine.advise.frames import amounts, today_sums
from hpabatch.engine.advise.objective import (
    MINUTES_AN_HOUR,
    NO_SLO,
    SATURATED,
    short_number,
)
from hpabatch.engine.advise.request import CONFIDENCES, MEDIUM, AdviseRequest, RecommendRequest
from hpabatch.engine.advise.run import Recommendation
from hpabatch.engine.advise.unit import Key, is_held, key_of
from hpabatch.engine.capacity.sums import MONTH_HOURS
from hpabatch.engine.columns.recorded import recorded_name
from hpabatch.engine.columns.sweep import ADVICE
from hpabatch.engine.fit.workload import OPEN
from hpabatch.engine.sweep.result import WEEK_HOURS
from hpabatch.model.options import flag
from hpabatch.model.printable import counted, printable
from hpabatch.model.times import show_duration
from hpabatch.report.amounts import Amount, fleet_amounts
from hpabatch.report.base import HPA, Grid, Head, View, label, many_clusters, more, row_label
from hpabatch.report.recommend import Advice, coarse_told, measure_cell, of_ceilings, saved_cell
from hpabatch.report.replay import coarse, evidence_lines

SHOWN_CHANGES: Final = 10
SHOWN_OTHERS: Final = 3
_RANK: Final = {confidence: k for k, confidence in enumerate(CONFIDENCES)}
_MOVES: Final = recorded_name("rescales")
MORE: Final = 1.5
"""Times the minutes of the judged days from which on those of all days are told, too."""
OFTEN: Final = 72.0
"""Recorded rescales a day that are told: one every 20 minutes."""
_NOUNS: Final = {"core_hours": "requested cores", "pod_hours": "pods"}
HEADS: Final = (
    HPA,
    Head("CHANGE", "what changes in the spec, old -> new", "told", left=True, folds=True),
    Head.of(ADVICE["confidence"], "CONFIDENCE", lambda sure: sure or "", left=True),
    Head("SAVES", "saving of the objective on the judged blocks, which it was not chosen on",
         lambda row: saved_cell(row)),
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
        hpas = counted(len(items) + len(self.found.skipped), "HPA")
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
        names = (SATURATED, recorded_name(SATURATED), _MOVES)
        return today_sums(self.found, names)

    @cached_property
    def _own(self) -> dict[Key, dict[str, dict[str, float]]]:
        return amounts(self.found)

    @property
    def _fleet(self) -> list[Amount]:
        answers = [(item.answer, self._own[item.key]) for item in self.found.items]
        return list(fleet_amounts(answers, len(answers) + len(self.found.skipped)))

    def _saved(self, keys: Collection[Key]) -> Iterator[str]:
        """Yield what some changes save of all that the fleet takes, in money, cores or pods."""
        told = False
        for fleet in self._fleet:
            if fleet.measure == "pod_hours" and told:
                continue
            own = [self._own[key].get(fleet.measure) for key in sorted(keys)]
            times = MONTH_HOURS if fleet.measure == "cost" else 1.0
            saved = times * sum(one["now"] - one["after"] for one in own if one is not None)
            way, told = "costs" if saved < 0 else "saves", True
            amount = f"{abs(saved):,.2f} {self._unit(fleet.measure, ' on average')}".rstrip()
            whole = "the fleet's"
            if fleet.known < fleet.asked:
                whole = f"what {fleet.known:,} of {fleet.asked:,} HPAs take"
            yield f"{way} {amount} ({abs(saved) / fleet.now:.1%} of {whole})"

    def _unit(self, measure: str, average: str = "") -> str:
        if measure != "cost":
            return f"{_NOUNS[measure]}{average}"
        currency = next((r["currency"] for r in self._rows.values() if r["currency"]), "")
        return f"{currency} a month".strip()

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
            told_rows = pl.DataFrame(theirs, schema=frame.schema)
            yield from of_ceilings(told_rows)
            yield from coarse_told(told_rows["training_blocks"].min())
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
            needs = "state a pod's ceiling (hpabatch fit --init-plant)"
            # (memory that pods do not share stays with more of them)
            of = {m.resource.name for m in item.today.metrics if m.resource is not None}
            needs += "" if of == {"memory"} else ", or raise maxReplicas"
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
        """Yield the HPAs with an answer, the first of them with their reasons.

        Those that could not be simulated have none, too.
        """
        items, skipped = self._of(answer), self.found.skipped if answer == NONE else []
        if not items and not skipped:
            return
        yield f"{words}: {counted(len(items) + len(skipped), 'HPA')}"
        for item in items[:SHOWN_OTHERS]:
            sure = f" ({item.confidence})" if item.confidence else ""
            row = self._rows[item.key]
            surer = f"; surer with {row['surer']}" if row["surer"] and answer == KEEP else ""
            yield f"  {self._name(item.key)}{sure}: {row['reasons']}{surer}"
        for one in skipped[:SHOWN_OTHERS]:
            yield f"  {self._name(one.key)}: {one.reason}"
        hidden = sum(max(len(some) - SHOWN_OTHERS, 0) for some in (items, skipped))
        if line := more(hidden):
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
        for fleet in self._fleet:
            ends = dict.fromkeys(f"{end:,.1f}" for end in (fleet.low, fleet.high))
            yield (
                f"fleet: {fleet.now:,.1f} -> {' to '.join(ends)} {self._unit(fleet.measure)} with "
                f"all changes ({fleet.change}; {fleet.covers}); not judged: {fleet.unjudged:,.1f} "
                f"({fleet.unjudged / fleet.now:.1%})"
            )

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
    return is_held(row["at_max_minutes_today"], row["hours"])


def _is_broken(row: Mapping[str, Any]) -> bool:
    """Say whether today's setting breaks the SLO."""
    return row["slo_today_judged"] is False or row["slo_today_training"] is False


def _saturated(row: Mapping[str, Any], modelled: str = SATURATED) -> float:
    """Return today's saturated minutes, recorded or modelled: the worse ones, as the SLO counts."""
    return max(float(row[name] or 0.0) for name in (modelled, recorded_name(SATURATED)))


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
