"""Usage that the HPAs do not ask for: the other resource, sidecars, pods behind a queue."""

from __future__ import annotations

import numpy as np
import polars as pl

from data.generator.load import STEP_S
from data.generator.loop import FIRST_SAMPLE_MS, LAG_MS, OUTAGE_MINUTES, SYNC_MS, Load, cpu_unit
from data.generator.names import digest
from hpabatch.importers.synth.fleet import Container

_MIB = 1 << 20
_STEP_MS = STEP_S * 1000
_TS = pl.Datetime("ms", "UTC")
# Memory is measured in steps: allocators take and give it back in pieces.
_MEMORY_STEP_MIB = 4


def usage_rows(load: Load, samples: pl.DataFrame, pods: pl.DataFrame) -> pl.DataFrame:
    """Return `pod_metrics` of a workload: each running container with cpu and memory.

    Args:
        load: the workload.
        samples: what the simulation sampled of its pods, maybe nothing; uids as in `pods`.
        pods: the lives of its pods.
    """
    rows = samples if samples.height else _scrapes(load, pods)
    rows = rows.select("uid", "ts", "fetched_at", "cpu_milli", "memory_bytes")
    rows = rows.join(pods.select("uid", "pod", "started"), on="uid").sort("uid", "ts")
    rows = _with_work(load, rows)
    app, *others = (c for c in load.work.containers if c.kind != "init")
    parts = [_of_app(load, app, rows), *(_of_sidecar(load, c, rows) for c in others)]
    return pl.concat(parts).with_columns(window_ms=pl.lit(30_000, pl.Int64()))


def _scrapes(load: Load, pods: pl.DataFrame) -> pl.DataFrame:
    """Return when the pods of a workload are sampled whose HPA asks for no usage."""
    span = load.span
    end_ms = span.start_ms + span.steps * SYNC_MS
    lives = pods.filter(pl.col("started").is_not_null()).with_columns(
        since=pl.col("started").cast(pl.Int64()) + FIRST_SAMPLE_MS,
        until=pl.col("gone").cast(pl.Int64()).fill_null(end_ms),
    )
    first = span.start_ms + load.phase_ms
    grid = pl.int_ranges(
        ((pl.max_horizontal("since", first) - first + _STEP_MS - 1) // _STEP_MS) * _STEP_MS + first,
        pl.min_horizontal("until", end_ms - LAG_MS - SYNC_MS),
        _STEP_MS,
    )
    gap = [span.last_day_ms + minute * 60_000 for minute in OUTAGE_MINUTES]
    ts = pl.col("ts")
    return (
        lives.select("uid", ts=grid)
        .explode("ts")
        .drop_nulls()
        .filter((ts < gap[0]) | (ts >= gap[1]))
        .with_columns(fetched_at=(ts + LAG_MS + SYNC_MS - 1) // SYNC_MS * SYNC_MS)
        .with_columns(
            pl.col("ts", "fetched_at").cast(_TS),
            cpu_milli=pl.lit(None, pl.Int64()),
            memory_bytes=pl.lit(None, pl.Int64()),
        )
    )


def _with_work(load: Load, rows: pl.DataFrame) -> pl.DataFrame:
    """Add `work` in milli: what was sampled, else an equal part of the demand."""
    minute = (pl.col("ts").cast(pl.Int64()) - load.span.start_ms) // _STEP_MS
    demand = pl.DataFrame({"minute": np.arange(load.demand.size), "demand": load.demand})
    base = load.work.containers[0].idle_milli
    most = load.work.ceiling_milli or 10**9
    return (
        rows.with_columns(minute=minute)
        .join(demand, on="minute", how="left", maintain_order="left")
        .with_columns(running=pl.len().over("minute"))
        .with_columns(
            work=pl.coalesce(
                pl.col("cpu_milli").cast(pl.Float64()) - base,
                pl.min_horizontal(
                    pl.col("demand") / pl.col("running") * _part(rows["uid"]), pl.lit(most - base)
                ),
            ).clip(0.0)
        )
    )


def _part(uids: pl.Series) -> pl.Expr:
    """Return each pod's part of the work: no load balancer is fair."""
    names = uids.unique().to_list()
    parts = [0.96 + digest(name)[0] % 9 / 100 for name in names]
    return pl.col("uid").replace_strict(names, parts, return_dtype=pl.Float64())


def _of_app(load: Load, app: Container, rows: pl.DataFrame) -> pl.DataFrame:
    unit = cpu_unit(load.work)
    made = ((pl.col("work") + app.idle_milli) // unit * unit).cast(pl.Int64())
    memory = _memory(load, app)
    return rows.select(
        "uid",
        "pod",
        "ts",
        "fetched_at",
        container=pl.lit(app.name),
        cpu_milli=pl.coalesce("cpu_milli", made),
        memory_bytes=pl.coalesce("memory_bytes", memory),
    )


def _of_sidecar(load: Load, container: Container, rows: pl.DataFrame) -> pl.DataFrame:
    unit = max(1, cpu_unit(load.work) // 2)
    cpu = container.idle_milli + container.share * pl.col("work")
    return rows.select(
        "uid",
        "pod",
        "ts",
        "fetched_at",
        container=pl.lit(container.name),
        cpu_milli=(cpu // unit * unit).cast(pl.Int64()),
        memory_bytes=_memory(load, container),
    )


def _memory(load: Load, container: Container) -> pl.Expr:
    """Return a working set that follows the work of the last half hour, in steps."""
    level = (pl.col("work") / load.work.plan_milli).clip(0.0, 1.6)
    slow = level.rolling_mean(30, min_samples=1).over("uid")
    grown = pl.lit(0.0)
    if load.work.growth_mib is not None:
        hours = (pl.col("ts") - pl.col("started")).dt.total_seconds() / 3600
        slow, grown = pl.lit(0.0), hours * load.work.growth_mib
    mib = container.memory_mib + container.memory_load_mib * slow + grown
    return (mib // _MEMORY_STEP_MIB * _MEMORY_STEP_MIB).cast(pl.Int64()) * _MIB
