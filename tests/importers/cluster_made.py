"""A small cluster as the API server would show it: documents of its objects, YAML as of kubectl."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]

START_MS = 1_790_000_000_000
HASH = "7d4b9c6f5"


def stamp(ms: int) -> str:
    return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def container(name: str, cpu: str | None, limit: str | None = None, **more: Any) -> Json:
    requests = {} if cpu is None else {"cpu": cpu, "memory": "64Mi"}
    limits = {} if limit is None else {"cpu": limit}
    return {"name": name, "resources": {"requests": requests, "limits": limits}, **more}


def spec_of(web: str = "250m") -> Json:
    """Return the spec of a pod template with an init container, a sidecar and only a limit."""
    return {
        "initContainers": [
            container("migrate", "1"),
            container("log", "50m", restartPolicy="Always"),
        ],
        "containers": [container("web", web, "1"), container("proxy", None, "100m")],
    }


def workload(name: str, size: int, spec: Json, *, kind: str = "Deployment", **more: Any) -> Json:
    labels = {"app": name, "tier": "front"}
    return {
        "apiVersion": more.get("version", "apps/v1"),
        "kind": kind,
        "metadata": {"name": name, "namespace": "shop", "uid": f"uid-{kind}-{name}"}
        | more.get("metadata", {}),
        "spec": {
            "replicas": size,
            "selector": {"matchLabels": labels | more.get("labels", {})},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
        "status": {"replicas": size},
    }


def replica_set(name: str, spec: Json, hash: str = HASH) -> Json:
    """Return the ReplicaSet of a Deployment."""
    owner = {"kind": "Deployment", "name": name, "controller": True}
    meta = {"name": f"{name}-{hash}", "ownerReferences": [owner]}
    return workload(name, 1, spec, kind="ReplicaSet", metadata=meta,
                    labels={"pod-template-hash": hash})  # fmt: skip


def pod(name: str, owner: str, spec: Json, created_ms: int, **more: Any) -> Json:
    """Return a running pod; the server filled in requests that only have a limit."""
    kind, _, of = owner.partition("/")
    labels = {"app": of.removesuffix(f"-{HASH}"), "tier": "front"}
    if kind == "ReplicaSet":
        labels["pod-template-hash"] = HASH
    filled = json.loads(json.dumps(spec))
    for item in (*filled["containers"], *filled.get("initContainers", [])):
        said = item["resources"]
        said["requests"] = {**said["limits"], **said["requests"]}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": stamp(created_ms + 20_000)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": f"uid-{name}",
            "creationTimestamp": stamp(created_ms),
            "labels": labels,
            "ownerReferences": [{"kind": kind, "name": of, "controller": True}],
        },
        "spec": {**filled, "nodeName": "node-1"},
        "status": {"phase": "Running", "startTime": stamp(created_ms), "conditions": [ready]}
        | more,
    }


def hpa(name: str, target: str, created_ms: int, kind: str = "Deployment", most: int = 9) -> Json:
    """Return an HPA on cpu, of autoscaling/v2."""
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": f"uid-hpa-{name}",
            "generation": 3,
            "creationTimestamp": stamp(created_ms),
            "labels": {"team": "shop"},
            "annotations": {"note": "made"},
        },
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": kind, "name": target},
            "minReplicas": 2,
            "maxReplicas": most,
            "metrics": [{"type": "Resource", "resource": cpu}],
        },
    }


def old_hpa(name: str, target: str, created_ms: int, kind: str) -> Json:
    """Return an HPA of autoscaling/v1, whose other metrics are in an annotation."""
    document = hpa(name, target, created_ms, kind)
    memory = {"type": "Resource", "resource": {"name": "memory", "targetAverageValue": "200Mi"}}
    document["apiVersion"] = "autoscaling/v1"
    document["metadata"]["annotations"] = {
        "autoscaling.alpha.kubernetes.io/metrics": json.dumps([memory])
    }
    del document["spec"]["metrics"]
    document["spec"]["targetCPUUtilizationPercentage"] = 50
    return document


def budget(name: str) -> Json:
    meta = {"name": name, "namespace": "shop"}
    return {"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget", "metadata": meta,
            "spec": {"minAvailable": 1}}  # fmt: skip


def write_objects(folder: Path, items: Sequence[Json], name: str = "objects.yaml") -> str:
    """Write objects as `kubectl get … -o yaml` does: one list."""
    path = folder / name
    document = {"apiVersion": "v1", "items": list(items), "kind": "List", "metadata": {}}
    path.write_text(yaml.safe_dump(document))
    return str(path)
