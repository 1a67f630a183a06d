"""The clean rows of a table on disk, to be read back workload by workload in bounded memory.

Every input file becomes sorted runs (Parquet) in a work folder; a group is a range of neighbouring
pods (or workloads), whose rows are cut out of every run. A file whose runs are complete has a
`done.json`: an interrupted import takes up after it.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
import polars as pl

from hpabatch._trust import make_folder, why_not_private
from hpabatch.errors import RefusedError, UsageError
from hpabatch.history.atomic import atomic_path, flush
from hpabatch.history.polars_errors import first_line
from hpabatch.importers.table.files import CHUNK_ROWS, TableFile, read_chunks
from hpabatch.importers.table.map import Level, TableMap
from hpabatch.importers.table.rows import Tally, clean_rows

RUN_ROWS = 1 << 19
"""Clean rows sorted together: fewer runs make fewer, longer reads."""

GROUP_ROWS = 1 << 19
"""Rows of a group, about: what is held in memory at once, and what one part of a store gets."""

_ROW_GROUP = 1 << 15
_DONE = "done.json"
_LOCK = "lock"
_COUNTS = "counts.parquet"


@dataclass(frozen=True, slots=True)
class Run:
    """A sorted run; `starts` are the rows at which groups begin, one more than there are groups."""

    path: Path
    starts: tuple[int, ...] = ()


@dataclass(slots=True)
class Spill:
    """All runs of a table, what was read, and how the rows are grouped.

    `spans` has a row per cluster: first and last ts in ms.
    """

    runs: list[Run] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    groups: int = 0
    rows: int = 0
    spans: pl.DataFrame = field(default_factory=pl.DataFrame)

    def read_group(self, number: int) -> pl.DataFrame:
        """Return the clean rows of a group, in the order of the runs."""
        parts = []
        for run in self.runs:
            first, end = run.starts[number], run.starts[number + 1]
            if end > first:
                parts.append(pl.scan_parquet(run.path, glob=False).slice(first, end - first))
        with disk_errors(self.runs[0].path.parents[1]):
            return pl.concat([part.collect() for part in parts])


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
def locked(folder: Path) -> Iterator[None]:
    """Make a work folder and keep it to this process while the block runs.

    Raises:
        UsageError: it cannot be made, others can change it, or another process works in it.
    """
    place = folder / _LOCK
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
        yield


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
    counts = []
    for file in files:
        done = folder / f"file-{file.number:05d}"
        kept = _kept_file(done)
        if kept is None:
            _spill_file(file, table, done, lambda rows: progress(spill.tally.read + rows))
            kept = _kept_file(done)
            assert kept is not None
        spill.tally.add(kept[0])
        spill.runs += kept[1]
        with disk_errors(folder):
            counts.append(pl.read_parquet(done / _COUNTS))
        progress(spill.tally.read)
    _group(spill, pl.concat(counts), table, group_rows)
    return spill


def _kept_file(folder: Path) -> tuple[Tally, list[Run]] | None:
    """Return what was read of a file and its runs; None: it is not known, or not all is there."""
    try:
        said = json.loads((folder / _DONE).read_text())
        sizes = said["sizes"]
        if any((folder / name).stat().st_size != size for name, size in sizes.items()):
            return None
        tally = Tally(said["read"], said["excluded"], Counter(said["dropped"]))
        return tally, [Run(folder / name) for name in sizes if name != _COUNTS]
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
    runs: list[str] = []
    counts: list[pl.DataFrame] = []
    for frame in _collected(file, table, tally, progress):
        name = f"run-{len(runs):05d}.parquet"
        keys = key_names(table)
        ordered = frame.sort([*keys, "ts", "seq"])
        with disk_errors(folder.parent):
            ordered.write_parquet(
                folder / name, compression="lz4", row_group_size=_ROW_GROUP, statistics=False
            )
        runs.append(name)
        counts = [_count(pl.concat([*counts, _count(ordered.with_columns(rows=1), keys)]), keys)]
    empty = pl.DataFrame(schema={**dict.fromkeys(key_names(table), pl.String), **_COUNTED})
    with disk_errors(folder.parent):
        (counts[0] if counts else empty).write_parquet(folder / _COUNTS)
        written = [folder / name for name in (*runs, _COUNTS)]
        for path in (*written, folder):
            flush(path)
        sizes = {path.name: path.stat().st_size for path in written}
    told = {
        "sizes": sizes,
        "read": tally.read,
        "excluded": tally.excluded,
        "dropped": dict(tally.dropped),
    }
    with disk_errors(folder.parent), atomic_path(folder / _DONE) as temporary:
        temporary.write_text(json.dumps(told))


def _collected(
    file: TableFile, table: TableMap, tally: Tally, progress: Callable[[int], None]
) -> Iterator[pl.DataFrame]:
    """Yield the clean rows of a file in pieces of about RUN_ROWS; `tally` counts along."""
    waiting: list[pl.DataFrame] = []
    for first, raw in read_chunks(file, table):
        rows, counted = clean_rows(raw, first, file, table)
        tally.add(counted)
        progress(tally.read)
        waiting.append(rows)
        if sum(part.height for part in waiting) > RUN_ROWS - CHUNK_ROWS:
            yield pl.concat(waiting)
            waiting = []
    if sum(part.height for part in waiting):
        yield pl.concat(waiting)


_COUNTED = {
    "rows": pl.Int64,
    "sized": pl.Int64,
    "first": pl.Int64,
    "kind_first": pl.String,
    "last": pl.Int64,
    "kind_last": pl.String,
}


def _count(frame: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Return per key the rows, the first and last ts and kind, of rows or of earlier counts."""
    if "ts" in frame.columns:
        sized = pl.col("replicas").is_not_null() if "replicas" in frame.columns else pl.lit(1)
        frame = frame.with_columns(
            first="ts", last="ts", kind_first="kind", kind_last="kind", sized=sized.cast(pl.Int64)
        )
    return frame.group_by(keys).agg(
        pl.col("rows", "sized").sum().cast(pl.Int64),
        pl.col("first", "kind_first").min(),
        pl.col("last", "kind_last").max(),
    )


def _refuse_kinds(total: pl.DataFrame) -> None:
    """Refuse two workloads of one name: a history tells their pods apart by name only.

    Raises:
        RefusedError: a namespace has a name with two kinds.
    """
    names = ["cluster", "namespace", "target"]
    kinds = total.group_by(names).agg(pl.col("kind_first").min(), pl.col("kind_last").max())
    twice = kinds.filter(pl.col("kind_first") != pl.col("kind_last")).sort(names)
    if twice.is_empty():
        return
    _, namespace, name, one, other = twice.row(0)
    more = f" (and {twice.height - 1:,} more)" if twice.height > 1 else ""
    raise RefusedError(
        f"namespace {namespace} has {one}/{name} and {other}/{name}{more}, and a history tells "
        "workloads apart by namespace and name: import one kind (`where`) or make the names "
        "differ (columns.workload by sql); nothing is written"
    )


def _group(spill: Spill, counts: pl.DataFrame, table: TableMap, group_rows: int) -> None:
    """Divide the keys into groups of neighbours and find where each begins in every run."""
    keys = key_names(table)
    total = _count(counts, keys).sort(keys)
    spill.rows = int(total["rows"].sum())
    spill.spans = total.group_by("cluster").agg(pl.col("first").min(), pl.col("last").max())
    if not spill.rows:
        return
    _refuse_kinds(total)
    if table.level is Level.workload and not total["sized"].sum():
        raise RefusedError(
            f"none of {spill.rows:,} rows says how many replicas there were: is columns.replicas "
            "right? Nothing is written"
        )
    ends = total["rows"].cum_sum().to_numpy()
    # The group of a key is where its rows begin in the whole, counted in group sizes.
    number = (ends - total["rows"].to_numpy()) // group_rows
    dense = np.unique(number, return_inverse=True)[1]
    spill.groups = int(dense[-1]) + 1
    known = total.select(keys).with_columns(group=pl.Series(dense, dtype=pl.Int64))
    for i, run in enumerate(spill.runs):
        found = pl.read_parquet(run.path, columns=keys).join(
            known, on=keys, how="left", maintain_order="left"
        )
        starts = np.searchsorted(found["group"].to_numpy(), np.arange(spill.groups + 1))
        spill.runs[i] = Run(run.path, tuple(starts.tolist()))
