"""Claims of an import from Prometheus on the time of a cluster: nothing is replaced silently.

Windows of one source continue one another. What other imports have of the same workloads and time
is refused, or taken away in the commit by which the first new window is begun.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import polars as pl

from hpabatch.history.store.catalog import FileEntry, Snapshot, quote
from hpabatch.history.store.replace import (
    SAMPLES,
    refuse_rows_in_the_way,
    refuse_uncut_lives,
    rows_in_the_way,
    without_rows,
)
from hpabatch.history.store.shards import StoreHistory
from hpabatch.importers.prometheus.request import PrometheusRequest
from hpabatch.importers.prometheus.windows import DONE, PREFIX, Window
from hpabatch.importers.table.claims import mark_replaced
from hpabatch.importers.table.groups import Sink

BEGIN = "begin"
"""The part by which a window is claimed."""


def claim_windows(
    sink: Sink, request: PrometheusRequest, cluster: str, work: Sequence[Window]
) -> None:
    """Claim the windows of a cluster that are still to be imported, in order.

    Raises:
        RefusedError: another import has rows of the same workloads and time, or is at work on
            that time; or they cannot be taken away alone.
        UsageError: the store cannot be written.
    """
    store, source = sink.store, request.source()
    if store is None:
        return
    parts = store.refresh().parts
    fresh = [w for w in work if not _has_begun(parts, w.part(source, cluster, ""))]
    if not fresh:
        return
    time_ms = fresh[0].span.after_ms + 1, fresh[-1].span.until_ms
    name = fresh[0].part(source, cluster, BEGIN)

    def found(snapshot: Snapshot) -> tuple[StoreHistory, pl.DataFrame, pl.DataFrame]:
        history = StoreHistory(store.storage, snapshot)
        spans = _stored(history, cluster, request.namespaces, time_ms)
        there = rows_in_the_way(history, spans)
        if not request.replace:
            others = _at_work(snapshot.parts, source, cluster, time_ms, there)
            refuse_rows_in_the_way(history, pl.concat([there, others]))
        return history, spans, there

    history, spans, there = found(store.snapshot)
    if there.height:
        refuse_uncut_lives(history, spans)
        mark_replaced(store, there, name)

    def amend(snapshot: Snapshot) -> tuple[Sequence[FileEntry], Sequence[str]]:
        _, spans, there = found(snapshot)
        if there.is_empty():
            return (), ()
        with store.storage.workspace() as folder:
            gone = without_rows(
                store.storage, snapshot, spans, folder, store.limits, every_table=True
            )
        return gone.add, gone.remove

    with sink.part(name, amend):
        pass


def _has_begun(parts: Collection[str], prefix: str) -> bool:
    return any(part.startswith(prefix) for part in parts)


def _stored(
    history: StoreHistory, cluster: str, namespaces: Collection[str], time_ms: tuple[int, int]
) -> pl.DataFrame:
    """Return a cluster's workloads in the store, with the time of the import as their span."""
    sizes = pl.concat([history.sizes(table) for table in SAMPLES])
    own = sizes.filter(pl.col("cluster") == cluster, pl.col("place").is_not_null())
    if namespaces:
        own = own.filter(pl.col("namespace").is_in(sorted(namespaces)))
    names = own.select("cluster", "namespace", pl.col("place").alias("target")).unique()
    first, last = (pl.lit(ms, pl.Int64()) for ms in time_ms)
    return names.with_columns(first=first, last=last).sort("namespace", "target")


def _at_work(
    parts: Collection[str],
    source: str,
    cluster: str,
    time_ms: tuple[int, int],
    like: pl.DataFrame,
) -> pl.DataFrame:
    """Return, as `rows_in_the_way` does, imports of other options that are not done with it."""
    rows: list[tuple[object, ...]] = []
    for part in sorted(parts):
        prefix, _, last = part.rpartition("/")
        names = prefix.split("/")
        if last != BEGIN or len(names) != 4 or f"{prefix}/{DONE}" in parts:
            continue
        after, until = (int(text) for text in names[3].split("-"))
        same = names[0] == PREFIX and names[1] != source and names[2] == quote(cluster)
        if same and after < time_ms[1] and until >= time_ms[0]:
            rows.append((cluster, "all", "workloads", 0, after, until, []))
    return pl.DataFrame(rows, schema=like.schema, orient="row")
