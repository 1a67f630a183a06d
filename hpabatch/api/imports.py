"""Imports in Python."""

from __future__ import annotations

import os
from dataclasses import dataclass

import polars as pl

from hpabatch.api.keywords import options_of
from hpabatch.errors import UsageError
from hpabatch.importers.prometheus import result as prometheus
from hpabatch.importers.prometheus.client.login import read_login
from hpabatch.importers.prometheus.request import PrometheusRequest
from hpabatch.importers.table import run as table
from hpabatch.importers.table.propose.run import propose
from hpabatch.importers.table.request import TableRequest
from hpabatch.model.printable import counted
from hpabatch.report.base import Result


@dataclass(frozen=True, repr=False)
class TableImport(Result):
    """An import of tables; of a dry run, what would be imported.

    Attributes:
        result: rows read, left out and written, assumptions and warnings.
        out: the store; None: a dry run.
    """

    result: table.ImportResult
    out: str | None

    @property
    def verdict(self) -> str:
        """The number of rows read, written and left out."""
        result = self.result
        written = ", ".join(f"{count:,} {name}" for name, count in result.written.items())
        where = f"{self.out}: " if self.out else "nothing is written (dry run); it would be "
        told = f"{where}{written or 'nothing new'} from {counted(result.rows_read, 'row')}"
        dropped = sum(result.dropped.values())
        return told + (f", {dropped:,} left out" if dropped else "")

    @property
    def frame(self) -> pl.DataFrame:
        """One row per workload."""
        return self.result.workloads

    @property
    def assumed(self) -> tuple[str, ...]:
        """What the map leaves open, and what was taken for it."""
        return self.result.assumed

    @property
    def warnings(self) -> tuple[str, ...]:
        """What makes the history less than one would think."""
        return self.result.warnings


@dataclass(frozen=True, repr=False)
class TableMap(Result):
    """A map that `init` proposes.

    Attributes:
        text: the map (YAML), with a comment where something is assumed.
        assumed: what it assumes.
        path: the file that it was written to; None: none was named.
    """

    text: str
    assumed: tuple[str, ...]
    path: str | None

    @property
    def verdict(self) -> str:
        """Where the map is, and how much of it is assumed."""
        return f"{self.path or 'a map'}: {counted(len(self.assumed), 'assumption')}"

    @property
    def frame(self) -> pl.DataFrame:
        """One row per assumption."""
        return pl.DataFrame({"assumed": list(self.assumed)}, schema={"assumed": pl.String})


@dataclass(frozen=True, repr=False)
class PrometheusImport(Result):
    """An import from Prometheus.

    Attributes:
        result: windows, rows, findings and warnings.
        out: the store.
    """

    result: prometheus.ImportResult
    out: str

    @property
    def verdict(self) -> str:
        """The number of windows, and of rows by table."""
        tables = ", ".join(f"{n:,} {name}" for name, n in sorted(self.result.written.items()))
        return f"{self.out}: {counted(self.result.windows, 'window')}: {tables or 'nothing new'}"

    @property
    def frame(self) -> pl.DataFrame:
        """One row per cluster and namespace."""
        return self.result.places

    @property
    def warnings(self) -> tuple[str, ...]:
        """What makes the history less than one would think."""
        return tuple(self.result.warnings())


@options_of(TableRequest, "inputs")
def import_table(request: TableRequest) -> TableImport | TableMap:
    """Import any tidy CSV or Parquet into a store; docs/import.md explains the map file.

    With `init`, return a proposed map instead, written to `map` if that is given.

    Raises:
        UsageError, HistoryError: something cannot be read or written.
        RefusedError: no row is left, rows are faulty and `strict` is set, or an HPA is not valid.
    """
    if request.init:
        found = propose(request.inputs, request.map, request.objects, request.start)
        return TableMap(found.text, found.assumed, request.map)
    return TableImport(table.import_table(request), request.out)


@options_of(PrometheusRequest, "url")
def import_prometheus(request: PrometheusRequest) -> PrometheusImport:
    """Import what Prometheus recorded into a store; docs/prometheus.md explains it.

    A token or a password comes from a file or from the environment.

    Raises:
        UsageError, HistoryError: the server or a file cannot be read, or the store not written.
        RefusedError: a manifest is not valid.
    """
    login = read_login(os.environ, request)
    try:
        from hpabatch.importers.prometheus import run
    except ModuleNotFoundError as error:
        raise UsageError(
            f"importing from a server needs the package {error.name}: "
            "pip install 'hpabatch[prometheus]'"
        ) from None
    return PrometheusImport(run.import_prometheus(request, login), str(request.out))
