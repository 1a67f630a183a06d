"""`status.currentMetrics` of every API version, as one form.

Follows pkg/apis/autoscaling/{v1,v2beta1,v2beta2}/conversion.go. The older versions, and v1's
annotation with them, name the current numbers after the metric's type, and know no absent number
where v2 has one: it is zero.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    problems of the fields. An entry that has not the member of its type is the one of a metric
    that could not be computed, unless it has another member: that one counts then, as in upstream.
    """
    nested = version in _NESTED_VERSIONS
    return tuple(_read_entry(item, nested) for item in items)


def cpu_metric_statuses(utilization: int | None) -> tuple[MetricStatus, ...] | None:
    """Return what v1's currentCPUUtilizationPercentage stands for; without it: None (unset).

    The current-metrics annotation, where it parses, is taken in place of it, not beside it.
    """
    if utilization is None:
        return None
    current = MetricValueStatus(average_utilization=utilization)
    return (MetricStatus("Resource", name="cpu", current=current),)


def _read_entry(fields: Fields, nested: bool) -> MetricStatus:
    kind = fields.string("type")
    found: dict[str, MetricStatus] = {}
    for name, key in MEMBERS.items():
        member = fields.child(key)
        if member is not None:
            found[name] = _read_nested(member, name) if nested else _read_flat(member, name)
            member.close()
    fields.close()
    if kind in found:
        return found[kind]
    nameless = MetricStatus("" if kind in MEMBERS else kind)
    return next(iter(found.values()), nameless)


def _read_nested(fields: Fields, kind: str) -> MetricStatus:
    """Read a member of v2 or v2beta2, which has its numbers in `current`."""
    of_resource = kind in ("Resource", "ContainerResource")
    described = read_reference(fields.child("describedObject")) if kind == "Object" else None
    current = fields.child("current")
    return MetricStatus(
        kind,
        name=fields.string("name") if of_resource else "",
        container=fields.string("container") if kind == "ContainerResource" else "",
        metric=None if of_resource else read_identifier(fields.child("metric")),
        described_object=described,
        current=MetricValueStatus() if current is None else _read_current(current),
    )


def _read_current(fields: Fields) -> MetricValueStatus:
    current = MetricValueStatus(
        fields.quantity("value"),
        fields.quantity("averageValue"),
        fields.integer("averageUtilization"),
    )
    fields.close()
    return current


def _read_flat(fields: Fields, kind: str) -> MetricStatus:
    """Read a member of v2beta1, v2alpha1 (which has some of its fields) or v1's annotation."""
    match kind:
        case "Object":
            return MetricStatus(
                kind,
                metric=_flat_identifier(fields, "selector"),
                described_object=read_reference(fields.child("target")),
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
    return MetricIdentifier(fields.string("metricName"), read_selector(fields.child(selector)))


def _number(fields: Fields, key: str) -> Quantity:
    """Read a quantity that is no pointer in Go: absent, it is zero."""
    return fields.quantity(key) or Quantity()
