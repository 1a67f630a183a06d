"""Rows of a group of workloads as tables of a history: as many equal pods as replicas.

Pod number k is there while there are more than k replicas, so the newest pod goes first. Its uid
follows from its workload, number and creation. These pods are marked as generated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from hpabatch.history.columns import AFTER_MS
from hpabatch.importers.common.rows import Rounding, changed_rows, whole
from hpabatch.importers.table.lives import LIFE, PLACE, SIZE, pod_uid, pods_table, states_table
from hpabatch.importers.table.map import TableMap
from hpabatch.importers.table.pods import (
    Add,
    Figures,
    GroupResult,
    metric_conflicts,
    requested_names,
    requests_table,
    sample_tables,
    shared_tables,
    without_duplicates,
)
from hpabatch.importers.table.rows import METRIC, WORKLOAD_KEY, amounts, usage_names
from hpabatch.importers.table.spill import Keyed

BATCH_ROWS = 1 << 19
"""Samples made at a time."""


@dataclass(frozen=True, slots=True)
class _Life:
    """A generated pod; times in ms, None: not ended. `begin` and `end` bound its samples."""

    slot: int
    created: int
    ready: int
    deleted: int | None = None
    gone: int | None = None


def import_workloads(group: Keyed, spans: pl.DataFrame, table: TableMap, add: Add) -> GroupResult:
    """Give `add` the tables of a group of clean rows; `spans` has first and last ts by cluster."""
    rows, duplicates = without_duplicates(group.rows, table)
    rows = Keyed(rows, group.keys).named()
    edges = {cluster: (first, last) for cluster, first, last in spans.rows()}
    lives, sizes, samples, unsized = [], [], 0, 0
    for name, made in shared_tables(rows, table):
        samples += made.height
        add(name, made)
    for key, part in rows.group_by(list(WORKLOAD_KEY[:3]), maintain_order=True):
        # The map's container has the usage, else the objects'.
        if table.beside is None or "container" in table.texts:
            container = str(table.texts["container"].value)
        else:
            workload = str(part["kind"][-1]), str(key[2])
            container = table.beside.container_of(str(key[1]), workload)
        part = part.with_columns(
            pl.col("replicas").forward_fill(), pl.col("kind").last(), container=pl.lit(container)
        )
        unsized += part["replicas"].null_count()
        part = part.filter(pl.col("replicas").is_not_null())
        if part.is_empty():
            continue
        names = {name: part[name][0] for name in PLACE}
        changes = changed_rows(part.select("target", "ts", "replicas"), ["target"], ["replicas"])
        found, steps = _lives(changes.select("ts", "replicas").rows(), part, edges[key[0]], table)
        frame = _life_frame(found, names)
        lives.append(frame)
        sizes.append(pl.DataFrame(steps, schema=["ts", "replicas"], orient="row").select(
            *(pl.lit(value).alias(name) for name, value in names.items()),
            pl.col("ts", "replicas").cast(pl.Int64),
            seq=pl.lit(0, dtype=pl.Int64),
        ))  # fmt: skip
        add("pod_requests", _requests(part, frame, table))
        for batch in _batches(part, found, frame, table):
            for name, made in sample_tables(batch, table):
                samples += made.height
                add(name, made)
    all_lives = pl.concat(lives) if lives else pl.DataFrame(schema=LIFE)
    add("pods", pods_table(all_lives, table))
    add("pod_states", states_table(all_lives))
    all_sizes = pl.concat(sizes) if sizes else pl.DataFrame(schema=SIZE)
    conflicts = metric_conflicts(rows, table)
    return GroupResult(all_lives, all_sizes, Figures(samples, duplicates, unsized, conflicts))


def _lives(
    changes: list[tuple[int, int]], part: pl.DataFrame, edges: tuple[int, int], table: TableMap
) -> tuple[list[_Life], list[tuple[int, int]]]:
    """Return the pods that follow a size, and the sizes as (since ms, replicas)."""
    said = table.lives
    begin, end = int(part["ts"][0]), int(part["ts"][-1])
    first, size = changes[0]
    if begin - edges[0] < said.edge_ms:
        first -= said.ran_before_ms
    changes = [(first, size), *changes[1:]]
    ended: list[_Life] = []
    running: list[_Life] = []
    for ms, size in changes:
        at_ms = ms if ms == first else ms + AFTER_MS
        while len(running) < size:
            running.append(_Life(len(running), at_ms, ms + (said.ready_after_ms or 0)))
        while len(running) > size:
            last = running.pop()
            ended.append(_Life(last.slot, last.created, last.ready, at_ms, at_ms + said.grace_ms))
    if edges[1] - end >= said.edge_ms:
        gone = end + said.keep_ms
        running = [_Life(p.slot, p.created, p.ready, None, gone) for p in running]
    return ended + running, changes


def _life_frame(found: list[_Life], names: dict[str, str]) -> pl.DataFrame:
    rows = [
        (
            *names.values(),
            f"{names['target']}-{life.created // 1000}-{life.slot}",
            pod_uid(*names.values(), life.slot, life.created),
            life.created,
            life.ready,
            life.deleted,
            life.gone,
        )
        for life in found
    ]
    return pl.DataFrame(rows, schema=LIFE, orient="row")


def _batches(
    part: pl.DataFrame, found: list[_Life], frame: pl.DataFrame, table: TableMap
) -> Iterator[pl.DataFrame]:
    """Yield clean rows of pods: those of the workload while the pod was Ready and not deleted.

    The row of a change is of the pods that are there before and after it.
    """
    ts = part["ts"].to_numpy()
    begin = np.searchsorted(ts, [max(life.ready, life.created) for life in found])
    last = [ts[-1] + 1 if life.deleted is None else life.deleted - AFTER_MS for life in found]
    length = np.maximum(np.searchsorted(ts, last) - begin, 0)
    change = np.bincount(begin, minlength=ts.size + 1)
    change -= np.bincount(begin + length, minlength=ts.size + 1)
    sampled = pl.Series(np.cumsum(change)[:-1])
    pods = frame.select("pod", "uid").with_columns(slot=pl.Series([life.slot for life in found]))
    ends = np.cumsum(length)
    total = int(ends[-1]) if ends.size else 0
    for low in range(0, total, BATCH_ROWS):
        number = np.arange(low, min(low + BATCH_ROWS, total))
        pod = np.searchsorted(ends, number, side="right")
        row = begin[pod] + number - (ends - length)[pod]
        rows = part[row].with_columns(*pods[pod].get_columns(), sampled=sampled[row])
        yield rows.with_columns(_shares(table)).drop("slot", "sampled")


def _shares(table: TableMap) -> list[pl.Expr]:
    """Return what each pod has of the sums: whole numbers that add up to the sum.

    The pods that have a sample then share it, so that a pod that is not Ready takes no part of it.
    What the division leaves goes to the oldest, one each: rounding every share up would add up to
    a pod's rounding more per pod, enough to flip a decision near the tolerance.
    """
    sources = amounts(table)
    found = []
    for name in usage_names(table):
        if sources[name].statistic == "sum":
            rounding = Rounding.down if name.startswith(METRIC) else Rounding.up
            total = whole(pl.col(name), rounding)
            more = pl.col("slot") < total % pl.col("sampled")
            found.append((total // pl.col("sampled") + more.cast(pl.Int64)).alias(name))
    return found


def _requests(part: pl.DataFrame, frame: pl.DataFrame, table: TableMap) -> pl.DataFrame:
    """Return pod_requests; a change in the rows is a resize in place of the pods there then."""
    container = part["container"][0]
    containers = frame.select(
        "cluster", "namespace", "target", "uid", "created", container=pl.lit(container)
    )
    names = requested_names(table)
    if not names:
        return requests_table(containers, None, table)
    changed = changed_rows(part.select("target", "ts", *names), ["target"], names)
    pairs = frame.select("target", "cluster", "uid")
    ends = frame.select("uid", gone=pl.col("gone").fill_null(2**62))
    changes = (
        pairs.join(changed, on="target")
        .join(ends, on="uid")
        .filter(pl.col("ts") < pl.col("gone"))
        .select("cluster", "uid", "ts", pl.col(names).round(0), container=pl.lit(container))
    )
    return requests_table(containers, changes, table)
