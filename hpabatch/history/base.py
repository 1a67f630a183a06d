"""The interface of a history in either layout: checked, sorted rows without duplicate keys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from datetime import date
from functools import cached_property
from pathlib import Path

import msgspec
import polars as pl

from hpabatch._json import decode_json
from hpabatch.errors import HistoryError
from hpabatch.history import schema
from hpabatch.history.checks import check_validity
from hpabatch.history.columns import TEXT, TIME, Table
from hpabatch.history.schema import SIMULATED, TABLES, table_named

USAGE = "pod_metrics"
CUSTOM, OBJECT, EXTERNAL = "pod_custom_metrics", "object_metrics", "external_metrics"

Wanted = tuple[str, str | None]
"""Namespace and place of requested rows; a null place is None."""

Days = tuple[date, date]
"""First and last UTC day of requested rows."""

SIZES = pl.Schema(
    {"cluster": TEXT, "namespace": TEXT, "place": TEXT, "day": pl.Date(), "rows": pl.Int64()}
)
SPANS = pl.Schema(
    {
        "cluster": TEXT,
        "fetched_first": TIME,
        "fetched_last": TIME,
        "unfetched_first": TIME,
        "unfetched_last": TIME,
    }
)


class History(ABC):
    """An open history. Rows are read by `read` and `select`.

    A history does not change while it is open: rows appended meanwhile are not seen.

    Attributes:
        path: the folder (of an object store: the URL as a path, for display only).
        files: for every table present its Parquet files, in name order.
        warnings: about odd but readable contents; reading adds to them.
    """

    def __init__(self, path: Path, files: dict[str, tuple[Path, ...]], warnings: list[str]) -> None:
        """Use `open_history`."""
        self.path = path
        self.files = files
        self.warnings = warnings
        self._warned = set(warnings)
        self._counted: dict[str, pl.DataFrame] = {}

    @property
    def location(self) -> str:
        """The folder or URL as it was given."""
        return str(self.path)

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables present, in the registry's order."""
        return tuple(self.files)

    def require(self, command: str) -> None:
        """Check that the tables that a command needs are present.

        Raises:
            HistoryError: names every absent table with its contents.
        """
        missing = [t for t in TABLES.values() if command in t.needed_by and self.lacks(t)]
        if missing:
            raise HistoryError(self._missing(missing, command))

    def lacks(self, table: Table) -> bool:
        """Return whether a table is absent that some command needs."""
        return table.required and table.name not in self.files and not self._may_lack(table)

    def _may_lack(self, table: Table) -> bool:
        """Return whether a needed table may be absent or empty: usage that no HPA reads."""
        return table.name == USAGE and self._is_without_usage

    @cached_property
    def _is_without_usage(self) -> bool:
        try:
            if not any(
                (name in self.files and not self._sizes(table_named(name)).is_empty())
                for name in (CUSTOM, OBJECT, EXTERNAL)
            ):
                return False
            specs = self.read("hpas", ["spec"], optional=True)["spec"]
        except HistoryError:  # (told where that table is read)
            return False
        if specs.is_empty() or any(map(_reads_usage, specs)):
            return False
        self._warn(f"{USAGE}: no usage was recorded, and no HPA of the history reads any")
        return True

    def read(
        self, table: str, columns: Sequence[str] | None = None, *, optional: bool = False
    ) -> pl.DataFrame:
        """Return a table with exactly the registered columns and types, sorted by its key.

        Columns that the files lack and that may be absent are null (or their fill value). Rows
        with the same key are reduced to the last one, in a flat history with a warning.

        Args:
            table: a registered table.
            columns: only these, in the registry's order; None: all.
            optional: an absent or empty table is an empty frame even if a command needs it.

        Raises:
            HistoryError: the table is absent though needed, is broken, has no rows, or does not
                have the registered columns, types and values.
        """
        spec = table_named(table)
        wanted = wanted_columns(spec, columns)
        if table not in self.files:
            if self.lacks(spec) and not optional:
                raise HistoryError(self._missing([spec], spec.needed_by[0]))
            return schema.empty_frame(table).select(wanted)
        frame = self._table(spec, spec.names if spec.name == "hpas" else wanted)
        if spec.name == "hpas":
            check_validity(frame, self._place(spec))
        empty = frame.is_empty() and self._sizes(spec).is_empty()
        is_needed = spec.required and not optional and empty
        # (a simulated run may never have had a pod or a sample)
        if (
            is_needed
            and not self._may_lack(spec)
            and SIMULATED not in self.read("provenance", ["method"])["method"]
        ):
            raise HistoryError(
                f"{self._place(spec)} has no rows; {' and '.join(spec.needed_by)} needs {spec.doc} "
                "per row: record or export it again"
            )
        return frame.select(wanted)

    def select(
        self,
        table: str,
        cluster: str,
        places: Collection[Wanted],
        *,
        day: date | None = None,
        last: date | None = None,
        columns: Sequence[str] | None = None,
    ) -> pl.DataFrame:
        """Return the rows of some places, sorted by the table's key; an absent table has none.

        Args:
            table: a registered table.
            cluster: whose rows.
            places: pairs of namespace and place (the table's third key column, `Table.place`);
                ignored for a table without namespaces.
            day: only rows of this UTC day (by `Table.day`); ignored for a table without.
            last: only rows of the days from `day` to this one.
            columns: only these, in the registry's order; None: all.

        Raises:
            HistoryError: the table is broken, or does not have the registered columns, types and
                values.
        """
        spec = table_named(table)
        wanted = wanted_columns(spec, columns)
        if table not in self.files or (spec.place and not places):
            return schema.empty_frame(table).select(wanted)
        chosen = set(places) if spec.place else None
        days = (day, last or day) if spec.day and day else None
        return self._select(spec, cluster, chosen, days, wanted)

    def partition_rows(self, table: str, cluster: str, day: date | None) -> pl.DataFrame:
        """Return all columns of a cluster's rows, of one UTC day where the table has days.

        Raises:
            HistoryError: see `select`.
        """
        spec = table_named(table)
        if table not in self.files:
            return schema.empty_frame(table)
        days = (day, day) if spec.day and day else None
        return self._select(spec, cluster, None, days, spec.names)

    def distinct(self, table: str, columns: Sequence[str]) -> pl.DataFrame:
        """Return the unique rows of a few columns, sorted by them in the registry's order.

        Memory is bounded by the largest cluster and day, not by the table.

        Raises:
            HistoryError: see `select`.
        """
        spec = table_named(table)
        wanted = wanted_columns(spec, columns)
        found = schema.empty_frame(table).select(wanted)
        if table in self.files:
            for part in self._distinct(spec, wanted):
                found = pl.concat([found, part]).unique()
        return found.sort(wanted)

    def sizes(self, table: str) -> pl.DataFrame:
        """Return the number of rows of each place: cluster, namespace, place, day, rows.

        Namespace and place are null for a table without namespaces, `day` for one that is not
        split by day. Rows are an upper bound where later parts replaced rows of earlier ones.
        Sorted, nulls first.

        Raises:
            HistoryError: see `select`.
        """
        spec = table_named(table)
        if table not in self.files:
            return pl.DataFrame(schema=SIZES)
        if table not in self._counted:
            sizes = self._sizes(spec).sort("cluster", "namespace", "place", "day")
            self._counted[table] = sizes  # every shard asks
        return self._counted[table]

    def span(self, table: str) -> pl.DataFrame:
        """Return the time span in which the rows of each cluster were seen.

        Columns: cluster; fetched_first and fetched_last: lowest and highest fetched_at;
        unfetched_first and unfetched_last: lowest and highest time (`Table.day`) of the rows
        without fetched_at. Null where there is no such row, and all null for a table without
        times. Rows that later parts replaced may widen them.

        Raises:
            HistoryError: see `select`.
        """
        spec = table_named(table)
        if table not in self.files:
            return pl.DataFrame(schema=SPANS)
        return self._span(spec).select(SPANS.names()).cast(SPANS).sort("cluster")

    @abstractmethod
    def digests(self) -> dict[str, str]:
        """Return a sha256 of every table's files, in the registry's order.

        Raises:
            HistoryError: a file cannot be read.
        """

    @abstractmethod
    def _table(self, spec: Table, wanted: Sequence[str]) -> pl.DataFrame:
        """Return a table that is present; all wanted columns at least."""

    @abstractmethod
    def _select(
        self,
        spec: Table,
        cluster: str,
        places: set[Wanted] | None,
        days: Days | None,
        wanted: Sequence[str],
    ) -> pl.DataFrame:
        """Return the wanted columns of some places and days; None: of all of the cluster."""

    @abstractmethod
    def _distinct(self, spec: Table, wanted: Sequence[str]) -> Iterable[pl.DataFrame]:
        """Return or generate frames that together have the unique rows."""

    @abstractmethod
    def _sizes(self, spec: Table) -> pl.DataFrame:
        """Return `SIZES` unsorted."""

    @abstractmethod
    def _span(self, spec: Table) -> pl.DataFrame:
        """Return `SPANS` with any integer or time types, unsorted."""

    @abstractmethod
    def _place(self, spec: Table) -> str:
        """Return the name of a present table for messages."""

    def _missing(self, tables: Sequence[Table], command: str) -> str:
        names = ", ".join(f"{t.name} ({t.doc})" for t in tables)
        noun = "table" if len(tables) == 1 else "tables"
        verb = "is" if len(tables) == 1 else "are"
        return (
            f"{self.location}: the {noun} {names} {verb} missing and {command} needs "
            f"{'it' if len(tables) == 1 else 'them'}: {self._how_to_add(tables)}"
        )

    @abstractmethod
    def _how_to_add(self, tables: Sequence[Table]) -> str:
        """Return the fix for absent tables."""

    def forget_warnings(self, known: int) -> None:
        """Keep the first `known` warnings only: reading tells the others again."""
        del self.warnings[known:]
        self._counted.clear()
        self.__dict__.pop("_is_without_usage", None)
        self._warned = set(self.warnings)

    def _warn(self, text: str) -> None:
        if text not in self._warned:  # (the list may have one for each of 10^5 files)
            self._warned.add(text)
            self.warnings.append(text)


class _Metric(msgspec.Struct):
    type: str


class _Spec(msgspec.Struct):
    metrics: list[_Metric] | None = None


def _reads_usage(text: str) -> bool:
    """Return whether a spec has a metric of usage, as one without metrics has by default."""
    try:
        metrics = decode_json(text, _Spec).metrics
        return not metrics or any(m.type in ("Resource", "ContainerResource") for m in metrics)
    except ValueError:  # (told where specs are decoded)
        return False


def wanted_columns(spec: Table, columns: Sequence[str] | None) -> list[str]:
    """Return columns in the registry's order (HistoryError: there is no such column)."""
    if columns is None:
        return list(spec.names)
    unknown = [name for name in columns if name not in spec.names]
    if unknown:
        raise HistoryError(
            f"{spec.name} has no column {', '.join(unknown)}; it has {', '.join(spec.names)}"
        )
    return [name for name in spec.names if name in columns]


__all__ = ["SIZES", "SPANS", "Days", "History", "Wanted", "wanted_columns"]
