"""The fleet as `kubectl get deploy,sts,rs,ds,hpa,pods,pdb -A -o yaml` shows it at the end."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import yaml

from data.generator.fleet import Workload
from data.generator.names import digest, revision_of, uid_of, word
from hpabatch.importers.synth.fleet import Container, Document
from hpabatch.model.quantity import Quantity

# Disruption budgets of some of the workloads.
BUDGETS: dict[tuple[str, str], Document] = {
    ("payments", "api"): {"minAvailable": "75%"},
    ("payments", "ledger"): {"maxUnavailable": 1},
    ("shop", "frontend"): {"minAvailable": 2},
    ("shop", "sessions"): {"maxUnavailable": "25%"},
}
_WORKLOAD_AGE = timedelta(days=40)
_AGENT = "node-agent"
_AGENTS = 2


def objects_text(
    fleet: Sequence[Workload], tables: dict[str, pl.DataFrame], hpas: Sequence[Any], end: datetime
) -> str:
    """Return the list as kubectl writes it: by kind, then by namespace and name.

    Args:
        fleet: the workloads.
        tables: the recording of them.
        hpas: the HPAs with their statuses.
        end: the time at which they are asked for.
    """
    ordered = sorted(fleet, key=lambda work: (work.namespace, work.name))
    pods = _pods_now(tables, end)
    items = [
        *(_workload(work, len(pods[work.namespace, work.name]), end) for work in ordered
          if work.kind == "Deployment"),
        *(_workload(work, len(pods[work.namespace, work.name]), end) for work in ordered
          if work.kind == "StatefulSet"),
        *(rs for work in ordered for rs in _replica_sets(work, pods, end)),
        _daemon_set(end),
        *sorted(hpas, key=_name_of),
        *sorted(
            [*_agents(end), *(_pod(row, work) for work in ordered
                              for row in pods[work.namespace, work.name])],
            key=_name_of,
        ),
        *(_budget(work, pods, end) for work in ordered if (work.namespace, work.name) in BUDGETS),
    ]  # fmt: skip
    listed = {
        "apiVersion": "v1",
        "items": items,
        "kind": "List",
        "metadata": {"resourceVersion": ""},
    }
    # Without shared objects, which YAML would show as anchors.
    return yaml.safe_dump(json.loads(json.dumps(listed)), default_flow_style=False, width=1000)


def _name_of(document: Document) -> tuple[str, str]:
    return document["metadata"]["namespace"], document["metadata"]["name"]


def _time(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _metadata(
    work: Workload, name: str, created: datetime, labels: dict[str, str], kind: str
) -> Document:
    return {
        "creationTimestamp": _time(created),
        "labels": labels,
        "name": name,
        "namespace": work.namespace,
        "uid": uid_of(work.namespace, name, kind),
    }


# ---- owners of pods


def _workload(work: Workload, size: int, end: datetime) -> Document:
    made = end - _WORKLOAD_AGE
    counts = {"availableReplicas": size, "readyReplicas": size, "replicas": size}
    return {
        "apiVersion": "apps/v1",
        "kind": work.kind,
        "metadata": {"generation": 2} | _metadata(work, work.name, made, work.labels, work.kind),
        "spec": {
            "replicas": size,
            "selector": {"matchLabels": work.labels},
            "template": _template(work, work.labels),
        },
        "status": {"observedGeneration": 2, "updatedReplicas": size} | (counts if size else {}),
    }


def _replica_sets(
    work: Workload, pods: dict[tuple[str, str], list[dict[str, Any]]], end: datetime
) -> Iterator[Document]:
    """Yield the ReplicaSet of each revision, the newest with all pods."""
    if work.kind != "Deployment":
        return
    newest = len(work.rollouts)
    sets: list[Document] = []
    for number in range(newest + 1):
        template = revision_of(work, number)
        labels = {**work.labels, "pod-template-hash": template}
        size = len(pods[work.namespace, work.name]) if number == newest else 0
        name = f"{work.name}-{template}"
        metadata = _metadata(work, name, end - _WORKLOAD_AGE, labels, "ReplicaSet")
        owner = uid_of(work.namespace, work.name, "Deployment")
        metadata["ownerReferences"] = [_owner("Deployment", work.name, owner)]
        sets.append({
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": metadata,
            "spec": {
                "replicas": size,
                "selector": {"matchLabels": labels},
                "template": _template(work, labels),
            },
            "status": {"replicas": size},
        })  # fmt: skip
    yield from sorted(sets, key=_name_of)


def _owner(kind: str, name: str, uid: str) -> Document:
    return {
        "apiVersion": "apps/v1",
        "blockOwnerDeletion": True,
        "controller": True,
        "kind": kind,
        "name": name,
        "uid": uid,
    }


def _template(work: Workload, labels: dict[str, str]) -> Document:
    return {"metadata": {"labels": labels}, "spec": _pod_spec(work)}


def _pod_spec(work: Workload) -> Document:
    spec: Document = {
        "containers": [_container(work, c) for c in work.containers if c.kind == "app"],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
    }
    if others := [_container(work, c) for c in work.containers if c.kind != "app"]:
        spec["initContainers"] = others
    return spec


def _container(work: Workload, container: Container) -> Document:
    requests = _amounts(container.cpu_request, container.memory_request_mib)
    limits = _amounts(container.cpu_limit, container.memory_limit_mib)
    resources = {"requests": requests} if requests else {}
    found: Document = {
        "image": f"registry.example.com/{work.namespace}/{container.name}:1.4",
        "name": container.name,
        "resources": resources | ({"limits": limits} if limits else {}),
    }
    if container.kind == "sidecar":
        found["restartPolicy"] = "Always"
    return found


def _amounts(cpu_milli: int | None, memory_mib: int | None) -> Document:
    found: Document = {}
    if cpu_milli is not None:
        found["cpu"] = Quantity.from_milli(cpu_milli).canonical()
    if memory_mib is not None:
        found["memory"] = f"{memory_mib}Mi"
    return found


# ---- pods


def _pods_now(
    tables: dict[str, pl.DataFrame], end: datetime
) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Return the pods that are there and not being deleted, by namespace and target."""
    gone = pl.col("gone").is_null() & pl.col("deletion_requested").is_null()
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in tables["pods"].filter(gone & (pl.col("created") < end)).iter_rows(named=True):
        found.setdefault((row["namespace"], row["target"]), []).append(row)
    scaled = tables["scales"].select("namespace", "target").unique().rows()
    return {key: found.get(key, []) for key in scaled}


def _pod(row: dict[str, Any], work: Workload) -> Document:
    kind, name = row["owner"].split("/")
    owner = _owner(kind, name, uid_of(work.namespace, name, kind))
    started = row["started"] or row["created"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "creationTimestamp": _time(row["created"]),
            "generateName": f"{name}-",
            "labels": json.loads(row["labels"]),
            "name": row["pod"],
            "namespace": work.namespace,
            "ownerReferences": [owner],
            "uid": row["uid"],
        },
        "spec": _pod_spec(work) | {"nodeName": row["node"]},
        "status": _running(started, started + timedelta(seconds=work.startup_s)),
    }


def _running(started: datetime, ready: datetime) -> Document:
    return {
        "conditions": [
            {
                "lastProbeTime": None,
                "lastTransitionTime": _time(ready),
                "status": "True",
                "type": "Ready",
            }
        ],
        "phase": "Running",
        "startTime": _time(started),
    }


# ---- what no HPA scales, and budgets


def _agent_spec() -> Document:
    requests = {"cpu": "50m", "memory": "64Mi"}
    image = "registry.example.com/kube-system/node-agent:3.0"
    return {
        "containers": [{"image": image, "name": "agent", "resources": {"requests": requests}}],
        "nodeSelector": {"pool": "gpu"},
    }


def _daemon_set(end: datetime) -> Document:
    labels = {"app": _AGENT}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {
            "creationTimestamp": _time(end - _WORKLOAD_AGE),
            "labels": labels,
            "name": _AGENT,
            "namespace": "kube-system",
            "uid": uid_of("kube-system", _AGENT, "DaemonSet"),
        },
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": _agent_spec()},
        },
        "status": {"currentNumberScheduled": _AGENTS, "desiredNumberScheduled": _AGENTS},
    }


def _agents(end: datetime) -> Iterator[Document]:
    made = end - _WORKLOAD_AGE
    owner = _owner("DaemonSet", _AGENT, uid_of("kube-system", _AGENT, "DaemonSet"))
    for number in range(_AGENTS):
        name = f"{_AGENT}-{word(5, _AGENT, number)}"
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "creationTimestamp": _time(made),
                "generateName": f"{_AGENT}-",
                "labels": {"app": _AGENT},
                "name": name,
                "namespace": "kube-system",
                "ownerReferences": [owner],
                "uid": uid_of("kube-system", name, "pod"),
            },
            "spec": _agent_spec() | {"nodeName": f"node-{digest(name)[0] % 12 + 1:02d}"},
            "status": _running(made, made),
        }


def _budget(
    work: Workload, pods: dict[tuple[str, str], list[dict[str, Any]]], end: datetime
) -> Document:
    size = len(pods[work.namespace, work.name])
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _metadata(work, work.name, end - _WORKLOAD_AGE, work.labels, "pdb"),
        "spec": BUDGETS[work.namespace, work.name] | {"selector": {"matchLabels": work.labels}},
        "status": {"currentHealthy": size, "expectedPods": size},
    }
