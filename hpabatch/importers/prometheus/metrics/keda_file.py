"""Reader of KEDA's ScaledObject manifests: what KEDA would refuse is a mistake."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from hpabatch.importers.prometheus.metrics.keda import Formula, ScaledObject, Trigger
from hpabatch.inputs.documents import Mistakes, Place, show
from hpabatch.inputs.fields import Fields
from hpabatch.model.objects.decode import decode_hpa
from hpabatch.model.objects.decode_fields import Severity
from hpabatch.model.quantity import Quantity

_TRUE: Final = ("1", "t", "T", "true", "True", "TRUE")
_FALSE: Final = ("0", "f", "F", "false", "False", "FALSE")
_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?", re.ASCII)
_INT32: Final = 2**31 - 1
_VERSION: Final = "keda.sh/"
_NOT_READ: Final = ("pollingInterval", "cooldownPeriod", "initialCooldownPeriod")


def read_scaled_object(manifest: Place, mistakes: Mistakes) -> ScaledObject | None:
    """Return the ScaledObject of a manifest, None where it has mistakes, which are noted."""
    before = len(mistakes.found)
    top = Fields(manifest, mistakes)
    version = top.text("apiVersion", required=True)
    if version and not version.startswith(_VERSION):
        top.mistake("apiVersion", f"expected {_VERSION}v1alpha1, got {show(version)}")
        return None
    found = _read(top)
    if found is None or len(mistakes.found) > before:
        return None
    for problem in decode_hpa(found.document())[1]:
        if problem.severity is Severity.error:
            mistakes.add(manifest.problem(f"the HPA of it would not be valid: {problem}"))
    return found


def _name(value: object) -> str:
    metadata = value.get("metadata") if isinstance(value, Mapping) else None
    inner: Mapping[str, object] = metadata if isinstance(metadata, Mapping) else {}
    parts = [inner.get(key) for key in ("namespace", "name")]
    return "/".join(part for part in parts if isinstance(part, str)) or "without a name"


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
    triggers = tuple(_trigger(item, place) for place, item in enumerate(spec.children("triggers")))
    if not triggers:
        spec.mistake("triggers", "expected one or more triggers, got none")
    formula = None if advanced is None else _formula(advanced.child("scalingModifiers"))
    target = _target(spec.child("scaleTargetRef"), spec)
    for key in _NOT_READ:
        spec.get(key)
    if advanced is not None:
        advanced.get("restoreToOriginalReplicaCount")
    parts = [part for part in (spec, advanced, config) if part is not None]
    return ScaledObject(
        f"{top.here}: ScaledObject {_name(top.here.value)}",
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
    metric_type = fields.text("metricType")
    inner = fields.child("metadata")
    metadata = {} if inner is None else inner.texts()
    if inner is None:
        if kind:
            fields.missing("metadata", "a mapping")
    elif kind == "prometheus":
        return _prometheus(fields, inner, index, metadata)
    elif kind in ("cpu", "memory"):
        metric_type = metadata.get("type") or metric_type
        _check_resource(inner, metric_type, metadata.get("value", ""))
    return Trigger(index, kind, metric_type, metadata)


def _prometheus(fields: Fields, inner: Fields, index: int, metadata: Mapping[str, str]) -> Trigger:
    metric_type = fields.one_of("metricType", ("AverageValue", "Value"))
    query = _given(inner, metadata, "query")
    if "{{" in query:
        told = "expected PromQL, got an unrendered Helm template"
        inner.mistake("query", told, "render it first")
    ignore = metadata.get("ignoreNullValues", "") or "true"
    if ignore not in (*_TRUE, *_FALSE):
        inner.mistake("ignoreNullValues", f"expected true or false, got {show(ignore)}")
    milli = _milli(inner, "threshold", _given(inner, metadata, "threshold"))
    return Trigger(index, "prometheus", metric_type, metadata, milli, ignore in _TRUE)


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
    if not _NUMBER.fullmatch(text) or not abs(float(text)) < 1e15:
        fields.mistake(key, f"expected a number such as 100 or 2.5, got {show(text)}")
        return 0
    return int(float(text) * 1000)


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
