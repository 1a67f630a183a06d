"""Map file: the meaning and unit of a table's columns, its shape (wide, long), and the assumptions.

`decode` reads it. What it leaves open gets the default that docs/import.md lists, and every default
that shapes the result is named in `TableMap.assumed`. `unpivot` turns the columns of a wide table
into rows, `pivot` the rows of a long one into columns.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import polars as pl

from hpabatch.history.expressions.parser import columns
from hpabatch.importers.common.rows import Rounding
from hpabatch.importers.table.hpas import HpaMap
from hpabatch.importers.table.objects import Beside
from hpabatch.importers.table.values import Amount, Source, TimeSource, pattern_of
from hpabatch.inputs import document_kinds as kinds
from hpabatch.inputs.document_keys import ListOf, Scalar, key
from hpabatch.inputs.documents import Place

_TWO_GROUPS = pattern_of(
    2, "as in ^(.+)_(cpu|replicas)$: the name, and the column that gets the value"
)


@dataclass(frozen=True, slots=True)
class Unpivot:
    """The columns of `keep` stay; each other column becomes rows, empty cells none.

    `name` gets the column's name and `value` its value. With `pattern`, only columns that match
    become rows: `name` gets the first group, and the second one is the column that gets the value.
    """

    keep: tuple[str, ...] = key(
        "keep", ListOf(kinds.text("a column"), "the columns that stay, such as time")
    )
    name: str = key("name", kinds.text("the column that gets the names of the others"))
    value: str = key("value", kinds.text(), "", "")
    pattern: str = key("pattern", _TWO_GROUPS, "", "")

    def checked(self, place: Place) -> Unpivot:
        """Refuse (MistakesError) both or none of value and pattern."""
        if bool(self.value) == bool(self.pattern):
            got = "both" if self.value else "neither"
            place.refuse(f"expected one of value and pattern, got {got}")
        return self

    def needed(self, columns: Sequence[str]) -> list[str]:
        """Return the columns of a file that are read."""
        turned = [name for column in self._turned(columns).values() for name in column.values()]
        return [*self.keep, *turned]

    def columns_of(self, columns: Sequence[str]) -> list[str]:
        """Return the columns that the rows of a file have."""
        return [*self.keep, self.name, *self._values(columns)]

    def apply(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of a wide frame: all of a row's before those of the next."""
        values = self._values(frame.columns)
        order = "\0row"
        # Each expression on a wide frame takes as long as it has columns: so none per column.
        series = {column.name: column for column in frame.with_row_index(order).get_columns()}
        empty = pl.Series(values=[None] * frame.height)
        parts = [
            pl.DataFrame(
                [
                    *(series[kept] for kept in (order, *self.keep)),
                    pl.repeat(name, frame.height, eager=True).alias(self.name),
                    *(series.get(members.get(value, ""), empty).alias(value) for value in values),
                ]
            )
            for name, members in self._turned(frame.columns).items()
        ]
        if not parts:
            return pl.DataFrame(schema=dict.fromkeys(self.columns_of(frame.columns), pl.String))
        found = pl.concat(parts, how="vertical_relaxed")
        found = found.filter(~pl.all_horizontal(pl.col(values).is_null()))
        return found.sort(order, maintain_order=True).drop(order)

    def _turned(self, columns: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return the columns that become rows: by name, then by the column that gets the value."""
        found: dict[str, dict[str, str]] = {}
        for column in columns:
            if column in self.keep:
                continue
            if not self.pattern:
                found[column] = {self.value: column}
            elif (match := re.search(self.pattern, column)) is not None:
                found.setdefault(match[1], {})[match[2]] = column
        return found

    def _values(self, columns: Sequence[str]) -> list[str]:
        turned = self._turned(columns).values()
        return list(dict.fromkeys(value for members in turned for value in members))


@dataclass(frozen=True, slots=True)
class Pivot:
    """A long table, a row per metric: `name` has the metric of a row and `value` its value.

    The map names a metric as if it were a column.
    """

    name: str = key("name", kinds.text("the column with the metric of a row"))
    value: str = key("value", kinds.text("the column with its value"))

    def checked(self, place: Place) -> Pivot:
        """Refuse (MistakesError) one column in the place of two."""
        if self.name == self.value:
            place.refuse(f"expected two columns, got {self.name} twice")
        return self

    def metrics(self, values: Collection[str], columns: Collection[str]) -> list[str]:
        """Return those of a map's names of values that are metrics, as they are no columns."""
        return [name for name in values if name not in columns]

    def apply(self, frame: pl.DataFrame, metrics: Sequence[str]) -> pl.DataFrame:
        """Return the rows of some metrics, each with its value in the column of its metric."""
        name = pl.col(self.name).cast(pl.String)
        values = [pl.when(name == metric).then(self.value).alias(metric) for metric in metrics]
        return frame.filter(name.is_in(list(metrics))).with_columns(values)


SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|", "space": " "}
MAX_REPLICAS = 100_000
"""More pods than any cluster has: a larger number of replicas is a fault of the table."""


class Level(StrEnum):
    """The level of a row: a pod or a workload."""

    pod = "pod"
    workload = "workload"


_DURATION = kinds.duration()


@dataclass(frozen=True, slots=True)
class Lives:
    """Rules for the lives of pods from their samples; times in ms.

    ready_after None: the usage of young pods tells, else at once. gap: a longer silence ends a
    life; None: one in which other pods of the workload have rows for long.
    """

    ready_after_ms: int | None = key(
        "ready_after", _DURATION, "from a pod's creation until it is Ready", None
    )
    keep_ms: int = key("keep", _DURATION, "from the last sample until the pod is gone", 60_000)
    edge_ms: int = key(
        "edge", _DURATION, "pods seen so near the table's ends were there before, or stay", 300_000
    )
    ran_before_ms: int = key(
        "ran_before", _DURATION, "how long the pods of the beginning had run", 600_000
    )
    before_ms: int = key("before", _DURATION, "from a pod's creation to its first sample", 0)
    gap_ms: int | None = key(
        "gap",
        Scalar(
            _DURATION.wants, lambda value: 1 << 62 if value == "never" else _DURATION.parse(value)
        ),
        "", None,
    )  # fmt: skip
    grace_ms: int = key("grace", _DURATION, "how long a pod that was taken away terminates", 30_000)


@dataclass(frozen=True, slots=True)
class Scales:
    """Where recorded sizes come from: replicas, pods or most_common."""

    origin: str
    at_least: int = 0


@dataclass(frozen=True, slots=True)
class Format:
    """Format of a CSV; `separator` "" is detected in the first line."""

    separator: str = key("separator", kinds.choice(SEPARATORS), "", "")
    decimal: str = key("decimal", kinds.choice({"point": ".", "comma": ","}), "", ".")
    missing: tuple[str, ...] = key(
        "missing", ListOf(kinds.STRING, "a string or a list of strings"), "",
        ("", "NA", "N/A", "null", "NULL", "None", "-"),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class TableMap:
    """A decoded map file. Sources are keyed by meaning; amounts are requests and limits.

    `guessed`: subjects of provenance that --init guessed. `beside`: objects of the cluster; then
    `texts` may lack workload, kind and container, which the objects say. `rounding` is that of
    replicas; None: a fraction is a fault.
    """

    path: Path
    level: Level
    time: TimeSource
    texts: Mapping[str, Source]
    cpu: Source | None
    memory: Source | None
    metrics: Mapping[str, Source]
    replicas: Source | None
    ready: Source | None
    window_ms: int | None
    requests: Mapping[str, Amount]
    limits: Mapping[str, Amount]
    lives: Lives
    scales: Scales
    hpas: HpaMap
    where: str | None = None
    unpivot: Unpivot | None = None
    pivot: Pivot | None = None
    format: Format = field(default_factory=Format)
    rounding: Rounding | None = None
    assumed: tuple[str, ...] = ()
    guessed: tuple[str, ...] = ()
    beside: Beside | None = None

    @property
    def whole_pods(self) -> bool:
        """Whether the table does not tell the containers of a pod apart."""
        return "container" not in self.texts

    def used_columns(self) -> list[str]:
        """Return the names of all columns that the map needs, without the added `_time_ms`."""
        return list(dict.fromkeys([*self.row_columns(), *self.value_columns()]))

    def row_columns(self) -> list[str]:
        """Return the columns that say of which pod (or workload) and time a row is, and `where`."""
        names = _columns([self.time.source, *self.texts.values()])
        if self.where is not None:
            names += columns(self.where)
        return [name for name in dict.fromkeys(names) if name != TIME_COLUMN]

    def value_columns(self) -> list[str]:
        """Return the columns of what a row says: of a long table, also its metrics."""
        amounts = (*self.requests.values(), *self.limits.values())
        names = _columns([
            self.cpu, self.memory, *self.metrics.values(), self.replicas, self.ready,
            *(amount.source for amount in amounts),
        ])  # fmt: skip
        return [name for name in dict.fromkeys(names) if name != TIME_COLUMN]

    def read_columns(self, there: Sequence[str]) -> list[str]:
        """Return those columns of a file that are read."""
        if self.unpivot is not None:
            return self.unpivot.needed(there)
        if self.pivot is None:
            return self.used_columns()
        values = [name for name in self.value_columns() if name in there]
        return list(
            dict.fromkeys([*self.row_columns(), self.pivot.name, self.pivot.value, *values])
        )


def _columns(sources: Iterable[Source | None]) -> list[str]:
    return [name for source in sources if source is not None for name in source.columns]


TIME_COLUMN = "_time_ms"
"""Name of the decoded time (ms since 1970) in `where` and `sql`."""
