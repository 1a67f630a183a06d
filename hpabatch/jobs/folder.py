"""Job folder: it keeps the parts of finished tasks until the job is complete, to be resumed.

::

    .decisions.parquet.job/
      job.json          what the job is: its fingerprint, and the facts behind it
      lock              held (flock) while a process works here
      tasks/00003/      the part of a finished task: its files, and record.json, which names them
      tasks/.00004.*/   a part being written

A task counts as done when its part has its final name: it is written beside, flushed to disk and
renamed whole, by this process or by a worker (`executor`). The fingerprint says what the results
depend on; under another one nothing is resumed.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final

import msgspec
import polars as pl

import hpabatch
from hpabatch._json import decode_json
from hpabatch._trust import why_not_private
from hpabatch.errors import HistoryError, RefusedError, UnfinishedError, UsageError, as_usage
from hpabatch.history.files import flush, lock_file, read_small, remove
from hpabatch.history.store.storage import temporary_root

FORMAT: Final = 1
RECORD: Final = "record.json"
_JOB: Final = "job.json"
LOCK: Final = "lock"
"""File that is locked while a process works in a folder."""
_TASKS: Final = "tasks"
_NEW_JOB: Final = ".job.json"
DIGEST: Final = "sha256:"
"""Prefix of the names of facts that are digests of inputs."""
PUBLISHED: Final = "published"
"""Name under which a result is put together before it is moved to its place."""
_FRAMES_AT_ONCE: Final = 256
_WRITERS: Final = ("numpy", "polars", "pyarrow")
_OURS: Final = frozenset({_JOB, _NEW_JOB, LOCK, _TASKS, PUBLISHED, f"{PUBLISHED}.former"})


@dataclass(frozen=True, slots=True)
class Identity:
    """Identity of a job: a digest of all that its results depend on, and facts to compare."""

    fingerprint: str
    facts: Mapping[str, str]


@cache
def code_digest() -> str:
    """Return a digest of this package's sources: an edited rule must not be resumed into."""
    root = Path(hpabatch.__file__).parent
    digest = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        digest.update(file.relative_to(root).as_posix().encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def made_by() -> list[str]:
    """Return the code whose differences may show in the bytes of a part: digest and versions."""
    libraries = [f"{name} {version(name)}" for name in _WRITERS]
    return [hpabatch.__version__, code_digest(), *libraries]


def identity_of(facts: Mapping[str, str], depends: Sequence[Any]) -> Identity:
    """Return the identity of a job by facts, the code, and whatever else its parts depend on."""
    text = json.dumps([made_by(), dict(facts), depends])
    return Identity(hashlib.sha256(text.encode()).hexdigest(), dict(facts))


class PartRecord(msgspec.Struct):
    """Record of a finished part: fingerprint of the job, sizes of its files (bytes), figures."""

    job: str
    files: dict[str, int]
    record: dict[str, Any]


class _Job(msgspec.Struct):
    fingerprint: str = ""
    format: int = 0
    facts: dict[str, str] | None = None


class JobFolder:
    """An open job folder; this process alone works in it until `close`."""

    def __init__(self, path: Path, lock: BinaryIO, fingerprint: str, temporary: bool) -> None:
        """Use `open_job`."""
        self.path = path
        self.fingerprint = fingerprint
        self.temporary = temporary
        self._lock = lock

    def __enter__(self) -> JobFolder:
        """Return the folder."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let others work here; the folder goes too if it keeps no finished task."""
        if self.path.exists() and next(self.done(), None) is None:
            self.discard()
        self._lock.close()

    @property
    def tasks(self) -> Path:
        """The folder of the tasks."""
        return self.path / _TASKS

    def place(self, key: str) -> Path:
        """Return the folder of a finished task."""
        return self.tasks / key

    def record(self, key: str) -> dict[str, Any] | None:
        """Return the record of a finished task whose files are all there; None: it is not."""
        return read_record(self.place(key), self.fingerprint)

    def done(self) -> Iterator[str]:
        """Yield the keys of finished tasks whose files are all there, in no order."""
        for name in _names(self.tasks):
            if not name.startswith(".") and self.record(name) is not None:
                yield name

    @contextmanager
    def task(self, key: str) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Yield a new folder for a task's files, and its record, a dict for JSON to fill.

        At the end of the block the files are flushed to disk and the folder gets its final name;
        on any exception it is removed.

        Raises:
            UsageError: the files cannot be written.
        """
        try:
            with write_task(self.tasks, key, self.fingerprint) as made:
                yield made
        except OSError as error:
            raise cannot_write(self.path, error) from error

    def discard(self) -> None:
        """Remove the folder and all that it keeps."""
        # job.json goes first: the rest of an interrupted removal belongs to no job.
        with suppress(FileNotFoundError):
            (self.path / _JOB).unlink()
        for name in _names(self.tasks):  # (a removal as a whole would hold all names)
            remove(self.tasks / name)
        remove(self.path)


def _names(folder: Path) -> Iterator[str]:
    """Yield the names in a folder one by one; a folder that is not there has none."""
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            yield entry.name


@contextmanager
def write_task(tasks: Path, key: str, fingerprint: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield a new folder for a task's files, and its record; at the end it gets its final name.

    Several processes may write the same task: what one of them made whole first stays.

    Raises:
        OSError: the files cannot be written, or the folder of tasks is not there.
    """
    final, temporary = tasks / key, tasks / f".{key}.{os.getpid()}-{secrets.token_hex(4)}"
    record: dict[str, Any] = {}
    try:
        temporary.mkdir()
        yield temporary, record
        sizes = {file.name: file.stat().st_size for file in sorted(temporary.iterdir())}
        whole = {"files": sizes, "record": record, "job": fingerprint}
        (temporary / RECORD).write_text(json.dumps(whole))
        for file in [*temporary.iterdir(), temporary]:
            flush(file)
        # Another process may have been first; half a task makes room.
        if read_record(final, fingerprint) is None:
            remove(final)
            try:
                temporary.rename(final)
            except OSError:
                if read_record(final, fingerprint) is None:
                    raise
        flush(tasks)
    finally:
        with suppress(OSError):
            remove(temporary)


@contextmanager
def finishing(folder: JobFolder, tasks: int) -> Iterator[None]:
    """Do a job of so many tasks in the block; remove the folder when its result is published.

    A history at fault (HistoryError, RefusedError) must change, so the parts of it go too. Any
    other end keeps them, also an outage of the history's storage; the message says how many.
    """
    try:
        yield
    except (UnfinishedError, UsageError) as error:
        kept = count_kept(folder.path)
        more = f"; {kept} of {tasks} parts are kept in {folder.path}: the same command goes on"
        raise as_usage(error, f"{error}{more} from there" if kept else str(error)) from error
    except (HistoryError, RefusedError):
        folder.discard()
        raise
    folder.discard()


def write_frame(frame: pl.DataFrame, path: Path) -> None:
    """Write a frame as a file of a task."""
    buffer = io.BytesIO()
    frame.write_ipc(buffer, compression="zstd")
    path.write_bytes(buffer.getvalue())


def read_frame(path: Path) -> pl.DataFrame:
    """Return the frame of a task's file."""
    # Read whole: a mapped file must not be removed while it is in use.
    return pl.read_ipc(path.read_bytes())


def concat_frames(frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Return the rows of many small frames as one frame; without any it has no column.

    A frame of a few rows takes 30 kB, most of it for its columns: some at a time become one.
    """
    rest, whole = iter(frames), list[pl.DataFrame]()
    while some := list(islice(rest, _FRAMES_AT_ONCE)):
        whole.append(pl.concat(some, rechunk=True))
    return pl.concat(whole) if whole else pl.DataFrame()


def count_kept(path: Path) -> int:
    """Return how many finished tasks a job folder keeps; 0 if there is none."""
    try:
        return sum(not name.startswith(".") for name in _names(path / _TASKS))
    except OSError:
        return 0


def open_job(
    path: Path,
    identity: Identity,
    *,
    restart: bool = False,
    replace: bool | None = None,
    temporary: bool = False,
) -> JobFolder:
    """Return a job folder: a new one, or the one that an interrupted run of the same job left.

    Args:
        path: where the folder is, or is made.
        identity: of the job that is to be done or resumed.
        restart: throw away what an earlier run left.
        replace: throw away what another job left; None: the command has no such option.
        temporary: the same command has another path for it next time.

    Raises:
        UsageError: others can change it, it belongs to another job, is no job folder, or cannot be
            written.
        UnfinishedError: another process works there.
    """
    lock = None
    try:
        path.mkdir(0o700, parents=True, exist_ok=True)
        if (fault := why_not_private(path)) is not None:
            raise UsageError(
                f"expected a folder for finished parts that only this user can change, got {path}: "
                f"{fault}; remove it, or name another output"
            )
        if {entry.name for entry in path.iterdir()} - _OURS:
            raise UsageError(f"{path} holds files that are not of hpabatch; move it away")
        lock = claim(path)
        _settle(path, identity, restart, replace)
    except BaseException as error:
        if lock is not None:
            lock.close()
        if isinstance(error, OSError):
            raise cannot_write(path, error) from error
        raise
    return JobFolder(path, lock, identity.fingerprint, temporary)


@contextmanager
def temporary_job(identity: Identity) -> Iterator[JobFolder]:
    """Yield the folder of a job that nothing is resumed of; it goes with the block."""
    with (
        tempfile.TemporaryDirectory(prefix="hpabatch-", dir=temporary_root()) as place,
        open_job(Path(place) / "job", identity, temporary=True) as folder,
    ):
        yield folder


def claim(path: Path) -> BinaryIO:
    """Return the lock of a folder that is there: while it is open no other process works there.

    Raises:
        UnfinishedError: another process works there.
        OSError: the folder cannot be written.
    """
    lock = lock_file(path / LOCK)
    if lock is None:
        raise UnfinishedError(
            f"{path}: another hpabatch is working on the same output; wait for it, or name another"
        )
    return lock


def _settle(path: Path, identity: Identity, restart: bool, replace: bool | None) -> None:
    """Make sure that the folder is this job's, and write down that it is."""
    left: _Job | None = None
    with suppress(OSError, ValueError):
        left = None if restart else decode_json(read_small(path / _JOB), _Job)
    if left is not None and left.fingerprint != identity.fingerprint:
        if not replace:
            differs = "of another version of hpabatch"
            if left.format == FORMAT and left.facts is not None:
                differs = first_difference(left.facts, identity.facts) or "other HPAs"
            option = "--restart" if replace is None else "--replace"
            raise UsageError(
                f"{path} keeps an unfinished run of another command or history ({differs}): repeat "
                f"that one to finish it, or discard it with {option}"
            )
        left = None
    if left is None:
        remove(path / _TASKS)
    (path / _TASKS).mkdir(exist_ok=True)
    with suppress(OSError):  # (a worker of a killed run may still be writing there)
        for name in _names(path / _TASKS):
            if name.startswith("."):
                remove(path / _TASKS / name)
    text = {
        "format": FORMAT,
        "fingerprint": identity.fingerprint,
        "facts": dict(identity.facts),
    }
    temporary = path / _NEW_JOB
    temporary.write_text(json.dumps(text, indent=1, sort_keys=True))
    flush(temporary)
    temporary.replace(path / _JOB)
    flush(path)


def first_difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Return in which fact two results differ; "": in none."""
    for name in [*new, *old]:
        if old.get(name) != new.get(name):
            if name.startswith(DIGEST):
                return f"table {name.removeprefix(DIGEST)} was another"
            return f"{name} was {old.get(name, 'not set')}, is {new.get(name, 'not set')}"
    return ""


def read_record(place: Path, fingerprint: str) -> dict[str, Any] | None:
    """Return a task's record; None: it is not whole, or of another job."""
    try:
        found = decode_json(read_small(place / RECORD), PartRecord)
        if found.job != fingerprint:
            return None
        for name, size in found.files.items():
            if (place / name).stat().st_size != size:
                return None
    except (OSError, ValueError):
        return None
    return found.record


def cannot_write(path: Path, error: OSError) -> UsageError:
    """Return the message for a place that cannot be written."""
    reason = error.strerror or str(error)
    return UsageError(f"cannot write {path}: {reason}; choose another place or make room there")
