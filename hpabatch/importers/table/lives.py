"""Rows of pods, pod_states and pod_requests from the lives of pods.

A life is a row with cluster, namespace, kind, target, pod, uid and, in ms, created, ready, deleted
and gone (the last two null where nothing ended it).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from hashlib import sha256

import polars as pl

from hpabatch.history.columns import TIME
from hpabatch.importers.table.map import Level, TableMap
from hpabatch.importers.table.objects import AMOUNTS
from hpabatch.importers.table.values import Amount
from hpabatch.model.names import label_value

PLACE = ("cluster", "namespace", "kind", "target")
LIFE: dict[str, pl.DataType] = {
    **dict.fromkeys((*PLACE, "pod", "uid"), pl.String()),
    **dict.fromkeys(("created", "ready", "deleted", "gone"), pl.Int64()),
}
SIZE: dict[str, pl.DataType] = {
    **dict.fromkeys(PLACE, pl.String()),
    "ts": pl.Int64(),
    "replicas": pl.Int64(),
    "seq": pl.Int64(),
}
"""A size; of those of one workload and time the one with the largest seq counts."""
_LABEL = "app"
_NAMES = uuid.uuid5(uuid.NAMESPACE_URL, "hpabatch import table")


def pod_uid(*names: object) -> str:
    """Return a uid that is the same at every import of the same names."""
    return str(uuid.uuid5(_NAMES, "\0".join(map(str, names))))


def label_of(workload: str) -> str:
    """Return the value of the label `app` of a workload's pods: its name, if that can be one."""
    if not label_value(workload):
        return workload
    return f"w-{sha256(workload.encode()).hexdigest()[:40]}"


def selector_of(workload: str) -> str:
    """Return the selector of a workload's scale."""
    return f"{_LABEL}={label_of(workload)}"


def pods_table(lives: pl.DataFrame, table: TableMap) -> pl.DataFrame:
    """Return the pods table; pods of which only the number was known are marked as generated."""
    workloads = lives["target"].unique().sort().to_list()
    labels = {name: json.dumps({_LABEL: label_of(name)}) for name in workloads}
    origin = "recorded" if table.level is Level.pod else "generated"
    described: dict[str, pl.Series | pl.Expr] = {
        "labels": pl.col("target").replace_strict(labels, return_dtype=pl.String),
        "owner": pl.col("kind") + "/" + pl.col("target"),
        "started": pl.col("created"),
    }
    if table.beside is not None:
        described = {**table.beside.described(lives, labels)}
    return lives.with_columns(**described).select(
        "cluster",
        "namespace",
        "target",
        "uid",
        "pod",
        "labels",
        "owner",
        pl.col("created").cast(TIME),
        pl.col("started").cast(TIME),
        pl.col("deleted").cast(TIME).alias("deletion_requested"),
        pl.col("gone").cast(TIME),
        *(["node"] if "node" in described else []),
        pl.lit(origin).alias("origin"),
    )


def states_table(lives: pl.DataFrame) -> pl.DataFrame:
    """Return the states of pods that are Pending first and Ready from `ready` on."""
    keys = ["cluster", "namespace", "target", "uid"]
    pending = lives.filter(pl.col("ready") > pl.col("created")).select(
        *keys,
        ts="created",
        phase=pl.lit("Pending"),
        ready=pl.lit("False"),
        last_transition="created",
    )
    running = lives.select(
        *keys,
        ts=pl.max_horizontal("ready", "created"),
        phase=pl.lit("Running"),
        ready=pl.lit("True"),
        last_transition="ready",
    )
    return pl.concat([pending, running]).with_columns(
        pl.col("ts").cast(TIME), pl.col("last_transition").cast(TIME)
    )


def requests_table(
    containers: pl.DataFrame, changes: pl.DataFrame | None, table: TableMap
) -> pl.DataFrame:
    """Return what containers request.

    Args:
        containers: cluster, namespace, target, uid, container and created (ms), once each.
        changes: cluster, uid, container, ts (ms) and the amounts that the table's rows hold, only
            where one of them changed; None where no amount is in the rows.
        table: the map.
    """
    rows = containers.with_columns(valid_from="created")
    if changes is not None:
        rows = _over_time(containers, changes)
    listed = {
        f"{kind}.{resource}": amount
        for kind, amounts in (("limits", table.limits), ("requests", table.requests))
        for resource, amount in amounts.items()
    }
    index = pl.col("container").rank("dense").over("cluster", "uid").cast(pl.Int64) - 1
    if table.beside is None:
        rows = _with_listed(rows, listed).with_columns(kind=pl.lit("app"), index=index)
    else:
        rows = table.beside.with_requests(rows, listed, whole_pods=table.whole_pods)
    for name, amount in listed.items():
        if amount.share is not None:
            limit = pl.col(name.replace("requests", "limits"))
            share = (limit * amount.share).round(0).cast(pl.Int64)
            told = pl.coalesce(name, share) if name in rows.columns else share
            rows = rows.with_columns(told.alias(name))
    empty = pl.lit(None, dtype=pl.Int64)
    return rows.select(
        "cluster",
        "namespace",
        "target",
        "uid",
        "container",
        "kind",
        "index",
        pl.col("valid_from").cast(TIME),
        *(
            (pl.col(name).cast(pl.Int64) if name in rows.columns else empty).alias(column)
            for name, column in AMOUNTS.items()
        ),
    )


def _over_time(containers: pl.DataFrame, changes: pl.DataFrame) -> pl.DataFrame:
    """Return a row per container and change; what is known first holds from the beginning."""
    keys = ["cluster", "uid", "container"]
    rows = containers.join(changes, on=keys, how="left").sort([*keys, "ts"])
    # The last change before the pod's beginning counts from its beginning on.
    valid_from = pl.max_horizontal(pl.col("ts"), pl.col("created")).fill_null(pl.col("created"))
    rows = rows.with_columns(valid_from=valid_from)
    rows = rows.unique([*keys, "valid_from"], keep="last", maintain_order=True)
    first = pl.col("valid_from") == pl.col("valid_from").min().over(keys)
    return rows.with_columns(valid_from=pl.when(first).then("created").otherwise("valid_from"))


def _with_listed(rows: pl.DataFrame, listed: Mapping[str, Amount]) -> pl.DataFrame:
    """Add the amounts that the map holds itself, looked up once per workload and container."""
    keys = ["namespace", "target", "container"]
    names = rows.select(keys).unique().sort(keys)
    found = {
        name: pl.Series(name, [amount.find(*row) for row in names.rows()], dtype=pl.Int64)
        for name, amount in listed.items()
        if amount.source is None and amount.share is None
    }
    return rows.join(names.with_columns(**found), on=keys, how="left") if found else rows


def changed_rows(frame: pl.DataFrame, keys: list[str], values: list[str]) -> pl.DataFrame:
    """Return the rows in which a value differs from the row before, per key, sorted by ts.

    A null stands for the value before.
    """
    ordered = frame.sort([*keys, "ts"]).with_columns(pl.col(values).forward_fill().over(keys))
    new = pl.any_horizontal(
        [pl.col(name).ne_missing(pl.col(name).shift(1).over(keys)) for name in values]
    )
    known = pl.any_horizontal([pl.col(name).is_not_null() for name in values])
    return ordered.filter(new & known)
