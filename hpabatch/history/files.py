"""Files: regular ones opened, locked, and files and folders that appear whole or not at all.

A pipe, socket or device in the place of a file is refused unread.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, Final

from hpabatch.errors import UsageError

_SMALL_BYTES: Final = 16 * 2**20
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_DESCRIPTOR = re.compile(r"/dev/stdin|/(?:dev|proc/self)/fd/([0-9]{1,9})", re.ASCII)


def check_regular(path: Path | str) -> None:
    """Refuse anything but a regular file, without opening it: a read might never end.

    Raises:
        OSError: it is a named pipe, a socket, a device or a folder, or is inaccessible;
            `strerror` has the reason.
    """
    _refuse(os.stat(path).st_mode, path)


def open_regular(path: Path | str, *, pipes: bool = False) -> BufferedReader:
    """Open a regular file for reading.

    Args:
        pipes: also accept a pipe that the process already holds: /dev/stdin and the /dev/fd/N of a
            shell's `<(command)`. Only for a single bounded reading.

    Raises:
        OSError: it is not a regular file, or cannot be opened; `strerror` has the reason.
        ValueError: the name holds a NUL.
    """
    held = _DESCRIPTOR.fullmatch(os.fspath(path)) if pipes else None
    if held is not None:
        descriptor = os.dup(int(held[1] or 0))
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            return os.fdopen(descriptor, "rb")
        os.close(descriptor)
    check_regular(path)
    # Another file may have the name by now: opening a pipe must not wait for its writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        _refuse(os.fstat(descriptor).st_mode, path)
    except OSError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def read_regular(path: Path | str) -> bytes:
    """Return a regular file's bytes (OSError: as `open_regular`)."""
    with open_regular(path) as stream:
        return stream.read()


def read_small(path: Path | str) -> bytes:
    """Return the bytes of a regular file of at most 16 MiB: a token, a key, a certificate.

    Raises:
        OSError: as `open_regular`, or it is larger.
    """
    with open_regular(path) as stream:
        found = stream.read(_SMALL_BYTES + 1)
    if len(found) > _SMALL_BYTES:
        text = f"expected at most {_SMALL_BYTES // 2**20} MiB"
        raise OSError(errno.EFBIG, text, os.fspath(path))
    return found


def lock_file(place: Path) -> BinaryIO | None:
    """Return a locked file, made if it is not there; None: another process has it.

    The lock ends when the file is closed, or with this process, however that ends.

    Raises:
        OSError: it cannot be made or locked.
    """
    with ExitStack() as failed:
        try:
            # (opening a named pipe would wait for its reader)
            handle = os.open(place, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o666)
            stream = failed.enter_context(open(handle, "ab"))
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            mine = os.path.samestat(os.fstat(stream.fileno()), place.stat())
        except (BlockingIOError, FileNotFoundError):
            mine = False  # the other one is at work, or has just removed the file or its folder
        if mine:
            failed.pop_all()
            return stream
    return None


def _refuse(mode: int, path: Path | str) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        text = f"expected a regular file, got {kind}"
        raise OSError(errno.EINVAL, text, os.fspath(path))


# Another process has put its folder there, or taken the old one away, between two steps.
_RACES = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT)
_ATTEMPTS = 100
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)


@contextmanager
def remove_new_folders(folder: Path) -> Iterator[None]:
    """Remove the folder and its parents that were not there before the block, if they are empty."""
    absent = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        yield
    finally:
        for place in absent:
            with suppress(OSError):
                place.rmdir()


def empty_folder(folder: Path, but: str) -> None:
    """Remove what lies in a folder, but for one name (OSError: it cannot be removed)."""
    for place in folder.iterdir():
        if place.is_dir():
            shutil.rmtree(place)
        elif place.name != but:
            place.unlink()


@contextmanager
def atomic_path(path: Path | str, temporary: Path | None = None) -> Iterator[Path]:
    """Yield a temporary name beside `path`; rename it to `path` when the block ends well.

    The block writes the temporary file. It is then flushed to disk, renamed over `path`, and the
    folder is flushed too, so that a crash leaves the old file or the new one. On any exception,
    Ctrl-C included, the temporary is removed and an older `path` stays as it was. Missing parent
    folders are made. The temporary's name starts with a dot: readers of a folder skip it.
    `temporary` is another name for it, on the same file system.

    Raises:
        UsageError: the file cannot be written there (no permission, disk full, a folder is in
            the way, or a device).
    """
    final = Path(path)
    if os.path.isdir(final):
        raise UsageError(f"cannot write {final}: it is a folder; name a file")
    if os.path.exists(final) and not os.path.isfile(final):
        # The rename would put a file in the place of a device such as /dev/null.
        raise UsageError(f"cannot write {final}: it is not a regular file; name another")
    temporary = temporary or _temporary(final)
    with _writing(final, temporary):
        yield temporary
        if not temporary.exists():
            raise RuntimeError(f"nothing was written for {final}")
        flush(temporary)
        os.replace(temporary, final)
        flush(final.parent)


def is_empty_folder(path: Path) -> bool:
    """Say whether a folder has no entry."""
    return not any(path.iterdir())


@contextmanager
def atomic_folder(
    path: Path | str,
    may_replace: Callable[[Path], bool] = is_empty_folder,
    temporary: Path | None = None,
) -> Iterator[Path]:
    """Yield a new folder beside `path`; put it in the place of `path` when the block ends well.

    As `atomic_path`: everything in it is flushed to disk, then it is renamed. A folder that is
    there is replaced as a whole, if `may_replace` says so of it; between two renames neither is
    there, and where the second one fails the old folder is put back. Of several processes that
    write the same folder each puts its own there, and the last one's stays.

    Raises:
        UsageError: the folder cannot be written there, or the old one may not be replaced.
    """
    final = Path(path)
    temporary = temporary or _temporary(final)
    former = temporary.with_name(f"{temporary.name}.former")
    with _writing(final, temporary):
        for place in (temporary, former):
            remove(place)
        temporary.mkdir(parents=True)
        yield temporary
        for folder, _, names in os.walk(temporary, topdown=False):
            for name in (*names, "."):
                flush(Path(folder, name))
        for attempt in range(_ATTEMPTS):
            try:
                _replace_folder(final, temporary, former, may_replace)
                break
            except OSError as error:
                if error.errno not in _RACES or attempt == _ATTEMPTS - 1:
                    raise


def _replace_folder(
    final: Path, temporary: Path, former: Path, may_replace: Callable[[Path], bool]
) -> None:
    """Put a folder in the place of another one, which is `former` meanwhile."""
    try:
        if final.is_dir():
            seen = final.stat()
            if not may_replace(final):
                now = final.stat()
                if (seen.st_ino, seen.st_ctime_ns) != (now.st_ino, now.st_ctime_ns):
                    raise FileNotFoundError(errno.ENOENT, "another folder is there now")
                raise UsageError(f"{final} has got files of others; move them away")
            os.replace(final, former)
        os.replace(temporary, final)
        flush(final.parent)
    finally:
        if former.exists():
            remove(former) if final.exists() else os.replace(former, final)


def _temporary(final: Path) -> Path:
    return final.with_name(f".{final.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")


@contextmanager
def _writing(final: Path, temporary: Path) -> Iterator[None]:
    """Make the parent of `final`; name `final` in errors; remove what is left of `temporary`."""
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        if not _is_about(error, final, temporary):
            raise
        reason = error.strerror or str(error)
        raise UsageError(
            f"cannot write {final}: {reason}; choose another place or make room there"
        ) from error
    finally:
        # After a rename there is nothing left to remove.
        with suppress(OSError):
            remove(temporary)


def _is_about(error: OSError, final: Path, temporary: Path) -> bool:
    """Say whether an error concerns what is written and not a file that the block was reading."""
    if error.filename is None:
        # write() and pyarrow name no file.
        return error.errno in _DISK_ERRORS
    named = Path(os.fsdecode(error.filename))
    ours = {final, temporary} & {named, *named.parents}
    return bool(ours) or named in final.parents


def remove(path: Path) -> None:
    """Remove a file, or a folder and all in it, if it is there."""
    with suppress(FileNotFoundError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def flush(path: Path) -> None:
    """Flush a file or folder to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
