"""Metric specs of autoscaling/v2 and v2beta2, which are alike."""

from __future__ import annotations

from hpabatch.model.objects.decode_fields import Fields
from hpabatch.model.objects.decode_parts import read_identifier, read_reference, read_target
from hpabatch.model.objects.hpa import (
    ContainerResourceMetricSource,
    ExternalMetricSource,
    MetricSpec,
    ObjectMetricSource,
    PodsMetricSource,
    ResourceMetricSource,
)


def read_metric(fields: Fields) -> MetricSpec:
    """Read one entry of `spec.metrics`, with every member that is present."""
    spec = MetricSpec(
        type=fields.string("type"),
        object=_read_object(fields.child("object")),
        pods=_read_pods(fields.child("pods")),
        resource=_read_resource(fields.child("resource")),
        container_resource=_read_container(fields.child("containerResource")),
        external=_read_external(fields.child("external")),
    )
    fields.close()
    return spec


def _read_object(fields: Fields | None) -> ObjectMetricSource | None:
    if fields is None:
        return None
    source = ObjectMetricSource(
        read_reference(fields.child("describedObject")),
        read_identifier(fields.child("metric")),
        read_target(fields.child("target")),
    )
    fields.close()
    return source


def _read_pods(fields: Fields | None) -> PodsMetricSource | None:
    if fields is None:
        return None
    source = PodsMetricSource(
        read_identifier(fields.child("metric")), read_target(fields.child("target"))
    )
    fields.close()
    return source


def _read_external(fields: Fields | None) -> ExternalMetricSource | None:
    if fields is None:
        return None
    source = ExternalMetricSource(
        read_identifier(fields.child("metric")), read_target(fields.child("target"))
    )
    fields.close()
    return source


def _read_resource(fields: Fields | None) -> ResourceMetricSource | None:
    if fields is None:
        return None
    source = ResourceMetricSource(fields.string("name"), read_target(fields.child("target")))
    fields.close()
    return source


def _read_container(fields: Fields | None) -> ContainerResourceMetricSource | None:
    if fields is None:
        return None
    source = ContainerResourceMetricSource(
        fields.string("name"), fields.string("container"), read_target(fields.child("target"))
    )
    fields.close()
    return source
