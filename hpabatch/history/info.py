"""What a history holds, without reading its rows where the index or a footer tells."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from hpabatch.history.base import History
from hpabatch.history.catalog import LOG
from hpabatch.history.columns import TEXT, TIME
from hpabatch.history.compact import is_ours
from hpabatch.history.flat import FlatHistory
from hpabatch.history.schema import SCHEMA_VERSION
from hpabatch.history.shards import StoreHistory

_TABLES = pl.Schema(
    {
        "table": TEXT,
        "rows": pl.Int64(),
        "bytes": pl.Int64(),
        "files": pl.Int64(),
        "first": TIME,
        "last": TIME,
    }
)


@dataclass(frozen=True)
class HistoryInfo:
    """What a history holds.

    Attributes:
        location: folder or URL.
        layout: "store" or "flat".
        schema: versions of the tables' schema, e.g. "2"; "unknown" for files of other writers.
        clusters: names.
        parts: number of named parts in a store.
        tables: per table rows (upper bound where later parts replaced some), bytes, files, first
            and last time (by `Table.day`; null for tables without).
        problems: what is not as it should be, though the rest can be read.
    """

    location: str
    layout: str
    schema: str
    clusters: tuple[str, ...]
    parts: int
    tables: pl.DataFrame
    problems: tuple[str, ...] = field(default=())


def describe_history(history: History) -> HistoryInfo:
    """Return what a history holds.

    Raises:
        HistoryError: a table cannot be read.
    """
    if isinstance(history, StoreHistory):
        return _describe_store(history)
    assert isinstance(history, FlatHistory)
    return _describe_flat(history)


def _describe_store(history: StoreHistory) -> HistoryInfo:
    rows = []
    for table in history.tables:
        files = [file for file in history.snapshot.files if file.table == table]
        rows.append(
            {
                "table": table,
                "rows": sum(file.rows for file in files),
                "bytes": sum(file.bytes for file in files),
                "files": len(files),
                "first": _time(min((f.first for f in files if f.first is not None), default=None)),
                "last": _time(max((f.last for f in files if f.last is not None), default=None)),
            }
        )
    return HistoryInfo(
        location=history.location,
        layout="store",
        schema=str(SCHEMA_VERSION),
        clusters=tuple(sorted({file.cluster for file in history.snapshot.files})),
        parts=len(history.snapshot.parts),
        tables=pl.DataFrame(rows, schema=_TABLES),
        problems=(*history.warnings, *_unnamed(history)),
    )


def _unnamed(history: StoreHistory) -> list[str]:
    """Return remarks on objects in the store's place that no commit names."""
    listed = {item.name: item.size for item in history.storage.names("")}
    named = {file.path for file in history.snapshot.files}
    left = [n for n in listed if n not in named and is_ours(n)]
    strange = [n for n in listed if n not in named and not is_ours(n) and n.split("/")[0] != LOG]
    problems = [
        f"{history.storage.url(path)} is missing, though the log names it; restore it"
        for path in sorted(named - set(listed))
    ]
    if left:
        size = sum(listed[name] for name in left)
        problems.append(
            f"{len(left)} unnamed file{'s' * (len(left) > 1)} ({size} bytes, e.g. {left[0]}) of "
            "interrupted or running writers; `hpabatch history compact` removes those that are "
            "older than a day"
        )
    if strange:
        problems.append(f"{strange[0]} is not part of the store and is ignored")
    return problems


def _describe_flat(history: FlatHistory) -> HistoryInfo:
    rows, clusters, versions = [], set(), set()
    for table, files in history.files.items():
        sizes = history.sizes(table)
        clusters.update(sizes["cluster"].to_list())
        versions.update(history.versions(table))
        first, last = history.times(table)
        rows.append(
            {
                "table": table,
                "rows": int(sizes["rows"].sum()),
                "bytes": sum(Path(file).stat().st_size for file in files),
                "files": len(files),
                "first": first,
                "last": last,
            }
        )
    return HistoryInfo(
        location=history.location,
        layout="flat",
        schema=", ".join(sorted(versions)),
        clusters=tuple(sorted(clusters)),
        parts=0,
        tables=pl.DataFrame(rows, schema=_TABLES),
        problems=tuple(history.warnings),
    )


def _time(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)
