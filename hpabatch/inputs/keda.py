"""KEDA's ScaledObjects: their manifests, the HPA that KEDA makes of one, PromQL of its triggers.

KEDA creates an HPA for everything from one replica on, and serves its external metrics. Between 0
and 1 replica (or `idleReplicaCount`) KEDA scales itself: to the HPA, and to a history, that is an
event from outside. What KEDA would refuse is a mistake. Follows controllers/keda/hpa.go,
pkg/scalers/prometheus_scaler.go and cpu_memory_scaler.go of kedacore/keda (2.5 and later).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from hpabatch.inputs import document_kinds as kinds
from hpabatch.inputs.document_keys import ListOf, MapOf, Scalar, record_of
from hpabatch.inputs.documents import Mistakes, MistakesError, Place, show
from hpabatch.model.objects.decode import decode_hpa
from hpabatch.model.objects.decode_fields import Problem, Severity
from hpabatch.model.objects.hpa import HPA
from hpabatch.model.quantity import Quantity

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
        behavior = None if self.behavior is None else dict(self.behavior)
        for name, direction in (("paused-scale-in", "scaleDown"), ("paused-scale-out", "scaleUp")):
            if self._annotated(name):
                behavior = behavior or {}
                rules = behavior.get(direction)
                before = rules if isinstance(rules, Mapping) else {}
                behavior[direction] = {**before, "selectPolicy": "Disabled"}
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
            kind, value = trigger.metric_type, trigger.metadata.get("value", "")
            target: dict[str, object] = {"type": kind, "averageValue": value}
            if kind == "Utilization":
                target = {"type": kind, "averageUtilization": int(value)}
            source: dict[str, object] = {"name": trigger.type, "target": target}
            if container := trigger.metadata.get("containerName", ""):
                source["container"] = container
                return {"type": "ContainerResource", "containerResource": source}
            return {"type": "Resource", "resource": source}
        name = next((one for one in trigger.names if one in metric_names), trigger.names[0])
        if trigger.type != "prometheus":
            head = f"s{trigger.index}-"
            name = next((n for n in sorted(metric_names) if n.startswith(head)), name)
        return self._external(name, _target(trigger.metric_type, trigger.target_milli or 1000))

    def _external(self, name: str, target: dict[str, object]) -> dict[str, object]:
        selector = {"matchLabels": {OWNER_LABEL: self.name}}
        metric = {"name": name, "selector": selector}
        return {"type": "External", "external": {"metric": metric, "target": target}}

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


def _target(metric_type: str, milli: int) -> dict[str, object]:
    kind = metric_type or "AverageValue"
    text = f"{milli}m" if milli % 1000 else str(milli // 1000)
    return {"type": kind, "value" if kind == "Value" else "averageValue": text}


def _normal(text: str) -> str:
    """Return a metric's name as KEDA writes it."""
    return re.sub(r"[/.:%()]", "-", text)


_TRUE: Final = ("1", "t", "T", "true", "True", "TRUE")
_FALSE: Final = ("0", "f", "F", "false", "False", "FALSE")
_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?", re.ASCII)
_INT32: Final = 2**31 - 1
_NOT_READ: Final = ("pollingInterval", "cooldownPeriod", "initialCooldownPeriod")
_CONFIG: Final = "spec.advanced.horizontalPodAutoscalerConfig"
_PLACES: Final = {
    "horizontalPodAutoscalerConfig": _CONFIG,
    "restoreToOriginalReplicaCount": "spec.advanced.restoreToOriginalReplicaCount",
    "scalingModifiers": "spec.advanced.scalingModifiers",
    **{
        key: f"spec.{key}"
        for key in (
            "advanced", "fallback", "idleReplicaCount", "maxReplicaCount", "minReplicaCount",
            "scaleTargetRef", "triggers", *_NOT_READ,
        )
    },
}  # fmt: skip
"""Where KEDA reads fields that are often indented too little or too much."""
_HPA_FIELDS: Final = {
    "minReplicas": "spec.minReplicaCount", "maxReplicas": "spec.maxReplicaCount",
    "behavior": f"{_CONFIG}.behavior",
}  # fmt: skip
_TARGET_KEYS: Final = (
    "threshold", "thresholdValue", "targetMetricValue", "targetQueryValue", "queryValue",
    "targetValue", "value", "lagThreshold", "queueLength", "listLength", "messageCount",
    "blobCount", "targetObjectCount", "targetQueueSize", "shardCount", "msgBacklogThreshold",
    "unprocessedEventThreshold", "pendingEntriesCount", "messageCountTarget", "depthThreshold",
    "queueDepth",
)  # fmt: skip
_DEFAULT_TARGETS: Final = {
    "cron": 1, "kafka": 10, "apache-kafka": 10, "nats-jetstream": 10, "stan": 10, "liiklus": 10,
    "artemis-queue": 10, "aws-sqs-queue": 5, "azure-queue": 5, "azure-servicebus": 5, "redis": 5,
    "redis-cluster": 5, "redis-sentinel": 5,
}  # fmt: skip
"""Targets by type where the metadata have none (pkg/scalers of kedacore/keda)."""


def read_scaled_object(manifest: Place, mistakes: Mistakes) -> ScaledObject | None:
    """Return the ScaledObject of a manifest, None where it has mistakes, which are noted."""
    before = len(mistakes.found)
    version = mistakes.tried(kinds.text().read, manifest.at("apiVersion"))
    if version and not version.startswith(GROUP):
        wrong = f"expected {GROUP}v1alpha1, got {show(version)}"
        mistakes.add(manifest.at("apiVersion").problem(wrong))
        return None
    given = mistakes.tried(_MANIFEST.read, manifest)
    found = _read(manifest, given, mistakes) if given else None
    if found is None or len(mistakes.found) > before:
        return None
    for problem in decode_hpa(found.document())[1]:
        if problem.severity is Severity.error:
            mistake = _in_scaled_object(str(problem))
            mistakes.add(manifest.problem(f"the HPA of it would not be valid: {mistake}"))
    return found


def hpa_of_scaled_object(manifest: Place) -> tuple[HPA, list[Problem]]:
    """Return the HPA that KEDA makes of a ScaledObject, with its API version, and all problems.

    As `decode_hpa` does for an HPA: it is meaningful if no problem is an error.
    """
    mistakes = Mistakes()
    with suppress(MistakesError):
        scaled = read_scaled_object(manifest, mistakes)
    assert isinstance(manifest.value, Mapping)
    stated = manifest.value.get("apiVersion")
    version = stated if isinstance(stated, str) else ""
    if mistakes.found or scaled is None:
        metadata = manifest.value.get("metadata")
        inner = metadata if isinstance(metadata, Mapping) else {}
        namespace, name = (
            inner[key] if isinstance(inner.get(key), str) else "" for key in ("namespace", "name")
        )
        problems = [Problem("", mistake) for mistake in mistakes.found]
        return HPA(name, namespace, api_version=version), problems
    hpa, problems = decode_hpa(scaled.document())
    problems = [replace(item, path=_in_scaled_object(item.path)) for item in problems]
    problems += [Problem(path, _unknown(path), Severity.warning) for path in scaled.unknown]
    problems += [
        Problem(
            f"spec.triggers[{one.index}].metadata",
            f"the target of a {one.type} trigger is not known: 1 is assumed",
            Severity.warning,
        )
        for one in scaled.triggers
        if not one.target_milli and one.type not in RESOURCES
    ]
    low, high = hpa.spec.min_replicas or 1, hpa.spec.max_replicas
    if scaled.min_replicas == 0 and low <= high:
        told = (
            "KEDA itself decides between 0 and 1 (activation, cooldownPeriod); "
            f"the range of the HPA is {low}-{high}"
        )
        problems.append(Problem("spec.minReplicaCount", told, Severity.note))
    return replace(hpa, api_version=version), problems


def in_fields_of(hpa: HPA, complaint: str) -> str:
    """Return a complaint about an HPA; of a ScaledObject's by that one's fields and name."""
    if not hpa.api_version.startswith(GROUP):
        return complaint
    complaint = _in_scaled_object(complaint)
    for name, path in _HPA_FIELDS.items():
        complaint = complaint.replace(f"`{name}`", f"`{path.rpartition('.')[2]}`")
    return f"ScaledObject {dict(hpa.labels)['app.kubernetes.io/part-of']}: {complaint}"


def _in_scaled_object(path: str) -> str:
    """Return a path in the HPA, or what begins with one, as the place in its ScaledObject."""
    for name, place in _HPA_FIELDS.items():
        if path.startswith(f"spec.{name}"):
            return place + path.removeprefix(f"spec.{name}")
    return path


def _unknown(path: str) -> str:
    key = path.rpartition(".")[2]
    place = _PLACES.get(key) or _HPA_FIELDS.get(key)
    return "unknown field, ignored" + (f"; KEDA reads {place}" if place else "")


_ANY: Final = Scalar("a value", lambda value: value)
_MAPPING: Final = record_of({}, others=True)
_TEXTS: Final = MapOf(kinds.STRING, "a mapping", may_be_empty=True, nulls=True)
_COUNT: Final = kinds.whole(0, _INT32)
_METRIC_TYPE: Final = kinds.word("AverageValue", "Value")
_FORMULA: Final = record_of(
    {"formula": kinds.text(), "target": kinds.text(), "metricType": _METRIC_TYPE},
    "formula", "target", others=True,
)  # fmt: skip
_HPA_CONFIG: Final = record_of({"name": kinds.STRING, "behavior": _MAPPING}, others=True)
_ADVANCED: Final = record_of({
    "horizontalPodAutoscalerConfig": _HPA_CONFIG, "scalingModifiers": _MAPPING,
    "restoreToOriginalReplicaCount": _ANY,
}, others=True)  # fmt: skip
_TARGET: Final = record_of(
    {"name": kinds.text(), "kind": kinds.STRING, "apiVersion": kinds.STRING}, "name", others=True
)
_TRIGGER: Final = record_of({
    "type": kinds.text(), "metadata": _TEXTS, "metricType": kinds.STRING,
    **dict.fromkeys(("name", "authenticationRef", "useCachedMetrics"), _ANY),
}, "type", "metadata", others=True)  # fmt: skip
_SPEC: Final = record_of({
    "scaleTargetRef": _TARGET,
    "triggers": ListOf(_TRIGGER, "one or more triggers", 100_000, only_lists=True),
    **dict.fromkeys(("minReplicaCount", "maxReplicaCount", "idleReplicaCount"), _COUNT),
    "advanced": _ADVANCED, "fallback": _MAPPING, **dict.fromkeys(_NOT_READ, _ANY),
}, "scaleTargetRef", "triggers", others=True)  # fmt: skip
_METADATA: Final = record_of({
    "name": kinds.text(), "namespace": kinds.STRING, "labels": _TEXTS, "annotations": _TEXTS,
}, "name", others=True)  # fmt: skip
_MANIFEST: Final = record_of({
    "apiVersion": _ANY, "metadata": _METADATA, "spec": _SPEC, "kind": _ANY, "status": _ANY,
}, "metadata", "spec", others=True)  # fmt: skip


def _read(manifest: Place, given: Mapping[str, Any], mistakes: Mistakes) -> ScaledObject:
    """Return the ScaledObject of what its keys have given."""
    metadata, spec, at = given["metadata"], given["spec"], manifest.at("spec")
    advanced, advanced_at = spec.get("advanced", {}), at.at("advanced")
    config = advanced.get("horizontalPodAutoscalerConfig", {})
    config_at = advanced_at.at("horizontalPodAutoscalerConfig")
    behavior: Any = config_at.at("behavior").value
    listed = at.at("triggers").items()
    triggers = tuple(
        mistakes.tried(_trigger, k, place, said)
        for k, (place, said) in enumerate(zip(listed, spec["triggers"], strict=True))
    )
    formula, modifiers = None, advanced_at.at("scalingModifiers")
    if any(modifiers.at(key).value is not None for key in ("formula", "target")):
        with mistakes.gather():
            said = _FORMULA.read(modifiers)
            target = _milli(modifiers.at("target"), said["target"].strip())
            formula = Formula(said["formula"], target, said.get("metricType", ""))
    parts = [(manifest, _MANIFEST), (at, _SPEC), (advanced_at, _ADVANCED), (config_at, _HPA_CONFIG)]
    parts += [(place, _TRIGGER) for place in listed]
    namespace, name = metadata.get("namespace", ""), metadata["name"]
    return ScaledObject(
        f"{manifest}: ScaledObject {'/'.join(filter(None, (namespace, name)))}",
        namespace,
        name,
        {"apiVersion": "apps/v1", "kind": "Deployment"}
        | {key: text for key, text in spec["scaleTargetRef"].items() if text},
        triggers,
        config.get("name") or f"keda-hpa-{name}",
        min_replicas=spec.get("minReplicaCount"),
        max_replicas=spec.get("maxReplicaCount"),
        idle_replicas=spec.get("idleReplicaCount"),
        behavior=behavior,
        formula=formula,
        fallback="fallback" in spec,
        labels=dict(metadata.get("labels", ())),
        annotations=dict(metadata.get("annotations", ())),
        unknown=tuple(
            member.path
            for place, record in parts
            if place.value is not None
            for key, member in place.members().items()
            if key not in record.names
        ),
    )


def _trigger(index: int, place: Place, given: Mapping[str, Any]) -> Trigger:
    kind, metadata, metric_type = given["type"], dict(given["metadata"]), given.get("metricType")
    inner = place.at("metadata")
    if kind in RESOURCES:
        metric_type = metadata.get("type") or metric_type or ""
        _check_resource(inner, metric_type, metadata.get("value", ""))
        return Trigger(index, kind, metric_type, metadata)
    if metric_type:
        _METRIC_TYPE.read(place.at("metricType"))
    if kind != "prometheus":
        return Trigger(index, kind, metric_type or "", metadata, _target_milli(kind, metadata))
    mistakes = Mistakes()
    query, threshold = (
        mistakes.tried(kinds.text().read, inner.at(key)) for key in ("query", "threshold")
    )
    if "{{" in (query or ""):
        told = "expected PromQL, got an unrendered Helm template"
        mistakes.add(inner.at("query").problem(told, "render it first"))
    ignore = metadata.get("ignoreNullValues", "") or "true"
    if ignore not in (*_TRUE, *_FALSE):
        wrong = f"expected true or false, got {show(ignore)}"
        mistakes.add(inner.at("ignoreNullValues").problem(wrong))
    milli = mistakes.tried(_milli, inner.at("threshold"), (threshold or "0").strip())
    mistakes.refuse()
    return Trigger(index, kind, metric_type or "", metadata, milli, ignore in _TRUE)


def _target_milli(kind: str, metadata: Mapping[str, str]) -> int:
    """Return the target in thousandths, 0 where it is not known; external scalers answer theirs."""
    if kind.startswith("external"):
        return 0
    stated = (metadata[key].strip() for key in _TARGET_KEYS if key in metadata)
    numbers = (text for text in stated if _is_number(text))
    return int(float(next(numbers, _DEFAULT_TARGETS.get(kind, 0))) * 1000)


def _milli(place: Place, text: str) -> int:
    """Return a number as KEDA makes thousandths of it: truncated."""
    if not _is_number(text):
        place.refuse(f"expected a number such as 100 or 2.5, got {show(text)}")
    return int(float(text) * 1000)


def _is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None and abs(float(text)) < 1e15


def _check_resource(inner: Place, metric_type: str, value: str) -> None:
    place = inner.at("value")
    if metric_type not in ("Utilization", "AverageValue"):
        wrong = f"expected Utilization or AverageValue, got {show(metric_type)}"
        inner.at("type").refuse(wrong)
    if metric_type == "Utilization":
        if not re.fullmatch("[0-9]{1,9}", value, re.ASCII):
            place.refuse(f"expected a whole number of percent, got {show(value)}")
        return
    try:
        Quantity.parse(value)
    except ValueError:
        place.refuse(f"expected a quantity such as 500m or 1Gi, got {show(value)}")
