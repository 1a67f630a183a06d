"""The result of `hpabatch fit`: one row per HPA in the table, else one row per fact."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final

import polars as pl

from hpabatch.engine.columns.simulate import FIT_FACTS
from hpabatch.engine.fit.kinds import Question
from hpabatch.engine.fit.run import Fitted, FleetFit
from hpabatch.engine.fit.workload import FITTED, GUESSED, NOT_IDENTIFIED, OPEN, RECORDED, Fact
from hpabatch.model.plant import BACKLOG, DIVISIBLE, TOTAL
from hpabatch.model.printable import counted, printable_line
from hpabatch.report.base import (
    HPA,
    Grid,
    Head,
    Layout,
    Line,
    Result,
    Rows,
    View,
    label,
    skipped_rows,
)
from hpabatch.report.lens import lens_told, ratio_lines
from hpabatch.report.numbers import memory, significant

DIGITS: Final = 9
"""Significant digits of a fact's numbers: what follows is not known, and differs by machine."""

HEADS: Final = (
    HPA,
    Head("SIGNAL", "the first signal of the plant", "signal", left=True),
    Head("WORK", "kind of the signal's work", "kind",
         lambda fact: "-" if fact is None else fact.note.replace("_", " "), left=True),
    Head("BASE", "what a pod uses without work, with its 95 % interval", "base",
         lambda fact: _base_cell(fact), left=True),
    Head("CEILING", "the most that a pod can use: a limit, or the highest seen", "ceiling",
         lambda fact: _ceiling_cell(fact), left=True),
    Head("START-UP", "time from a pod's creation until it is ready", "startup",
         lambda fact: _startup_cell(fact), left=True),
    Head("PODS", "number of ready pods", "pods",
         lambda fact: _formatted(fact, "{0.low:g}-{0.high:g}"), left=True),
    Head("PIECES", "resolution of the work", "pieces",
         lambda fact: _formatted(fact, "{0.value:g}s"), left=True),
    Head("PLANT", "yes; weak (base taken to be 0); no (cannot be simulated)", "plant", left=True),
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class Fits(Result):
    """What is known of each workload."""

    result: FleetFit
    layout: ClassVar[Layout] = Layout(keys=2)

    @property
    def verdict(self) -> str:
        hpas = self.result.hpas
        weak = sum(_plant_cell(item) == "weak" for item in hpas)
        without = sum(not item.has_plant for item in hpas)
        parts = [f"{counted(len(hpas), 'HPA')}: {len(hpas) - without} with a plant"]
        if weak:
            parts.append(f"{weak} of them without a known base")
        if without:
            parts.append(f"{without} without a plant (why: on stderr)")
        return ", ".join(parts)

    @property
    def frame(self) -> pl.DataFrame:
        return self.facts

    @cached_property
    def facts(self) -> pl.DataFrame:
        """One row per HPA and fact: value, interval, source, note; also `problem`, with a note."""
        rows = [
            (item.cluster, item.namespace, item.hpa, item.has_plant, *_values(fact))
            for item in self.result.hpas
            for fact in (*item.facts, *map(_problem, item.problems))
        ]
        return pl.DataFrame(rows, schema=FIT_FACTS.schema, orient="row")

    @cached_property
    def hpas(self) -> pl.DataFrame:
        """One row per HPA: whether it has a plant, and what is in the way."""
        rows = [
            (item.cluster, item.namespace, item.hpa, item.has_plant, list(item.problems))
            for item in self.result.hpas
        ]
        names = dict.fromkeys(("cluster", "namespace", "hpa"), pl.String())
        schema = names | {"plant": pl.Boolean(), "problems": pl.List(pl.String)}
        return pl.DataFrame(rows, schema=schema, orient="row")

    @property
    def evidence(self) -> dict[str, str]:
        return self.result.evidence

    def body(self, view: View) -> Iterator[str | Grid]:
        yield from ratio_lines(self.evidence)
        several = len({item.cluster for item in self.result.hpas}) > 1
        rows = [_row(item, several) for item in self.result.hpas]
        yield Grid.of(HEADS, rows, frame=self.frame, columns=FIT_FACTS.columns)

    def basis(self) -> list[str]:
        told = lens_told(self.evidence).removeprefix("; ")
        return [told] if told else []

    def hints(self) -> list[str]:
        return ["all facts, each with its source: -o json, -o csv"]

    def document(self) -> dict[str, Any]:
        return {
            "evidence": dict(self.evidence),
            "hpas": Rows(_item(item) for item in self.result.hpas),
            "skipped": skipped_rows(self.result.skipped),
            "warnings": Line(list(self.result.warnings)),
        }


def _problem(reason: str) -> Fact:
    return Fact("problem", None, "", None, None, NOT_IDENTIFIED, reason)


def _values(fact: Fact) -> tuple[object, ...]:
    value, low, high = (rounded(v) for v in (fact.value, fact.low, fact.high))
    return fact.name, value, fact.unit, low, high, fact.source, fact.note


def rounded(value: float | None) -> float | None:
    """Return a number with DIGITS significant digits."""
    return None if value is None else float(f"{value:.{DIGITS}g}")


def _item(item: Fitted) -> dict[str, object]:
    names = ("name", "value", "unit", "low", "high", "source", "note")
    return {
        "cluster": item.cluster,
        "namespace": item.namespace,
        "hpa": item.hpa,
        "plant": item.has_plant,
        "problems": list(item.problems),
        "facts": [dict(zip(names, _values(fact), strict=True)) for fact in item.facts],
    }


# ---- cells ---------------------------------------------------------------------------------------


def _row(item: Fitted, several: bool) -> dict[str, Any]:
    """Return the facts that are shown of an HPA and its first signal."""
    signal = _first(item)
    others = len(item.signals) - 1
    more = f" +{others}" if others > 0 else ""
    own = {name: item.fact(f"signals.{signal}.{name}") for name in ("kind", "base", "ceiling")}
    names = {"startup": "pods.startup", "pods": "pods.ready", "pieces": "resolution"}
    return {
        "label": label(item.cluster, item.namespace, item.hpa, with_cluster=several),
        "signal": signal.removeprefix("resource/") + more if signal else "-",
        **own,
        **{name: item.fact(fact) for name, fact in names.items()},
        "plant": _plant_cell(item),
    }


def _first(item: Fitted) -> str:
    """Return the signal that is shown: the first one of which pods do work, else the first."""
    names = item.signals
    for kinds in (("divisible", "per_pod"), ("backlog", "total")):
        for name in names:
            kind = item.fact(f"signals.{name}.kind")
            if kind is not None and kind.note in kinds:
                return name
    return names[0] if names else ""


def _plant_cell(item: Fitted) -> str:
    if not item.has_plant:
        return "no"
    unknown = (f.source == NOT_IDENTIFIED for f in item.facts if f.name.endswith(".base"))
    return "weak" if any(unknown) else "yes"


def amount_text(value: float, unit: str) -> str:
    """Return a number for people: cores in m below one, bytes in Mi."""
    if unit.startswith("bytes"):
        return memory(value)
    if unit.startswith("cores") and abs(value) < 1:
        return f"{significant(value * 1000, 3)}m" if value else "0"
    return significant(value)


def _base_cell(fact: Fact | None) -> str:
    if fact is None:
        return "-"
    if fact.source == NOT_IDENTIFIED:
        below = "" if fact.high is None else f", ≤ {amount_text(fact.high, fact.unit)}"
        return f"not identified{below}"
    value = amount_text(fact.value or 0.0, fact.unit)
    if fact.low is None or fact.high is None:
        return f"{value} ({fact.source})"
    return f"{value} ({amount_text(fact.low, fact.unit)} to {amount_text(fact.high, fact.unit)})"


def _ceiling_cell(fact: Fact | None) -> str:
    if fact is None:
        return "-"
    if fact.value is None:
        return "open" if fact.source == OPEN else "none"
    word = "limit" if fact.source == RECORDED else fact.source
    return f"{amount_text(fact.value, fact.unit)} {word}"


def _formatted(fact: Fact | None, form: str) -> str:
    return "-" if fact is None or fact.value is None else form.format(fact)


def _startup_cell(fact: Fact | None) -> str:
    if fact is None or fact.value is None:
        return "-"
    if fact.low is None or fact.high is None:
        return f"{fact.value:.3g}s {fact.source}"
    return f"{fact.value:.3g}s ({fact.low:.3g}-{fact.high:.3g})"


# ---- the plant file of open questions ------------------------------------------------------------

_NAMES: Final = 3
"""HPAs that a line names; of others it tells their number."""

_HEAD: Final = """\
# Kinds of the metrics of {history}, and base and ceiling of its pods' usage, that nobody has stated
# (docs/scenarios.md). Correct them, then
#   hpabatch simulate {history} {plants}
# Object and External metrics are total (does not depend on the pods) or backlog (a queue; rate is
# what one pod takes out of it). Pods metrics are divisible (the pods share it) or per_pod.
"""
_OPEN: Final = "# Guessed; what stands here counts as stated from now on:"
_SHOWN: Final = "# Not asked, as the data show them, or the name of a rate per pod says so:"
_UNSURE: Final = (
    "# What a pod uses without work (base), and at most (ceiling), where nothing says so: 0 is\n"
    "# taken for the base, ceilings are assumed around the highest usage seen, which is shown.\n"
    "# Take out the # of what you state better:"
)
_UNKNOWN: Final = (
    "# Without a guess, so their HPAs may not be simulated; take out the # and state a kind:"
)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question, and the HPA that it is of."""

    hpa: Fitted
    question: Question


@dataclass(frozen=True, slots=True)
class _Line:
    """One metric: a signal or a glob of some, its answer, and the HPAs of the questions."""

    glob: str
    asked: Sequence[_Asked]

    @property
    def kind(self) -> str:
        first = self.asked[0].question
        of_pods = first.signal.partition("/")[0] not in ("object", "external")
        return first.kind or (DIVISIBLE if of_pods else TOTAL)

    def text(self, several: bool) -> str:
        """Return the line: the signal, its kind, and why in a comment."""
        parts = [f"kind: {self.kind}"]
        rates = [a.question.rate_milli for a in self.asked if a.question.rate_milli]
        if self.kind == BACKLOG and rates:
            parts.append(f"rate: {_quantity(round(statistics.median(rates)))}/s")
        names = [label(a.hpa.cluster, a.hpa.namespace, a.hpa.hpa, with_cluster=several)
                 for a in self.asked]  # fmt: skip
        more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
        evidence = self.asked[0].question.evidence
        if len(names) > 1:
            evidence = f"{evidence} (of the first)"
        told = f"{', '.join(names[:_NAMES])}{more}: {evidence}"
        key = json.dumps(self.glob, ensure_ascii=True)
        return f"{key}: {{{', '.join(parts)}}}  # {printable_line(told)}"


def plant_file(found: FleetFit, history: str, plants: Sequence[str]) -> str:
    """Return a plant file with every question of a fit, one line a metric.

    It can be read as it stands: guesses are entries, what the data show and what has no guess are
    comments. A line is for all HPAs with such a metric, unless those of some are known otherwise.
    `plants`: the plant files that a simulation needs, as a shell takes them, this one the last;
    what the others state is not asked again.
    """
    several = len({item.cluster for item in found.hpas}) > 1
    asked = [_Asked(item, question) for item in found.hpas for question in item.questions]
    guessed = [a for a in asked if a.question.source == GUESSED]
    unknown = [a for a in asked if not a.question.kind]
    shown = [a for a in asked if a.question.kind and a.question.source != GUESSED]
    known = {_subject(a.question) for a in (*shown, *unknown)}
    common = [a for a in guessed if _subject(a.question) not in known]
    apart = [a for a in guessed if _subject(a.question) in known]
    names = " ".join(f"--plant {printable_line(name)}" for name in plants)
    lines = [_HEAD.format(history=printable_line(history), plants=names)]
    if guessed:
        lines.append(_OPEN)
    if common:
        lines.append("- signals:")
        lines += [f"    {line.text(several)}" for line in _lines(common)]
    for line in _lines(apart):
        hpas = sorted({_hpa(a.hpa, several) for a in line.asked})
        lines += [f"- hpa: {json.dumps(hpas)}", "  signals:", f"    {line.text(several)}"]
    if not guessed:
        lines.append("[]  # nothing is guessed: entries stand in place of this")
    for title, some in ((_SHOWN, shown), (_UNKNOWN, unknown)):
        if some:
            lines += ["", title]
            lines += [f"# - signals: {{{_commented(line, several)}" for line in _lines(some)]
    if unsure := [line for item in found.hpas for line in _unsure(item, several)]:
        lines += ["", _UNSURE, *unsure]
    return "\n".join(lines) + "\n"


def _commented(line: _Line, several: bool) -> str:
    entry, _, comment = line.text(several).partition("}  # ")
    return f"{entry}}}}}  # {comment}"


def _unsure(item: Fitted, several: bool) -> Iterator[str]:
    """Yield commented lines of the signals whose base or ceiling is not known."""
    for signal in item.signals:
        base, ceiling = (item.fact(f"signals.{signal}.{name}") for name in ("base", "ceiling"))
        parts, why = [], []
        if base is not None and base.source == NOT_IDENTIFIED:
            most = "" if base.high is None else f", at most {amount_text(base.high, base.unit)}"
            parts.append("base: 0")
            why.append(f"base not identified{most}")
        highest = item.fact(f"signals.{signal}.highest")
        is_open = ceiling is not None and ceiling.source == OPEN
        if is_open and highest is not None and highest.value is not None:
            parts.append(f"ceiling: {_quantity(round(highest.value * 1000))}")
            why.append(f"ceiling: no limit is known; {highest.note.partition('; ')[0]}")
        if parts:
            hpa, key = (json.dumps(text) for text in (_hpa(item, several), signal))
            stated = f"hpa: {hpa}, signals: {{{key}: {{{', '.join(parts)}}}}}"
            yield f"# - {{{stated}}}  # {printable_line('; '.join(why))}"


def verdict_of(found: FleetFit) -> str:
    """Return how many questions a plant file has, and of how many HPAs."""
    hpas = [item for item in found.hpas if any(q.source == GUESSED for q in item.questions)]
    open_ones = [q for item in found.hpas for q in item.questions]
    guessed = {_subject(q) for q in open_ones if q.source == GUESSED}
    shown = {_subject(q) for q in open_ones if q.source == FITTED}
    unknown = {_subject(q) for q in open_ones if not q.kind}
    unsure = [item for item in found.hpas if any(_unsure(item, several=False))]
    return (
        f"{counted(len(guessed), 'metric')} guessed (of {counted(len(hpas), 'HPA')}), "
        f"{len(shown)} shown by the data, {len(unknown)} without a guess; base or "
        f"ceiling of {counted(len(unsure), 'HPA')} not known"
    )


def _subject(question: Question) -> tuple[str, str, bool]:
    """Return what makes questions one: metric type, metric, whether it has a selector."""
    type_name = question.signal.partition("/")[0]
    return type_name, question.metric, question.signal.endswith("}")


def _lines(asked: Sequence[_Asked]) -> list[_Line]:
    """Return a line for each metric and kind, in order of their names."""
    groups: dict[tuple[object, ...], list[_Asked]] = {}
    for one in asked:
        key = (*_subject(one.question), one.question.kind)
        groups.setdefault(key, []).append(one)
    found = [_Line(_glob([a.question for a in some]), some) for some in groups.values()]
    return sorted(found, key=lambda line: line.glob)


def _glob(questions: Sequence[Question]) -> str:
    """Return the one name of the signals, or a pattern of them."""
    names = {q.signal for q in questions}
    first = questions[0].signal
    if len(names) == 1:
        return first
    type_name, has_selector = first.partition("/")[0], first.endswith("}")
    bare = [name[: -_selector_length(name)] if has_selector else name for name in sorted(names)]
    words = {name.split("/", 3)[-1] if type_name == "object" else name for name in bare}
    end = "{*}" if has_selector else ""
    (word,) = words
    return f"object/*/{word}{end}" if type_name == "object" else f"{word}{end}"


def _selector_length(name: str) -> int:
    return len(name) - name.index("{")


def _hpa(item: Fitted, several: bool) -> str:
    place = f"{item.namespace}/{item.hpa}"
    return f"{item.cluster}/{place}" if several else place


def _quantity(milli: int) -> str:
    whole, rest = divmod(milli, 1000)
    return str(whole) if rest == 0 else f"{milli}m"
