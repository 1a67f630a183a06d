"""Other names for those of a fleet, the same one everywhere: `shop/checkout` is `namespace3/hpa12`.

A name is replaced in the field that holds it, before sentences are made of it. What may hold a name
and is no such field is left out. So of a page only the order of names can be told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final

import polars as pl

from hpabatch.engine.analyze.remarks import remarks
from hpabatch.engine.analyze.run import analyze_hpa
from hpabatch.engine.fleet.candidates import NEVER_IN_FORCE, Skipped
from hpabatch.engine.fleet.plan import ReplayPlan
from hpabatch.engine.replay.attention import apply_rules
from hpabatch.engine.replay.run import ReplayNotes
from hpabatch.engine.replay.summary import KEY
from hpabatch.jobs.folder import DIGEST
from hpabatch.layout import codes
from hpabatch.model.objects.describe import metric_name
from hpabatch.model.objects.hpa import (
    ContainerResourceMetricSource,
    CrossVersionObjectReference,
    LabelSelector,
    MetricIdentifier,
    ResourceMetricSource,
)
from hpabatch.model.printable import counted
from hpabatch.model.quantity import Quantity
from hpabatch.model.selectors import go_print, selector_from_object

LEFT_OUT: Final = "left out, as it may hold names"
_COLUMNS: Final = {
    "cluster": "cluster",
    "namespace": "namespace",
    "hpa": "hpa",
    "target": "target",
    "target_kind": "kind",
}
_FIELDS: Final[dict[type, dict[str, str]]] = {
    CrossVersionObjectReference: {"kind": "kind", "name": "target", "api_version": "version"},
    MetricIdentifier: {"name": "metric"},
    ResourceMetricSource: {"name": "resource"},
    ContainerResourceMetricSource: {"name": "resource", "container": "container"},
}
"""Columns, and fields of a spec, that hold names, with the kind of these."""
_KEPT: Final = {
    "resource": ("cpu", "memory"),
    "kind": (
        *("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController"),
        *("Pod", "Service", "Ingress", "Node"),
    ),
}
_EVIDENCE: Final = (
    *("hpabatch", "k8s", "k8s_source", "k8s_evidence", "k8s_proof", "feature_gates", "events"),
    *("instants", "sync_period", "phase", "delay", "max_age", "tolerance", "generated_pods"),
    *("cpu_initialization_period", "initial_readiness_delay", "downscale_stabilization"),
)
"""Facts that hold no name (`max_age`: of clusters, which are replaced); digests do not either."""


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
        standing = tuple(self.of("cluster", name) for name in plan.settled.standing)
        self._max_age = replace(plan.settled, standing=standing).max_age_text()
        self._metrics: dict[str | None, str | None] = {None: None}
        for candidate in plan.everyone:
            for metric in (m for period in candidate.periods for m in period.spec.metrics):
                new = self._part(metric)
                for code in (codes.RESOURCE_UTILIZATION, codes.OBJECT_VALUE, -1):
                    for named in (True, False):
                        told = metric_name(metric, code, named)
                        self._metrics[told] = metric_name(new, code, named)

    def of(self, kind: str, name: str) -> str:
        """Return the other name of one; no name stays none, and one of Kubernetes stays."""
        if name in _KEPT.get(kind, ()):
            return name
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
        if "metric" in rows.columns:
            found["metric"] = list(map(self.told, rows["metric"]))
        return rows.with_columns(pl.Series(n, v, pl.String) for n, v in found.items())

    def findings(
        self, found: pl.DataFrame, summary: pl.DataFrame, plan: ReplayPlan
    ) -> pl.DataFrame:
        """Return findings with sentences made of a summary and of specs with other names.

        Of other findings only what to do is left.
        """
        told: dict[tuple[str, ...], tuple[str, str]] = {}
        for candidate in plan.chosen:
            flags = plan.flags_of(candidate.cluster)[-1].flags
            profile = plan.profile_of(candidate.cluster)
            for one in remarks(analyze_hpa(self._part(candidate.spec), flags, profile)):
                told.setdefault((*self.key(candidate.key), one.code), (one.text, "{}"))
        seen = apply_rules(summary).select(*KEY, "rule", "why", "evidence").collect()
        for *key, rule, why, evidence in seen.iter_rows():
            told[*key, rule] = why, evidence
        rows = self.frame(found)
        keys = rows.select(*KEY, "finding").iter_rows()
        texts = [told.get(key, (LEFT_OUT, "{}")) for key in keys]
        return rows.with_columns(
            pl.Series("why", [why for why, _ in texts], pl.String),
            pl.Series("evidence", [evidence for _, evidence in texts], pl.String),
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
            {
                k: self._max_age if k == "max_age" else v
                for k, v in notes.evidence.items()
                if k in _EVIDENCE or k.startswith(DIGEST)
            },
        )

    def advice(self, item: dict[str, Any]) -> dict[str, Any]:
        """Return a recommendation without its sentences and its patch."""
        texts = {name: [LEFT_OUT] if item[name] else [] for name in ("reasons", "doubts", "surer")}
        gone = dict.fromkeys(("patch", "apply", "rollback", "currency"))
        withheld = LEFT_OUT if item["withheld"] or item["patch"] else None
        return item | texts | gone | {"key": list(self.key(item["key"])), "withheld": withheld}

    def _part(self, part: Any) -> Any:
        """Return a spec, or a part of one, with other names in the fields that hold them."""
        match part:
            case tuple():
                return tuple(map(self._part, part))
            case LabelSelector():
                try:
                    selector_from_object(part)
                except ValueError:
                    return LabelSelector((("not valid", ""),))  # (as it was)
                return LabelSelector((("selector", self.of("labels", go_print(part))),))
        if not is_dataclass(part) or isinstance(part, Quantity | type):
            return part
        named = _FIELDS.get(type(part), {})
        values = {field.name: getattr(part, field.name) for field in fields(part)}
        return replace(
            part,
            **{k: self.of(named[k], v) if k in named else self._part(v) for k, v in values.items()},
        )
