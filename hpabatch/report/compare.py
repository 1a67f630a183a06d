"""The result of `hpabatch compare`: the HPAs that differ, since when, how often and why.

Table and Markdown name the HPAs that differ most, the other forms all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import polars as pl

from hpabatch.engine.columns.compare import DIFFERENCES
from hpabatch.engine.compare.frames import DECIDES, EXPLAINS, FROM, TO
from hpabatch.engine.compare.run import VERSIONS, Comparison
from hpabatch.engine.replay.summary import KEY
from hpabatch.model.printable import counted
from hpabatch.report.base import HPA, Grid, Head, Result, Rows, View, label, row_label
from hpabatch.report.numbers import signed
from hpabatch.report.replay import evidence_lines

# The columns that tell a difference, the most telling first.
_TELLING: Final = (
    "binding",
    "error",
    "metric",
    "reason",
    "scaling_active",
    "scaling_limited",
    "able_to_scale",
    "proposal",
    "stabilized",
    "limited",
)
HEADS: Final = (
    HPA,
    Head.of(DIFFERENCES["first_ts"], "FIRST", "{:%Y-%m-%dT%H:%M:%SZ}".format, left=True),
    Head("SIZE", "the size at the first difference: what each side makes of it",
         lambda row: f"{_string(row['replicas'])}: {_change(row, 'desired')}", left=True),
    Head("RULE", "the binding rule of either side", lambda row: _telling(row), left=True,
         folds=True),
    Head("TICKS", "number of ticks that differ",
         lambda row: row["ticks_explained" if row["differs"] == EXPLAINS else "ticks_decided"],
         "{:,}".format),
    Head.of(DIFFERENCES["most"], "MOST", partial(signed, digits=0)),
    Head("HOURS", "difference of the decided sizes, in replica-hours", "replica_hours",
         partial(signed, digits=1)),
    Head("CHANGED BY", "the switch or the field that makes the first difference", "changed_by",
         lambda words: words or _NOT_FOUND, left=True, folds=True),
)  # fmt: skip
LEFT_OUT_HEADS: Final = (
    Head("LEFT OUT", "the HPA", 0, left=True, folds=True),
    Head("SIDE", "the side that it cannot be decided on", 1, left=True),
    Head("WHY", "the reason", 2, left=True, folds=True),
)
_NOT_FOUND: Final = "no single change"


@dataclass(frozen=True, repr=False)
class Compared(Comparison, Result):
    """What two sides decide differently, since when and why.

    Attributes:
        top: HPAs that table and Markdown name.
        strict: those that only explain themselves differently are among them.
    """

    top: int = 20
    strict: bool = False
    __repr__ = Result.__repr__

    @property
    def verdict(self) -> str:
        return headline(self)

    @property
    def frame(self) -> pl.DataFrame:
        return self.differences

    def body(self, view: View) -> Iterator[str | Grid]:
        comparison, rows = self, self._ranked()
        if rows.height:
            yield total_line(comparison)
            yield ""
            if comparison.compared == VERSIONS:
                yield "What changed:"
                yield from (f"  {count:,} × {words}" for count, words in _grouped(rows))
                yield ""
            yield self._grid(rows)
        if comparison.explain and not self.strict:
            yield (
                f"only for another reason: {comparison.explain:,} (--strict names and counts them)"
            )
        if left_out := comparison.left_out:
            yield ""
            many = _many(comparison)
            lines = [
                (label(o.cluster, o.namespace, o.hpa, with_cluster=many), o.side, o.reason)
                for o in left_out
            ]
            yield Grid.of(LEFT_OUT_HEADS, lines, self.top, "-o json has all")

    def _ranked(self) -> pl.DataFrame:
        """Return the rows to name, those with most differing ticks first."""
        rows = self.differences
        if not self.strict:
            rows = rows.filter(pl.col("differs") == DECIDES)
        order = ["ticks_decided", "ticks_explained", *KEY]
        return rows.sort(order, descending=[True, True, False, False, False])

    def _grid(self, rows: pl.DataFrame) -> Grid:
        many = _many(self)
        # Above the table a switch stands once, a spec's fields with each HPA.
        causes = "cause" if self.compared == VERSIONS else "rule"
        shown = [
            row | {"label": row_label(row, many), "changed_by": row[causes]}
            for row in rows.iter_rows(named=True)
        ]
        heads = HEADS if self.top and rows.height else ()
        return Grid.of(heads, shown, self.top, frame=self.frame, columns=DIFFERENCES.columns)

    def basis(self) -> list[str]:
        return list(_evidence(self.evidence))

    def document(self) -> dict[str, Any]:
        comparison = self
        names = ("cluster", "namespace", "hpa", "side", "reason")
        return {
            "evidence": comparison.evidence,
            "compared": comparison.compared,
            "from": comparison.names[0],
            "to": comparison.names[1],
            "totals": {
                "hpas": comparison.hpas,
                "ticks": comparison.ticks,
                "decide_differently": comparison.decide,
                "explain_differently": comparison.explain,
                "left_out": len(comparison.left_out),
            },
            "differences": Rows(comparison.differences),
            "left_out": Rows({n: getattr(o, n) for n in names} for o in comparison.left_out),
            "warnings": list(comparison.warnings),
        }


def headline(comparison: Comparison) -> str:
    """Return the result in one line."""
    before, after = comparison.names
    verb = "decides" if 1 in (comparison.decide, comparison.hpas) else "decide"
    line = (
        f"{comparison.decide:,} of {counted(comparison.hpas, 'HPA')} {verb} differently "
        f"({before} -> {after})"
    )
    if comparison.explain:
        line += f", {comparison.explain:,} only for another reason"
    if comparison.left_out:
        line += f"; {len(comparison.left_out):,} left out"
    return line


def total_line(comparison: Comparison) -> str:
    """Return sums over all HPAs."""
    rows = comparison.differences
    ticks, hours = rows["ticks_decided"].sum(), rows["replica_hours"].sum()
    return (
        f"{ticks:,} of {comparison.ticks:,} decisions differ; "
        f"decided replica-hours {signed(float(hours), 1)}"
    )


def _telling(row: Mapping[str, Any]) -> str:
    """Return what bound the decision on both sides, or what else tells them apart."""
    for name in _TELLING:
        if f"{name}{FROM}" in row and row[f"{name}{FROM}"] != row[f"{name}{TO}"]:
            change = _change(row, name)
            return change if name == "binding" else f"{name} {change}"
    return _string(row[f"binding{FROM}"])


def _change(row: Mapping[str, Any], name: str) -> str:
    before, after = _string(row[f"{name}{FROM}"]), _string(row[f"{name}{TO}"])
    return before if before == after else f"{before} -> {after}"


def _string(value: object) -> str:
    return "none" if value in (None, "") else str(value)


def _grouped(rows: pl.DataFrame) -> list[tuple[int, str]]:
    """Return every cause in words with the number of its HPAs, the most frequent first."""
    counts = rows.group_by("rule").len().sort(["len", "rule"], descending=[True, False])
    return [(int(count), rule or _NOT_FOUND) for rule, count in counts.iter_rows()]


def _many(comparison: Comparison) -> bool:
    """Say whether names need their cluster."""
    clusters = {*comparison.differences["cluster"], *(o.cluster for o in comparison.left_out)}
    return len(clusters - {""}) > 1


def _evidence(evidence: Mapping[str, str]) -> Iterator[str]:
    sides = [evidence_lines(side_evidence(evidence, side)) for side in (FROM, TO)]
    (before, parameters), (after, _) = sides
    (ours, _, events), theirs = before.partition("; "), after.partition("; ")[0]
    if ours == theirs:
        yield f"{evidence['from']} against {evidence['to']}: {ours}"
    else:
        yield from (f"from {ours}", f"to   {theirs}")
    yield f"{events}; {parameters}"


def side_evidence(evidence: Mapping[str, str], side: str) -> dict[str, str]:
    """Return the evidence of one side, `FROM` or `TO`, under the names that a replay's has."""
    other = TO if side == FROM else FROM
    return {k.removesuffix(side): v for k, v in evidence.items() if not k.endswith(other)}
