"""Columns of frames as the arrays that kernels read, and arrays as columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from hpabatch.layout.records import I64
from hpabatch.packing.arena import Arena

NEVER_MS = 2**62
"""Later than any recorded time: the end of what has not ended."""

ALWAYS_MS = -(2**62)
"""Earlier than any recorded time."""


_TIME_BITS = 43  # times are below 2^43 ms, the year 2248
_LATEST_MS = (1 << _TIME_BITS) - 1


def keyed(owner: I64, ms: I64) -> I64:
    """Return integers that sort by owner, then time; times are cut to what fits (0 to 2^43)."""
    return (owner << _TIME_BITS) | np.clip(ms, 0, _LATEST_MS)


def unkeyed(keys: I64) -> tuple[I64, I64]:
    """Return owners and times of keys."""
    return keys >> _TIME_BITS, keys & _LATEST_MS


def milliseconds(column: pl.Series, absent: int = NEVER_MS) -> I64:
    """Return a time column as ms since 1970, nulls as `absent`; shape of the column."""
    return integers(column.to_physical(), absent)


def integers(column: pl.Series, absent: int = 0) -> I64:
    """Return a whole-number column, nulls as `absent`; shape of it, often its memory."""
    filled = column.fill_null(absent) if column.null_count() else column
    return np.ascontiguousarray(filled.cast(pl.Int64).to_numpy())


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


def masked(values: Any, known: Any, dtype: Any = np.int64) -> pl.Series:
    """Return values that are null where not known."""
    # Always a copy: a frame keeps an array's memory, and a shard's is used again.
    return pl.Series(np.array(values, dtype)).set(pl.Series(~np.asarray(known, np.bool_)), None)


def words_of(values: Any, words: Mapping[int, str], dtype: pl.DataType) -> pl.Series:
    """Return the words of small codes from -1 on; a code without words is null."""
    table = pl.Series(
        [words.get(code) for code in range(-1, max(words, default=0) + 2)], dtype=dtype
    )
    # Polars gathers by UInt32; behind the last code are those without words.
    position = np.add(values, 1, dtype=np.int32).view(np.uint32)
    return table.gather(pl.Series(np.minimum(position, len(table) - 1, dtype=np.uint32)))
