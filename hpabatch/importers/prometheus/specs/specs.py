"""Specs of HPAs in a window, and their provenance.

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
from hpabatch.importers.hpa_events.run import SPECS, Events
from hpabatch.importers.prometheus.client.samples import Findings, Span
from hpabatch.importers.prometheus.reading.gauges import Gauge
from hpabatch.importers.prometheus.result import Source
from hpabatch.importers.prometheus.specs.recorded import Place, recorded_lives
from hpabatch.importers.prometheus.specs.timeline import Exact, Known, Row, Timeline, timeline
from hpabatch.model.objects.decode import hpa_from_json
from hpabatch.model.objects.hpa import HPA

EXPORTED: Final = "exported"
"""Method of facts from kube-state-metrics."""

_DEFAULTS: Final = "not exported; Kubernetes' defaults are assumed"
_AROUND: Final = "recorded at another time"
_RESOURCES: Final = "cpu and memory are taken for resources of whole pods; their order is assumed"
_NUMBERS: Final = "bounds and targets as exported"
_OTHERS: Final = "bounds, targets, and at times other metrics or another target, as exported"


@dataclass(frozen=True)
class SpecWindow:
    """The specs of a window; `merge_specs` makes the rows for the store.

    Attributes:
        rows: of `hpas` without its cluster, times in ms (`SPECS`), sorted.
        begun: namespace, name and valid_from of rows that begin a life of an HPA that was seen
            not to be there before.
        ends: when the row ends that a store may have of an HPA.
        shown: all HPAs that the window knows of.
        after_ms: when the window begins.
        read_ms: the exporter's first reading inside the window; None: it was not read.
        hpas: the specs, each once, with the namespace and name of its HPA.
        left_out: HPAs whose spec is not known, at times or always, and why.
        without_behavior: HPAs whose behavior is not known; they have Kubernetes' defaults.
        sources: how behavior and metrics of each HPA were come by.
        unused: documents of HPAs that are neither exported nor recorded.
        warnings: documents that cannot be those of the HPAs that were exported.
    """

    rows: pl.DataFrame
    begun: frozenset[tuple[str, str, int]]
    ends: Mapping[Place, int]
    shown: frozenset[Place]
    after_ms: int
    read_ms: int | None
    hpas: tuple[HPA, ...]
    left_out: Mapping[Place, str]
    without_behavior: frozenset[Place]
    sources: tuple[Source, ...]
    unused: frozenset[Place]
    warnings: tuple[str, ...]

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


@dataclass(slots=True)
class _Window:
    rows: list[Row] = field(default_factory=list)
    begun: set[tuple[str, str, int]] = field(default_factory=set)
    ends: dict[Place, int] = field(default_factory=dict)
    left_out: dict[Place, str] = field(default_factory=dict)
    without_behavior: set[Place] = field(default_factory=set)
    sources: list[Source] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


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
    edits = _edits(events)
    found, clock = _Window(), tuple(heartbeats)
    places = sorted({*lives, *exact})
    for place in places:
        known = Known(
            place, cluster, lives.get(place, ()), documents.get(place), exact.get(place),
            edits.get(place, ()),
        )  # fmt: skip
        one = timeline(known, span, clock)
        method = (methods or {}).get(place, MANIFEST)
        _add(found, known, one, method)
        findings.note("edit", f"of {'/'.join(place)}, of something that is not exported",
                      int(one.hidden))  # fmt: skip
    inside = [ts for ts in heartbeats if span.after_ms < ts <= span.until_ms]
    rows = pl.DataFrame(found.rows, schema=SPECS)
    return SpecWindow(
        rows=rows,
        begun=frozenset(found.begun),
        ends=found.ends,
        shown=frozenset(places),
        after_ms=span.after_ms,
        read_ms=inside[0] if inside else None,
        hpas=_decoded(rows),
        left_out=found.left_out,
        without_behavior=frozenset(found.without_behavior),
        sources=tuple(found.sources),
        unused=frozenset(documents).difference(places),
        warnings=tuple(found.warnings),
    )


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


def _edits(events: Events | None) -> dict[Place, list[int]]:
    found: dict[Place, list[int]] = {}
    if events is not None:
        for namespace, name, ts, _ in events.edits.sort("ts").rows():
            found.setdefault((namespace, name), []).append(ts)
    return found


def _add(found: _Window, known: Known, one: Timeline, method: str) -> None:
    """Add what an HPA was."""
    place = known.place
    found.rows += one.rows
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


def _decoded(rows: pl.DataFrame) -> tuple[HPA, ...]:
    found = []
    for namespace, name, text in (
        rows.select("namespace", "name", "spec").unique(maintain_order=True).rows()
    ):
        found.append(HPA(name=name, namespace=namespace, spec=hpa_from_json(text)[0].spec))
    return tuple(found)
