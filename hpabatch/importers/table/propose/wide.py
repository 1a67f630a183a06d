"""Wide and long tables: columns that are series, strings with labels, a row per metric."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from hpabatch.importers.table.propose.columns import (
    NUMBERS,
    Column,
    Kind,
    Role,
    profile,
    words_of,
)
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
_NO_NAMES: Final = frozenset({
    "usage", "total", "avg", "mean", "max", "sum", "request", "limit", "container", "pod", "node",
    "requests", "limits", "current",
})  # fmt: skip
_PLAIN: Final = ("cpu", "mem", "memory", "replicas", "cores", "millicores", "rss", "bytes", "usage")
_METRIC: Final = Role(("metric", "metric_name", "name", "measurement", "field", "measure",
                       "variable", "resource"))  # fmt: skip
_MEASURED: Final = frozenset({
    "cpu", "memory", "mem", "rss", "replicas", "pods", "cores", "millicores", "bytes", "usage",
    "requests", "limits", "rate", "rps", "qps", "latency", "seconds", "network", "disk", "errors",
    "total", "count", "utilization",
})  # fmt: skip
_USAGE: Final = frozenset({"cpu", "memory", "mem"})
_NO_USAGE: Final = frozenset({"request", "requests", "limit", "limits", "throttled", "quota"})
_MOST_MEASURES: Final = 50
_MOST_METRICS: Final = 200
_MOST_COLUMNS: Final = 50
_MOSTLY: Final = 0.8


def find_wide(time: Column, columns: Sequence[Column]) -> Unpivot | None:
    """Return how the columns become rows; None: the table is not a wide one."""
    others = [column for column in columns if column is not time]
    numbers = [c for c in others if c.kind in (*NUMBERS, Kind.empty)]
    if not numbers or any(c.kind is Kind.text for c in others):
        return None
    if any("{" in c.name and re.search(_LABELED, c.name) for c in numbers):
        return Unpivot((time.name,), SERIES, VALUE)
    if pattern := _measured(numbers):
        return Unpivot((time.name,), SERIES, pattern=pattern)
    if len(numbers) < 2 or any(c.has(*_PLAIN) or c.key in _MEASURES for c in numbers):
        return None
    return Unpivot((time.name,), SERIES, VALUE)


def _measured(numbers: Sequence[Column]) -> str:
    """Return a pattern for columns such as web_cpu, web_replicas, api_cpu; "": there are none."""
    for separator in ("_", ".", ":", "/", " ", "-", " - "):
        names: set[str] = set()
        measures: set[str] = set()
        for column in numbers:
            for measure in _MEASURES:
                name = column.name[: -len(separator + measure)]
                words = set(words_of(name))
                if column.name.lower().endswith(separator + measure) and not words <= _NO_NAMES:
                    names.add(name)
                    measures.add(column.name[-len(measure) :])
        if len(names) >= 2 and len(names) * len(measures) >= _MOSTLY * len(numbers):
            # Of cpu_usage and usage, the longer one is meant.
            ends = "|".join(map(re.escape, sorted(measures, key=lambda text: (-len(text), text))))
            return f"^(.+?){re.escape(separator)}({ends})$"
    return ""


def with_labels(columns: Sequence[Column]) -> Iterator[Column]:
    """Yield the columns; in the place of one of series' labels those that may name something."""
    for column in columns:
        if column.kind is not Kind.text or column.share(_LABELED) < _MOSTLY:
            yield column
            continue
        keys = [key for text in column.examples(20) for key in _LABELS.findall(text)]
        for key in dict.fromkeys(keys):
            if key in _USED:
                label = rf'\b{re.escape(key)}"*\s*[=:]\s*"*'
                values = column.values.str.extract(label_pattern(label), 1).alias(key)
                yield profile(values, origin=column.name, label=label)


def label_pattern(label: str) -> str:
    """Return the pattern of a label's value."""
    return f'{label}([^",}}]+)'


def long_metrics(columns: Sequence[Column]) -> tuple[Pivot, list[str]] | None:
    """Return how the rows of a long table become columns, and its metrics, those of usage first.

    The column of metrics is known by its name, or because its values say measures.
    """
    numbers = [c for c in columns if c.kind in NUMBERS and not c.has(*_USAGE)]
    # (250m and 1210 in one column are text)
    valued = [c for c in columns if c.key == VALUE and c.kind in (*NUMBERS, Kind.text)]
    value = next(iter(valued or (numbers if len(numbers) == 1 else ())), None)
    if value is None:
        return None
    texts = [column for column in columns if column.kind is Kind.text and column is not value]
    for column in sorted(texts, key=lambda item: _METRIC.rank(item) is None):
        names = column.distinct().sort().to_list()
        if _METRIC.rank(column) is None and not _are_measures(names):
            continue
        if len(names) > _MOST_METRICS or any("{" in name for name in names[:5]):
            continue
        words = {name: set(words_of(name)) for name in names}
        usage = [name for name in names if words[name] & _USAGE and not words[name] & _NO_USAGE]
        if usage:
            others = [name for name in names if name not in usage]
            return Pivot(column.name, value.name), [*usage, *others][:_MOST_COLUMNS]
    return None


def _are_measures(names: Sequence[str]) -> bool:
    """Whether there are a few values, and most of them say what is measured: cpu_cores_total."""
    said = sum(not _MEASURED.isdisjoint(words_of(name)) for name in names)
    return 2 <= len(names) <= _MOST_MEASURES and said >= _MOSTLY * len(names)


def series_ids(columns: Sequence[Column], height: int) -> pl.Series:
    """Return a string per row that tells series apart: all strings of the row together."""
    texts = [c.values.cast(pl.String) for c in columns if c.kind in (Kind.text, Kind.boolean)]
    if not texts:
        return pl.repeat("", height, dtype=pl.String(), eager=True)
    frame = pl.DataFrame([text.alias(str(k)) for k, text in enumerate(texts)])
    return frame.select(pl.concat_str(pl.all(), separator="\0", ignore_nulls=True)).to_series()
