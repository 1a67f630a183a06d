"""Data files of a store: sorted rows, with whole places in each row group."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq

from hpabatch.history.checks import run_starts
from hpabatch.history.columns import TIME, Table
from hpabatch.history.store.catalog import FileEntry, Place, folder_of
from hpabatch.history.store.storage import Storage, disk_error
from hpabatch.history.store.writer import arrow_rows, open_parquet

MIN_GROUP_ROWS = 1 << 16
MAX_GROUP_ROWS = 1 << 20
MAX_FILE_ROWS = 1 << 22
LEVEL = 3

Piece = tuple[Place, pl.DataFrame]
"""Rows of one place."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes of written files, in rows.

    Attributes:
        group_min: a row group is closed from this size on.
        group_max: a place with more rows is split.
        file_max: most rows of a file.
    """

    group_min: int
    group_max: int
    file_max: int


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
    limits: Limits | None = None,
) -> list[FileEntry]:
    """Write sorted pieces as data files and put them in their place.

    One row group is in memory at a time. The files depend on the rows alone, not on the pieces.

    Args:
        pieces: rows of each place, all registered columns, sorted by the table's key; places in
            order, each once.
        partition: of the rows.
        run: number of this run within the commit.
        storage: where the files go.
        folder: a local folder for unfinished files, see `Storage.workspace`.
        limits: sizes, None: the defaults.

    Raises:
        UsageError: the files cannot be written.
    """
    limits = limits or Limits(MIN_GROUP_ROWS, MAX_GROUP_ROWS, MAX_FILE_ROWS)
    entries: list[FileEntry] = []
    building: _Building | None = None
    try:
        for group in _groups(pieces, limits):
            rows = sum(frame.height for _, frame in group)
            if building is not None and building.rows + rows > limits.file_max:
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


def _groups(pieces: Iterable[Piece], limits: Limits) -> Iterator[list[Piece]]:
    group: list[Piece] = []
    rows = 0
    for place, frame in pieces:
        if group and rows + frame.height > limits.group_max:
            yield group
            group, rows = [], 0
        if frame.height > limits.group_max:
            for part in frame.iter_slices(limits.group_max):
                yield [(place, part)]
            continue
        group.append((place, frame))
        rows += frame.height
        if rows >= limits.group_min:
            yield group
            group, rows = [], 0
    if group:
        yield group


@dataclass
class _Building:
    """A file that is being written."""

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
        size = self.path.stat().st_size
        starts = _group_starts(self.path)
        footer = int.from_bytes(_tail(self.path, 8)[:4], "little") + 8
        sha, sums = _digests(self.path, [*starts, size - footer])
        footer_sha = hashlib.sha256(_tail(self.path, footer)).hexdigest()[:16]
        ends = [*starts[1:], size - footer]
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
            bytes=size,
            sha256=sha,
            footer=(footer, footer_sha),
            groups=tuple(
                (rows, end - start, checksum)
                for rows, start, end, checksum in zip(
                    self.group_rows, starts, ends, sums, strict=True
                )
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


def _tail(path: Path, count: int) -> bytes:
    with path.open("rb") as stream:
        stream.seek(-count, 2)
        return stream.read(count)


def _digests(path: Path, bounds: Sequence[int]) -> tuple[str, list[int]]:
    """Return a file's sha256, and the CRC-32 of the bytes between each two bounds."""
    sha, sums = hashlib.sha256(), []
    with path.open("rb") as stream:
        sha.update(stream.read(bounds[0]))
        for start, end in pairwise(bounds):
            checksum, left = 0, end - start
            while left and (part := stream.read(min(left, 1 << 20))):
                sha.update(part)
                checksum = zlib.crc32(part, checksum)
                left -= len(part)
            sums.append(checksum)
        sha.update(stream.read())
    return sha.hexdigest(), sums
