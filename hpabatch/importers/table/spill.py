"""Clean rows of a table on disk, read back workload by workload in bounded memory.

A group is a range of neighbouring pods (or workloads), whose rows are cut out of every run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from hpabatch.errors import RefusedError
from hpabatch.importers.common.work import disk_errors
from hpabatch.importers.table.keyed import Keyed, merge
from hpabatch.importers.table.map import Level, TableMap
from hpabatch.importers.table.rows import Tally, key_rank
from hpabatch.importers.table.runs import ReadPart, Run, key_columns
from hpabatch.model.printable import counted

GROUP_ROWS = 1 << 19
"""Rows of a group, about: what is held in memory at once, and what one part of a store gets."""

_MERGED_KEYS = 1 << 20


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


def key_names(table: TableMap) -> list[str]:
    """Return the columns whose rows stay together in a group."""
    names = ["cluster", "namespace", "target"]
    return [*names, "pod"] if table.level is Level.pod else names


def spill_of(
    parts: Iterable[ReadPart], table: TableMap, folder: Path, group_rows: int = GROUP_ROWS
) -> Spill:
    """Return the clean rows of all parts, grouped.

    Raises:
        UsageError: a run, in the work folder, cannot be read.
        RefusedError: two workloads have one name, or no row says how many replicas there were.
    """
    spill = Spill(folder)
    for part in parts:
        spill.tally.add(part.tally)
        spill.runs += part.runs
    with disk_errors(folder):
        _group(spill, table, group_rows)
    return spill


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
    names = key_columns(table)
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
