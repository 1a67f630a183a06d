"""Requests of pods that the server does not export, from objects of the cluster."""

from __future__ import annotations

from typing import Final

import polars as pl

from hpabatch.importers.objects import Disagreements, PodRequests
from hpabatch.importers.prometheus.pods.requests import REQUESTS
from hpabatch.model.quantity import Quantity

_AMOUNTS: Final = ("cpu_milli", "memory_milli", "cpu_limit_milli", "memory_limit_milli")
_CONTAINER: Final = ["uid", "container"]
_POD: Final = ("namespace", "target", "uid", "target_kind", "created")


def known_requests(pods: pl.DataFrame, requests: PodRequests) -> pl.DataFrame:
    """Return the rows of `pod_requests` (REQUESTS) that objects know of pods (POD_ROWS)."""
    found: list[tuple[object, ...]] = []
    for namespace, target, uid, kind, created in pods.select(_POD).drop_nulls().rows():
        for row in requests.of_pod(uid, (namespace, kind, target)):
            found.append((namespace, target, uid, *row[:3], created, *row[3:]))
    return pl.DataFrame(found, schema=REQUESTS, orient="row")


def filled_requests(rows: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """Return requests of a window whose server exports none, with the amounts that objects know.

    Args:
        rows: of the window (REQUESTS): the containers that were there.
        known: of `known_requests`.
    """
    amounts = known.select(*_CONTAINER, *(pl.col(name).alias(f"o.{name}") for name in _AMOUNTS))
    joined = rows.join(amounts, on=_CONTAINER, how="left", maintain_order="left")
    told = joined.with_columns(pl.coalesce(name, f"o.{name}").alias(name) for name in _AMOUNTS)
    more = known.join(rows, on=_CONTAINER, how="anti", maintain_order="left")
    both = pl.concat([told.select(list(REQUESTS)), more])
    return both.sort("namespace", "uid", "kind", "index", "valid_from")


def compare_requests(rows: pl.DataFrame, known: pl.DataFrame, told: Disagreements) -> None:
    """Note containers of which the server's last amount is not that of the objects."""
    last = rows.sort("valid_from").unique(_CONTAINER, keep="last", maintain_order=True)
    joined = last.join(known, on=_CONTAINER, suffix="_known")
    for name in _AMOUNTS:
        if last[name].null_count() == last.height:
            continue  # (the server exports none of these)
        other = joined.filter(pl.col(name).ne_missing(pl.col(f"{name}_known")))
        columns = ("namespace", "target", "container", name, f"{name}_known")
        what = f"{name.split('_')[0]} {'limits' if 'limit' in name else 'requests'}"
        told.add(
            f"{what} of containers differ from the objects' (the server's count)",
            [
                f"{namespace}/{target}/{container} ({_shown(one)} at the server, {_shown(two)} in "
                "the objects)"
                for namespace, target, container, one, two in other.select(columns).unique().rows()
            ],
        )


def _shown(milli: int | None) -> str:
    return "none" if milli is None else str(Quantity.from_milli(milli))
