"""Units of a table's columns, and rounding to the whole numbers of a history."""

from __future__ import annotations

from enum import StrEnum

import polars as pl

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
