"""Checks of one frame against the registry, shared by reader and writer, and lossless conversion.

Every refusal is a `HistoryError` that names the place (file, column, rows, an example), the fault
and the fix.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TypeVar

import numpy as np
import polars as pl

from hpabatch._json import decode_json
from hpabatch.errors import HistoryError
from hpabatch.history.columns import BOOL, INT, TEXT, TIME, Column, Table
from hpabatch.layout.records import I64

BROKEN = (pl.exceptions.PolarsError, pl.exceptions.PanicException)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, its type's name without one."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


# What is wanted of a type, and how another one becomes it.
_WANTED = {
    INT: ("whole numbers (Int64)", "{}.ceil().cast(pl.Int64), with null for NaN"),
    TEXT: ("text", "{}.cast(pl.String)"),
    BOOL: ("true or false", "{}.cast(pl.Boolean)"),
    TIME: ('Datetime("ms", "UTC")', '{}.dt.replace_time_zone("UTC") or pl.from_epoch'),
}


def convert_series(series: pl.Series, column: Column, where: str) -> pl.Series:
    """Return the series with the registered type, if no value changes by that.

    Raises:
        HistoryError: another type, or a value that the registered type cannot hold; the message
            names file and column and how to convert.
    """
    dtype, wanted = series.dtype, column.dtype
    if dtype == wanted:
        return series
    if dtype == pl.Null() or (wanted == TEXT and isinstance(dtype, pl.Categorical | pl.Enum)):
        return series.cast(wanted)
    at = f"{where}: column {column.name}"
    zoned = isinstance(dtype, pl.Datetime) and dtype.time_zone is not None
    if not ((wanted == INT and dtype.is_integer()) or (wanted == TIME and zoned)):
        what, how = _WANTED[wanted]
        how = how.format(f'pl.col("{column.name}")')
        unit = f" as {column.unit}" if wanted == INT and column.unit else ""
        raise HistoryError(f"{at}: expected {what}{unit}, got {dtype}; convert it with {how}")
    utc = series.dt.convert_time_zone("UTC") if zoned else series
    cast = utc.cast(wanted, strict=False)
    other = (cast.is_null() & utc.is_not_null()) | (cast.cast(utc.dtype, strict=False) != utc)
    if other.any():
        row = other.arg_true()[0]
        raise HistoryError(
            f"{at}: expected {_WANTED[wanted][0]}, got {dtype} with {series[row]} in row {row} "
            "(counting from 0), which it cannot hold; check the unit, or round it"
        )
    return cast


T = TypeVar("T")

YEAR_2000_MS = 946_684_800_000
YEAR_2100_MS = 4_102_444_800_000

# Columns that identify a row in messages, in this order.
_NAMES = ("namespace", "name", "target", "pod", "container", "metric", "uid", "ts")


def check_columns(found: Sequence[str], table: Table, where: str) -> list[str]:
    """Refuse missing required columns; return a warning for unregistered columns.

    Raises:
        HistoryError: required columns are missing; the message names columns that look alike.
    """
    extra = [name for name in found if name not in table.names]
    missing = [c.name for c in table.columns if not c.optional and c.name not in found]
    if missing:
        raise HistoryError(
            f"{where}: {_columns(missing)} missing{_look_alikes(missing, extra)}; "
            f"{table.name} needs: {', '.join(c.name for c in table.columns if not c.optional)}"
        )
    if not extra:
        return []
    return [
        f"{where}: {_columns(extra, verb=False)} not registered for {table.name} and ignored"
        f"{_look_alikes([c.name for c in table.columns if c.name not in found], extra)}"
    ]


def conform(frame: pl.DataFrame, table: Table, where: str, *, texts: bool = True) -> pl.DataFrame:
    """Bring a frame's columns to their registered types and check every value.

    Unregistered columns must be removed before; absent columns stay absent. The order of rows is
    kept. Without `texts` the contents of strings are not checked: that takes longer than all other
    checks, and was done when the row was written.

    Raises:
        HistoryError: a wrong type; a forbidden null, NaN or negative number; a string that is not
            allowed; a timestamp out of range, or before one that it must follow.
    """
    columns = [c for c in table.columns if c.name in frame.columns]
    series = [convert_series(frame[c.name], c, where).alias(c.name) for c in columns]
    converted = pl.DataFrame(series).with_columns(
        pl.col(c.name).fill_null(c.fill) for c in columns if c.fill is not None
    )
    for column in columns:
        _check_values(converted, column, where, texts)
    return converted


def order_rows(frame: pl.DataFrame, table: Table) -> tuple[pl.DataFrame, int]:
    """Sort by the table's key and keep the last of rows with the same key.

    Returns the frame and how many rows were dropped. A frame in order is returned as it is: the
    test is one pass over neighbours, a sort is many.
    """
    if strictly_increasing(frame, table.key):
        return frame, 0
    ordered = frame.unique(subset=list(table.key), keep="last", maintain_order=True)
    return ordered.sort(table.key), frame.height - ordered.height


def check_validity(hpas: pl.DataFrame, where: str) -> None:
    """Check that no HPA of an ordered `hpas` frame has an empty validity or two specs at once.

    Raises:
        HistoryError: `valid_to` is not after `valid_from`, or a spec begins before the one before
            it ends.
    """
    backwards = hpas["valid_to"] <= hpas["valid_from"]
    refuse_rows(
        hpas, backwards, where, "valid_to is not after valid_from", "write the end, or null"
    )
    names = ["cluster", "namespace", "name"]
    ordered = hpas.sort([*names, "valid_from"])
    following = ordered.select(pl.col([*names, "valid_from"]).shift(-1).name.suffix("_next"))
    overlaps = pl.concat([ordered, following], how="horizontal").select(
        pl.all_horizontal([pl.col(n) == pl.col(f"{n}_next") for n in names])
        & (pl.col("valid_to").is_null() | (pl.col("valid_to") > pl.col("valid_from_next")))
    )
    refuse_rows(
        ordered,
        overlaps.to_series(),
        where,
        "the next spec of the same HPA begins before this one ends",
        "set valid_to to the next valid_from",
        numbered=False,
    )


def refuse_rows(
    frame: pl.DataFrame,
    bad: pl.Series,
    where: str,
    what: str,
    remedy: str,
    *,
    numbered: bool = True,
) -> None:
    """Raise a HistoryError with count and first example if any row of the mask is true."""
    if not bad.any():  # (a null is not true)
        return
    count, row = int(bad.sum()), bad.arg_true()[0]
    place = f"row {row} (counting from 0): " if numbered else ""
    described = describe_row(frame, row)
    raise HistoryError(f"{where}: {what} in {_rows(count)}, first {place}{described}; {remedy}")


def describe_row(frame: pl.DataFrame, row: int) -> str:
    """Return the identity of a row: `namespace=shop, pod=cart-1, ts=2026-10-07T00:00:00Z`."""
    parts = []
    for name in _NAMES:
        if name not in frame.columns:
            continue
        # A time that is out of Python's range has no datetime: take the number.
        cell = frame[name].slice(row, 1)
        if cell.dtype == TIME:
            ms = cell.to_physical()[0]
            if ms is not None and YEAR_2000_MS <= ms <= YEAR_2100_MS:
                text = cell.dt.strftime("%Y-%m-%dT%H:%M:%S%.fZ")[0]
            else:
                text = f"{ms} ms"
        else:
            text = cell[0]
        parts.append(f"{name}={text}")
    return ", ".join(parts)


def _check_values(frame: pl.DataFrame, column: Column, where: str, texts: bool) -> None:
    series = frame[column.name]
    at = f"{where}: column {column.name}"
    if not column.holds_nulls:
        must = f"it must hold a value ({column.doc}) in every row"
        refuse_rows(frame, series.is_null(), at, "null", must)
    if column.dtype == INT:
        _check_bounds(frame, series, column, at)
    elif column.dtype == TIME:
        _check_times(frame, series, at)
    if column.not_before in frame.columns:
        what = f"a time before {column.not_before}"
        remedy = f"correct it, or write null where {column.name} is not known"
        refuse_rows(frame, series < frame[column.not_before], at, what, remedy)
    if texts and column.values:
        allowed = ", ".join(repr(value) for value in column.values)
        unknown = ~series.is_in(list(column.values))
        refuse_rows(frame, unknown, at, "an unknown text", f"allowed are {allowed}")
    if texts and column.json:
        _check_json(frame, series, column, at)


def _check_bounds(frame: pl.DataFrame, series: pl.Series, column: Column, at: str) -> None:
    if column.minimum is not None:
        remedy = "such a value is a fault of its source"
        if column.holds_nulls:
            remedy += ": correct it, or write null where nothing was measured"
        what = f"a number below {column.minimum} (the lowest is {series.min()!r})"
        refuse_rows(frame, series < column.minimum, at, what, remedy)
    if column.maximum is not None:
        what = f"a number above {column.maximum} (the highest is {series.max()!r})"
        remedy = f"the unit is {column.unit}: check the factor"
        refuse_rows(frame, series > column.maximum, at, what, remedy)


def _check_times(frame: pl.DataFrame, series: pl.Series, at: str) -> None:
    ms = series.to_physical()
    bad = (ms < YEAR_2000_MS) | (ms >= YEAR_2100_MS)
    if bad.any():
        low, high = ms.min(), ms.max()
        value = low if isinstance(low, int) and low < YEAR_2000_MS else high
        assert isinstance(value, int)
        what = f"a time before 2000 or after 2100 ({value} ms since 1970)"
        refuse_rows(frame, bad, at, what, "check the unit: milliseconds since 1970 are wanted")


def decode_cell(text: str, kind: type[T], column: str) -> T:
    """Return the JSON in a cell of a history; a store's strings are not checked when it is read.

    Raises:
        HistoryError: it is no JSON of that type.
    """
    try:
        return decode_json(text, kind)
    except ValueError as error:
        raise HistoryError(f"{column}: {error}; correct it where it came from") from error


def _check_json(frame: pl.DataFrame, series: pl.Series, column: Column, at: str) -> None:
    wanted: type = dict if column.json == "object" else list
    broken = []
    for text in series.drop_nulls().unique():
        try:
            decode_json(text, wanted)
        except ValueError:
            broken.append(text)
    if broken:
        what = f"a text that is not a JSON {column.json}"
        refuse_rows(frame, series.is_in(broken), at, what, f"write {column.doc}")


def strictly_increasing(frame: pl.DataFrame, key: Sequence[str]) -> bool:
    """Whether each row's key is greater than that of the row before (nulls first)."""
    if frame.height < 2:
        return True
    # Names change only where one pod ends and the next begins: they are compared fully only there,
    # and key columns after the time only where times are equal.
    times = [i for i, name in enumerate(key) if frame.schema[name] == TIME]
    split = times[0] if times else len(key)
    names, rest = key[:split], key[split:]
    changed = run_starts(frame.select(names))
    if not _all_increase(frame, changed[1:], names):
        return False
    if not rest:
        return changed.size == frame.height
    ms = frame[rest[0]].to_physical().fill_null(-(2**63)).to_numpy()
    equal_or_earlier = ms[1:] <= ms[:-1]
    equal_or_earlier[changed[1:] - 1] = False
    return _all_increase(frame, np.flatnonzero(equal_or_earlier) + 1, rest)


def _all_increase(frame: pl.DataFrame, rows: I64, names: Sequence[str]) -> bool:
    """Whether these columns increase to the chosen rows from those before them."""
    following = frame.select(pl.col(names).gather(rows).name.suffix("_next"))
    pairs = frame.select(pl.col(names).gather(rows - 1)).hstack(following)
    return bool(pairs.select(_increases(names).all()).item())


def run_starts(frame: pl.DataFrame) -> I64:
    """Return the rows that differ from the row before, and the first."""
    parts, others = [np.zeros(0, np.int64)], []
    for column in frame:
        if column.null_count() or column.dtype.is_nested() or column.dtype.is_float():
            others.append(column.name)
        elif column.dtype == pl.String():
            parts.append(_other_views(column))
        else:
            values = column.to_physical().to_numpy()
            parts.append(np.flatnonzero(values[1:] != values[:-1]) + 1)
    if others:
        differ = pl.any_horizontal(pl.col(others).ne_missing(pl.col(others).shift(1)))
        parts.append(frame.select(differ.arg_true()).to_series().to_numpy().astype(np.int64))
    changed = np.zeros(frame.height, np.bool_)
    for part in parts:
        changed[part] = True
    changed[:1] = False
    rows = np.flatnonzero(changed)
    before = frame[rows - 1]
    pairs = (pl.col(name).ne_missing(before[name]) for name in frame.columns)
    differs = frame[rows].select(pl.any_horizontal(pairs)).to_series().to_numpy()
    return np.append(np.zeros(min(frame.height, 1), np.int64), rows[differs])


def _other_views(column: pl.Series) -> I64:
    """Return the rows whose string is in another place of memory than that of the row before, some
    of them twice.

    In a column from Parquet the equal strings of a dictionary are in one place, and to compare
    places (Arrow's views of 16 bytes) takes a tenth of the time of comparing strings.
    """
    found, first = [np.zeros(0, np.int64)], 0
    for chunk in column.get_chunks():
        array = chunk.to_arrow(compat_level=pl.CompatLevel.newest())
        if not len(array):
            continue
        words = np.frombuffer(array.buffers()[1] or b"", np.int64)
        views = words[2 * array.offset : 2 * (array.offset + len(array))]
        # (two words a view: one comparison of all of them, and a view moved if either differs)
        moved = (np.flatnonzero(views[2:] != views[:-2]) >> 1) + 1
        found += [np.array([first]), moved + first]
        first += len(array)
    return np.concatenate(found)


def _increases(names: Sequence[str]) -> pl.Expr:
    """Return whether `(a, b, …) < (a_next, b_next, …)`, nulls first."""
    greater = pl.lit(value=False)
    for name in reversed(names):
        this, after = pl.col(name), pl.col(f"{name}_next")
        # A comparison with null is null, so nulls are handled explicitly.
        less = (this < after).fill_null(value=False) | (this.is_null() & after.is_not_null())
        greater = less | (this.eq_missing(after) & greater)
    return greater


def _columns(names: Sequence[str], *, verb: bool = True) -> str:
    noun = "column " if len(names) == 1 else "columns "
    return noun + ", ".join(names) + (" is" if len(names) == 1 else " are")


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"


def _look_alikes(missing: Sequence[str], extra: Sequence[str]) -> str:
    pairs = []
    for name in missing:
        close = get_close_matches(name, extra, n=1, cutoff=0.6)
        if close:
            pairs.append(f"{close[0]} -> {name}")
    return f" (to rename? {', '.join(pairs)})" if pairs else ""
