"""Time column of a table: which one it is, its unit, format and zone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from hpabatch.history.checks import YEAR_2000_MS, YEAR_2100_MS
from hpabatch.importers.common.units import TIME_PER_MS
from hpabatch.importers.table.propose.columns import MOSTLY, Column, Kind, Role, mean

_TIME: Final = Role((
    "time", "ts", "timestamp", "datetime", "date_time", "at", "sample_time", "collected_at",
    "recorded_at", "observed_at", "created_at", "event_time", "start_time", "epoch", "unix",
    "unixtime", "unix_time", "epoch_ms", "ts_ms", "time_ms", "timestamp_ms", "when", "date", "t",
))  # fmt: skip
_HINTS: Final = ("time", "timestamp", "date", "ts")
_ISO: Final = (
    r"^\s*\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}(:\d{2}([.,]\d+)?)?"
    r"\s*(?:[Zz]|UTC|[+-]\d{2}:?(\d{2})?)?\s*$"
)
_DATE: Final = r"^(\d{4}([-/.])\d{1,2}([-/.])\d{1,2}|\d{1,2}([-/.])\d{1,2}([-/.])\d{4})$"
_OFFSET: Final = r"([Zz]|UTC|[+-]\d{2}:?(\d{2})?)\s*$"
# strptime formats in the order in which they are tried; %d before %m where both could be.
_FORMATS: Final = (
    "%Y-%m-%d %H:%M:%S %z UTC", "%Y-%m-%d %H:%M:%S%.f %z UTC", "%Y/%m/%d %H:%M:%S",
    "%Y/%m/%d %H:%M", "%d.%m.%Y %H:%M:%S", "%d.%m.%Y %H:%M", "%d/%m/%Y %H:%M:%S",
    "%m/%d/%Y %H:%M:%S", "%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M", "%m/%d/%Y %I:%M:%S %p",
    "%m/%d/%Y, %I:%M:%S %p", "%d/%m/%Y, %H:%M:%S", "%d-%m-%Y %H:%M:%S", "%d-%m-%Y %H:%M",
    "%d %b %Y %H:%M:%S", "%b %d, %Y %H:%M:%S", "%d/%b/%Y:%H:%M:%S %z", "%Y%m%dT%H%M%SZ",
    "%Y%m%d%H%M%S", "%Y%m%dT%H%M%S", "%a, %d %b %Y %H:%M:%S %z", "%Y-%m-%d %H:%M:%S,%3f",
)  # fmt: skip
_CLOCK: Final = r"\d{1,2}[:h.]\d{2}"
_SINCE: Final = frozenset(
    {"time", "t", "ts", "timestamp", "elapsed", "offset", "relative", "rel", "since", "start"}
)
_RELATIVE: Final = {
    "s": {"s", "sec", "secs", "second", "seconds"},
    "m": {"m", "min", "mins", "minute", "minutes"},
    "h": {"h", "hour", "hours"},
    "ms": {"ms", "millis", "milliseconds"},
}
_UNIT_ALONE: Final = frozenset({"sec", "secs", "second", "seconds", "minute", "minutes", "hour",
                                "hours"})  # fmt: skip
_UNITS: Final = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds",
                 "m": "minutes", "h": "hours"}  # fmt: skip
_ZONE: Final = "the times are UTC; if they are local, name the zone, as in Europe/Berlin"


@dataclass(frozen=True, slots=True)
class TimeGuess:
    """The time of a row: extra keys of `columns.time`, and what is said about them."""

    column: Column
    unit: str = ""
    zone: str = ""
    format: str = ""
    told: str = ""
    assumed: str = ""
    start: str = ""

    def shown(self) -> str:
        """Return an example and its notation, as far as it is known."""
        example = self.column.examples(1)[0]
        return f"{example!r} ({self.told})" if self.told else repr(example)


def find_time(columns: Sequence[Column]) -> TimeGuess | None:
    """Return the time column: by its name if its values are times, else by its values alone."""
    guesses = (_read(column) for column in sorted(columns, key=_rank))
    return next((guess for guess in guesses if guess is not None), None)


def find_relative(columns: Sequence[Column], start: str) -> TimeGuess | None:
    """Return the first column of numbers since a start, by its name; seconds where it says none."""
    for column in columns:
        words = set(column.words)
        said = {unit: words & names for unit, names in _RELATIVE.items() if words & names}
        if not words & (_SINCE | _UNIT_ALONE) or len(said) > 1:
            continue
        if not words <= _SINCE.union(*said.values()):
            continue
        if column.kind is not Kind.number or column.quantile(0.0) < 0:
            continue
        unit = next(iter(said), "s")
        told = f"{_UNITS[unit]} since the start"
        assumed = "" if said else f"{told}, as the column's name says no unit"
        return TimeGuess(column, unit, told="" if assumed else told, assumed=assumed, start=start)
    return None


def find_dates(columns: Sequence[Column]) -> Column | None:
    """Return the first column, likely names before others, of dates without a time of day."""
    for column in sorted(columns, key=_rank):
        known = column.values.drop_nulls()
        is_text = known.dtype == pl.String()
        if is_text and mean(known.str.strip_chars().str.contains(_DATE)) >= MOSTLY:
            return column
        if known.dtype == pl.Date() and len(known):
            return column
    return None


def find_unread(columns: Sequence[Column]) -> Column | None:
    """Return the column that most likely holds times, in a notation that is not known."""
    texts = [c for c in columns if c.kind is Kind.text]
    clocks = [c for c in texts if c.share(_CLOCK) >= MOSTLY]
    hinted = [c for c in texts if c.key in _TIME.names or c.has("time", "timestamp")]
    return next(iter((*clocks, *hinted)), None)


def _rank(column: Column) -> tuple[bool, bool, int]:
    rank = _TIME.rank(column)
    return rank is None, not column.has(*_HINTS), rank or 0


def _read(column: Column) -> TimeGuess | None:
    is_likely = column.has(*_HINTS) or column.key in _TIME.names
    if column.kind is Kind.time:
        return _of_type(column)
    if column.kind is Kind.number and is_likely:
        return _of_numbers(column)
    return _of_text(column) if column.kind in (Kind.text, Kind.number) else None


def _of_type(column: Column) -> TimeGuess | None:
    dtype = column.values.dtype
    if not isinstance(dtype, pl.Datetime):
        return None
    if dtype.time_zone is not None:
        return TimeGuess(column, told="timestamps with a time zone")
    return TimeGuess(column, zone="UTC", told="timestamps without a time zone", assumed=_ZONE)


def _of_numbers(column: Column) -> TimeGuess | None:
    known = column.numbers.drop_nulls()
    for unit, per_ms in TIME_PER_MS.items():
        if mean((known / per_ms).is_between(YEAR_2000_MS, YEAR_2100_MS)) >= MOSTLY:
            return TimeGuess(column, unit, told=f"{_UNITS[unit]} since 1970")
    return None


def _of_text(column: Column) -> TimeGuess | None:
    if column.values.dtype != pl.String():
        return None
    known = column.values.drop_nulls()
    texts = known.str.strip_chars()
    iso = texts.str.contains(_ISO)
    if mean(iso) >= MOSTLY:  # (a faulty row says nothing of the others)
        offsets = mean(texts.filter(iso).str.slice(10).str.contains(_OFFSET))
        if offsets == 1:
            return TimeGuess(column, told="ISO 8601 with an offset")
        told = "ISO 8601 without an offset" + (" in some rows" if offsets else "")
        return TimeGuess(column, zone="UTC", told=told, assumed=_ZONE)
    if mean(texts.str.contains(r"^\d{9,20}(\.\d+)?$")) >= MOSTLY and column.kind == Kind.number:
        return None  # numbers, which need a name that says time
    fitting = [form for form in _FORMATS if _fits(texts, form)]
    if not fitting:
        return None
    form = fitting[0]
    zone = "" if "%z" in form else "UTC"
    swapped = form.replace("%d", "\0").replace("%m", "%d").replace("\0", "%m")
    notes = [_ZONE] if zone and not form.endswith("Z") else []
    if swapped in fitting[1:]:
        notes.insert(0, f"the day stands before the month; else format: '{swapped}'")
    told = f"such as {known[0]}"
    return TimeGuess(column, zone=zone, format=form, told=told, assumed="; ".join(notes))


def _fits(texts: pl.Series, form: str) -> bool:
    try:
        parsed = texts.str.to_datetime(form, time_unit="ms", strict=False, exact=True)
    except pl.exceptions.PolarsError:
        return False
    return mean(parsed.is_not_null()) >= MOSTLY
