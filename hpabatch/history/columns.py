"""Tables and columns of a history as data; `schema` lists them all."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

TIME = pl.Datetime("ms", "UTC")
AFTER_MS = 1
"""Pods of which a table's rows tell come and go so long after the row that tells it: a tick on its
time sees size and pods of before, as the one that decided the change did."""

INT = pl.Int64()
BOOL = pl.Boolean()
TEXT = pl.String()

INT32_MAX = 2**31 - 1
# Kernels count memory in milli-bytes: a larger amount would not fit 64 bits.
MEMORY_BYTES_MAX = (2**63 - 1) // 1000
MEMORY_MILLI_MAX = MEMORY_BYTES_MAX * 1000
# 10^12 cores: more is a wrong unit, and sums over thousands of containers still fit 64 bits.
CPU_MILLI_MAX = 10**15


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Attributes:
        name: the name; its last word is the unit.
        dtype: the polars type that `History.read` returns.
        unit: "ms", "milli", "bytes", "pods", "time" or "".
        nullable: the column may hold nulls, with the meaning given in `doc`.
        optional: the column may be missing from a file; it is then all null (or all `fill`).
        fill: what a null in a file is read as; the column then never holds nulls.
        minimum, maximum: bounds of an integer column, both allowed.
        values: the only strings allowed, or () for any.
        json: "object" or "array" where the text is a JSON document of that type, else "".
        not_before: the time column of the same table that this one must not be before, or "".
    """

    name: str
    dtype: pl.DataType
    doc: str
    unit: str = ""
    nullable: bool = False
    optional: bool = False
    fill: str | None = None
    minimum: int | None = None
    maximum: int | None = None
    values: tuple[str, ...] = ()
    json: str = ""
    not_before: str = ""

    @property
    def holds_nulls(self) -> bool:
        """Whether nulls can remain after reading."""
        return (self.nullable or self.optional) and self.fill is None


@dataclass(frozen=True, slots=True)
class Table:
    """One table: its columns in order, its key and the commands that need it.

    `key` identifies a row and is at the same time the sort order (nulls first). `needed_by` names
    the commands that cannot work without the table; () is an optional table. `day` is the time
    column by whose UTC day a store splits the table, "" where rows describe long validities.
    `place` is the column that, after the namespace, groups rows: a store finds the rows of a
    (namespace, place) without reading others.
    """

    name: str
    doc: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    needed_by: tuple[str, ...] = ()
    day: str = ""

    @property
    def required(self) -> bool:
        """Whether an absent table is an error."""
        return bool(self.needed_by)

    @property
    def place(self) -> str:
        """The column after the namespace in the key, "" for a table without namespaces."""
        return self.key[2] if "namespace" in self.key else ""

    @property
    def names(self) -> tuple[str, ...]:
        """All column names, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def schema(self) -> pl.Schema:
        """Names and types of all columns, in order."""
        return pl.Schema({column.name: column.dtype for column in self.columns})

    def column(self, name: str) -> Column:
        """Return a column by name (KeyError: no such column)."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)


def text_column(name: str, doc: str, *, nullable: bool = False, optional: bool = False) -> Column:
    """Return a string column."""
    return Column(name, TEXT, doc, nullable=nullable, optional=optional)


def default_text_column(name: str, doc: str) -> Column:
    """Return a string column whose null is read as ""."""
    return Column(name, TEXT, doc, nullable=True, optional=True, fill="")


def json_column(name: str, doc: str, *, kind: str = "object", optional: bool = False) -> Column:
    """Return a column of JSON strings."""
    return Column(name, TEXT, doc, nullable=optional, optional=optional, json=kind)


def choice_column(name: str, doc: str, *values: str, nullable: bool = False) -> Column:
    """Return a string column that holds one of some values."""
    return Column(name, TEXT, doc, nullable=nullable, values=values)


def number_column(
    name: str, doc: str, unit: str = "", *, optional: bool = True, minimum: int | None = 0
) -> Column:
    """Return a column of whole numbers; `optional`: it may be missing, or null in some rows."""
    return Column(name, INT, doc, unit, nullable=optional, optional=optional, minimum=minimum)


def truth_column(name: str, doc: str) -> Column:
    """Return a Boolean column."""
    return Column(name, BOOL, doc)


def time_column(
    name: str, doc: str, *, nullable: bool = False, optional: bool = False, not_before: str = ""
) -> Column:
    """Return a time column."""
    return Column(
        name, TIME, doc, "time", nullable=nullable, optional=optional, not_before=not_before
    )


def amount_column(
    name: str, doc: str, unit: str, *, nullable: bool = True, maximum: int | None = None
) -> Column:
    """Return a column of whole numbers of at least 0."""
    return Column(name, INT, doc, unit, nullable=nullable, minimum=0, maximum=maximum)


def replicas_column(name: str, doc: str) -> Column:
    """Return a column of replica counts."""
    return Column(name, INT, doc, "pods", minimum=0, maximum=INT32_MAX)


CLUSTER = text_column("cluster", "name of the cluster")
NAMESPACE = text_column("namespace", "namespace of the object")
"""Columns of nearly every table."""
