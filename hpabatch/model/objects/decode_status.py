"""Decoding of `status.currentMetrics` of every API version to one form.

Follows pkg/apis/autoscaling/{v1,v2beta1,v2beta2}/conversion.go. The older versions, and v1's
annotation, name the current numbers after the metric's type, and have a zero where v2 leaves a
number out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from hpabatch.model.objects.codec import read_as, read_part
from hpabatch.model.objects.decode_fields import Fields
from hpabatch.model.objects.hpa import (
    MEMBERS,
    Condition,
    CrossVersionObjectReference,
    LabelSelector,
    MetricIdentifier,
    MetricStatus,
    MetricValueStatus,
)
from hpabatch.model.quantity import Quantity

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
