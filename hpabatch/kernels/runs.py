"""Where neighbouring rows differ."""

from __future__ import annotations

from hpabatch._jit import rule
from hpabatch.layout.records import I64


@rule
def count_changes(words: I64) -> int:
    """Return how many rows of (n, 2) words differ from the row before, the first not counted."""
    count = 0
    for r in range(1, words.shape[0]):
        if words[r, 0] != words[r - 1, 0] or words[r, 1] != words[r - 1, 1]:
            count += 1
    return count


@rule
def write_changes(words: I64, out: I64) -> None:
    """Write these rows' numbers to `out`, shape (count_changes(words),)."""
    count = 0
    for r in range(1, words.shape[0]):
        if words[r, 0] != words[r - 1, 0] or words[r, 1] != words[r - 1, 1]:
            out[count] = r
            count += 1
