"""Recorded sizes of workloads: from a column, or counted from the pods alive."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from hpabatch.history.columns import AFTER_MS, TIME
from hpabatch.history.provenance import GUESSED
from hpabatch.importers.common.claims import rows_provenance
from hpabatch.importers.common.continued import changed_rows
from hpabatch.importers.table.hpas import Workload
from hpabatch.importers.table.lives import PLACE, selector_of
from hpabatch.importers.table.map import TableMap
from hpabatch.importers.table.objects import Beside

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
        case "constant":
            found = since.select(*_KEYS, ts="since").with_columns(
                replicas=pl.lit(table.scales.size, dtype=pl.Int64)
            )
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
