"""Lives of pods and sizes of workloads, as rows.

A life is a row with cluster, namespace, kind, target, pod, uid and, in ms, created, ready, deleted
and gone (the last two null where nothing ended it). Sizes are from a column, or counted from the
pods alive.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from hashlib import sha256

import polars as pl

from hpabatch.history.columns import AFTER_MS, TIME
from hpabatch.history.provenance import GUESSED
from hpabatch.importers.common.claims import rows_provenance
from hpabatch.importers.common.rows import changed_rows
from hpabatch.importers.table.hpas import Workload
from hpabatch.importers.table.map import Level, TableMap
from hpabatch.importers.table.objects import Beside
from hpabatch.model.names import label_value
from hpabatch.model.times import show_duration

PLACE = ("cluster", "namespace", "kind", "target")
LIFE: dict[str, pl.DataType] = {
    **dict.fromkeys((*PLACE, "pod", "uid"), pl.String()),
    **dict.fromkeys(("created", "ready", "deleted", "gone"), pl.Int64()),
}
SIZE: dict[str, pl.DataType] = {
    **dict.fromkeys(PLACE, pl.String()),
    "ts": pl.Int64(),
    "replicas": pl.Int64(),
    "seq": pl.Int64(),
}
"""A size; of those of one workload and time the one with the largest seq counts."""
_WHILE_MS = 600_000
_LABEL = "app"
_NAMES = uuid.uuid5(uuid.NAMESPACE_URL, "hpabatch import table")


def pod_uid(*names: object) -> str:
    """Return a uid that is the same at every import of the same names."""
    return str(uuid.uuid5(_NAMES, "\0".join(map(str, names))))


def label_of(workload: str) -> str:
    """Return the value of the label `app` of a workload's pods: its name, if that can be one."""
    if not label_value(workload):
        return workload
    return f"w-{sha256(workload.encode()).hexdigest()[:40]}"


def selector_of(workload: str) -> str:
    """Return the selector of a workload's scale."""
    return f"{_LABEL}={label_of(workload)}"


def pods_table(lives: pl.DataFrame, table: TableMap) -> pl.DataFrame:
    """Return the pods table; pods of which only the number was known are marked as generated."""
    workloads = lives["target"].unique().sort().to_list()
    labels = {name: json.dumps({_LABEL: label_of(name)}) for name in workloads}
    origin = "recorded" if table.level is Level.pod else "generated"
    described: dict[str, pl.Series | pl.Expr] = {
        "labels": pl.col("target").replace_strict(labels, return_dtype=pl.String),
        "owner": pl.col("kind") + "/" + pl.col("target"),
        "started": pl.col("created"),
    }
    if table.beside is not None:
        described = {**table.beside.described(lives, labels)}
    return lives.with_columns(**described).select(
        "cluster",
        "namespace",
        "target",
        "uid",
        "pod",
        "labels",
        "owner",
        pl.col("created").cast(TIME),
        pl.col("started").cast(TIME),
        pl.col("deleted").cast(TIME).alias("deletion_requested"),
        pl.col("gone").cast(TIME),
        *(["node"] if "node" in described else []),
        pl.lit(origin).alias("origin"),
    )


def pending_states(lives: pl.DataFrame) -> pl.DataFrame:
    """Return rows of `pod_states`: Pending from the pods' creation on."""
    return lives.select(
        *("cluster", "namespace", "target", "uid"),
        ts=pl.col("created").cast(TIME),
        phase=pl.lit("Pending"),
        ready=pl.lit("False"),
        last_transition=pl.col("created").cast(TIME),
    )


def states_table(lives: pl.DataFrame) -> pl.DataFrame:
    """Return the states of pods that are Pending first and Ready from `ready` on."""
    running = pending_states(lives).with_columns(
        ts=pl.max_horizontal(lives["ready"], lives["created"]).cast(TIME),
        phase=pl.lit("Running"),
        ready=pl.lit("True"),
        last_transition=lives["ready"].cast(TIME),
    )
    return pl.concat([pending_states(lives.filter(pl.col("ready") > pl.col("created"))), running])


_KEYS = list(PLACE)
_COLUMNS = [*_KEYS, "ts", "replicas"]


def workload_sizes(
    lives: pl.DataFrame, sizes: pl.DataFrame, spans: pl.DataFrame, table: TableMap
) -> pl.DataFrame:
    """Return the changes of every workload's size, the first from when it was first there.

    `lives` (LIFE) and `sizes` (SIZE, from a column) are those of the whole table; `spans` has first
    and last ts by cluster.
    """
    since = lives.group_by(_KEYS).agg(pl.col("created").min().alias("since"))
    match table.scales.origin:
        case "replicas":
            found = sizes.sort("seq").unique([*_KEYS, "ts"], keep="last", maintain_order=True)
        case "most_common":
            found = _most_common(_alive(lives), spans)
        case _:
            found = _alive(lives)
    found = found.select(_COLUMNS).with_columns(
        pl.col("replicas").clip(lower_bound=table.scales.at_least)
    )
    found = changed_rows(found, _KEYS, ["replicas"]).join(since, on=_KEYS, how="left")
    first = pl.col("ts") == pl.col("ts").min().over(_KEYS)
    earlier = pl.min_horizontal("ts", "since")
    return found.with_columns(ts=pl.when(first).then(earlier).otherwise("ts")).select(_COLUMNS)


def _alive(lives: pl.DataFrame) -> pl.DataFrame:
    """Return how many pods are alive from each time on at which one came or went."""
    # A size is seen after its instant, pods from theirs on.
    came = lives.select(*_KEYS, ts=pl.col("created") - AFTER_MS, step=pl.lit(1))
    gone = lives.drop_nulls("gone")
    went = gone.select(*_KEYS, ts=pl.col("gone") - AFTER_MS, step=pl.lit(-1))
    steps = pl.concat([came, went]).group_by([*_KEYS, "ts"]).agg(pl.col("step").sum())
    return (
        steps.sort([*_KEYS, "ts"])
        .with_columns(replicas=pl.col("step").cum_sum().over(_KEYS).cast(pl.Int64))
        .drop("step")
    )


def _most_common(alive: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """Return one size per workload: the one it had for the longest time, the smaller of equals."""
    joined = alive.join(spans, on="cluster").sort([*_KEYS, "ts"])
    end = pl.col("ts").shift(-1).over(_KEYS).fill_null(pl.max_horizontal("last", "ts"))
    lasted = joined.with_columns(lasted=end - pl.max_horizontal("ts", "first"))
    total = lasted.group_by([*_KEYS, "replicas"]).agg(
        pl.col("lasted").clip(lower_bound=0).sum(), pl.col("ts").min()
    )
    begin = pl.col("ts").min().over(_KEYS)
    ranked = total.with_columns(ts=begin).sort(["lasted", "replicas"], descending=[True, False])
    return ranked.unique(_KEYS, keep="first", maintain_order=True)


def scales_table(sizes: pl.DataFrame, beside: Beside | None = None) -> pl.DataFrame:
    """Return the scales table of sizes; the selector is the objects', or that of pods' labels."""
    place = ["namespace", "kind", "target"]
    workloads = sizes.select(place).unique(maintain_order=True)
    known = [None if beside is None else beside.selector_of(*row) for row in workloads.rows()]
    names = workloads["target"].to_list()
    selectors = [
        selector_of(name) if found is None else found
        for name, found in zip(names, known, strict=True)
    ]
    workloads = workloads.with_columns(selector=pl.Series("selector", selectors, pl.String))
    sizes = sizes.join(workloads, on=place, how="left", maintain_order="left")
    return sizes.select(
        "cluster",
        "namespace",
        pl.col("kind").alias("target_kind"),
        "target",
        pl.col("ts").cast(TIME),
        pl.col("replicas").alias("spec_replicas"),
        pl.col("replicas").alias("status_replicas"),
        "selector",
    )


def guesses_provenance(
    workloads: pl.DataFrame, subjects: Sequence[str], beside: Beside | None
) -> pl.DataFrame:
    """Return rows of `provenance`: what the map guessed of the workloads that no objects know."""
    known = [] if beside is None else [key[::2] for key in beside.objects.workloads]
    places = pl.DataFrame(known, {"namespace": pl.String, "target": pl.String}, orient="row")
    unknown = workloads.join(places, on=places.columns, how="anti", maintain_order="left")
    rows = rows_provenance(unknown, "")
    parts = [
        rows.with_columns(
            subject=pl.lit(subject), method=pl.lit(GUESSED), detail=pl.lit(None, pl.String())
        )
        for subject in subjects
    ]
    return pl.concat(parts) if parts else rows.clear()


def first_sizes(sizes: pl.DataFrame) -> dict[Workload, int]:
    """Return since when each workload has a size, in ms, sorted by name."""
    found = sizes.group_by(_KEYS).agg(pl.col("ts").min()).sort(_KEYS)
    return {(str(c), str(n), str(k), str(t)): int(ms) for c, n, k, t, ms in found.rows()}


def beyond_max(sizes: pl.DataFrame, hpas: pl.DataFrame, spans: pl.DataFrame) -> list[str]:
    """Return a warning of workloads that have more pods than their HPA allows, for a while."""
    spec = pl.col("spec").str
    named = hpas.select(
        "cluster",
        "namespace",
        target=spec.json_path_match("$.scaleTargetRef.name"),
        most=spec.json_path_match("$.maxReplicas").cast(pl.Int64),
    )
    found = sizes.join(named, on=["cluster", "namespace", "target"]).join(spans, on="cluster")
    end = pl.col("ts").shift(-1).over(_KEYS).fill_null(pl.max_horizontal("last", "ts"))
    found = found.sort([*_KEYS, "ts"]).with_columns(lasted=end - pl.col("ts"))
    found = found.filter(pl.col("replicas") > pl.col("most")).group_by(_KEYS).agg(
        pl.col("lasted").sum(), pl.col("replicas").max(), pl.col("most", "first", "last").first()
    )  # fmt: skip
    least = pl.max_horizontal(pl.lit(_WHILE_MS), (pl.col("last") - pl.col("first")) // 100)
    found = found.filter(pl.col("lasted") > least).sort("lasted", *_KEYS, descending=True)
    if found.is_empty():
        return []
    row = found.row(0, named=True)
    more = f" (and {found.height - 1:,} more)" if found.height > 1 else ""
    return [
        f"{row['namespace']}/{row['target']}{more} has up to {row['replicas']:,} pods, more than "
        f"its HPA's maxReplicas {row['most']:,}, for {show_duration(row['lasted'])}: do names of "
        "pods come back (lives.gap), are these pods of several workloads (columns.workload), or "
        "was maxReplicas larger then?"
    ]


def summarize_workloads(
    lives: pl.DataFrame, sizes: pl.DataFrame, hpas: pl.DataFrame
) -> pl.DataFrame:
    """Return a row per workload: pods, sizes (smallest, largest, changes) and its HPAs."""
    pods = lives.group_by(_KEYS).agg(pl.len().cast(pl.Int64).alias("pods"))
    scaled = sizes.group_by(_KEYS).agg(
        pl.col("replicas").min().alias("replicas_min"),
        pl.col("replicas").max().alias("replicas_max"),
        (pl.len().cast(pl.Int64) - 1).alias("changes"),
    )
    target = pl.col("spec").str.json_path_match("$.scaleTargetRef.name")
    named = hpas.with_columns(target=target).group_by(["cluster", "namespace", "target"])
    names = named.agg(pl.col("name").sort().str.join(" ").alias("hpa"))
    joined = pods.join(scaled, on=_KEYS, how="left")
    joined = joined.join(names, on=["cluster", "namespace", "target"], how="left")
    return joined.sort(_KEYS)
