"""Append-only log of writes: a line a size, on disk before the write begins, with its reason.

Fields of a line (JSON), empty ones left out:

    ts         timestamp (RFC 3339, UTC, ms)
    event      start, stop, leads, follows: of this process; pass: of each pass; will, done,
               failed, waits, void: of a size
    id         joins the lines of one write
    identity   of the process, as its lease shows it
    leader     of `pass`: identity of the instance that has the lease; absent: nobody
    cluster, namespace, hpa, target
    from, to   sizes
    why        the reason of the decision
    part       why it is only a part of what was decided
    dry_run    true: the server checks and stores nothing
    error      why it failed, waits or is void
    uncertain  true: it failed without a response, and may have been written nevertheless
    text       of the other lines
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from hpabatch.cluster.objects.types import clock_ms
from hpabatch.errors import UsageError
from hpabatch.history.files import flush
from hpabatch.live.apply.scales import Written
from hpabatch.model.printable import printable_json

Fields = Mapping[str, object]

_MOST_BYTES: Final = 256 * 10**6


class Journal:
    """The log of one process. Several threads may use it at once.

    A file of 256 MB is moved to the same name with `.1`, in place of the one before.
    """

    def __init__(self, path: Path, common: Fields, clock: Callable[[], int] = clock_ms) -> None:
        """Open it (UsageError: it cannot be opened for appending).

        Args:
            path: its file, made with its folder where there is none.
            clock: UTC ms.
        """
        self.problem = ""
        self._is_torn = False
        self._owed: deque[bytes] = deque()
        self._path, self._common, self._clock = path, dict(common), clock
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._open()
        except OSError as error:
            raise UsageError(
                f"--apply-log: {path} cannot be opened for appending: {error.strerror}; name a "
                "file that can be written"
            ) from error

    def add(self, lines: Iterable[Fields]) -> str:
        """Append lines, and return once they are on disk: "", or why they are not.

        `problem` has the same words until the next line is written.
        """
        return self._append(self._encoded(lines), is_durable=True)

    def note(self, lines: Iterable[Fields]) -> None:
        """Append lines without waiting for the disk."""
        self._append(self._encoded(lines), is_durable=False)

    def record(self, lines: Iterable[Fields], *, is_durable: bool = False) -> None:
        """Append lines about what was done. While they cannot be written they are kept.

        Only few are kept: while the log cannot be written, no write begins.
        """
        with self._lock:
            self._owed += self._encoded(lines)
        self._append([], is_durable)

    def _encoded(self, lines: Iterable[Fields]) -> list[bytes]:
        ts = _show_ms(self._clock())
        return [
            printable_json(json.dumps({"ts": ts, **self._common, **_full(line)})).encode() + b"\n"
            for line in lines
        ]

    def _append(self, lines: Sequence[bytes], is_durable: bool) -> str:
        with self._lock:
            if not lines and not self._owed:
                return ""
            try:
                self._reopen()
                while self._owed:
                    self._write(self._owed[0])
                    self._owed.popleft()
                self._write(b"".join(lines))
                if is_durable:
                    os.fsync(self._file)
            except OSError as error:
                self.problem = f"{self._path} cannot be written: {error.strerror or error}"
            else:
                self.problem = ""
            return self.problem

    def _write(self, data: bytes) -> None:
        """Write whole lines: after half of one, as of a full disk, begin another."""
        data = b"\n" + data if self._is_torn else data
        while data:
            count = os.write(self._file, data)
            self._is_torn = data[count - 1 : count] != b"\n"
            data = data[count:]

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._file = os.open(self._path, flags, 0o600)
        except OSError as error:
            if error.errno == errno.ELOOP and self._path.is_symlink():
                raise OSError(errno.ELOOP, "it is a link, which is not followed") from None
            raise
        about = os.fstat(self._file)
        self._inode = about.st_dev, about.st_ino
        if stat.S_ISREG(about.st_mode) and not about.st_size:
            flush(self._path.parent)  # otherwise a crash of the machine may lose a new file
        ends = not stat.S_ISREG(about.st_mode) or not about.st_size
        self._is_torn = not ends and os.pread(self._file, 1, about.st_size - 1) != b"\n"

    def _is_moved(self) -> bool:
        try:
            about = os.lstat(self._path)
        except FileNotFoundError:
            return True
        return (about.st_dev, about.st_ino) != self._inode

    def _rotate(self) -> None:
        """Move a file that is large enough; one that cannot be moved grows on.

        A mounted file cannot be, nor any in a folder of others: no size may wait for that.
        """
        about = os.fstat(self._file)
        if not stat.S_ISREG(about.st_mode) or about.st_size < _MOST_BYTES:
            return
        with suppress(OSError):
            fcntl.flock(self._file, fcntl.LOCK_EX)  # of processes that share it one moves it
            try:
                if not self._is_moved():
                    os.replace(self._path, self._path.with_name(f"{self._path.name}.1"))
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def _reopen(self) -> None:
        """Go on in a new file where the old one is full, or was moved or removed."""
        if self._file < 0:
            raise OSError("it is closed")
        self._rotate()
        if self._is_moved():
            before = self._file
            try:
                self._open()
            finally:
                if self._file != before:
                    os.close(before)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
            self._file = -1


def outcomes(lines: Sequence[Fields], written: Sequence[Written]) -> list[Fields]:
    """Return the lines with the outcomes of writes."""
    return [
        {
            "event": "void" if one.is_void else str(one.outcome),
            "id": line["id"],
            "dry_run": line.get("dry_run"),
            "error": one.error,
            "uncertain": one.uncertain,
        }
        for line, one in zip(lines, written, strict=True)
    ]


def _show_ms(ms: int) -> str:
    shown = datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
    return shown.replace("+00:00", "Z")


def _full(line: Fields) -> dict[str, object]:
    return {name: v for name, v in line.items() if v is not None and v is not False and v != ""}
