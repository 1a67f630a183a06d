"""Decoding of older API versions: v2beta1 metric specs, the annotations of v1, statuses of all.

Follows pkg/apis/autoscaling/{v1,v2beta1,v2beta2}/conversion.go and annotations.go, with one
deliberate difference: upstream's v2beta1 conversion forgets `containerResource.container`. The
older versions name the current numbers of a status after the metric's type, and have a zero where
v2 leaves a number out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import fields as fields_of
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

from hpabatch.model.objects.codec import read_as, read_part
from hpabatch.model.objects.decode_fields import Fields, Problem, Severity, load_json, show_value
from hpabatch.model.objects.hpa import (
    HPA,
    MEMBERS,
    SOURCES,
    Behavior,
    Condition,
    CrossVersionObjectReference,
    LabelSelector,
    MetricIdentifier,
    MetricSpec,
    MetricStatus,
    MetricTarget,
    MetricValueStatus,
    ScalingRules,
)
from hpabatch.model.quantity import Quantity

T = TypeVar("T")
_ZERO: Final = Quantity()
_PREFIX = "autoscaling.alpha.kubernetes.io/"
METRICS_ANNOTATION = _PREFIX + "metrics"
CURRENT_METRICS_ANNOTATION = _PREFIX + "current-metrics"
CONDITIONS_ANNOTATION = _PREFIX + "conditions"
BEHAVIOR_ANNOTATION = _PREFIX + "behavior"
UP_TOLERANCE_ANNOTATION = _PREFIX + "scale-up-tolerance"
DOWN_TOLERANCE_ANNOTATION = _PREFIX + "scale-down-tolerance"

_FIELDS = {
    METRICS_ANNOTATION: "spec.metrics",
    BEHAVIOR_ANNOTATION: "spec.behavior",
    UP_TOLERANCE_ANNOTATION: "spec.behavior.scaleUp.tolerance",
    DOWN_TOLERANCE_ANNOTATION: "spec.behavior.scaleDown.tolerance",
}
"""The fields of autoscaling/v2 that annotations of other versions stand for."""
ANNOTATIONS = frozenset({CURRENT_METRICS_ANNOTATION, CONDITIONS_ANNOTATION, *_FIELDS})


def drop_annotations(hpa: HPA) -> HPA:
    """Remove the six round-trip annotations, as every conversion does."""
    kept = tuple(pair for pair in hpa.annotations if pair[0] not in ANNOTATIONS)
    return hpa if len(kept) == len(hpa.annotations) else replace(hpa, annotations=kept)


def ignored_annotations(hpa: HPA, read: Collection[str]) -> list[Problem]:
    """Return a warning for each annotation of the spec that the document's version drops unread."""
    message = f"has no effect in {hpa.api_version}; write {{}} of autoscaling/v2"
    return [
        Problem(_annotation_path(name), message.format(_FIELDS[name]), Severity.warning)
        for name, _ in hpa.annotations
        if name in _FIELDS and name not in read
    ]


def restore_metrics(hpa: HPA, problems: list[Problem]) -> HPA:
    """Put the metrics of v1's annotations before the cpu metric, and their status into status."""
    annotations = dict(hpa.annotations)

    def restored(name: str, read: Callable[[Fields], T]) -> tuple[T, ...] | None:
        """Return the objects of an annotation that holds a JSON list, None without a good one."""
        if name not in annotations:
            return None
        found: list[Problem] = []
        holder = Fields({"list": _parse(annotations[name])}, "", found, fold=True)
        items = tuple([item.built(read) for item in holder.children("list") or []])
        return items if _sound(found, name, problems) else None

    metrics = restored(METRICS_ANNOTATION, read_metric_v2beta1)
    conditions = restored(CONDITIONS_ANNOTATION, read_condition)
    statuses = restored(CURRENT_METRICS_ANNOTATION, partial(_read_entry, nested=False))
    spec, status = hpa.spec, hpa.status
    if metrics is not None:
        spec = replace(spec, metrics=metrics + spec.metrics)
    if conditions is not None:
        status = replace(status, conditions=conditions)
    if statuses is not None:
        status = replace(status, current_metrics=statuses)
    return replace(hpa, spec=spec, status=status)


def restore_behavior(hpa: HPA, problems: list[Problem]) -> HPA:
    """Read the behavior annotation of v1 and v2beta1, if it parses and is not empty.

    Those versions default no behavior, so a direction without policies has none and fails
    validation.
    """
    text = dict(hpa.annotations).get(BEHAVIOR_ANNOTATION)
    if text is None:
        return hpa
    found: list[Problem] = []
    value = _parse(text)
    behavior = None
    if isinstance(value, dict):
        fields = Fields(value, "", found, fold=True)
        behavior = fields.built(partial(read_as, Behavior))
    elif value is not None:
        found.append(Problem("", "not an object"))
    if not _sound(found, BEHAVIOR_ANNOTATION, problems):
        return hpa
    if behavior is None or behavior == Behavior():
        return hpa
    behavior = Behavior(_without_default(behavior.scale_up), _without_default(behavior.scale_down))
    return replace(hpa, spec=replace(hpa.spec, behavior=behavior))


def restore_tolerances(hpa: HPA, problems: list[Problem]) -> HPA:
    """Read v2beta2's tolerance annotations; they create `behavior` and the direction."""
    annotations, behavior = dict(hpa.annotations), hpa.spec.behavior
    for name, side in (
        (UP_TOLERANCE_ANNOTATION, "scale_up"),
        (DOWN_TOLERANCE_ANNOTATION, "scale_down"),
    ):
        tolerance = _tolerance(annotations, name, problems)
        if tolerance is not None:
            behavior = behavior or Behavior()
            rules = replace(getattr(behavior, side) or ScalingRules(), tolerance=tolerance)
            behavior = replace(behavior, **{side: rules})
    return replace(hpa, spec=replace(hpa.spec, behavior=behavior))


def _without_default(rules: ScalingRules | None) -> ScalingRules | None:
    return replace(rules, policies=()) if rules and rules.policies is None else rules


def _tolerance(annotations: dict[str, str], name: str, problems: list[Problem]) -> Quantity | None:
    text = annotations.get(name)
    if text is None:
        return None
    try:
        return Quantity.parse(text)
    except ValueError as error:
        message = f"Invalid value: {show_value(text)}: must be a quantity: {error}"
        problems.append(Problem(_annotation_path(name), message))
        return None


def _parse(text: str) -> object:
    """Return the JSON value, or a string for what is not JSON."""
    try:
        return load_json(text)
    except ValueError as error:
        return f"not JSON: {error}"


def _sound(found: list[Problem], name: str, problems: list[Problem]) -> bool:
    """Report once that an annotation is ignored, which upstream does silently."""
    if not found:
        return True
    message = f"ignored, as the API server does: {found[0].message}"
    problems.append(Problem(_annotation_path(name), message, Severity.warning))
    return False


def _annotation_path(name: str) -> str:
    return f"metadata.annotations[{name}]"


def read_metric_v2beta1(fields: Fields, is_alpha: bool = False) -> MetricSpec:
    """Read a metric of v2beta1, of v2alpha1, or of v1's annotation, as one of v2."""
    members = dict(zip(MEMBERS.items(), SOURCES.items(), strict=True))
    kind = fields.string("type")
    sources = {
        name: fields.read(key, partial(_read_source, kind=of, source=source, is_alpha=is_alpha))
        for (of, key), (name, source) in members.items()
        if not (is_alpha and of in ("ContainerResource", "External"))
    }
    return MetricSpec(kind, **sources)


def _read_source(fields: Fields, kind: str, source: type, is_alpha: bool) -> Any:
    member = read_flat(fields, kind, "target", is_alpha)
    current = member.current
    target = MetricTarget("", current.value, current.average_value, current.average_utilization)
    own = {item.name for item in fields_of(source)} - {"target"}
    return source(**{name: getattr(member, name) for name in own}, target=typed(kind, target))


def typed(kind: str, target: MetricTarget) -> MetricTarget:
    """Return a target as versions before v2 have it, of a metric of some type.

    Its type follows from its values; a value that they cannot leave out is zero.
    """
    value, average, share = target.value, target.average_value, target.average_utilization
    if kind == "Object":
        return MetricTarget("Value" if average is None else "AverageValue", value or _ZERO, average)
    if kind == "External":
        return MetricTarget("AverageValue" if value is None else "Value", value, average)
    if kind == "Pods":
        return MetricTarget("AverageValue", average_value=average or _ZERO)
    return MetricTarget("AverageValue" if share is None else "Utilization", None, average, share)


# ---- statuses ------------------------------------------------------------------------------------

_RESOURCES = ("Resource", "ContainerResource")
_NESTED_VERSIONS = ("autoscaling/v2", "autoscaling/v2beta2")


def read_metric_statuses(items: Sequence[Fields], version: str) -> tuple[MetricStatus, ...]:
    """Read the entries of `currentMetrics` of an API version such as `autoscaling/v2beta1`.

    For `autoscaling/v1` they are those of its current-metrics annotation. Wrong types become
    problems of the fields. An entry without the member of its type stands for a metric that could
    not be computed, unless it has another member, which then counts, as in upstream.
    """
    read = partial(_read_entry, nested=version in _NESTED_VERSIONS)
    return tuple([item.built(read) for item in items])


def cpu_metric_statuses(utilization: int | None) -> tuple[MetricStatus, ...] | None:
    """Return the metrics of v1's currentCPUUtilizationPercentage; without it: None (unset).

    The current-metrics annotation, where it parses, replaces them.
    """
    if utilization is None:
        return None
    current = MetricValueStatus(average_utilization=utilization)
    return (MetricStatus("Resource", name="cpu", current=current),)


def read_condition(fields: Fields) -> Condition:
    """Read an entry of `status.conditions`, of a document or of v1's annotation."""
    fields.ignore("observedGeneration")
    return Condition(
        type=fields.string("type"),
        status=fields.string("status"),
        reason=fields.string("reason"),
        message=fields.string("message"),
        last_transition_time=fields.time("lastTransitionTime"),
    )


def _read_entry(fields: Fields, nested: bool) -> MetricStatus:
    kind = fields.string("type")
    read = _read_nested if nested else _read_flat
    read_members = {
        name: fields.read(key, partial(read, kind=name)) for name, key in MEMBERS.items()
    }
    found = {name: status for name, status in read_members.items() if status is not None}
    if kind in found:
        return found[kind]
    nameless = MetricStatus("" if kind in MEMBERS else kind)
    return next(iter(found.values()), nameless)


def _read_nested(fields: Fields, kind: str) -> MetricStatus:
    """Read a member of v2 or v2beta2, which has its numbers in `current`."""
    of_resource = kind in _RESOURCES
    described = None
    if kind == "Object":
        described = read_part(CrossVersionObjectReference, fields, "describedObject")
    return MetricStatus(
        kind,
        described_object=described,
        name=fields.string("name") if of_resource else "",
        container=fields.string("container") if kind == "ContainerResource" else "",
        metric=None if of_resource else read_part(MetricIdentifier, fields, "metric"),
        current=read_part(MetricValueStatus, fields, "current"),
    )


def _read_flat(fields: Fields, kind: str) -> MetricStatus:
    """Read a member of an older version; a number that is no pointer in Go is zero if absent."""
    member = read_flat(fields, kind, "current")
    current = member.current
    if kind in ("Object", "External"):
        current = replace(current, value=current.value or Quantity())
    else:
        current = replace(current, average_value=current.average_value or Quantity())
    return replace(member, current=current)


def read_flat(fields: Fields, kind: str, prefix: str, is_alpha: bool = False) -> MetricStatus:
    """Read a member of v2beta1, v2alpha1 (which has some of its fields) or v1's annotation.

    The names of its numbers begin with `prefix`: "target" in a spec, "current" in a status.
    """
    of_resource, is_object = kind in _RESOURCES, kind == "Object"
    metric = described = None
    if not of_resource:
        key = "metricSelector" if kind == "External" else "selector"
        selector = None if is_alpha else fields.read(key, partial(read_as, LabelSelector))
        metric = MetricIdentifier(fields.string("metricName"), selector)
    if is_object:
        described = read_part(CrossVersionObjectReference, fields, "target")
    average = None
    if not (is_object and is_alpha):
        average = fields.quantity("averageValue" if is_object else f"{prefix}AverageValue")
    return MetricStatus(
        kind,
        name=fields.string("name") if of_resource else "",
        container=fields.string("container") if kind == "ContainerResource" else "",
        metric=metric,
        described_object=described,
        current=MetricValueStatus(
            fields.quantity(f"{prefix}Value") if kind in ("Object", "External") else None,
            average,
            fields.integer(f"{prefix}AverageUtilization") if of_resource else None,
        ),
    )
