"""Rows of an import on their way into a store: part by part, and what the store has already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import polars as pl

from hpabatch.history.schema import empty_frame, table_named
from hpabatch.history.store.shards import StoreHistory
from hpabatch.history.store.writer import checked_rows

if TYPE_CHECKING:
    from hpabatch.history.store.append import Amend, PartWriter, StoreWriter


_BUFFER_ROWS = 1 << 18
_SHOWN_ROWS = 5


class Sink:
    """Takes rows of tables in small frames and hands them on in larger ones, counting.

    Without a store it only checks and counts, and keeps the first rows of each table.
    """

    def __init__(self, store: StoreWriter | None) -> None:
        """Write to a store, or nowhere."""
        self.store = store
        self.first: dict[str, pl.DataFrame] = {}
        self._written: Counter[str] = Counter()
        self._part: PartWriter | None = None
        self._waiting: dict[str, list[pl.DataFrame]] = {}

    def has_part(self, name: str) -> bool:
        """Whether the store has that part."""
        return self.store is not None and self.store.has_part(name)

    def stored(self, table: str) -> pl.DataFrame | None:
        """Return what the store has of a table so far, None where it has nothing."""
        if self.store is None:
            return None
        history = StoreHistory(self.store.storage, self.store.refresh())
        return history.read(table, optional=True) if table in history.tables else None

    def stored_of(self, table: str, workloads: pl.DataFrame) -> pl.DataFrame:
        """Return what the store has of workloads (cluster, namespace, target) in a table."""
        if self.store is None:
            return empty_frame(table)
        history = StoreHistory(self.store.storage, self.store.refresh())
        found = [empty_frame(table)]
        for (cluster,), theirs in workloads.group_by(["cluster"], maintain_order=True):
            places = theirs.select("namespace", "target").rows()
            found.append(history.select(table, str(cluster), places))
        return pl.concat(found)

    @contextmanager
    def part(self, name: str, amend: Amend | None = None) -> Iterator[Counter[str]]:
        """Commit what is added in the block as one part; yield its rows by table.

        `amend`: see `StoreWriter.part`.
        """
        self._written = Counter()
        self._waiting = {}
        if self.store is None:
            yield self._written
            self._hand_on(0)
            return
        with self.store.part(name, amend) as self._part:
            yield self._written
            self._hand_on(0)

    def add(self, table: str, frame: pl.DataFrame) -> None:
        """Take rows of a table."""
        if frame.is_empty():
            return
        self._written[table] += frame.height
        self._waiting.setdefault(table, []).append(frame)
        self._hand_on(_BUFFER_ROWS)

    def _hand_on(self, least: int) -> None:
        for table, frames in self._waiting.items():
            if frames and sum(frame.height for frame in frames) >= least:
                whole = pl.concat(frames)
                frames.clear()
                if self._part is not None:
                    self._part.add(table, whole)
                else:
                    spec = table_named(table)
                    checked = checked_rows(whole, spec, f"table {table}").sort(spec.key)
                    self.first.setdefault(table, checked.head(_SHOWN_ROWS))
