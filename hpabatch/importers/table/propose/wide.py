"""Wide and long tables: columns that are series, strings with labels, a row per metric."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from hpabatch.importers.table.propose.columns import Column, Kind, profile, words_of
from hpabatch.importers.table.unpivot import Pivot, Unpivot

SERIES: Final = "series"
VALUE: Final = "value"
# Quotes may be doubled: polars leaves those of a CSV's header as they are.
_LABELS = re.compile(r'\b([A-Za-z_][A-Za-z0-9_.]*)"*\s*[=:]\s*"*[^",{}]+')
_LABELED: Final = r'[{,]?\s*"*\b[A-Za-z_]\w*"*\s*(=|":)\s*"*[^",{}]+'
_USED: Final = (
    "pod", "pod_name", "namespace", "container", "container_name", "deployment", "statefulset",
    "workload", "service", "app", "cluster", "instance", "name", "owner_name", "job",
)  # fmt: skip
_MEASURES: Final = (
    "cpu", "mem", "memory", "replicas", "pods", "cpu_usage", "memory_usage", "cpu_cores",
    "cpu_millicores", "memory_bytes", "mem_mib", "memory_mib", "cpu_sum", "cpu_mean", "cpu_avg",
    "mem_usage", "pod_count", "instances",
)  # fmt: skip
_NO_NAMES: Final = frozenset(
    {"usage", "total", "avg", "mean", "max", "sum", "request", "limit", "container", "pod", "node",
     "requests", "limits", "current"}
)  # fmt: skip
_MOSTLY: Final = 0.8


@dataclass(frozen=True, slots=True)
class Candidate:
    """A string of each row that may name something, and its source in a map.

    `label` is the beginning of the pattern that finds it among labels, "" for a whole column.
    """

    column: Column
    origin: str
    label: str = ""

    @property
    def pattern(self) -> str:
        """The pattern of the source, "" for a whole column."""
        return f'{self.label}([^",}}]+)' if self.label else ""


def find_wide(time: Column, columns: Sequence[Column]) -> Unpivot | None:
    """Return how the columns become rows; None: the table is not a wide one."""
    others = [column for column in columns if column is not time]
    texts = [column for column in others if column.kind is Kind.text]
    numbers = [c for c in others if c.kind in (Kind.number, Kind.quantity, Kind.empty)]
    if texts or not numbers:
        return None
    keep = (time.name,)
    if any("{" in column.name and has_labels(column.name) for column in numbers):
        return Unpivot(keep, SERIES, VALUE)
    pattern = _measured(numbers)
    if pattern:
        return Unpivot(keep, SERIES, pattern=pattern)
    known = [c for c in numbers if set(c.words) & _PLAIN or c.key in _MEASURES]
    if known or len(numbers) < 2:
        return None
    return Unpivot(keep, SERIES, VALUE)


_PLAIN: Final = frozenset(
    {"cpu", "mem", "memory", "replicas", "cores", "millicores", "rss", "bytes", "usage"}
)


def _measured(numbers: Sequence[Column]) -> str:
    """Return a pattern for columns such as web_cpu, web_replicas, api_cpu; "": there are none."""
    for separator in ("_", ".", ":", "/", " ", "-", " - "):
        names: dict[str, set[str]] = {}
        for column in numbers:
            for measure in _MEASURES:
                if column.name.lower().endswith(separator + measure):
                    name = column.name[: -len(separator + measure)]
                    names.setdefault(name, set()).add(column.name[-len(measure) :])
        names = {name: found for name, found in names.items() if words_of(name)
                 and not set(words_of(name)) <= _NO_NAMES}  # fmt: skip
        measures = {measure for found in names.values() for measure in found}
        # Of cpu_usage and usage, the longer one is meant.
        if len(names) < 2 or len(names) * len(measures) < _MOSTLY * len(numbers):
            continue
        ends = "|".join(sorted(map(re.escape, measures), key=lambda text: -len(text)))
        return f"^(.+?){re.escape(separator)}({ends})$"
    return ""


def has_labels(text: str) -> bool:
    """Whether a string holds labels, as {pod="web-0"} or {"pod": "web-0"}."""
    return re.search(_LABELED, text) is not None


def candidates(columns: Sequence[Column]) -> list[Candidate]:
    """Return the strings of a table, those among a series' labels one by one."""
    found: list[Candidate] = []
    for column in columns:
        if column.kind is not Kind.text or column.share(_LABELED) < _MOSTLY:
            found.append(Candidate(column, column.name))
            continue
        keys: dict[str, None] = {}
        for text in column.examples(20):
            keys.update(dict.fromkeys(_LABELS.findall(text)))
        for key in keys:
            if key in _USED:
                label = rf'\b{re.escape(key)}"*\s*[=:]\s*"*'
                one = Candidate(column, column.name, label)
                values = column.values.str.extract(one.pattern, 1).alias(key)
                found.append(Candidate(profile(key, values), column.name, label))
    return found


def long_metrics(columns: Sequence[Column]) -> tuple[Pivot, list[str]] | None:
    """Return how the rows of a long table become columns, and its metrics, those of usage first.

    The column of metrics is known by its name, or because its values say measures.
    """
    value = _value_of_metrics(columns)
    if value is None:
        return None
    texts = [column for column in columns if column.kind is Kind.text and column is not value]
    for column in sorted(texts, key=lambda item: item.key not in _METRIC_COLUMNS):
        if column.key not in _METRIC_COLUMNS and not _are_measures(column):
            continue
        names = column.values.drop_nulls().unique().sort().to_list()
        if len(names) > _MOST_METRICS or any("{" in name for name in names[:5]):
            continue
        usage = [name for name in names if _is_usage(words_of(name))]
        if usage:
            others = [name for name in names if name not in usage]
            return Pivot(column.name, value.name), [*usage, *others][:_MOST_COLUMNS]
    return None


def _value_of_metrics(columns: Sequence[Column]) -> Column | None:
    """Return the column called value, else the only one of numbers."""
    amounts = (Kind.number, Kind.quantity)
    kinds = (*amounts, Kind.text)  # (250m and 1210 in one column are text)
    value = next((c for c in columns if c.key == VALUE and c.kind in kinds), None)
    numbers = [c for c in columns if c.kind in amounts]
    numbers = [c for c in numbers if not c.has(*_USAGE)]
    return numbers[0] if value is None and len(numbers) == 1 else value


def _are_measures(column: Column) -> bool:
    """Whether there are a few values, and most of them say what is measured: cpu_cores_total."""
    names = column.values.drop_nulls().unique()
    if not 2 <= len(names) <= _MOST_MEASURES:
        return False
    said = sum(not _MEASURED.isdisjoint(words_of(name)) for name in names)
    return said >= _MOSTLY * len(names)


def _is_usage(words: Collection[str]) -> bool:
    return not _USAGE.isdisjoint(words) and _NO_USAGE.isdisjoint(words)


_METRIC_COLUMNS: Final = ("metric", "metric_name", "name", "measurement", "field", "measure",
                          "variable", "resource")  # fmt: skip
_MEASURED: Final = frozenset({
    "cpu", "memory", "mem", "rss", "replicas", "pods", "cores", "millicores", "bytes", "usage",
    "requests", "limits", "rate", "rps", "qps", "latency", "seconds", "network", "disk", "errors",
    "total", "count", "utilization",
})  # fmt: skip
_MOST_MEASURES: Final = 50
_MOST_METRICS: Final = 200
_MOST_COLUMNS: Final = 50
_USAGE: Final = frozenset({"cpu", "memory", "mem"})
_NO_USAGE: Final = frozenset({"request", "requests", "limit", "limits", "throttled", "quota"})


def series_ids(columns: Sequence[Column], height: int) -> pl.Series:
    """Return a string per row that tells series apart: all strings of the row together."""
    texts = [c.values.cast(pl.String) for c in columns if c.kind in (Kind.text, Kind.boolean)]
    if not texts:
        return pl.repeat("", height, dtype=pl.String(), eager=True)
    frame = pl.DataFrame([text.alias(str(k)) for k, text in enumerate(texts)])
    return frame.select(pl.concat_str(pl.all(), separator="\0", ignore_nulls=True)).to_series()
