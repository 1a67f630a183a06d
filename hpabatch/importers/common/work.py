"""Destination of an import: rows on their way into a store, its work folder and lock.

Intermediate files lie in the work folder until all is written. What is read there is believed, so
it is this user's alone.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from hpabatch._trust import make_folder, why_not_private, why_replaceable
from hpabatch.errors import RefusedError, UnfinishedError, UsageError
from hpabatch.history.checks import first_line
from hpabatch.history.files import empty_folder, lock_file, remove_new_folders
from hpabatch.history.schema import table_named
from hpabatch.history.store.append import StoreWriter
from hpabatch.history.store.shards import StoreHistory
from hpabatch.history.store.storage import temporary_root
from hpabatch.history.store.writer import checked_rows

if TYPE_CHECKING:
    from hpabatch.history.store.append import Amend, PartWriter, StoreWriter


_BUFFER_ROWS = 1 << 18
_SHOWN_ROWS = 5


class Sink:
    """Takes rows of tables in small frames and hands them on in larger ones, counting.

    Without a store it only checks and counts, and keeps the first rows of each table.
    """

    def __init__(self, store: StoreWriter | None) -> None:
        self.store = store
        self.first: dict[str, pl.DataFrame] = {}
        self._written: Counter[str] = Counter()
        self._part: PartWriter | None = None
        self._waiting: dict[str, list[pl.DataFrame]] = {}

    def has_part(self, name: str) -> bool:
        """Whether the store has that part."""
        return self.store is not None and self.store.has_part(name)

    def stored(self, table: str) -> pl.DataFrame | None:
        """Return what the store has of a table so far, None where it has nothing."""
        if self.store is None:
            return None
        history = StoreHistory(self.store.storage, self.store.refresh())
        return history.read(table, optional=True) if table in history.tables else None

    @contextmanager
    def part(self, name: str, amend: Amend | None = None) -> Iterator[Counter[str]]:
        """Commit what is added in the block as one part; yield its rows by table.

        `amend`: see `StoreWriter.part`.
        """
        self._written = Counter()
        self._waiting = {}
        if self.store is None:
            yield self._written
            self._hand_on(0)
            return
        with self.store.part(name, amend) as self._part:
            yield self._written
            self._hand_on(0)

    def add(self, table: str, frame: pl.DataFrame) -> None:
        """Take rows of a table."""
        if frame.is_empty():
            return
        self._written[table] += frame.height
        self._waiting.setdefault(table, []).append(frame)
        self._hand_on(_BUFFER_ROWS)

    def _hand_on(self, least: int) -> None:
        for table, frames in self._waiting.items():
            if frames and sum(frame.height for frame in frames) >= least:
                whole = pl.concat(frames)
                frames.clear()
                if self._part is not None:
                    self._part.add(table, whole)
                else:
                    spec = table_named(table)
                    checked = checked_rows(whole, spec, f"table {table}").sort(spec.key)
                    self.first.setdefault(table, checked.head(_SHOWN_ROWS))


_LOCK = "lock"


def check_work(work: str, out: str) -> None:
    """Refuse a `--work` in which others can replace folders, and so the intermediate files.

    Raises:
        UsageError: which folder they can write.
    """
    folder = Path(os.path.realpath(work))
    # Whoever can change what is above a local store can replace that, too.
    above = None if "://" in out else Path(os.path.realpath(out)).parent
    top = above if above is not None and folder.is_relative_to(above) else None
    if (fault := why_replaceable(folder / "import", top)) is not None:
        raise UsageError(
            "expected a folder for intermediate files that no other user can replace, got "
            f"{work}: {fault}; correct that (chmod go-w, or +t) or name another with --work"
        )


def work_folder(out: Path | str, digest: str, work: str | None = None) -> Path:
    """Return the folder for intermediate files: in `work`, beside a local store or among temps.

    Raises:
        UsageError: there is no place beside it, or others can change the folder of this user's.
    """
    if work is not None:
        return Path(os.path.realpath(work)) / f"import-{digest}"
    name = f"import-{digest[:16]}"
    if "://" in str(out):
        private = Path(temporary_root()) / f"hpabatch-{os.geteuid()}"
        make_private(private)
        return private / name
    place = Path(out).absolute()
    if not place.name:
        raise UsageError(f"{out} is no place for a history: name a folder in it")
    return place.with_name(f".{place.name}.{name}")


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Tell what is wrong with the work folder when the block cannot read or write in it.

    Raises:
        UsageError: it cannot.
    """
    try:
        yield
    except (OSError, pl.exceptions.PolarsError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or first_line(error)
        raise UsageError(
            f"the folder for intermediate files {folder} cannot be used: {reason}; make room "
            "there or name another with --work"
        ) from error


@contextmanager
def locked(folder: Path, store: StoreWriter | None = None) -> Iterator[None]:
    """Make a work folder and keep it to this process while the block runs.

    A new import that is refused before anything is written leaves nothing behind; nor do new
    parents remain of a folder that is gone. What another run has left there stays, and so does what
    was read when something has been committed meanwhile: the same command again needs it.

    Raises:
        UsageError: it cannot be made, or others can change it.
        UnfinishedError: another process works in it.
    """
    fresh, number = not folder.exists(), store.refresh().number if store else 0
    with remove_new_folders(folder), _locked(folder, folder / _LOCK):
        try:
            yield
        except RefusedError:
            with suppress(OSError):
                if fresh and store is not None and store.refresh().number == number:
                    empty_folder(folder, but=_LOCK)
            raise


@contextmanager
def _locked(folder: Path, place: Path) -> Iterator[None]:
    make_private(folder)
    with disk_errors(folder):
        lock = lock_file(place)
    if lock is None:
        raise UnfinishedError(
            f"the same import is running already, with intermediate files in {folder}: wait for "
            "its end and repeat the command"
        )
    with lock:
        try:
            yield
        finally:
            with suppress(OSError):
                if os.listdir(folder) == [_LOCK]:
                    place.unlink()
                    folder.rmdir()


def make_private(folder: Path) -> None:
    """Make a folder for this user alone, unless it is there.

    Raises:
        UsageError: it cannot be made, or others can change it: what lies there is believed.
    """
    with disk_errors(folder):
        make_folder(folder.parent)
        make_folder(folder, 0o700)
    if (fault := why_not_private(folder)) is not None:
        raise UsageError(
            "expected a folder for intermediate files that only this user can change, got "
            f"{folder}: {fault}; remove it or name another with --work"
        )
