"""Audit logs of the API server and recorded watches: what happened to HPAs, exactly.

`read_hpa_events` gives specs with the instants of their edits, statuses, and the sizes that scales
were set to. docs/hpa-events.md tells how to record them, and which instants are exact.
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
    """What logs and watches say; times in ms.

    Attributes:
        hpas: rows of `hpas` (`recorder.SPECS`).
        scales: rows of `scales` (`SCALES`), where the size or the selector changed.
        decisions: a row for each size that somebody (`user`) wrote to a scale (`DECISIONS`);
            replicas null: not recorded.
        edits: writes of HPAs of which only the instant is recorded
            (`recorder.EDITS`).
        seen_first: namespace and name of HPAs whose first row begins when they were first seen,
            though they were there before.
        first_ms, last_ms: the instants of the first and last thing that was recorded.
        warnings: what could not be read, in sentences.
        statuses: rows of `hpa_status`; see `StatusStore.rows`.
    """

    hpas: pl.DataFrame
    scales: pl.DataFrame
    decisions: pl.DataFrame
    edits: pl.DataFrame
    seen_first: frozenset[tuple[str, str]]
    first_ms: int | None
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
        recorder.scales.rows(),
        recorder.scales.decisions(),
        recorder.edits(),
        recorder.seen_first(),
        recorder.first_ms,
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
