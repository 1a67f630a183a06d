"""HPAs of a window: specs with their provenance, statuses, scale targets, missing facts.

kube-state-metrics exports what an HPA scales, its bounds, and its metrics' names and targets: no
behavior, no types, no selectors. Documents beside (manifests, KEDA's ScaledObjects) or recorded
events give the rest. An HPA whose metrics are not known is left out and named: with other metrics
its decisions would be others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from hpabatch.history.provenance import ABSENT, BEHAVIOR, EVENTS, MANIFEST, METRICS
from hpabatch.importers.common.rows import in_ms
from hpabatch.importers.hpa_events.run import SPECS, Events
from hpabatch.importers.prometheus.client.samples import Findings, Span
from hpabatch.importers.prometheus.reading.gauges import Gauge
from hpabatch.importers.prometheus.reading.window_fleet import Fleet, Target
from hpabatch.importers.prometheus.result import Source
from hpabatch.importers.prometheus.site import Beside
from hpabatch.importers.prometheus.specs.recorded import Place, recorded_lives
from hpabatch.importers.prometheus.specs.status import status_rows
from hpabatch.importers.prometheus.specs.timeline import Exact, Known, Row, Timeline, timeline
from hpabatch.importers.prometheus.windows import Window
from hpabatch.inputs.keda import ScaledObject
from hpabatch.model.objects.decode import hpa_from_json
from hpabatch.model.objects.hpa import HPA

EXPORTED: Final = "exported"
"""Method of facts from kube-state-metrics."""

_DEFAULTS: Final = "not exported; Kubernetes' defaults are assumed"
_AROUND: Final = "recorded at another time"
_RESOURCES: Final = "cpu and memory are taken for resources of whole pods; their order is assumed"
_NUMBERS: Final = "bounds and targets as exported"
_OTHERS: Final = "bounds, targets, and at times other metrics or another target, as exported"


@dataclass(slots=True)
class SpecWindow:
    """The specs of a window; `merge_specs` makes the rows for the store.

    Attributes:
        after_ms: when the window begins.
        read_ms: the exporter's first reading inside the window; None: it was not read.
        rows: of `hpas` without its cluster, times in ms (`SPECS`), sorted.
        begun: namespace, name and valid_from of rows that begin a life of an HPA that was seen
            not to be there before.
        ends: when the row ends that a store may have of an HPA.
        shown: all HPAs that the window knows of.
        hpas: the specs, each once, with the namespace and name of its HPA.
        left_out: HPAs whose spec is not known, at times or always, and why.
        without_behavior: HPAs whose behavior is not known; they have Kubernetes' defaults.
        sources: how behavior and metrics of each HPA were come by.
        unused: documents of HPAs that are neither exported nor recorded.
        warnings: documents that cannot be those of the HPAs that were exported.
    """

    after_ms: int
    read_ms: int | None
    rows: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=SPECS))
    begun: set[tuple[str, str, int]] = field(default_factory=set)
    ends: dict[Place, int] = field(default_factory=dict)
    shown: set[Place] = field(default_factory=set)
    hpas: list[HPA] = field(default_factory=list)
    left_out: dict[Place, str] = field(default_factory=dict)
    without_behavior: set[Place] = field(default_factory=set)
    sources: list[Source] = field(default_factory=list)
    unused: set[Place] = field(default_factory=set)
    warnings: list[str] = field(default_factory=list)

    def kinds(self) -> dict[tuple[str, str, str], str]:
        """Return the type of each metric by namespace, HPA and the metric's name.

        Of a name that has several types in one HPA there is none.
        """
        found: dict[tuple[str, str, str], set[str]] = {}
        for hpa in self.hpas:
            for metric in hpa.spec.metrics:
                for source in (metric.resource, metric.container_resource):
                    if source is not None:
                        key = (hpa.namespace, hpa.name, source.name)
                        found.setdefault(key, set()).add(metric.type)
                for custom in (metric.pods, metric.object, metric.external):
                    if custom is not None:
                        key = (hpa.namespace, hpa.name, custom.metric.name)
                        found.setdefault(key, set()).add(metric.type)
        return {key: next(iter(types)) for key, types in found.items() if len(types) == 1}


def spec_rows(
    gauges: Mapping[str, Gauge],
    span: Span,
    heartbeats: Sequence[int],
    *,
    cluster: str,
    findings: Findings,
    manifests: Sequence[HPA] = (),
    methods: Mapping[Place, str] | None = None,
    events: Events | None = None,
    namespaces: Collection[str] = (),
) -> SpecWindow:
    """Return the specs of a window.

    Args:
        gauges: by name (`recorded`): `hpa_info`, `hpa_min`, `hpa_max`, `hpa_target`,
            `hpa_generation`; by namespace, `horizontalpodautoscaler` and their own labels, and
            `hpa_info` and `hpa_target` by `container`, too, if it is to be heeded.
        span: the window.
        heartbeats: when the exporter was read (ms, sorted), also in the lookback.
        cluster: for the uid of HPAs of which none is told.
        findings: gets ("edit", …) per HPA that was edited without anything exported changing.
        manifests: documents of HPAs, one for each; a namespace of "" is `default`.
        methods: how a document was come by, where it is not by a manifest.
        events: what was recorded of HPAs; None: nothing.
        namespaces: only events of these; empty: all.
    """
    lives = recorded_lives(gauges, span, heartbeats)
    documents = {(hpa.namespace or "default", hpa.name): hpa for hpa in manifests}
    exact = _exact(events, span, namespaces)
    edits: dict[Place, list[int]] = {}
    for namespace, name, ts, _ in () if events is None else events.edits.sort("ts").rows():
        edits.setdefault((namespace, name), []).append(ts)
    inside = (ts for ts in heartbeats if span.after_ms < ts <= span.until_ms)
    found, rows = SpecWindow(span.after_ms, next(inside, None)), []
    for place in sorted({*lives, *exact}):
        known = Known(
            place, cluster, lives.get(place, ()), documents.pop(place, None), exact.get(place),
            edits.get(place, ()),
        )  # fmt: skip
        one = timeline(known, span, heartbeats)
        rows += one.rows
        _take(found, known, one, (methods or {}).get(place, MANIFEST))
        findings.note("edit", f"of {'/'.join(place)}, of something that is not exported",
                      int(one.hidden))  # fmt: skip
    found.unused = set(documents)
    found.rows = pl.DataFrame(rows, schema=SPECS)
    specs = found.rows.select("namespace", "name", "spec").unique(maintain_order=True)
    found.hpas = [
        HPA(name=name, namespace=namespace, spec=hpa_from_json(text)[0].spec)
        for namespace, name, text in specs.rows()
    ]
    return found


def _exact(events: Events | None, span: Span, namespaces: Collection[str]) -> dict[Place, Exact]:
    """Return what events say of each HPA that there was until the end of the window."""
    if events is None or events.last_ms is None:
        return {}
    rows: dict[Place, list[Row]] = {}
    ours = events.hpas.filter(pl.col("valid_from") <= span.until_ms).sort("valid_from")
    for row in ours.rows(named=True):
        if not namespaces or row["namespace"] in namespaces:
            rows.setdefault((row["namespace"], row["name"]), []).append(row)
    return {
        place: Exact(own, events.last_ms, place in events.seen_first)
        for place, own in rows.items()
        if own[-1]["valid_to"] is None or own[-1]["valid_to"] > span.from_ms
    }


def _take(found: SpecWindow, known: Known, one: Timeline, method: str) -> None:
    """Add what an HPA was, but its rows."""
    place = known.place
    found.shown.add(place)
    found.begun |= {(*place, since) for since in one.begun}
    if one.ended_ms is not None:
        found.ends[place] = one.ended_ms
    if one.reasons:
        found.left_out[place] = "; ".join(one.reasons)
    if "gauges" in one.used:
        found.without_behavior.add(place)
    alone = known.document is not None and known.exact is None
    if alone and one.built and one.contradicted == one.built:
        found.warnings.append(
            f"the document of HPA {'/'.join(place)} ({method}) has another target or other metrics "
            "than what was exported all the time: is it the right one, of the right time?"
        )
    found.sources += _sources(place, one, method)


def _sources(place: Place, one: Timeline, method: str) -> list[Source]:
    behavior: tuple[str, str | None] | None = None
    metrics: tuple[str, str | None] | None = None
    numbers = _OTHERS if one.contradicted else _NUMBERS if one.edited else None
    if "gauges" in one.used:
        behavior, metrics = (ABSENT, _DEFAULTS), (EXPORTED, _RESOURCES)
    elif "document" in one.used:
        behavior, metrics = (method, None), (method, numbers)
    elif "around" in one.used:
        behavior, metrics = (EVENTS, _AROUND), (EVENTS, numbers or _AROUND)
    elif "events" in one.used:
        behavior = metrics = (EVENTS, None)
    elif one.reasons:
        metrics = (ABSENT, one.reasons[0])
    pairs = ((BEHAVIOR, behavior), (METRICS, metrics))
    return [Source(subject, *said, *place) for subject, said in pairs if said is not None]


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
    added: list[Row] = []
    for place in sorted({*new, *known}):
        end = found.ends.get(place)
        if place not in found.shown and (not namespaces or place[0] in namespaces):
            end = found.read_ms
        whole = [dict(row) for row in known.get(place, ())]
        if whole and whole[-1]["valid_to"] is None and end is not None:
            whole[-1]["valid_to"] = max(end, whole[-1]["valid_from"] + 1)
        for row in new.get(place, ()):
            fresh = (*place, row["valid_from"]) in found.begun
            _add(whole, row, fresh=fresh, after_ms=found.after_ms)
        added += [row for row in whole if row not in known.get(place, ())]
    return pl.DataFrame(added, schema=SPECS).sort("namespace", "name", "uid", "valid_from")


def _by_place(stored: pl.DataFrame | None) -> dict[Place, list[Row]]:
    rows: dict[Place, list[Row]] = {}
    if stored is None:
        return rows
    frame = in_ms(stored).select(
        pl.col(name) if name in stored.columns else pl.lit(None, kind).alias(name)
        for name, kind in SPECS.items()
    )
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
    since = ("namespace", "name", "uid", "valid_from")
    known = [in_ms(part).select(since) for part in (stored, rows) if part is not None]
    return WindowHpas(fleet, found, rows, _status(fleet, beside, found, pl.concat(known), window))


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
