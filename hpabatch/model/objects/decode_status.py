"""Decoding of `status.currentMetrics` of every API version to one form.

Follows pkg/apis/autoscaling/{v1,v2beta1,v2beta2}/conversion.go. The older versions, and v1's
annotation, name the current numbers after the metric's type, and have a zero where v2 leaves a
number out.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from hpabatch.model.objects.decode_fields import Fields
from hpabatch.model.objects.decode_parts import read_identifier, read_reference, read_selector
from hpabatch.model.objects.hpa import MetricIdentifier, MetricStatus, MetricValueStatus
from hpabatch.model.quantity import Quantity

# The member that each type of metric has, in the order of the API.
MEMBERS: Final[dict[str, str]] = {
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
    "External": "external",
}
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
    of_resource = kind in ("Resource", "ContainerResource")
    return MetricStatus(
        kind,
        described_object=read_reference(fields, "describedObject") if kind == "Object" else None,
        name=fields.string("name") if of_resource else "",
        container=fields.string("container") if kind == "ContainerResource" else "",
        metric=None if of_resource else read_identifier(fields),
        current=fields.read("current", _read_current) or MetricValueStatus(),
    )


def _read_current(fields: Fields) -> MetricValueStatus:
    return MetricValueStatus(
        fields.quantity("value"),
        fields.quantity("averageValue"),
        fields.integer("averageUtilization"),
    )


def _read_flat(fields: Fields, kind: str) -> MetricStatus:
    """Read a member of v2beta1, v2alpha1 (which has some of its fields) or v1's annotation."""
    match kind:
        case "Object":
            return MetricStatus(
                kind,
                metric=_flat_identifier(fields, "selector"),
                described_object=read_reference(fields, "target"),
                current=MetricValueStatus(
                    _number(fields, "currentValue"), fields.quantity("averageValue")
                ),
            )
        case "Pods":
            average = _number(fields, "currentAverageValue")
            return MetricStatus(
                kind,
                metric=_flat_identifier(fields, "selector"),
                current=MetricValueStatus(average_value=average),
            )
        case "External":
            return MetricStatus(
                kind,
                metric=_flat_identifier(fields, "metricSelector"),
                current=MetricValueStatus(
                    _number(fields, "currentValue"), fields.quantity("currentAverageValue")
                ),
            )
    return MetricStatus(
        kind,
        name=fields.string("name"),
        container=fields.string("container") if kind == "ContainerResource" else "",
        current=MetricValueStatus(
            average_value=_number(fields, "currentAverageValue"),
            average_utilization=fields.integer("currentAverageUtilization"),
        ),
    )


def _flat_identifier(fields: Fields, selector: str) -> MetricIdentifier:
    return MetricIdentifier(fields.string("metricName"), read_selector(fields, selector))


def _number(fields: Fields, key: str) -> Quantity:
    """Read a quantity that is no pointer in Go: absent, it is zero."""
    return fields.quantity(key) or Quantity()
