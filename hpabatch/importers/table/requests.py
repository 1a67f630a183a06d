"""Requests of a table's containers: by its rows, the map, and objects of the cluster.

Of an amount that several say, the table's counts, then the map's for that workload, the objects',
the map's for all.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from hpabatch.history.columns import TIME
from hpabatch.importers.common.objects import AMOUNTS, compare_amounts, known_requests, with_known
from hpabatch.importers.table.map import TableMap
from hpabatch.importers.table.objects import DEFAULT_KIND, Beside
from hpabatch.importers.table.rows import amounts
from hpabatch.importers.table.values import Amount

REQUESTED: Final = dict(
    zip(("requests.cpu", "requests.memory", "limits.cpu", "limits.memory"), AMOUNTS, strict=True)
)
"""Clean columns of requests and limits, and their columns in pod_requests."""

_PLACE: Final = ("namespace", "target", "container")
_CONTAINER: Final = ["cluster", "uid", "container"]


def requested_names(table: TableMap) -> list[str]:
    """Return the clean columns of requests and limits that a table's rows have."""
    return [name for name in amounts(table) if name in REQUESTED]


def requests_table(
    containers: pl.DataFrame, changes: pl.DataFrame | None, table: TableMap
) -> pl.DataFrame:
    """Return rows of `pod_requests`.

    Args:
        containers: cluster, namespace, target, uid, container and created (ms), once each.
        changes: cluster, uid, container, ts (ms) and the amounts that the table's rows hold, only
            where one of them changed; None where no amount is in the rows.
        table: the map.
    """
    said = {
        REQUESTED[f"{kind}.{resource}"]: amount
        for kind, listed in (("requests", table.requests), ("limits", table.limits))
        for resource, amount in listed.items()
    }
    rows = containers.with_columns(valid_from="created")
    if changes is not None:
        rows = _over_time(containers, changes.rename(REQUESTED, strict=False))
    rows = _with_objects(rows, table, said)
    for name in AMOUNTS:
        rows = _with_amount(rows, name, said.get(name, Amount()), table.beside)
    for name, amount in said.items():
        if amount.share is not None:
            limit = pl.col(name.replace("_milli", "_limit_milli"))
            share = (limit * amount.share).round(0).cast(pl.Int64)
            rows = rows.with_columns(pl.coalesce(name, share).alias(name))
    after = pl.col("index").max().over("cluster", "uid").fill_null(-1) + 1
    rank = pl.col("container").rank("dense").over("cluster", "uid", "kind").cast(pl.Int64) - 1
    return rows.select(
        *("cluster", "namespace", "target", "uid", "container"),
        pl.col("kind").fill_null("app"),
        pl.when(pl.col("kind").is_null()).then(after + rank).otherwise("index").alias("index"),
        pl.col("valid_from").cast(TIME),
        *AMOUNTS,
    )


def _over_time(containers: pl.DataFrame, changes: pl.DataFrame) -> pl.DataFrame:
    """Return a row per container and change; what is known first holds from the beginning."""
    rows = containers.join(changes, on=_CONTAINER, how="left").sort([*_CONTAINER, "ts"])
    # The last change before the pod's beginning counts from its beginning on.
    valid_from = pl.max_horizontal(pl.col("ts"), pl.col("created")).fill_null(pl.col("created"))
    rows = rows.with_columns(valid_from=valid_from)
    rows = rows.unique([*_CONTAINER, "valid_from"], keep="last", maintain_order=True)
    first = pl.col("valid_from") == pl.col("valid_from").min().over(_CONTAINER)
    return rows.with_columns(valid_from=pl.when(first).then("created").otherwise("valid_from"))


def _with_objects(rows: pl.DataFrame, table: TableMap, said: dict[str, Amount]) -> pl.DataFrame:
    """Return rows with kind, index and amounts (`o.`) of the objects, null where none says any."""
    if table.beside is None:
        return rows.with_columns(
            pl.lit(None, pl.String).alias("kind"),
            pl.lit(None, pl.Int64).alias("index"),
            *(pl.lit(None, pl.Int64).alias(f"o.{name}") for name in AMOUNTS),
        )
    place = rows.select("namespace", "target").unique()
    kind_of = table.beside.objects.kind_of
    kinds = [kind_of(*names) or DEFAULT_KIND for names in place.rows()]
    place = place.with_columns(target_kind=pl.Series(kinds, dtype=pl.String))
    pods = rows.select("cluster", "namespace", "target", "uid", valid_from="created")
    pods = pods.unique(maintain_order=True).join(
        place, on=["namespace", "target"], how="left", maintain_order="left"
    )
    known = known_requests(pods, table.beside.requests).drop("target_kind")
    if table.whole_pods and any(amount.source is not None for amount in said.values()):
        # Its amounts are those of whole pods, too, which no single container has.
        known = known.join(rows, on=_CONTAINER, how="semi")
    elif table.whole_pods:
        other = rows.join(known, on=_CONTAINER, how="anti")
        other = other.join(known, on=["cluster", "uid"], how="semi")
        rows = rows.join(other, on=_CONTAINER, how="anti")
    return with_known(rows, known, _CONTAINER)


def _with_amount(
    rows: pl.DataFrame, name: str, amount: Amount, beside: Beside | None
) -> pl.DataFrame:
    """Add an amount as the first of its sources has it."""
    places = rows.select(_PLACE).unique(maintain_order=True)
    listed = [amount.named(*row) for row in places.rows()] if amount.listed else None
    places = places.with_columns(listed=pl.Series("listed", listed, pl.Int64) if listed else None)
    rows = rows.join(places, on=list(_PLACE), how="left", maintain_order="left")
    own = pl.col(name) if name in rows.columns else pl.lit(None, pl.Int64)
    # The map's amounts are those of containers that run.
    runs = pl.col("kind").is_null() | pl.col("kind").is_in(["app", "sidecar"])
    rows = rows.with_columns(own=own.cast(pl.Int64), listed=pl.when(runs).then("listed"))
    if beside is not None:
        last = rows.filter(pl.col(f"o.{name}").is_not_null()).sort("valid_from")
        last = last.unique(_CONTAINER, keep="last", maintain_order=True)
        stated = last.filter(pl.col("own").is_not_null())
        compare_amounts(stated, name, "own", beside.told, ("in the table", "the table counts"))
        stated = last.filter(pl.col("own").is_null() & pl.col("listed").is_not_null())
        compare_amounts(stated, name, "listed", beside.told, ("in the map", "the map counts"))
    constant = pl.when(runs).then(pl.lit(amount.constant, pl.Int64))
    told = pl.coalesce("own", "listed", f"o.{name}", constant)
    return rows.with_columns(told.alias(name)).drop("own", "listed")
