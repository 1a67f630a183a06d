"""Small files that a kubeconfig names: tokens, keys, authorities."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

_MOST_BYTES: Final = 16 * 2**20


def read_small(path: Path) -> bytes:
    """Return what a regular file of at most 16 MiB holds; nothing else is waited for.

    Raises:
        OSError: it cannot be read, is larger, or is a pipe or a device.
    """
    # Without O_NONBLOCK the opening of a pipe waits for somebody who writes to it.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        found = stream.read(_MOST_BYTES + 1)
    if len(found) > _MOST_BYTES:
        raise OSError(errno.EFBIG, f"it is larger than {_MOST_BYTES // 2**20} MiB", str(path))
    return found
