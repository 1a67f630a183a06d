"""Objects of a cluster as documents, and as the cluster's decoders would give them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from hpabatch.cluster.apis.discovery import target_key
from hpabatch.cluster.objects.types import (
    ContainerSpec,
    ContainerUsage,
    ExternalMetricKey,
    ObjectMetricKey,
    PodMetricKey,
    PodObject,
    PodSample,
    PodTemplate,
    Response,
    ScaleKey,
    SeriesSample,
    UsageSample,
    metric_key,
)
from hpabatch.model.objects.decode import decode_hpa
from hpabatch.model.objects.hpa import HPA
from tests.conformance.golden import optional_ms, to_containers, to_milli, to_ms, to_requests

Json = dict[str, Any]
CustomKey = tuple[str, PodMetricKey | ObjectMetricKey | ExternalMetricKey]
"""Type of metric and key: keys of two types may be equal tuples."""

START_MS = 1_790_000_000_000


@lru_cache(maxsize=10_000)
def template_of(text: str) -> PodTemplate:
    """Return the template of a pod's document, the same object for equal ones."""
    pod = json.loads(text)
    level = pod.get("pod_requests")
    return PodTemplate(
        tuple(ContainerSpec(c) for c in to_containers(pod.get("containers"))),
        tuple(ContainerSpec(c) for c in to_containers(pod.get("init_containers"))),
        None if level is None else to_requests(level),
    )


def pod_object(namespace: str, pod: Json) -> PodObject:
    """Return a pod's document as the cluster's decoder would give it."""
    requests = {k: pod[k] for k in ("containers", "init_containers", "pod_requests") if k in pod}
    ready = pod.get("ready")
    return PodObject(
        namespace=namespace,
        name=pod["name"],
        uid=pod.get("uid", f"uid-{pod['name']}"),
        labels=pod["labels"],
        owner=None,
        created_ms=START_MS,
        started_ms=optional_ms(pod.get("start_time")),
        deletion_ms=optional_ms(pod.get("deletion_timestamp")),
        node=None,
        phase=pod["phase"],
        ready=ready and ready["status"],
        transition_ms=ready and to_ms(ready["last_transition_time"]),
        template=template_of(json.dumps(requests)),
    )


def hpa_of(document: Json) -> HPA:
    """Return a document (after defaulting) as read."""
    return decode_hpa(document)[0]


def document_of(
    namespace: str, name: str, uid: str, spec: Json, status: Json | None = None
) -> Json:
    """Return the document of an HPA."""
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": namespace, "uid": uid, "generation": 1},
        "spec": spec,
        "status": status or {},
    }


def custom_keys(document: Json) -> dict[CustomKey, int]:
    """Return the keys of an HPA's custom metrics, with their places in the spec."""
    namespace = document["metadata"]["namespace"]
    found: dict[CustomKey, int] = {}
    for k, metric in enumerate(hpa_of(document).spec.metrics):
        try:
            key = metric_key(namespace, metric)
        except ValueError:
            continue
        if key is not None:
            found[metric.type, key] = k
    return found


def key_of_target(namespace: str, document: Json) -> ScaleKey:
    """Return the key of an HPA's target."""
    return target_key(namespace, hpa_of(document).spec.scale_target_ref)


def usage_sample(namespace: str, name: str, item: Mapping[str, Any]) -> UsageSample:
    """Return a pod's usage as decoded."""
    window = item["window_s"]
    return UsageSample(
        namespace,
        name,
        to_ms(item["timestamp"]),
        None if window is None else window * 1000,
        tuple(
            ContainerUsage(
                container,
                to_milli(usage["cpu"]) if "cpu" in usage else None,
                to_milli(usage["memory"]) if "memory" in usage else None,
            )
            for container, usage in item["containers"].items()
        ),
    )


def custom_answer(at: int, answer: Json) -> Response:
    """Return an answer of the custom or external metrics API as decoded."""
    if "metrics_error" in answer:
        return Response(at, error=answer["metrics_error"])
    if "object_value" in answer:
        return Response(at, (SeriesSample("", at, to_milli(answer["object_value"])),))
    if "external_values" in answer:
        values = answer["external_values"]
        return Response(
            at, tuple(SeriesSample(f"n={k}", at, to_milli(v)) for k, v in enumerate(values))
        )
    return Response(
        at,
        tuple(
            PodSample(
                name,
                to_ms(item["timestamp"]),
                None if item["window_s"] is None else item["window_s"] * 1000,
                to_milli(item["value"]),
            )
            for name, item in answer["pod_metrics"].items()
        ),
    )
