"""Rows of an import: units, rounding to whole numbers, and repeats of the row before.

After an outage a gauge is there again with the same value; whether that looks new depends on where
windows are cut. The rows in the store decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import polars as pl

from hpabatch.history.columns import TIME
from hpabatch.history.schema import table_named
from hpabatch.importers.common.objects import AMOUNTS

QUANTITY = "quantity"
"""A Kubernetes quantity as text, such as 250m or 128Mi, or as dashboards write it: 1.2 GiB."""

WRITTEN = r"^\s*(\d+(?:\.\d+)?)\s*([mun]|[kKMGT]i|[kKMGT])?(?:B|bytes?|cores?)?\s*$"
"""Amounts that `quantities` understands: 453 m, 1.2 GiB, 512 MB, 0.5 cores."""

CPU_MILLI: dict[str, float] = {
    "cores": 1e3,
    "millicores": 1.0,
    "microcores": 1e-3,
    "nanocores": 1e-6,
}
CPU_COUNTER = "cpu_seconds"
"""A counter of used CPU time, such as container_cpu_usage_seconds_total."""

MEMORY_BYTES: dict[str, float] = {
    "bytes": 1.0,
    "kB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
    "TB": 1e12,
    "KiB": 2.0**10,
    "MiB": 2.0**20,
    "GiB": 2.0**30,
    "TiB": 2.0**40,
}
METRIC_MILLI: dict[str, float] = {
    "one": 1e3,
    "milli": 1.0,
    "micro": 1e-3,
    "nano": 1e-6,
    "kilo": 1e6,
    "mega": 1e9,
}
TIME_PER_MS: dict[str, float] = {"s": 1e-3, "ms": 1.0, "us": 1e3, "ns": 1e6}
DURATION_MS: dict[str, float] = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4, "h": 3.6e6}

# A product of binary fractions is off by less than this; real amounts have no such digits: the
# metrics API counts nanocores, a millionth of a millicore.
_NOISE = 1e-6


class Rounding(StrEnum):
    """Rounding of a fraction."""

    up = "up"
    nearest = "nearest"
    down = "down"


def whole(amount: pl.Expr, rounding: Rounding) -> pl.Expr:
    """Return an amount as a whole number (Int64), nulls as they are.

    A fraction of less than a millionth is noise: 0.07 cores are 70.00000000000001 millicores in
    binary and must not become 71.
    """
    floor = amount.floor()
    fraction = amount - floor
    match rounding:
        case Rounding.up:
            more = fraction > _NOISE
        case Rounding.down:
            more = fraction > 1 - _NOISE
        case Rounding.nearest:
            more = fraction >= 0.5
    return (floor + more.cast(pl.Float64)).cast(pl.Int64)


def quantities(texts: pl.Series, decimal: str) -> pl.Series:
    """Return written amounts as Kubernetes quantities; other strings stay as they are."""
    if decimal == ",":
        texts = texts.str.replace(",", ".", literal=True)
    return texts.str.replace(WRITTEN, "${1}${2}").str.replace("K$", "k")


def ms_schema(table: str, *without: str) -> pl.Schema:
    """Return the columns of a table without its cluster (and others), times in ms."""
    columns = (c for c in table_named(table).columns if c.name not in ("cluster", *without))
    return pl.Schema({c.name: pl.Int64() if c.dtype == TIME else c.dtype for c in columns})


def in_ms(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows of a store with times in ms."""
    times = [name for name, kind in rows.schema.items() if kind == TIME]
    return rows.with_columns(pl.col(times).dt.timestamp("ms"))


def is_new(key: Sequence[str], values: Sequence[str]) -> pl.Expr:
    """Whether rows, sorted by key and time, say something else than the row before of their key."""
    same = [pl.col(name).eq_missing(pl.col(name).shift(1)) for name in (*key, *values)]
    return ~pl.all_horizontal(same) | (pl.int_range(pl.len()) == 0)


def changed_rows(rows: pl.DataFrame, key: list[str], values: list[str]) -> pl.DataFrame:
    """Return the rows in which a value differs from the row before, per key, sorted by ts.

    A null stands for the value before.
    """
    ordered = rows.sort([*key, "ts"]).with_columns(pl.col(values).forward_fill().over(key))
    known = pl.any_horizontal(pl.col(name).is_not_null() for name in values)
    return ordered.filter(is_new(key, values) & known)


def without_repeats(
    rows: pl.DataFrame,
    stored: pl.DataFrame | None,
    key: Sequence[str],
    values: Sequence[str],
    since: str = "ts",
) -> pl.DataFrame:
    """Return the rows that say something new of their thing.

    Args:
        rows: of a window, times in ms.
        stored: of the store, of the same cluster; None: it has none.
        key: columns that tell things apart.
        since: the column with the time.
    """
    if rows.is_empty():
        return rows
    columns = [*key, since, *values]
    told = rows.select(columns).with_columns(new=pl.lit(value=True))
    if stored is not None:
        before = in_ms(stored.select(columns)).filter(pl.col(since) <= rows[since].max())
        known = before.join(rows.select(key).unique(), on=list(key), how="semi", nulls_equal=True)
        told = pl.concat([known.with_columns(new=pl.lit(value=False)), told])
    # A stored row with the time of a new one is that row, written before.
    ordered = told.sort(*key, since, "new", maintain_order=True).unique(
        [*key, since], keep="last", maintain_order=True
    )
    kept = ordered.filter(pl.col("new") & is_new(key, values)).select(*key, since)
    return rows.join(kept, on=[*key, since], how="semi", nulls_equal=True, maintain_order="left")


def continued_requests(
    rows: pl.DataFrame, stored: pl.DataFrame | None, first_seen: pl.DataFrame
) -> pl.DataFrame:
    """Return requests of a window such that those of pods that were known before go on.

    A container that seems new, after an outage, is valid from when it was seen again; it is not
    said a second time to have been so since the pod's creation.

    Args:
        rows: of `pod_requests`, times in ms.
        stored: of the store, of the same cluster; None: it has none.
        first_seen: uid and `first` (ms) of the window's pods.
    """
    key, amounts = ["uid", "kind", "container"], list(AMOUNTS)
    if stored is None or rows.is_empty():
        return rows
    known = in_ms(stored.select(*key, "valid_from")).group_by(key).agg(
        pl.col("valid_from").min().alias("known")
    )  # fmt: skip
    joined = rows.join(known, on=key, how="left", maintain_order="left")
    joined = joined.join(
        first_seen.unique("uid").select("uid", "first"), on="uid", how="left", maintain_order="left"
    )
    again = pl.col("known").is_not_null() & (pl.col("valid_from") <= pl.col("known"))
    since = pl.when(again).then(pl.max_horizontal("first", "valid_from")).otherwise("valid_from")
    moved = joined.with_columns(valid_from=since).select(rows.columns)
    return without_repeats(moved, stored, key, amounts, "valid_from")
