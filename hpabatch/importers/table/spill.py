"""Clean rows of a table in sorted runs on disk, read back workload by workload in bounded memory.

A part of the input is a file, or some row groups of a large Parquet file. It becomes runs, each in
two Parquet files: the rows, with numbers in place of names, and the names by number. A group is a
range of neighbouring pods (or workloads), whose rows are cut out of every run.

Numbers count the keys in order from 0. What is done by row (sorting, grouping, copying) takes a
fraction of what it takes with strings; names are filled in at the end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np
import polars as pl

import hpabatch
from hpabatch._json import decode_json
from hpabatch.errors import RefusedError
from hpabatch.history.files import atomic_folder, read_small, remove
from hpabatch.importers.common.work import disk_errors
from hpabatch.importers.table.files import TableFile, read_chunks
from hpabatch.importers.table.map import Level, TableMap
from hpabatch.importers.table.rows import KEY, POD_KEY, WORKLOAD_KEY, Tally, clean_rows, key_rank
from hpabatch.model.printable import counted

_TS = "ts"
_LARGEST = 2**63 - 1


class Keyed(NamedTuple):
    """Rows with the column `KEY`, and the names of each key in the order of their numbers."""

    rows: pl.DataFrame
    keys: pl.DataFrame

    def named(self) -> pl.DataFrame:
        """Return the rows with names too."""
        return self.keys[self.rows[KEY]].hstack(self.rows)


def split_names(rows: pl.DataFrame, names: Sequence[str]) -> Keyed:
    """Return rows, in their order, without the columns of their key's names."""
    keys, number = number_rows(rows.select(names))
    return Keyed(rows.drop(names).with_columns(number), keys)


def merge(parts: Sequence[Keyed]) -> Keyed:
    """Return the rows of all parts by key and ts; equal ones stay in the order of the parts."""
    keys, number = number_rows(pl.concat([part.keys for part in parts]))
    found, first = [], 0
    for rows, own in parts:
        theirs = number.slice(first, own.height)
        found.append(rows.with_columns(theirs.gather(rows[KEY]).alias(KEY)))
        first += own.height
    return Keyed(_ordered(pl.concat(found)), keys)


def number_rows(names: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
    """Return the distinct rows of a frame of strings, sorted, and the number of each row.

    They hold on to no strings but their own: those of a piece may be a hundred times as many.
    """
    rank = key_rank(names, names.columns).to_numpy()
    _, first, number = np.unique(rank, return_index=True, return_inverse=True)
    keys = pl.DataFrame(names[first].to_arrow(compat_level=pl.CompatLevel.oldest()))
    return keys, pl.Series(KEY, number, dtype=pl.UInt32)


def _ordered(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows by key and ts, equal ones in their order.

    One number stands for both: to sort by two columns takes four times as long.
    """
    if rows.is_empty():
        return rows
    ts = pl.col(_TS)
    least, last, key = rows.select(ts.min(), ts.max().alias("last"), pl.col(KEY).max()).row(0)
    span = last - least + 1
    if (key + 1) * span > _LARGEST:
        return rows.sort(KEY, _TS, maintain_order=True)
    place = rows.select(pl.col(KEY).cast(pl.Int64) * span + (ts - least)).to_series()
    number = place.to_numpy()
    if (number[1:] >= number[:-1]).all():
        return rows
    return rows[np.argsort(number, kind="stable")]


Item = TypeVar("Item")
Result = TypeVar("Result")

GROUP_ROWS = 1 << 19
"""Rows of a group, about: what is held in memory at once, and what one part of a store gets."""

RUN_BYTES = 40 << 20
"""Clean rows sorted together: fewer runs make fewer, longer reads, and less to merge."""

_READERS = 2
_ROW_GROUP = 1 << 15
_MERGED_KEYS = 1 << 20
_COUNTED = ("rows", "sized", "first", "last")
_WORKLOAD = ["cluster", "namespace", "target"]
_RECORD = "record.json"
_MADE_BY = f"hpabatch {hpabatch.__version__}, polars {pl.__version__}"


class Run(NamedTuple):
    """A sorted run; `starts` are the rows, `key_starts` the keys at which groups begin, and end."""

    path: Path
    starts: Sequence[int] = ()
    key_starts: Sequence[int] = ()

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


@dataclass(slots=True)
class Spill:
    """All runs of a table, what was read, and how the rows are grouped.

    `spans` has a row per cluster, `workloads` one per workload: first and last ts in ms.
    """

    folder: Path
    runs: list[Run] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    groups: int = 0
    rows: int = 0
    spans: pl.DataFrame = field(default_factory=pl.DataFrame)
    workloads: pl.DataFrame = field(default_factory=pl.DataFrame)

    def read_group(self, number: int) -> Keyed:
        """Return the clean rows of a group, sorted by key, ts and seq."""
        with disk_errors(self.folder):
            parts = [r.part(number) for r in self.runs if r.starts[number + 1] > r.starts[number]]
        return parts[0] if len(parts) == 1 else merge(parts)


class _Record(msgspec.Struct):
    """Record of a part that was read: the versions that read it, its files' sizes, its counts."""

    made_by: str
    files: dict[str, int]
    tally: Tally


def read_spill(
    parts: Sequence[TableFile],
    table: TableMap,
    folder: Path,
    group_rows: int = GROUP_ROWS,
    progress: Callable[[int], None] = lambda rows: None,
) -> Spill:
    """Read all parts into a folder, but what an interrupted run has left there; group the rows.

    `progress` gets the number of rows read so far.

    Raises:
        HistoryError: a file is broken or does not fit the map.
        UsageError: the folder cannot be written or read.
        RefusedError: two workloads have one name, or no row says how many replicas there were.
    """
    spill = Spill(folder)
    with disk_errors(folder):
        for left in folder.glob(".read-*"):  # of runs that were killed
            remove(left)
    for part in parts:
        place = folder / f"read-{part.number:05d}"
        record = _kept(place)
        if record is None:

            def tell(rows: int, before: int = spill.tally.read) -> None:
                progress(before + rows)

            with atomic_folder(place, lambda former: True) as fresh:
                record = _read_part(part, table, fresh, tell)
        spill.tally.add(record.tally)
        spill.runs += [Run(place / _run_name(number)) for number in range(len(record.files) // 2)]
        progress(spill.tally.read)
    with disk_errors(folder):
        if spill.runs:
            _group(spill, table, group_rows)
    return spill


def _kept(place: Path) -> _Record | None:
    """Return the record of a part; None: it is not whole, or another version's."""
    try:
        record = decode_json(read_small(place / _RECORD), _Record)
        sizes = {name: (place / name).stat().st_size for name in record.files}
    except (OSError, ValueError):
        return None
    return record if (record.made_by, record.files) == (_MADE_BY, sizes) else None


def _read_part(
    part: TableFile, table: TableMap, folder: Path, progress: Callable[[int], None]
) -> _Record:
    tally = Tally()
    for number, pieces in enumerate(_collected(part, table, tally, progress)):
        rows, keys = _sorted_run(pieces)
        run = Run(folder / _run_name(number))
        with disk_errors(folder):
            rows.write_parquet(
                run.path, compression="lz4", row_group_size=_ROW_GROUP, statistics=False
            )
            keys.write_parquet(run.keys, compression="lz4", row_group_size=_ROW_GROUP)
    with disk_errors(folder):
        sizes = {file.name: file.stat().st_size for file in sorted(folder.iterdir())}
        record = _Record(_MADE_BY, sizes, tally)
        (folder / _RECORD).write_bytes(msgspec.json.encode(record))
    return record


def _run_name(number: int) -> str:
    return f"run-{number:05d}.parquet"


def _collected(
    file: TableFile, table: TableMap, tally: Tally, progress: Callable[[int], None]
) -> Iterator[list[Keyed]]:
    """Yield the clean rows of a part in pieces of about RUN_BYTES; `tally` counts along."""

    def clean(piece: tuple[int, pl.DataFrame]) -> tuple[Keyed, Tally]:
        rows, own = clean_rows(piece[1], piece[0], file, table)
        return split_names(rows, _key_columns(table)), own

    waiting: list[Keyed] = []
    size = 0
    for piece, own in ahead(clean, read_chunks(file, table), _READERS):
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


def _sorted_run(parts: Sequence[Keyed]) -> Keyed:
    """Return the rows of all parts sorted, and the keys with their counts."""
    rows, keys = merge(parts)
    given = "replicas" if "replicas" in rows.columns else "ts"
    sized = rows[given].is_not_null().cast(pl.Int64).cum_sum().to_numpy()
    ts = rows["ts"].to_numpy()
    count = np.bincount(rows[KEY].to_numpy())
    end = np.cumsum(count)
    values = (count, np.diff(sized[end - 1], prepend=0), ts[end - count], ts[end - 1])
    counts = zip(_COUNTED, values, strict=True)
    return Keyed(rows, keys.with_columns(pl.Series(k, v, pl.Int64) for k, v in counts))


def _key_columns(table: TableMap) -> list[str]:
    """Return the columns of strings, in the order in which keys are sorted."""
    return [*(POD_KEY if table.level is Level.pod else WORKLOAD_KEY)[:-1], "kind"]


def _all_keys(runs: Sequence[Run], names: Sequence[str]) -> pl.DataFrame:
    """Return the keys of all runs, sorted, each once with its counts."""

    def merged() -> pl.DataFrame:
        counts = pl.col("rows", "sized").sum(), pl.col("first").min(), pl.col("last").max()
        return pl.concat(found).group_by(names).agg(*counts)

    found: list[pl.DataFrame] = []
    for run in runs:
        found.append(pl.read_parquet(run.keys))
        if sum(frame.height for frame in found) > _MERGED_KEYS:
            found = [merged()]
    return merged().sort(names)


def _refuse_kinds(total: pl.DataFrame) -> None:
    """Refuse two workloads of one name: a history distinguishes their pods by name only."""
    kinds = total.group_by(_WORKLOAD).agg(pl.col("kind").min(), other=pl.col("kind").max())
    twice = kinds.filter(pl.col("kind") != pl.col("other")).sort(_WORKLOAD)
    if twice.is_empty():
        return
    _, namespace, name, kind, other = twice.row(0)
    more = f" (and {twice.height - 1:,} more)" if twice.height > 1 else ""
    raise RefusedError(
        f"namespace {namespace} has {kind}/{name} and {other}/{name}{more}, and a history tells "
        "workloads apart by namespace and name: import one kind (`where`) or make the names "
        "differ (columns.workload by sql); nothing is written"
    )


def _group(spill: Spill, table: TableMap, group_rows: int) -> None:
    """Divide the keys into groups of neighbours and find where each begins in every run."""
    names = _key_columns(table)
    total = _all_keys(spill.runs, names)
    spill.rows = int(total["rows"].sum())
    edges = pl.col("first").min(), pl.col("last").max()
    spill.spans = total.group_by("cluster").agg(*edges)
    spill.workloads = total.group_by(_WORKLOAD).agg(*edges).sort(_WORKLOAD)
    _refuse_kinds(total)
    if table.level is Level.workload and not total["sized"].sum():
        raise RefusedError(
            f"none of {counted(spill.rows, 'row')} has a number of replicas: is columns.replicas "
            "right? Nothing is written"
        )
    # Rows of a pod (of a workload) stay together.
    together = [*_WORKLOAD, "pod"] if table.level is Level.pod else _WORKLOAD
    place = key_rank(total, together).rle_id().to_numpy()
    rows = np.zeros(int(place[-1]) + 1, np.int64)
    np.add.at(rows, place, total["rows"].to_numpy())
    # The group of a place is where its rows begin in the whole, counted in group sizes.
    number = (np.cumsum(rows) - rows) // group_rows
    dense = np.unique(number, return_inverse=True)[1]
    spill.groups = int(dense[-1]) + 1
    known = total.select(names).with_columns(group=pl.Series(dense[place], dtype=pl.Int64))
    for i, run in enumerate(spill.runs):
        keys = pl.read_parquet(run.keys)
        found = keys.join(known, on=names, how="left", maintain_order="left")
        first = np.searchsorted(found["group"].to_numpy(), np.arange(spill.groups + 1))
        ends = np.concatenate([[0], np.cumsum(keys["rows"].to_numpy())])
        spill.runs[i] = Run(run.path, ends[first].tolist(), first.tolist())
