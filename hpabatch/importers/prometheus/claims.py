"""Claims of an import from Prometheus on the time of a cluster: nothing is replaced silently.

Windows of one source continue one another, and each is claimed before the first of them is read.
What other imports have of the same workloads and time is refused, or taken away in the commit by
which the first new window is begun.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import polars as pl

from hpabatch.history.store.replace import SAMPLES, rows_in_the_way
from hpabatch.history.store.shards import StoreHistory
from hpabatch.importers.common.claims import Look, claim, windows_at_work
from hpabatch.importers.common.sink import Sink
from hpabatch.importers.prometheus.request import PrometheusRequest
from hpabatch.importers.prometheus.windows import Window


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
    begun = {part.rpartition("/")[0] for part in parts}
    fresh = [window for window in work if window.name(source, cluster) not in begun]
    if not fresh:
        return

    def looking(span: tuple[int, int]) -> Look:
        def look(history: StoreHistory) -> tuple[pl.DataFrame, pl.DataFrame]:
            spans = _stored(history, cluster, request.namespaces, span)
            others = windows_at_work(history.snapshot.parts, cluster, span, source)
            return spans, pl.concat([rows_in_the_way(history, spans), others])

        return look

    # The first claim is on all of the time: a pod of several days is taken away at once.
    last_ms = fresh[-1].span.until_ms
    for number, window in enumerate(fresh):
        until_ms = window.span.until_ms if number else last_ms
        look = looking((window.span.after_ms + 1, until_ms))
        name = window.name(source, cluster)
        claim(sink, name, look, request.replace, every_table=True)


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
