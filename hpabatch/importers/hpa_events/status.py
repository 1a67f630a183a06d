"""Stores of observed statuses and scales of HPAs; many statuses go to disk."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import polars as pl

from hpabatch.cluster.objects.rows import compact_json
from hpabatch.history.store.storage import temporary_root
from hpabatch.importers.hpa_events.seen import ScaleSighting, instant_ms
from hpabatch.importers.table.work import disk_errors
from hpabatch.model.objects.encode_status import encode_status
from hpabatch.model.objects.hpa import HPAStatus

SCALES: Final = pl.Schema(
    {
        "namespace": pl.String(),
        "target_kind": pl.String(),
        "target": pl.String(),
        "ts": pl.Int64(),
        "spec_replicas": pl.Int64(),
        "status_replicas": pl.Int64(),
        "selector": pl.String(),
    }
)
"""Columns of `scales` without its cluster, times in ms."""

DECISIONS: Final = pl.Schema(
    {
        "namespace": pl.String(),
        "target_kind": pl.String(),
        "target": pl.String(),
        "ts": pl.Int64(),
        "replicas": pl.Int64(),
        "user": pl.String(),
    }
)
"""A size that somebody wrote to a scale; null: which is not recorded."""

_TARGET = ["namespace", "target_kind", "target"]
_SAID = ["spec_replicas", "status_replicas", "selector"]

_Said = tuple[int, int, str | None]


@dataclass(slots=True)
class ScaleStore:
    """Sightings of scales; of equal ones in a row, as the controller's reads are, one is kept."""

    _rows: list[tuple[str, str, str, int, int, int, str | None]] = field(default_factory=list)
    _last: dict[tuple[str, str, str], tuple[int, _Said]] = field(default_factory=dict)
    _decisions: set[tuple[str, str, str, int, int | None, str]] = field(default_factory=set)

    def add(self, seen: ScaleSighting) -> None:
        """Take in a sighting."""
        target = (seen.namespace, seen.kind, seen.name)
        if seen.written:
            self._decisions.add((*target, seen.at_ms, seen.spec_replicas, seen.user))
        if seen.spec_replicas is None or seen.status_replicas is None:
            return
        said = (seen.spec_replicas, seen.status_replicas, seen.selector)
        last = self._last.get(target)
        if last is None or last[1] != said or seen.at_ms < last[0]:
            self._rows.append((*target, seen.at_ms, *said))
        self._last[target] = (seen.at_ms, said)

    def rows(self) -> pl.DataFrame:
        """Return rows of `scales` (`SCALES`), sorted: where something changed."""
        frame = pl.DataFrame(self._rows, schema=SCALES, orient="row")
        frame = frame.sort([*_TARGET, "ts"], maintain_order=True)
        frame = frame.unique([*_TARGET, "ts"], keep="last", maintain_order=True)
        same = pl.all_horizontal(
            pl.col(name).eq_missing(pl.col(name).shift(1)) for name in (*_TARGET, *_SAID)
        )
        return frame.filter(~same)

    def decisions(self) -> pl.DataFrame:
        """Return the requested sizes with their users (`DECISIONS`), sorted."""
        rows = sorted(self._decisions, key=lambda row: (*row[:4], row[4] or 0, row[5]))
        return pl.DataFrame(rows, schema=DECISIONS, orient="row")


CHUNK_ROWS: Final = 1 << 16
"""So many rows are held as Python objects, some 100 MB."""

KEPT_CHUNKS: Final = 4
"""So many chunks stay in memory before they go to disk."""

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

    def __init__(self, chunk_rows: int = CHUNK_ROWS, kept_chunks: int = KEPT_CHUNKS) -> None:
        """Begin without rows."""
        self._chunk_rows, self._kept_chunks = chunk_rows, kept_chunks
        self._rows: list[tuple[Any, ...]] = []
        self._chunks: list[pl.DataFrame] = []
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

    def pass_over(self, key: tuple[str, str, str], status: Shown) -> bool:
        """Take note of a status that gets no row; return whether it was another than before."""
        last = self._last.get(key)
        self._last[key] = (hash(status), False)
        return last is None or last[0] != hash(status)

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
        parts = [chunk.filter(inside) for chunk in (*self._chunks, self._frame())]
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
        self._chunks.append(self._frame())
        self._rows = []
        if len(self._chunks) < self._kept_chunks:
            return
        root = temporary_root()
        with disk_errors(Path(root)):
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="hpabatch-", dir=root))
                weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
            file = self._folder / f"{len(self._files)}.parquet"
            pl.concat(self._chunks).sort("ts").write_parquet(file)
        self._files.append(file)
        self._chunks = []
