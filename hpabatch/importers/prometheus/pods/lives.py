"""Lives of pods, within a window and across windows; rows assigned to pods.

kube-state-metrics exports a pod for as long as the pod exists: a pod is gone when an exporter that
is alive no longer shows it. It exports no selectors, so the pods that an HPA counts follow from
their owner; labels are not read.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl

from hpabatch.importers.prometheus.client.samples import LAST_S, Findings, Samples, Span
from hpabatch.importers.prometheus.reading.gauges import SILENT_MS, Gauge
from hpabatch.inputs.cluster_objects import GENERATED_LETTERS

TABLE_COLUMNS: Final = (
    *("uid", "pod", "namespace", "target", "labels", "owner", "created", "started"),
    *("deletion_requested", "gone", "node", "origin"),
)
"""Columns of POD_ROWS that the table pods has."""

_TIMES = ("created", "started", "deletion_requested", "gone")
POD_ROWS: Final = pl.Schema(
    {
        **{name: pl.Int64() if name in _TIMES else pl.String() for name in TABLE_COLUMNS},
        "target_kind": pl.String(),
        "first": pl.Int64(),
        "last": pl.Int64(),
        "uid_made": pl.Boolean(),
    }
)
"""Columns of the table pods (times in ms), and beside: the target's kind, when the pod was seen
first and last, and whether the uid is ours."""

_NAME = ["namespace", "pod"]
_KEY = [*_NAME, "uid"]
_NAMES = uuid.uuid5(uuid.NAMESPACE_URL, "hpabatch import prometheus")


def pod_rows(
    info: Gauge,
    owners: Samples,
    replicaset_owners: Samples,
    created: Samples,
    started: Samples,
    deleted: Gauge,
    heartbeats: Sequence[int],
    span: Span,
    findings: Findings,
) -> pl.DataFrame:
    """Return the pods that a window saw.

    `gone` is the first heartbeat after a pod was last seen, if the exporter was still alive
    `SILENT_MS` after that; an outage of the exporter is no death. (Heartbeats of one of several
    shards serve for all of them, if that is more than the distance of scrapes.) A name can
    be taken only after its pod is gone: the next pod of the name ends the one before.
    `deletion_requested` is when the deletion was first seen; the metric's own value is when the
    grace period ends, and counts only if that is earlier.

    Where a site drops the label uid, it is made up, and a name has one pod in a window.

    Args:
        info: kube_pod_info by namespace, pod, uid, node, created_by_kind and created_by_name.
        owners, replicaset_owners: see `owned_pods`; a pod of which the first says nothing belongs
            to what created it.
        created, started: kube_pod_created and kube_pod_start_time (unix seconds), alike.
        deleted: kube_pod_deletion_timestamp (unix seconds) by namespace, pod and uid.
        heartbeats: instants (ms) at which the exporter was read, from span.from_ms on.
        findings: gets "assumed" (creation, uid or target not recorded).

    Returns:
        POD_ROWS, one per uid, sorted by namespace, pod and created.
    """
    rows = _seen(info)
    rows = _with_time(_with_time(rows, created, "created"), started, "started")
    rows = _with_owners(rows, owners, replicaset_owners, findings)
    rows = _with_facts(rows, _requested(deleted), ["deletion_requested"])
    rows = _with_uids(rows, findings)
    assumed = rows.filter(pl.col("created").is_null()).height
    findings.note("assumed", "creation of a pod: when it was first seen", assumed)
    rows = rows.with_columns(
        # A pod whose deletion was requested before it was seen was created before that.
        created=pl.coalesce("created", pl.min_horizontal("first", "deletion_requested")),
        gone=_gone(rows["last"], heartbeats, span),
        origin=pl.lit("recorded"),
        labels=pl.lit("{}"),
    )
    return _ended_by_next(rows.select(list(POD_ROWS)).cast(POD_ROWS))


def continued_pods(
    earlier: pl.DataFrame,
    later: pl.DataFrame,
    heartbeats: Sequence[int],
    span: Span,
) -> pl.DataFrame:
    """Return the pods of a window and of those before it, as one would have seen them.

    Pods that were alive before, and that the window did not see although the exporter was read in
    it, are gone (they went during an outage that reached over the windows' border).

    Args:
        earlier: rows of the windows before, at least of the pods that were not gone yet; columns
            beside those of the table may be lacking.

    Returns:
        POD_ROWS, sorted like those of `pod_rows`.
    """
    usual = {
        "first": pl.col("created"),
        "last": pl.lit(span.after_ms, dtype=pl.Int64),
        "target_kind": pl.lit(None, dtype=pl.String),
        "uid_made": pl.lit(value=False),
    }
    lacking = [column.alias(n) for n, column in usual.items() if n not in earlier.columns]
    known = earlier.with_columns(lacking).select(list(POD_ROWS)).cast(POD_ROWS)
    lone = known.join(later, on="uid", how="anti")
    lone = lone.with_columns(gone=pl.coalesce("gone", _gone(lone["last"], heartbeats, span)))
    whole = pl.concat([lone, known.join(later, on="uid", how="semi"), later])
    # The earlier window saw the beginning, the later one the end.
    first, last = ("created", "first", "deletion_requested"), ("gone", "last")
    rows = whole.group_by("uid", maintain_order=True).agg(
        pl.col(first).min(), pl.col(last).last(),
        pl.exclude("uid", *first, *last).drop_nulls().last(),
    )  # fmt: skip
    return _ended_by_next(rows.select(list(POD_ROWS)))


def _seen(info: Gauge) -> pl.DataFrame:
    """Return each pod with the node and creator that it had last, and when it was seen."""
    plain = ["node", "created_by_kind", "created_by_name"]
    said = [pl.when(~pl.col(n).is_in(["", "<none>"])).then(pl.col(n)).alias(n) for n in plain]
    frame = info.seen.drop_nulls(_NAME).with_columns(said).sort("last", "first")
    return frame.group_by(_KEY).agg(
        *(pl.col(n).drop_nulls().last() for n in plain),
        pl.col("first").min(),
        pl.col("last").max(),
    )


def _with_facts(rows: pl.DataFrame, facts: pl.DataFrame, columns: list[str]) -> pl.DataFrame:
    first = facts.unique(_KEY, keep="first", maintain_order=True).select(*_KEY, *columns)
    return rows.join(first, on=_KEY, how="left", nulls_equal=True)


def _with_time(rows: pl.DataFrame, samples: Samples, name: str) -> pl.DataFrame:
    """Add a time that is recorded in unix seconds, as ms."""
    facts = samples.joined(_KEY).filter(pl.col("value").is_between(1, LAST_S))
    ms = (pl.col("value") * 1000).round(0).cast(pl.Int64).alias(name)
    return _with_facts(rows, facts.sort("ts", descending=True).select(*_KEY, ms), [name])


def _with_owners(
    rows: pl.DataFrame, owners: Samples, replicaset_owners: Samples, findings: Findings
) -> pl.DataFrame:
    """Add owner, target_kind and target, by kube_pod_owner or by kube_pod_info itself."""
    known = owners.with_labels(_KEY).series.select(_KEY)
    created_by = rows.join(known, on=_KEY, how="anti", nulls_equal=True).select(
        *_KEY, owner_kind="created_by_kind", owner_name="created_by_name",
        owner_is_controller=pl.lit("true"),
    )  # fmt: skip
    said = owners.with_labels(created_by.columns).series.select(created_by.columns)
    whole = pl.concat([said, created_by]).with_row_index("series")
    owned = owned_pods(Samples(whole, owners.points.clear()), replicaset_owners, findings)
    return _with_facts(rows, owned, ["owner", "target_kind", "target"])


def _requested(deleted: Gauge) -> pl.DataFrame:
    possible = pl.when(pl.col("value").is_between(1, LAST_S)).then("value")
    end = (possible * 1000).round(0).cast(pl.Int64)
    begun = pl.min_horizontal("ts", end).min().alias("deletion_requested")
    return deleted.changes.group_by(_KEY).agg(begun)


def _with_uids(rows: pl.DataFrame, findings: Findings) -> pl.DataFrame:
    """Make uids where the exporter gives none: of namespace, pod and creation, always the same."""
    lacking = pl.col("uid").is_null()
    unnamed = rows.filter(lacking)
    findings.note("assumed", "uid of a pod: made from its name and creation", unnamed.height)
    made = [
        str(uuid.uuid5(_NAMES, "\0".join(map(str, row))))
        for row in unnamed.select(*_NAME, pl.col("created").fill_null(0)).rows()
    ]
    named = unnamed.with_columns(uid=pl.Series(made, dtype=pl.String), uid_made=pl.lit(value=True))
    rest = rows.filter(~lacking).with_columns(uid_made=pl.lit(value=False))
    return pl.concat([rest, named.select(rest.columns)])


def _gone(last: pl.Series, heartbeats: Sequence[int], span: Span) -> pl.Series:
    """Return the first heartbeat after each time, null where none is long enough after it.

    The next window sees what this one cannot tell yet.
    """
    quiet_ms = min(SILENT_MS, span.lookback_ms)
    beats = np.unique(np.asarray(heartbeats, dtype=np.int64))
    if not beats.size:
        return pl.repeat(None, last.len(), dtype=pl.Int64(), eager=True)
    times = last.to_numpy()
    place = np.searchsorted(beats, times, side="right")
    known = (place < beats.size) & (beats[-1] >= times + quiet_ms)
    found = pl.Series(beats[np.minimum(place, beats.size - 1)])
    return found.zip_with(
        pl.Series(known), pl.repeat(None, last.len(), dtype=pl.Int64(), eager=True)
    )


def _ended_by_next(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows in order; a pod is gone once another one has its name."""
    rows = rows.sort(*_NAME, "created", "first", "uid")
    following = [pl.col(n).shift(-1).over(_NAME) for n in ("created", "first")]
    taken = pl.when(following[1] > pl.col("last")).then(
        pl.max_horizontal(following[0], pl.col("last"))
    )
    rows = rows.with_columns(gone=pl.min_horizontal("gone", taken))
    # Creation is by the API server's clock, the last sighting by Prometheus' clock.
    return rows.with_columns(pl.col("deletion_requested", "gone").clip(pl.col("created")))


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
    kind, name = (
        pl.when(~pl.col(column).is_in(_NOBODY)).then(pl.col(column)).alias(column)
        for column in _OWNER[:2]
    )
    real = found.select(*key, kind, name, "owner_is_controller").filter(
        (pl.col("owner_is_controller").str.to_lowercase() == "true")
        & pl.col("owner_kind").is_not_null()
        & pl.col("owner_name").is_not_null()
    )
    ordered = real.sort(*key, "owner_kind", "owner_name")
    return ordered.unique(key, keep="first", maintain_order=True).drop("owner_is_controller")


def _replicasets(samples: Samples) -> pl.DataFrame:
    """Return the ReplicaSets that are known, and what controls them, if anything does."""
    key = ["namespace", "replicaset"]
    found = samples.with_labels([*key, *_OWNER]).series.select(*key, *_OWNER).drop_nulls(key)
    controllers = _controllers(found, key).rename(
        {"owner_kind": "set_kind", "owner_name": "set_name"}
    )
    sets = found.select(key).unique().with_columns(known=pl.lit(value=True))
    return sets.join(controllers, on=key, how="left")


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
