"""Times and amounts of a table: the time column, usage, requests and limits, their units."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from hpabatch.history.checks import YEAR_2000_MS, YEAR_2100_MS
from hpabatch.importers.common.rows import CPU_COUNTER, QUANTITY, TIME_PER_MS
from hpabatch.importers.table.propose.sample import MOSTLY, NUMBERS, Column, Kind, Role, mean
from hpabatch.importers.table.propose.text import Entry, flow, scalar

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


Time = tuple[Column, Entry]
"""The column of times, and what a map says of it."""


def _time(column: Column, told: str = "", assumed: str = "", **more: str) -> Time:
    name = scalar(column.name)
    value = flow(column=name, **more) if any(more.values()) else name
    return column, Entry(value, told, assumed)


def find_time(columns: Sequence[Column]) -> Time | None:
    """Return the time column: by its name if its values are times, else by its values alone."""
    guesses = (_read(column) for column in sorted(columns, key=_rank))
    return next((guess for guess in guesses if guess is not None), None)


def find_relative(columns: Sequence[Column], start: str) -> Time | None:
    """Return the first column of numbers since a start, by its name; seconds where it says none."""
    for column in columns:
        words = set(column.words)
        said = {unit: words & names for unit, names in _RELATIVE.items() if words & names}
        if not words & (_SINCE | _UNIT_ALONE) or len(said) > 1:
            continue
        if not words <= _SINCE.union(*said.values()):
            continue
        if column.kind is Kind.number and column.quantile(0.0) >= 0:
            unit = next(iter(said), "s")
            told = f"{_UNITS[unit]} since the start"
            if said:
                return _time(column, told, unit=unit, start=scalar(start))
            assumed = f"{told}, as the column's name says no unit"
            return _time(column, "", assumed, unit=unit, start=scalar(start))
    return None


def _rank(column: Column) -> tuple[bool, bool, int]:
    rank = _TIME.rank(column)
    return rank is None, not column.has(*_HINTS), rank or 0


def _read(column: Column) -> Time | None:
    """Return a column as times, None of one that holds others or none."""
    dtype, known = column.values.dtype, column.values.drop_nulls()
    if isinstance(dtype, pl.Datetime):
        if dtype.time_zone is not None:
            return _time(column, "timestamps with a time zone")
        return _time(column, "timestamps without a time zone", _ZONE, zone="UTC")
    if column.kind is Kind.number and (column.has(*_HINTS) or column.key in _TIME.names):
        numbers = column.numbers.drop_nulls()
        for unit, per_ms in TIME_PER_MS.items():
            if mean((numbers / per_ms).is_between(YEAR_2000_MS, YEAR_2100_MS)) >= MOSTLY:
                return _time(column, f"{_UNITS[unit]} since 1970", unit=unit)
        return None
    if dtype != pl.String() or column.kind not in (Kind.text, Kind.number):
        return None
    texts = known.str.strip_chars()
    iso = texts.str.contains(_ISO)
    if mean(iso) >= MOSTLY:  # (a faulty row says nothing of the others)
        offsets = mean(texts.filter(iso).str.slice(10).str.contains(_OFFSET))
        if offsets == 1:
            return _time(column, "ISO 8601 with an offset")
        told = "ISO 8601 without an offset" + (" in some rows" if offsets else "")
        return _time(column, told, _ZONE, zone="UTC")
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
    return _time(column, f"such as {known[0]}", "; ".join(notes), zone=zone, format=scalar(form))


def _fits(texts: pl.Series, form: str) -> bool:
    try:
        parsed = texts.str.to_datetime(form, time_unit="ms", strict=False, exact=True)
    except pl.exceptions.PolarsError:
        return False
    return mean(parsed.is_not_null()) >= MOSTLY


_RESOURCES: Final[Mapping[str, tuple[str, ...]]] = {
    "cpu": ("cpu", "cpus", "cores", "core", "millicores", "mcores", "vcpu", "vcpus", "millicpu",
            "mcpu", "nanocores", "millicore"),
    "memory": ("memory", "mem", "ram", "rss", "workingset"),
}  # fmt: skip
_COUNTER: Final = frozenset({"seconds", "counter", "nanoseconds", "ns"})
_REQUEST: Final = ("request", "requests", "requested", "req", "reqs")
_LIMIT: Final = ("limit", "limits", "lim")
_PERCENT: Final = ("pct", "percent", "percentage", "util", "utilization", "utilisation", "%")
_BOUNDS: Final = {
    "min": Role(("min", "minpods", "min_pods", "minreplicas", "min_replicas")),
    "max": Role(("max", "maxpods", "max_pods", "maxreplicas", "max_replicas")),
}
_OTHER: Final = (
    "capacity", "count", "allocatable", "node", "throttled", "throttling", "quota", "idle",
    "cache", "swap", "failures", "pressure", "target", "share", "shares",
)  # fmt: skip
_STATISTICS: Final = {
    "sum": "sum", "total": "sum", "mean": "mean", "avg": "mean", "average": "mean",
    "max": "max", "maximum": "max", "peak": "max",
}  # fmt: skip
_UNIT_WORDS: Final = {
    "cpu": {
        "millicores": ("millicores", "millicore", "mcores", "mcpu", "mc", "millicpu", "milli", "m"),
        "nanocores": ("nanocores", "nanocore", "nano", "nanos", "n"),
        "microcores": ("microcores", "microcore", "micro", "u"),
        "cores": ("cores", "core", "vcpu", "vcpus"),
    },
    "memory": {
        "bytes": ("bytes", "byte"),
        "KiB": ("kib", "ki"),
        "MiB": ("mib", "mi", "mebibytes"),
        "GiB": ("gib", "gi", "gibibytes"),
        "kB": ("kb", "kilobytes"),
        "MB": ("mb", "megabytes"),
        "GB": ("gb", "gigabytes"),
    },
}
_MILLICORES: Final = 33.0  # so many cores no container uses
_LEAST_WHOLE: Final = 5
_SIZES: Final = {
    "cpu": (0.99, (
        (5e6, "nanocores", "microcores"), (2e5, "microcores", "nanocores or millicores"),
        (_MILLICORES, "millicores", "cores"), (0.0, "cores", "millicores"),
    )),
    "memory": (0.5, (
        (1e6, "bytes", "KiB"), (65536.0, "KiB", "kB or bytes"), (2.0, "MiB", "MB or GiB"),
        (0.0, "GiB", "GB"),
    )),
}  # fmt: skip
"""By resource: which quantile of the values tells, and from what size on it is of a unit."""


@dataclass(frozen=True, slots=True)
class Amount:
    """A column of cpu or memory.

    Attributes:
        unit: as in a map; "" of a percentage.
        percent_of: request, limit or "unknown" of a percentage, else "".
        per_second: a counter's units of time in a second, 0 for other amounts.
        statistic: what it is over the pods of a workload: sum, mean, max, or "".
        told: how the unit is known.
        assumed: what to check, "" where the name says it.
    """

    column: Column
    resource: str
    role: str
    unit: str = ""
    percent_of: str = ""
    per_second: float = 0
    statistic: str = ""
    told: str = ""
    assumed: str = ""


def read_amounts(columns: Iterable[Column]) -> list[Amount]:
    """Return the amounts among columns; the best source of usage comes first."""
    found = []
    for column in columns:
        resource = next((name for name, words in _RESOURCES.items() if column.has(*words)), "")
        if resource and column.kind in NUMBERS:
            found.append(read_amount(column, resource, column.words))
    ranks = ("sum", "", "mean", "max")
    return sorted(
        (amount for amount in found if amount is not None),
        key=lambda a: (bool(a.percent_of), ranks.index(a.statistic), len(a.column.words)),
    )


def read_amount(column: Column, resource: str, words: Collection[str]) -> Amount | None:
    """Return a column as an amount of a resource; None: it is another figure of it.

    `words` are those that tell a counter: of the column, or of what names its table.
    """
    role, percent = "usage", percent_of(column)
    if column.has(*_REQUEST, *_LIMIT) and not percent:
        role = "request" if column.has(*_REQUEST) else "limit"
    elif column.has(*_OTHER):
        return None
    statistic = next((_STATISTICS[word] for word in column.words if word in _STATISTICS), "")
    found = Amount(column, resource, role, percent_of=percent, statistic=statistic)
    if percent:
        return found
    if resource == "cpu" and role == "usage" and not _COUNTER.isdisjoint(words):
        told = "a counter of CPU time: its rate between two samples of a container counts"
        if column.has("ns", "nanoseconds") or column.quantile(0.5) > 1e9:
            told = f"{told}, in nanoseconds"
            return replace(found, unit=CPU_COUNTER, per_second=1e9, told=told)
        assumed = "" if column.has("seconds") else "the counter's unit is seconds"
        return replace(found, unit=CPU_COUNTER, per_second=1, told=told, assumed=assumed)
    unit, told, assumed = _unit_of(column, resource)
    return replace(found, unit=unit, told=told, assumed=assumed)


def _unit_of(column: Column, resource: str) -> tuple[str, str, str]:
    """Return a column's unit, how it is known, and what to check."""
    if column.kind == Kind.quantity:
        return QUANTITY, "Kubernetes quantities", ""
    named = next((unit for unit, words in _UNIT_WORDS[resource].items() if column.has(*words)), "")
    if named:
        return named, f"{named}, by the column's name", ""
    share, rows = _SIZES[resource]
    size = column.quantile(share)
    if resource == "cpu" and column.whole() and column.quantile(0.5) >= _LEAST_WHOLE:
        size = max(size, _MILLICORES)
    _, unit, others = next((row for row in rows if size >= row[0]), rows[-1])
    told = f"{unit}, because half of the values are above {column.quantile(0.5):.4g}"
    return unit, "", f"{told}; else {others}"


def percent_of(column: Column) -> str:
    """Return what a percentage is of: request, limit or "unknown"; "" of other numbers."""
    if not column.has(*_PERCENT) and "%" not in column.name and not column.percent_signs():
        return ""
    if column.has(*_REQUEST):
        return "request"
    return "limit" if column.has(*_LIMIT) else "unknown"


def stated_settings(columns: Iterable[Column]) -> dict[str, Column]:
    """Return the columns that are an HPA's `min`, `max` and `target` (in percent), by name."""
    found: dict[str, Column] = {}
    for column in columns:
        bounds = [key for key, role in _BOUNDS.items() if role.rank(column) is not None]
        bounds += ["target"] if column.has("target") and percent_of(column) else []
        if column.kind is Kind.number and bounds:
            found.setdefault(bounds[0], column)
    return found


def best(amounts: Iterable[Amount], resource: str, role: str = "usage") -> Amount | None:
    """Return the best source of a resource in a role."""
    return next((a for a in amounts if a.resource == resource and a.role == role), None)
