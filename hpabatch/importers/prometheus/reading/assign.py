"""Assignment of rows to pods: by uid, or by name and time."""

from __future__ import annotations

import polars as pl

from hpabatch.importers.prometheus.client.samples import Findings

_NAME = ["namespace", "pod"]


def assign_pods(rows: pl.DataFrame, pods: pl.DataFrame, findings: Findings) -> pl.DataFrame:
    """Return rows with `uid` and `target` of their pods instead of `pod_uid`, in their order.

    A row belongs to the pod with its `pod_uid`. One without, or with one that is not known where
    the pods' own uids are made up, belongs to the pod that had its name then: created at or before
    `ts`, and not gone before. (Names recur: the pods of a StatefulSet follow one another.) Rows of
    no known pod are left out.

    Args:
        rows: namespace, pod, pod_uid, ts and other columns.
        pods: POD_ROWS, or the table pods (times in ms).
        findings: gets ("no pod", namespace), the number of rows that were left out.
    """
    numbered = rows.with_row_index("row")
    known = pods.select("uid", "target")
    exact = numbered.join(
        known.with_columns(pod_uid="uid"), on="pod_uid", how="inner", maintain_order="left"
    )
    rest = numbered.join(known, left_on="pod_uid", right_on="uid", how="anti")
    found = _by_name(rest, pods) if rest.height else rest
    if rest.height:
        whole = pl.concat([exact, found.select(exact.columns)])
        lost = rest.join(found, on="row", how="anti")
        for namespace, count in lost.group_by("namespace").len().sort("namespace").rows():
            findings.note("no pod", f"namespace {namespace}", count)
        exact = whole.sort("row")
    return exact.drop("row", "pod_uid")


def _by_name(rows: pl.DataFrame, pods: pl.DataFrame) -> pl.DataFrame:
    """Return the rows that a pod of their name lived at the time of."""
    made = pl.col("uid_made") if "uid_made" in pods.columns else pl.lit(value=False)
    lives = pods.select(*_NAME, "uid", "target", "gone", made=made, ts="created").sort("ts")
    joined = rows.sort("ts").join_asof(
        lives, on="ts", by=_NAME, strategy="backward", check_sortedness=False
    )
    alive = pl.col("gone").is_null() | (pl.col("ts") <= pl.col("gone"))
    ours = pl.col("pod_uid").is_null() | pl.col("made")
    return joined.filter(pl.col("uid").is_not_null() & alive & ours).drop("gone", "made")
