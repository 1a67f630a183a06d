"""The simulated run as a recording of a cluster: its names, containers, requests and HPAs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from data.generator.fleet import Workload
from data.generator.loop import CLUSTER, K8S, Load, simulate
from data.generator.names import named_pods, uid_of
from data.generator.usage import usage_rows
from hpabatch.history.schema import TABLES, empty_frame
from hpabatch.importers.synth.fleet import compact_json

_TS = pl.Datetime("ms", "UTC")
# HPAs are older than the first recorded day.
_HPA_AGE_MS = 40 * 86_400_000


def record(loads: Sequence[Load]) -> dict[str, pl.DataFrame]:
    """Simulate workloads and return the tables of a recording of them."""
    run = simulate(loads)
    parts: dict[str, list[pl.DataFrame]] = {}
    for load in loads:
        for table, frame in _tables(load, run).items():
            parts.setdefault(table, []).append(frame)
    found = {name: pl.concat(frames) for name, frames in parts.items()}
    start_ms = loads[0].span.start_ms
    found = {name: _as_sampled(frame, start_ms) for name, frame in found.items()}
    found["controller"] = _controller(loads[0])
    totals = {
        name: _as_sampled(run[name], start_ms)
        for name in ("object_metrics", "external_metrics")
        if name in run
    }
    return {name: (found | totals)[name] for name in TABLES if name in found | totals}


def _as_sampled(frame: pl.DataFrame, start_ms: int) -> pl.DataFrame:
    """Return samples from the start on, without when the controller fetched them.

    Few recorders know that.
    """
    if "fetched_at" not in frame.columns:
        return frame
    start = pl.lit(start_ms, pl.Int64()).cast(_TS)
    return frame.filter(pl.col("ts") >= start).with_columns(fetched_at=pl.lit(None, _TS))


def _tables(load: Load, run: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Return the rows of one workload."""
    work = load.work
    place = (pl.col("namespace") == work.namespace) & (pl.col("target") == work.name)
    pods = named_pods(run["pods"].filter(place), work, load.span)
    names = pods.select(pl.col("old_uid").alias("uid"), new="uid", name="pod")

    def renamed(table: str) -> pl.DataFrame:
        rows = run[table].filter(place).join(names, on="uid", how="inner")
        pod = {"pod": "name"} if "pod" in rows.columns else {}
        return rows.with_columns(uid="new", **pod).drop("new", "name")

    found = {
        "pods": pods.drop("old_uid"),
        "pod_states": pl.concat([renamed("pod_states"), _pending(pods)]),
        "pod_requests": _requests(pods, work),
        "scales": run["scales"].filter(place).with_columns(selector=pl.lit(work.selector)),
        "hpas": _hpas(load),
    }
    usage = usage_rows(load, renamed("pod_metrics"), pods)
    found["pod_metrics"] = _placed("pod_metrics", usage, work)
    if "pod_custom_metrics" in run:
        custom = renamed("pod_custom_metrics")
        if custom.height:
            found["pod_custom_metrics"] = custom
    return {table: _placed(table, frame, work) for table, frame in found.items()}


def _placed(table: str, frame: pl.DataFrame, work: Workload) -> pl.DataFrame:
    """Return a frame with all columns of a table; those it lacks are the workload's, or null."""
    place = {"cluster": CLUSTER, "namespace": work.namespace, "target": work.name}
    return frame.select(
        pl.col(name).cast(dtype)
        if name in frame.columns
        else pl.lit(place.get(name), dtype=dtype).alias(name)
        for name, dtype in empty_frame(table).schema.items()
    )


def _pending(pods: pl.DataFrame) -> pl.DataFrame:
    """Return that pods wait from their creation on, until they start."""
    empty = empty_frame("pod_states").schema
    rows = pods.filter(pl.col("started").is_null() | (pl.col("created") < pl.col("started")))
    values = {"ts": pl.col("created"), "phase": pl.lit("Pending")}
    return rows.select(
        (values[name] if name in values else pl.col(name) if name in rows.columns else pl.lit(None))
        .cast(dtype)
        .alias(name)
        for name, dtype in empty.items()
    )


def _requests(pods: pl.DataFrame, work: Workload) -> pl.DataFrame:
    """Return the requests of the pod template for each pod."""
    places = {"app": 0, "init": 0}
    rows: list[dict[str, Any]] = []
    for container in work.containers:
        # Sidecars stand among the init containers and share their numbering.
        in_list = "app" if container.kind == "app" else "init"
        rows.append(
            {
                "container": container.name,
                "kind": container.kind,
                "index": places[in_list],
                "cpu_milli": container.cpu_request,
                "memory_milli": _mib_milli(container.memory_request_mib),
                "cpu_limit_milli": container.cpu_limit,
                "memory_limit_milli": _mib_milli(container.memory_limit_mib),
            }
        )
        places[in_list] += 1
    integers = dict.fromkeys(
        ("index", "cpu_milli", "memory_milli", "cpu_limit_milli", "memory_limit_milli"),
        pl.Int64(),
    )
    template = pl.DataFrame(rows, schema_overrides=integers)
    return pods.select("uid", valid_from="created").join(template, how="cross")


def _mib_milli(mib: int | None) -> int | None:
    return None if mib is None else (mib << 20) * 1000


def _hpas(load: Load) -> pl.DataFrame:
    """Return the HPAs, as somebody who watched them would have recorded them."""
    work, span = load.work, load.span
    created = span.start_ms - _HPA_AGE_MS
    rows: list[dict[str, Any]] = []
    for hpa in work.hpas:
        base = {
            "name": hpa.name,
            "uid": uid_of(work.namespace, hpa.name, "hpa"),
            "valid_from": created,
            "valid_to": None,
            "spec": compact_json(hpa.spec),
            "labels": compact_json({"app": work.name}),
            "annotations": "{}",
            "created": created,
            "generation": 1,
        }
        if hpa.edited is None:
            rows.append(base)
            continue
        at = span.last_day_ms + round(hpa.edited[0] * 3_600_000)
        edited = {"valid_from": at, "spec": compact_json(hpa.edited[1]), "generation": 2}
        rows += [base | {"valid_to": at}, base | edited]
    times = ("valid_from", "valid_to", "created")
    frame = pl.DataFrame(rows, schema_overrides=dict.fromkeys(times, pl.Int64()))
    return frame.with_columns(pl.col(times).cast(_TS))


def _controller(load: Load) -> pl.DataFrame:
    flags = {"horizontal-pod-autoscaler-sync-period": "15s"}
    row = {"cluster": CLUSTER, "event": "start", "version": f"v{K8S}.0"}
    ts = pl.Series("ts", [load.span.start_ms - 86_400_000]).cast(_TS)
    return pl.DataFrame(row | {"flags": compact_json(flags)}).with_columns(ts)
