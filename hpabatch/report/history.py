"""Results that are a frame, and what a history holds (`hpabatch history info`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from hpabatch.engine.columns.column import Table
from hpabatch.engine.columns.history import HISTORY_TABLES
from hpabatch.history.info import HistoryInfo
from hpabatch.model.printable import counted
from hpabatch.report.base import Grid, Layout, Report, Rows, View
from hpabatch.report.forms import frame_grid

if TYPE_CHECKING:
    from rich.text import Text


@dataclass(frozen=True, slots=True)
class FrameReport(Report):
    """A frame.

    Attributes:
        rows: the frame.
        table: its registered columns; None: there are none.
        shown: columns of the table; empty: all, as in the wide form.
        sentence: the verdict; "": none.
        most: rows of the table; None: all.
        before: lines and tables above it.
        next_lines: lines below it.
        whole: the document; None: the rows.
        indent: blanks of the document's levels.
    """

    rows: pl.DataFrame
    table: Table | None = None
    shown: Sequence[str] = ()
    sentence: str = ""
    most: int | None = None
    before: Sequence[str | Grid] = ()
    next_lines: Sequence[str] = ()
    whole: Mapping[str, Any] | None = None
    indent: int = 1

    def verdict(self) -> str:
        """Return the sentence."""
        return self.sentence

    def body(self, view: View) -> Iterator[str | Text | Grid]:
        """Generate the rows."""
        yield from self.before
        if self.rows.is_empty() and (self.sentence or not self.before):
            return
        columns = () if self.table is None else self.table.columns
        frame = self.rows if self.most is None else self.rows.head(self.most)
        grid = frame_grid(frame.select(self.shown) if self.shown else frame, columns)
        left = self.rows.height - frame.height
        more = f"… and {left:,} more: --output csv shows all" if left else ""
        yield Grid(grid.heads, grid.rows, more, frame=self.rows, columns=columns)

    def hints(self) -> Sequence[str]:
        """Return the lines below the table."""
        return self.next_lines

    def frame(self) -> pl.DataFrame:
        """Return the frame."""
        return self.rows

    def layout(self) -> Layout:
        """Return how a whole document is written."""
        return Layout(self.indent, self.indent, ascii_only=False)

    def document(self) -> Mapping[str, Any] | Rows:
        """Return the whole document, or the rows."""
        return Rows(self.rows) if self.whole is None else self.whole


@dataclass(frozen=True, slots=True)
class InfoReport(Report):
    """What a history holds."""

    info: HistoryInfo

    def verdict(self) -> str:
        """Return where it is and of what kind."""
        info = self.info
        clusters = ", ".join(info.clusters) or "none"
        noun = "cluster" if len(info.clusters) == 1 else "clusters"
        head = f"{info.location}: {info.layout}, schema {info.schema}, {noun} {clusters}"
        return head + (f", {counted(info.parts, 'named part')}" if info.parts else "")

    def body(self, view: View) -> Iterator[str | Text | Grid]:
        """Generate tables, provenance, and what is not recorded."""
        yield frame_grid(self.info.tables, HISTORY_TABLES)
        if self.info.provenance.height:
            yield ""
            yield frame_grid(_provenance(self.info))
        for remark in self.info.remarks:
            yield ""
            yield remark

    def frame(self) -> pl.DataFrame:
        """Return one row per table."""
        return self.info.tables

    def layout(self) -> Layout:
        """Return how the JSON document is written."""
        return Layout(keys=2)

    def document(self) -> dict[str, Any]:
        """Return everything."""
        info = self.info
        return {
            "location": info.location,
            "layout": info.layout,
            "schema": info.schema,
            "clusters": info.clusters,
            "parts": info.parts,
            "tables": list(Rows(info.tables)),
            "problems": info.problems,
            "provenance": list(Rows(info.provenance)),
            "unrecorded": {
                subject: [dict(zip(("cluster", "namespace", "name"), h, strict=True)) for h in hpas]
                for subject, hpas in info.unrecorded.items()
            },
        }


def _provenance(info: HistoryInfo) -> pl.DataFrame:
    """Return what people want to see of it: the cluster where there are several."""
    of = pl.when(pl.col("covers") == "names").then(pl.col("names").cast(pl.String))
    columns = ["cluster"] if len(info.clusters) > 1 else []
    return info.provenance.select(
        *columns,
        "subject",
        "method",
        of.otherwise(pl.col("covers")).alias("of"),
        pl.col("valid_from").alias("from"),
        pl.col("valid_to").alias("to"),
        pl.col("detail").fill_null("-"),
    )
