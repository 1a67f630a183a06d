"""Import of audit logs and recorded watches: specs and statuses of HPAs.

docs/hpa-events.md says how to record them and which timestamps are exact.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from hpabatch.errors import UnreadableError
from hpabatch.importers.hpa_events.recorder import Recorder
from hpabatch.importers.hpa_events.status import StatusStore


@dataclass(frozen=True)
class Events:
    """Content of logs and watches; times in ms.

    Attributes:
        hpas: rows of `hpas` (`recorder.SPECS`).
        edits: writes of HPAs of which only the time is recorded
            (`recorder.EDITS`).
        seen_first: namespace and name of HPAs whose first row begins when they were first seen,
            though they were there before.
        last_ms: the time of the last sighting; None: there was none.
        warnings: sentences about what could not be read.
        statuses: rows of `hpa_status`; see `StatusStore.rows`.
    """

    hpas: pl.DataFrame
    edits: pl.DataFrame
    seen_first: frozenset[tuple[str, str]]
    last_ms: int | None
    warnings: tuple[str, ...]
    statuses: StatusStore

    @property
    def hpa_status(self) -> pl.DataFrame:
        """All rows of `hpa_status`."""
        return self.statuses.rows()


def read_hpa_events(paths: Sequence[str | Path]) -> Events:
    """Read audit logs and recorded watches, in any order and overlapping as they may be.

    Args:
        paths: files, which gzip may have compressed, or folders of such files.

    Raises:
        UnreadableError: a file cannot be read, or is neither an audit log nor a watch.
        UsageError: there is no room for intermediate files.
    """
    recorder = Recorder()
    for path in _files(paths):
        recorder.read(path)
    hpas = recorder.hpas()
    return Events(
        hpas,
        recorder.edits(),
        recorder.seen_first(),
        recorder.last_ms,
        recorder.remarks.all(),
        recorder.statuses,
    )


def _files(paths: Sequence[str | Path]) -> list[Path]:
    found: list[Path] = []
    for path in map(Path, paths):
        try:
            inside = sorted(path.iterdir()) if path.is_dir() else [path]
        except OSError as error:
            raise UnreadableError(f"{path} cannot be read: {error.strerror}") from error
        files = [one for one in inside if not os.path.isdir(one) and not one.name.startswith(".")]
        if not files:
            raise UnreadableError(f"the folder {path} holds no file; name audit logs or watches")
        found += files if path.is_dir() else [path]
    return found
