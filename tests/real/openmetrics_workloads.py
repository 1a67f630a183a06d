"""Exports of kube-state-metrics on workloads, namespaces and HPAs, and the API server's build."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import polars as pl

from hpabatch.model.objects.decode import hpa_from_json
from tests.importers.prometheus.ksm_hpas import exported
from tests.real.openmetrics_family import Family, sampled
from tests.real.openmetrics_pods import lives, stretches
from tests.real.openmetrics_site import FOREVER, Ints, Tables

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
_PREFIX: Final = "kube_horizontalpodautoscaler"
_SPAN: Final = ["value", "from_ms", "to_ms"]
_ONE: Final = pl.lit(1.0).alias("value")
_SPEC: Final = {
    "hpa_info": "info", "hpa_min": "spec_min_replicas", "hpa_max": "spec_max_replicas",
    "hpa_target": "spec_target_metric", "hpa_generation": "metadata_generation",
}  # fmt: skip


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


def cluster_families(tables: Tables, grid: Ints) -> list[Family]:
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


def server_families(tables: Tables, grid: Ints) -> list[Family]:
    """Return the API server's build and `up` of the scrapes without nodes."""
    rows = tables["pods"].select("cluster").unique().sort("cluster").with_columns(
        from_ms=pl.lit(0, pl.Int64), to_ms=pl.lit(FOREVER, pl.Int64), value=pl.lit(1.0)
    )  # fmt: skip
    versions = {}
    if "controller" in tables:
        told = tables["controller"].filter(pl.col("version").is_not_null())
        versions = dict(told.select("cluster", "version").iter_rows())
    version = pl.Series("git_version", [versions.get(c, "v1.29.3") for c in rows["cluster"]])
    target = {"job": "apiserver", "instance": "10.0.0.1:6443"}
    marked = [pl.lit(value).alias(name) for name, value in target.items()]
    build = rows.with_columns(version, *marked)
    return [
        sampled("kubernetes_build_info", build, grid),
        sampled("up", rows.with_columns(*marked), grid),
    ]


def hpa_families(tables: Tables, grid: Ints) -> list[Family]:
    """Return the metrics of the specs of HPAs."""
    if "hpas" not in tables:
        return []
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in tables["hpas"].iter_rows(named=True):
        end = FOREVER if row["valid_to"] is None else row["valid_to"]
        at = {
            "cluster": row["cluster"], "namespace": row["namespace"],
            "horizontalpodautoscaler": row["name"], "from_ms": row["valid_from"], "to_ms": end,
        }  # fmt: skip
        found, _ = hpa_from_json(row["spec"])
        for gauge, series in exported(replace(found, generation=row["generation"]), "new").items():
            told = [at | labels | {"value": float(value)} for labels, value in series]
            rows.setdefault(_SPEC[gauge], []).extend(told)
    families = []
    for name, listed in sorted(rows.items()):
        names = list(dict.fromkeys(key for row in listed for key in row))
        labels = {n: pl.String() for n in names if n not in _SPAN}
        schema = {**labels, "value": pl.Float64(), "from_ms": pl.Int64(), "to_ms": pl.Int64()}
        families.append(sampled(f"{_PREFIX}_{name}", pl.DataFrame(listed, schema=schema), grid))
    return [family for family in families if family.labels.height]
