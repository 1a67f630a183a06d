"""One HPA in a window: its spec at each instant, from events, documents and what was exported.

Events count where they were recorded; before and after they are a document like a manifest: it
says what is not exported, and the exported numbers stand in place of its own.

kube-state-metrics exports a metric's name and target, but no type, selector, object or (in older
versions) container, and no behavior. cpu and memory are resources in nearly every HPA, so a spec
with these alone follows from the gauges; every other spec needs the document. Amounts are exported
in whole units (cores, bytes) as numbers; versions before 2.7 leave out amounts that are not whole,
and metrics of containers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from hpabatch.cluster.objects.rows import compact_json, instant_or_none
from hpabatch.importers.prometheus.client.samples import Span
from hpabatch.importers.prometheus.specs.recorded import Metric, Place, Recorded, RecordedLife
from hpabatch.model.objects.decode import hpa_from_json
from hpabatch.model.objects.defaults import default_spec
from hpabatch.model.objects.encode import spec_to_json
from hpabatch.model.objects.hpa import (
    HPA,
    ContainerResourceMetricSource,
    CrossVersionObjectReference,
    HPASpec,
    MetricSpec,
    MetricTarget,
    ResourceMetricSource,
)
from hpabatch.model.quantity import Quantity, json_number

VALUE, AVERAGE, UTILIZATION = "value", "average", "utilization"
RESOURCES: Final = ("cpu", "memory")
"""Names that are taken for resources; all that the metrics API has."""

_KINDS: Final = {VALUE: "Value", AVERAGE: "AverageValue", UTILIZATION: "Utilization"}
_ALLOWED: Final[Mapping[str, tuple[str, ...]]] = {
    "Resource": (UTILIZATION, AVERAGE),
    "ContainerResource": (UTILIZATION, AVERAGE),
    "Pods": (AVERAGE,),
    "Object": (VALUE, AVERAGE),
    "External": (VALUE, AVERAGE),
}
"""Targets that a type of metric can have."""

Targets = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Built:
    """A spec, or why there is none.

    Attributes:
        spec: None: it is not known.
        reason: of that, or "".
        edited: its numbers are as exported, not as in the document.
        contradicted: the exported scale target or metrics are others than the document's.
    """

    spec: HPASpec | None
    reason: str = ""
    edited: bool = False
    contradicted: bool = False


def build_spec(recorded: Recorded, document: HPA | None) -> Built:
    """Return the spec of an instant.

    Args:
        document: a spec of another time, or from a manifest; None: there is none.
    """
    if document is None:
        return _from_gauges(recorded)
    spec = document.spec
    metrics, contradicted, unknown = _metrics(spec.metrics, recorded.targets)
    target = spec.scale_target_ref
    if recorded.target is not None and recorded.target[1:] != (target.kind, target.name):
        target, contradicted = _reference(recorded.target), True
    if unknown:
        return Built(None, _unknown(unknown), contradicted=contradicted)
    found = replace(
        spec,
        scale_target_ref=target,
        min_replicas=spec.min_replicas if recorded.least is None else recorded.least,
        max_replicas=spec.max_replicas if recorded.most is None else recorded.most,
        metrics=metrics,
    )
    if default_spec(found) == default_spec(spec):
        found = spec
    return Built(found, edited=found is not spec, contradicted=contradicted)


def _from_gauges(recorded: Recorded) -> Built:
    if recorded.target is None:
        return Built(None, "what it scales is not exported")
    if not recorded.most:
        return Built(None, "its maxReplicas is not exported")
    if not recorded.targets:
        return Built(None, "its metrics are not exported")
    metrics, unknown = _resources(recorded.targets)
    if unknown:
        return Built(None, _unknown(unknown))
    spec = HPASpec(
        scale_target_ref=_reference(recorded.target),
        min_replicas=1 if recorded.least is None else recorded.least,
        max_replicas=recorded.most,
        metrics=metrics,
    )
    return Built(spec)


def _unknown(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"the type of its metric {names[0]} is not exported"
    return f"the types of its metrics {', '.join(sorted(names))} are not exported"


def _reference(target: tuple[str, str, str]) -> CrossVersionObjectReference:
    version, kind, name = target
    return CrossVersionObjectReference(kind, name, version)


def _resources(targets: Mapping[Metric, Targets]) -> tuple[tuple[MetricSpec, ...], list[str]]:
    """Return metrics of resources, and the names of those that are none."""
    found: list[MetricSpec] = []
    unknown: list[str] = []
    for (name, container), values in sorted(targets.items()):
        if name not in RESOURCES or not set(values) <= {UTILIZATION, AVERAGE}:
            unknown.append(name)
            continue
        # An HPA may have both, as two metrics.
        for kind in (UTILIZATION, AVERAGE):
            if kind not in values:
                continue
            target = _target({kind: values[kind]}, MetricTarget())
            if container:
                source = ContainerResourceMetricSource(name, container, target)
                found.append(MetricSpec("ContainerResource", container_resource=source))
            else:
                found.append(MetricSpec("Resource", resource=ResourceMetricSource(name, target)))
    return tuple(found), unknown


def _metrics(
    metrics: Sequence[MetricSpec], targets: Mapping[Metric, Targets]
) -> tuple[tuple[MetricSpec, ...], bool, list[str]]:
    """Return a document's metrics as exported, whether they are others, and which are unknown."""
    if not targets:
        return tuple(metrics), False, []
    shared = Counter(named(metric) for metric in metrics)
    contained = any(container for _, container in targets)
    found: list[MetricSpec] = []
    used: set[Metric] = set()
    for metric in metrics:
        key = named(metric) if contained else (named(metric)[0], "")
        values = targets.get(key)
        if values is None:
            if not _is_exported(metric):
                found.append(metric)
            continue
        used.add(key)
        # An exported name without a container can be a ContainerResource metric's, too.
        same = sum(named(one)[0] == key[0] for one in metrics)
        alone = shared[named(metric)] == 1 and (contained or same == 1)
        kept = {kind: values[kind] for kind in _ALLOWED.get(metric.type, ()) if kind in values}
        if alone and kept:
            metric = metric.with_target(_target(kept, metric.target))
        found.append(metric)
    lost = len(found) < len(metrics)
    rest = {key: values for key, values in targets.items() if key not in used}
    added, unknown = _resources(rest)
    return (*found, *added), lost or bool(rest), unknown


def named(metric: MetricSpec) -> Metric:
    """Return the name of a metric and, of a container's resource, the container, else ""."""
    if metric.container_resource is not None:
        return metric.container_resource.name, metric.container_resource.container
    custom = metric.pods or metric.object or metric.external
    name = metric.resource.name if metric.resource is not None else ""
    return (custom.metric.name if custom is not None else name), ""


def _is_exported(metric: MetricSpec) -> bool:
    """Whether every version of kube-state-metrics exports a metric."""
    target = metric.target
    amounts = [one for one in (target.value, target.average_value) if one is not None]
    whole = all(one.milli() % 1000 == 0 for one in amounts)
    return metric.container_resource is None and (whole or target.average_utilization is not None)


def _target(values: Targets, before: MetricTarget) -> MetricTarget:
    """Return a target with these values; amounts that are as before keep their spelling."""
    kinds = [_KINDS[kind] for kind in (UTILIZATION, AVERAGE, VALUE) if kind in values]
    return MetricTarget(
        type=before.type if before.type in kinds else kinds[0],
        value=_amount(values.get(VALUE), before.value),
        average_value=_amount(values.get(AVERAGE), before.average_value),
        average_utilization=None if UTILIZATION not in values else round(values[UTILIZATION]),
    )


def _amount(value: float | None, before: Quantity | None) -> Quantity | None:
    if value is None:
        return None
    if before is not None and abs(before.milli() / 1000 - value) <= 1e-9 * max(1.0, abs(value)):
        return before
    if value == round(value):
        return Quantity.parse(json_number(round(value)))
    return Quantity.from_milli(round(value * 1000))


_CONTENT: Final = ("uid", "spec", "labels", "annotations")
_NEVER: Final = 1 << 62

Row = dict[str, Any]
"""A row of `hpas` without its cluster, times in ms."""


@dataclass(frozen=True, slots=True)
class Exact:
    """Events of an HPA.

    Attributes:
        rows: of `hpas`, in order.
        last_ms: until when events were recorded.
        seen_first: it was there before its first row.
    """

    rows: Sequence[Row]
    last_ms: int
    seen_first: bool

    def row_at(self, ts: int) -> Row | None:
        """Return the row in force."""
        for row in self.rows:
            if row["valid_from"] <= ts < _end(row):
                return row
        return None


@dataclass(frozen=True, slots=True)
class Known:
    """Everything that is known of an HPA in a window.

    Attributes:
        cluster: for the uid that an HPA gets of which none is told.
        document: of a manifest; None: there is none.
        exact: from events; None: there are none.
    """

    place: Place
    cluster: str
    lives: Sequence[RecordedLife] = ()
    document: HPA | None = None
    exact: Exact | None = None


@dataclass(slots=True)
class Timeline:
    """States of an HPA in a window.

    Attributes:
        rows: of `hpas`, in order.
        begun: starts of rows that begin a life of an HPA that was not there before.
        ended_ms: when what the store has of it ends; None: it goes on, or has no row there.
        reasons: why its spec is not known, at times or always.
        used: what its specs come from: events, around (events of another time), document, gauges.
        edited, contradicted: how many of the specs differ from the document they come from.
        built: how many specs came from a document.
    """

    rows: list[Row] = field(default_factory=list)
    begun: set[int] = field(default_factory=set)
    ended_ms: int | None = None
    reasons: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    edited: int = 0
    contradicted: int = 0
    built: int = 0


def timeline(known: Known, span: Span, heartbeats: Sequence[int]) -> Timeline:
    """Return what an HPA was in a window.

    Args:
        known: everything that is known of it.
        heartbeats: when the exporter was read (ms, sorted).
    """
    return _Walk(known, span, heartbeats).run()


class _Walk:
    def __init__(self, known: Known, span: Span, heartbeats: Sequence[int]) -> None:
        self._known, self._span = known, span
        self._found = Timeline()
        exact = known.exact
        self._exact_from = exact.rows[0]["valid_from"] if exact is not None else _NEVER
        # Values that were exported right after the last event may be older than it.
        self._exact_to = -1
        if exact is not None:
            at = bisect_right(heartbeats, exact.last_ms)
            self._exact_to = heartbeats[at] if at < len(heartbeats) else exact.last_ms + 1

    def run(self) -> Timeline:
        found, current = self._found, None
        for ts in self._instants():
            fresh, of_events = False, self._exact_from <= ts < self._exact_to
            if of_events:
                assert self._known.exact is not None
                row = self._known.exact.row_at(ts)
                found.used |= {"events"} if row is not None else set()
            elif self._is_silent(ts):
                continue
            else:
                row, fresh = self._exported(ts)
            if (current is not None and row is not None) and all(
                current[name] == row[name] for name in _CONTENT
            ):
                continue
            since = row["valid_from"] if of_events and row is not None else ts
            if current is not None:
                since = max(since, current["valid_from"] + 1)
                current["valid_to"] = since
            elif row is None and not found.rows and found.ended_ms is None:
                found.ended_ms = since
                # It ended when what was there before the window did.
                first = next(iter(self._known.lives), None)
                if first is not None and not first.states and first.end_ms is not None:
                    found.ended_ms = first.end_ms
            current = None
            if row is not None:
                current = {**row, "valid_from": since, "valid_to": None}
                found.rows.append(current)
                if fresh:
                    found.begun.add(since)
        return found

    def _is_silent(self, ts: int) -> bool:
        """Whether the exporter was not scraped then: its next values held before, too."""
        for life in self._known.lives:
            if life.states:
                return not life.fresh and ts < life.states[0][0]
            if life.end_ms is None:
                return True
        return False

    def _instants(self) -> list[int]:
        after, until = self._span.after_ms, self._span.until_ms
        found = {after}
        for life in self._known.lives:
            found.update(ts for ts, _ in life.states)
            if life.end_ms is not None:
                found.add(life.end_ms)
        if self._known.exact is not None:
            found.add(self._exact_to)
            for row in self._known.exact.rows:
                found.update((row["valid_from"], _end(row)))
        return sorted(ts for ts in found if after <= ts <= until)

    def _exported(self, ts: int) -> tuple[Row | None, bool]:
        """Return the row of what was exported at an instant, and whether a life begins with it."""
        exact, found = self._known.exact, self._found
        life, state = self._state(ts)
        if life is None or state is None:
            if exact is not None and ts >= self._exact_to and not self._known.lives:
                found.used.add("events")  # It is not exported: its last state holds.
                return exact.row_at(ts), False
            return None, False
        base, row = self._base(ts)
        built = build_spec(state, base)
        if base is not None:
            found.built += 1
            found.edited += built.edited
            found.contradicted += built.contradicted
        if built.spec is None:
            if built.reason not in found.reasons:
                found.reasons.append(built.reason)
            return None, False
        found.used.add("gauges" if base is None else "document" if row is None else "around")
        fresh = life.fresh and ts == life.states[0][0]
        return self._row(built.spec, base, row, state, life), fresh

    def _base(self, ts: int) -> tuple[HPA | None, Row | None]:
        """Return the document at a time without an event, and its row, if any."""
        exact = self._known.exact
        if exact is not None:
            row = None
            if ts >= self._exact_to:
                row = exact.rows[-1]
            elif exact.seen_first:
                row = exact.rows[0]
            if row is not None:
                return HPA(spec=hpa_from_json(row["spec"])[0].spec), row
        return self._known.document, None

    def _row(
        self, spec: HPASpec, base: HPA | None, row: Row | None, state: Recorded, life: RecordedLife
    ) -> Row:
        namespace, name = self._known.place
        text = spec_to_json(HPA(spec=spec))
        kind = spec.scale_target_ref.kind
        uid = f"hpa-{self._known.cluster}-{namespace}-{kind}-{name}"
        created = None if base is None else _created(base, life)
        if base is not None and created is not None:
            uid = base.uid
        elif life.fresh:
            uid += f"-{life.states[0][0] // 1000}"
        if row is not None:
            same = hpa_from_json(row["spec"])[0].spec == spec
            changed = {"spec": row["spec"] if same else text, "generation": state.generation}
            exact = self._known.exact
            if exact is not None and life.fresh and life.states[0][0] > exact.last_ms:
                # It began after the last event, so it is not that of the events.
                changed |= {"uid": uid, "created": None}
            return row | changed
        return {
            "namespace": namespace, "name": name, "uid": uid, "valid_from": None, "valid_to": None,
            "spec": text,
            "labels": None if base is None else compact_json(dict(base.labels)),
            "annotations": None if base is None else compact_json(dict(base.annotations)),
            "created": created, "generation": state.generation,
        }  # fmt: skip

    def _state(self, ts: int) -> tuple[RecordedLife | None, Recorded | None]:
        """Return what was exported at an instant, None where the HPA was not there."""
        for life in reversed(self._known.lives):
            known = [state for since, state in life.states if since <= ts]
            if known and (life.end_ms is None or ts < life.end_ms):
                return life, known[-1]
        return None, None


def _end(row: Mapping[str, Any]) -> int:
    return _NEVER if row["valid_to"] is None else int(row["valid_to"])


def _created(document: HPA, life: RecordedLife) -> int | None:
    """Return the creation (ms) of an object if a life is its own: it goes on, from then or later.

    A manifest has no uid, and is of no life.
    """
    created = instant_or_none(document.creation_timestamp)
    if not document.uid or created is None or life.end_ms is not None:
        return None
    return created if created <= life.states[0][0] else None
