"""Writing of tables as Parquet: checked, sorted, deterministic, whole or not at all.

A data file of a store has whole places in each row group.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from hpabatch.errors import HistoryError
from hpabatch.history import schema
from hpabatch.history.checks import check_columns, check_validity, conform, order_rows, run_starts
from hpabatch.history.columns import BOOL, INT, TEXT, TIME, Table
from hpabatch.history.files import atomic_path
from hpabatch.history.schema import table_named
from hpabatch.history.store.catalog import FileEntry, Place, folder_of
from hpabatch.history.store.storage import Storage, disk_error
from hpabatch.model.printable import counted

# Readers skip row groups without a place or day that they look for, by their statistics. Half as
# many rows save little more, and take 4 % more bytes.
ROW_GROUP_ROWS = 1 << 17
COMPRESSION_LEVEL = 9


def write_table(frame: pl.DataFrame, path: Path | str, table: str) -> int:
    """Write a table as one Parquet file and return its size in bytes.

    The frame is checked like a file that is read; optional columns may be absent. Rows are sorted
    by the table's key. The same rows give the same bytes with the same versions of this package and
    pyarrow.

    Args:
        path: the file, e.g. `history/pods.parquet`.

    Raises:
        HistoryError: a column is missing, unknown or of a wrong type, a value is invalid, or two
            rows have the same key.
        UsageError: the file cannot be written there.
    """
    spec = table_named(table)
    final = Path(path)
    ready = prepare_rows(frame, spec, f"table {table} for {final}")
    with atomic_path(final) as temporary, open_parquet(temporary, spec) as writer:
        writer.write_table(arrow_rows(ready, spec), row_group_size=ROW_GROUP_ROWS)
    return final.stat().st_size


def prepare_rows(frame: pl.DataFrame, spec: Table, where: str) -> pl.DataFrame:
    """Return all registered columns of a frame, checked and sorted by the table's key.

    Raises:
        HistoryError: see `write_table`.
    """
    filled = checked_rows(frame, spec, where)
    ordered, dropped = order_rows(filled, spec)
    if dropped:
        raise HistoryError(
            f"{where}: {counted(dropped, 'row')} with the key ({', '.join(spec.key)}) of another "
            "row; keep one of them"
        )
    if spec.name == "hpas":
        check_validity(ordered, where)
    return ordered


def checked_rows(frame: pl.DataFrame, spec: Table, where: str) -> pl.DataFrame:
    """Return all registered columns of a frame, checked, in the order of its rows.

    Raises:
        HistoryError: a column is missing, unknown or of a wrong type, or a value is invalid.
    """
    unknown = check_columns(frame.columns, spec, where)
    if unknown:
        raise HistoryError(f"{unknown[0]}; drop other columns before writing")
    checked = conform(frame, spec, where)
    return checked.select(
        pl.col(c.name) if c.name in checked.columns else pl.lit(c.fill, dtype=c.dtype).alias(c.name)
        for c in spec.columns
    )


def open_parquet(path: Path, spec: Table, level: int = COMPRESSION_LEVEL) -> pq.ParquetWriter:
    """Return a writer of a table's Parquet file; close it, or use it as a context."""
    texts = [c.name for c in spec.columns if c.dtype == TEXT]
    # Times and quantities change little from row to row: differences pack to a few bits
    # (5.5 -> 3.8 bytes a row against plain zstd, and nearly twice the reading speed).
    numbers = [c.name for c in spec.columns if c.dtype in (INT, TIME)]
    deltas = dict.fromkeys(numbers, "DELTA_BINARY_PACKED")
    writer = pq.ParquetWriter(
        path,
        _arrow_schema(spec),
        compression="zstd",
        compression_level=level,
        use_dictionary=texts,
        column_encoding=deltas,
        store_schema=False,
        write_page_checksum=True,
    )
    writer.add_key_value_metadata(
        {schema.SCHEMA_KEY: str(schema.SCHEMA_VERSION), schema.TABLE_KEY: spec.name}
    )
    return writer


def arrow_rows(frame: pl.DataFrame, spec: Table) -> Any:
    """Return rows as one Arrow chunk, so that pages do not depend on the frame's chunks."""
    return frame.rechunk().to_arrow().cast(_arrow_schema(spec)).combine_chunks()


def _arrow_schema(spec: Table) -> Any:
    kinds = {TEXT: pa.string(), TIME: pa.timestamp("ms", tz="UTC"), BOOL: pa.bool_()}
    fields = [
        pa.field(c.name, kinds.get(c.dtype, pa.int64()), nullable=c.holds_nulls)
        for c in spec.columns
    ]
    return pa.schema(fields)


LEVEL = 3

Piece = tuple[Place, pl.DataFrame]
"""Rows of one place."""


class Limits(NamedTuple):
    """Sizes of data files, in rows.

    Attributes:
        group_min: a row group is closed from this size on.
        group_max: a place with more rows is split.
    """

    group_min: int
    group_max: int
    file_max: int


LIMITS = Limits(1 << 16, 1 << 20, 1 << 22)


@dataclass(frozen=True, slots=True)
class Partition:
    """Partition of files: table, cluster, UTC day (YYYY-MM-DD) or None."""

    spec: Table
    cluster: str
    day: str | None

    @property
    def folder(self) -> str:
        """The folder below the store's root."""
        return folder_of(self.spec.name, self.cluster, self.day)


def place_columns(spec: Table) -> list[str]:
    """Return the columns that make a place: namespace and place, or none."""
    return ["namespace", spec.place] if spec.place else []


def split_places(frame: pl.DataFrame, spec: Table) -> Iterator[Piece]:
    """Yield the rows of each place of a sorted frame of one cluster."""
    frame = frame.rechunk()  # a slice of many chunks walks all of them
    names = place_columns(spec)
    if frame.is_empty():
        return
    if not names:
        yield (None, None), frame
        return
    starts = run_starts(frame.select(names)).tolist()
    places = frame.select(names)[starts].rows()
    for place, start, stop in zip(places, starts, [*starts[1:], frame.height], strict=True):
        yield (place[0], place[1]), frame[start:stop]


def write_run(
    pieces: Iterable[Piece],
    partition: Partition,
    run: int,
    storage: Storage,
    folder: Path,
) -> list[FileEntry]:
    """Write sorted pieces as data files and put them in their place.

    One row group is in memory at a time. The files depend on the rows alone, not on the pieces.

    Args:
        pieces: rows of each place, all registered columns, sorted by the table's key; places in
            order, each once.
        run: number of this run within the commit.
        folder: a local folder for unfinished files, see `Storage.workspace`.

    Raises:
        UsageError: the files cannot be written.
    """
    entries: list[FileEntry] = []
    building: _Building | None = None
    try:
        for group in _groups(pieces):
            rows = sum(frame.height for _, frame in group)
            if building is not None and building.rows + rows > LIMITS.file_max:
                entries.append(building.finish(storage, run))
                building = None
            if building is None:
                building = _Building(partition, folder / f"{run}-{len(entries)}.parquet")
            building.write(group)
        if building is not None:
            entries.append(building.finish(storage, run))
            building = None
    except OSError as error:
        raise disk_error(folder, error) from error
    finally:
        if building is not None:
            building.writer.close()
    return entries


def _groups(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    group: list[Piece] = []
    rows = 0
    for place, frame in pieces:
        if group and rows + frame.height > LIMITS.group_max:
            yield group
            group, rows = [], 0
        if frame.height > LIMITS.group_max:
            for part in frame.iter_slices(LIMITS.group_max):
                yield [(place, part)]
            continue
        group.append((place, frame))
        rows += frame.height
        if rows >= LIMITS.group_min:
            yield group
            group, rows = [], 0
    if group:
        yield group


@dataclass
class _Building:
    partition: Partition
    path: Path
    rows: int = 0
    group_rows: list[int] = field(default_factory=list)
    places: list[tuple[Place, int]] = field(default_factory=list)
    times: list[pl.DataFrame] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.writer = open_parquet(self.path, self.partition.spec, LEVEL)

    def write(self, group: Sequence[Piece]) -> None:
        frame = pl.concat([part for _, part in group], rechunk=True)
        self.writer.write_table(arrow_rows(frame, self.partition.spec), row_group_size=frame.height)
        self.rows += frame.height
        self.group_rows.append(frame.height)
        for place, part in group:
            if self.places and self.places[-1][0] == place:
                self.places[-1] = (place, self.places[-1][1] + part.height)
            else:
                self.places.append((place, part.height))
        if self.partition.spec.day:
            self.times.append(_times(frame, self.partition.spec))

    def finish(self, storage: Storage, run: int) -> FileEntry:
        self.writer.close()
        starts, data = _group_starts(self.path), memoryview(self.path.read_bytes())
        footer = int.from_bytes(data[-8:-4], "little") + 8
        ends, sha = [*starts[1:], len(data) - footer], hashlib.sha256(data).hexdigest()
        first = last = fetched = unfetched = None
        if self.times:
            times = pl.concat(self.times)
            (first, *low), (last, *high) = times.min().row(0), times.max().row(0)
            fetched, unfetched = (
                None if pair[0] is None else pair for pair in zip(low, high, strict=True)
            )
        entry = FileEntry(
            path=f"{self.partition.folder}/{sha[:16]}.parquet",
            table=self.partition.spec.name,
            cluster=self.partition.cluster,
            day=self.partition.day,
            run=run,
            rows=self.rows,
            bytes=len(data),
            sha256=sha,
            footer=(footer, hashlib.sha256(data[-footer:]).hexdigest()[:16]),
            groups=tuple(
                (rows, end - start, zlib.crc32(data[start:end]))
                for rows, start, end in zip(self.group_rows, starts, ends, strict=True)
            ),
            places=_nested(self.places),
            first=first,
            last=last,
            fetched=fetched,
            unfetched=unfetched,
        )
        storage.put(self.path, entry.path)
        return entry


def _times(frame: pl.DataFrame, spec: Table) -> pl.DataFrame:
    """Return the lowest and the highest times of rows, in ms: of all, when fetched, of others."""
    day = pl.col(spec.day)
    fetched = pl.col("fetched_at") if "fetched_at" in spec.names else pl.lit(None, dtype=TIME)
    times = frame.select(day=day, fetched=fetched, bare=pl.when(fetched.is_null()).then(day))
    times = times.select(pl.all().to_physical())
    return pl.concat([times.min(), times.max()])


def _nested(places: Sequence[tuple[Place, int]]) -> Any:
    """Return places and rows by namespace, as `FileEntry.places` holds them."""
    found: list[tuple[str | None, list[str | None], list[int]]] = []
    for (namespace, name), rows in places:
        if not found or found[-1][0] != namespace:
            found.append((namespace, [], []))
        found[-1][1].append(name)
        found[-1][2].append(rows)
    return tuple((namespace, tuple(names), tuple(rows)) for namespace, names, rows in found)


def _group_starts(path: Path) -> list[int]:
    metadata = pq.read_metadata(path)
    starts = []
    for number in range(metadata.num_row_groups):
        chunk = metadata.row_group(number).column(0)
        offset = chunk.dictionary_page_offset
        starts.append(chunk.data_page_offset if offset is None else offset)
    return starts
