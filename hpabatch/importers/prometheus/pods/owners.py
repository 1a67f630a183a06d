"""Owners of pods: the controller and, behind it, the workload that an HPA scales."""

from __future__ import annotations

from typing import Final

import polars as pl

from hpabatch.importers.prometheus.client.samples import Findings, Samples
from hpabatch.inputs.cluster_objects import GENERATED_LETTERS

OWNED: Final = pl.Schema(
    dict.fromkeys(("namespace", "pod", "uid", "owner", "target_kind", "target"), pl.String())
)
"""Pods with their controller as Kind/name and the workload behind it; null: none."""

_OWNER = ("owner_kind", "owner_name", "owner_is_controller")
_NOBODY = ("", "<none>")
# A ReplicaSet of a Deployment is called like it, with a hash in these letters behind.
_HASHED = rf"^(.+)-{GENERATED_LETTERS}{{1,10}}$"


def owned_pods(
    owners: Samples, replicaset_owners: Samples, findings: Findings | None = None
) -> pl.DataFrame:
    """Return the pods of `kube_pod_owner` with what owns them.

    Behind a ReplicaSet stands whatever controls it (a Deployment, an Argo Rollout, …), or itself if
    nothing does. Of a ReplicaSet that `kube_replicaset_owner` does not know the Deployment is read
    off its name. Every other controller is the workload itself. References that are not the
    controller's do not count.

    Args:
        owners: kube_pod_owner, a sample per series; uid may be lacking.
        replicaset_owners: kube_replicaset_owner, a sample per series.
        findings: gets ("assumed", …), once per ReplicaSet whose Deployment was read off its name.

    Returns:
        OWNED, one row per pod, sorted.
    """
    key = ["namespace", "pod", "uid"]
    found = owners.with_labels([*key, *_OWNER]).series.select(*key, *_OWNER)
    pods = found.select(key).drop_nulls(["namespace", "pod"]).unique()
    direct = _controllers(found, key)
    sets = _replicasets(replicaset_owners)
    place = ["namespace", "replicaset"]
    rows = pods.join(direct, on=key, how="left", nulls_equal=True)
    rows = rows.with_columns(
        replicaset=pl.when(pl.col("owner_kind") == "ReplicaSet").then("owner_name")
    ).join(sets, on=place, how="left")
    of_set, known = pl.col("replicaset").is_not_null(), pl.col("known").fill_null(value=False)
    guessed = pl.when(of_set & ~known).then(pl.col("replicaset").str.extract(_HASHED, 1))
    rows = rows.with_columns(guessed=guessed)
    if findings is not None:
        count = rows.filter(pl.col("guessed").is_not_null()).select(place).n_unique()
        findings.note("assumed", "the Deployment of a ReplicaSet, by its name", count)
    deployment = pl.when(pl.col("guessed").is_not_null()).then(pl.lit("Deployment"))
    owner = pl.when(pl.col("owner_kind").is_not_null()).then(
        pl.format("{}/{}", pl.col("owner_kind"), pl.col("owner_name"))
    )
    whose = rows.select(
        *key,
        owner.alias("owner"),
        pl.coalesce("set_kind", deployment, "owner_kind").alias("target_kind"),
        pl.coalesce("set_name", "guessed", "owner_name").alias("target"),
    )
    return whose.cast(OWNED).sort(key)


def _controllers(found: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    """Return the controller of each object that has one: owner_kind and owner_name."""
    kind, name = (_said(column) for column in _OWNER[:2])
    real = found.select(*key, kind, name, "owner_is_controller").filter(
        (pl.col("owner_is_controller").str.to_lowercase() == "true")
        & pl.col("owner_kind").is_not_null()
        & pl.col("owner_name").is_not_null()
    )
    ordered = real.sort(*key, "owner_kind", "owner_name")
    return ordered.unique(key, keep="first", maintain_order=True).drop("owner_is_controller")


def _said(column: str) -> pl.Expr:
    return pl.when(~pl.col(column).is_in(_NOBODY)).then(pl.col(column)).alias(column)


def _replicasets(samples: Samples) -> pl.DataFrame:
    """Return the ReplicaSets that are known, and what controls them, if anything does."""
    key = ["namespace", "replicaset"]
    found = samples.with_labels([*key, *_OWNER]).series.select(*key, *_OWNER).drop_nulls(key)
    controllers = _controllers(found, key).rename(
        {"owner_kind": "set_kind", "owner_name": "set_name"}
    )
    sets = found.select(key).unique().with_columns(known=pl.lit(value=True))
    return sets.join(controllers, on=key, how="left")
