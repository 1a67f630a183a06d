"""Lossless conversion of a series to its registered type; a refusal says how to convert."""

from __future__ import annotations

import polars as pl

from hpabatch.errors import HistoryError
from hpabatch.history.columns import BOOL, INT, TEXT, TIME, Column

# Strings of a dictionary are stored once, and become as many as there are rows.
_SMALL_BYTES = 1 << 30
_MOST_LENGTH = 1000

# What is wanted of a type, and its name in Polars.
_WANTED = {
    INT: ("whole numbers", "Int64"),
    TEXT: ("text", "String"),
    BOOL: ("true or false", "Boolean"),
}


def convert_series(series: pl.Series, column: Column, where: str) -> pl.Series:
    """Return the series with the registered type, if no value changes by that.

    Raises:
        HistoryError: another type, or a value that the registered type cannot hold; the message
            names file and column and how to convert.
    """
    dtype = series.dtype
    if dtype == column.dtype:
        return series
    if dtype == pl.Null():
        return series.cast(column.dtype)
    at = f"{where}: column {column.name}"
    if column.dtype == TIME:
        return _to_times(series, at)
    if column.dtype == INT and dtype.is_float():
        raise HistoryError(f"{at} {_why_not_float(series, column)}")
    if column.dtype == INT and dtype.is_integer():
        return _to_integers(series, column, at)
    if column.dtype == TEXT and isinstance(dtype, pl.Categorical | pl.Enum):
        return _to_texts(series, at)
    if column.json and dtype.is_nested():
        raise HistoryError(
            f"{at} is {dtype}; a JSON {column.json} as text is wanted: write it with "
            f'pl.col("{column.name}").struct.json_encode(), or json.dumps of each value'
        )
    what, name = _WANTED[column.dtype]
    unit = f" ({column.unit or 'Int64'}) are" if column.dtype == INT else " is"
    raise HistoryError(
        f'{at} is {dtype}; {what}{unit} wanted: convert it with pl.col("{column.name}")'
        f".cast(pl.{name})"
    )


def _to_texts(series: pl.Series, at: str) -> pl.Series:
    total = int(series.cat.len_bytes().cast(INT).sum())
    if total > max(_SMALL_BYTES, _MOST_LENGTH * len(series)):
        raise HistoryError(
            f"{at}: expected strings of at most {_MOST_LENGTH} bytes on average, got "
            f"{total / 2**30:,.1f} GiB in {len(series):,} rows; write it again with what was "
            "measured"
        )
    return series.cast(TEXT)


def _to_integers(series: pl.Series, column: Column, at: str) -> pl.Series:
    cast = series.cast(INT, strict=False)
    lost = cast.is_null() & series.is_not_null()
    if lost.any():
        row = lost.arg_true()[0]
        raise HistoryError(
            f"{at} is {series.dtype} and {series[row]} in row {row} (counting from 0) does not fit "
            f"Int64; the unit is {column.unit or 'a whole number'}: check the factor"
        )
    return cast


def _why_not_float(series: pl.Series, column: Column) -> str:
    """Return the problem of a float column: NaN, infinities, fractions, or just its type."""
    name, unit = column.name, column.unit or "whole number"
    nan = series.is_nan().fill_null(value=False)
    if nan.any():
        instead = "write null where nothing was measured" if column.holds_nulls else "drop the rows"
        return (
            f"is {series.dtype} and holds NaN in {nan.sum()} rows, first row {nan.arg_true()[0]} "
            f"(counting from 0); {instead} and store whole numbers ({unit}) as Int64"
        )
    odd = (series.is_infinite() | (series != series.round(0))).fill_null(value=False)
    if odd.any():
        row = odd.arg_true()[0]
        return (
            f"is {series.dtype} and holds {series[row]} in row {row} (counting from 0); whole "
            f"numbers ({unit}) are wanted: check the unit, round up and convert it with "
            f'pl.col("{name}").ceil().cast(pl.Int64)'
        )
    return (
        f"is {series.dtype}; Int64 is wanted, though all its values are whole numbers: "
        f'convert it with pl.col("{name}").cast(pl.Int64)'
    )


def _to_times(series: pl.Series, at: str) -> pl.Series:
    name, dtype = series.name, series.dtype
    if not isinstance(dtype, pl.Datetime):
        how = f'pl.from_epoch("{name}", time_unit="ms").dt.replace_time_zone("UTC")'
        hint = f"if it holds milliseconds since 1970, {how}" if dtype.is_integer() else how
        raise HistoryError(f'{at} is {dtype}; Datetime("ms", "UTC") is wanted: convert it ({hint})')
    if dtype.time_zone is None:
        raise HistoryError(
            f"{at} has no time zone; if its times are UTC, say so with "
            f'pl.col("{name}").dt.replace_time_zone("UTC"), else name their zone and convert them'
        )
    ticks = {"ms": 1, "us": 1_000, "ns": 1_000_000}[dtype.time_unit]
    finer = (series.to_physical() % ticks != 0).fill_null(value=False)
    if finer.any():
        row = finer.arg_true()[0]
        raise HistoryError(
            f"{at} is {dtype} and {finer.sum()} of its times are finer than a millisecond, first "
            f'row {row} (counting from 0); shorten them with pl.col("{name}").dt.truncate("1ms")'
        )
    return series.dt.convert_time_zone("UTC").cast(TIME)
