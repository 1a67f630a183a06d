"""HPAs of a window: specs, statuses, scale targets, and missing facts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from hpabatch.history.columns import TIME
from hpabatch.importers.hpa_events.run import SPECS
from hpabatch.importers.prometheus.client.samples import Findings
from hpabatch.importers.prometheus.reading.window_fleet import Fleet, Target
from hpabatch.importers.prometheus.result import Source
from hpabatch.importers.prometheus.site import Beside
from hpabatch.importers.prometheus.specs.recorded import Place
from hpabatch.importers.prometheus.specs.specs import SpecWindow, spec_rows
from hpabatch.importers.prometheus.specs.status import status_rows
from hpabatch.importers.prometheus.windows import Window
from hpabatch.inputs.keda import ScaledObject
from hpabatch.model.objects.hpa import HPA

Row = dict[str, Any]

_MADE_UP: Final = "hpa-"
"""Prefix of uids that this package makes; those of clusters are hexadecimal."""


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
        # Rows of the store from before this window stay.
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
    """Whether a row equals the one before it, as far as it has values."""
    if row["spec"] != last["spec"]:
        return False
    told = all(row[name] in (None, last[name]) for name in ("labels", "annotations"))
    return told and (row["uid"] == last["uid"] or last["uid"].startswith(_MADE_UP))


OBJECTS = "objects"
"""Method of the table `provenance`: the spec is that of an object, as it is now."""

KEDA = "keda"
"""Method of the table `provenance`: the spec is made of a ScaledObject, as KEDA does."""


@dataclass(frozen=True, slots=True)
class WindowHpas:
    """The HPAs of a window.

    Attributes:
        fleet: what was exported of them.
        found: their specs.
        rows: of `hpas`, such that they continue what the store has.
        status: of `hpa_status`.
    """

    fleet: Fleet
    found: SpecWindow
    rows: pl.DataFrame
    status: pl.DataFrame

    @property
    def heartbeats(self) -> tuple[int, ...]:
        """When the exporter was read (ms)."""
        return self.fleet.heartbeats

    @property
    def sources(self) -> tuple[Source, ...]:
        """Provenance of behavior and metrics."""
        return self.found.sources

    def specs(self) -> list[HPA]:
        """Return the specs, each once; of an HPA that was edited there are several."""
        return list(self.found.hpas)

    def names(self) -> list[Place]:
        """Return the HPAs that were there."""
        return sorted({*self.fleet.hpas.names, *self.found.shown})

    def targets_by_hpa(self) -> dict[Place, frozenset[tuple[str, str]]]:
        """Return kind and name of all that an HPA scaled in the window."""
        found: dict[Place, set[tuple[str, str]]] = {}
        for hpa in self.found.hpas:
            reference = hpa.spec.scale_target_ref
            place = (hpa.namespace, hpa.name)
            found.setdefault(place, set()).add((reference.kind, reference.name))
        for place, target in self.fleet.scaled():
            found.setdefault(place, set()).add(target)
        return {place: frozenset(targets) for place, targets in found.items()}

    def targets(self) -> set[Target]:
        """Return all that is scaled."""
        by_hpa = self.targets_by_hpa()
        return {(ns, kind, name) for (ns, _), all_ in by_hpa.items() for kind, name in all_}

    def lacking(self) -> dict[str, set[str]]:
        """Return HPAs (namespace/name) by what is missing of them."""
        found: dict[str, set[str]] = {}
        for place, reason in self.found.left_out.items():
            found.setdefault(f"left out, as {reason}", set()).add("/".join(place))
        if self.found.without_behavior:
            names = {"/".join(place) for place in self.found.without_behavior}
            found["behavior is not exported: Kubernetes' defaults are assumed"] = names
        return found


def read_hpas(
    fleet: Fleet,
    beside: Beside,
    stored: pl.DataFrame | None,
    cluster: str,
    window: Window,
    namespaces: Collection[str],
    findings: Findings,
) -> WindowHpas:
    """Return what is known of the HPAs of a window.

    Args:
        fleet: what was exported.
        beside: manifests, ScaledObjects and recorded events.
        stored: the rows of `hpas` that the store has of the cluster; None: it has none.
        cluster: its name.
        window: the time.
        namespaces: only these; empty: all.
        findings: gets what was noticed.
    """
    own = () if beside.objects is None else {id(hpa) for hpa in beside.objects.hpas.values()}
    of_objects = {(hpa.namespace, hpa.name): OBJECTS for hpa in beside.hpas if id(hpa) in own}
    scaled = _of_keda(beside.mappings.scaled_objects, fleet)
    given = {(hpa.namespace or "default", hpa.name) for hpa in beside.hpas}
    made = {place: hpa for place, hpa in scaled.items() if place not in given}
    wanted = [
        hpa
        for hpa in (*beside.hpas, *made.values())
        if not namespaces or (hpa.namespace or "default") in namespaces
    ]
    found = spec_rows(
        fleet.gauges, window.span, fleet.heartbeats, cluster=cluster, findings=findings,
        manifests=wanted, methods={**of_objects, **dict.fromkeys(made, KEDA)},
        events=beside.events, namespaces=namespaces,
    )  # fmt: skip
    rows = merge_specs(found, stored, namespaces=namespaces)
    known = [_uids(rows)] if stored is None else [_uids(stored), _uids(rows)]
    return WindowHpas(fleet, found, rows, _status(fleet, beside, found, pl.concat(known), window))


def _uids(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the uid of each HPA since when (ms)."""
    since = pl.col("valid_from")
    if rows.schema["valid_from"] == TIME:
        since = since.dt.timestamp("ms")
    return rows.select("namespace", "name", "uid", since)


def _of_keda(objects: Collection[ScaledObject], fleet: Fleet) -> dict[Place, HPA]:
    """Return the HPAs that KEDA makes, with the metric names that were exported of them."""
    names: dict[Place, list[str]] = {}
    for gauge in ("hpa_target", "hpa_metric"):
        told = fleet.gauges[gauge].seen.select("namespace", fleet.hpas.label, "metric_name")
        for namespace, name, metric in told.drop_nulls().rows():
            names.setdefault((namespace, name), []).append(metric)
    found = {}
    for one in objects:
        hpa = one.hpa()
        place = (hpa.namespace or "default", hpa.name)
        found[place] = one.hpa(sorted(set(names.get(place, ()))))
    return found


def _status(
    fleet: Fleet,
    beside: Beside,
    found: SpecWindow,
    uids: pl.DataFrame,
    window: Window,
) -> pl.DataFrame:
    """Return the statuses: those that were recorded, else those that were exported."""
    span = window.span
    rows = status_rows(fleet.gauges, found.kinds(), span, initial=window.initial)
    rows = rows.sort("ts").join_asof(
        uids.sort("valid_from"), left_on="ts", right_on="valid_from",
        by=["namespace", "name"], strategy="nearest", check_sortedness=False,
    ).filter(pl.col("uid").is_not_null())  # fmt: skip
    if beside.events is None:
        return rows
    exact = beside.events.statuses.rows(span.after_ms, span.until_ms)
    place = ["namespace", "name"]
    others = rows.join(exact.select(place).unique(), on=place, how="anti")
    return pl.concat([others, exact], how="diagonal_relaxed")
