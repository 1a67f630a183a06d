"""Imports in Python."""

from __future__ import annotations

import os
from collections.abc import Callable

from hpabatch.api.keywords import takes
from hpabatch.errors import UsageError
from hpabatch.importers.prometheus.client.login import read_login
from hpabatch.importers.prometheus.request import PrometheusRequest
from hpabatch.importers.prometheus.result import ImportResult
from hpabatch.importers.table import run as table
from hpabatch.importers.table.propose.run import propose
from hpabatch.importers.table.request import TableRequest
from hpabatch.report.imported import PrometheusImport, TableImport, TableMap


@takes(TableRequest, "inputs", method=False)
def import_table(request: TableRequest) -> TableImport | TableMap:
    """Import any tidy CSV or Parquet into a store; docs/import.md explains the map file.

    With `init`, return a proposed map instead, written to `map` if that is given.

    Raises:
        UsageError, HistoryError: something cannot be read or written.
        RefusedError: no row is left, or an HPA is not valid.
    """
    if request.init:
        found = propose(request.inputs, request.map, request.objects, request.start)
        return TableMap(found.text, found.assumed, request.map)
    return TableImport(table.import_table(request), request.out)


@takes(PrometheusRequest, "url", method=False)
def import_prometheus(request: PrometheusRequest) -> PrometheusImport:
    """Import what Prometheus recorded into a store; docs/prometheus.md explains it.

    A token or a password comes from a file or from the environment.

    Raises:
        UsageError, HistoryError: the server or a file cannot be read, or the store not written.
        RefusedError: a manifest is not valid.
    """
    login, import_windows = read_login(os.environ, request), prometheus_importer()
    return PrometheusImport(import_windows(request, login), str(request.out))


def prometheus_importer() -> Callable[..., ImportResult]:
    """Return the import of a server's windows (UsageError: its packages are not installed)."""
    try:
        from hpabatch.importers.prometheus.run import import_prometheus as importer
    except ModuleNotFoundError as error:
        raise UsageError(
            f"importing from a server needs the package {error.name}: "
            "pip install 'hpabatch[prometheus]'"
        ) from None
    return importer
