"""Other names for those of a fleet, the same one everywhere: `shop/checkout` is `namespace3/hpa12`.

A name is replaced in the field that holds it, before sentences are made of it. What may hold a name
and is no such field is left out. So of a page only the order of names can be told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

import polars as pl

from hpabatch.engine.fleet.candidates import NEVER_IN_FORCE, Candidate, Skipped
from hpabatch.engine.fleet.plan import ReplayPlan
from hpabatch.engine.replay.run import ReplayNotes
from hpabatch.jobs.folder import DIGEST
from hpabatch.layout import codes
from hpabatch.model.objects.describe import metric_name
from hpabatch.model.objects.hpa import (
    SOURCES,
    ContainerResourceMetricSource,
    CrossVersionObjectReference,
    LabelSelector,
    MetricIdentifier,
    MetricSpec,
    ObjectMetricSource,
    ResourceMetricSource,
)
from hpabatch.model.printable import counted
from hpabatch.model.selectors import go_print, selector_from_object

LEFT_OUT: Final = "left out, as it may hold names"
_KINDS: Final = (
    *("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController"),
    *("Pod", "Service", "Ingress", "Node"),
)
_COLUMNS: Final = {
    "cluster": "cluster",
    "namespace": "namespace",
    "hpa": "hpa",
    "target": "target",
    "target_kind": "kind",
}
_EVIDENCE: Final = (
    *("hpabatch", "k8s", "k8s_source", "k8s_evidence", "k8s_proof", "feature_gates", "events"),
    *("instants", "sync_period", "phase", "delay", "max_age", "tolerance", "generated_pods"),
    *("cpu_initialization_period", "initial_readiness_delay", "downscale_stabilization"),
)
"""Facts that hold no name; digests do not either."""


class Names:
    """Other names: a kind and a number, in the order of the names of a replay."""

    def __init__(self, plan: ReplayPlan) -> None:
        """Number the names of all HPAs of the clusters."""
        self._known: dict[tuple[str, str], str] = {}
        self._counts = Counter[str]()
        keys = [*(c.key for c in plan.everyone), *(s.key for s in plan.skipped)]
        self._width = len(str(len(keys)))
        for kind, names in zip(_COLUMNS, zip(*keys, strict=True), strict=False):
            for name in sorted(set(names)):
                self.of(kind, name)
        self._metrics: dict[str | None, str | None] = {None: None}
        for candidate in plan.everyone:
            for metric in (m for period in candidate.periods for m in period.spec.metrics):
                new = self._metric(metric)
                for code in (codes.RESOURCE_UTILIZATION, codes.OBJECT_VALUE, -1):
                    for named in (True, False):
                        told = metric_name(metric, code, named)
                        self._metrics[told] = metric_name(new, code, named)

    def of(self, kind: str, name: str) -> str:
        """Return the other name of one; no name stays none."""
        if name and (kind, name) not in self._known:
            self._counts[kind] += 1
            self._known[kind, name] = f"{kind}{self._counts[kind]:0{self._width}}"
        return self._known.get((kind, name), "")

    def key(self, key: Iterable[str]) -> tuple[str, str, str]:
        """Return cluster, namespace and HPA."""
        cluster, namespace, hpa = map(self.of, _COLUMNS, key)
        return cluster, namespace, hpa

    def told(self, metric: str | None) -> str | None:
        """Return the description of a metric."""
        return self._metrics.get(metric, "a metric")

    def frame(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return rows with other names in the columns that hold them."""
        found = {
            name: [None if old is None else self.of(kind, old) for old in rows[name]]
            for name, kind in _COLUMNS.items()
            if name in rows.columns
        }
        if "target_kind" in found:
            found["target_kind"] = [self._kind(kind) for kind in rows["target_kind"]]
        if "metric" in rows.columns:
            found["metric"] = list(map(self.told, rows["metric"]))
        return rows.with_columns(pl.Series(n, v, pl.String) for n, v in found.items())

    def plan(self, plan: ReplayPlan) -> ReplayPlan:
        """Return a plan of which only specs, flags and versions are looked at."""
        profiles = {self.of("cluster", c): p for c, p in plan.versions.profiles.items()}
        return replace(
            plan,
            chosen=tuple(map(self._candidate, plan.chosen)),
            flags={self.of("cluster", c): flags for c, flags in plan.flags.items()},
            versions=replace(plan.versions, profiles=profiles),
        )

    def notes(self, notes: ReplayNotes) -> ReplayNotes:
        """Return notes without sentences."""
        gone = f"{counted(len(notes.warnings), 'warning')}: {LEFT_OUT}"
        return ReplayNotes(
            tuple(
                Skipped(*self.key(s.key), s.reason if s.reason == NEVER_IN_FORCE else LEFT_OUT)
                for s in notes.skipped
            ),
            (gone,) if notes.warnings else (),
            {k: v for k, v in notes.evidence.items() if k in _EVIDENCE or k.startswith(DIGEST)},
        )

    def advice(self, item: dict[str, Any]) -> dict[str, Any]:
        """Return a recommendation without its sentences and its patch."""
        texts = {name: [LEFT_OUT] if item[name] else [] for name in ("reasons", "doubts", "surer")}
        gone = dict.fromkeys(("patch", "apply", "rollback", "currency"))
        withheld = LEFT_OUT if item["withheld"] or item["patch"] else None
        return item | texts | gone | {"key": list(self.key(item["key"])), "withheld": withheld}

    def _candidate(self, candidate: Candidate) -> Candidate:
        periods = tuple(
            replace(
                period,
                spec=replace(
                    period.spec,
                    scale_target_ref=self._reference(period.spec.scale_target_ref, "target"),
                    metrics=tuple(map(self._metric, period.spec.metrics)),
                ),
            )
            for period in candidate.periods
        )
        return Candidate(*self.key(candidate.key), periods)

    def _metric(self, metric: MetricSpec) -> MetricSpec:
        sources = {name: getattr(metric, name) for name in SOURCES}
        return replace(metric, **{n: self._source(s) for n, s in sources.items() if s is not None})

    def _source(self, source: Any) -> Any:
        match source:
            case ResourceMetricSource(name):
                return replace(source, name=self._resource(name))
            case ContainerResourceMetricSource(name, container):
                other = self.of("container", container)
                return replace(source, name=self._resource(name), container=other)
            case ObjectMetricSource(described, metric):
                other = self._reference(described, "object")
                return replace(source, described_object=other, metric=self._identifier(metric))
        return replace(source, metric=self._identifier(source.metric))

    def _identifier(self, metric: MetricIdentifier) -> MetricIdentifier:
        selector = metric.selector
        if selector is not None:
            try:
                selector_from_object(selector)
                labels = (("selector", self.of("labels", go_print(selector))),)
            except ValueError:
                labels = (("not valid", ""),)  # (as before it)
            selector = LabelSelector(labels)
        return MetricIdentifier(self.of("metric", metric.name), selector)

    def _reference(self, one: CrossVersionObjectReference, kind: str) -> Any:
        return CrossVersionObjectReference(self._kind(one.kind), self.of(kind, one.name))

    def _kind(self, kind: str) -> str:
        return kind if kind in _KINDS else self.of("kind", kind)

    def _resource(self, name: str) -> str:
        return name if name in ("cpu", "memory") else self.of("resource", name)
