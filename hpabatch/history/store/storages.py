"""Choosing the storage of a path or URL."""

from __future__ import annotations

from pathlib import Path

from hpabatch.errors import HistoryError
from hpabatch.history.store.storage import LocalStorage, Storage

SCHEMES = ("s3", "gs", "abfs", "abfss", "az")


def as_url(path: Path | str) -> str | None:
    """Return the URL in a path, None if it names a local folder; a Path loses a slash."""
    text = str(path)
    if isinstance(path, Path):
        head, slash, rest = text.partition(":/")
        return f"{head}://{rest}" if slash and head in SCHEMES else None
    return text if "://" in text else None


def is_folder(path: Path | str) -> bool:
    """Whether there is a local folder of that name; False for a name that cannot be."""
    try:
        return Path(path).is_dir()
    except (OSError, ValueError):
        return False


def open_storage(path: Path | str) -> Storage:
    """Return the storage of a folder or URL; nothing is read yet.

    Raises:
        HistoryError: the scheme is unknown, or its library is not installed.
    """
    url = as_url(path)
    if url is None:
        return LocalStorage(path)
    if url.partition("://")[0] not in SCHEMES:
        known = ", ".join(f"{known}://" for known in SCHEMES)
        raise HistoryError(f"{url}: a history is a local folder, or a store at one of {known}")
    try:
        from hpabatch.history.store.objects import ObjectStorage
    except ModuleNotFoundError as error:
        if error.name != "obstore":
            raise
        raise HistoryError(
            f"{url}: object storage needs the package obstore; install hpabatch[s3]"
        ) from error
    return ObjectStorage(url)
