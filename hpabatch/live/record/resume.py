"""State of a store at its end, from which a recorder resumes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from hpabatch.cluster.objects.types import PodKey
from hpabatch.history.columns import TIME
from hpabatch.history.schema import TABLES
from hpabatch.history.store.catalog import FileEntry, Snapshot
from hpabatch.history.store.rows import DataFiles
from hpabatch.history.store.shards import StoreHistory
from hpabatch.history.store.storage import Storage
from hpabatch.live.record.hpa_rows import Period, ScaleRow, Target
from hpabatch.live.record.lives import StoredLife

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
_POD_COLUMNS = (
    "namespace", "pod", "target", "uid", "labels", "owner",
    "created", "started", "deletion_requested", "gone", "node",
)  # fmt: skip


@dataclass(slots=True)
class Resumed:
    """State of a cluster at the end of a store.

    Attributes:
        last_ms: time of the last record; 0: nothing was recorded.
        pass_ms: the last pass; 0: there is none.
        lives, periods: pods and specs without an end.
        owners: of the HPAs that have one.
        pods: `ts` of the last sample by (namespace, metric, selector) and uid.
        series: the same by table and key, and by series ("" for an object's).
        floor_ms: upper bound of the `ts` of all other streams.
        scales: the last row of each target within the last days.
    """

    last_ms: int = 0
    pass_ms: int = 0
    lives: list[StoredLife] = field(default_factory=list)
    periods: list[Period] = field(default_factory=list)
    owners: dict[PodKey, str] = field(default_factory=dict)
    pods: dict[tuple[str, str, str], dict[str, int]] = field(default_factory=dict)
    series: dict[tuple[str, ...], dict[str, int]] = field(default_factory=dict)
    floor_ms: int = 0
    scales: dict[Target, ScaleRow] = field(default_factory=dict)


def resume(storage: Storage, snapshot: Snapshot, cluster: str) -> Resumed:
    """Read the state of a cluster at the end of a store.

    Raises:
        HistoryError: the store is damaged.
    """
    files = [file for file in snapshot.files if file.cluster == cluster]
    found = Resumed()
    found.last_ms = _last(files, _SEEN_TABLES)
    found.pass_ms = _last(files, ("passes",))
    newest = _last(files, tuple(_SAMPLE_KEYS))
    found.floor_ms = min(newest, found.last_ms or newest) - LOOK_BACK_MS if newest else 0
    history = StoreHistory(storage, snapshot)
    usage: dict[str, int] = {}
    for table, keys in _SAMPLE_KEYS.items():
        chosen = [file for file in files if file.table == table]
        for row in _last_samples(DataFiles(storage), chosen, keys, found.floor_ms):
            *key, ts = row
            if table == "pod_metrics":
                usage[key[0]] = max(usage.get(key[0], 0), ts)
                continue
            *whose, one = key if table != "object_metrics" else (*key, "")
            into: dict[Any, dict[str, int]] = found.pods
            place: tuple[str, ...] = tuple(whose)
            if table != "pod_custom_metrics":
                into, place = found.series, (table, *whose)
            known = into.setdefault(place, {})
            known[one] = max(known.get(one, 0), ts)
    scales = [file for file in files if file.table == "scales"]
    found.scales = _last_scales(DataFiles(storage), scales, found.last_ms - SCALES_BACK_MS)
    found.lives = list(_lives(history, cluster, usage))
    found.periods = list(_periods(history, cluster))
    found.owners = _owners(history, cluster)
    return found


def _last(files: Sequence[FileEntry], tables: Sequence[str]) -> int:
    return max((f.last for f in files if f.table in tables and f.last is not None), default=0)


def _last_samples(
    data: DataFiles, files: Sequence[FileEntry], keys: Sequence[str], floor_ms: int
) -> Iterator[tuple[Any, ...]]:
    """Yield keys and the newest `ts` from floor_ms on, file by file."""
    floor = pl.lit(floor_ms, dtype=pl.Int64).cast(TIME)
    for file in files:
        if file.last is None or file.last < floor_ms:
            continue
        rows = data.read(TABLES[file.table], [(file, [(0, file.rows)])], [*keys, "ts"])[0]
        for part in rows.parts:
            recent = part.filter(pl.col("ts") >= floor)
            newest = recent.group_by(keys).agg(pl.col("ts").max().to_physical())
            yield from newest.select(*keys, "ts").iter_rows()


def _last_scales(
    data: DataFiles, files: Sequence[FileEntry], floor_ms: int
) -> dict[Target, ScaleRow]:
    place = ["namespace", "target_kind", "target"]
    row = ["spec_replicas", "status_replicas", "selector", "error"]
    found: dict[Target, tuple[int, ScaleRow]] = {}
    for file in files:
        if file.last is None or file.last < floor_ms:
            continue
        for part in data.read(TABLES["scales"], [(file, [(0, file.rows)])], [*place, *row, "ts"])[
            0
        ].parts:
            newest = part.sort("ts", maintain_order=True).unique(place, keep="last")
            newest = newest.with_columns(
                pl.col("ts").to_physical(), pl.col("selector").fill_null("")
            )
            for namespace, kind, name, *rest in newest.select(*place, *row, "ts").iter_rows():
                known = found.get((namespace, kind, name))
                if known is None or known[0] <= rest[-1]:
                    found[namespace, kind, name] = (rest[-1], (rest[0], rest[1], rest[2], rest[3]))
    return {target: known[1] for target, known in found.items()}


def _lives(history: StoreHistory, cluster: str, usage: dict[str, int]) -> Iterator[StoredLife]:
    if "pods" not in history.files:
        return
    pods = history.read("pods", ["cluster", *_POD_COLUMNS], optional=True)
    pods = pods.filter((pl.col("cluster") == cluster) & pl.col("gone").is_null())
    times = pl.col("created", "started", "deletion_requested").to_physical()
    for row in pods.with_columns(times).iter_rows(named=True):
        yield StoredLife(
            uid=row["uid"],
            namespace=row["namespace"],
            name=row["pod"],
            target=row["target"],
            labels=row["labels"],
            owner=row["owner"],
            created_ms=row["created"],
            started_ms=row["started"],
            deletion_ms=row["deletion_requested"],
            node=row["node"],
            usage_ms=usage.get(row["uid"]),
        )


def _periods(history: StoreHistory, cluster: str) -> Iterator[Period]:
    if "hpas" not in history.files:
        return
    hpas = history.read("hpas", optional=True)
    hpas = hpas.filter((pl.col("cluster") == cluster) & pl.col("valid_to").is_null())
    for row in hpas.with_columns(pl.col("valid_from", "created").to_physical()).iter_rows(
        named=True
    ):
        yield Period(
            namespace=row["namespace"],
            name=row["name"],
            uid=row["uid"],
            from_ms=row["valid_from"],
            spec=row["spec"],
            labels=row["labels"] or "{}",
            annotations=row["annotations"] or "{}",
            created_ms=row["created"],
            generation=row["generation"],
        )


def _owners(history: StoreHistory, cluster: str) -> dict[PodKey, str]:
    if "hpa_context" not in history.files:
        return {}
    rows = history.read("hpa_context", ["cluster", "namespace", "name", "ts", "owner"])
    rows = rows.filter(pl.col("cluster") == cluster).sort("ts", maintain_order=True)
    last = {(space, name): owner for _, space, name, _, owner in rows.iter_rows()}
    return {key: owner for key, owner in last.items() if owner}
