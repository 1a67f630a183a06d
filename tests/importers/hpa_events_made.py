"""Audit events and watch events of HPAs, made up, in the form in which servers write them."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hpabatch.importers.hpa_events.run import Events, read_hpa_events

Json = dict[str, Any]

START_MS = 1_791_417_600_000  # 2026-10-08T00:00:00Z
CPU: Json = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
}
MEMORY: Json = {
    "type": "Resource",
    "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "500Mi"}},
}


def micro(ms: int) -> str:
    """Return an instant as audit logs write it."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def second(ms: int) -> str:
    """Return an instant as objects hold it: whole seconds."""
    return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def hpa(version: int = 1, **changes: Any) -> Json:
    """Return an HPA as a server stores it; `spec`, `metadata` and `status` are merged."""
    found: Json = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "u1", "resourceVersion": str(version),
            "creationTimestamp": second(START_MS),
        },
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 2, "maxReplicas": 10, "metrics": [CPU],
        },
        "status": {"currentReplicas": 0, "desiredReplicas": 0, "currentMetrics": None},
    }  # fmt: skip
    for part, fields in changes.items():
        if isinstance(fields, dict):
            found[part] = {**found[part], **fields}
        else:
            found[part] = fields
    return copy.deepcopy(found)


def status(current: int, desired: int, scaled_ms: int | None = None) -> Json:
    found: Json = {
        "currentReplicas": current, "desiredReplicas": desired, "currentMetrics": None,
        "conditions": [{"type": "AbleToScale", "status": "True", "reason": "ReadyForNewScale",
                        "lastTransitionTime": second(START_MS + 15_000)}],
    }  # fmt: skip
    return found if scaled_ms is None else {**found, "lastScaleTime": second(scaled_ms)}


def audit(ms: int, verb: str, response: Json | None = None, **changes: Any) -> Json:
    """Return an audit event, `ms` after START_MS, of the level RequestResponse."""
    metadata = (response or {}).get("metadata", {})
    about = {
        "resource": "horizontalpodautoscalers", "apiGroup": "autoscaling", "apiVersion": "v2",
        "namespace": metadata.get("namespace", "shop"), "name": metadata.get("name", "web"),
    }  # fmt: skip
    event: Json = {
        "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "RequestResponse",
        "auditID": f"{ms}-{verb}", "stage": "ResponseComplete", "verb": verb,
        "requestURI": "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/web",
        "user": {"username": "admin"}, "objectRef": about, "responseStatus": {"code": 200},
        "requestReceivedTimestamp": micro(START_MS + ms),
        "stageTimestamp": micro(START_MS + ms + 4),
    }  # fmt: skip
    if response is not None:
        event["responseObject"] = response
    about.update(changes.pop("about", {}))
    return {name: value for name, value in (event | changes).items() if value is not None}


def status_write(ms: int, response: Json, **changes: Any) -> Json:
    return audit(ms, "update", response, about={"subresource": "status"}, **changes)


def scale(ms: int, verb: str, replicas: int, before: int, **changes: Any) -> Json:
    found = {
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": replicas} if replicas else {},
        "status": {"replicas": before, "selector": "app=web"},
    }  # fmt: skip
    about = {"resource": "deployments", "apiGroup": "apps", "subresource": "scale"}
    return audit(ms, verb, found, about=about | changes.pop("about", {}), **changes)


def watched(kind: str, item: Json, **more: Any) -> Json:
    return {"type": kind, "object": item, **more}


def lines(documents: Iterable[Json]) -> str:
    return "".join(json.dumps(one, separators=(",", ":")) + "\n" for one in documents)


def read(folder: Path, *texts: str | bytes) -> Events:
    """Read files with these contents."""
    paths = []
    for number, text in enumerate(texts):
        path = folder / f"{number}.log"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        paths.append(path)
    return read_hpa_events(paths)


def spans(events: Events) -> list[tuple[str, int, int | None, int]]:
    """Return uid, validity in ms after START_MS and maxReplicas of every row."""
    return [
        (uid, since - START_MS, None if until is None else until - START_MS, most)
        for uid, since, until, most in zip(
            events.hpas["uid"], events.hpas["valid_from"], events.hpas["valid_to"],
            (json.loads(text)["maxReplicas"] for text in events.hpas["spec"]), strict=True,
        )
    ]  # fmt: skip


def statuses(events: Events) -> list[tuple[int, int, int]]:
    """Return ms after START_MS, current and desired of every row."""
    rows = events.statuses.rows().select("ts", "current_replicas", "desired_replicas").rows()
    return [(ts - START_MS, current, desired) for ts, current, desired in rows]


def day() -> Sequence[Json]:
    """Return a life: created, reported on, scaled, edited, edited again, deleted, made anew."""
    scaled = START_MS + 15_000
    return [
        audit(100, "create", hpa(1)),
        scale(15_010, "update", 4, 2),
        status_write(15_020, hpa(2, status=status(2, 4, scaled))),
        status_write(30_020, hpa(3, status=status(4, 4, scaled))),
        audit(40_500, "patch", hpa(4, spec={"maxReplicas": 12}, status=status(4, 4, scaled))),
        status_write(45_020, hpa(5, spec={"maxReplicas": 12}, status=status(4, 5, scaled))),
        audit(50_000, "update", hpa(6, spec={"maxReplicas": 20}, status=status(4, 5, scaled))),
        audit(60_000, "delete"),
        audit(70_700, "create", hpa(9, metadata={"uid": "u2"})),
    ]
