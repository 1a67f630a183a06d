"""Exports of kube-state-metrics on pods: identity, state, requests."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

import polars as pl

from tests.real.openmetrics_family import Family, sampled
from tests.real.openmetrics_site import FOREVER, Ints, Tables

PHASES: Final = ("Pending", "Succeeded", "Failed", "Unknown", "Running")
CONDITIONS: Final = {"true": "True", "false": "False", "unknown": "Unknown"}
GRACE_MS: Final = 30_000  # terminationGracePeriodSeconds of all pods
POD: Final = ["cluster", "namespace", "pod", "uid"]
_ONE: Final = pl.lit(1.0).alias("value")


def label_name(key: str, kind: str = "label") -> str:
    """Return what kube-state-metrics calls a Kubernetes label (or annotation)."""
    return f"{kind}_{re.sub(r'[^a-zA-Z0-9_]', '_', key)}"


def lives(tables: Tables) -> pl.DataFrame:
    """Return the pods with the time in which they are shown: from_ms <= ts < to_ms."""
    return tables["pods"].with_columns(
        from_ms=pl.col("created"), to_ms=pl.col("gone").fill_null(FOREVER)
    )


def pod_families(tables: Tables, grid: Ints) -> list[Family]:
    """Return all kube_pod_* metrics of a source."""
    pods = lives(tables)
    found = [*_identity(pods, grid), *_times(pods, grid), *_states(tables, pods, grid)]
    if "pod_requests" in tables:
        found += _containers(tables["pod_requests"], pods, grid)
    return [family for family in found if family.labels.height]


def _identity(pods: pl.DataFrame, grid: Ints) -> list[Family]:
    split = pl.col("owner").str.splitn("/", 2)
    pods = pods.with_columns(
        kind=split.struct.field("field_0"),
        owner_name=split.struct.field("field_1"),
        scheduled=pl.coalesce("started", "to_ms"),
    )
    info: list[str | pl.Expr] = [*POD, pl.col("kind").alias("created_by_kind"),
            pl.col("owner_name").alias("created_by_name")]  # fmt: skip
    # Until it is scheduled a pod has no node: the series that names one is another series.
    waiting = pods.select(*info, _ONE, "from_ms", pl.min_horizontal("scheduled", "to_ms")
                          .alias("to_ms"))  # fmt: skip
    placed = pods.select(
        *info, "node", pl.lit("10.0.0.7").alias("host_ip"), pl.lit("10.244.0.7").alias("pod_ip"),
        _ONE, pl.col("scheduled").alias("from_ms"), "to_ms",
    )  # fmt: skip
    owner = pods.select(
        *POD, pl.col("kind").alias("owner_kind"), "owner_name",
        pl.when(pl.col("kind").is_not_null()).then(pl.lit("true")).alias("owner_is_controller"),
        _ONE, "from_ms", "to_ms",
    )  # fmt: skip
    found = [
        sampled("kube_pod_info", pl.concat([waiting, placed], how="diagonal"), grid),
        sampled("kube_pod_owner", owner, grid),
    ]
    found.append(sampled("kube_pod_labels", _labelled(pods), grid))
    return found


def _labelled(pods: pl.DataFrame) -> pl.DataFrame:
    """Return a row per pod with its labels as columns."""
    rows = [
        {label_name(key): value for key, value in json.loads(text).items()}
        for text in pods["labels"]
    ]
    names = sorted({name for row in rows for name in row})
    columns = [pl.Series(n, [row.get(n) for row in rows], pl.String) for n in names]
    return pods.select(*POD, _ONE, "from_ms", "to_ms").with_columns(columns)


def _times(pods: pl.DataFrame, grid: Ints) -> list[Family]:
    """Return creation, start and deletion: Unix seconds, as values."""
    asked = pl.col("deletion_requested")
    times = {
        "kube_pod_created": (pl.col("created"), pl.col("from_ms")),
        "kube_pod_start_time": (pl.col("started"), pl.col("started")),
        # deletionTimestamp is when the pod shall be gone, not when that was asked for
        "kube_pod_deletion_timestamp": (asked + GRACE_MS, asked),
    }
    found = []
    for name, (value, since) in times.items():
        rows = pods.filter(since.is_not_null()).select(
            *POD, (value // 1000).alias("value"), since.alias("from_ms"), "to_ms"
        )
        found.append(sampled(name, rows, grid))
    return found


def stretches(rows: pl.DataFrame, keys: Sequence[str], since: str) -> pl.DataFrame:
    """Return changes with from_ms and to_ms: until the next change of the same keys.

    A column `to_ms` that the rows have already is the end of the last change.
    """
    rows = rows.sort(*keys, since)
    end = pl.col("to_ms") if "to_ms" in rows.columns else pl.lit(FOREVER)
    after = pl.col(since).shift(-1).over(keys)
    return rows.with_columns(
        from_ms=pl.col(since), to_ms=pl.min_horizontal(pl.coalesce(after, end), end)
    )


def _states(tables: Tables, pods: pl.DataFrame, grid: Ints) -> list[Family]:
    if "pod_states" not in tables:
        return []
    states = tables["pod_states"].join(
        pods.select(*POD, "to_ms"), on=["cluster", "namespace", "uid"], how="inner"
    )
    states = stretches(states, ["cluster", "uid"], "ts")
    phased = states.filter(pl.col("phase") != "")
    phases = [
        phased.select(
            *POD,
            pl.lit(phase).alias("phase"),
            (pl.col("phase") == phase).alias("value"),
            "from_ms",
            "to_ms",
        )
        for phase in PHASES
    ]
    conditional = states.filter(pl.col("ready").is_not_null())
    ready = [
        conditional.select(
            *POD,
            pl.lit(name).alias("condition"),
            (pl.col("ready") == status).alias("value"),
            "from_ms",
            "to_ms",
        )
        for name, status in CONDITIONS.items()
    ]
    found = [
        sampled("kube_pod_status_phase", pl.concat(phases), grid),
        sampled("kube_pod_status_ready", pl.concat(ready), grid),
    ]
    since = states.filter((pl.col("ready") == "True") & pl.col("last_transition").is_not_null())
    value = (pl.col("last_transition") // 1000).alias("value")
    rows = since.select(*POD, value, "from_ms", "to_ms")
    return [*found, sampled("kube_pod_status_ready_time", rows, grid)]


_RESOURCES: Final = {
    "cpu_milli": ("requests", "cpu", "core"),
    "memory_milli": ("requests", "memory", "byte"),
    "cpu_limit_milli": ("limits", "cpu", "core"),
    "memory_limit_milli": ("limits", "memory", "byte"),
}


def _containers(requests: pl.DataFrame, pods: pl.DataFrame, grid: Ints) -> list[Family]:
    """Return containers, init containers, their resources and the overhead of pods."""
    known = pods.select(*POD, "node", "to_ms", pl.col("from_ms").alias("born"))
    rows = requests.join(known, on=["cluster", "namespace", "uid"], how="inner")
    rows = stretches(rows, ["cluster", "uid", "kind", "container"], "valid_from")
    found = []
    for prefix, kinds in (("container", ["app"]), ("init_container", ["sidecar", "init"])):
        chosen = rows.filter(pl.col("kind").is_in(kinds))
        found.append(sampled(f"kube_pod_{prefix}_info", _info(chosen, prefix), grid))
        for what in ("requests", "limits"):
            name = f"kube_pod_{prefix}_resource_{what}"
            found.append(sampled(name, _resources(chosen, what), grid))
    overhead = rows.filter(pl.col("kind") == "overhead")
    for name, column in (("cpu_cores", "cpu_milli"), ("memory_bytes", "memory_milli")):
        chosen = overhead.filter(pl.col(column).is_not_null())
        value = (pl.col(column) / 1000).alias("value")
        chosen = chosen.select(*POD, value, "from_ms", "to_ms")
        found.append(sampled(f"kube_pod_overhead_{name}", chosen, grid))
    return found


def _info(rows: pl.DataFrame, prefix: str) -> pl.DataFrame:
    first = rows.unique(["cluster", "uid", "kind", "container"], keep="first", maintain_order=True)
    image = pl.format("registry.example/{}:1", "container").alias("image")
    always = pl.when(pl.col("kind") == "sidecar").then(pl.lit("Always"))
    policy = [always.alias("restart_policy")] if prefix == "init_container" else []
    ends = pl.col("to_ms").max().over("cluster", "uid")
    return first.with_columns(to_ms=ends).select(
        *POD, "container", image, *policy, _ONE, pl.col("born").alias("from_ms"), "to_ms"
    )


def _resources(rows: pl.DataFrame, what: str) -> pl.DataFrame:
    parts = []
    for column, (kind, resource, unit) in _RESOURCES.items():
        if kind == what:
            parts.append(
                rows.filter(pl.col(column).is_not_null()).select(
                    *POD,
                    "container",
                    "node",
                    pl.lit(resource).alias("resource"),
                    pl.lit(unit).alias("unit"),
                    (pl.col(column) / 1000).alias("value"),
                    "from_ms",
                    "to_ms",
                )
            )
    return pl.concat(parts)
