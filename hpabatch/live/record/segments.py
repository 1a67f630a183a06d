"""Segments of a recording, the thread that writes them to the store as parts, and the lease.

A segment is all rows of some time, as columns. It becomes one part: all of it counts at once, or
none of it. The deciding thread only appends; Parquet and compaction are the writing thread's work.

One recorder at a time writes for each store and cluster. In a local folder the kernel keeps the
lock, so it ends with the process, however that ends. An object storage has only "create if absent":
there a lease is a numbered object that names its holder; it is renewed by creating the next number,
and expires otherwise.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
import time
from array import array
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import msgspec
import numpy as np
import polars as pl

from hpabatch._json import decode_json
from hpabatch.errors import HistoryError, UsageError
from hpabatch.history.columns import BOOL, TEXT, Table
from hpabatch.history.files import lock_file
from hpabatch.history.schema import TABLES
from hpabatch.history.store.append import StoreWriter
from hpabatch.history.store.catalog import quote
from hpabatch.history.store.storage import LEASE, WORK, LocalStorage, Storage
from hpabatch.history.store.upkeep import compact
from hpabatch.history.store.writer import checked_rows

EXPIRES_S: Final = 120.0
RENEW_S: Final = 30.0
_DIGITS: Final = 12


def take_lease(storage: Storage, cluster: str) -> FileLease | ObjectLease:
    """Take the right to record a cluster into a store.

    Raises:
        UsageError: another recorder has it, or the store cannot be written.
    """
    if isinstance(storage, LocalStorage):
        return FileLease(storage, cluster)
    return ObjectLease(storage, cluster)


class FileLease:
    """A locked file beside a local store's unfinished ones."""

    def __init__(self, storage: LocalStorage, cluster: str) -> None:
        """Take it (UsageError: it is taken, or the folder cannot be written)."""
        self._path = storage.root / WORK / f"{LEASE}{quote(cluster)}.lock"
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = lock_file(self._path)
            holder = "" if self._file else self._path.read_text(errors="replace")[:100].strip()
        except OSError as error:
            raise UsageError(f"cannot write {self._path}: {error.strerror}") from error
        if self._file is None:
            raise UsageError(
                f"{storage.location}: process {holder or 'unknown'} records cluster {cluster} "
                "there already; stop it, or choose another place"
            )
        with suppress(OSError):  # on a full disk the lock holds without its owner's number
            os.ftruncate(self._file.fileno(), 0)
            os.write(self._file.fileno(), f"{os.getpid()}\n".encode())

    def renew(self) -> None:
        """Do nothing: the lock holds as long as the process."""

    def release(self) -> None:
        """Remove the file, then its lock; never fails."""
        if self._file is not None:
            with suppress(OSError):
                os.unlink(self._path)
            self._file.close()
        self._file = None


class _Lease(msgspec.Struct):
    owner: str
    until: float  # by the clock of its owner (s since 1970)


class ObjectLease:
    """Numbered objects; the highest one that has not expired names the holder."""

    def __init__(
        self, storage: Storage, cluster: str, clock_s: Any = time.time, owner: str = ""
    ) -> None:
        """Take it (UsageError: it is taken, or the store cannot be written)."""
        self._storage = storage
        self._folder = f"{WORK}/{LEASE}{quote(cluster)}"
        self._cluster = cluster
        self._clock_s = clock_s
        self._owner = owner or f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._renewed_s = -EXPIRES_S
        self.renew()

    def renew(self) -> None:
        """Create the next number when it is due."""
        now_s = self._clock_s()
        if 0 <= now_s - self._renewed_s < RENEW_S:
            return
        number, holder, until_s = self._newest()
        if holder not in ("", self._owner) and until_s > now_s:
            raise UsageError(self._taken(holder, until_s - now_s))
        text = json.dumps({"owner": self._owner, "until": now_s + EXPIRES_S})
        if not self._storage.create(self._name(number + 1), text.encode()):
            raise UsageError(self._taken("another recorder", EXPIRES_S))
        self._renewed_s = now_s
        old = [item.name for item in self._storage.names(self._folder)]
        self._storage.delete([name for name in old if name < self._name(number + 1)])

    def release(self) -> None:
        """Expire it at once."""
        try:
            number, holder, _ = self._newest()
            if holder == self._owner:
                text = json.dumps({"owner": self._owner, "until": 0})
                self._storage.create(self._name(number + 1), text.encode())
                self._storage.delete([self._name(number)])
        except Exception:  # noqa: BLE001 - not required: the lease expires anyway
            return

    def _newest(self) -> tuple[int, str, float]:
        """Return number, holder and expiry of the newest lease; holder "": there is none."""
        for _ in range(5):
            names = [item.name for item in self._storage.names(self._folder)]
            if not names:
                return 0, "", 0.0
            data = self._storage.read(names[-1])
            if data is not None:
                break
        else:
            raise UsageError(f"{self._storage.location}: the lease changes all the time; try later")
        number = int(names[-1].rpartition("/")[2].removesuffix(".json"))
        try:
            lease = decode_json(data, _Lease)
            return number, lease.owner, lease.until
        except ValueError:
            return number, "", 0.0

    def _name(self, number: int) -> str:
        return f"{self._folder}/{number:0{_DIGITS}}.json"

    def _taken(self, holder: str, left_s: float) -> str:
        return (
            f"{self._storage.location}: {holder} records cluster {self._cluster} there; stop it, "
            f"or, if it is gone, try again in {max(1, round(left_s))} s"
        )


NULL: Final = -(2**63)
"""A null in a column of numbers."""

RETRY_S: Final = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
COMPACT_EVERY_S: Final = 3600.0
_CELL_BYTES: Final = 8
_OWN_TEXTS: Final = frozenset(
    ("labels", "annotations", "spec", "error", "detail", "current_metrics", "conditions")
)
"""Columns whose strings rows seldom share."""


class Columns:
    """Rows of one table by column, without the cluster: strings as lists, numbers as arrays."""

    __slots__ = ("_own", "buffers", "table", "text_bytes")

    def __init__(self, table: Table) -> None:
        self.table = table
        self.buffers: dict[str, Any] = {
            column.name: [] if column.dtype in (TEXT, BOOL) else array("q")
            for column in table.columns
            if column.name != "cluster"
        }
        self._own = [name for name in self.buffers if name in _OWN_TEXTS]
        self.text_bytes = 0

    def __len__(self) -> int:
        return len(next(iter(self.buffers.values())))

    @property
    def bytes(self) -> int:
        """Approximate memory of the rows, without strings that many share."""
        return len(self) * len(self.buffers) * _CELL_BYTES + self.text_bytes

    def add(self, **values: Any) -> None:
        """Add a row, by the table's columns; those that are left out are null."""
        self.text_bytes += sum(len(values.get(name) or "") for name in self._own)
        for name, buffer in self.buffers.items():
            value = values.pop(name, None)
            buffer.append(NULL if value is None and isinstance(buffer, array) else value)
        assert not values, f"{self.table.name} has no {', '.join(values)}"

    def frame(self, cluster: str) -> pl.DataFrame:
        """Return the rows with all registered columns; no rows may be added afterwards."""
        found: list[pl.Series] = []
        for column in self.table.columns:
            if column.name == "cluster":
                found.append(pl.repeat(cluster, len(self), dtype=TEXT, eager=True).alias("cluster"))
                continue
            buffer = self.buffers[column.name]
            if isinstance(buffer, array):
                numbers = pl.Series(column.name, np.frombuffer(buffer, np.int64))
                numbers = numbers.set(numbers == NULL, None)
                found.append(numbers.cast(column.dtype))
            else:
                found.append(pl.Series(column.name, buffer, dtype=column.dtype))
        return pl.DataFrame(found)


class Segment:
    """Rows of all tables that become one part."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self._tables: dict[str, Columns] = {}

    def table(self, name: str) -> Columns:
        """Return the rows of a table."""
        found = self._tables.get(name)
        if found is None:
            found = self._tables[name] = Columns(TABLES[name])
        return found

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(len(columns) for columns in self._tables.values())

    @property
    def bytes(self) -> int:
        """Their approximate memory."""
        return sum(columns.bytes for columns in self._tables.values())

    def frames(self) -> list[tuple[str, pl.DataFrame]]:
        """Return the rows of each table."""
        return [(n, c.frame(self.cluster)) for n, c in self._tables.items() if len(c)]


class SegmentWriter:
    """Writes segments in a thread of its own, one after the other, and compacts the store.

    Failed writes are retried until they succeed. A row that the registry refuses is left out and
    counted, so that it does not block the others.

    Attributes:
        trouble: why nothing can be written now; "": no problem.
        refused: rows left out; `refusal` is the reason of the last one.
        parts, rows: written so far.
    """

    def __init__(
        self,
        store: StoreWriter,
        lease: FileLease | ObjectLease,
        compact_every_s: float,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.trouble = ""
        self.refusal = ""
        self.refused = self.parts = self.rows = 0
        self._store, self._lease, self._compact_every_s = store, lease, compact_every_s
        self._clock_s = monotonic_s
        self._compacted_s = monotonic_s()
        self._queue: deque[tuple[Segment, int]] = deque()
        self._bytes = 0
        self._wake = threading.Condition()
        self._ending = self._closing = False
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    @property
    def pending_bytes(self) -> int:
        """Approximate memory of the rows that are not written yet."""
        return self._bytes

    def submit(self, segment: Segment) -> None:
        """Hand over a segment; its rows must not be changed afterwards."""
        size = segment.bytes
        with self._wake:
            self._queue.append((segment, size))
            self._bytes += size
            self._wake.notify_all()

    def drain(self, timeout_s: float) -> bool:
        """Wait until everything is written; False: not in that time."""
        with self._wake:
            if self._failures:
                self._failures = 0
                self._wake.notify_all()  # retry at once
            return self._wake.wait_for(lambda: not self._queue, timeout_s)

    def close(self, timeout_s: float) -> bool:
        """Write all segments and end the thread; False: not all were written in that time."""
        self._ending = True
        until_s = time.monotonic() + timeout_s
        done = self.drain(timeout_s)
        with self._wake:
            self._closing = True
            self._wake.notify_all()
        self._thread.join(max(1.0, until_s - time.monotonic()))
        if not self._thread.is_alive():  # otherwise it may still write: the lease expires by itself
            self._lease.release()
        return done

    def _run(self) -> None:
        while True:
            with self._wake:
                pause = RETRY_S[min(self._failures, len(RETRY_S)) - 1] if self._failures else None
                if pause is not None:
                    self._wake.wait_for(lambda: self._closing or not self._failures, pause)
                elif not self._queue and not self._must_compact():
                    self._wake.wait_for(lambda: self._closing or bool(self._queue), RENEW_S)
                if self._closing:
                    return
                head = self._queue[0] if self._queue else None
            self._attempt(head)

    def _attempt(self, head: tuple[Segment, int] | None) -> None:
        """Write a segment, or compact if it is due."""
        try:
            self._lease.renew()
            if head is not None:
                self._write(head[0])
            elif self._must_compact():
                # A failure is not retried before the next interval.
                self._compacted_s = self._clock_s()
                compact(self._store.storage.location, progress=self._go_on)
                self._store.refresh()
        except InterruptedError:
            return
        except Exception as error:  # noqa: BLE001 - any error is reported, and the rows wait
            self.trouble = str(error) or type(error).__name__
            with self._wake:
                self._failures += 1
            return
        self.trouble = ""
        with self._wake:
            self._failures = 0
            if head is not None:
                self._queue.popleft()
                self._bytes -= head[1]
            self._wake.notify_all()

    def _write(self, segment: Segment) -> None:
        rows, refused = 0, 0
        with self._store.part() as part:
            for table, frame in segment.frames():
                sound = self._sound(frame, TABLES[table])
                part.add(table, sound)
                rows += sound.height
                refused += frame.height - sound.height
        self.parts += 1
        self.rows += rows
        self.refused += refused

    def _sound(self, frame: pl.DataFrame, spec: Table) -> pl.DataFrame:
        """Return the rows that the registry accepts."""
        try:
            checked_rows(frame, spec, spec.name)
        except HistoryError as error:
            if frame.height == 1:
                self.refusal = str(error)
                return frame.clear()
            half = frame.height // 2
            return pl.concat([self._sound(frame[:half], spec), self._sound(frame[half:], spec)])
        return frame

    def _must_compact(self) -> bool:
        every_s = self._compact_every_s
        return bool(every_s) and self._clock_s() - self._compacted_s >= every_s

    def _go_on(self, message: str, share: float) -> None:
        """Keep the lease; interrupt a compaction, which loses nothing, when the recorder ends."""
        self._lease.renew()
        if self._ending:
            raise InterruptedError
