"""Decoding of HPAs: autoscaling/v1, v2alpha1, v2beta1, v2beta2 and v2, all to the shape of v2.

Nothing is defaulted or validated here (`model.objects.defaults`, `model.objects.validate`); a
value of the wrong JSON type is a `Problem`, and all of them are collected. Follows k8s.io/api
autoscaling/* and pkg/apis/autoscaling/*/conversion.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from hpabatch.model.objects.codec import read_as, read_part
from hpabatch.model.objects.decode_fields import INT64, Fields, Problem, load_json
from hpabatch.model.objects.decode_legacy import (
    BEHAVIOR_ANNOTATION,
    DOWN_TOLERANCE_ANNOTATION,
    METRICS_ANNOTATION,
    UP_TOLERANCE_ANNOTATION,
    cpu_metric_statuses,
    drop_annotations,
    ignored_annotations,
    read_condition,
    read_metric_statuses,
    read_metric_v2beta1,
    restore_behavior,
    restore_metrics,
    restore_tolerances,
)
from hpabatch.model.objects.hpa import (
    HPA,
    Behavior,
    CrossVersionObjectReference,
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

_ANNOTATIONS_READ = {
    V1: (METRICS_ANNOTATION, BEHAVIOR_ANNOTATION),
    V2ALPHA1: (BEHAVIOR_ANNOTATION,),
    V2BETA1: (BEHAVIOR_ANNOTATION,),
    V2BETA2: (UP_TOLERANCE_ANNOTATION, DOWN_TOLERANCE_ANNOTATION),
    V2: (),
}

_OBJECT_META = (
    "deletionGracePeriodSeconds", "deletionTimestamp", "finalizers",
    "managedFields", "ownerReferences", "resourceVersion", "selfLink",
)  # fmt: skip


def hpa_from_json(text: str) -> tuple[HPA, list[Problem]]:
    """Decode the JSON of an HPA, or of a bare v2 `spec` as `spec_to_json` writes it.

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
    spec, status, metadata = root.child("spec"), root.child("status"), root.child("metadata")
    root.close()
    hpa = HPA(
        spec=spec.built(partial(_read_spec, version=version)) if spec else HPASpec(),
        status=status.built(partial(_read_status, version=version)) if status else HPAStatus(),
        api_version=version,
    )
    if metadata is not None:
        hpa = _restore_annotations(metadata.built(partial(_read_metadata, hpa=hpa)), problems)
        hpa = replace(hpa, owner=_controller_of(document["metadata"]))
    return hpa, problems


def _read_metadata(fields: Fields, hpa: HPA) -> HPA:
    """Put the metadata that hpabatch uses into the HPA."""
    fields.ignore(*_OBJECT_META)
    return replace(
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


def _controller_of(metadata: object) -> str:
    """Return the controlling owner as Kind/name, "" without one; what is no owner is passed over.

    No rule asks for it, so an HPA is not refused for a wrong type in it.
    """
    owners = metadata.get("ownerReferences") if isinstance(metadata, Mapping) else None
    for one in owners if isinstance(owners, list) else ():
        if isinstance(one, Mapping) and one.get("controller") is True:
            return f"{one.get('kind') or ''}/{one.get('name') or ''}"
    return ""


def _restore_annotations(hpa: HPA, problems: list[Problem]) -> HPA:
    """Move what conversions keep in annotations to the fields of v2, then drop those."""
    read = _ANNOTATIONS_READ[hpa.api_version]
    if METRICS_ANNOTATION in read:
        hpa = restore_metrics(hpa, problems)
    if BEHAVIOR_ANNOTATION in read:
        hpa = restore_behavior(hpa, problems)
    if UP_TOLERANCE_ANNOTATION in read:
        hpa = restore_tolerances(hpa, problems)
    problems += ignored_annotations(hpa, read)
    return drop_annotations(hpa)


def _unknown_version(version: str) -> Problem:
    known = ", ".join(VERSIONS)
    if not version:
        return Problem("apiVersion", f"Required value: one of {known}")
    return Problem("apiVersion", f'no kind "{KIND}" in version "{version}"; known: {known}')


def _read_spec(fields: Fields, version: str) -> HPASpec:
    """Read `spec`; what a version does not have is an unknown field of it."""
    return HPASpec(
        scale_target_ref=read_part(CrossVersionObjectReference, fields, "scaleTargetRef"),
        min_replicas=fields.integer("minReplicas"),
        max_replicas=fields.integer("maxReplicas") or 0,
        metrics=_read_metrics(fields, version),
        behavior=_read_behavior(fields, version),
    )


def _read_metrics(fields: Fields, version: str) -> tuple[MetricSpec, ...]:
    if version == V1:
        utilization = fields.integer("targetCPUUtilizationPercentage")
        return () if utilization is None else (cpu_utilization(utilization),)
    if version in (V2ALPHA1, V2BETA1):
        read = partial(read_metric_v2beta1, is_alpha=version == V2ALPHA1)
        return fields.read_all("metrics", read) or ()
    return fields.read_all("metrics", partial(read_as, MetricSpec)) or ()


def _read_behavior(fields: Fields, version: str) -> Behavior | None:
    if version not in (V2, V2BETA2):
        return None
    without = () if version == V2 else ("tolerance",)
    return fields.read("behavior", partial(read_as, Behavior, without=without))


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
    return HPAStatus(
        current_replicas=fields.integer("currentReplicas") or 0,
        desired_replicas=fields.integer("desiredReplicas") or 0,
        last_scale_time=fields.time("lastScaleTime"),
        observed_generation=fields.integer("observedGeneration", INT64),
        conditions=() if version == V1 else fields.read_all("conditions", read_condition) or (),
        current_metrics=metrics,
    )
