"""Rows with the number of their key in place of its names, and the keys by number.

Numbers count the keys in order from 0. What is done by row (sorting, grouping, copying) takes a
fraction of what it takes with strings; names are filled in at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from hpabatch.importers.table.rows import KEY, key_rank

_TS = "ts"
_LARGEST = 2**63 - 1


class Keyed(NamedTuple):
    """Rows with the column `KEY`, and the names of each key in the order of their numbers."""

    rows: pl.DataFrame
    keys: pl.DataFrame

    def named(self) -> pl.DataFrame:
        """Return the rows with names too."""
        return self.keys[self.rows[KEY]].hstack(self.rows)


def split_names(rows: pl.DataFrame, names: Sequence[str]) -> Keyed:
    """Return rows, in their order, without the columns of their key's names."""
    keys, number = number_rows(rows.select(names))
    return Keyed(rows.drop(names).with_columns(number), keys)


def merge(parts: Sequence[Keyed]) -> Keyed:
    """Return the rows of all parts by key and ts; equal ones stay in the order of the parts."""
    keys, number = number_rows(pl.concat([part.keys for part in parts]))
    found, first = [], 0
    for rows, own in parts:
        theirs = number.slice(first, own.height)
        found.append(rows.with_columns(theirs.gather(rows[KEY]).alias(KEY)))
        first += own.height
    return Keyed(_ordered(pl.concat(found)), keys)


def number_rows(names: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
    """Return the distinct rows of a frame of strings, sorted, and the number of each row.

    They hold on to no strings but their own: those of a piece may be a hundred times as many.
    """
    rank = key_rank(names, names.columns).to_numpy()
    _, first, number = np.unique(rank, return_index=True, return_inverse=True)
    keys = pl.DataFrame(names[first].to_arrow(compat_level=pl.CompatLevel.oldest()))
    return keys, pl.Series(KEY, number, dtype=pl.UInt32)


def _ordered(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows by key and ts, equal ones in their order.

    One number stands for both: to sort by two columns takes four times as long.
    """
    if rows.is_empty():
        return rows
    ts = pl.col(_TS)
    least, last, key = rows.select(ts.min(), ts.max().alias("last"), pl.col(KEY).max()).row(0)
    span = last - least + 1
    if (key + 1) * span > _LARGEST:
        return rows.sort(KEY, _TS, maintain_order=True)
    place = rows.select(pl.col(KEY).cast(pl.Int64) * span + (ts - least)).to_series()
    number = place.to_numpy()
    if (number[1:] >= number[:-1]).all():
        return rows
    return rows[np.argsort(number, kind="stable")]
