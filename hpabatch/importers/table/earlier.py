"""Pods and sizes of an import joined with those that the store had of the same workloads.

A table's first and last row are no edges where the store goes on: pods begin and end there as
anywhere else. A pod that both know lived from the earlier begin to the later end; one that the
store left open, and that the later table does not know, ended when that begins; one of a table that
comes after this one began after its last row. In the time of its rows a table's sizes count, after
it those of the store.
"""

from __future__ import annotations

import polars as pl

from hpabatch.history.columns import TIME
from hpabatch.history.provenance import ROWS, TABLE, TARGET_ROWS
from hpabatch.importers.common.sink import Sink
from hpabatch.importers.table.lives import PLACE

_POD = ["cluster", "namespace", "target", "uid"]
_SIZES = [*PLACE, "ts", "replicas"]


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


def joined_pods(sink: Sink, pods: pl.DataFrame, workloads: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of `pods` of a group; a pod that the store knows has the rest of its life.

    So each group leaves whole lives behind, and an import that goes on need not know what the store
    had before it. `workloads` are those of `with_next`.
    """
    own = workloads.join(pods, on=_POD[:3], how="semi")
    theirs = sink.stored_of("pods", own)
    if theirs.is_empty():
        return pods
    times = ("created", "gone")
    mine = pods.select(*_POD, *(pl.col(name).alias(f"my_{name}") for name in times))
    both = theirs.join(mine, on=_POD).join(own, on=_POD[:3])
    created, gone = pl.col("created"), pl.col("gone")
    follows = pl.col("next").cast(TIME)
    goes_on = follows.is_not_null() & (gone.is_null() | (gone > follows))
    keeps = (created > pl.col("my_created")) | goes_on
    whole = both.with_columns(
        gone=pl.when(keeps).then(gone).otherwise("my_gone"),
        created=pl.min_horizontal(created, "my_created"),
        started=pl.min_horizontal("started", "my_created"),
    ).select(theirs.columns)
    return pl.concat([pods.join(whole, on=_POD, how="anti"), whole], how="diagonal")


def joined_lives(
    sink: Sink, own: pl.DataFrame, workloads: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return an import's pods (LIFE), which end as in the store, and other rows of `pods` to write.

    Those are pods of the store that the import does not have: they ended when its rows begin, or
    began after its last one. All groups are written; `workloads`: first and last ts of the import.
    """
    stored = sink.stored_of("pods", workloads)
    ends = stored.select(*_POD, known="uid", end=pl.col("gone").to_physical())
    both = own.join(ends, on=_POD, how="left", maintain_order="left")
    gone = pl.when(pl.col("known").is_not_null()).then("end").otherwise("gone")
    lives = both.with_columns(gone=gone).select(own.columns)
    first, after = pl.col("first").cast(TIME), (pl.col("last") + 1).cast(TIME)
    others = stored.join(own, on=_POD, how="anti").join(workloads, on=_POD[:3])
    ended = others.filter(pl.col("gone").is_null() & (pl.col("created") < first))
    # Of a table that begins later, and at whose edge they seemed to have run for a while.
    later = others.filter(pl.col("created").is_between(first, after))
    changed = [ended.with_columns(gone=first), later.with_columns(created=after, started=after)]
    return lives, pl.concat(changed).select(stored.columns)


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
    stored = sink.stored_of("scales", workloads)
    if stored.is_empty():
        return sizes
    spans = [*_POD[:3]]
    held = stored.rename({"target_kind": "kind", "spec_replicas": "held"})
    held = held.select(*PLACE, "held", ts=pl.col("ts").to_physical())
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
