"""Times of a table, in any notation, as milliseconds since 1970."""

from __future__ import annotations

from typing import Literal

import polars as pl

from hpabatch.errors import HistoryError
from hpabatch.history.polars_errors import first_line
from hpabatch.importers.common.units import DURATION_MS, TIME_PER_MS
from hpabatch.importers.table.values import TEXT_TIME, TimeSource

_RFC3339 = (
    r"^\s*(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}(?::\d{2})?)(?:[.,](\d{1,9})\d*)?"
    r"\s*([Zz]|UTC|[+-](?:[01]\d|2[0-3]):?(?:[0-5]\d)?)?\s*$"
)
_OFFSET = r"^([+-])(\d{2}):?(\d{2})?$"
_AMBIGUOUS: dict[str, Literal["earliest", "latest", "null"]] = {
    "earliest": "earliest",
    "latest": "latest",
    "drop": "null",
}
_MILLI = {"ms": 1, "us": 1_000, "ns": 1_000_000}
# The years 1678 to 2261, which 64 bits can count in every unit.
_FIRST_MS, _LAST_MS = -9_214_560_000_000, 9_214_646_400_000


def time_ms(raw: pl.Series, source: TimeSource, where: str) -> pl.Series:
    """Return ms since 1970 (Int64), null where a value is null or no time.

    A time that is finer than a millisecond is cut off, one that does not exist in its zone is null.

    Raises:
        HistoryError: the column cannot hold such times, or its times need a zone or a unit.
    """
    at = f"{where}: column of columns.time"
    if isinstance(raw.dtype, pl.Datetime):
        return _of_datetimes(raw, source, at)
    if raw.dtype == pl.String():
        # A time stands in a row of each pod, and its text takes longer to read than all the rest.
        texts = raw.drop_nulls().unique(maintain_order=True)
        if len(texts) < len(raw) // 2:
            times = time_ms(texts, source, where)
            return raw.replace_strict(texts, times, default=None, return_dtype=pl.Int64)
    if raw.dtype == pl.Date():
        raise HistoryError(f"{at} holds days without a time of day: name another column")
    if source.start_ms is not None:
        return _of_numbers(raw, 1 / DURATION_MS[source.unit], at) + source.start_ms
    if source.unit in TIME_PER_MS:
        return _of_numbers(raw, TIME_PER_MS[source.unit], at)
    if raw.dtype.is_numeric():
        raise HistoryError(
            f"{at} holds numbers such as {raw.drop_nulls()[:1].to_list()}: say columns.time.unit "
            "(s, ms, us or ns)"
        )
    if isinstance(raw.dtype, pl.Categorical | pl.Enum):
        raw = raw.cast(pl.String)
    if raw.dtype == pl.Null():
        return raw.cast(pl.Int64)
    if raw.dtype != pl.String():
        raise HistoryError(f"{at} is {raw.dtype}, which is no time")
    if source.format is not None:
        return _by_format(raw, source, at)
    return _of_texts(raw, source, at)


def _of_datetimes(raw: pl.Series, source: TimeSource, at: str) -> pl.Series:
    assert isinstance(raw.dtype, pl.Datetime)
    if source.unit in TIME_PER_MS or source.unit == TEXT_TIME:
        raise HistoryError(f"{at} holds times already: drop columns.time.unit {source.unit!r}")
    if raw.dtype.time_zone is None:
        return _in_zone(raw, source, at)
    return raw.to_physical() // _MILLI[raw.dtype.time_unit]


def _of_numbers(raw: pl.Series, per_ms: float, at: str) -> pl.Series:
    if raw.dtype == pl.String():
        whole = raw.str.strip_chars().cast(pl.Int64, strict=False)
        fractions = raw.str.strip_chars().cast(pl.Float64, strict=False)
        return _scaled(whole, per_ms).fill_null(_scaled(fractions, per_ms))
    if not raw.dtype.is_numeric() and raw.dtype != pl.Null():
        raise HistoryError(f"{at} is {raw.dtype}; expected numbers, by columns.time.unit")
    return _scaled(raw, per_ms)


def _scaled(raw: pl.Series, per_ms: float) -> pl.Series:
    """Return numbers as ms; whole numbers stay exact, what overflows is null."""
    if raw.dtype.is_integer():
        whole = raw.cast(pl.Int64, strict=False)
        if per_ms >= 1:
            return whole // round(per_ms)
        factor = round(1 / per_ms)
        inside = pl.select(pl.when(whole.abs() < 2**62 // factor).then(whole)).to_series()
        return inside * factor
    ms = raw.cast(pl.Float64, strict=False) / per_ms
    # Seconds with three decimals are not exact in binary: the nearest ms is meant.
    return ms.round(0).cast(pl.Int64, strict=False)


def _of_texts(raw: pl.Series, source: TimeSource, at: str) -> pl.Series:
    """Return RFC 3339 texts (a blank for the T will do) as ms; each may have its own offset."""
    frame = raw.alias("raw").to_frame()
    names = ["1", "2", "3", "4"]
    parts = frame.select(
        pl.col("raw").str.extract(_RFC3339, k + 1).alias(name) for k, name in enumerate(names)
    )
    clock = pl.when(pl.col("2").str.len_chars() == 5).then(pl.col("2") + ":00").otherwise("2")
    local = (pl.col("1") + " " + clock).str.strptime(
        pl.Datetime("ms"), "%Y-%m-%d %H:%M:%S", strict=False
    )
    fraction = (pl.col("3") + "00").str.slice(0, 3).cast(pl.Int64, strict=False).fill_null(0)
    offset = pl.col("4")
    minutes = offset.str.extract(_OFFSET, 2).cast(pl.Int64) * 60 + (
        offset.str.extract(_OFFSET, 3).cast(pl.Int64).fill_null(0)
    )
    sign = pl.when(offset.str.starts_with("-")).then(-1).otherwise(1)
    found = parts.select(
        local=local,
        fraction=fraction,
        shift=pl.when(offset.is_null()).then(None).otherwise((minutes * sign).fill_null(0)),
        naive=offset.is_null() & local.is_not_null(),
    )
    local_ms = found["local"].to_physical()
    if not found["naive"].any():
        return local_ms + found["fraction"] - found["shift"] * 60_000
    in_zone = _in_zone(found["local"].set(~found["naive"], None), source, at)
    both = pl.DataFrame(
        {"a": local_ms - found["shift"] * 60_000, "b": in_zone, "n": found["naive"]}
    )
    return both.select(pl.when("n").then("b").otherwise("a")).to_series() + found["fraction"]


def _by_format(raw: pl.Series, source: TimeSource, at: str) -> pl.Series:
    assert source.format is not None
    try:
        parsed = raw.str.strip_chars().str.to_datetime(
            source.format, time_unit="ms", strict=False, exact=True
        )
    except pl.exceptions.PolarsError as error:
        told = f"{at}: columns.time.format {source.format!r}"
        raise HistoryError(f"{told}: {first_line(error)}") from None
    assert isinstance(parsed.dtype, pl.Datetime)
    if parsed.dtype.time_zone is not None:
        return parsed.to_physical()
    return _in_zone(parsed, source, at)


def _in_zone(local: pl.Series, source: TimeSource, at: str) -> pl.Series:
    """Return naive times as ms by the map's zone."""
    assert isinstance(local.dtype, pl.Datetime)
    # Times that no calendar has make polars and Python fail.
    per_ms = _MILLI[local.dtype.time_unit]
    inside = local.to_physical().is_between(_FIRST_MS * per_ms, _LAST_MS * per_ms)
    naive = local.set(~inside.fill_null(value=True), None)
    if source.zone is None:
        raise HistoryError(
            f"{at}: expected times with a zone, got {naive.drop_nulls().first()!s}; add the "
            "zone to the map: time: {column: NAME, zone: UTC} (or Europe/Berlin)"
        )
    zoned = naive.dt.replace_time_zone(
        source.zone, ambiguous=_AMBIGUOUS[source.ambiguous], non_existent="null"
    )
    return zoned.to_physical() // per_ms
