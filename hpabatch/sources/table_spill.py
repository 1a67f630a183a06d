"""The clean rows of a table on disk, to be read back workload by workload in bounded memory.

Every input file becomes sorted runs (Parquet) in a work folder; a group is a range of neighbouring
pods (or workloads), whose rows are cut out of every run. A file whose runs are complete has a
`done.json`: an interrupted import takes up after it.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from hpabatch.history.atomic import atomic_path
from hpabatch.sources.table_files import CHUNK_ROWS, TableFile, read_chunks
from hpabatch.sources.table_map import Level, TableMap
from hpabatch.sources.table_rows import Tally, clean_rows

RUN_ROWS = 1 << 19
"""Clean rows sorted together: fewer runs make fewer, longer reads."""

GROUP_ROWS = 1 << 19
"""Rows of a group, about: what is held in memory at once, and what one part of a store gets."""

_ROW_GROUP = 1 << 15
_DONE = "done.json"
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
    workloads: int = 0

    def read_group(self, number: int) -> pl.DataFrame:
        """Return the clean rows of a group, in the order of the runs."""
        parts = []
        for run in self.runs:
            first, end = run.starts[number], run.starts[number + 1]
            if end > first:
                parts.append(pl.scan_parquet(run.path, glob=False).slice(first, end - first))
        return pl.concat([part.collect() for part in parts])


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
    """
    spill = Spill()
    counts = []
    for file in files:
        done = folder / f"file-{file.number:05d}"
        if not (done / _DONE).exists():
            _spill_file(file, table, done, lambda rows: progress(spill.tally.read + rows))
        said = json.loads((done / _DONE).read_text())
        spill.tally.add(Tally(said["read"], said["excluded"], Counter(said["dropped"])))
        spill.runs += [Run(done / name) for name in said["runs"]]
        counts.append(pl.read_parquet(done / _COUNTS))
        progress(spill.tally.read)
    _group(spill, pl.concat(counts), table, group_rows)
    return spill


def _spill_file(
    file: TableFile, table: TableMap, folder: Path, progress: Callable[[int], None]
) -> None:
    """Write the runs of one file, its counts, and last of all `done.json`."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tally = Tally()
    runs: list[str] = []
    counts: list[pl.DataFrame] = []
    for frame in _collected(file, table, tally, progress):
        name = f"run-{len(runs):05d}.parquet"
        keys = key_names(table)
        ordered = frame.sort([*keys, "ts", "seq"])
        ordered.write_parquet(
            folder / name, compression="lz4", row_group_size=_ROW_GROUP, statistics=False
        )
        runs.append(name)
        counts = [_count(pl.concat([*counts, _count(ordered.with_columns(rows=1), keys)]), keys)]
    empty = pl.DataFrame(schema={**dict.fromkeys(key_names(table), pl.String), **_COUNTED})
    (counts[0] if counts else empty).write_parquet(folder / _COUNTS)
    told = {
        "runs": runs,
        "read": tally.read,
        "excluded": tally.excluded,
        "dropped": dict(tally.dropped),
    }
    with atomic_path(folder / _DONE) as temporary:
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


_COUNTED = {"rows": pl.Int64, "first": pl.Int64, "last": pl.Int64}


def _count(frame: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Return per key the rows and the first and last ts, of rows or of earlier counts."""
    if "ts" in frame.columns:
        frame = frame.with_columns(first="ts", last="ts")
    return frame.group_by(keys).agg(
        pl.col("rows").sum().cast(pl.Int64), pl.col("first").min(), pl.col("last").max()
    )


def _group(spill: Spill, counts: pl.DataFrame, table: TableMap, group_rows: int) -> None:
    """Divide the keys into groups of neighbours and find where each begins in every run."""
    keys = key_names(table)
    total = _count(counts, keys).sort(keys)
    spill.rows = int(total["rows"].sum())
    spill.spans = total.group_by("cluster").agg(pl.col("first").min(), pl.col("last").max())
    spill.workloads = total.select(keys[:3]).n_unique()
    if not spill.rows:
        return
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
