"""KEDA's ScaledObjects: the HPA that KEDA makes of one, and the PromQL of its prometheus triggers.

KEDA creates an HPA for everything from one replica on, and serves its external metrics. Between 0
and 1 replica (or `idleReplicaCount`) KEDA scales itself: to the HPA, and to a history, that is an
event from outside. Follows controllers/keda/hpa.go, pkg/scalers/prometheus_scaler.go and
cpu_memory_scaler.go of kedacore/keda (2.5 and later).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from hpabatch.model.objects.decode import decode_hpa
from hpabatch.model.objects.hpa import HPA

GROUP: Final = "keda.sh/"
KIND: Final = "ScaledObject"
OWNER_LABEL: Final = "scaledobject.keda.sh/name"
COMPOSITE: Final = "composite-metric"
_OWNER = re.compile(r"(?:scaledobject\.keda\.sh/name|scaledObjectName)=([^,]+)")
_INDEX = re.compile(r"s([0-9]{1,4})-.*", re.DOTALL)
_PAUSE: Final = "autoscaling.keda.sh/"
_DEFAULT_MAX: Final = 100
RESOURCES: Final = ("cpu", "memory")


@dataclass(frozen=True, slots=True)
class Trigger:
    """One of `spec.triggers`.

    Attributes:
        index: its place, which is in the metric's name.
        type: prometheus, cpu, cron, …
        metric_type: "" where the ScaledObject says none.
        metadata: as given.
        target_milli: in thousandths; 0 where the metadata do not say it, and of cpu and memory.
        ignore_null: whether no response is taken for 0.
    """

    index: int
    type: str
    metric_type: str
    metadata: Mapping[str, str]
    target_milli: int = 0
    ignore_null: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """The names that its metric can have in an HPA, the newest first."""
        head = f"s{self.index}-{_normal(self.type)}"
        old = self.metadata.get("metricName", "")
        if self.type != "prometheus" or not old:
            return (head,)
        return (head, _normal(f"{head}-{old}"))  # before KEDA 2.12


@dataclass(frozen=True, slots=True)
class Formula:
    """`scalingModifiers`: one metric computed of all others."""

    formula: str
    target_milli: int
    metric_type: str


@dataclass(frozen=True, slots=True)
class ScaledObject:
    """A ScaledObject; numbers of replicas are None where they are absent.

    `place` is for messages; `namespace` "" where the manifest names none: then it is any;
    `unknown` are paths of fields that are not read.
    """

    place: str
    namespace: str
    name: str
    target: Mapping[str, str]
    triggers: tuple[Trigger, ...]
    hpa_name: str
    min_replicas: int | None = None
    max_replicas: int | None = None
    idle_replicas: int | None = None
    behavior: Mapping[str, object] | None = None
    formula: Formula | None = None
    fallback: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()

    def document(self, metric_names: Collection[str] = ()) -> dict[str, object]:
        """Return the HPA that KEDA makes of this, as an autoscaling/v2 document.

        A trigger whose target is not known has an external metric with the target 1.

        Args:
            metric_names: names that the HPA's metrics are known to have had, where KEDA may have
                been an older one or a trigger's name cannot be told from here.
        """
        metrics = [self._metric(trigger, metric_names) for trigger in self.triggers]
        metrics.sort(key=lambda metric: str(metric["type"]))
        if self.formula is not None:
            metrics = [metric for metric in metrics if metric["type"] == "Resource"]
            target = _target(self.formula.metric_type, self.formula.target_milli)
            metrics.append(self._external(COMPOSITE, target))
        spec: dict[str, object] = {
            "scaleTargetRef": dict(self.target),
            "minReplicas": max(self.min_replicas or 0, 1),
            "maxReplicas": _DEFAULT_MAX if self.max_replicas is None else self.max_replicas,
            "metrics": metrics,
        }
        behavior = self._behavior()
        if behavior is not None:
            spec["behavior"] = behavior
        metadata: dict[str, object] = {"name": self.hpa_name, "labels": self._labels()}
        if self.namespace:
            metadata["namespace"] = self.namespace
        if self.annotations:
            metadata["annotations"] = dict(self.annotations)
        return {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": metadata,
            "spec": spec,
        }

    def hpa(self, metric_names: Collection[str] = ()) -> HPA:
        """Return `document` decoded."""
        return decode_hpa(self.document(metric_names))[0]

    def trigger_of(self, metric: str) -> Trigger:
        """Return the prometheus trigger of one of the HPA's external metrics.

        Raises:
            ValueError: why it has no PromQL; a sentence that says what to do.
        """
        if metric == COMPOSITE and self.formula is not None:
            raise ValueError(
                f"{self.place}: KEDA computes {COMPOSITE} by a formula of its own "
                f"({self.formula.formula}), which cannot be imported: say it as PromQL in a mapping"
                " file"
            )
        found = _INDEX.fullmatch(metric)
        place = int(found[1]) if found else -1
        trigger = next((one for one in self.triggers if one.index == place), None)
        if trigger is None:
            raise ValueError(f"{self.place}: the ScaledObject has no trigger for it")
        if trigger.type != "prometheus":
            raise ValueError(
                f"{self.place}: spec.triggers[{place}]: {trigger.type} cannot be imported from "
                "Prometheus; if its values are in Prometheus too, say where in a mapping file"
            )
        if metric not in trigger.names:
            raise ValueError(
                f"{self.place}: spec.triggers[{place}]: KEDA calls its metric "
                f"{' or '.join(trigger.names)}: is this the ScaledObject of that time?"
            )
        return trigger

    def notes(self) -> list[str]:
        """Return what a reader of the result should know of it, sentences without its place."""
        found = []
        idle = self.idle_replicas
        if not self.min_replicas or idle is not None:
            low, high = idle or 0, max(self.min_replicas or 0, 1)
            found.append(
                f"KEDA itself scales between {low} and {high}; to the HPA these "
                "changes are events from outside, not decisions"
            )
        others = sorted({one.type for one in self.triggers} - {"prometheus", *RESOURCES})
        if others:
            found.append(
                f"triggers that cannot be imported from Prometheus: "
                f"{', '.join(others)}; their metrics have no values"
            )
        if self.unknown:
            found.append(f"fields that are not known: {', '.join(self.unknown)}")
        if self.fallback:
            found.append(
                "fallback is not followed: while Prometheus failed, KEDA answered "
                "with other values than these"
            )
        if self._annotated("paused") or f"{_PAUSE}paused-replicas" in self.annotations:
            found.append(
                "it is paused, KEDA has no HPA for it now; what held before may have been otherwise"
            )
        return found

    def _metric(self, trigger: Trigger, metric_names: Collection[str]) -> dict[str, object]:
        if trigger.type in RESOURCES:
            return _resource_metric(trigger)
        name = next((one for one in trigger.names if one in metric_names), trigger.names[0])
        if trigger.type != "prometheus":
            head = f"s{trigger.index}-"
            name = next((n for n in sorted(metric_names) if n.startswith(head)), name)
        return self._external(name, _target(trigger.metric_type, trigger.target_milli or 1000))

    def _external(self, name: str, target: dict[str, object]) -> dict[str, object]:
        selector = {"matchLabels": {OWNER_LABEL: self.name}}
        metric = {"name": name, "selector": selector}
        return {"type": "External", "external": {"metric": metric, "target": target}}

    def _behavior(self) -> dict[str, object] | None:
        """Return the behavior with the direction disabled that an annotation pauses."""
        behavior = None if self.behavior is None else dict(self.behavior)
        for name, direction in (("paused-scale-in", "scaleDown"), ("paused-scale-out", "scaleUp")):
            if self._annotated(name):
                behavior = behavior or {}
                rules = behavior.get(direction)
                before = rules if isinstance(rules, Mapping) else {}
                behavior[direction] = {**before, "selectPolicy": "Disabled"}
        return behavior

    def _annotated(self, name: str) -> bool:
        """Whether an annotation is there and not false (as Go's ParseBool knows it)."""
        value = self.annotations.get(_PAUSE + name)
        return value is not None and value not in ("0", "f", "F", "false", "False", "FALSE")

    def _labels(self) -> dict[str, str]:
        excluded = self.annotations.get("scaledobject.keda.sh/hpa-excluded-labels", "").split(",")
        name = self.hpa_name
        if len(name) > 63:
            name = re.sub(r"[^A-Za-z0-9]+\Z", "", name[:63])
        return {
            "app.kubernetes.io/name": name,
            "app.kubernetes.io/part-of": self.name,
            "app.kubernetes.io/managed-by": "keda-operator",
            **{key: value for key, value in self.labels.items() if key not in excluded},
        }


def owner_of(selector: str) -> str | None:
    """Return the ScaledObject that a metric's selector names, None where it names none."""
    found = _OWNER.fullmatch(selector)
    return found[1] if found else None


def _resource_metric(trigger: Trigger) -> dict[str, object]:
    kind = trigger.metric_type
    value = trigger.metadata.get("value", "")
    target: dict[str, object] = {"type": kind}
    if kind == "Utilization":
        target["averageUtilization"] = int(value)
    else:
        target["averageValue"] = value
    container = trigger.metadata.get("containerName", "")
    if container:
        source = {"name": trigger.type, "container": container, "target": target}
        return {"type": "ContainerResource", "containerResource": source}
    return {"type": "Resource", "resource": {"name": trigger.type, "target": target}}


def _target(metric_type: str, milli: int) -> dict[str, object]:
    """Return a target; AverageValue by default."""
    kind = metric_type or "AverageValue"
    text = f"{milli}m" if milli % 1000 else str(milli // 1000)
    return {"type": kind, "value" if kind == "Value" else "averageValue": text}


def _normal(text: str) -> str:
    """Return a metric's name as KEDA writes it."""
    return re.sub(r"[/.:%()]", "-", text)
