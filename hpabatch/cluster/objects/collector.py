"""Python's garbage collector, held back while very many small values are made at once.

None of them is garbage yet, and to look through them again and again doubles the time.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_holding = 0
_was_enabled = False


@contextmanager
def collector_held() -> Iterator[None]:
    """Hold the collector back, in the whole process; several threads may at once."""
    global _holding, _was_enabled
    with _lock:
        if not _holding:
            _was_enabled = gc.isenabled()
            gc.disable()
        _holding += 1
    try:
        yield
    finally:
        with _lock:
            _holding -= 1
            if not _holding and _was_enabled:
                gc.enable()
