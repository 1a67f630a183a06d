"""Readiness of pods that no column tells, from what young pods use beside older ones.

A pod that is not ready does no work, so it uses something else than the pods beside it; from when
on it uses as much, it is ready. A start that uses as much as work does cannot be told.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from hpabatch.history.columns import AFTER_MS

_YOUNG_MS: Final = 600_000
"""Older pods are what young ones are compared with."""
_NEAR: Final = 0.25  # of what the older ones use
_FEWEST_PODS: Final = 10  # young ones of a workload
_WORKLOAD: Final = ["cluster", "namespace", "target", "kind"]


def ready_after(rows: pl.DataFrame, lives: pl.DataFrame, owner: str) -> pl.Series:
    """Return from a pod's creation until it is ready, ms, one value per life; 0: nothing tells.

    Args:
        rows: `owner`, `life`, `ts` (ms) and `cpu` by container.
        lives: `owner`, `life`, the workload's names, `created` and `begin` (ms; of the first row)
            and `was_there`: the pod is older than the table.
        owner: the column that numbers pods.
    """
    pod = [owner, "life"]
    used = rows.filter(pl.col("cpu").is_not_null()).group_by(*pod, "ts").agg(pl.col("cpu").sum())
    lives_of = lives.select(*pod, *_WORKLOAD, "begin", "created", "was_there")
    used = used.join(lives_of, on=pod).sort(*pod, "ts")
    every = pl.col("ts").diff().over(pod).median().over(_WORKLOAD)
    used = used.with_columns(every=every, age=pl.col("ts") + AFTER_MS - pl.col("created"))
    used = used.filter(pl.col("every") > 0).with_columns(
        at=(pl.col("ts") / pl.col("every")).floor(),
        step=((pl.col("ts") - pl.col("begin")) / pl.col("every")).round(),
        young=(pl.col("age") < _YOUNG_MS) & ~pl.col("was_there"),
    )
    older = (
        used.filter(~pl.col("young")).group_by(*_WORKLOAD, "at").agg(beside=pl.col("cpu").median())
    )
    young = used.filter("young").join(older, on=[*_WORKLOAD, "at"]).filter(pl.col("beside") > 0)
    by_step = young.group_by(*_WORKLOAD, "step").agg(
        (pl.col("cpu") / pl.col("beside")).median().alias("ratio"),
        pl.len().alias("pods"),
        pl.col("every", "age").median(),
    )
    by_step = by_step.filter(pl.col("pods") >= _FEWEST_PODS).sort(*_WORKLOAD, "step")
    unlike = (pl.col("ratio") - 1).abs() > _NEAR
    found = by_step.group_by(_WORKLOAD).agg(
        last_unlike=pl.col("age").filter(unlike).max(), last=pl.col("age").max(),
        every=pl.col("every").first(),
    )  # fmt: skip
    # Half a spacing before the first sample that is like the others'; not where none is.
    told = pl.col("last_unlike") < pl.col("last")
    wait = pl.when(told).then(pl.col("last_unlike") + pl.col("every") / 2)
    waits = found.select(*_WORKLOAD, wait.fill_null(0).round().cast(pl.Int64).alias("wait"))
    joined = lives.join(waits, on=_WORKLOAD, how="left", maintain_order="left")
    return joined["wait"].fill_null(0)
