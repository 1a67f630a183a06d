"""State of a store at its end, from which a recorder resumes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final

import polars as pl
import polars.selectors as cs

from hpabatch.cluster.objects.types import PodKey
from hpabatch.history.columns import TIME
from hpabatch.history.schema import TABLES
from hpabatch.history.store.catalog import FileEntry, Snapshot
from hpabatch.history.store.rows import DataFiles
from hpabatch.history.store.shards import StoreHistory
from hpabatch.history.store.storage import Storage
from hpabatch.live.record.hpa_rows import Period, ScaleRow, Target
from hpabatch.live.record.lives import Row
from hpabatch.live.record.sample_rows import Request

LOOK_BACK_MS: Final = 7_200_000
"""Period before the last samples that is read for the last `ts` of each stream."""

SCALES_BACK_MS: Final = 7 * 86_400_000
"""Period before the end that is read for the last row of each scale."""

_SEEN_TABLES = ("pod_states", "scales", "hpa_status", "metric_fetches", "passes")
_SAMPLE_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "pod_metrics": ("uid",),
    "pod_custom_metrics": ("namespace", "metric", "selector", "uid"),
    "object_metrics": ("namespace", "kind", "name", "metric", "selector"),
    "external_metrics": ("namespace", "metric", "selector", "series"),
}
_SCALE = ("namespace", "target_kind", "target")
_SCALE_ROW = ("spec_replicas", "status_replicas", "selector", "error")
_POD_COLUMNS = (
    "namespace", "pod", "target", "uid", "labels", "owner",
    "created", "started", "deletion_requested", "node",
)  # fmt: skip


@dataclass(slots=True)
class Resumed:
    """State of a cluster at the end of a store.

    Attributes:
        last_ms: time of the last record; 0: nothing was recorded.
        pass_ms: the last pass; 0: there is none.
        pods: rows of `pods` without an end.
        usage: by uid the `ts` of the last usage sample.
        periods: specs without an end.
        owners: of the HPAs that have one.
        samples: `ts` of the last sample of other metrics, by request and by uid or series ("" for
            an object's).
        floor_ms: upper bound of the `ts` of all other streams.
        scales: the last row of each target within the last days.
    """

    last_ms: int
    pass_ms: int
    pods: Sequence[Row]
    usage: dict[str, int]
    periods: list[Period]
    owners: dict[PodKey, str]
    samples: dict[Request, dict[str, int]]
    floor_ms: int
    scales: dict[Target, ScaleRow]


def resume(storage: Storage, snapshot: Snapshot, cluster: str) -> Resumed:
    """Read the state of a cluster at the end of a store.

    Raises:
        HistoryError: the store is damaged.
    """
    files = [file for file in snapshot.files if file.cluster == cluster]
    last_ms, newest = _last(files, _SEEN_TABLES), _last(files, tuple(_SAMPLE_KEYS))
    floor_ms = min(newest, last_ms or newest) - LOOK_BACK_MS if newest else 0
    data, history = DataFiles(storage), StoreHistory(storage, snapshot)
    samples: dict[Request, dict[str, int]] = {}
    for table, keys in _SAMPLE_KEYS.items():
        for *key, ts in _newest(data, files, table, keys, (), floor_ms).iter_rows():
            *request, one = key if table != "object_metrics" else (*key, "")
            samples.setdefault((table, *request), {})[one] = ts
    scales = _newest(data, files, "scales", _SCALE, _SCALE_ROW, last_ms - SCALES_BACK_MS)
    periods = _open_rows(history, cluster, "hpas", [f.name for f in fields(Period)], "valid_to")
    return Resumed(
        last_ms=last_ms,
        pass_ms=_last(files, ("passes",)),
        pods=_open_rows(history, cluster, "pods", _POD_COLUMNS, "gone"),
        usage=samples.pop(("pod_metrics",), {}),
        periods=[_period(row) for row in periods],
        owners=_owners(history, cluster),
        samples=samples,
        floor_ms=floor_ms,
        scales={
            (row["namespace"], row["target_kind"], row["target"]): (
                row["spec_replicas"],
                row["status_replicas"],
                row["selector"] or "",
                row["error"],
            )
            for row in scales.iter_rows(named=True)
        },
    )


def _last(files: Sequence[FileEntry], tables: Sequence[str]) -> int:
    return max((f.last for f in files if f.table in tables and f.last is not None), default=0)


def _newest(
    data: DataFiles, files: Sequence[FileEntry], table: str, keys: Sequence[str],
    values: Sequence[str], floor_ms: int,
) -> pl.DataFrame:  # fmt: skip
    """Return keys, values and `ts` (ms) of each key's newest row from floor_ms on."""
    spec, floor = TABLES[table], pl.lit(floor_ms, dtype=pl.Int64).cast(TIME)
    columns = [*keys, *values, "ts"]
    found = pl.DataFrame(schema={name: spec.column(name).dtype for name in columns})
    for file in files:
        if file.table != table or file.last is None or file.last < floor_ms:
            continue
        rows = data.read(spec, [(file, [(0, file.rows)])], columns)[0]
        recent = [part.select(columns).filter(pl.col("ts") >= floor) for part in rows.parts]
        found = pl.concat([found, *recent]).sort("ts", maintain_order=True)
        found = found.unique(keys, keep="last", maintain_order=True)
    return found.with_columns(pl.col("ts").to_physical())


def _open_rows(
    history: StoreHistory, cluster: str, table: str, columns: Sequence[str], end: str
) -> Sequence[Row]:
    """Return the rows of a cluster that have no end yet."""
    if table not in history.files:
        return []
    names = ["cluster", *columns, end]
    rows = history.read(table, names, optional=True)
    rows = rows.filter((pl.col("cluster") == cluster) & pl.col(end).is_null()).select(columns)
    return rows.with_columns(cs.temporal().to_physical()).to_dicts()


def _period(row: Row) -> Period:
    texts = {name: row[name] or "{}" for name in ("labels", "annotations")}
    return Period(**{**row, **texts})


def _owners(history: StoreHistory, cluster: str) -> dict[PodKey, str]:
    if "hpa_context" not in history.files:
        return {}
    rows = history.read("hpa_context", ["cluster", "namespace", "name", "ts", "owner"])
    rows = rows.filter(pl.col("cluster") == cluster).sort("ts", maintain_order=True)
    last = {(space, name): owner for _, space, name, _, owner in rows.iter_rows()}
    return {key: owner for key, owner in last.items() if owner}
