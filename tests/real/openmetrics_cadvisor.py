"""Exports of cAdvisor, through the kubelet, of the usage samples of a history."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

import numpy as np
import polars as pl

from tests.real.openmetrics_family import Family
from tests.real.openmetrics_site import FOREVER, Site, Tables

CPU: Final = "container_cpu_usage_seconds_total"
MEMORY: Final = "container_memory_working_set_bytes"
CONTAINER: Final = ["cluster", "uid", "container"]
PAUSE_BYTES: Final = 1 << 20
_US: Final = 1_000_000


def counters(tables: Tables, site: Site) -> pl.DataFrame:
    """Return the raw samples of every container that the site's server holds.

    Between two samples a counter rises by the later one's cpu_milli times the time between them,
    in whole microseconds; before the first one it is sampled once more, a window earlier, without
    memory. Rows without cpu are not exported.

    Columns: cluster, namespace, uid, pod, node, container, ts, total_us, memory_bytes (null: not
    sampled then).
    """
    rows = tables["pod_metrics"].filter(pl.col("cpu_milli").is_not_null())
    rows = rows.sort(*CONTAINER, "ts").select(
        "cluster", "namespace", "uid", "pod", "container", "ts",
        "window_ms", "cpu_milli", "memory_bytes",
    )  # fmt: skip
    before = pl.col("ts").shift(1).over(CONTAINER)
    window = pl.col("window_ms").fill_null(site.scrape_ms)
    rows = rows.with_columns(
        first=before.is_null(),
        gap=pl.coalesce(pl.col("ts") - before, window),
        start_us=pl.struct("uid", "container").map_elements(_start_us, return_dtype=pl.Int64),
    )
    rows = rows.with_columns(rise=pl.col("cpu_milli") * pl.col("gap"))
    base = rows.filter("first").with_columns(
        ts=pl.col("ts") - pl.col("gap"),
        rise=pl.lit(0, pl.Int64),
        memory_bytes=pl.lit(None, pl.Int64),
    )
    both = pl.concat([base, rows]).sort(*CONTAINER, "ts")
    both = both.with_columns(total_us=pl.col("start_us") + pl.col("rise").cum_sum().over(CONTAINER))
    nodes = tables["pods"].select("cluster", "uid", "node")
    both = both.join(nodes, on=["cluster", "uid"], how="left", maintain_order="left")
    until_ms = FOREVER if site.end_ms is None else site.end_ms
    return both.filter(pl.col("ts").is_between(site.start_ms or 0, until_ms)).select(
        "cluster", "namespace", "uid", "pod", "node", "container", "ts", "total_us", "memory_bytes"
    )


def _digest(*words: object) -> str:
    return hashlib.sha256("/".join(map(str, words)).encode()).hexdigest()


def _start_us(key: Mapping[str, str]) -> int:
    """Return what a container's counter showed when it was first seen: 1,000 to 901,000 s."""
    return (int(_digest(key["uid"], key["container"])[:12], 16) % 900_000 + 1_000) * _US


def cadvisor_families(tables: Tables, site: Site) -> list[Family]:
    """Return cpu and memory of all containers, with what no import may count."""
    samples = counters(tables, site)
    samples = pl.concat([samples, *_traps(samples)], how="diagonal")
    samples = samples.sort(*CONTAINER, "ts")
    families = []
    for name, column in ((CPU, "total_us"), (MEMORY, "memory_bytes")):
        rows = samples.filter(pl.col(column).is_not_null())
        families.append(_family(name, rows, column))
    return families


def _traps(samples: pl.DataFrame) -> list[pl.DataFrame]:
    """Return rows for the pods as a whole (container "") and their pause containers (POD)."""
    leader = pl.col("container") == pl.col("container").min().over("cluster", "uid")
    count = pl.col("container").n_unique().over("cluster", "uid").cast(pl.Int64)
    rows = samples.with_columns(count=count).filter(leader).sort("cluster", "uid", "ts")
    whole = rows.with_columns(
        container=pl.lit(""),
        total_us=pl.col("total_us").cum_max().over("cluster", "uid") * pl.col("count"),
        memory_bytes=pl.col("memory_bytes") * pl.col("count") + PAUSE_BYTES,
    )
    pause = rows.with_columns(
        container=pl.lit("POD"),
        total_us=20_000 + 5 * pl.int_range(pl.len(), dtype=pl.Int64).over("cluster", "uid"),
        memory_bytes=pl.when(pl.col("memory_bytes").is_not_null()).then(
            pl.lit(PAUSE_BYTES, pl.Int64)
        ),
    )
    return [frame.drop("count") for frame in (whole, pause)]


def _family(name: str, rows: pl.DataFrame, column: str) -> Family:
    keys = rows.select(*CONTAINER, "namespace", "pod", "node").unique(
        CONTAINER, maintain_order=True
    )
    numbered = keys.select(*CONTAINER, _series=pl.int_range(pl.len(), dtype=pl.Int64))
    of_row = rows.select(CONTAINER).join(numbered, on=CONTAINER, how="left", maintain_order="left")
    told = [_labels(name, key) for key in keys.iter_rows(named=True)]
    labels = pl.DataFrame(told, infer_schema_length=None).cast(pl.String)
    values = rows[column].to_numpy().astype(np.float64)
    return Family(
        name,
        labels.with_columns(
            pl.lit("kubelet").alias("job"),
            pl.lit("https-metrics").alias("endpoint"),
            (pl.coalesce(pl.col("node"), pl.lit("node")) + ":10250").alias("instance"),
        ),
        of_row["_series"].to_numpy(),
        rows["ts"].to_numpy(),
        values / _US if column == "total_us" else values,
    )


def _labels(name: str, key: Mapping[str, object]) -> dict[str, str | None]:
    """Return the labels of a container's series, without those of its scrape."""
    container, uid, pod = str(key["container"]), str(key["uid"]), str(key["pod"])
    hexes = _digest(uid, container)
    named = {"": None, "POD": f"k8s_POD_{pod}_{key['namespace']}_{uid}_0"}.get(container, hexes)
    images = {"": None, "POD": "registry.k8s.io/pause:3.9"}
    labels = {
        "cluster": str(key["cluster"]),
        "namespace": str(key["namespace"]),
        "pod": pod,
        "container": container,
        "node": None if key["node"] is None else str(key["node"]),
        "metrics_path": "/metrics/cadvisor",
        "service": "kubelet",
        "id": _cgroup(uid, container, hexes),
        "name": named,
        "image": images.get(container, f"registry.example/{container}:1"),
        "cpu": "total" if name == CPU else None,
    }
    return labels


def _cgroup(uid: str, container: str, hexes: str) -> str:
    """Return the path of a container's control group, which holds the pod's uid."""
    pod = f"/kubepods/burstable/pod{uid}"
    return f"{pod}/{hexes}" if container else pod


def kubelet_families(tables: Tables, site: Site) -> list[Family]:
    """Return `up` of the kubelets, and the usage of whole nodes."""
    nodes = tables["pods"].select("cluster", "node").drop_nulls().unique().sort("cluster", "node")
    labels = nodes.with_columns(
        job=pl.lit("kubelet"), instance=pl.col("node") + ":10250",
        metrics_path=pl.lit("/metrics/cadvisor"),
    )  # fmt: skip
    instants = site.instants()
    series = np.repeat(np.arange(labels.height), len(instants))
    ts = np.tile(instants, labels.height)
    whole = labels.with_columns(id=pl.lit("/"), cpu=pl.lit("total"))
    return [
        Family("up", labels, series, ts, np.ones(len(ts))),
        Family(CPU, whole, series, ts, (ts - int(instants[0])) / 1000 * 0.9),
    ]
