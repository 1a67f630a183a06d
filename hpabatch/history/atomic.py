"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hpabatch.errors import UsageError

_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)


@contextmanager
def atomic_path(path: Path | str) -> Iterator[Path]:
    """Yield a temporary name beside `path`; rename it to `path` when the block ends well.

    The block writes the temporary file. It is then flushed to disk, renamed over `path`, and the
    folder is flushed too, so that a crash leaves the old file or the new one. On any exception,
    Ctrl-C included, the temporary is removed and an older `path` stays as it was. Missing parent
    folders are made. The temporary's name starts with a dot: readers of a folder skip it.

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
    temporary = final.with_name(f".{final.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        if not temporary.exists():
            raise RuntimeError(f"nothing was written for {final}")
        flush(temporary)
        os.replace(temporary, final)
        flush(final.parent)
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
            temporary.unlink(missing_ok=True)


def _is_about(error: OSError, final: Path, temporary: Path) -> bool:
    """Whether an error in the block concerns our file and not one that the block was reading."""
    if error.filename is None:
        # write() and pyarrow name no file.
        return error.errno in _DISK_ERRORS
    named = Path(os.fsdecode(error.filename))
    return named in (temporary, final) or named in final.parents


def flush(path: Path) -> None:
    """Flush a file or folder to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
