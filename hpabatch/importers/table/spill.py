"""Clean rows of a table on disk, read back workload by workload in bounded memory.

Every input file becomes sorted runs (Parquet) in a work folder: the rows, with numbers in place of
names, and the names by number. A group is a range of neighbouring pods (or workloads), whose rows
are cut out of every run. A file whose runs are complete has a `done.json`: a resumed import
continues after it.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
import polars as pl

from hpabatch._trust import make_folder, why_not_private
from hpabatch.errors import RefusedError, UsageError
from hpabatch.history.atomic import atomic_path, empty_folder, flush, remove_new_folders
from hpabatch.history.polars_errors import first_line
from hpabatch.history.store.append import StoreWriter
from hpabatch.importers.table.ahead import ahead
from hpabatch.importers.table.files import TableFile, read_chunks
from hpabatch.importers.table.keyed import Keyed, merge, split_names
from hpabatch.importers.table.map import Level, TableMap
from hpabatch.importers.table.rows import (
    KEY,
    POD_KEY,
    WORKLOAD_KEY,
    Tally,
    clean_rows,
    key_rank,
)
from hpabatch.model.printable import counted

RUN_BYTES = 40 << 20
"""Clean rows sorted together: fewer runs make fewer, longer reads, and less to merge."""

GROUP_ROWS = 1 << 19
"""Rows of a group, about: what is held in memory at once, and what one part of a store gets."""

_READERS = 2
_ROW_GROUP = 1 << 15
_DONE = "done.json"
_LOCK = "lock"
_FORMAT = 2
"""Raise it when the runs change: those of an earlier version are then written again."""

_KEYS = ".keys.parquet"
_ROW = "\0row"
_MERGED_KEYS = 1 << 20


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
        return self.path.with_suffix(_KEYS)

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

    runs: list[Run] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    groups: int = 0
    rows: int = 0
    spans: pl.DataFrame = field(default_factory=pl.DataFrame)
    workloads: pl.DataFrame = field(default_factory=pl.DataFrame)

    def read_group(self, number: int) -> Keyed:
        """Return the clean rows of a group, sorted by key, ts and seq."""
        with disk_errors(self.runs[0].path.parents[1]):
            parts = [r.part(number) for r in self.runs if r.starts[number + 1] > r.starts[number]]
        return parts[0] if len(parts) == 1 else merge(parts)


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Tell what is wrong with the work folder when the block cannot read or write in it.

    Raises:
        UsageError: it cannot.
    """
    try:
        yield
    except (OSError, pl.exceptions.PolarsError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or first_line(error)
        raise UsageError(
            f"the folder for intermediate files {folder} cannot be used: {reason}; make room "
            "there or name another with --work"
        ) from error


@contextmanager
def locked(folder: Path, store: StoreWriter | None = None) -> Iterator[None]:
    """Make a work folder and keep it to this process while the block runs.

    A new import that is refused before anything is written leaves nothing behind; nor do new
    parents remain of a folder that is gone. What another run has left there stays, and so does what
    was read when something has been committed meanwhile: the same command again needs it.

    Raises:
        UsageError: it cannot be made, others can change it, or another process works in it.
    """
    fresh, number = not folder.exists(), store.refresh().number if store else 0
    with remove_new_folders(folder), _locked(folder, folder / _LOCK):
        try:
            yield
        except RefusedError:
            with suppress(OSError):
                if fresh and store is not None and store.refresh().number == number:
                    empty_folder(folder, but=_LOCK)
            raise


@contextmanager
def _locked(folder: Path, place: Path) -> Iterator[None]:
    make_private(folder)
    with disk_errors(folder):
        stream = _open_lock(place)
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever had it just now may have deleted it, with the folder.
            mine = place.exists() and os.path.samestat(os.fstat(stream.fileno()), place.stat())
        except OSError:
            mine = False
        if not mine:
            raise UsageError(
                f"the same import is running already, with intermediate files in {folder}: wait "
                "for its end and repeat the command"
            )
        try:
            yield
        finally:
            with suppress(OSError):
                if os.listdir(folder) == [_LOCK]:
                    place.unlink()


def make_private(folder: Path) -> None:
    """Make a folder for this user alone, unless it is there.

    Raises:
        UsageError: it cannot be made, or others can change it: what lies there is believed.
    """
    with disk_errors(folder):
        make_folder(folder.parent)
        make_folder(folder, 0o700)
    if (fault := why_not_private(folder)) is not None:
        raise UsageError(
            "expected a folder for intermediate files that only this user can change, got "
            f"{folder}: {fault}; remove it or name another with --work"
        )


def _open_lock(place: Path) -> BinaryIO:
    make_folder(place.parent, 0o700)
    return place.open("ab")


def key_names(table: TableMap) -> list[str]:
    """Return the columns whose rows stay together in a group."""
    names = ["cluster", "namespace", "target"]
    return [*names, "pod"] if table.level is Level.pod else names


def _names(table: TableMap) -> list[str]:
    """Return the columns of strings, in the order in which keys are sorted."""
    return [*(POD_KEY if table.level is Level.pod else WORKLOAD_KEY)[:-1], "kind"]


def spill_files(
    files: Sequence[TableFile],
    table: TableMap,
    folder: Path,
    progress: Callable[[int], None],
    group_rows: int = GROUP_ROWS,
) -> Spill:
    """Write the clean rows of all files as runs and group them.

    `progress` gets the number of rows read so far.

    Raises:
        HistoryError: a file is broken or does not fit the map.
        UsageError: the work folder cannot be written.
        RefusedError: two workloads have one name, or no row says how many replicas there were.
    """
    spill = Spill()
    for file in files:
        done = folder / f"file-{file.number:05d}"
        kept = _kept_file(done)
        if kept is None:
            _spill_file(file, table, done, lambda rows: progress(spill.tally.read + rows))
            kept = _kept_file(done)
            assert kept is not None
        spill.tally.add(kept[0])
        spill.runs += kept[1]
        progress(spill.tally.read)
    with disk_errors(folder):
        _group(spill, table, group_rows)
    return spill


def _kept_file(folder: Path) -> tuple[Tally, list[Run]] | None:
    """Return what was read of a file and its runs; None: it is not known, or not all is there."""
    try:
        said = json.loads((folder / _DONE).read_text())
        sizes = said["sizes"]
        if said["format"] != _FORMAT or any(
            (folder / name).stat().st_size != size for name, size in sizes.items()
        ):
            return None
        counted = Counter(said["dropped"]), Counter(said["metrics"])
        tally = Tally(said["read"], said["excluded"], *counted)
        return tally, [Run(folder / name) for name in sizes if not name.endswith(_KEYS)]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


def _spill_file(
    file: TableFile, table: TableMap, folder: Path, progress: Callable[[int], None]
) -> None:
    """Write the runs of one file, its counts, and, once they are on disk, `done.json`."""
    with disk_errors(folder.parent):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    tally = Tally()
    written: list[Path] = []
    for parts in _collected(file, table, tally, progress):
        rows, keys = _sorted_run(parts)
        run = Run(folder / f"run-{len(written) // 2:05d}.parquet")
        with disk_errors(folder.parent):
            rows.write_parquet(
                run.path, compression="lz4", row_group_size=_ROW_GROUP, statistics=False
            )
            keys.write_parquet(run.keys, compression="lz4", row_group_size=_ROW_GROUP)
        written += run.path, run.keys
    with disk_errors(folder.parent):
        for path in (*written, folder):
            flush(path)
        sizes = {path.name: path.stat().st_size for path in written}
    told = {
        "format": _FORMAT,
        "sizes": sizes,
        "read": tally.read,
        "excluded": tally.excluded,
        "dropped": dict(tally.dropped),
        "metrics": dict(tally.metrics),
    }
    with disk_errors(folder.parent), atomic_path(folder / _DONE) as temporary:
        temporary.write_text(json.dumps(told))


def _collected(
    file: TableFile, table: TableMap, tally: Tally, progress: Callable[[int], None]
) -> Iterator[list[Keyed]]:
    """Yield the clean rows of a file in pieces of about RUN_BYTES; `tally` counts along."""
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


def _cleaned(file: TableFile, table: TableMap) -> Iterator[tuple[Keyed, Tally]]:
    """Return the clean rows of each piece of a file, in order, and what was counted in it."""
    names = _names(table)

    def clean(piece: tuple[int, pl.DataFrame]) -> tuple[Keyed, Tally]:
        first, raw = piece
        rows, counted = clean_rows(raw, first, file, table)
        return split_names(rows, names), counted

    return ahead(clean, read_chunks(file, table), _READERS)


_COUNTED = ("rows", "sized", "first", "last")


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


def _all_keys(runs: Sequence[Run], names: Sequence[str]) -> pl.DataFrame:
    """Return the keys of all runs, sorted, each with its counts."""
    found: list[pl.DataFrame] = []
    for run in runs:
        found.append(pl.read_parquet(run.keys))
        if sum(frame.height for frame in found) > _MERGED_KEYS:
            found = [_merged(found, names)]
    return _merged(found, names).sort(names)


def _merged(keys: Sequence[pl.DataFrame], names: Sequence[str]) -> pl.DataFrame:
    """Return the keys of several frames, each once."""
    return (
        pl.concat(keys)
        .group_by(names)
        .agg(pl.col("rows", "sized").sum(), pl.col("first").min(), pl.col("last").max())
    )


def _refuse_kinds(total: pl.DataFrame) -> None:
    """Refuse two workloads of one name: a history distinguishes their pods by name only.

    Raises:
        RefusedError: a namespace has a name with two kinds.
    """
    names = ["cluster", "namespace", "target"]
    kinds = total.group_by(names).agg(pl.col("kind").min(), pl.col("kind").max().alias("other"))
    twice = kinds.filter(pl.col("kind") != pl.col("other")).sort(names)
    if twice.is_empty():
        return
    _, namespace, name, one, other = twice.row(0)
    more = f" (and {twice.height - 1:,} more)" if twice.height > 1 else ""
    raise RefusedError(
        f"namespace {namespace} has {one}/{name} and {other}/{name}{more}, and a history tells "
        "workloads apart by namespace and name: import one kind (`where`) or make the names "
        "differ (columns.workload by sql); nothing is written"
    )


def _group(spill: Spill, table: TableMap, group_rows: int) -> None:
    """Divide the keys into groups of neighbours and find where each begins in every run."""
    if not spill.runs:
        return
    names = _names(table)
    total = _all_keys(spill.runs, names)
    spill.rows = int(total["rows"].sum())
    edges = pl.col("first").min(), pl.col("last").max()
    spill.spans = total.group_by("cluster").agg(*edges)
    workload = ["cluster", "namespace", "target"]
    spill.workloads = total.group_by(workload).agg(*edges).sort(workload)
    _refuse_kinds(total)
    if table.level is Level.workload and not total["sized"].sum():
        raise RefusedError(
            f"none of {counted(spill.rows, 'row')} has a number of replicas: is columns.replicas "
            "right? Nothing is written"
        )
    place = key_rank(total, key_names(table)).rle_id().to_numpy()
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
        spill.runs[i] = Run(run.path, tuple(ends[first].tolist()), tuple(first.tolist()))
