"""The result of `hpabatch validate`: one row per document."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import polars as pl

from hpabatch.engine.columns.history import VALIDATION
from hpabatch.inputs.manifests import REFUSED, UNREADABLE, VALID, CheckedEntry
from hpabatch.model.printable import counted, printable
from hpabatch.model.versions import Profile
from hpabatch.report.base import Grid, Head, Output, Result, Rows, View, plain
from hpabatch.report.forms import frame_csv

Row = dict[str, str | int]

_NUMBERS = frozenset({"line", "complaints", "warnings"})
HEADS = tuple(
    Head.of(column, column.name.upper(), left=column.name not in _NUMBERS, folds=True)
    for column in VALIDATION
    if column.name != "message"  # stderr has the sentences
)


@dataclass(frozen=True, repr=False)
class Validation(Result):
    """Manifests held against the API server's rules.

    Attributes:
        checked: the HPAs and the places that cannot be read, in their order, each with its verdict.
        others: the number of documents of each other kind.
        profile: the rules.
    """

    checked: Sequence[CheckedEntry]
    others: Mapping[str, int]
    profile: Profile
    shows_verdict: ClassVar[bool] = False  # stderr has it

    @property
    def verdict(self) -> str:
        results = Counter(item.result for item in self.checked)
        hpas = results[VALID] + results[REFUSED]
        parts = [f"{counted(hpas, 'HPA')}: {results[VALID]} valid, {results[REFUSED]} refused"]
        if results[UNREADABLE]:
            parts.append(f"{counted(results[UNREADABLE], 'document')} unreadable")
        others = sum(self.others.values())
        if others:
            parts.append(f"{counted(others, 'document')} of other kinds skipped")
        return f"{'; '.join(parts)} (rules of Kubernetes {self.profile.name})"

    @cached_property
    def frame(self) -> pl.DataFrame:
        return pl.DataFrame(self._rows, schema=VALIDATION.schema)

    @cached_property
    def _rows(self) -> list[Row]:
        return [_row(item) for item in self.checked]

    @property
    def valid(self) -> bool:
        """Whether everything is valid."""
        return all(item.result == VALID for item in self.checked)

    @property
    def messages(self) -> tuple[str, ...]:
        """Every complaint and warning, with file, line and HPA."""
        return tuple(talk_lines(self.checked))

    def body(self, view: View) -> Iterator[str | Grid]:
        styles = ["" if row["result"] == VALID else "red" for row in self._rows]
        yield Grid.of(HEADS, self._rows, styles=styles)

    def own(self, output: Output, view: View) -> str | bytes | None:
        if output is Output.csv:
            return frame_csv(self.frame.with_columns(pl.col(pl.String).replace("", None)))
        if output is not Output.parquet:
            return None
        import pyarrow as pa
        import pyarrow.parquet as pq

        types = [(c.name, pa.int64() if c.name in _NUMBERS else pa.string()) for c in VALIDATION]
        buffer = io.BytesIO()
        table = pa.Table.from_pylist(self._rows, schema=pa.schema(types))
        pq.write_table(table, buffer, compression="zstd")
        return buffer.getvalue()

    def document(self) -> Rows:
        return Rows(self._rows)


def _row(item: CheckedEntry) -> Row:
    hpa = item.entry.hpa
    target = hpa.spec.scale_target_ref if hpa is not None else None
    return {
        "source": plain(item.entry.source),
        "line": item.entry.line,
        "namespace": plain(hpa.namespace) if hpa is not None else "",
        "name": plain(hpa.name) if hpa is not None else "",
        "api_version": plain(hpa.api_version) if hpa is not None else "",
        "target": plain(f"{target.kind}/{target.name}") if target is not None else "",
        "result": item.result,
        "complaints": len(item.complaints),
        "warnings": len(item.warnings),
        "message": plain(item.complaints[0]) if item.complaints else "",
    }


def talk_lines(checked: Iterable[CheckedEntry]) -> Iterable[str]:
    """Yield the lines for stderr: every complaint and warning with its place."""
    for item in checked:
        name = _label(item)
        for complaint in item.complaints:
            yield f"{item.entry.place}: {name}{complaint}"
        for warning in item.warnings:
            yield f"{item.entry.place}: {name}warning: {warning}"


def _label(item: CheckedEntry) -> str:
    hpa = item.entry.hpa
    if hpa is None or not hpa.name:
        return ""
    name = printable(hpa.name)
    return f"{printable(hpa.namespace)}/{name}: " if hpa.namespace else f"{name}: "
