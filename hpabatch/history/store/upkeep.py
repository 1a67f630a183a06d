"""Upkeep of a store: check of every file, compaction of partitions, migration into it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import count
from pathlib import Path

import polars as pl
from msgspec.structs import replace

from hpabatch.errors import HistoryError, UsageError
from hpabatch.history.base import History
from hpabatch.history.checks import check_validity
from hpabatch.history.columns import TEXT
from hpabatch.history.flat import FlatHistory
from hpabatch.history.reader import open_history
from hpabatch.history.schema import TABLES
from hpabatch.history.store.append import StoreWriter, open_writer
from hpabatch.history.store.catalog import (
    LOG,
    FileEntry,
    LogEntry,
    Snapshot,
    entry_name,
    load_snapshot,
    log_numbers,
    newest_first,
)
from hpabatch.history.store.shards import StoreHistory, order_of_place
from hpabatch.history.store.storage import LEASE, WORK, Storage, as_url, open_storage
from hpabatch.history.store.writer import Partition, Piece, split_places, write_run
from hpabatch.model.progress import Progress

FINDINGS = pl.Schema({"table": TEXT, "file": TEXT, "problem": TEXT})


def check_history(
    history: History, progress: Progress = lambda message, share: None
) -> pl.DataFrame:
    """Return the findings of a history: table, file and a sentence each.

    Reads every byte. For a file with several faults at least one is found. An absent table that
    some command needs is a finding, except in recordings (`History.lacks`).

    Args:
        history: of either layout.
    """
    if isinstance(history, StoreHistory):
        found = list(_check_store(history, progress))
    else:
        assert isinstance(history, FlatHistory)
        found = list(_check_flat(history, progress))
    found += [
        (name, "", f"the table is missing; {' and '.join(spec.needed_by)} needs {spec.doc} per row")
        for name, spec in TABLES.items()
        if history.lacks(spec)
    ]
    return pl.DataFrame(found, schema=FINDINGS, orient="row").unique(maintain_order=True)


Finding = tuple[str, str, str]


def _check_store(history: StoreHistory, progress: Progress) -> Iterator[Finding]:
    total = sum(file.bytes for file in history.snapshot.files) or 1
    done = 0
    for file in history.snapshot.files:
        progress(f"checking {file.table}", done / total)
        done += file.bytes
        try:
            _check_digest(history, file)
        except HistoryError as error:
            yield file.table, file.path, str(error)
    if "hpas" in history.files:
        try:
            history.read("hpas", optional=True)
        except HistoryError as error:
            yield "hpas", "", str(error)


def _check_digest(history: StoreHistory, file: FileEntry) -> None:
    """Check that a file is as it was written: its rows and their index were checked then."""
    history.data_files.verify(file)
    if hashlib.sha256(history.storage.read(file.path) or b"").hexdigest() != file.sha256:
        raise HistoryError(
            f"{history.storage.url(file.path)} was changed after it was written: its sha256 is not "
            "the one that the log names; restore it from a copy"
        )


def _check_flat(history: FlatHistory, progress: Progress) -> Iterator[Finding]:
    for number, (table, files) in enumerate(history.files.items()):
        progress(f"checking {table}", number / len(history.files))
        known = len(history.warnings)
        bad = False
        for file in files:
            try:
                history.check_file(table, file)
            except HistoryError as error:
                bad = True
                yield table, str(file), str(error)
        if bad:
            continue
        try:
            rows = history.read(table)
            if table == "hpas":
                check_validity(rows, str(files[0]))
        except HistoryError as error:
            yield table, str(files[0] if len(files) == 1 else files[0].parent), str(error)
        for warning in history.warnings[known:]:
            yield table, str(files[0] if len(files) == 1 else files[0].parent), warning


# Places are merged in batches of about this many rows: that bounds memory, with the largest place.
BATCH_ROWS = 1 << 18

# So long an unnamed file may be of a running writer, and what a checkpoint replaces may be read.
GRACE_S = 86_400.0
_MOST_TRIES = 100


_Key = tuple[str, str, str | None]


@dataclass(frozen=True, slots=True)
class Compacted:
    """Result of a compaction.

    Attributes:
        files_before, files_after: data files that count.
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
    grace_s: float = GRACE_S,
    progress: Progress = lambda message, share: None,
) -> Compacted:
    """Merge the files of each partition and remove obsolete files.

    Afterwards equal contents have equal data files, however many parts they came in. Files are
    replaced by one log entry (a checkpoint): an interruption leaves the old state or the new one.
    Parts may be added meanwhile. The replaced files stay for readers of an older state until a
    compaction that comes `grace_s` later.

    Args:
        grace_s: files that no commit names are removed when they are older than this, and commits
            when a checkpoint after them is.

    Raises:
        HistoryError: there is no store, or it is damaged.
        UsageError: it cannot be written.
    """
    storage = open_storage(path)
    before = load_snapshot(storage)
    if before.number == 0:
        raise HistoryError(f"{path} holds no store; only a store is compacted")
    done: dict[_Key, tuple[tuple[FileEntry, ...], list[FileEntry]]] = {}
    writer = StoreWriter(storage, before)
    with storage.workspace() as folder:
        tries = count(1)

        def merged(snapshot: Snapshot) -> LogEntry | None:
            if next(tries) > _MOST_TRIES:
                raise UsageError(f"{path}: parts are added faster than it is compacted; try later")
            # Partitions that another writer added to meanwhile are merged again.
            after = _merge(storage, snapshot, done, folder, progress)
            paths = [file.path for file in after]
            if snapshot.is_checkpoint and [file.path for file in snapshot.files] == paths:
                return None
            return LogEntry(add=tuple(after), checkpoint=True, parts=tuple(sorted(snapshot.parts)))

        writer.append(merged)
    progress("removing", 1.0)
    deleted = _remove(storage, grace_s)
    return Compacted(
        partitions=sum(list(old) != new for old, new in done.values()),
        files_before=len(before.files),
        files_after=len(writer.snapshot.files),
        bytes_before=sum(file.bytes for file in before.files),
        bytes_after=sum(file.bytes for file in writer.snapshot.files),
        deleted=deleted,
    )


def _merge(
    storage: Storage,
    snapshot: Snapshot,
    done: dict[_Key, tuple[tuple[FileEntry, ...], list[FileEntry]]],
    folder: Path,
    progress: Progress,
) -> list[FileEntry]:
    """Return the files of all partitions, merged; `done` holds earlier merges."""
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
                pieces = merged_pieces(history, partition, files)
                merged = write_run(pieces, partition, 0, storage, folder)
            done[key] = (files, merged)
        run = result[-1].run + 1 if result else 0
        result += [replace(file, run=run) for file in done[key][1]]
    return result


def _partitions(snapshot: Snapshot) -> Iterator[tuple[_Key, tuple[FileEntry, ...]]]:
    for table in TABLES:
        for cluster, days in sorted(snapshot.partitions.get(table, {}).items()):
            for day in sorted(days, key=str):
                yield (table, cluster, day), tuple(days[day])


def merged_pieces(
    history: StoreHistory, partition: Partition, files: Sequence[FileEntry]
) -> Iterator[Piece]:
    """Yield the merged rows of every place, in order; a batch of places at a time in memory."""
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


def _remove(storage: Storage, grace_s: float) -> int:
    """Remove commits before an old checkpoint, and old files that no other commit names."""
    log = {item.name: item.age_s for item in storage.names(LOG)}
    named: set[str] = set()
    replaced: list[str] = []
    numbers = log_numbers(storage)
    for number, entry in newest_first(storage, numbers):
        if entry is not None:
            named.update(file.path for file in entry.add)
            if entry.checkpoint and log.get(entry_name(number), 0.0) > grace_s:
                replaced = [entry_name(n) for n in numbers if n < number]
                break
    unnamed = []
    # Listed after the commits: a file that was put, and named, meanwhile is young.
    for item in storage.names(""):
        is_log = item.name.startswith(f"{LOG}/")
        is_rest = item.name.endswith(".tmp") if is_log else is_ours(item.name)
        is_rest = is_rest and not item.name.startswith(f"{WORK}/{LEASE}")
        if item.age_s > grace_s and is_rest and item.name not in named:
            unnamed.append(item.name)
    found = [*replaced, *unnamed]
    storage.delete(found)
    return len(found)


def is_ours(name: str) -> bool:
    """Whether a name has the form of a store's files: other files are never removed."""
    folder, _, rest = name.partition("/")
    return bool(rest) and (folder in TABLES or folder == WORK)


@dataclass(frozen=True, slots=True)
class Migrated:
    """Result of a migration.

    Attributes:
        parts: written now; `skipped`: complete already from an earlier, interrupted run.
    """

    parts: int
    skipped: int
    rows: int
    warnings: tuple[str, ...]


def migrate(
    old: Path | str,
    new: Path | str,
    *,
    progress: Progress = lambda message, share: None,
) -> Migrated:
    """Copy a flat history (of any schema version until now) or a store into a store.

    Each table, cluster and day is a part of its own: memory is bounded by the largest of them, and
    an interrupted migration continues where it stopped when it is started again.

    Args:
        old: a history; it is not changed.
        new: an absent or empty folder or URL, or a store that was begun by a migration of `old`.

    Raises:
        HistoryError: the old history cannot be read, or is of a newer schema.
        UsageError: the new one cannot be written, is the old one, or holds something else: rows of
            two histories, or of two states of one, would replace each other.
    """
    history = open_history(old)
    if _same(old, new):
        raise UsageError(f"{old} cannot be migrated into itself; name a new folder")
    writer = open_writer(new)
    tables = history.tables
    state = [f"{table} {digest}" for table, digest in sorted(history.digests().items())]
    digest = hashlib.sha256("\n".join(state).encode()).hexdigest()
    prefix = f"migrate/{digest[:12]}/"
    _refuse_other(writer, prefix)
    total = sum(int(history.sizes(table)["rows"].sum()) for table in tables) or 1
    parts = skipped = rows = seen = 0
    for table in tables:
        if table == "hpas":
            history.read(table, optional=True)  # Checks the validities against each other.
        days = history.sizes(table).group_by("cluster", "day", maintain_order=True)
        for (cluster, day), sizes in days:
            assert day is None or isinstance(day, date)
            progress(f"migrating {table}", seen / total)
            seen += int(sizes["rows"].sum())
            name = f"{prefix}{table}/{cluster}/{day or 'all'}"
            if writer.has_part(name):
                skipped += 1
                continue
            frame = history.partition_rows(table, str(cluster), day)
            with writer.part(name) as part:
                part.add(table, frame)
            rows += frame.height
            parts += 1
    return Migrated(parts, skipped, rows, tuple(history.warnings))


def _refuse_other(writer: StoreWriter, prefix: str) -> None:
    parts = writer.snapshot.parts
    strange = min((part for part in parts if not part.startswith(prefix)), default=None)
    if strange is None and (parts or not writer.snapshot.files):
        return
    found = f"the part {strange}" if strange else "rows of nameless parts"
    raise UsageError(
        f"{writer.storage.location} holds something else than a migration of this history as it is "
        f"now ({found}); name an absent or empty folder"
    )


def _same(old: Path | str, new: Path | str) -> bool:
    if as_url(old) or as_url(new):
        return open_storage(old).location == open_storage(new).location
    return os.path.realpath(old) == os.path.realpath(new)
