"""A column of a result, and a table of columns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import polars as pl

STRING: Final = "string"
INTEGER: Final = "integer"
NUMBER: Final = "number"
BOOLEAN: Final = "boolean"
TIMESTAMP: Final = "timestamp"
LIST: Final = "list"
"""Types, as JSON and Parquet have them; timestamps are UTC in milliseconds."""

_TYPES: Final = {
    STRING: pl.String(),
    INTEGER: pl.Int64(),
    NUMBER: pl.Float64(),
    BOOLEAN: pl.Boolean(),
    TIMESTAMP: pl.Datetime("ms", "UTC"),
}

# Units by the end of a name; no end may be the end of another.
_UNITS: Final = {
    "_share": "share, 0 to 1",
    "_pct": "percent",
    "_ms": "milliseconds",
    "_s": "seconds",
    "_minutes": "minutes",
    "_hours": "hours",
    "_milli": "thousandths",
    "_bytes": "bytes",
}


class Column(NamedTuple):
    """A column of a result.

    Attributes:
        name: in frames and JSON.
        type: one of the types of this module.
        meaning: one sentence.
        unit: of numbers; "": none, or the sentence says it.
    """

    name: str
    type: str
    meaning: str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """The columns of a result, in order.

    Attributes:
        title: what a row is.
        source: the command, option or key that gives it.
        columns: in the order of the frame.
    """

    title: str
    source: str
    columns: tuple[Column, ...]

    def __getitem__(self, name: str) -> Column:
        """Return a column by its name."""
        return next(column for column in self.columns if column.name == name)

    def __iter__(self) -> Iterator[Column]:
        """Return the columns in order."""
        return iter(self.columns)

    def some(self, *names: str, prefix: str = "", told: str = "") -> tuple[Column, ...]:
        """Return some columns for another table: what their names and sentences begin with."""
        found = (self[name] for name in names)
        return tuple(
            c._replace(name=f"{prefix}{c.name}", meaning=f"{told}{c.meaning}") for c in found
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names in order."""
        return tuple(column.name for column in self.columns)

    @property
    def meanings(self) -> dict[str, str]:
        """The sentences by name, in order."""
        return {column.name: column.meaning for column in self.columns}

    @property
    def schema(self) -> pl.Schema:
        """The schema of a frame with these columns; lists have types of their own."""
        return pl.Schema({column.name: _TYPES[column.type] for column in self.columns})


def unit_of(name: str) -> str:
    """Return the unit that the end of a name says, or ""."""
    return next((unit for end, unit in _UNITS.items() if name.endswith(end)), "")


def table(title: str, source: str, *columns: Column | str) -> Table:
    """Return a table from columns, and from text with a line `name type: meaning` for each.

    Lines that are indented deeper go on with the line before.
    """
    found: list[Column] = []
    for column in columns:
        found += [column] if isinstance(column, Column) else _parsed(column)
    return Table(title, source, tuple(found))


def _parsed(text: str) -> list[Column]:
    lines = re.sub(r"\n {5,}", " ", text).split("\n")
    found = []
    for line in filter(None, map(str.strip, lines)):
        head, _, meaning = line.partition(": ")
        name, kind = head.split(" ")
        found.append(Column(name, kind, meaning, _unit(name, kind)))
    return found


def _unit(name: str, kind: str) -> str:
    return unit_of(name) if kind in (INTEGER, NUMBER) else ""


CLUSTER: Final = Column("cluster", STRING, "cluster")
NAMESPACE: Final = Column("namespace", STRING, "namespace")
HPA: Final = Column("hpa", STRING, "name of the HPA")
KEY: Final = (CLUSTER, NAMESPACE, HPA)
"""The columns that say which HPA a row is of."""
