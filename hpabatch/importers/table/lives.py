"""Rows of pods, pod_states from the lives of pods.

A life is a row with cluster, namespace, kind, target, pod, uid and, in ms, created, ready, deleted
and gone (the last two null where nothing ended it).
"""

from __future__ import annotations

import json
import uuid
from hashlib import sha256

import polars as pl

from hpabatch.history.columns import TIME
from hpabatch.importers.table.map import Level, TableMap
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


def pending_states(lives: pl.DataFrame) -> pl.DataFrame:
    """Return rows of `pod_states`: Pending from the pods' creation on."""
    return lives.select(
        *("cluster", "namespace", "target", "uid"),
        ts=pl.col("created").cast(TIME),
        phase=pl.lit("Pending"),
        ready=pl.lit("False"),
        last_transition=pl.col("created").cast(TIME),
    )


def states_table(lives: pl.DataFrame) -> pl.DataFrame:
    """Return the states of pods that are Pending first and Ready from `ready` on."""
    running = pending_states(lives).with_columns(
        ts=pl.max_horizontal(lives["ready"], lives["created"]).cast(TIME),
        phase=pl.lit("Running"),
        ready=pl.lit("True"),
        last_transition=lives["ready"].cast(TIME),
    )
    return pl.concat([pending_states(lives.filter(pl.col("ready") > pl.col("created"))), running])
