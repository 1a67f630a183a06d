"""Reader of KEDA's ScaledObject manifests: what KEDA would refuse is a mistake."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

from hpabatch.inputs.documents import Mistakes, MistakesError, Place, show
from hpabatch.inputs.fields import Fields
from hpabatch.inputs.keda import GROUP, RESOURCES, Formula, ScaledObject, Trigger
from hpabatch.model.objects.decode import decode_hpa
from hpabatch.model.objects.decode_fields import Problem, Severity
from hpabatch.model.objects.hpa import HPA
from hpabatch.model.quantity import Quantity

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
    top = Fields(manifest, mistakes)
    version = top.text("apiVersion", required=True)
    if version and not version.startswith(GROUP):
        top.mistake("apiVersion", f"expected {GROUP}v1alpha1, got {show(version)}")
        return None
    found = _read(top)
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
        namespace, name = _names(manifest.value)
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


def _names(value: object) -> tuple[str, str]:
    """Return namespace and name, "" where they are absent or no strings."""
    metadata = value.get("metadata") if isinstance(value, Mapping) else None
    inner: Mapping[str, object] = metadata if isinstance(metadata, Mapping) else {}
    namespace, name = (inner.get(key) for key in ("namespace", "name"))
    return (
        namespace if isinstance(namespace, str) else "",
        name if isinstance(name, str) else "",
    )


def _read(top: Fields) -> ScaledObject | None:
    metadata, spec = top.child("metadata"), top.child("spec")
    if metadata is None or spec is None:
        top.mistake("", "expected metadata and spec")
        return None
    advanced = spec.child("advanced")
    config = None if advanced is None else advanced.child("horizontalPodAutoscalerConfig")
    behavior = None if config is None else config.child("behavior")
    raw_behavior = None if behavior is None else behavior.here.value
    name = metadata.text("name", required=True)
    given_name = "" if config is None else config.text("name")
    listed = spec.children("triggers")
    triggers = tuple(_trigger(item, place) for place, item in enumerate(listed))
    if not triggers:
        spec.mistake("triggers", "expected one or more triggers, got none")
    formula = None if advanced is None else _formula(advanced.child("scalingModifiers"))
    target = _target(spec.child("scaleTargetRef"), spec)
    top.get_all(("kind", "status"))
    spec.get_all(_NOT_READ)
    if advanced is not None:
        advanced.get("restoreToOriginalReplicaCount")
    named = "/".join(filter(None, _names(top.here.value)))
    parts = [part for part in (top, spec, advanced, config, *listed) if part is not None]
    return ScaledObject(
        f"{top.here}: ScaledObject {named or 'without a name'}",
        metadata.text("namespace"),
        name,
        target,
        triggers,
        given_name or f"keda-hpa-{name}",
        min_replicas=spec.whole("minReplicaCount", 0, _INT32),
        max_replicas=spec.whole("maxReplicaCount", 0, _INT32),
        idle_replicas=spec.whole("idleReplicaCount", 0, _INT32),
        behavior=raw_behavior if isinstance(raw_behavior, Mapping) else None,
        formula=formula,
        fallback=spec.child("fallback") is not None,
        labels=_texts(metadata.child("labels")),
        annotations=_texts(metadata.child("annotations")),
        unknown=tuple(key for part in parts for key in part.left()),
    )


def _texts(fields: Fields | None) -> dict[str, str]:
    return {} if fields is None else fields.texts()


def _target(fields: Fields | None, spec: Fields) -> dict[str, str]:
    if fields is None:
        spec.missing("scaleTargetRef", "a mapping")
        return {}
    name = fields.text("name", required=True)
    fields.get("envSourceContainerName")
    return {
        "apiVersion": fields.text("apiVersion") or "apps/v1",
        "kind": fields.text("kind") or "Deployment",
        "name": name,
    }


def _formula(fields: Fields | None) -> Formula | None:
    if fields is None or not any(key in fields for key in ("formula", "target")):
        return None
    formula, target_text = (fields.text(key, required=True) for key in ("formula", "target"))
    target = _milli(fields, "target", target_text.strip())
    kind = fields.one_of("metricType", ("AverageValue", "Value"))
    return Formula(formula, target, kind)


def _trigger(fields: Fields, index: int) -> Trigger:
    kind = fields.text("type", required=True)
    fields.get_all(("name", "authenticationRef", "useCachedMetrics"))
    inner = fields.child("metadata")
    metadata = {} if inner is None else inner.texts()
    if inner is None and kind:
        fields.missing("metadata", "a mapping")
    elif inner is not None and kind in RESOURCES:
        metric_type = metadata.get("type") or fields.text("metricType")
        _check_resource(inner, metric_type, metadata.get("value", ""))
        return Trigger(index, kind, metric_type, metadata)
    metric_type = fields.one_of("metricType", ("AverageValue", "Value"))
    if inner is not None and kind == "prometheus":
        return _prometheus(inner, Trigger(index, kind, metric_type, metadata))
    return Trigger(index, kind, metric_type, metadata, _target_milli(kind, metadata))


def _target_milli(kind: str, metadata: Mapping[str, str]) -> int:
    """Return the target in thousandths, 0 where it is not known; external scalers answer theirs."""
    if kind.startswith("external"):
        return 0
    stated = (metadata[key].strip() for key in _TARGET_KEYS if key in metadata)
    numbers = (text for text in stated if _is_number(text))
    return int(float(next(numbers, _DEFAULT_TARGETS.get(kind, 0))) * 1000)


def _prometheus(inner: Fields, trigger: Trigger) -> Trigger:
    metadata = trigger.metadata
    query = _given(inner, metadata, "query")
    if "{{" in query:
        told = "expected PromQL, got an unrendered Helm template"
        inner.mistake("query", told, "render it first")
    ignore = metadata.get("ignoreNullValues", "") or "true"
    if ignore not in (*_TRUE, *_FALSE):
        inner.mistake("ignoreNullValues", f"expected true or false, got {show(ignore)}")
    milli = _milli(inner, "threshold", _given(inner, metadata, "threshold"))
    return replace(trigger, target_milli=milli, ignore_null=ignore in _TRUE)


def _given(inner: Fields, metadata: Mapping[str, str], key: str) -> str:
    """Return a string that must be there; a mistake of its type is noted already."""
    text = metadata.get(key, "").strip()
    if key in metadata and not text:
        inner.mistake(key, "expected a string, got an empty string")
    inner.missing(key, "a string")
    return text


def _milli(fields: Fields, key: str, text: str) -> int:
    """Return a number as KEDA makes thousandths of it: truncated."""
    if not text:
        return 0
    if not _is_number(text):
        fields.mistake(key, f"expected a number such as 100 or 2.5, got {show(text)}")
        return 0
    return int(float(text) * 1000)


def _is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None and abs(float(text)) < 1e15


def _check_resource(inner: Fields, metric_type: str, value: str) -> None:
    if metric_type not in ("Utilization", "AverageValue"):
        inner.mistake("type", f"expected Utilization or AverageValue, got {show(metric_type)}")
    elif metric_type == "Utilization":
        if not re.fullmatch("[0-9]{1,9}", value, re.ASCII):
            inner.mistake("value", f"expected a whole number of percent, got {show(value)}")
    else:
        try:
            Quantity.parse(value)
        except ValueError:
            inner.mistake("value", f"expected a quantity such as 500m or 1Gi, got {show(value)}")
