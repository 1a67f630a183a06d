"""Plant file of a fit's open questions: each with the best guess and its evidence."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from hpabatch.engine.fit.kinds import Question
from hpabatch.engine.fit.run import Fitted, FleetFit
from hpabatch.engine.fit.workload import FITTED, GUESSED, NOT_IDENTIFIED, OPEN
from hpabatch.model.plant import BACKLOG, DIVISIBLE, TOTAL
from hpabatch.model.printable import counted, printable_line
from hpabatch.report.base import label
from hpabatch.report.fit import amount_text

NAMES: Final = 3
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
        more = f" and {len(names) - NAMES} more" if len(names) > NAMES else ""
        evidence = self.asked[0].question.evidence
        if len(names) > 1:
            evidence = f"{evidence} (of the first)"
        told = f"{', '.join(names[:NAMES])}{more}: {evidence}"
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
