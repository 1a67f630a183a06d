"""Contents of a history, read from the index or from footers where they suffice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import polars as pl

from hpabatch.errors import HistoryError
from hpabatch.history.base import History
from hpabatch.history.columns import TEXT, TIME
from hpabatch.history.flat import FlatHistory
from hpabatch.history.provenance import (
    BEHAVIOR,
    METRICS,
    SUMMARY,
    TABLE,
    Named,
    summarise,
    unrecorded,
)
from hpabatch.history.schema import SCHEMA_VERSION
from hpabatch.history.store.catalog import LOG
from hpabatch.history.store.shards import StoreHistory
from hpabatch.history.store.upkeep import is_ours

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


# HPAs named in a sentence; the others are counted.
_SHOWN = 10

_SENTENCES = {
    BEHAVIOR: "behavior not recorded (Kubernetes' defaults assumed) for {}; import again, into a "
    "new store, with their manifests or --hpa-events",
    METRICS: "metrics not recorded, so the history leaves out {}; import again, into a new store, "
    "with their manifests or --hpa-events",
}


@dataclass(frozen=True)
class HistoryInfo:
    """Contents of a history.

    Attributes:
        location: folder or URL.
        layout: "store" or "flat".
        schema: versions of the tables' schema, e.g. "3"; "unknown" for files of other writers.
        clusters: names.
        parts: number of named parts in a store.
        tables: per table rows (upper bound where later parts replaced some), bytes, files, first
            and last time (by `Table.day`; null for tables without).
        problems: faults that leave the rest readable.
        provenance: origin of its parts: `provenance.SUMMARY`.
        unrecorded: by subject the HPAs without a record of it: `provenance.unrecorded`.
    """

    location: str
    layout: str
    schema: str
    clusters: tuple[str, ...]
    parts: int
    tables: pl.DataFrame
    problems: tuple[str, ...] = field(default=())
    provenance: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=SUMMARY))
    unrecorded: Mapping[str, Sequence[Named]] = field(default_factory=dict)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences about unrecorded parts."""
        found = []
        for subject, sentence in _SENTENCES.items():
            hpas = self.unrecorded.get(subject, ())
            if hpas:
                found.append(sentence.format(_hpas(hpas, clusters=len(self.clusters) > 1)))
        return tuple(found)


def describe_history(history: History) -> HistoryInfo:
    """Return the contents of a history.

    Raises:
        HistoryError: a table cannot be read.
    """
    if isinstance(history, StoreHistory):
        found = _tables_of_store(history)
        versions, parts = {str(SCHEMA_VERSION)}, len(history.snapshot.parts)
        clusters = {file.cluster for file in history.snapshot.files}
    else:
        assert isinstance(history, FlatHistory)
        found, parts = _tables_of_flat(history), 0
        versions = {one for table in history.files for one in history.versions(table)}
        clusters = {c for table in history.files for c in history.sizes(table)["cluster"]}
    info = HistoryInfo(
        location=history.location,
        layout="store" if isinstance(history, StoreHistory) else "flat",
        schema=", ".join(sorted(versions)),
        clusters=tuple(sorted(clusters)),
        parts=parts,
        tables=pl.DataFrame(found, schema=_TABLES, orient="row"),
        problems=(*history.warnings, *_unnamed(history)),
    )
    return _with_provenance(info, history)


def _with_provenance(info: HistoryInfo, history: History) -> HistoryInfo:
    """Add provenance and unrecorded parts; an unreadable table is added to the problems."""
    try:
        rows = history.read(TABLE)
        if rows.is_empty():
            return info
        hpas: list[Named] = history.distinct("hpas", ["cluster", "namespace", "name"]).rows()
    except HistoryError as error:
        problem = f"provenance cannot be read: {error}"
        return replace(info, problems=(*info.problems, problem))
    return replace(info, provenance=summarise(rows), unrecorded=unrecorded(rows, hpas))


def _hpas(names: Sequence[Named], *, clusters: bool) -> str:
    """Return `2 HPAs: shop/cart, shop/web`, with their clusters if there are several."""
    shown = ["/".join(name if clusters else name[1:]) for name in names[:_SHOWN]]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{len(names)} HPA{'s' * (len(names) > 1)}: {', '.join(shown)}{more}"


_Row = tuple[str, int, int, int, datetime | None, datetime | None]


def _tables_of_store(history: StoreHistory) -> list[_Row]:
    found = []
    for table in history.tables:
        files = [file for file in history.snapshot.files if file.table == table]
        first = min((f.first for f in files if f.first is not None), default=None)
        last = max((f.last for f in files if f.last is not None), default=None)
        rows, size = sum(file.rows for file in files), sum(file.bytes for file in files)
        found.append((table, rows, size, len(files), _time(first), _time(last)))
    return found


def _tables_of_flat(history: FlatHistory) -> list[_Row]:
    return [
        (
            table,
            int(history.sizes(table)["rows"].sum()),
            sum(file.stat().st_size for file in files),
            len(files),
            *history.times(table),
        )
        for table, files in history.files.items()
    ]


def _unnamed(history: History) -> list[str]:
    """Return problems of objects in a store's place that no commit names."""
    if not isinstance(history, StoreHistory):
        return []
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
            "interrupted or running writers, or replaced by a compaction; `hpabatch history "
            "compact` removes them after a day"
        )
    if strange:
        problems.append(f"{strange[0]} is not part of the store and is ignored")
    return problems


def _time(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)
