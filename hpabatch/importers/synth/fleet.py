"""Parts of generated fleets: containers, signals, HPA specs, uids."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import numpy.typing as npt

Document = dict[str, Any]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
"""A part of an autoscaling/v2 document, as JSON has it."""


@dataclass(frozen=True, slots=True)
class Container:
    """A container: its requests and its usage.

    `share` is its part of the pod's work; `memory_mib` at rest, plus `memory_load_mib` when the
    pod does its planned work. A request of None is not set.
    """

    name: str
    kind: str = "app"
    cpu_request: int | None = None
    memory_request_mib: int | None = None
    cpu_limit: int | None = None
    memory_limit_mib: int | None = None
    share: float = 1.0
    idle_milli: int = 4
    memory_mib: int = 120
    memory_load_mib: int = 40


@dataclass(frozen=True, slots=True)
class Signal:
    """A custom or external metric that follows the work.

    Attributes:
        kind: "pods" (per pod), "object" or "external" (of the whole workload).
        metric: its name.
        per_core: value in units per core of work (of the pod, or of all).
        selector: string form of the metric's selector.
        object_kind, object_name: the described object.
        series: names of an External metric's series; the value is split between them.
        noise: relative noise of each sample.
    """

    kind: str
    metric: str
    per_core: float
    selector: str = ""
    object_kind: str = ""
    object_name: str = ""
    series: tuple[str, ...] = ("",)
    noise: float = 0.03


def utilization(percent: int) -> Document:
    """Return a target that is a percentage of the requests."""
    return {"type": "Utilization", "averageUtilization": percent}


def average(quantity: str) -> Document:
    """Return a target that is an amount per pod."""
    return {"type": "AverageValue", "averageValue": quantity}


def value(quantity: str) -> Document:
    """Return a target that is an amount in all."""
    return {"type": "Value", "value": quantity}


def resource(name: str, target: Document) -> Document:
    """Return a Resource metric."""
    return {"type": "Resource", "resource": {"name": name, "target": target}}


def container_resource(name: str, container: str, target: Document) -> Document:
    """Return a ContainerResource metric."""
    body = {"name": name, "container": container, "target": target}
    return {"type": "ContainerResource", "containerResource": body}


def _identifier(metric: str, selector: dict[str, str] | None) -> Document:
    if selector is None:
        return {"name": metric}
    return {"name": metric, "selector": {"matchLabels": selector}}


def pods_metric(metric: str, target: Document) -> Document:
    """Return a Pods metric."""
    return {"type": "Pods", "pods": {"metric": _identifier(metric, None), "target": target}}


def object_metric(
    kind: str, name: str, api_version: str, metric: str, target: Document
) -> Document:
    """Return an Object metric."""
    described = {"kind": kind, "name": name, "apiVersion": api_version}
    body = {
        "describedObject": described,
        "metric": _identifier(metric, None),
        "target": target,
    }
    return {"type": "Object", "object": body}


def external_metric(
    metric: str, target: Document, selector: dict[str, str] | None = None
) -> Document:
    """Return an External metric."""
    body = {"metric": _identifier(metric, selector), "target": target}
    return {"type": "External", "external": body}


def rules(
    *policies: tuple[str, int, int],
    window: int | None = None,
    select: str | None = None,
    tolerance: str | None = None,
) -> Document:
    """Return one direction of `behavior`; policies are (type, value, periodSeconds)."""
    body: Document = {}
    if window is not None:
        body["stabilizationWindowSeconds"] = window
    if select is not None:
        body["selectPolicy"] = select
    if policies:
        body["policies"] = [
            {"type": kind, "value": amount, "periodSeconds": period}
            for kind, amount, period in policies
        ]
    if tolerance is not None:
        body["tolerance"] = tolerance
    return body


def hpa_spec(
    target: str,
    minimum: int | None,
    maximum: int,
    *metrics: Document,
    kind: str = "Deployment",
    up: Document | None = None,
    down: Document | None = None,
    behavior: Document | None = None,
) -> Document:
    """Return an HPA's spec; without `up`, `down` and `behavior` it has no behavior at all."""
    spec: Document = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": kind, "name": target},
        "maxReplicas": maximum,
    }
    if minimum is not None:
        spec["minReplicas"] = minimum
    if metrics:
        spec["metrics"] = list(metrics)
    both = dict(behavior) if behavior is not None else {}
    if up is not None:
        both["scaleUp"] = up
    if down is not None:
        both["scaleDown"] = down
    if both or behavior is not None:
        spec["behavior"] = both
    return spec


def new_uid(rng: np.random.Generator) -> str:
    """Return an object's uid as Kubernetes writes it, drawn from the stream."""
    return str(uuid.UUID(bytes=rng.bytes(16), version=4))


def start_ms(day: date) -> int:
    """Return midnight UTC in milliseconds since 1970."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return int(midnight.timestamp()) * 1000


def compact_json(document: Document) -> str:
    """Return JSON without blanks, keys in order: the same document is the same text."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"))
