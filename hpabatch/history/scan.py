"""A history's table as a lazy frame of Polars."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

import polars as pl
from polars.io.plugins import register_io_source

from hpabatch.history.base import History
from hpabatch.history.schema import empty_frame


def scan_table(history: History, name: str) -> pl.LazyFrame:
    """Return a table as a lazy frame that is read day by day; an absent one has no rows.

    Raises:
        HistoryError: there is no such table in any history; reading: the table is broken.
    """
    return register_io_source(_Source(history, name), schema=empty_frame(name).schema)


@dataclass(frozen=True)
class _Source:
    """Reads a table for Polars, a cluster and day at a time."""

    history: History
    name: str

    def __call__(
        self,
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[pl.DataFrame]:
        wanted = with_columns
        if with_columns is not None and predicate is not None:
            wanted = list(dict.fromkeys([*with_columns, *predicate.meta.root_names()]))
        left = n_rows
        for cluster, day, places in self._parts():
            if left is not None and left <= 0:
                return
            frame = self.history.select(self.name, cluster, places, day=day, columns=wanted)
            if predicate is not None:
                frame = frame.filter(predicate)
            if left is not None:
                frame = frame.head(left)
                left -= frame.height
            yield frame if with_columns is None else frame.select(with_columns)

    def _parts(self) -> Iterator[tuple[str, date | None, list[tuple[str, str | None]]]]:
        sizes = self.history.sizes(self.name)
        keys = ["cluster", "day"]
        groups = sizes.group_by(keys).agg("namespace", "place").sort(keys, nulls_last=False)
        for cluster, day, namespaces, places in groups.iter_rows():
            yield cluster, day, list(zip(namespaces, places, strict=True))
