"""Store history: reads only the rows that the log names for a place."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl

from hpabatch.errors import HistoryError
from hpabatch.history.base import SIZES, Days, History, Wanted
from hpabatch.history.checks import order_rows, run_starts
from hpabatch.history.columns import Table
from hpabatch.history.schema import PASSES, TABLES
from hpabatch.history.store.catalog import FileEntry, Place, Snapshot, load_snapshot
from hpabatch.history.store.rows import DataFiles
from hpabatch.history.store.storage import LocalStorage, Storage, open_storage
from hpabatch.history.store.writer import Partition


@dataclass(frozen=True, slots=True)
class _Slice:
    """Rows of one place in one file."""

    place: Place
    file: FileEntry
    start: int
    stop: int


class StoreHistory(History):
    """A store as it was at one commit."""

    def __init__(self, storage: Storage, snapshot: Snapshot) -> None:
        """Use `open_history`."""
        paths: dict[str, tuple[Path, ...]] = {}
        for table in TABLES:
            if table in snapshot.partitions:
                named = [f for f in snapshot.files if f.table == table]
                paths[table] = tuple(sorted(Path(storage.url(f.path)) for f in named))
        super().__init__(Path(storage.location), paths, [])
        self.storage = storage
        self.snapshot = snapshot
        self.data_files = DataFiles(storage)

    @property
    def location(self) -> str:
        """The folder or URL as it was given."""
        return self.storage.location

    def digests(self) -> dict[str, str]:
        """Return a sha256 over the digests of every table's files."""
        found = {}
        for table in self.files:
            digests = sorted(f.sha256 for f in self.snapshot.files if f.table == table)
            found[table] = hashlib.sha256("\n".join(digests).encode()).hexdigest()
        return found

    def rows_of(self, file: FileEntry, start: int, stop: int) -> pl.DataFrame:
        """Return all columns of some rows of a data file.

        Raises:
            HistoryError: it is missing or damaged.
        """
        spec = TABLES[file.table]
        return self.data_files.read(spec, [(file, [(start, stop)])], spec.names)[0].rows(
            start, stop
        )

    def partition(self, partition: Partition, places: Collection[Place]) -> pl.DataFrame:
        """Return all columns of some places of one partition, sorted, without equal keys.

        Raises:
            HistoryError: a file is missing or damaged.
        """
        days = self.snapshot.partitions[partition.spec.name][partition.cluster]
        chosen = set(places)
        return self._merged(
            partition.spec, {partition.day: days[partition.day]}, chosen, partition.spec.names
        )

    def _table(self, spec: Table, wanted: Sequence[str]) -> pl.DataFrame:
        clusters = sorted(self.snapshot.partitions[spec.name])
        return pl.concat(self._select(spec, one, None, None, wanted) for one in clusters)

    def _select(
        self,
        spec: Table,
        cluster: str,
        places: set[Wanted] | None,
        days: Days | None,
        wanted: Sequence[str],
    ) -> pl.DataFrame:
        stored = self.snapshot.partitions[spec.name].get(cluster, {})
        if days is not None:
            first, last = (day.isoformat() for day in days)
            stored = {name: stored[name] for name in stored if first <= (name or "") <= last}
        return self._merged(spec, stored, places, wanted)

    def _merged(
        self,
        spec: Table,
        days: Mapping[str | None, Sequence[FileEntry]],
        places: Collection[Place] | None,
        wanted: Sequence[str],
    ) -> pl.DataFrame:
        by_day = sorted(days.items(), key=lambda item: item[0] or "")
        chosen = [list(_slices(files, places)) for _, files in by_day]
        parts = [  # (slices of one place stay in the order of commits: sorting is stable)
            sorted(slices, key=lambda s: order_of_place(s.place)) for slices in chosen if slices
        ]
        if not parts:
            return pl.DataFrame(schema={n: spec.column(n).dtype for n in wanted})
        mixed = [_is_mixed(slices) for slices in parts]
        needed = {*wanted, *(spec.key if any(mixed) else ())}
        if len(parts) > 1:
            needed.update(_names(spec))
        frames = self._gather(spec, parts, [name for name in spec.names if name in needed])
        for number, is_mixed in enumerate(mixed):
            if is_mixed:
                frames[number], _ = order_rows(frames[number], spec)
        rows = frames[0] if len(frames) == 1 else _merge_days(frames, spec)
        return rows.select(wanted)

    def _gather(
        self, spec: Table, parts: Sequence[Sequence[_Slice]], columns: Sequence[str]
    ) -> list[pl.DataFrame]:
        """Return for each part the rows of its slices, one after the other."""
        by_file: dict[str, list[_Slice]] = defaultdict(list)
        for slices in parts:
            for piece in slices:
                by_file[piece.file.path].append(piece)
        wanted = [(p[0].file, [(s.start, s.stop) for s in p]) for p in by_file.values()]
        found = dict(zip(by_file, self.data_files.read(spec, wanted, columns), strict=True))
        return [
            pl.concat(found[file.path].rows(start, stop) for file, start, stop in _joined(slices))
            for slices in parts
        ]

    def _distinct(self, spec: Table, wanted: Sequence[str]) -> Iterator[pl.DataFrame]:
        indexed = {"cluster", "namespace", spec.place} if spec.place else {"cluster"}
        if set(wanted) <= indexed:
            sizes = self._sizes(spec)
            yield (
                (sizes.rename({"place": spec.place}) if spec.place else sizes)
                .select(wanted)
                .unique()
            )
            return
        for cluster, stored in self.snapshot.partitions[spec.name].items():
            for files in stored.values():
                day = files[0].date
                days = None if day is None else (day, day)
                yield self._select(spec, cluster, None, days, wanted).unique()

    def _sizes(self, spec: Table) -> pl.DataFrame:
        parts = [pl.DataFrame(schema=SIZES)]
        for file in self.snapshot.files:
            if file.table == spec.name:
                parts.append(_sizes_of(file))
        names = [name for name in SIZES if name != "rows"]
        return pl.concat(parts).group_by(names).agg(pl.col("rows").sum()).select(SIZES.names())

    def _span(self, spec: Table) -> pl.DataFrame:
        rows = []
        for cluster, days in self.snapshot.partitions[spec.name].items():
            files = [file for of_day in days.values() for file in of_day]
            fetched = [f.fetched for f in files if f.fetched is not None]
            bare = [f.unfetched for f in files if f.unfetched is not None]
            rows.append(
                {
                    "cluster": cluster,
                    "fetched_first": min((low for low, _ in fetched), default=None),
                    "fetched_last": max((high for _, high in fetched), default=None),
                    "unfetched_first": min((low for low, _ in bare), default=None),
                    "unfetched_last": max((high for _, high in bare), default=None),
                }
            )
        return pl.DataFrame(rows, schema_overrides=dict.fromkeys(list(rows[0])[1:], pl.Int64()))

    def _place(self, spec: Table) -> str:
        return self.storage.url(spec.name)

    def lacks(self, table: Table) -> bool:
        """Return whether a table is absent that some command needs.

        A live loop records everything: a table absent from its store had no rows, because the log
        would name lost files.
        """
        return super().lacks(table) and PASSES.name not in self.files

    def _how_to_add(self, tables: Sequence[Table]) -> str:
        it = "it" if len(tables) == 1 else "them"
        return f"record or import {it}; repeat the command of an import that was interrupted"


def open_store(path: Path | str) -> StoreHistory:
    """Open a store; no rows are read yet.

    Raises:
        HistoryError: it cannot be read, or is no store.
    """
    storage = open_storage(path)
    snapshot = load_snapshot(storage)
    if snapshot.number == 0:
        raise HistoryError(
            f"{path} holds no store (its log has no commit); name the folder of a history"
        )
    history = StoreHistory(storage, snapshot)
    if isinstance(storage, LocalStorage):
        for table in TABLES:
            stray = storage.root / f"{table}.parquet"
            if stray.exists():
                history.warnings.append(f"{stray} is not part of the store and is ignored")
    return history


def _slices(files: Sequence[FileEntry], places: Collection[Place] | None) -> Iterator[_Slice]:
    """Yield the rows of places in the files of one partition, in the order of commits."""
    for file in files:
        if places is None:
            for place, (start, stop) in file.spans.items():
                yield _Slice(place, file, start, stop)
        elif len(places) < len(file.spans):
            for wanted in places:
                if wanted in file.spans:
                    yield _Slice(wanted, file, *file.spans[wanted])
        else:
            for place, (start, stop) in file.spans.items():
                if place in places:
                    yield _Slice(place, file, start, stop)


def order_of_place(place: Place) -> tuple[bool, str, bool, str]:
    """Return a sort key of places in polars' order of their columns: nulls first, then bytes."""
    namespace, name = place
    return (namespace is not None, namespace or "", name is not None, name or "")


def _names(spec: Table) -> list[str]:
    return list(spec.key[1 : spec.key.index(spec.day)])


def _merge_days(frames: Sequence[pl.DataFrame], spec: Table) -> pl.DataFrame:
    """Return the rows of several days of a cluster in the order of the table's key.

    Each frame is sorted and later than the one before. So the rows of one series (equal names) are
    in order day after day: whole blocks are moved, no rows are compared.
    """
    names = _names(spec)
    rows = pl.concat(frames, rechunk=True)
    if not names:
        return rows  # the time alone orders a cluster's rows
    days = np.cumsum([0, *(frame.height for frame in frames[:-1])])
    begins = np.union1d(run_starts(rows.select(names)), days[days < rows.height])
    starts = pl.Series(begins, dtype=pl.Int64)
    blocks = rows.select(names)[starts].with_columns(
        starts.alias("_start"), starts.shift(-1, fill_value=rows.height).alias("_stop")
    )
    ordered = blocks.sort(names, maintain_order=True)
    if ordered["_start"].is_sorted():
        return rows
    index = ordered.select(pl.int_ranges("_start", "_stop").explode()).to_series()
    return rows[index]


def _is_mixed(slices: Sequence[_Slice]) -> bool:
    """Whether a place's rows come from several sorted runs, and so are unsorted."""
    return any(
        one.place == two.place
        and (one.file.commit, one.file.run) != (two.file.commit, two.file.run)
        for one, two in pairwise(slices)
    )


def _joined(slices: Sequence[_Slice]) -> Iterator[tuple[FileEntry, int, int]]:
    """Yield slices with adjacent ones of the same file joined."""
    current: tuple[FileEntry, int, int] | None = None
    for piece in slices:
        if current and current[0] is piece.file and current[2] == piece.start:
            current = (piece.file, current[1], piece.stop)
            continue
        if current:
            yield current
        current = (piece.file, piece.start, piece.stop)
    if current:
        yield current


def _sizes_of(file: FileEntry) -> pl.DataFrame:
    """Return the rows of every place of a file, as `SIZES`."""
    namespaces: list[str | None] = []
    names: list[str | None] = []
    counts: list[int] = []
    for namespace, places, rows in file.places:
        namespaces += [namespace] * len(places)
        names += places
        counts += rows
    columns = {"namespace": namespaces, "place": names, "rows": counts}
    frame = pl.DataFrame(columns, schema={n: SIZES[n] for n in columns})
    return frame.with_columns(
        cluster=pl.lit(file.cluster), day=pl.lit(file.date, dtype=pl.Date())
    ).select(SIZES.names())
