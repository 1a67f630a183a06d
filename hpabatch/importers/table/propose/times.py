"""Time column of a table: which one it is, its unit, format and zone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from zoneinfo import available_timezones

import polars as pl

from hpabatch.history.checks import YEAR_2000_MS, YEAR_2100_MS
from hpabatch.importers.common.units import TIME_PER_MS
from hpabatch.importers.table.propose.columns import Column, Kind, named

_NAMES: Final = (
    "time", "ts", "timestamp", "datetime", "date_time", "at", "sample_time", "collected_at",
    "recorded_at", "observed_at", "created_at", "event_time", "start_time", "epoch", "unix",
    "unixtime", "unix_time", "epoch_ms", "ts_ms", "time_ms", "timestamp_ms", "when", "date", "t",
)  # fmt: skip
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
_ISO_LOCAL: Final = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M",
                     "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f")  # fmt: skip
_CLOCK: Final = r"\d{1,2}[:h.]\d{2}"
_MOSTLY: Final = 0.9
# A zone behind a time: CEST or Europe/Berlin.
_ZONED: Final = r"^(\S.*\d(?: [AP]M)?)\s+([A-Z]{3,5}|[A-Z][A-Za-z_]+/[A-Za-z_/+-]+)$"
# Zones whose abbreviations are known; several have the same ones, so they are assumed.
_ABBREVIATIONS: Final = (
    ("Europe/Berlin", ("CET", "CEST")), ("America/New_York", ("EST", "EDT")),
    ("America/Chicago", ("CST", "CDT")), ("America/Denver", ("MST", "MDT")),
    ("America/Los_Angeles", ("PST", "PDT")), ("Europe/London", ("GMT", "BST")),
    ("Europe/Helsinki", ("EET", "EEST")), ("Asia/Kolkata", ("IST",)), ("Asia/Tokyo", ("JST",)),
    ("Asia/Seoul", ("KST",)), ("Australia/Sydney", ("AEST", "AEDT")), ("UTC", ("UTC",)),
)  # fmt: skip


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
    ordered = sorted(columns, key=_rank)
    for column in ordered:
        if (found := _read(column)) is not None:
            return found
    return None


def find_relative(columns: Sequence[Column], start: str) -> TimeGuess | None:
    """Return the first column of numbers since a start, by its name; seconds where it says none."""
    for column in columns:
        words = set(column.words)
        said = {unit: words & names for unit, names in _RELATIVE.items() if words & names}
        alone = words - _SINCE
        plain = bool(words & _SINCE) or bool(words & _UNIT_ALONE)
        if not plain or len(said) > 1 or not alone <= set().union(*said.values()):
            continue
        if column.kind is not Kind.number or column.quantile(0.0) < 0:
            continue
        unit = next(iter(said), "s")
        told = f"{_LONG_UNITS[unit]} since the start"
        assumed = "" if said else f"{told}, as the column's name says no unit"
        return TimeGuess(column, unit, told="" if assumed else told, assumed=assumed, start=start)
    return None


def find_dates(columns: Sequence[Column]) -> Column | None:
    """Return the first column, likely names before others, of dates without a time of day."""
    return next((column for column in sorted(columns, key=_rank) if _is_dates(column)), None)


def find_unread(columns: Sequence[Column]) -> Column | None:
    """Return the column that most likely holds times, in a notation that is not known."""
    texts = [c for c in columns if c.kind is Kind.text]
    clocks = [c for c in texts if c.share(_CLOCK) >= _MOSTLY]
    hinted = [c for c in texts if c.key in _NAMES or c.has("time", "timestamp")]
    return next(iter((*clocks, *hinted)), None)


def _is_dates(column: Column) -> bool:
    if column.values.dtype == pl.String():
        texts = column.values.drop_nulls().str.strip_chars()
        return _share(texts.str.contains(_DATE)) >= _MOSTLY
    return column.values.dtype == pl.Date() and column.values.null_count() < len(column.values)


def _rank(column: Column) -> tuple[bool, bool, int]:
    name = _NAMES.index(column.key) if named([column], _NAMES) else len(_NAMES)
    hinted = column.has("time", "timestamp", "date", "ts")
    return name == len(_NAMES), not hinted, name


def _read(column: Column) -> TimeGuess | None:
    likely = column.has("time", "timestamp", "date", "ts") or column.key in _NAMES
    match column.kind:
        case Kind.time:
            return _of_type(column)
        case Kind.number if likely:
            return _of_numbers(column)
        case Kind.text | Kind.number:
            return _of_text(column)
    return None


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
        inside = (known / per_ms).is_between(YEAR_2000_MS, YEAR_2100_MS)
        if inside.mean() >= _MOSTLY:  # type: ignore[operator]
            return TimeGuess(column, unit, told=f"{_UNITS[unit]} since 1970")
    return None


def _of_text(column: Column) -> TimeGuess | None:
    if column.values.dtype != pl.String():
        return None
    known = column.values.drop_nulls()
    texts = known.str.strip_chars()
    if _share(texts.str.contains(_ISO)) >= _MOSTLY:
        known = texts.filter(texts.str.contains(_ISO))  # (a faulty row says nothing of the others)
        offsets = _share(known.str.slice(10).str.contains(_OFFSET))
        if offsets == 1:
            return TimeGuess(column, told="ISO 8601 with an offset")
        told = "ISO 8601 without an offset" + (" in some rows" if offsets else "")
        return TimeGuess(column, zone="UTC", told=told, assumed=_ZONE)
    if _share(texts.str.contains(r"^\d{9,20}(\.\d+)?$")) >= _MOSTLY and column.kind == Kind.number:
        return None  # numbers, which need a name that says time
    fitting = [form for form in _FORMATS if _fits(texts, form)]
    if not fitting:
        return _of_zoned(column, texts)
    form = fitting[0]
    zone = "" if "%z" in form or form.endswith("Z") else "UTC"
    if form.endswith("Z"):
        zone = "UTC"
    swapped = form.replace("%d", "\0").replace("%m", "%d").replace("\0", "%m")
    notes = [_ZONE] if zone and not form.endswith("Z") else []
    if swapped in fitting[1:]:
        notes.insert(0, f"the day stands before the month; else format: '{swapped}'")
    return TimeGuess(column, zone=zone, format=form, told=f"such as {known[0]}",
                     assumed="; ".join(notes))  # fmt: skip


def _of_zoned(column: Column, texts: pl.Series) -> TimeGuess | None:
    """Read local times with their zone behind them: 2026-10-05 00:00:00 CEST."""
    names = texts.str.extract(_ZONED, 2)
    local = texts.str.extract(_ZONED, 1)
    if _share(names.is_not_null()) < _MOSTLY:
        return None
    there = set(names.drop_nulls().unique())
    form = next((form for form in (*_ISO_LOCAL, *_FORMATS) if _fits(local, form)), "")
    if not form or "%z" in form or form.endswith("Z"):
        return None
    told = f"such as {texts[0]}"
    if len(there) == 1 and "/" in (zone := min(there)) and zone in available_timezones():
        return TimeGuess(column, zone=zone, format=f"{form} %Z", told=told)
    zone = next((zone for zone, names in _ABBREVIATIONS if there <= set(names)), "")
    if not zone or not _says(local, form, zone, names):
        return None
    assumed = "" if zone == "UTC" else f"the zone is {zone}, by {' and '.join(sorted(there))}"
    return TimeGuess(column, zone=zone, format=f"{form} %Z", told=told, assumed=assumed)


def _says(local: pl.Series, form: str, zone: str, names: pl.Series) -> bool:
    """Whether a zone has those abbreviations at those times: CET in summer is not Berlin's."""
    times = local.str.to_datetime(form, time_unit="ms", strict=False, exact=True)
    zoned = times.dt.replace_time_zone(zone, ambiguous="null", non_existent="null")
    return _share((zoned.dt.strftime("%Z") == names).drop_nulls()) >= _MOSTLY


def _fits(texts: pl.Series, form: str) -> bool:
    try:
        parsed = texts.str.to_datetime(form, time_unit="ms", strict=False, exact=True)
    except pl.exceptions.PolarsError:
        return False
    return bool(parsed.is_not_null().mean() >= _MOSTLY)  # type: ignore[operator]


def _share(mask: pl.Series) -> float:
    return float(mask.mean() or 0.0)  # type: ignore[arg-type]


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
_LONG_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "ms": "milliseconds"}
_ZONE: Final = "the times are UTC; if they are local, name the zone, as in Europe/Berlin"
_UNITS: Final = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
