"""Results that are a frame, and what a history holds (`hpabatch history info`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import polars as pl

from hpabatch.engine.columns.column import Table
from hpabatch.engine.columns.history import HISTORY_TABLES
from hpabatch.history.info import HistoryInfo
from hpabatch.model.printable import counted
from hpabatch.report.base import Grid, Layout, Result, Rows, View
from hpabatch.report.forms import frame_grid


@dataclass(frozen=True, repr=False)
class FrameResult(Result):
    """A frame.

    Attributes:
        rows: the frame.
        table: its registered columns; None: there are none.
        shown: columns of the table; empty: all, as in the wide form.
    """

    rows: pl.DataFrame
    table: Table | None = None
    shown: Sequence[str] = ()
    layout: ClassVar[Layout] = Layout(1, 1, ascii_only=False)

    @property
    def frame(self) -> pl.DataFrame:
        return self.rows

    def body(self, view: View) -> Iterator[str | Grid]:
        if self.rows.height:
            columns = () if self.table is None else self.table.columns
            grid = frame_grid(self.rows.select(self.shown or pl.all()), columns)
            yield replace(grid, frame=self.rows, columns=columns)


@dataclass(frozen=True, repr=False)
class InfoResult(Result):
    """What a history holds."""

    info: HistoryInfo
    layout: ClassVar[Layout] = Layout(keys=2)

    @property
    def verdict(self) -> str:
        info = self.info
        clusters = ", ".join(info.clusters) or "none"
        noun = "cluster" if len(info.clusters) == 1 else "clusters"
        head = f"{info.location}: {info.layout}, schema {info.schema}, {noun} {clusters}"
        return head + (f", {counted(info.parts, 'named part')}" if info.parts else "")

    def body(self, view: View) -> Iterator[str | Grid]:
        yield frame_grid(self.info.tables, HISTORY_TABLES)
        if self.info.provenance.height:
            yield ""
            yield frame_grid(_provenance(self.info))
        for remark in self.info.remarks:
            yield ""
            yield remark

    @property
    def frame(self) -> pl.DataFrame:
        return self.info.tables

    def document(self) -> dict[str, Any]:
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
