"""Columns of frames as the arrays that kernels read."""

from __future__ import annotations

import numpy as np
import polars as pl

from hpabatch.layout.records import I64
from hpabatch.packing.arena import Arena

NEVER_MS = 2**62
"""Later than any recorded time: the end of what has not ended."""

ALWAYS_MS = -(2**62)
"""Earlier than any recorded time."""


def milliseconds(column: pl.Series, absent: int = NEVER_MS) -> I64:
    """Return a time column as ms since 1970, nulls as `absent`; shape of the column."""
    return integers(column.to_physical(), absent)


def integers(column: pl.Series, absent: int = 0) -> I64:
    """Return a whole-number column, nulls as `absent`; shape of it, often its memory."""
    filled = column.fill_null(absent) if column.null_count() else column
    return np.ascontiguousarray(filled.cast(pl.Int64).to_numpy())


def run_starts(column: pl.Series) -> I64:
    """Return the positions at which neighbouring values of a column differ, the first included."""
    if column.is_empty():
        return np.zeros(0, np.int64)
    if column.dtype == pl.String() and not column.null_count():
        return _text_runs(column)
    changed = column.ne_missing(column.shift(1))
    starts = changed.arg_true().to_numpy().astype(np.int64)
    return starts if starts.size and starts[0] == 0 else np.append(0, starts).astype(np.int64)


def _text_runs(column: pl.Series) -> I64:
    """Return the same for texts, by their 16-byte views: comparing texts is ten times slower.

    Equal views are equal texts; where views differ, and between chunks, the few texts are compared.
    """
    found, offset = [np.zeros(0, np.int64)], 0
    for chunk in column.get_chunks():
        views = chunk.to_arrow(compat_level=pl.CompatLevel.newest())
        words = np.frombuffer(views.buffers()[1], np.int64)[2 * views.offset :][: 2 * len(chunk)]
        rows = words.reshape(-1, 2)
        changed = np.flatnonzero((rows[1:] != rows[:-1]).any(axis=1)) + 1
        found += [np.array([offset] if offset else [], np.int64), changed + offset]
        offset += len(chunk)
    possible = np.concatenate(found)
    differs = (column.gather(possible) != column.gather(possible - 1)).to_numpy()
    return np.append(0, possible[differs]).astype(np.int64)


def joined_integers(column: pl.Series, absent: int, name: str, arena: Arena) -> I64:
    """Return a whole-number or time column, nulls as `absent`, shape of the column.

    The memory is the column's own, or the arena's if the column lies in pieces.
    """
    chunks = column.get_chunks()
    if len(chunks) == 1:
        return integers(column.to_physical(), absent)
    joined: I64 = arena.take(name, len(column), np.int64)
    offset = 0
    for chunk in chunks:
        joined[offset : offset + len(chunk)] = integers(chunk.to_physical(), absent)
        offset += len(chunk)
    return joined
