"""Sorted runs: the clean rows of a part of the input on disk.

A part is a file, or some row groups of a large Parquet file. It becomes runs (Parquet), each in two
files: the rows, with numbers in place of names, and the names by number.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np
import polars as pl

import hpabatch
from hpabatch._json import decode_json
from hpabatch.history.atomic import atomic_folder
from hpabatch.history.files import read_small
from hpabatch.importers.common.work import disk_errors
from hpabatch.importers.table.files import TableFile, read_chunks
from hpabatch.importers.table.keyed import Keyed, merge, split_names
from hpabatch.importers.table.map import Level, TableMap
from hpabatch.importers.table.rows import KEY, POD_KEY, WORKLOAD_KEY, Tally, clean_rows

Item = TypeVar("Item")
Result = TypeVar("Result")

RUN_BYTES = 40 << 20
"""Clean rows sorted together: fewer runs make fewer, longer reads, and less to merge."""

_READERS = 2
_ROW_GROUP = 1 << 15
_RECORD = "record.json"
_MADE_BY = f"hpabatch {hpabatch.__version__}, polars {pl.__version__}"
_COUNTED = ("rows", "sized", "first", "last")


@dataclass(frozen=True, slots=True)
class Run:
    """A sorted run and its keys.

    `starts` are the rows, `key_starts` the keys at which groups begin: one more than there are
    groups.
    """

    path: Path
    starts: tuple[int, ...] = ()
    key_starts: tuple[int, ...] = ()

    @property
    def keys(self) -> Path:
        """The file of its keys: names, number of rows, first and last ts, in the rows' order."""
        return self.path.with_suffix(".keys.parquet")

    def part(self, group: int) -> Keyed:
        """Return a group's rows, whose keys count from 0."""
        rows, keys = (
            pl.scan_parquet(path, glob=False).slice(at[group], at[group + 1] - at[group]).collect()
            for path, at in ((self.path, self.starts), (self.keys, self.key_starts))
        )
        return Keyed(rows.with_columns(pl.col(KEY) - self.key_starts[group]), keys.drop(_COUNTED))


@dataclass(frozen=True, slots=True)
class ReadPart:
    """A part that was read: its counts and runs, in a folder of its own."""

    tally: Tally
    runs: Sequence[Run]


class _Record(msgspec.Struct):
    """Record of a part that was read: the versions that read it, its files' sizes, its counts."""

    made_by: str
    files: dict[str, int]
    read: int
    excluded: int
    dropped: dict[str, int]
    metrics: dict[str, int]
    first: dict[str, tuple[int, str]]


def read_parts(
    parts: Sequence[TableFile], table: TableMap, folder: Path, progress: Callable[[int], None]
) -> list[ReadPart]:
    """Write the runs of all parts into a folder; what is there of an interrupted run stays.

    `progress` gets the number of rows read so far.

    Raises:
        HistoryError: a file is broken or does not fit the map.
        UsageError: the folder cannot be written.
    """
    found: list[ReadPart] = []
    done = 0
    for part in parts:
        place = folder / f"read-{part.number:05d}"
        read = _kept_part(place)
        if read is None:
            with atomic_folder(place, lambda former: True) as fresh:
                _read_part(part, table, fresh, lambda rows, before=done: progress(before + rows))
            read = _kept_part(place)
            assert read is not None, "it was just written"
        found.append(read)
        done += read.tally.read
        progress(done)
    return found


def _kept_part(place: Path) -> ReadPart | None:
    """Return the part in a folder; None: it is not whole, or another version's."""
    try:
        record = decode_json(read_small(place / _RECORD), _Record)
        sizes = {name: (place / name).stat().st_size for name in record.files}
    except (OSError, ValueError):
        return None
    if record.made_by != _MADE_BY or sizes != record.files:
        return None
    counted = Counter(record.dropped), Counter(record.metrics)
    tally = Tally(record.read, record.excluded, *counted, record.first)
    return ReadPart(tally, [Run(place / _run_name(k)) for k in range(len(sizes) // 2)])


def key_columns(table: TableMap) -> list[str]:
    """Return the columns of strings, in the order in which keys are sorted."""
    return [*(POD_KEY if table.level is Level.pod else WORKLOAD_KEY)[:-1], "kind"]


def _read_part(
    part: TableFile, table: TableMap, folder: Path, progress: Callable[[int], None]
) -> None:
    tally = Tally()
    with disk_errors(folder):
        for number, pieces in enumerate(_collected(part, table, tally, progress)):
            rows, keys = _sorted_run(pieces)
            run = Run(folder / _run_name(number))
            rows.write_parquet(
                run.path, compression="lz4", row_group_size=_ROW_GROUP, statistics=False
            )
            keys.write_parquet(run.keys, compression="lz4", row_group_size=_ROW_GROUP)
        sizes = {file.name: file.stat().st_size for file in sorted(folder.iterdir())}
        record = _Record(_MADE_BY, sizes, **asdict(tally))
        (folder / _RECORD).write_bytes(msgspec.json.encode(record))


def _run_name(number: int) -> str:
    return f"run-{number:05d}.parquet"


def _collected(
    file: TableFile, table: TableMap, tally: Tally, progress: Callable[[int], None]
) -> Iterator[list[Keyed]]:
    """Yield the clean rows of a part in pieces of about RUN_BYTES; `tally` counts along."""
    waiting: list[Keyed] = []
    size = 0
    for piece, own in _cleaned(file, table):
        tally.add(own)
        progress(tally.read)
        if piece.rows.is_empty():
            continue
        waiting.append(piece)
        size += sum(int(frame.estimated_size()) for frame in piece)
        if size >= RUN_BYTES:
            yield waiting
            waiting, size = [], 0
    if waiting:
        yield waiting


def ahead(work: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """Yield the result of each item in order; those of the next `workers` items are made meanwhile.

    An error is raised where its result would come.
    """
    with ThreadPoolExecutor(workers) as pool:
        jobs: deque[Future[Result]] = deque()
        for item in items:
            jobs.append(pool.submit(work, item))
            if len(jobs) > workers:
                yield jobs.popleft().result()
        while jobs:
            yield jobs.popleft().result()


def _cleaned(file: TableFile, table: TableMap) -> Iterator[tuple[Keyed, Tally]]:
    """Return the clean rows of each piece of a file, in order, and what was counted in it."""
    names = key_columns(table)

    def clean(piece: tuple[int, pl.DataFrame]) -> tuple[Keyed, Tally]:
        first, raw = piece
        rows, counted = clean_rows(raw, first, file, table)
        return split_names(rows, names), counted

    return ahead(clean, read_chunks(file, table), _READERS)


def _sorted_run(parts: Sequence[Keyed]) -> Keyed:
    """Return the rows of all parts sorted, and the keys with their counts."""
    rows, keys = merge(parts)
    given = "replicas" if "replicas" in rows.columns else "ts"
    sized = rows[given].is_not_null().cast(pl.Int64).cum_sum().to_numpy()
    ts = rows["ts"].to_numpy()
    count = np.bincount(rows[KEY].to_numpy())
    end = np.cumsum(count)
    counted = {
        "rows": count,
        "sized": np.diff(sized[end - 1], prepend=0),
        "first": ts[end - count],
        "last": ts[end - 1],
    }
    return Keyed(rows, keys.with_columns(pl.Series(k, v, pl.Int64) for k, v in counted.items()))
