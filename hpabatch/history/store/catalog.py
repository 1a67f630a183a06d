"""The log of a store: one entry per commit, and the state that the entries add up to.

A data file counts only if a commit names it. Commits are numbered; each is one JSON file that is
created whole or not at all, and never overwritten. The state of a store is the fold of the log: of
the files that commits add and remove, beginning at the newest checkpoint (which names all files).

The entries before a checkpoint, and the files that only they name, are deleted once the checkpoint
is a day old: until then readers of an older state keep their files, and no number is free again.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Annotated, Any, TypeAlias

import msgspec

from hpabatch.errors import HistoryError
from hpabatch.history import schema
from hpabatch.history.checks import YEAR_2000_MS, YEAR_2100_MS
from hpabatch.history.store.storage import Storage

LOG = "_log"
_DIGITS = 20
_AT_ONCE = 16
_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Moment: TypeAlias = Annotated[int, msgspec.Meta(ge=YEAR_2000_MS, lt=YEAR_2100_MS)]

Place = tuple[str | None, str | None]
"""Namespace and place of a row; both None in a table without namespaces."""


class FileEntry(msgspec.Struct, frozen=True, dict=True):
    """One data file in the log.

    Attributes:
        path: below the store's root.
        table, cluster: whose rows these are.
        day: UTC day of all rows as YYYY-MM-DD; None in a table that is not split by day.
        run: files of one commit and run are pieces of one sorted sequence without equal keys.
        rows, bytes, sha256: of the whole file.
        footer: length of the Parquet footer in bytes, magic and length included, and its sha256.
        groups: rows, bytes and CRC-32 of every row group; the first begins at byte 4.
        places: rows of every place in the order of the file, by namespace:
            `[namespace, [place, …], [rows, …]]`.
        first, last: of the table's day column, in ms; None without one.
        fetched, unfetched: lowest and highest fetched_at of the rows that have one, and ts of
            those that have none, in ms; None where there is no such row.
    """

    path: str
    table: str
    cluster: str
    day: str | None
    run: Count
    rows: Count
    bytes: Count
    sha256: str
    footer: tuple[Count, str]
    groups: tuple[tuple[Count, Count, Count], ...]
    places: tuple[tuple[str | None, tuple[str | None, ...], tuple[Count, ...]], ...]
    first: Moment | None = None
    last: Moment | None = None
    fetched: tuple[Moment, Moment] | None = None
    unfetched: tuple[Moment, Moment] | None = None
    commit: int = 0

    @property
    def date(self) -> date | None:
        """The day as a date."""
        return None if self.day is None else date.fromisoformat(self.day)

    @cached_property
    def spans(self) -> dict[Place, tuple[int, int]]:
        """First row and end of every place, in the order of the file."""
        found: dict[Place, tuple[int, int]] = {}
        row = 0
        for namespace, names, counts in self.places:
            for name, count in zip(names, counts, strict=True):
                found[namespace, name] = (row, row + count)
                row += count
        return found

    @cached_property
    def group_starts(self) -> list[int]:
        """First row of every row group, and at the end the number of rows."""
        starts = [0]
        for rows, _, _ in self.groups:
            starts.append(starts[-1] + rows)
        return starts

    @cached_property
    def group_offsets(self) -> list[int]:
        """First byte of every row group, and at the end that of the footer."""
        starts = [4]
        for _, count, _ in self.groups:
            starts.append(starts[-1] + count)
        return starts

    def groups_of(self, start: int, stop: int) -> range:
        """Return the row groups that hold the rows from `start` to before `stop`."""
        starts = self.group_starts
        first = bisect_left(starts, start + 1) - 1
        return range(first, bisect_left(starts, stop, first))


class LogEntry(msgspec.Struct, frozen=True):
    """One commit.

    Attributes:
        part: name of the completed part, "" for none.
        add: added files, later than all before.
        checkpoint: `add` replaces all earlier files.
        parts: of a checkpoint: names of all earlier parts.
    """

    part: str = ""
    add: tuple[FileEntry, ...] = ()
    remove: tuple[str, ...] = ()
    checkpoint: bool = False
    parts: tuple[str, ...] = ()


class _Written(LogEntry, frozen=True, forbid_unknown_fields=True):
    """A commit as its file has it; early versions wrote no digest, and `replaces`."""

    schema: Count = 0
    replaces: msgspec.Raw = msgspec.Raw()
    digest: str | None = None


class _Version(msgspec.Struct):
    schema: Count


@dataclass(frozen=True)
class Snapshot:
    """The state of a store after a commit.

    Attributes:
        number: of the newest commit; 0: none.
        files: all files that count, in the order in which they were added.
        checkpoint: number of the newest checkpoint; 0: there is none.
    """

    number: int = 0
    files: tuple[FileEntry, ...] = ()
    parts: frozenset[str] = frozenset()
    checkpoint: int = 0

    @property
    def is_checkpoint(self) -> bool:
        """Whether the newest commit is a checkpoint."""
        return self.number == self.checkpoint > 0

    @cached_property
    def partitions(self) -> dict[str, dict[str, dict[str | None, list[FileEntry]]]]:
        """Files by table, cluster and day, each list in the order in which they were added."""
        found: dict[str, dict[str, dict[str | None, list[FileEntry]]]] = {}
        for file in self.files:
            days = found.setdefault(file.table, {}).setdefault(file.cluster, {})
            days.setdefault(file.day, []).append(file)
        return found

    def after(self, number: int, entry: LogEntry) -> Snapshot:
        """Return the state after one more commit."""
        added = tuple(msgspec.structs.replace(file, commit=number) for file in entry.add)
        gone = {file.path for file in added}.union(entry.remove)
        kept = () if entry.checkpoint else tuple(f for f in self.files if f.path not in gone)
        parts = self.parts.union(entry.parts, [entry.part] if entry.part else [])
        checkpoint = number if entry.checkpoint else self.checkpoint
        return Snapshot(number, kept + added, parts, checkpoint)


def encode_entry(entry: LogEntry) -> bytes:
    """Return a log entry as JSON; the same entry gives the same bytes."""
    document: dict[str, Any] = {"schema": schema.SCHEMA_VERSION, "part": entry.part}
    if entry.checkpoint:
        document |= {"checkpoint": True, "parts": sorted(entry.parts)}
    names = [name for name in FileEntry.__struct_fields__ if name != "commit"]
    files = [{name: getattr(file, name) for name in names} for file in entry.add]
    document |= {"add": files, "remove": sorted(entry.remove)}
    document["digest"] = hashlib.sha256(_canonical(document)).hexdigest()
    return _canonical(document) + b"\n"


def folder_of(table: str, cluster: str, day: str | None) -> str:
    """Return the folder of a partition's data files, below the store's root."""
    parts = [table, f"cluster={quote(cluster)}"]
    return "/".join(parts if day is None else [*parts, f"day={day}"])


def quote(name: str) -> str:
    """Return a name that is valid in every file system and URL: other characters become ~xx."""
    data = name.encode("utf-8", "surrogatepass")
    text = "".join(chr(b) if chr(b) in _SAFE else f"~{b:02x}" for b in data)
    if len(text) <= 120:
        return text
    return f"{text[:100]}~{hashlib.sha256(data).hexdigest()[:16]}"


def decode_entry(data: bytes, where: str) -> LogEntry:
    """Return the log entry in a file.

    Raises:
        HistoryError: it is not a log entry, or of a newer schema.
    """
    try:
        version = msgspec.json.decode(data, type=_Version).schema
        if version > schema.SCHEMA_VERSION:
            raise HistoryError(
                f"{where} has schema version {version}; this hpabatch reads up to "
                f"{schema.SCHEMA_VERSION}: use a newer hpabatch"
            )
        found = msgspec.json.decode(data, type=_Written)
        signed = data.rpartition(b',"digest":')[0] + b"}"
        if found.digest is not None and found.digest != hashlib.sha256(signed).hexdigest():
            raise ValueError("its digest is not that of what it says: it was changed")
        for file in found.add:
            if file.table not in schema.TABLES:
                raise ValueError(f"there is no table {file.table!r}")
            table, *folders = file.path.split("/")
            if table != file.table or ".." in folders:
                raise ValueError(f"{file.path} is not below the folder of {file.table}")
            if any(len(names) != len(rows) for _, names, rows in file.places) or (
                file.rows != sum(sum(rows) for _, _, rows in file.places)
            ):
                raise ValueError(f"places of {file.path} do not add up")
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise HistoryError(
            f"{where} is a broken log entry ({type(error).__name__}: {error}); restore it from a "
            "copy of the store"
        ) from error
    return LogEntry(found.part, found.add, found.remove, found.checkpoint, found.parts)


def _canonical(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def entry_name(number: int) -> str:
    """Return the name of a commit's file."""
    return f"{LOG}/{number:0{_DIGITS}}.json"


def load_snapshot(storage: Storage, known: Snapshot | None = None) -> Snapshot:
    """Return the newest state.

    Args:
        storage: the store's place.
        known: a state seen before; only later commits are read then.

    Raises:
        HistoryError: a log entry is missing, broken or of a newer schema.
    """
    for _ in range(5):
        numbers = log_numbers(storage)
        since = known.number if known is not None else 0
        if known is None or not numbers or since + 1 < numbers[0]:
            since, known = 0, None
        entries: dict[int, LogEntry] = {}
        for number, entry in newest_first(storage, [n for n in numbers if n > since]):
            if entry is None:
                break  # a compaction ran between listing and reading: list again
            entries[number] = entry
            if entry.checkpoint:
                return _fold(storage, known or Snapshot(), entries)
        else:
            return _fold(storage, known or Snapshot(), entries)
    gone = storage.url(entry_name(number))
    raise HistoryError(f"{gone} went away while it was read; open it again")


def newest_first(storage: Storage, numbers: Sequence[int]) -> Iterator[tuple[int, LogEntry | None]]:
    """Yield commits from the last number on, None where there is none, some read at a time.

    Raises:
        HistoryError: a log entry is broken or of a newer schema.
    """
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for end in range(len(numbers), 0, -_AT_ONCE):
            some = numbers[max(0, end - _AT_ONCE) : end][::-1]
            contents = pool.map(lambda n: storage.read(entry_name(n)), some)
            for number, content in zip(some, contents, strict=True):
                where = storage.url(entry_name(number))
                yield number, None if content is None else decode_entry(content, where)


def _fold(storage: Storage, state: Snapshot, entries: Mapping[int, LogEntry]) -> Snapshot:
    for number, entry in sorted(entries.items()):
        if number != state.number + 1 and not entry.checkpoint:
            missing = storage.url(entry_name(state.number + 1))
            raise HistoryError(f"{missing} is missing, though later commits exist; restore it")
        state = state.after(number, entry)
    return state


def log_numbers(storage: Storage) -> list[int]:
    """Return the numbers of all commits there are, ascending."""
    found = []
    for item in storage.names(LOG):
        name = item.name.removeprefix(f"{LOG}/").removesuffix(".json")
        if len(name) == _DIGITS and name.isascii() and name.isdigit():
            found.append(int(name))
    return sorted(found)
