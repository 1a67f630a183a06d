"""Compaction: the files of each partition merged to the ones that its rows alone determine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hpabatch.errors import HistoryError, UsageError
from hpabatch.history.catalog import (
    LOG,
    FileEntry,
    LogEntry,
    Snapshot,
    encode_entry,
    entry_name,
    load_snapshot,
)
from hpabatch.history.datafiles import Limits, Partition, Piece, split_places, write_run
from hpabatch.history.schema import TABLES
from hpabatch.history.shards import StoreHistory, order_of_place
from hpabatch.history.storage import Storage
from hpabatch.history.storages import open_storage

# Places are merged in batches of about this many rows: that bounds memory.
BATCH_ROWS = 1 << 18

# Files that no commit names may belong to somebody who is writing just now, unless they are older.
GRACE_S = 86_400.0

Progress = Callable[[str, float], None]
"""Told what is being done and how much of the whole is, 0 to 1."""

_Key = tuple[str, str, str | None]


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compaction did.

    Attributes:
        partitions: how many were rewritten.
        files_before, files_after: data files that count.
        bytes_before, bytes_after: their sizes.
        deleted: objects that were removed, log entries included.
    """

    partitions: int
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    deleted: int


def compact(
    path: Path | str,
    *,
    limits: Limits | None = None,
    grace_s: float = GRACE_S,
    progress: Progress = lambda message, share: None,
) -> Compacted:
    """Merge the files of each partition and remove what no longer counts.

    Afterwards the same logical content has the same data files, however many parts it came in.
    Rows are replaced by one log entry (a checkpoint): an interruption leaves the old state or the
    new one, and files that the next compaction removes. Parts may be added meanwhile; whoever reads
    an older state meanwhile may find its files gone and must open the history again.

    Args:
        path: a store.
        limits: other sizes of files and row groups than the usual ones, for tests.
        grace_s: files that no commit names are removed when they are older than this.
        progress: told how far it is.

    Raises:
        HistoryError: there is no store, or it is damaged.
        UsageError: it cannot be written.
    """
    storage = open_storage(path)
    before = load_snapshot(storage)
    if before.number == 0:
        raise HistoryError(f"{path} holds no store; only a store is compacted")
    done: dict[_Key, tuple[tuple[FileEntry, ...], list[FileEntry]]] = {}
    snapshot = before
    with storage.workspace() as folder:
        for _ in range(100):
            after = _merge(storage, snapshot, done, folder, limits, progress)
            if _is_compact(snapshot, after):
                break
            entry = _checkpoint(snapshot, after)
            number = snapshot.number + 1
            if storage.create(entry_name(number), encode_entry(entry)):
                snapshot = snapshot.after(number, entry)
                break
            # Somebody added a part: merge what it touched again.
            snapshot = load_snapshot(storage, snapshot)
        else:
            raise UsageError(f"{path}: parts are added faster than it is compacted; try later")
    progress("removing", 1.0)
    deleted = _remove(storage, grace_s)
    return Compacted(
        partitions=sum(list(old) != new for old, new in done.values()),
        files_before=len(before.files),
        files_after=len(snapshot.files),
        bytes_before=sum(file.bytes for file in before.files),
        bytes_after=sum(file.bytes for file in snapshot.files),
        deleted=deleted,
    )


def _merge(
    storage: Storage,
    snapshot: Snapshot,
    done: dict[_Key, tuple[tuple[FileEntry, ...], list[FileEntry]]],
    folder: Path,
    limits: Limits | None,
    progress: Progress,
) -> list[FileEntry]:
    """Return the files of all partitions, merged; `done` remembers what was merged before."""
    history = StoreHistory(storage, snapshot)
    rows = sum(file.rows for file in snapshot.files) or 1
    result: list[FileEntry] = []
    seen = 0
    for key, files in _partitions(snapshot):
        progress(f"merging {key[0]}", seen / rows)
        seen += sum(file.rows for file in files)
        if key not in done or done[key][0] != files:
            merged = list(files)
            if len({(file.commit, file.run) for file in files}) > 1:
                partition = Partition(TABLES[key[0]], key[1], key[2])
                pieces = _pieces(history, partition, files)
                merged = write_run(pieces, partition, 0, storage, folder, limits)
            done[key] = (files, merged)
        run = result[-1].run + 1 if result else 0
        result += [replace(file, run=run) for file in done[key][1]]
    return result


def _partitions(snapshot: Snapshot) -> Iterator[tuple[_Key, tuple[FileEntry, ...]]]:
    for table in TABLES:
        for cluster, days in sorted(snapshot.partitions.get(table, {}).items()):
            for day in sorted(days, key=str):
                yield (table, cluster, day), tuple(days[day])


def _pieces(
    history: StoreHistory, partition: Partition, files: Sequence[FileEntry]
) -> Iterator[Piece]:
    """Yield the merged rows of every place, in order."""
    counts: dict[tuple[str | None, str | None], int] = {}
    for file in files:
        for place, (start, stop) in file.spans.items():
            counts[place] = counts.get(place, 0) + stop - start
    batch: set[tuple[str | None, str | None]] = set()
    rows = 0
    for place in sorted(counts, key=order_of_place):
        batch.add(place)
        rows += counts[place]
        if rows >= BATCH_ROWS:
            yield from split_places(history.partition(partition, batch), partition.spec)
            batch, rows = set(), 0
    if batch:
        yield from split_places(history.partition(partition, batch), partition.spec)


def _is_compact(snapshot: Snapshot, after: Sequence[FileEntry]) -> bool:
    """Whether the newest commit is a checkpoint already that names exactly these files."""
    return snapshot.is_checkpoint and [f.path for f in snapshot.files] == [f.path for f in after]


def _checkpoint(snapshot: Snapshot, after: Sequence[FileEntry]) -> LogEntry:
    kept = {file.path for file in after}
    gone = {file.path for file in snapshot.files}.union(snapshot.removed) - kept
    return LogEntry(
        add=tuple(after),
        remove=tuple(sorted(gone)),
        checkpoint=True,
        parts=tuple(sorted(snapshot.parts)),
    )


def _remove(storage: Storage, grace_s: float) -> int:
    """Remove old log entries, replaced data files, and old files that nobody named."""
    snapshot = load_snapshot(storage)
    named = {file.path for file in snapshot.files}
    found = []
    for item in storage.names(""):
        aged = item.age_s > grace_s
        if item.name.startswith(f"{LOG}/"):
            replaced = item.name.endswith(".json") and item.name < entry_name(snapshot.checkpoint)
            gone = replaced or (item.name.endswith(".tmp") and aged)
        else:
            unnamed = item.name not in named and is_ours(item.name)
            gone = unnamed and (aged or item.name in snapshot.removed)
        if gone:
            found.append(item.name)
    storage.delete(found)
    storage.tidy(grace_s)
    return len(found)


def is_ours(name: str) -> bool:
    """Whether a name is one that a store gives: a stranger's files are never removed."""
    top = name.split("/")[0]
    return "/" in name and (top in TABLES or top == "_work")
