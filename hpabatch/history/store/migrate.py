"""Migration of any readable history into a store, day by day."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from hpabatch.errors import UsageError
from hpabatch.history.base import History
from hpabatch.history.reader import open_history
from hpabatch.history.store.append import StoreWriter, open_writer
from hpabatch.history.store.storage import as_url, open_storage
from hpabatch.model.progress import Progress


@dataclass(frozen=True, slots=True)
class Migrated:
    """Result of a migration.

    Attributes:
        parts: written now; `skipped`: complete already from an earlier, interrupted run.
        rows: written now.
        warnings: of the old history.
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
        progress: called with the progress.

    Raises:
        HistoryError: the old history cannot be read, or is of a newer schema.
        UsageError: the new one cannot be written, is the old one, or holds something else: rows of
            two histories, or of two states of one, would replace each other.
    """
    history = open_history(old)
    if _same(old, new):
        raise UsageError(f"{old} cannot be migrated into itself; name a new folder")
    writer = open_writer(new)
    # Other tables get a pod's target from `pods`.
    tables = sorted(history.tables, key=lambda name: name != "pods")
    prefix = f"migrate/{_digest(history)}/"
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


def _digest(history: History) -> str:
    """Return a digest that identifies a history in its present state."""
    lines = [f"{table} {digest}" for table, digest in sorted(history.digests().items())]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


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
