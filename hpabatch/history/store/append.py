"""Store writer: parts that appear whole or not at all.

A part's rows are checked, sorted and written to data files as they come; they count only from the
log entry at the end of the part. An interrupted part leaves files that no log entry names;
`compact` removes them later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import date
from pathlib import Path
from types import TracebackType
from typing import Self

import polars as pl
from msgspec.structs import replace

from hpabatch.errors import UsageError
from hpabatch.history.checks import order_rows
from hpabatch.history.columns import TIME, Table
from hpabatch.history.schema import TABLES, table_named
from hpabatch.history.store.catalog import (
    LOG,
    FileEntry,
    LogEntry,
    Snapshot,
    encode_entry,
    entry_name,
    load_snapshot,
)
from hpabatch.history.store.storage import WORK, LocalStorage, Storage, open_storage
from hpabatch.history.store.writer import Partition, checked_rows, split_places, write_run

# Rows (about 120 bytes each) in memory before files are written.
BUFFER_ROWS = 1 << 20

_WRITERS = 4


class StoreWriter:
    """An open store, to which parts are added.

    Attributes:
        snapshot: the newest state that this writer has seen.
    """

    def __init__(self, storage: Storage, snapshot: Snapshot) -> None:
        """Use `open_writer`."""
        self.storage = storage
        self.snapshot = snapshot

    def has_part(self, name: str) -> bool:
        """Whether a part of that name is committed in this writer's snapshot."""
        return name in self.snapshot.parts

    def part(self, name: str = "", amend: Amend | None = None) -> PartWriter:
        """Return a context in which rows are added; they count, all at once, at its end.

        Args:
            name: a name for `has_part`; a part that is complete already (or was completed by
                another writer meanwhile) adds nothing. "": nameless, always added.
            amend: is asked right before the commit, with the state to which it is added, and
                again after a commit of another writer; what it raises ends the part.
        """
        return PartWriter(self, name, amend)

    def begin(self) -> None:
        """Create the store if it is not there."""
        if self.snapshot.number == 0 and self.refresh().number == 0:
            self.storage.create(entry_name(1), encode_entry(LogEntry()))
            self.refresh()

    def refresh(self) -> Snapshot:
        """Read the commits of other writers."""
        self.snapshot = load_snapshot(self.storage, self.snapshot)
        return self.snapshot

    def commit(self, entry: LogEntry, amend: Amend | None = None) -> None:
        """Append a log entry, unless its part is there.

        Raises:
            HistoryError, UsageError: see `append`, or a file of the entry was deleted meanwhile.
        """

        def whole(snapshot: Snapshot) -> LogEntry | None:
            if entry.part and entry.part in snapshot.parts:
                return None
            with ThreadPoolExecutor(16) as pool:
                tails = list(pool.map(lambda file: self.storage.tail(file.path, 1), entry.add))
            if None in tails:
                url = self.storage.url(entry.add[tails.index(None)].path)
                raise UsageError(
                    f"{url} was removed by a compaction before its part was complete, and nothing "
                    "of the part was added; write the part again, in less than a day"
                )
            add, remove = ((), ()) if amend is None else amend(snapshot)
            return replace(entry, add=(*add, *entry.add), remove=(*remove, *entry.remove))

        self.append(whole)

    def append(self, make: Callable[[Snapshot], LogEntry | None]) -> None:
        """Append a log entry, after those that others append at the same time.

        Args:
            make: returns it for the newest state; None: nothing is appended.

        Raises:
            HistoryError: the log cannot be read.
            UsageError: it cannot be written.
        """
        self.refresh()
        while (entry := make(self.snapshot)) is not None:
            number = self.snapshot.number + 1
            is_made = self.storage.create(entry_name(number), encode_entry(entry))
            if self.refresh().number < number:
                raise UsageError(
                    f"{self.storage.url(entry_name(number))} exists but is not listed; try again"
                )
            if is_made:
                return


Amend = Callable[[Snapshot], tuple[Sequence[FileEntry], Sequence[str]]]
"""Returns files that a commit adds before its own, and paths of those that it removes."""


class PartWriter:
    """Rows of one part; use it as a context.

    Attributes:
        dropped: rows left out because a later row of the part has the same key.
    """

    def __init__(self, store: StoreWriter, name: str, amend: Amend | None = None) -> None:
        """Use `StoreWriter.part`."""
        self.store = store
        self.amend = amend
        self.name = name
        self.dropped = 0
        self._entries: list[FileEntry] = []
        self._waiting: dict[str, list[pl.DataFrame]] = {}
        self._rows = 0
        self._runs = 0
        self._stack = ExitStack()
        self._folder: Path | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Commit, or discard everything if the block failed."""
        with self._stack:
            if kind is None and not self.store.has_part(self.name):
                self._flush()
                if self._entries or self.name:
                    self.store.commit(LogEntry(self.name, tuple(self._entries)), self.amend)

    def add(self, table: str, frame: pl.DataFrame) -> None:
        """Add rows of a table, of any clusters and times and in any order.

        Of rows with the same key the last one added counts.

        Raises:
            HistoryError: a column is missing, unknown or of a wrong type, or a value is invalid.
            UsageError: the store cannot be written.
        """
        spec = table_named(table)
        if self.store.has_part(self.name):
            return
        ready = checked_rows(frame, spec, f"table {table} for {self.store.storage.location}")
        if ready.is_empty():
            return
        self._waiting.setdefault(table, []).append(ready)
        self._rows += ready.height
        if self._rows >= BUFFER_ROWS:
            self._flush()

    def _flush(self) -> None:
        for name in TABLES:
            frames = self._waiting.pop(name, [])
            if frames:
                self._write_rows(name, pl.concat(frames))
        self._rows = 0

    def _write_rows(self, table: str, frame: pl.DataFrame) -> None:
        """Write rows to data files, as one sorted run for each cluster and day."""
        ordered, dropped = order_rows(frame, TABLES[table])
        del frame
        self.dropped += dropped
        # To encode rows and to flush files keep a core and the disk busy: a few at a time.
        folder, storage = self._work(), self.store.storage
        with ThreadPoolExecutor(_WRITERS) as pool:
            jobs = []
            for partition, rows in split_partitions(ordered, TABLES[table]):
                pieces, run = split_places(rows, partition.spec), self._runs
                jobs.append(pool.submit(write_run, pieces, partition, run, storage, folder))
                self._runs += 1
            for job in jobs:
                self._entries += job.result()

    def _work(self) -> Path:
        if self._folder is None:
            self.store.begin()  # before any file: one without a log would be another's
            self._folder = self._stack.enter_context(self.store.storage.workspace())
        return self._folder


def open_writer(path: Path | str, *, begin: bool = True) -> StoreWriter:
    """Open a store for writing; it is created in an absent or empty folder.

    Args:
        path: a folder, or a URL such as s3://bucket/history.
        begin: create it now; else the first part does, so that there is none if nothing comes.

    Raises:
        HistoryError: the store cannot be read.
        UsageError: the folder holds something else, or cannot be written.
    """
    storage = open_storage(path)
    snapshot = load_snapshot(storage)
    if snapshot.number == 0:
        _refuse_foreign(storage)
        if not begin and isinstance(storage, LocalStorage):
            storage.probe()
            return StoreWriter(storage, snapshot)
    writer = StoreWriter(storage, snapshot)
    writer.begin()
    return writer


def split_partitions(frame: pl.DataFrame, spec: Table) -> Iterator[tuple[Partition, pl.DataFrame]]:
    """Yield the rows of every cluster and UTC day of a sorted frame, each sorted."""
    clusters = frame["cluster"].unique(maintain_order=True)
    for cluster in clusters:
        rows = frame if len(clusters) == 1 else frame.filter(pl.col("cluster") == cluster)
        if not spec.day:
            yield Partition(spec, str(cluster), None), rows
            continue
        ends = rows[spec.day].min(), rows[spec.day].max()
        first, last = pl.Series(ends, dtype=TIME).dt.date()
        if first == last:
            yield Partition(spec, str(cluster), first.isoformat()), rows
            continue
        dated = rows.with_columns(pl.col(spec.day).dt.date().alias(_DAY))
        for (day,), part in dated.group_by([_DAY], maintain_order=True):
            assert isinstance(day, date)
            yield Partition(spec, str(cluster), day.isoformat()), part.drop(_DAY)


_DAY = "_day"


def _refuse_foreign(storage: Storage) -> None:
    # (another process may just be trying whether it can begin one there)
    own = (f"{LOG}/", f"{WORK}/")
    found = [item.name for item in storage.names("") if not item.name.startswith(own)]
    if not found:
        return
    tables = [n for n in found if n.split("/")[0].removesuffix(".parquet") in TABLES]
    if tables and tables[0].split("/")[1:2] != [LOG]:
        raise UsageError(
            f"{storage.location} is a flat history ({tables[0]}); rows are added to a store: make "
            "one in a new folder with `hpabatch history migrate`"
        )
    raise UsageError(
        f"{storage.location} holds other files ({found[0]}); name a new or an empty folder"
    )
