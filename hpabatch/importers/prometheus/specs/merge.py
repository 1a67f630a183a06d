"""A window's specs as rows for a store that has those of the windows before.

A spec that goes on as it was keeps its one row: windows are cut where days end, not where specs
change. A row is ended by one with its key that the store takes for the newer one.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import polars as pl

from hpabatch.history.columns import TIME
from hpabatch.importers.hpa_events.recorder import SPECS
from hpabatch.importers.prometheus.specs.recorded import Place
from hpabatch.importers.prometheus.specs.specs import SpecWindow

Row = dict[str, Any]

_MADE_UP: Final = "hpa-"
"""What a uid begins with that no cluster gave; those of clusters are hexadecimal."""


def merge_specs(
    found: SpecWindow, stored: pl.DataFrame | None, *, namespaces: Collection[str] = ()
) -> pl.DataFrame:
    """Return the rows of `hpas` to add, without cluster and with times in ms (`SPECS`), sorted.

    An HPA that the store has and the window does not know ended before the exporter was first read
    in it.

    Args:
        found: of the window.
        stored: the rows of the cluster that the store has; None: it has none.
        namespaces: those that the window is about; empty: all.
    """
    known = _by_place(stored)
    new: dict[Place, list[Row]] = {}
    for row in found.rows.rows(named=True):
        new.setdefault((row["namespace"], row["name"]), []).append(row)
    begun = {(namespace, name, since) for namespace, name, since in found.begun}
    added: list[Row] = []
    for place in sorted({*new, *known}):
        end = found.ends.get(place)
        if place not in found.shown and (not namespaces or place[0] in namespaces):
            end = found.read_ms
        whole = [dict(row) for row in known.get(place, ())]
        if whole and whole[-1]["valid_to"] is None and end is not None:
            whole[-1]["valid_to"] = max(end, whole[-1]["valid_from"] + 1)
        for row in new.get(place, ()):
            fresh = (*place, row["valid_from"]) in begun
            _add(whole, row, fresh=fresh, after_ms=found.after_ms)
        added += [row for row in whole if row not in known.get(place, ())]
    return pl.DataFrame(added, schema=SPECS).sort("namespace", "name", "uid", "valid_from")


def _by_place(stored: pl.DataFrame | None) -> dict[Place, list[Row]]:
    if stored is None or stored.is_empty():
        return {}
    times = [name for name, kind in stored.schema.items() if kind == TIME]
    frame = stored.with_columns(pl.col(times).to_physical()).select(
        pl.col(name) if name in stored.columns else pl.lit(None, kind).alias(name)
        for name, kind in SPECS.items()
    )
    rows: dict[Place, list[Row]] = {}
    for row in frame.cast(SPECS).sort("valid_from").rows(named=True):
        rows.setdefault((row["namespace"], row["name"]), []).append(row)
    return rows


def _add(whole: list[Row], row: Row, *, fresh: bool, after_ms: int) -> None:
    """Add a row to those of an HPA, which are sorted and end before it or go on into it."""
    if not whole:
        whole.append(row)
        return
    last = whole[-1]
    if row["valid_from"] < last["valid_from"]:
        # What the store has of the time before this window stays.
        row = {**row, "valid_from": max(after_ms, last["valid_from"])}
    joined = not fresh and last["valid_to"] in (None, row["valid_from"])
    if joined and row["uid"].startswith(_MADE_UP):
        row = {**row, "uid": last["uid"]}
    if row["valid_from"] == last["valid_from"]:
        # Of the same key, so that it stands in place of the other one.
        whole[-1] = {**row, "uid": last["uid"]}
    elif joined and _same(last, row):
        last["valid_to"] = row["valid_to"]
    else:
        if last["valid_to"] is None or last["valid_to"] > row["valid_from"]:
            last["valid_to"] = row["valid_from"]
        whole.append(row)


def _same(last: Row, row: Row) -> bool:
    """Whether a row says what the one before it says; what it does not tell does not differ."""
    if row["spec"] != last["spec"]:
        return False
    told = all(row[name] in (None, last[name]) for name in ("labels", "annotations"))
    return told and (row["uid"] == last["uid"] or last["uid"].startswith(_MADE_UP))
