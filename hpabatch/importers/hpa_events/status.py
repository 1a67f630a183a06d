"""Store of observed statuses of HPAs; many go to disk."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any, Final

import polars as pl

from hpabatch.cluster.objects.rows import compact_json
from hpabatch.history.store.storage import temporary_root
from hpabatch.importers.common.work import disk_errors
from hpabatch.importers.hpa_events.seen import instant_ms
from hpabatch.model.objects.encode_status import encode_status
from hpabatch.model.objects.hpa import HPAStatus

CHUNK_ROWS: Final = 1 << 16
"""So many rows are held as Python objects, some 100 MB, before they go to disk."""

STATUS: Final = pl.Schema(
    {
        "namespace": pl.String(),
        "name": pl.String(),
        "uid": pl.String(),
        "ts": pl.Int64(),
        "current_replicas": pl.Int64(),
        "desired_replicas": pl.Int64(),
        "current_metrics": pl.String(),
        "conditions": pl.String(),
        "last_scale_time": pl.Int64(),
        "observed_generation": pl.Int64(),
    }
)
"""Columns of `hpa_status` without its cluster, times in ms."""

_VERSION = "version"
_WRITTEN = "written"
_STORED = pl.Schema({**STATUS, _VERSION: pl.Int64(), _WRITTEN: pl.Boolean()})

Shown = tuple[int, int, str | None, str, int | None, int | None]
"""The columns of `STATUS` from current_replicas on."""


def shown(status: HPAStatus) -> Shown:
    """Return the columns of a status."""
    fields = encode_status(status)
    metrics = fields["currentMetrics"]
    return (
        max(status.current_replicas, 0),
        max(status.desired_replicas, 0),
        None if metrics is None else compact_json(metrics),
        compact_json(fields.get("conditions", [])),
        instant_ms(status.last_scale_time),
        status.observed_generation,
    )


class StatusStore:
    """Rows of `hpa_status`, in any order; the files of many rows go with the object."""

    def __init__(self, chunk_rows: int = CHUNK_ROWS) -> None:
        """Begin without rows."""
        self._chunk_rows = chunk_rows
        self._rows: list[tuple[Any, ...]] = []
        self._files: list[Path] = []
        self._folder: Path | None = None
        self._last: dict[tuple[str, str, str], tuple[int, bool]] = {}

    def add(
        self,
        key: tuple[str, str, str],
        at_ms: int,
        version: int,
        status: Shown,
        written: bool = False,
    ) -> None:
        """Add what was seen of (namespace, name, uid), unless it was seen the last time, too.

        Args:
            key: of the HPA.
            at_ms: when.
            version: the object's resourceVersion, 0: not known.
            status: what was seen.
            written: it was written just then, by a request that was logged.

        Raises:
            UsageError: there is no room for the files.
        """
        last = self._last.get(key)
        if last is not None and last[0] == hash(status) and (last[1] or not written):
            return
        self._last[key] = (hash(status), written)
        self._rows.append((*key, at_ms, *status, version, written))
        if len(self._rows) >= self._chunk_rows:
            self._close()

    def rows(self, after_ms: int | None = None, until_ms: int | None = None) -> pl.DataFrame:
        """Return the rows of after_ms < ts <= until_ms, sorted; None: without that bound.

        Of several rows of a version the one counts that was written, of an HPA's rows with the same
        ts the newest version.

        Raises:
            UsageError: the files cannot be read.
        """
        inside = pl.lit(value=True)
        if after_ms is not None:
            inside &= pl.col("ts") > after_ms
        if until_ms is not None:
            inside &= pl.col("ts") <= until_ms
        parts = [self._frame().filter(inside)]
        for file in self._files:
            with disk_errors(file.parent):
                parts.append(pl.scan_parquet(file, glob=False).filter(inside).collect())
        key = ["namespace", "name", "uid", "ts"]
        found = pl.concat(parts).sort([*key[:3], _VERSION, _WRITTEN, "ts"], maintain_order=True)
        told = pl.col(_VERSION) > 0
        once = found.filter(told).unique([*key[:3], _VERSION], keep="last", maintain_order=True)
        rows = pl.concat([found.filter(~told), once]).sort([*key, _VERSION], maintain_order=True)
        return rows.unique(key, keep="last", maintain_order=True).select(STATUS.names())

    def _frame(self) -> pl.DataFrame:
        return pl.DataFrame(self._rows, schema=_STORED, orient="row")

    def _close(self) -> None:
        root = temporary_root()
        with disk_errors(Path(root)):
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="hpabatch-", dir=root))
                weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
            file = self._folder / f"{len(self._files)}.parquet"
            self._frame().sort("ts").write_parquet(file)
        self._files.append(file)
        self._rows = []
