"""Append-only log of writes: a line a scale, on disk before the write begins, with its reason.

Fields of a line (JSON), empty ones left out:

    ts         timestamp (RFC 3339, UTC, ms)
    event      start, stop, leads, follows: of this process; will, done, failed: of a scale
    id         joins the lines of one write
    identity   of the process, as its lease shows it
    cluster, namespace, hpa, target
    from, to   sizes
    why        the reason of the decision
    dry_run    true: the server checks and stores nothing
    error      why it failed
    text       of start, stop, leads and follows
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from hpabatch.cluster.objects.inbox import clock_ms
from hpabatch.errors import UsageError
from hpabatch.model.printable import printable_json

Fields = Mapping[str, object]


class Journal:
    """The log of one process; a file that only grows. Several threads may use it at once."""

    def __init__(self, path: Path, common: Fields, clock: Callable[[], int] = clock_ms) -> None:
        """Open it (UsageError: it cannot be opened for appending).

        Args:
            path: its file, made with its folder where there is none.
            common: fields of every line.
            clock: UTC ms.
        """
        self._path, self._common, self._clock = path, dict(common), clock
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(path, flags, 0o600)
        except OSError as error:
            raise UsageError(
                f"--apply-log: {path} cannot be opened for appending: {error.strerror}; name a "
                "file that can be written"
            ) from error

    def add(self, lines: Iterable[Fields]) -> str:
        """Append lines, and return once they are on disk: "", or why they are not."""
        ts = _show_ms(self._clock())
        text = "".join(
            printable_json(json.dumps({"ts": ts, **self._common, **_full(line)})) + "\n"
            for line in lines
        )
        data = text.encode()
        try:
            with self._lock:
                while data:
                    data = data[os.write(self._file, data) :]
                os.fsync(self._file)
        except OSError as error:
            return f"{self._path} cannot be written: {error.strerror or error}"
        return ""

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
            self._file = -1


def _show_ms(ms: int) -> str:
    shown = datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
    return shown.replace("+00:00", "Z")


def _full(line: Fields) -> dict[str, object]:
    return {name: v for name, v in line.items() if v is not None and v is not False and v != ""}
