"""The result of `hpabatch gate`: what exceeds a limit, what is not known, what changes for whom."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import polars as pl

from hpabatch.engine.columns.findings import FINDINGS
from hpabatch.engine.columns.gate import BASE, GATE, HEAD
from hpabatch.engine.gate.run import SAME, GateResult, Key
from hpabatch.engine.replay.summary import KEY
from hpabatch.model.printable import counted
from hpabatch.report.base import (
    HPA,
    Fault,
    Grid,
    Head,
    Output,
    Result,
    Rows,
    View,
    label,
    many_clusters,
)
from hpabatch.report.findings import faults_of
from hpabatch.report.forms import markdown_text
from hpabatch.report.numbers import number
from hpabatch.report.replay import evidence_lines

MARKER: Final = "<!-- hpabatch gate -->"
"""First line of the comment, by which a job finds the one to update."""
MOST_BYTES: Final = 65_000
"""Of a comment: GitHub takes 65,536 characters."""
_ROWS: Final = (200, 100, 50, 20, 10, 5, 2, 1, 0)
_LONGEST: Final = 600  # characters of a cell


def _told(measure: str, value: float | None) -> str:
    return number(value, 2 if measure == "cost" else 1).removesuffix(".0")


def _pair(measure: str, row: Any) -> str:
    """Return `12 -> 14`, `12` where both are the same, "" where nothing is known."""
    before, after = (_told(measure, row[f"{end}{measure}"]) for end in (BASE, HEAD))
    if before == after:
        return before
    return f"{before or '-'} -> {after or '-'}"


def _keyed(key: Key | None) -> dict[str, Any]:
    return dict(zip(KEY, key or (None,) * len(KEY), strict=True))


def _short(text: object) -> str:
    told = str(text or "")
    return told if len(told) <= _LONGEST else f"{told[:_LONGEST]}…"


HEADS: Final = (
    HPA,
    Head.of(GATE["change"], "CHANGE", left=True),
    Head.of(GATE["settings"], "SETTINGS", _short, left=True, folds=True),
    *(
        Head(name, f"{meaning}: base -> head", partial(_pair, measure), left=True,
             needs=f"{HEAD}{measure}")
        for measure, name, meaning in (
            ("replica_hours", "REPLICA-HOURS", "the simulated size over time"),
            ("cost", "COST", "money for the requested hours of the simulated pods"),
            ("saturated_minutes", "SATURATED", "minutes in which a pod is at its ceiling"),
            ("at_max_minutes", "AT MAX", "minutes in which maxReplicas holds it"),
            ("rescales", "RESCALES", "number of rescales"),
        )
    ),
    Head("FINDINGS", "findings of its manifests: base -> head",
         partial(_pair, "findings"), left=True),
    Head("", "`?`: nothing trustworthy can be said", lambda row: "?" if row["unknown"] else ""),
)  # fmt: skip
EXCEEDED_HEADS: Final = (
    Head("EXCEEDED", "the HPA, or the sum over all", 0, left=True, folds=True),
    Head("LIMIT", "the limit", 1, left=True),
    Head("BASE", "the measure with the settings of base", 2),
    Head("HEAD", "the measure with the settings of head", 3),
)
UNKNOWN_HEADS: Final = (
    Head("NOT KNOWN", "the HPA", 0, left=True, folds=True),
    Head("BECAUSE", "why nothing trustworthy can be said of it", 1, _short, left=True, folds=True),
)
UNREAD_HEADS: Final = (
    Head("NOT READ", "file and line in head", 0, left=True, folds=True),
    Head("BECAUSE", "what is wrong with it", 1, _short, left=True, folds=True),
)
FINDING_HEADS, IGNORED_HEADS = (
    (
        Head.of(FINDINGS["severity"], title, left=True),
        HPA,
        Head.of(FINDINGS["finding"], "ID", left=True),
        Head.of(FINDINGS["why"], "WHY", _short, left=True, folds=True),
    )
    for title in ("NEW FINDING", "NEWLY IGNORED")
)


@dataclass(frozen=True, repr=False)
class Gate(GateResult, Result):
    """What a change of manifests does, held against limits; `most`: rows of each table shown."""

    most: int | None = None
    __repr__ = Result.__repr__

    @property
    def verdict(self) -> str:
        names = self.rows.filter(pl.col("change") != SAME).select(KEY[1:]).n_unique()
        parts = [f"{counted(names, 'HPA')} of {self.hpas:,} differ{'s' * (names == 1)}"]
        unread = f"{counted(len(self.unread), 'document')} of head not read or refused"
        parts += [unread] * bool(self.unread)
        parts += [f"{counted(len(self.exceeded), 'limit')} exceeded"] * bool(self.exceeded)
        known = " (allowed)" if self.allow_unknown else ""
        parts += [f"{len(self.unknown):,} not known{known}"] * bool(self.unknown)
        parts += [counted(self.findings.height, "new finding")] * bool(self.findings.height)
        ignored = f"{counted(self.ignored.height, 'finding')} newly ignored"
        parts += [ignored] * bool(self.ignored.height)
        parts += [f"{counted(self.fixed, 'finding')} fixed"] * bool(self.fixed)
        return f"gate {'passes' if self.passes else 'fails'}: {', '.join(parts)}"

    @property
    def frame(self) -> pl.DataFrame:
        return self.rows

    def _label(self, key: Key | None) -> str:
        if key is None:
            return "all together"
        return label(*key, with_cluster=many_clusters(self.rows))

    def body(self, view: View) -> Iterator[str | Grid]:
        grids = [
            Grid.of(
                UNREAD_HEADS,
                [(item.entry.place, "; ".join(item.complaints)) for item in self.unread],
                self.most,
            ),
            Grid.of(
                EXCEEDED_HEADS,
                [(self._label(e.key), e.limit.text,
                  *(_told(e.limit.measure, value) for value in (e.base, e.head)))
                 for e in self.exceeded],
                self.most,
            ),
            Grid.of(
                UNKNOWN_HEADS,
                [(self._label(key), why) for key, why in sorted(self.unknown.items())],
                self.most,
            ),
            Grid.of(HEADS, self.rows, self.most, frame=self.rows, columns=GATE.columns),
            Grid.of(FINDING_HEADS, self.findings, self.most),
            Grid.of(IGNORED_HEADS, self.ignored, self.most),
        ]  # fmt: skip
        for k, grid in enumerate(grid for grid in grids if grid.rows or grid.more):
            yield from ("", grid)[k == 0 :]

    def basis(self) -> list[str]:
        if not self.evidence:
            return ["manifests alone: nothing was simulated (--history)"]
        own = {k.removesuffix("_from"): v for k, v in self.evidence.items() if k[-3:] != "_to"}
        simulated = "simulated: the rules are exact, the pods and their work are modelled"
        return [*evidence_lines(own), f"{simulated} (docs/simulation.md)"]

    def document(self) -> dict[str, Any]:
        return {
            "passes": self.passes,
            "hpas": Rows(self.rows),
            "exceeded": Rows(
                _keyed(e.key) | {"limit": e.limit.text, "base": e.base, "head": e.head}
                for e in self.exceeded
            ),
            "unread": Rows(
                {"source": item.entry.source, "line": item.entry.line, "result": item.result,
                 "reason": "; ".join(item.complaints)}
                for item in self.unread
            ),
            "unknown": Rows(_keyed(key) | {"reason": why} for key, why in self.unknown.items()),
            "findings": Rows(self.findings),
            "ignored": Rows(self.ignored),
            "evidence": dict(self.evidence),
        }  # fmt: skip

    def own(self, output: Output, view: View) -> str | bytes | None:
        if output is not Output.markdown or self.most is not None:
            return None
        for most in _ROWS:
            text = f"{MARKER}\n\n{markdown_text(replace(self, most=most), view)}"
            if len(text.encode()) < MOST_BYTES:
                break
        return text

    def faults(self) -> Iterator[Fault]:
        for item in self.unread:
            entry, text = item.entry, "; ".join(item.complaints)
            yield Fault("gate_unread", "", text, entry.source, entry.line, part=entry.source)
        told = []
        for key, limit, *values in ((e.key, e.limit, e.base, e.head) for e in self.exceeded):
            before, after = (_told(limit.measure, value) or "unknown" for value in values)
            told.append((key, "gate_limit", f"{limit.text}: {before} -> {after}", limit.text))
        told += [(key, "gate_unknown", why, "") for key, why in self.unknown.items()]
        for key, finding, text, part in told:
            place = ("", 0) if key is None else self.places.get((key[1], key[2]), ("", 0))
            ignored = finding == "gate_unknown" and self.allow_unknown
            name = "" if key is None else self._label(key)
            yield Fault(finding, name, text, *place, ignored, part)
        yield from faults_of(self.findings)
        yield from faults_of(self.ignored, ignored=True)
