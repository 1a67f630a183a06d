"""Opening a history of either layout; what is wrong is named, with its place and its remedy."""

from __future__ import annotations

from pathlib import Path

from hpabatch.history.base import History
from hpabatch.history.flat import open_flat
from hpabatch.history.store.catalog import LOG
from hpabatch.history.store.shards import open_store
from hpabatch.history.store.storages import as_url, is_folder

__all__ = ["History", "open_history"]


def open_history(path: Path | str, command: str | None = None) -> History:
    """Open a flat folder of Parquet tables or a store; no rows are read yet.

    Args:
        path: a folder, or the URL of a store (s3://, gs://, abfs://).
        command: refuse at once if a table that this command needs is absent.

    Raises:
        HistoryError: there is no such folder, it holds no history, a table is there twice, or the
            store's log is broken.
    """
    history: History
    if as_url(path) or is_folder(Path(path) / LOG):
        history = open_store(path)
    else:
        history = open_flat(Path(path))
    if command is not None:
        history.require(command)
    return history
