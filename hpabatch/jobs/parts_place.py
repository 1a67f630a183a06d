"""Place of finished parts that workers of other machines reach: a folder or an object storage.

::

    PLACE/3f9c0a…/00004/results.arrow   a part's files, below the name of its job (`job_name`)
    PLACE/3f9c0a…/00004/record.json     written last: the part is whole

Workers send parts there, and the command fetches each into its own job folder. No fault of the
place is one of the history: all of them are UsageErrors, or of an outage UnfinishedErrors, which
leave finished parts where they are.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from hpabatch._json import decode_json
from hpabatch.errors import HistoryError, UnfinishedError, UsageError, as_usage
from hpabatch.history.store.storage import Storage, open_storage
from hpabatch.jobs.folder import RECORD, JobFolder, PartRecord

_NAME_LENGTH: Final = 24
_FILE = re.compile(r"\w[\w.-]*")


class _IncompleteError(Exception):
    """A part that lacks a file, or a piece of one."""


class PartsPlace:
    """The parts of one job at a place."""

    def __init__(self, location: str, job: str) -> None:
        """Take a folder or URL; nothing is read yet (UsageError: it cannot be used)."""
        with _no_fault_of_the_history():
            self._storage: Storage = open_storage(location)
        self._job = job

    @property
    def location(self) -> str:
        """The folder or URL."""
        return self._storage.location

    @contextmanager
    def sending(self, key: str) -> Iterator[Path]:
        """Yield a folder for a task's folder, which is sent at the end of the block.

        Raises:
            UsageError: the place cannot be written.
        """
        with self._storage.workspace() as folder:
            yield folder
            files = sorted((folder / key).iterdir(), key=lambda file: file.name == RECORD)
            with _no_fault_of_the_history():
                for file in files:
                    self._storage.put(file, self._name(key, file.name))

    def whole(self) -> list[str]:
        """Return the keys of the parts that are there (UsageError: the place cannot be read)."""
        with _no_fault_of_the_history():
            names = [item.name for item in self._storage.names(self._job)]
        return [name.split("/")[-2] for name in names if name.endswith(f"/{RECORD}")]

    def fetch(self, key: str, folder: JobFolder) -> bool:
        """Move a part into the job folder; False: it is not whole there. Threads may do so at once.

        It is removed from the place, so the place never holds many.

        Raises:
            UsageError: the place cannot be read, or the job folder cannot be written.
        """
        try:
            found = decode_json(self._read(key, RECORD) or b"", PartRecord)
        except ValueError:
            return False
        sizes = found.files
        if found.job != folder.fingerprint or not all(map(_FILE.fullmatch, sizes)):
            return False
        try:
            with folder.task(key) as (place, record):
                for name, size in sizes.items():
                    data = self._read(key, name)
                    if data is None or len(data) != size:
                        raise _IncompleteError
                    (place / name).write_bytes(data)
                record.update(found.record)
        except _IncompleteError:
            return False
        with suppress(UsageError, UnfinishedError):  # (`clear` tries again)
            self._remove([self._name(key, file) for file in (RECORD, *sizes)])
        return True

    def probe(self) -> None:
        """Write and remove an object, so that a wrong place is an error before any work.

        Raises:
            UsageError: it cannot be read or written.
        """
        name = f"{self._job}/probe"
        with _no_fault_of_the_history():
            self._storage.create(name, b"hpabatch")  # (one that is there was left by a killed run)
            self._storage.delete([name])

    def clear(self) -> None:
        """Remove the job's parts (UsageError: they cannot be)."""
        with _no_fault_of_the_history():
            names = [item.name for item in self._storage.names(self._job)]
        self._remove(names)

    def _remove(self, names: Sequence[str]) -> None:
        with _no_fault_of_the_history():
            if names:
                self._storage.delete(names)

    def _read(self, key: str, file: str) -> bytes | None:
        with _no_fault_of_the_history():
            return self._storage.read(self._name(key, file))

    def _name(self, key: str, file: str) -> str:
        return f"{self._job}/{key}/{file}"


def job_name(folder: JobFolder) -> str:
    """Return the name of a job at a place: commands with the same work have one for each output."""
    output = "" if folder.temporary else os.path.abspath(folder.path)
    text = json.dumps([folder.fingerprint, output])
    return hashlib.sha256(text.encode()).hexdigest()[:_NAME_LENGTH]


def place_of(location: str) -> str:
    """Return a folder as an absolute path, which another working directory does not change."""
    return location if "://" in location else os.path.abspath(location)


@contextmanager
def _no_fault_of_the_history() -> Iterator[None]:
    try:
        yield
    except (HistoryError, UsageError) as error:
        raise as_usage(error, f"--parts: {error}") from error
