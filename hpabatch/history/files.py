"""Opening of regular files: a pipe, socket or device in the place of a file is refused unread.

Also files that are locked while a process works in a folder.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from contextlib import ExitStack
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, Final

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
        path: the file.
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
    """Raise an OSError unless the mode is a regular file's."""
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        text = f"expected a regular file, got {kind}"
        raise OSError(errno.EINVAL, text, os.fspath(path))
