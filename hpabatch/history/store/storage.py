"""Storage of a store: the interface, local folders, and the choice by path or URL."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from hpabatch.errors import HistoryError, UnfinishedError, UsageError
from hpabatch.history.files import flush, open_regular, read_regular, remove_new_folders

if TYPE_CHECKING:
    from hpabatch.history.store.objects import ObjectStorage

WORK = "_work"
"""Folder of unfinished files in a local store; its contents do not count."""
LEASE = "recorder-"
"""Beginning of names in that folder that stay as long as a recorder does."""


class ReadOutageError(UnfinishedError, HistoryError):
    """A storage that does not answer, or is overloaded, while it is read."""


class WriteOutageError(UnfinishedError, UsageError):
    """A storage that does not answer, or is overloaded, while it is written."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A listed object: its name below the root, its size in bytes, its age in seconds."""

    name: str
    size: int
    age_s: float


class LocalStorage:
    """A store in a local folder; every file is flushed to disk before it gets its name.

    Names are relative to the root, with slashes. Every method raises HistoryError where something
    cannot be read and UsageError where it cannot be written, each with one sentence; of those an
    outage of an `ObjectStorage` is a ReadOutageError or WriteOutageError.

    Attributes:
        options: storage options for polars.
        checksums: bytes are checked at every first reading: object stores have their own sums.
    """

    options: dict[str, Any] | None = None
    checksums = True

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)

    @property
    def location(self) -> str:
        """The root as the user wrote it."""
        return str(self.root)

    def names(self, folder: str) -> list[Listed]:
        """Return all files below a folder ("": all), by name; a missing folder is empty."""
        top, now, found = self.root / folder, time.time(), []
        try:
            for place, _, files in os.walk(top, onerror=_raise):
                for name in files:
                    path = Path(place, name)
                    with suppress(FileNotFoundError):
                        stat = path.stat()
                        relative = path.relative_to(self.root).as_posix()
                        found.append(Listed(relative, stat.st_size, now - stat.st_mtime))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise HistoryError(f"{top} cannot be read: {error.strerror}") from error
        return sorted(found, key=lambda item: item.name)

    def read(self, name: str) -> bytes | None:
        """Return a file's bytes, None if there is no such file."""
        try:
            return read_regular(self.root / name)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unreadable(name, error) from error

    def tail(self, name: str, count: int) -> tuple[int, bytes] | None:
        """Return a file's size and its last `count` bytes, None if there is no such file."""
        try:
            with open_regular(self.root / name) as stream:
                size = stream.seek(0, os.SEEK_END)
                stream.seek(max(0, size - count))
                return size, stream.read(count)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unreadable(name, error) from error

    def checksum(self, name: str, start: int, stop: int) -> int:
        """Return the CRC-32 of a file's bytes."""
        try:
            with open_regular(self.root / name) as stream:
                stream.seek(start)
                found, buffer = 0, memoryview(bytearray(min(stop - start, 1 << 20)))
                while start < stop and (count := stream.readinto(buffer[: stop - start])):
                    found = zlib.crc32(buffer[:count], found)
                    start += count
                return found
        except OSError as error:
            raise self._unreadable(name, error) from error

    def create(self, name: str, data: bytes) -> bool:
        """Make a file whole; False, and nothing changed, if there is one of that name."""
        final = self.root / name
        temporary = final.with_name(f".{final.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
        with self._writing(name):
            _make_folder(final.parent)
            try:
                temporary.write_bytes(data)
                flush(temporary)
                # A link fails if the name is taken; a rename would silently replace the file.
                os.link(temporary, final)
            except FileExistsError:
                return False
            finally:
                temporary.unlink(missing_ok=True)
            flush(final.parent)
        return True

    def put(self, file: Path, name: str) -> None:
        """Move a file of the workspace to a name, replacing what was there: whole or not at all."""
        final = self.root / name
        with self._writing(name):
            flush(file)
            try:
                _make_folder(final.parent)
                os.replace(file, final)
            except FileNotFoundError:
                # Another process that deleted the last file there also removed the empty folder.
                _make_folder(final.parent)
                os.replace(file, final)
            flush(final.parent)

    def delete(self, names: Sequence[str]) -> None:
        """Remove files, and folders that this leaves empty; a missing one is no error."""
        for name in names:
            path = self.root / name
            with self._writing(name):
                path.unlink(missing_ok=True)
            with suppress(OSError):
                for folder in path.parents:
                    if folder == self.root:
                        break
                    folder.rmdir()

    @contextmanager
    def workspace(self) -> Iterator[Path]:
        """Yield a folder inside the store, so that `put` can rename."""
        folder = self.root / WORK / f"{os.getpid()}-{secrets.token_hex(4)}"
        with self._writing(WORK):
            try:
                folder.mkdir(parents=True)
            except FileNotFoundError:
                # Another process that finished has removed the empty folder above.
                folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            with suppress(OSError):
                folder.parent.rmdir()

    def probe(self) -> None:
        """Refuse a folder in which no store can be begun, with nothing left behind (UsageError)."""
        with remove_new_folders(self.root), self.workspace() as folder, self._writing(WORK):
            (folder / "probe").touch()
            os.link(folder / "probe", folder / "link")

    def url(self, name: str) -> str:
        """Return the path for polars."""
        return str(self.root / name)

    def fault(self, where: str, error: BaseException) -> HistoryError | None:
        """Return the error if polars got no bytes: here `tail` has read the file before."""
        return None

    def _unreadable(self, name: str, error: OSError) -> HistoryError:
        reason = error.strerror or str(error)
        return HistoryError(f"{self.root / name} cannot be read: {reason}; restore it")

    @contextmanager
    def _writing(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise disk_error(self.root / name, error) from error


def disk_error(path: Path | str, error: OSError) -> UsageError:
    """Return the error of a file that cannot be written."""
    reason = error.strerror or str(error)
    hint = "choose another place or make room there"
    if error.errno in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP):
        hint = "the file system must know hard links and renames: choose another place"
    elif error.errno in (errno.EEXIST, errno.ENOTDIR):
        hint = "a file is where a folder is needed: name a new or an empty folder"
    return UsageError(f"cannot write {path}: {reason}; {hint}")


def temporary_root() -> str:
    """Return the folder that temporary folders are made in (UsageError: none can be written)."""
    try:
        return tempfile.gettempdir()
    except FileNotFoundError:
        raise UsageError(
            "expected a folder for temporary files, got none that this user can write; set TMPDIR"
        ) from None


def _make_folder(folder: Path) -> None:
    """Make a folder and its parents; each new one is flushed to disk in its parent."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    flush(folder.parent)


def _raise(error: OSError) -> None:
    raise error


Storage: TypeAlias = "LocalStorage | ObjectStorage"
"""The place of a store."""

SCHEMES = ("s3", "gs", "abfs", "abfss", "az")


def as_url(path: Path | str) -> str | None:
    """Return the URL in a path, None for a local folder; a Path loses a slash of a URL."""
    text = str(path)
    if isinstance(path, Path):
        head, slash, rest = text.partition(":/")
        return f"{head}://{rest}" if slash and head in SCHEMES else None
    return text if "://" in text else None


def without_secret(url: str) -> str:
    """Return a URL for messages: what stands before an @ or behind a ? or # is left out."""
    scheme, mark, rest = re.split(r"[?#]", url)[0].partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}"


def is_folder(path: Path | str) -> bool:
    """Whether there is a local folder of that name; False for an invalid name."""
    try:
        return Path(path).is_dir()
    except (OSError, ValueError):
        return False


def open_storage(path: Path | str) -> Storage:
    """Return the storage at a folder or URL; nothing is read yet.

    Raises:
        HistoryError: the scheme is unknown, its library is not installed, or the URL has a secret.
    """
    url = as_url(path)
    if url is None:
        return LocalStorage(path)
    # A password is refused: results and logs would keep it. The @ of Azure's
    # abfs://CONTAINER@ACCOUNT is fine. A secret may hold slashes.
    scheme, _, rest = url.partition("://")
    before, at, _ = rest.partition("@")
    if at and (":" in before or ("/" not in before and not scheme.startswith(("abfs", "az")))):
        raise HistoryError(
            f"{without_secret(url)}: expected a URL without user and password, got one with them "
            "before an @; leave them out and set the credentials in the environment"
        )
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
