"""The simulated run as a recording of a cluster: its names, containers, requests, usage, HPAs."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
import polars as pl

from benchmarks.fleet.demo_loop import (
    CLUSTER,
    FIRST_SAMPLE_MS,
    LAG_MS,
    OUTAGE_MS,
    START_MS,
    STEP_MS,
    SYNC_MS,
    Load,
    instant_ms,
    simulate,
)
from benchmarks.fleet.demo_workloads import Workload
from benchmarks.fleet.parts import (
    ALPHABET,
    Container,
    Rows,
    compact_json,
    controller_rows,
    frame_of,
    hpa_row,
    request_rows,
)
from hpabatch.history.columns import TIME
from hpabatch.history.schema import TABLES
from hpabatch.history.store.writer import prepare_rows

_NODES = 12
_MIB = 1 << 20
# Memory is measured in steps: allocators take and give it back in pieces.
_MEMORY_STEP_MIB = 4


def record(loads: Sequence[Load]) -> dict[str, pl.DataFrame]:
    """Simulate workloads and return the tables of a recording of them, sorted."""
    run = simulate(loads)
    parts = {"controller": [controller_rows(START_MS, [CLUSTER])]}
    for table in ("object_metrics", "external_metrics"):
        if table in run:
            parts[table] = [run[table]]
    for load in loads:
        for table, frame in _tables(load, run).items():
            parts.setdefault(table, []).append(frame)
    tables = {}
    for table, frames in parts.items():
        frame = pl.concat(frames, how="diagonal")
        if "fetched_at" in frame.columns:
            # Few recorders know when the controller fetched a sample.
            start = pl.lit(START_MS, pl.Int64()).cast(TIME)
            frame = frame.filter(pl.col("ts") >= start).drop("fetched_at")
        tables[table] = prepare_rows(frame, TABLES[table], table)
    return {table: tables[table] for table in TABLES if table in tables}


def _tables(load: Load, run: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Return the rows of one workload."""
    work = load.work
    place = (pl.col("namespace") == work.namespace) & (pl.col("target") == work.name)
    pods = _named_pods(run["pods"].filter(place), load)
    names = pods.select(pl.col("old_uid").alias("uid"), new="uid", name="pod")

    def renamed(table: str) -> pl.DataFrame:
        rows = run[table].filter(place).join(names, on="uid", how="inner")
        pod = {"pod": "name"} if "pod" in rows.columns else {}
        return rows.with_columns(uid="new", **pod).drop("new", "name")

    # Pods wait from their creation on, until they start.
    waits = pods.filter(pl.col("started").is_null() | (pl.col("created") < pl.col("started")))
    own = pl.lit(CLUSTER).alias("cluster"), pl.col("namespace", "target", "uid")
    pending = waits.select(*own, ts="created", phase=pl.lit("Pending"))
    template = frame_of("pod_requests", request_rows(work.containers))
    requests = pods.select(*own, valid_from="created")
    tables = {
        "pods": pods.drop("old_uid"),
        "pod_states": pl.concat([renamed("pod_states"), pending], how="diagonal"),
        "pod_requests": requests.join(template, how="cross"),
        "scales": run["scales"].filter(place).with_columns(selector=pl.lit(work.selector)),
        "hpas": frame_of("hpas", _hpas(load)),
        "pod_metrics": _usage(load, renamed("pod_metrics"), pods).with_columns(
            cluster=pl.lit(CLUSTER), namespace=pl.lit(work.namespace), target=pl.lit(work.name)
        ),
    }
    if "pod_custom_metrics" in run:
        tables["pod_custom_metrics"] = renamed("pod_custom_metrics")
    return {table: frame for table, frame in tables.items() if frame.height}


def _hpas(load: Load) -> Rows:
    """Return the HPAs, as somebody who watched them would have recorded them."""
    work, rows = load.work, []
    for name, final in work.hpas.items():
        begin = None
        for number, (end, spec) in enumerate(load.specs(final), 1):
            uid = uid_of(work.namespace, name, "hpa")
            row = hpa_row(START_MS, name, uid, spec, work.name)
            row |= {"cluster": CLUSTER, "namespace": work.namespace, "generation": number}
            rows.append(row | {"valid_from": begin or row["created"], "valid_to": end})
            begin = end
    return rows


# ---- names that a cluster gives


def digest(*parts: object) -> bytes:
    """Return sixteen bytes that stand for something by its name."""
    return blake2b("/".join(map(str, parts)).encode(), digest_size=16).digest()


def uid_of(*parts: object) -> str:
    """Return an object's uid."""
    return str(uuid.UUID(bytes=digest(*parts), version=4))


def word(length: int, *parts: object) -> str:
    """Return a generated part of a name."""
    return "".join(ALPHABET[byte % len(ALPHABET)] for byte in digest(*parts)[:length])


def revision_of(work: Workload, number: int) -> str:
    """Return the hash of a revision of the pod template."""
    return word(9, work.namespace, work.name, "revision", number)


def _named_pods(pods: pl.DataFrame, load: Load) -> pl.DataFrame:
    """Return a workload's rows of `pods` with `old_uid` beside the names that a cluster gives.

    A pod that was created after the beginning of a rollout is of its revision.
    """
    work = load.work
    begun = [instant_ms(*at) for at in work.rollouts]
    rows: Rows = []
    taken: dict[int, int] = {}  # by ordinal: until when it is taken
    pods = pods.sort("created", "uid")
    times = pods.select("uid", "started", pl.col("created", "gone").dt.epoch("ms"))
    for uid, started, created_ms, gone_ms in times.iter_rows():
        revision = revision_of(work, sum(at <= created_ms for at in begun))
        number = uid.rsplit("-", 1)[1]
        if work.kind == "StatefulSet":
            ordinal = next(k for k in range(len(taken) + 1) if taken.get(k, 0) <= created_ms)
            taken[ordinal] = 2**62 if gone_ms is None else gone_ms
            pod, owner = f"{work.name}-{ordinal}", f"StatefulSet/{work.name}"
            own = {"statefulset.kubernetes.io/pod-name": pod}
        else:
            owner = f"ReplicaSet/{work.name}-{revision}"
            pod = f"{work.name}-{revision}-{word(5, work.namespace, work.name, number)}"
            own = {"pod-template-hash": revision}
        node = digest(work.namespace, work.name, number, "node")[0] % _NODES + 1
        rows.append({
            "uid": uid_of(work.namespace, work.name, "pod", number),
            "pod": pod,
            "owner": owner,
            "labels": compact_json(work.labels | own),
            "node": f"node-{node:02d}" if started is not None else None,
        })  # fmt: skip
    schema = dict.fromkeys(("uid", "pod", "owner", "labels", "node"), pl.String())
    names = pl.DataFrame(rows, schema)
    return pods.with_columns(*names.iter_columns(), old_uid="uid", cluster=pl.lit(CLUSTER))


# ---- usage: what the HPAs ask for was sampled, the rest is made here


def _usage(load: Load, samples: pl.DataFrame, pods: pl.DataFrame) -> pl.DataFrame:
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
    parts = [_of_container(load, app, rows, sampled=True)]
    parts += [_of_container(load, container, rows, sampled=False) for container in others]
    return pl.concat(parts).with_columns(window_ms=pl.lit(30_000, pl.Int64()))


def _scrapes(load: Load, pods: pl.DataFrame) -> pl.DataFrame:
    """Return when the pods of a workload are sampled whose HPA asks for no usage."""
    end_ms = START_MS + load.steps * SYNC_MS
    lives = pods.filter(pl.col("started").is_not_null()).with_columns(
        since=pl.col("started").cast(pl.Int64()) + FIRST_SAMPLE_MS,
        until=pl.col("gone").cast(pl.Int64()).fill_null(end_ms),
    )
    first = START_MS + load.phase_ms
    late = pl.max_horizontal("since", first) - first + STEP_MS - 1
    grid = pl.int_ranges(
        late // STEP_MS * STEP_MS + first,
        pl.min_horizontal("until", end_ms - LAG_MS - SYNC_MS),
        STEP_MS,
    )
    ts = pl.col("ts")
    nothing = dict.fromkeys(("cpu_milli", "memory_bytes"), pl.lit(None, pl.Int64()))
    return (
        lives.select("uid", ts=grid)
        .explode("ts")
        .drop_nulls()
        .filter((ts < OUTAGE_MS[0]) | (ts >= OUTAGE_MS[1]))
        .select("uid", ts.cast(TIME), fetched_at=pl.lit(None, TIME), **nothing)
    )


def _with_work(load: Load, rows: pl.DataFrame) -> pl.DataFrame:
    """Add `work` in milli: what was sampled, else an equal part of the demand."""
    minute = (pl.col("ts").cast(pl.Int64()) - START_MS) // STEP_MS
    demand = pl.DataFrame({"minute": np.arange(load.demand.size), "demand": load.demand})
    base = load.work.containers[0].idle_milli
    most = pl.lit((load.work.ceiling_milli or 10**9) - base)
    # No load balancer is fair.
    uids = rows["uid"].unique().to_list()
    parts = [0.96 + digest(uid)[0] % 9 / 100 for uid in uids]
    part = pl.col("uid").replace_strict(uids, parts, return_dtype=pl.Float64())
    served = pl.min_horizontal(pl.col("demand") / pl.col("running") * part, most)
    sampled = pl.col("cpu_milli").cast(pl.Float64()) - base
    return (
        rows.with_columns(minute=minute)
        .join(demand, on="minute", how="left", maintain_order="left")
        .with_columns(running=pl.len().over("minute"))
        .with_columns(work=pl.coalesce(sampled, served).clip(0.0))
    )


def _of_container(
    load: Load, container: Container, rows: pl.DataFrame, *, sampled: bool
) -> pl.DataFrame:
    """Return the usage of a container; of the app, what was sampled counts."""
    unit = load.work.cpu_unit if sampled else max(1, load.work.cpu_unit // 2)
    cpu = container.idle_milli + container.share * pl.col("work")
    cpu, memory = (cpu // unit * unit).cast(pl.Int64()), _memory(load.work, container)
    return rows.select(
        "uid",
        "pod",
        "ts",
        "fetched_at",
        container=pl.lit(container.name),
        cpu_milli=pl.coalesce("cpu_milli", cpu) if sampled else cpu,
        memory_bytes=pl.coalesce("memory_bytes", memory) if sampled else memory,
    )


def _memory(work: Workload, container: Container) -> pl.Expr:
    """Return a working set that follows the work of the last half hour, in steps."""
    if work.growth_mib is None:
        level = (pl.col("work") / work.plan_milli).clip(0.0, 1.6)
        slow = level.rolling_mean(30, min_samples=1).over("uid")
        mib = container.memory_mib + container.memory_load_mib * slow
    else:
        hours = (pl.col("ts") - pl.col("started")).dt.total_seconds() / 3600
        mib = container.memory_mib + hours * work.growth_mib
    return (mib // _MEMORY_STEP_MIB * _MEMORY_STEP_MIB).cast(pl.Int64()) * _MIB
