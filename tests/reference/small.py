"""Small timelines told in few words, for tests of the reference itself."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

NOW = "2026-04-01T12:00:00Z"

DEFAULT_UP: Json = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
DEFAULT_DOWN: Json = {
    "selectPolicy": "Max",
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}


def external(name: str = "load", **target: str) -> Json:
    """Return an External metric; by default one replica per unit."""
    values = target or {"averageValue": "1"}
    kind = "AverageValue" if "averageValue" in values else "Value"
    return {
        "type": "External",
        "external": {"metric": {"name": name}, "target": {"type": kind, **values}},
    }


def cpu(percent: int) -> Json:
    """Return a cpu utilization metric."""
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def average_cpu(text: str) -> Json:
    """Return a cpu metric with an averageValue."""
    target = {"type": "AverageValue", "averageValue": text}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def described(**target: Any) -> Json:
    """Return an Object metric."""
    source = {
        "metric": {"name": "hits"},
        "describedObject": {"kind": "Service", "name": "main", "apiVersion": "v1"},
        "target": target,
    }
    return {"type": "Object", "object": source}


def hpa(*metrics: Json, name: str = "hpa", target: str = "web", **spec: Any) -> Json:
    """Return an HPA with 1 to 10 replicas and the legacy path."""
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "scaleTargetRef": {"kind": "Deployment", "name": target, "apiVersion": "apps/v1"},
            "minReplicas": 1,
            "maxReplicas": 10,
            "metrics": list(metrics or [external()]),
            **spec,
        },
        "status": {"desiredReplicas": 0, "currentMetrics": None},
    }


def pods(count: int, **more: Any) -> list[Json]:
    """Return pods that have been ready for a day."""
    ready = {"status": "True", "last_transition_time": "2026-03-31T12:00:10Z"}
    return [
        {
            "name": f"web-{index}",
            "phase": "Running",
            "deletion_timestamp": None,
            "start_time": "2026-03-31T12:00:00Z",
            "ready": ready,
            **more,
        }
        for index in range(count)
    ]


def samples(*usages: str | None, container: str = "app") -> Json:
    """Return samples of web-0, web-1, ...; None: that pod has none."""
    return {
        f"web-{index}": {
            "timestamp": NOW,
            "window_s": 30,
            "containers": {container: {"cpu": usage, "memory": "1Mi"}},
        }
        for index, usage in enumerate(usages)
        if usage is not None
    }


def tick(replicas: int, *answers: Json, seconds: int = 0, **more: Any) -> Json:
    """Return a tick, some seconds (below 3600) after noon."""
    return {
        "now": f"2026-04-01T12:{seconds // 60:02d}:{seconds % 60:02d}Z",
        "spec_replicas": replicas,
        "status_replicas": replicas,
        "pods": [],
        "metrics": list(answers),
        **more,
    }


def values(*texts: str) -> Json:
    """Return the answer of an External metric."""
    return {"external_values": list(texts)}


def one_timeline(document: Json, *ticks: Json, **flags: Any) -> Json:
    """Return a timeline with the usual flags."""
    return {
        "id": "small",
        "flags": {"tolerance": 0.1, "downscale_stabilization_s": 300, **flags},
        "hpa": document,
        "containers": [{"name": "app", "requests": {"cpu": "100m"}}],
        "ticks": list(ticks),
    }
