"""Exports of cAdvisor, through the kubelet, of the usage samples of a history."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

import numpy as np
import polars as pl

from tests.real.openmetrics_family import Family, joined
from tests.real.openmetrics_site import FOREVER, Outage, Site, Tables

CPU: Final = "container_cpu_usage_seconds_total"
MEMORY: Final = "container_memory_working_set_bytes"
CONTAINER: Final = ["cluster", "uid", "container"]
PAUSE_BYTES: Final = 1 << 20
_US: Final = 1_000_000


def counters(tables: Tables, site: Site) -> pl.DataFrame:
    """Return the raw samples of every container that the site's server holds.

    Between two samples a counter rises by the later one's cpu_milli times the time between them,
    in whole microseconds; before the first one it is sampled once more, a window earlier, without
    memory. After a restart it begins at 0. Rows without cpu are not exported.

    Columns: cluster, namespace, uid, pod, node, container, `life` (of the counter, from 0),
    `cgroup` (of the series, from 0), ts, total_us, memory_bytes (null: not sampled then).
    """
    rows = tables["pod_metrics"].filter(pl.col("cpu_milli").is_not_null())
    rows = rows.sort(*CONTAINER, "ts").select(
        "cluster", "namespace", "uid", "pod", "container", "ts",
        "window_ms", "cpu_milli", "memory_bytes", *_restarted(site),
    )  # fmt: skip
    before = pl.col("ts").shift(1).over(CONTAINER)
    window = pl.col("window_ms").fill_null(site.scrape_ms)
    rows = rows.with_columns(
        first=before.is_null(),
        begun=(pl.col("life") != pl.col("life").shift(1).over(CONTAINER)).fill_null(False),
        gap=pl.coalesce(pl.col("ts") - before, window),
        start_us=pl.struct("uid", "container").map_elements(_start_us, return_dtype=pl.Int64),
    )
    since = pl.when("begun").then(pl.col("ts") - pl.col("restarted_ms")).otherwise("gap")
    rows = rows.with_columns(rise=pl.col("cpu_milli") * since)
    base = rows.filter(pl.col("first") & (pl.col("life") == 0)).with_columns(
        ts=pl.col("ts") - pl.col("gap"),
        rise=pl.lit(0, pl.Int64),
        memory_bytes=pl.lit(None, pl.Int64),
    )
    both = pl.concat([base, rows]).sort(*CONTAINER, "ts")
    start = pl.when(pl.col("life") == 0).then("start_us").otherwise(0)
    both = both.with_columns(total_us=start + pl.col("rise").cum_sum().over([*CONTAINER, "life"]))
    nodes = tables["pods"].select("cluster", "uid", "node")
    both = both.join(nodes, on=["cluster", "uid"], how="left", maintain_order="left")
    until_ms = FOREVER if site.end_ms is None else site.end_ms
    kept = both.filter(
        pl.col("ts").is_between(site.start_ms or 0, until_ms),
        *(~_lost(outage) for outage in site.outages),
    )
    return kept.select(
        "cluster", "namespace", "uid", "pod", "node", "container", "life", "cgroup", "ts",
        "cpu_milli", "total_us", "memory_bytes",
    )  # fmt: skip


def _restarted(site: Site) -> list[pl.Expr]:
    """Return the columns life, cgroup and restarted_ms: of restarts before a sample."""
    life, cgroup, last = pl.lit(0, pl.Int64), pl.lit(0, pl.Int64), pl.lit(None, pl.Int64)
    for one in sorted(site.restarts, key=lambda one: one.at_ms):
        hit = (pl.col("uid") == one.uid) & (pl.col("container") == one.container)
        hit &= pl.col("ts") > one.at_ms
        life += hit.cast(pl.Int64)
        cgroup += (hit & one.new_series).cast(pl.Int64)
        last = pl.when(hit).then(one.at_ms).otherwise(last)
    return [life.alias("life"), cgroup.alias("cgroup"), last.alias("restarted_ms")]


def _lost(outage: Outage) -> pl.Expr:
    if outage.job == "kube-state-metrics":
        return pl.lit(False)
    inside = (pl.col("ts") > outage.after_ms) & (pl.col("ts") <= outage.until_ms)
    return inside if outage.node is None else inside & pl.col("node").eq_missing(outage.node)


def _digest(*words: object) -> str:
    return hashlib.sha256("/".join(map(str, words)).encode()).hexdigest()


def _start_us(key: Mapping[str, str]) -> int:
    """Return what a container's counter showed when it was first seen: 1,000 to 901,000 s."""
    return (int(_digest(key["uid"], key["container"])[:12], 16) % 900_000 + 1_000) * _US


def cadvisor_families(tables: Tables, site: Site) -> list[Family]:
    """Return cpu and memory of all containers, with the site's traps and duplicates."""
    samples = counters(tables, site)
    if site.traps:
        samples = pl.concat([samples, *_traps(samples)], how="diagonal")
    series = ["cluster", "uid", "container", "cgroup"]
    samples = samples.sort(*series, "ts")
    families = []
    for name, column in ((CPU, "total_us"), (MEMORY, "memory_bytes")):
        rows = samples.filter(pl.col(column).is_not_null())
        families.append(_family(name, rows, column, series, site))
    return families


def _traps(samples: pl.DataFrame) -> list[pl.DataFrame]:
    """Return rows for the pods as a whole (container "") and their pause containers (POD)."""
    leader = pl.col("container") == pl.col("container").min().over("cluster", "uid")
    count = pl.col("container").n_unique().over("cluster", "uid").cast(pl.Int64)
    rows = samples.with_columns(count=count).filter(leader).sort("cluster", "uid", "ts")
    rows = rows.with_columns(life=pl.lit(0, pl.Int64), cgroup=pl.lit(0, pl.Int64))
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


def _family(name: str, rows: pl.DataFrame, column: str, series: list[str], site: Site) -> Family:
    keys = rows.select(*series, "namespace", "pod", "node").unique(series, maintain_order=True)
    numbered = keys.select(*series, _series=pl.int_range(pl.len(), dtype=pl.Int64))
    of_row = rows.select(series).join(numbered, on=series, how="left", maintain_order="left")
    told = [_labels(name, key, site) for key in keys.iter_rows(named=True)]
    labels = pl.DataFrame(told, infer_schema_length=None).cast(pl.String)
    jobs = [_job("kubelet", "10250")]
    if site.old_job:
        jobs.append(_job(site.old_job, "10255"))
    parts = []
    for place, replica in enumerate(site.replicas or ("",)):
        shift = place * site.replica_shift_ms
        values = rows[column].to_numpy().astype(np.float64)
        if column == "total_us":
            values = (rows[column] + _ahead(rows, series) * shift).to_numpy() / _US
        for job in jobs:
            extra = [*job, *([pl.lit(replica).alias("prometheus_replica")] if replica else [])]
            parts.append(
                Family(
                    name,
                    labels.with_columns(extra),
                    of_row["_series"].to_numpy(),
                    rows["ts"].to_numpy() + shift,
                    values,
                )
            )
    return joined(name, parts)


def _ahead(rows: pl.DataFrame, series: list[str]) -> pl.Series:
    """Return the usage after each sample, until the next one of its series (milli)."""
    after = pl.col("cpu_milli").shift(-1).over(series)
    return rows.select(pl.coalesce(after, pl.col("cpu_milli"))).to_series()


def _job(name: str, port: str) -> list[pl.Expr]:
    endpoint = "https-metrics" if port == "10250" else "cadvisor"
    return [
        pl.lit(name).alias("job"),
        pl.lit(endpoint).alias("endpoint"),
        (pl.coalesce(pl.col("node"), pl.lit("node")) + f":{port}").alias("instance"),
    ]


def _labels(name: str, key: Mapping[str, object], site: Site) -> dict[str, str | None]:
    """Return the labels of a container's series, without those of its scrape."""
    container, uid, pod = str(key["container"]), str(key["uid"]), str(key["pod"])
    hexes = _digest(uid, container, key["cgroup"])
    named = {"": None, "POD": f"k8s_POD_{pod}_{key['namespace']}_{uid}_0"}.get(container, hexes)
    images = {"": None, "POD": "registry.k8s.io/pause:3.9"}
    labels = {
        "namespace": str(key["namespace"]),
        "pod": pod,
        "container": container,
        "node": None if key["node"] is None else str(key["node"]),
        "metrics_path": "/metrics/cadvisor",
        "service": "kubelet",
        "id": _cgroup(uid, container, hexes, site),
        "name": named,
        "image": images.get(container, f"registry.example/{container}:1"),
        "cpu": "total" if name == CPU else None,
    }
    if site.cluster_label:
        labels[site.cluster_label] = str(key["cluster"])
    return labels


def _cgroup(uid: str, container: str, hexes: str, site: Site) -> str | None:
    """Return the path of a container's control group."""
    if site.cgroups is None:
        return None
    if site.cgroups == "cgroupfs":
        pod = f"/kubepods/burstable/pod{uid}"
        return f"{pod}/{hexes}" if container else pod
    slices = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod"
    pod = f"{slices}{uid.replace('-', '_')}.slice"
    return f"{pod}/cri-containerd-{hexes}.scope" if container else pod


def kubelet_families(tables: Tables, site: Site) -> list[Family]:
    """Return `up` of the kubelets and, with traps, the usage of whole nodes."""
    nodes = tables["pods"].select("cluster", "node").drop_nulls().unique().sort("cluster", "node")
    instants = site.instants()
    down = np.zeros(len(instants), np.bool_)
    for outage in site.outages:
        if outage.node is None and outage.job is None:
            down |= (instants > outage.after_ms) & (instants <= outage.until_ms)
    seen = instants[~down]
    labels, up = [], []
    for cluster, node in nodes.iter_rows():
        row = {"job": "kubelet", "instance": f"{node}:10250", "node": node,
               "metrics_path": "/metrics/cadvisor"}  # fmt: skip
        labels.append(row | ({site.cluster_label: cluster} if site.cluster_label else {}))
        fine = np.ones(len(seen), np.bool_)
        for outage in site.outages:
            if outage.node == node or (outage.node is None and outage.job == "kubelet"):
                fine &= ~((seen > outage.after_ms) & (seen <= outage.until_ms))
        up.append(fine)
    if not labels:
        return []
    series = np.repeat(np.arange(len(labels)), len(seen))
    ts = np.tile(seen, len(labels))
    fine = np.concatenate(up)
    found = [Family("up", pl.DataFrame(labels), series, ts, fine.astype(np.float64))]
    if site.traps:
        whole = pl.DataFrame(labels).with_columns(id=pl.lit("/"), cpu=pl.lit("total"))
        family = Family(CPU, whole, series, ts, (ts - int(instants[0])) / 1000 * 0.9)
        found.append(family.kept(fine))
    return found
