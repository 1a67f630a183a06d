"""The status that an HPA's controller would show of a source that has none."""

from __future__ import annotations

import json
from typing import Any, Final

import polars as pl

from tests.real.openmetrics_site import FOREVER, Tables

_AGE_MS: Final = 150_000


def with_status(tables: Tables, every_ms: int = 15_000) -> Tables:
    """Return the tables with an `hpa_status`: what each HPA saw, every `every_ms`.

    Only cpu utilization of all containers is told, of the pods of the target that have started
    and are not gone, by their newest sample, rounded down to per cent as upstream does. Desired
    is the scale's spec.replicas. A status says AbleToScale and ScalingActive.
    """
    rows: list[dict[str, Any]] = []
    for hpa in tables["hpas"].filter(pl.col("valid_to").is_null()).iter_rows(named=True):
        rows += _hpa_rows(tables, hpa, every_ms)
    kinds = {"ts": pl.Int64(), "current_replicas": pl.Int64(), "desired_replicas": pl.Int64(),
             "last_scale_time": pl.Int64(), "observed_generation": pl.Int64()}  # fmt: skip
    names = ("cluster", "namespace", "name", "uid", "ts", "current_replicas", "desired_replicas",
             "current_metrics", "conditions", "last_scale_time", "observed_generation")  # fmt: skip
    schema = {name: kinds.get(name, pl.String()) for name in names}
    return tables | {"hpa_status": pl.DataFrame(rows, schema=schema, orient="row")}


def _hpa_rows(tables: Tables, hpa: dict[str, Any], every_ms: int) -> list[dict[str, Any]]:
    spec = json.loads(hpa["spec"])
    place = {"cluster": hpa["cluster"], "namespace": hpa["namespace"],
             "target": spec["scaleTargetRef"]["name"]}  # fmt: skip
    scales = tables["scales"].filter(**place).sort("ts")
    first, last = int(scales["ts"].min()), int(tables["pod_metrics"]["ts"].max())  # type: ignore[arg-type]
    ticks = pl.DataFrame({"ts": pl.int_range(first, last + 1, every_ms, eager=True)})
    ticks = ticks.join_asof(scales.select("ts", "spec_replicas", "status_replicas"), on="ts")
    utilization = _utilization(tables, place, ticks["ts"]).filter(_asks_for_cpu(spec))
    ticks = ticks.join(utilization, on="ts", how="left", maintain_order="left")
    conditions = json.dumps(
        [{"type": name, "status": status} for name, status in
         (("AbleToScale", "True"), ("ScalingActive", "True"), ("ScalingLimited", "False"))],
        separators=(",", ":"),
    )  # fmt: skip
    same = {"cluster": hpa["cluster"], "namespace": hpa["namespace"], "name": hpa["name"],
            "uid": hpa["uid"], "conditions": conditions,
            "observed_generation": hpa["generation"]}  # fmt: skip
    return [
        same | {
            "ts": row["ts"], "current_replicas": row["status_replicas"],
            "desired_replicas": row["spec_replicas"],
            "current_metrics": _metrics(row["utilization"], row["mean_milli"]),
        }
        for row in ticks.iter_rows(named=True)
    ]  # fmt: skip


def _asks_for_cpu(spec: dict[str, Any]) -> bool:
    """Whether a metric of a spec is cpu utilization."""
    return any(
        metric["type"] == "Resource"
        and metric["resource"]["name"] == "cpu"
        and metric["resource"]["target"]["type"] == "Utilization"
        for metric in spec.get("metrics", [])
    )


def _metrics(utilization: int | None, mean_milli: int | None) -> str:
    if utilization is None:
        return "[]"
    current = {"averageUtilization": utilization, "averageValue": f"{mean_milli}m"}
    metric = {"type": "Resource", "resource": {"name": "cpu", "current": current}}
    return json.dumps([metric], separators=(",", ":"))


def _utilization(tables: Tables, place: dict[str, str], ticks: pl.Series) -> pl.DataFrame:
    """Return ts, utilization (per cent) and mean_milli per pod, at instants with any sample."""
    keys = ["cluster", "uid"]
    samples = tables["pod_metrics"].filter(**place).group_by(*keys, "ts").agg(
        pl.col("cpu_milli").sum(), window_ms=pl.col("window_ms").max()
    )  # fmt: skip
    pods = tables["pods"].filter(**place).filter(pl.col("started").is_not_null())
    requests = tables["pod_requests"].filter(pl.col("kind").is_in(["app", "sidecar"]))
    requests = requests.unique([*keys, "kind", "container"], keep="first", maintain_order=True)
    requested = requests.group_by(keys).agg(request_milli=pl.col("cpu_milli").sum())
    pods = pods.join(requested, on=keys, how="inner")
    every = ticks.to_frame().join(
        pods.select(*keys, "started", pl.col("gone").fill_null(FOREVER), "request_milli"),
        how="cross",
    )
    every = every.filter(pl.col("ts").is_between("started", "gone", closed="left"))
    seen = every.sort("ts").join_asof(
        samples.with_columns(at=pl.col("ts")).sort("ts"), on="ts", by=keys, check_sortedness=False
    )
    seen = seen.filter(pl.col("at") > pl.col("ts") - _AGE_MS)
    sums = seen.group_by("ts").agg(
        pl.col("cpu_milli", "request_milli").sum(), pods=pl.len().cast(pl.Int64)
    )
    return sums.filter(pl.col("request_milli") > 0).select(
        "ts",
        utilization=pl.col("cpu_milli") * 100 // pl.col("request_milli"),
        mean_milli=pl.col("cpu_milli") // pl.col("pods"),
    )
