"""JSON objects to HPAs: autoscaling/v1, v2alpha1, v2beta1, v2beta2 and v2, all to the shape of v2.

Nothing is defaulted or validated here (`model.objects.defaults`, `model.objects.validate`); but a
value of the wrong JSON type is a `Problem`, and all of them are collected. Follows k8s.io/api
autoscaling/* and pkg/apis/autoscaling/*/conversion.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hpabatch.model.objects.decode_fields import INT64, Fields, Problem, load_json
from hpabatch.model.objects.decode_legacy import (
    drop_annotations,
    read_metric_v2beta1,
    restore_behavior,
    restore_metrics,
    restore_tolerances,
)
from hpabatch.model.objects.decode_parts import read_behavior, read_conditions, read_reference
from hpabatch.model.objects.decode_status import cpu_metric_statuses, read_metric_statuses
from hpabatch.model.objects.decode_v2 import read_metric
from hpabatch.model.objects.hpa import (
    HPA,
    Behavior,
    HPASpec,
    HPAStatus,
    MetricSpec,
    MetricTarget,
    ResourceMetricSource,
)

KIND = "HorizontalPodAutoscaler"
V1 = "autoscaling/v1"
V2ALPHA1 = "autoscaling/v2alpha1"
V2BETA1 = "autoscaling/v2beta1"
V2BETA2 = "autoscaling/v2beta2"
V2 = "autoscaling/v2"
VERSIONS = (V1, V2ALPHA1, V2BETA1, V2BETA2, V2)

_OBJECT_META = (
    "deletionGracePeriodSeconds", "deletionTimestamp", "finalizers",
    "managedFields", "ownerReferences", "resourceVersion", "selfLink",
)  # fmt: skip


def hpa_from_json(text: str) -> tuple[HPA, list[Problem]]:
    """Decode the JSON text of an HPA, or of a bare v2 `spec` as `spec_to_json` writes it.

    Raises:
        ValueError: the text is not JSON, or not a JSON object.
    """
    value = load_json(text)
    if not isinstance(value, dict):
        raise ValueError("expected a JSON object: an HPA or the spec of one")
    if "kind" not in value and "apiVersion" not in value and "spec" not in value:
        value = {"apiVersion": V2, "kind": KIND, "spec": value}
    return decode_hpa(value)


def decode_hpa(document: Mapping[str, object]) -> tuple[HPA, list[Problem]]:
    """Decode one parsed HPA document; the HPA is meaningful if no problem is an error.

    A document without `apiVersion` is refused with a problem, not an exception; so is a version
    that does not exist.
    """
    problems: list[Problem] = []
    root = Fields(document, "", problems)
    version = root.string("apiVersion")
    root.ignore("kind")
    if version not in VERSIONS:
        return HPA(api_version=version), [_unknown_version(version)]
    spec_fields, status_fields = root.child("spec"), root.child("status")
    metadata = root.child("metadata")
    root.close()
    spec = _read_spec(spec_fields, version) if spec_fields else HPASpec()
    status = _read_status(status_fields, version) if status_fields else HPAStatus()
    hpa = HPA(spec=spec, status=status, api_version=version)
    if metadata is not None:
        hpa = _restore_annotations(_read_metadata(metadata, hpa), problems)
    return hpa, problems


def _read_metadata(fields: Fields, hpa: HPA) -> HPA:
    """Put the metadata that hpabatch uses into the HPA."""
    fields.ignore(*_OBJECT_META)
    hpa = replace(
        hpa,
        name=fields.string("name"),
        namespace=fields.string("namespace"),
        labels=fields.string_map("labels"),
        annotations=fields.string_map("annotations"),
        uid=fields.string("uid"),
        generation=fields.integer("generation", INT64),
        generate_name=fields.string("generateName"),
        creation_timestamp=fields.time("creationTimestamp"),
    )
    fields.close()
    return hpa


def _restore_annotations(hpa: HPA, problems: list[Problem]) -> HPA:
    """Move what conversions keep in annotations to the fields of v2, then drop those."""
    if hpa.api_version == V1:
        hpa = restore_metrics(hpa, problems)
    if hpa.api_version in (V1, V2ALPHA1, V2BETA1):
        hpa = restore_behavior(hpa, problems)
    if hpa.api_version == V2BETA2:
        hpa = restore_tolerances(hpa, problems)
    return drop_annotations(hpa)


def _unknown_version(version: str) -> Problem:
    known = ", ".join(VERSIONS)
    if not version:
        return Problem("apiVersion", f"Required value: one of {known}")
    return Problem("apiVersion", f'no kind "{KIND}" in version "{version}"; known: {known}')


def _read_spec(fields: Fields, version: str) -> HPASpec:
    """Read `spec`; what a version does not have is an unknown field of it."""
    spec = HPASpec(
        scale_target_ref=read_reference(fields.child("scaleTargetRef")),
        min_replicas=fields.integer("minReplicas"),
        max_replicas=fields.integer("maxReplicas") or 0,
        metrics=_read_metrics(fields, version),
        behavior=_read_behavior(fields, version),
    )
    fields.close()
    return spec


def _read_metrics(fields: Fields, version: str) -> tuple[MetricSpec, ...]:
    if version == V1:
        utilization = fields.integer("targetCPUUtilizationPercentage")
        return () if utilization is None else (cpu_utilization(utilization),)
    items = fields.children("metrics") or []
    if version in (V2ALPHA1, V2BETA1):
        return tuple(read_metric_v2beta1(item, alpha=version == V2ALPHA1) for item in items)
    return tuple(read_metric(item) for item in items)


def _read_behavior(fields: Fields, version: str) -> Behavior | None:
    if version not in (V2, V2BETA2):
        return None
    behavior = fields.child("behavior")
    return read_behavior(behavior, tolerance=version == V2) if behavior else None


def cpu_utilization(percent: int) -> MetricSpec:
    """Return the metric that v1's targetCPUUtilizationPercentage stands for."""
    target = MetricTarget(type="Utilization", average_utilization=percent)
    return MetricSpec(type="Resource", resource=ResourceMetricSource("cpu", target))


def _read_status(fields: Fields, version: str) -> HPAStatus:
    """Read `status`; what v1 keeps in annotations comes later."""
    if version == V1:
        metrics = cpu_metric_statuses(fields.integer("currentCPUUtilizationPercentage"))
    else:
        items = fields.children("currentMetrics")
        metrics = None if items is None else read_metric_statuses(items, version)
    status = HPAStatus(
        current_replicas=fields.integer("currentReplicas") or 0,
        desired_replicas=fields.integer("desiredReplicas") or 0,
        last_scale_time=fields.time("lastScaleTime"),
        observed_generation=fields.integer("observedGeneration", INT64),
        conditions=() if version == V1 else read_conditions(fields.children("conditions") or []),
        current_metrics=metrics,
    )
    fields.close()
    return status
