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

import fcntl
import json
import os
import stat
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from hpabatch.cluster.objects.types import clock_ms, show_ms
from hpabatch.errors import UsageError
from hpabatch.history.files import flush
from hpabatch.live.apply.scales import Written
from hpabatch.model.printable import printable_json

Fields = Mapping[str, object]

_MOST_BYTES: Final = 256 * 10**6
_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class Journal:
    """The log of one process. Several threads may use it at once.

    Each line goes into the file that has the name then: it may be moved at any time. One of 256 MB
    is moved to the same name with `.1`, in place of the one before.
    """

    def __init__(self, path: Path, common: Fields, clock: Callable[[], int] = clock_ms) -> None:
        """Begin (UsageError: the file cannot be opened for appending).

        Args:
            path: its file, made with its folder where there is none.
            clock: UTC ms.
        """
        self.problem = ""
        self._owed: deque[bytes] = deque()
        self._path, self._common, self._clock = path, dict(common), clock
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with self._opened():
                pass
        except OSError as error:
            raise UsageError(
                f"--apply-log: {path} cannot be opened for appending: {error.strerror}; name a "
                "file that can be written"
            ) from error

    def add(self, lines: Iterable[Fields]) -> str:
        """Append lines, and return once they are on disk: "", or why they are not.

        `problem` has the same words until the next line is written.
        """
        return self._append(self._encoded(lines))

    def record(self, lines: Iterable[Fields]) -> None:
        """Append lines about what was done. While they cannot be written they are kept.

        Only few are kept: while the log cannot be written, no write begins.
        """
        with self._lock:
            self._owed += self._encoded(lines)
        self._append([])

    def _encoded(self, lines: Iterable[Fields]) -> list[bytes]:
        ts = show_ms(self._clock())
        return [
            printable_json(json.dumps({"ts": ts, **self._common, **_full(line)})).encode() + b"\n"
            for line in lines
        ]

    def _append(self, lines: Sequence[bytes]) -> str:
        with self._lock:
            if not lines and not self._owed:
                return ""
            try:
                with self._opened() as file:
                    while self._owed:
                        _write(file, self._owed[0])
                        self._owed.popleft()
                    _write(file, b"".join(lines))
                    os.fsync(file)
            except OSError as error:
                self.problem = f"{self._path} cannot be written: {error.strerror or error}"
            else:
                self.problem = ""
            return self.problem

    @contextmanager
    def _opened(self) -> Iterator[int]:
        """Open the file at a line's beginning: half a line may be its end, as of a full disk."""
        file = os.open(self._path, _FLAGS, 0o600)
        if self._has_moved(file):
            os.close(file)
            file = os.open(self._path, _FLAGS, 0o600)
        try:
            about = os.fstat(file)
            if stat.S_ISREG(about.st_mode):
                if not about.st_size:
                    flush(self._path.parent)  # otherwise a crash of the machine may lose a new file
                elif os.pread(file, 1, about.st_size - 1) != b"\n":
                    _write(file, b"\n")
            yield file
        finally:
            os.close(file)

    def _has_moved(self, file: int) -> bool:
        """Move a file that is large enough away; of processes that share it one does."""
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode) or about.st_size < _MOST_BYTES:
            return False
        with suppress(OSError):  # a mounted file cannot be moved, and grows on
            fcntl.flock(file, fcntl.LOCK_EX)
            if os.path.samestat(about, os.lstat(self._path)):
                os.replace(self._path, self._path.with_name(f"{self._path.name}.1"))
            return True
        return False


def _write(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


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


def _full(line: Fields) -> dict[str, object]:
    return {name: v for name, v in line.items() if v is not None and v is not False and v != ""}
