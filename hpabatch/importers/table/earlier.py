"""Pods and sizes of an import joined with those that the store had of the same workloads.

A table's first and last row are no edges where the store goes on: pods begin and end there as
anywhere else. A pod that both know lived from the earlier begin to the later end; one that the
store left open, and that the later table does not know, ended when that begins; one of a table that
comes after this one began after its last row. In the time of its rows a table's sizes count, after
it those of the store.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from hpabatch.history.atomic import atomic_path
from hpabatch.history.columns import TIME
from hpabatch.history.provenance import ROWS, TABLE, TARGET_ROWS
from hpabatch.history.schema import empty_frame
from hpabatch.history.store.shards import StoreHistory
from hpabatch.importers.table.groups import Sink
from hpabatch.importers.table.lives import PLACE
from hpabatch.importers.table.spill import disk_errors

_POD = ["cluster", "namespace", "target", "uid"]
_SIZES = [*PLACE, "ts", "replicas"]


def earlier_pods(sink: Sink, name: str, workloads: pl.DataFrame, folder: Path) -> pl.DataFrame:
    """Return the pods of the workloads that the store had before an import, as it has them.

    They are kept in the work folder: a resumed import must not take its own for others. One of the
    same files that was replaced meanwhile has another name.
    """
    place = folder / f"earlier-{name.rpartition('/')[2]}.parquet"
    with disk_errors(folder):
        if place.exists():
            return pl.read_parquet(place, glob=False)
    found = [empty_frame("pods")]
    if sink.store is not None and not sink.has_part(f"{name}/00000"):
        found += _stored(sink, "pods", workloads)
    pods = pl.concat(found)
    with disk_errors(folder), atomic_path(place) as temporary:
        pods.write_parquet(temporary)
    return pods


def _stored(sink: Sink, table: str, workloads: pl.DataFrame) -> list[pl.DataFrame]:
    """Return what the store has of the workloads in a table, by cluster."""
    if sink.store is None:
        return []
    history = StoreHistory(sink.store.storage, sink.store.refresh())
    found = []
    for (cluster,), theirs in workloads.group_by(["cluster"], maintain_order=True):
        places = theirs.select("namespace", "target").rows()
        found.append(history.select(table, str(cluster), places))
    return found


def wider_spans(sink: Sink, name: str, spans: pl.DataFrame) -> pl.DataFrame:
    """Return first and last ts by cluster, of the table and of what other imports say to have."""
    told = _others(sink, name)
    if told is None:
        return spans
    known = told.join(spans, on="cluster", how="semi").select("cluster", "first", "last")
    both = pl.concat([spans.select("cluster", "first", "last"), known])
    return both.group_by("cluster").agg(pl.col("first").min(), pl.col("last").max()).sort("cluster")


def _others(sink: Sink, name: str) -> pl.DataFrame | None:
    """Return from when to when (ms) other imports say to have rows of a workload; None: nobody."""
    told = sink.stored(TABLE)
    if told is None:
        return None
    rows = (pl.col("subject") == TARGET_ROWS) & (pl.col("method") == ROWS)
    return told.filter(rows & (pl.col("detail") != name)).select(
        "cluster",
        "namespace",
        target="name",
        first=pl.col("valid_from").to_physical(),
        last=pl.col("valid_to").to_physical(),
    )


def with_next(sink: Sink, name: str, workloads: pl.DataFrame) -> pl.DataFrame:
    """Return workloads with `next`: when (ms) rows of another import follow, null where none do."""
    told = _others(sink, name)
    if told is None:
        return workloads.with_columns(next=pl.lit(None, pl.Int64))
    following = told.rename({"first": "next"}).drop("last").join(workloads, on=_POD[:3])
    following = following.filter(pl.col("next") > pl.col("last"))
    following = following.group_by(_POD[:3]).agg(pl.col("next").min())
    return workloads.join(following, on=_POD[:3], how="left", maintain_order="left")


def continued_lives(
    own: pl.DataFrame, earlier: pl.DataFrame, workloads: pl.DataFrame
) -> pl.DataFrame:
    """Return the import's pods (LIFE); those that rows after its own have, too, end as there.

    `workloads` are those of `with_next`.
    """
    theirs = earlier.select(*_POD, theirs="uid", their_gone=pl.col("gone").to_physical())
    both = own.join(theirs, on=_POD, how="left", maintain_order="left")
    both = both.join(workloads, on=_POD[:3], how="left", maintain_order="left")
    ends = pl.col("their_gone")
    goes_on = pl.col("theirs").is_not_null() & (ends.is_null() | (ends > pl.col("next")))
    found = both.with_columns(
        gone=pl.when(goes_on & pl.col("next").is_not_null()).then(ends).otherwise("gone")
    )
    return found.select(own.columns)


def joined_sizes(
    sink: Sink, sizes: pl.DataFrame, workloads: pl.DataFrame, reach_ms: int
) -> pl.DataFrame:
    """Return the sizes to write: those of the store count outside of the import's rows.

    Args:
        sink: has the store, without sizes of this import.
        sizes: of the import: PLACE, ts (ms) and replicas.
        workloads: those of `with_next`.
        reach_ms: how long before its first row a table's first size may be told.
    """
    frames = _stored(sink, "scales", workloads)
    kinds = [frame.rename({"target_kind": "kind", "spec_replicas": "held"}) for frame in frames]
    if not sum(frame.height for frame in kinds):
        return sizes
    spans = [*_POD[:3]]
    held = pl.concat(kinds).select(*PLACE, "held", ts=pl.col("ts").to_physical())
    inside = held.join(workloads, on=spans).filter(
        pl.col("ts").is_between(pl.col("first"), pl.col("last"))
    )
    own = sizes.join(workloads, on=spans, how="left", maintain_order="left")
    own = own.filter(pl.col("next").is_null() | (pl.col("ts") <= pl.col("last"))).select(_SIZES)
    instead = inside.sort("ts").join_asof(
        own.sort("ts"), on="ts", by=list(PLACE), check_sortedness=False
    )
    # The first size of the table that follows was told of a time before its rows.
    followed = inside.filter(
        pl.col("next").is_not_null() & (pl.col("ts") > pl.col("last") - reach_ms)
    )
    moved = followed.sort("ts").unique(list(PLACE), keep="last", maintain_order=True)
    moved = moved.select(*PLACE, ts=pl.col("last") + 1, replicas="held")
    moved = moved.join(held, on=[*PLACE, "ts"], how="anti")
    found = pl.concat([own, instead.select(_SIZES).drop_nulls("replicas"), moved])
    return found.unique([*PLACE, "ts"], keep="first", maintain_order=True).sort(*PLACE, "ts")


def joined_pods(earlier: pl.DataFrame, own: pl.DataFrame, workloads: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of `pods` to write again: those that both have, and those that ended.

    Args:
        earlier: pods of the store from before the import, of its workloads.
        own: the import's pods (LIFE).
        workloads: cluster, namespace, target, first and last ts of the import.
    """
    first, after = pl.col("first").cast(TIME), (pl.col("last") + 1).cast(TIME)
    known = earlier.join(workloads, on=_POD[:3])
    lives = own.select(
        *_POD, mine=pl.col("created").cast(TIME), mine_gone=pl.col("gone").cast(TIME)
    )
    both = known.join(lives, on=_POD, how="left")
    mine = pl.col("mine")
    ended = both.filter(
        mine.is_null() & pl.col("gone").is_null() & (pl.col("created") < first)
    ).with_columns(gone=first)
    goes_on = both.filter(mine.is_not_null()).with_columns(
        gone=pl.when(pl.col("created") > mine).then("gone").otherwise("mine_gone"),
        created=pl.min_horizontal("created", mine),
        started=pl.min_horizontal("started", mine),
    )
    # Of a table that begins later, and at whose edge they seemed to have run for a while.
    later = both.filter(mine.is_null() & pl.col("created").is_between(first, after)).with_columns(
        created=after, started=after
    )
    return pl.concat([ended, goes_on, later]).select(earlier.columns)
