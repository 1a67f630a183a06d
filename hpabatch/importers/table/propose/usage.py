"""Amounts of a table: usage, requests and limits of cpu and memory, with their units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from hpabatch.importers.common.units import CPU_COUNTER, MEMORY_BYTES, QUANTITY
from hpabatch.importers.table.propose.columns import NUMBERS, Column, Kind, Role, mean

_RESOURCES: Final[Mapping[str, tuple[str, ...]]] = {
    "cpu": ("cpu", "cpus", "cores", "core", "millicores", "mcores", "vcpu", "vcpus", "millicpu",
            "mcpu", "nanocores", "millicore"),
    "memory": ("memory", "mem", "ram", "rss", "workingset"),
}  # fmt: skip
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
_UNITS: Final = {
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
_LEAST_BYTES: Final = 2**16  # of a container
_BYTES: Final = 2**45  # of a workload, 32 TiB
_CORES: Final = 5000  # of a workload
_LEAST_PARTS: Final = 2  # of a core, in thousandths or less: below it, cores are meant
_LEAST_STEPS: Final = 8
_MANY_STEPS: Final = 50
_RISING: Final = 0.98
_MOVING: Final = 0.3


@dataclass(frozen=True, slots=True)
class Amount:
    """A column of cpu or memory.

    Attributes:
        role: usage, request or limit.
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

    @property
    def notes(self) -> tuple[str, ...]:
        """How the unit is known, if anything is to be said of it."""
        return (self.told,) if self.told else ()


def read_amounts(columns: Iterable[Column], series: pl.Series) -> list[Amount]:
    """Return the amounts among columns; rows with the same value of `series` are one container's.

    The best source of usage comes first.
    """
    found = []
    for column in columns:
        resource = next((name for name, words in _RESOURCES.items() if column.has(*words)), "")
        if resource and column.kind in NUMBERS:
            found.append(read_amount(column, resource, series))
    ranks = ("sum", "", "mean", "max")
    return sorted(
        (amount for amount in found if amount is not None),
        key=lambda a: (bool(a.percent_of), ranks.index(a.statistic), len(a.column.words)),
    )


def read_amount(column: Column, resource: str, series: pl.Series) -> Amount | None:
    """Return a column as an amount of a resource; None: it is another figure of it."""
    role, percent = "usage", percent_of(column)
    if column.has(*_REQUEST, *_LIMIT) and not percent:
        role = "request" if column.has(*_REQUEST) else "limit"
    elif column.has(*_OTHER):
        return None
    statistic = next((_STATISTICS[word] for word in column.words if word in _STATISTICS), "")
    found = Amount(column, resource, role, percent_of=percent, statistic=statistic)
    if percent:
        return found
    if resource == "cpu" and role == "usage" and _is_counter(column, series):
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
    named = next((unit for unit, words in _UNITS[resource].items() if column.has(*words)), "")
    if named and _is_plausible(column, named):
        return named, f"{named}, by the column's name", ""
    unit, others = (_cpu_size if resource == "cpu" else _memory_size)(column)
    sizes = f"half of the values are above {column.quantile(0.5):.4g}"
    if named and named != unit:
        return unit, "", f"{unit}, because {sizes}, though the column's name says {named}"
    return unit, "", f"{unit}, because {sizes}; else {others}"


def _is_plausible(column: Column, unit: str) -> bool:
    """Whether amounts in a unit that a name says can be those of containers or workloads."""
    middle, high = column.quantile(0.5), column.quantile(0.99)
    if not high:
        return True  # nothing runs
    if unit in MEMORY_BYTES:
        return high * MEMORY_BYTES[unit] >= _LEAST_BYTES and middle * MEMORY_BYTES[unit] <= _BYTES
    if unit == "cores":
        return middle <= _CORES
    return high >= _LEAST_PARTS or column.whole()  # 0.2 millicores: a pod uses more than that


def _cpu_size(column: Column) -> tuple[str, str]:
    high = column.quantile(0.99)
    if high > 5e6:
        return "nanocores", "microcores"
    if high > 2e5:
        return "microcores", "nanocores or millicores"
    if high > 32 or (column.whole() and column.quantile(0.5) >= 5):
        return "millicores", "cores"
    return "cores", "millicores"


def _memory_size(column: Column) -> tuple[str, str]:
    middle = column.quantile(0.5)
    if middle >= 1e6:
        return "bytes", "KiB"
    if middle >= 65536:
        return "KiB", "kB or bytes"
    return ("MiB", "MB or GiB") if middle >= 2 else ("GiB", "GB")


def percent_of(column: Column) -> str:
    """Return what a percentage is of: request, limit or "unknown"; "" of other numbers."""
    if not column.has(*_PERCENT) and "%" not in column.name and not column.percent_signs():
        return ""
    if column.has(*_REQUEST):
        return "request"
    return "limit" if column.has(*_LIMIT) else "unknown"


def _is_counter(column: Column, series: pl.Series) -> bool:
    """Whether the values of a series only grow, as those of a counter do."""
    if any(column.has(*words) for words in _UNITS["cpu"].values()):
        return False  # cores are a rate already, even where they only rise
    named = column.has("seconds", "counter", "nanoseconds", "ns")
    frame = pl.DataFrame({"series": series, "value": column.numbers}).drop_nulls()
    steps = frame.select(pl.col("value").diff().over("series")).to_series().drop_nulls()
    if len(steps) < (_LEAST_STEPS if named else _MANY_STEPS):
        return named and column.has("total")
    return mean(steps >= 0) >= _RISING and mean(steps > 0) >= _MOVING


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
