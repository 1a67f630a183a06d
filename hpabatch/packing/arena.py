"""Arena: memory that is used again, because fresh pages cost more than the computing.

Measured on a virtual machine: the first touch of a page takes 5 to 15 µs, which for a shard's
arrays is ten times the time of the kernels that fill them.
"""

from __future__ import annotations

from typing import Any

import numpy as np


class Arena:
    """Named arrays that grow and are handed out again; not for two users at a time."""

    def __init__(self) -> None:
        """Begin empty."""
        self._buffers: dict[str, Any] = {}

    def take(self, name: str, length: int, dtype: Any) -> Any:
        """Return an array of `length`, contents undefined; the name's last one is overwritten.

        Record types come as record arrays.
        """
        wanted = np.dtype(dtype)
        size = length * wanted.itemsize
        buffer = self._buffers.get(name)
        if buffer is None or buffer.size < size:
            buffer = self._buffers[name] = np.empty(max(size, 1) * 9 // 8 + 64, np.uint8)
        # Aligned as malloc would: records hold int64.
        array = buffer[:size].view(wanted)
        return array.view(np.recarray) if wanted.names else array
