"""Exports of kube-state-metrics on workloads, namespaces and HPAs, and the API server's build."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import polars as pl

from hpabatch.model.quantity import Quantity
from tests.real.openmetrics_family import Family, sampled
from tests.real.openmetrics_pods import label_name, lives, stretches
from tests.real.openmetrics_site import FOREVER, Ints, Site, Tables

SCALES: Final = {
    "Deployment": ("deployment", "kube_deployment_spec_replicas",
                   "kube_deployment_status_replicas"),
    "StatefulSet": ("statefulset", "kube_statefulset_replicas",
                    "kube_statefulset_status_replicas"),
    "ReplicaSet": ("replicaset", "kube_replicaset_spec_replicas",
                   "kube_replicaset_status_replicas"),
    "ReplicationController": ("replicationcontroller", "kube_replicationcontroller_spec_replicas",
                              "kube_replicationcontroller_status_replicas"),
}  # fmt: skip
"""By kind: the label with the name, the metrics of spec.replicas and status.replicas."""
HPA: Final = ["cluster", "namespace", "horizontalpodautoscaler"]
_PREFIX: Final = "kube_horizontalpodautoscaler"
_SPAN: Final = ["value", "from_ms", "to_ms"]
_ONE: Final = pl.lit(1.0).alias("value")
Rows = dict[str, list[dict[str, Any]]]


def workload_families(tables: Tables, grid: Ints) -> list[Family]:
    """Return sizes of scale targets and of the pods' ReplicaSets, and these' owners."""
    found = []
    if "scales" in tables:
        keys = ["cluster", "namespace", "target_kind", "target"]
        scales = stretches(tables["scales"], keys, "ts")
        for kind, (label, spec, status) in SCALES.items():
            rows = scales.filter(pl.col("target_kind") == kind).rename({"target": label})
            for name, column in ((spec, "spec_replicas"), (status, "status_replicas")):
                value = pl.col(column).alias("value")
                chosen = rows.select("cluster", "namespace", label, value, "from_ms", "to_ms")
                found.append(sampled(name, chosen, grid))
    return [family for family in found if family.labels.height] + _replica_sets(tables, grid)


def _replica_sets(tables: Tables, grid: Ints) -> list[Family]:
    split = pl.col("owner").str.splitn("/", 2)
    pods = lives(tables).with_columns(
        kind=split.struct.field("field_0"), replicaset=split.struct.field("field_1")
    )
    pods = pods.filter(pl.col("kind") == "ReplicaSet")
    place = ["cluster", "namespace", "replicaset"]
    whole = pods.group_by(*place, "target", maintain_order=True).agg(
        pl.col("from_ms").min(), pl.col("to_ms").max()
    )
    owned = pl.col("target") != pl.col("replicaset")
    owner = whole.select(
        *place, pl.when(owned).then(pl.lit("Deployment")).alias("owner_kind"),
        pl.when(owned).then("target").alias("owner_name"),
        pl.when(owned).then(pl.lit("true")).alias("owner_is_controller"),
        _ONE, "from_ms", "to_ms",
    )  # fmt: skip
    found = [sampled("kube_replicaset_owner", owner, grid)]
    steps = pl.concat(
        [
            pods.select(*place, pl.col("from_ms").alias("at"), pl.lit(1).alias("by")),
            pods.select(*place, pl.col("to_ms").alias("at"), pl.lit(-1).alias("by")),
        ]
    )
    sizes = steps.group_by(*place, "at").agg(pl.col("by").sum()).sort(*place, "at")
    sizes = sizes.with_columns(value=pl.col("by").cum_sum().over(place))
    sizes = stretches(sizes, place, "at").select(*place, *_SPAN)
    scaled = tables["scales"].filter(pl.col("target_kind") == "ReplicaSet")["target"]
    sizes = sizes.filter(~pl.col("replicaset").is_in(scaled.implode()))  # those are told above
    names = SCALES["ReplicaSet"][1:]
    found += [sampled(name, sizes, grid) for name in names if sizes.height]
    return [family for family in found if family.labels.height]


def cluster_families(tables: Tables, site: Site, grid: Ints) -> list[Family]:
    """Return the namespaces, which are always there."""
    spaces = tables["pods"].select("cluster", "namespace").unique()
    default = spaces.select("cluster", pl.lit("default").alias("namespace")).unique()
    spaces = pl.concat([default, spaces]).unique().sort("cluster", "namespace")
    rows = spaces.with_columns(
        from_ms=pl.lit(0, pl.Int64), to_ms=pl.lit(FOREVER, pl.Int64), value=pl.lit(1.7e9)
    )
    active = [
        rows.with_columns(phase=pl.lit(phase), value=pl.lit(float(phase == "Active")))
        for phase in ("Active", "Terminating")
    ]
    return [
        sampled("kube_namespace_created", rows, grid),
        sampled("kube_namespace_status_phase", pl.concat(active), grid),
    ]


def server_families(tables: Tables, site: Site, grid: Ints) -> list[Family]:
    """Return the API server's build and `up` of the scrapes without nodes."""
    rows = tables["pods"].select("cluster").unique().sort("cluster").with_columns(
        from_ms=pl.lit(0, pl.Int64), to_ms=pl.lit(FOREVER, pl.Int64), value=pl.lit(1.0)
    )  # fmt: skip
    versions = {}
    if "controller" in tables:
        told = tables["controller"].filter(pl.col("version").is_not_null())
        versions = dict(told.select("cluster", "version").iter_rows())
    version = pl.Series("git_version", [versions.get(c, site.git_version) for c in rows["cluster"]])
    target = {"job": "apiserver", "instance": "10.0.0.1:6443"}
    marked = [pl.lit(value).alias(name) for name, value in target.items()]
    build = rows.with_columns(version, *marked)
    return [
        sampled("kubernetes_build_info", build, grid),
        sampled("up", rows.with_columns(*marked), grid),
    ]


def hpa_families(tables: Tables, grid: Ints) -> list[Family]:
    """Return all kube_horizontalpodautoscaler_* metrics of a source."""
    if "hpas" not in tables:
        return []
    rows: Rows = {}
    for row in tables["hpas"].iter_rows(named=True):
        end = FOREVER if row["valid_to"] is None else row["valid_to"]
        _spec_rows(row, _place(row) | {"from_ms": row["valid_from"], "to_ms": end}, rows)
    if "hpa_status" in tables:
        keys = ["cluster", "namespace", "name", "uid"]
        for row in stretches(tables["hpa_status"], keys, "ts").iter_rows(named=True):
            _status_rows(
                row, _place(row) | {"from_ms": row["from_ms"], "to_ms": row["to_ms"]}, rows
            )
    found = []
    for name, listed in sorted(rows.items()):
        names = list(dict.fromkeys(key for row in listed for key in row))
        labels = {n: pl.String() for n in names if n not in _SPAN}
        schema = {**labels, "value": pl.Float64(), "from_ms": pl.Int64(), "to_ms": pl.Int64()}
        found.append(sampled(f"{_PREFIX}_{name}", pl.DataFrame(listed, schema=schema), grid))
    return [family for family in found if family.labels.height]


def _place(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "cluster": row["cluster"],
        "namespace": row["namespace"],
        "horizontalpodautoscaler": row["name"],
    }


def _spec_rows(row: Mapping[str, Any], at: dict[str, Any], rows: Rows) -> None:
    spec = json.loads(row["spec"])
    target = spec["scaleTargetRef"]

    def add(name: str, value: float, **labels: str | None) -> None:
        rows.setdefault(name, []).append(at | labels | {"value": float(value)})

    add("info", 1, scaletargetref_api_version=target.get("apiVersion"),
        scaletargetref_kind=target["kind"], scaletargetref_name=target["name"])  # fmt: skip
    add("spec_min_replicas", spec.get("minReplicas", 1))
    add("spec_max_replicas", spec["maxReplicas"])
    add("metadata_generation", row["generation"] or 1)
    for kind in ("label", "annotation"):
        told = json.loads(row[f"{kind}s"] or "{}")
        add(f"{kind}s", 1, **{label_name(key, kind): value for key, value in told.items()})
    if row["created"] is not None:
        add("created", row["created"] // 1000)
    for metric in spec.get("metrics", []):
        for what, value in amounts(metric, "target").items():
            add("spec_target_metric", value, metric_name=metric_name(metric),
                metric_target_type=what)  # fmt: skip


def _status_rows(row: Mapping[str, Any], at: dict[str, Any], rows: Rows) -> None:
    def add(name: str, value: float, **labels: str) -> None:
        rows.setdefault(name, []).append(at | labels | {"value": float(value)})

    add("status_current_replicas", row["current_replicas"])
    add("status_desired_replicas", row["desired_replicas"])
    for metric in json.loads(row["current_metrics"] or "[]"):
        for what, value in amounts(metric, "current").items():
            add("status_target_metric", value, metric_name=metric_name(metric),
                metric_target_type=what)  # fmt: skip
    for condition in json.loads(row["conditions"] or "[]"):
        for status in ("true", "false", "unknown"):
            holds = condition["status"].lower() == status
            add("status_condition", holds, condition=condition["type"], status=status)


def _source(metric: Mapping[str, Any]) -> Mapping[str, Any]:
    kind = str(metric["type"])
    source: Mapping[str, Any] = metric[kind[0].lower() + kind[1:]]
    return source


def metric_name(metric: Mapping[str, Any]) -> str:
    """Return what kube-state-metrics calls a metric of a spec or a status."""
    source = _source(metric)
    return str(source["name"] if metric["type"] in _RESOURCE else source["metric"]["name"])


_RESOURCE: Final = ("Resource", "ContainerResource")
_AMOUNTS: Final = {"value": "value", "averageUtilization": "utilization", "averageValue": "average"}


def amounts(metric: Mapping[str, Any], field: str) -> dict[str, float]:
    """Return metric_target_type -> number of a metric's `target` or `current`."""
    told = _source(metric).get(field, {})
    return {
        what: float(told[key]) if key == "averageUtilization" else number_of(told[key])
        for key, what in _AMOUNTS.items()
        if told.get(key) is not None
    }


def number_of(quantity: object) -> float:
    """Return a Kubernetes quantity as the nearest float."""
    return Quantity.parse(str(quantity)).approx_float()
