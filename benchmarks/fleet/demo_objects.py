"""The demo as `kubectl get deploy,sts,rs,ds,hpa,pods,pdb -A -o yaml` shows it at the end."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import yaml

from benchmarks.fleet.demo_tables import digest, revision_of, uid_of, word
from benchmarks.fleet.demo_workloads import Workload
from benchmarks.fleet.parts import Container, Document
from hpabatch.model.quantity import Quantity

# Disruption budgets of some of the workloads.
_BUDGETS: dict[tuple[str, str], Document] = {
    ("payments", "api"): {"minAvailable": "75%"},
    ("payments", "ledger"): {"maxUnavailable": 1},
    ("shop", "frontend"): {"minAvailable": 2},
    ("shop", "sessions"): {"maxUnavailable": "25%"},
}
_WORKLOAD_AGE = timedelta(days=40)
# A DaemonSet, which no HPA scales.
_AGENT, _AGENTS, _AGENT_SPACE = "node-agent", 2, "kube-system"
_VERSIONS = {"Pod": "v1", "PodDisruptionBudget": "policy/v1"}
_KINDS = (
    "Deployment", "StatefulSet", "ReplicaSet", "DaemonSet", "HorizontalPodAutoscaler", "Pod",
    "PodDisruptionBudget",
)  # fmt: skip


def objects_text(
    fleet: Sequence[Workload], pods: pl.DataFrame, hpas: Sequence[Any], end: datetime
) -> str:
    """Return the list as kubectl writes it: by kind, then by namespace and name.

    Args:
        fleet: the workloads.
        pods: the table of their pods.
        hpas: the HPAs with their statuses.
        end: the time at which they are asked for.
    """
    items = [*hpas, *_agents(end - _WORKLOAD_AGE)]
    there = pl.col("gone").is_null() & pl.col("deletion_requested").is_null()
    now = pods.filter(there & (pl.col("created") < end))
    for work in fleet:
        own = now.filter(namespace=work.namespace, target=work.name).rows(named=True)
        items += _objects(work, len(own), end - _WORKLOAD_AGE)
        items += [_pod(work, row) for row in own]

    def place(document: Document) -> tuple[int, str, str]:
        metadata = document["metadata"]
        return _KINDS.index(document["kind"]), metadata["namespace"], metadata["name"]

    items.sort(key=place)
    listed = {
        "apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""},
    }  # fmt: skip
    # Without shared objects, which YAML would show as anchors.
    return yaml.safe_dump(json.loads(json.dumps(listed)), default_flow_style=False, width=1000)


def _time(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _object(
    kind: str, place: tuple[str, str], uid: str, created: datetime, labels: dict[str, str],
    body: Document, metadata: Document,
) -> Document:  # fmt: skip
    own = {
        "creationTimestamp": _time(created), "labels": labels, "namespace": place[0],
        "name": place[1], "uid": uid,
    }  # fmt: skip
    version = _VERSIONS.get(kind, "apps/v1")
    return {"apiVersion": version, "kind": kind, "metadata": own | metadata} | body


def _owners(kind: str, namespace: str, name: str) -> Document:
    owner = {
        "apiVersion": "apps/v1", "blockOwnerDeletion": True, "controller": True, "kind": kind,
        "name": name, "uid": uid_of(namespace, name, kind),
    }  # fmt: skip
    return {"ownerReferences": [owner]}


def _set_body(size: int, labels: dict[str, str], pod_spec: Document, status: Document) -> Document:
    template = {"metadata": {"labels": labels}, "spec": pod_spec}
    spec = {"replicas": size, "selector": {"matchLabels": labels}, "template": template}
    return {"spec": spec, "status": status}


def _objects(work: Workload, size: int, made: datetime) -> Iterator[Document]:
    """Yield the workload, the ReplicaSet of each revision (the newest has all pods), a budget."""
    place, labels, spec = (work.namespace, work.name), work.labels, _pod_spec(work)
    counts = dict.fromkeys(("availableReplicas", "readyReplicas", "replicas"), size)
    status = {"observedGeneration": 2, "updatedReplicas": size} | (counts if size else {})
    body = _set_body(size, labels, spec, status)
    uid = uid_of(*place, work.kind)
    yield _object(work.kind, place, uid, made, labels, body, {"generation": 2})
    for number in range(len(work.rollouts) + 1 if work.kind == "Deployment" else 0):
        revision = revision_of(work, number)
        name = f"{work.name}-{revision}"
        its = size if number == len(work.rollouts) else 0
        marked = labels | {"pod-template-hash": revision}
        body = _set_body(its, marked, spec, {"replicas": its})
        uid = uid_of(work.namespace, name, "ReplicaSet")
        owners = _owners("Deployment", *place)
        yield _object("ReplicaSet", (work.namespace, name), uid, made, marked, body, owners)
    if place in _BUDGETS:
        body = {
            "spec": _BUDGETS[place] | {"selector": {"matchLabels": labels}},
            "status": {"currentHealthy": size, "expectedPods": size},
        }
        yield _object("PodDisruptionBudget", place, uid_of(*place, "pdb"), made, labels, body, {})


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
    requests = {"memory": f"{container.memory_request_mib}Mi"}
    if container.cpu_request is not None:
        requests["cpu"] = Quantity.from_milli(container.cpu_request).canonical()
    resources = {"requests": requests}
    if container.cpu_limit is not None:
        resources["limits"] = {"cpu": Quantity.from_milli(container.cpu_limit).canonical()}
    always = {"restartPolicy": "Always"} if container.kind == "sidecar" else {}
    image = f"registry.example.com/{work.namespace}/{container.name}:1.4"
    return {"image": image, "name": container.name, "resources": resources} | always


def _pod(work: Workload, row: dict[str, Any]) -> Document:
    kind, owner = row["owner"].split("/")
    started = row["started"] or row["created"]
    spec = _pod_spec(work) | {"nodeName": row["node"]}
    body = _pod_body(spec, started, started + timedelta(seconds=work.startup_s))
    place, labels = (work.namespace, row["pod"]), json.loads(row["labels"])
    metadata = {"generateName": f"{owner}-"} | _owners(kind, work.namespace, owner)
    return _object("Pod", place, row["uid"], row["created"], labels, body, metadata)


def _pod_body(spec: Document, started: datetime, ready: datetime) -> Document:
    condition = {
        "lastProbeTime": None, "lastTransitionTime": _time(ready), "status": "True",
        "type": "Ready",
    }  # fmt: skip
    status = {"conditions": [condition], "phase": "Running", "startTime": _time(started)}
    return {"spec": spec, "status": status}


def _agents(made: datetime) -> Iterator[Document]:
    requests = {"cpu": "50m", "memory": "64Mi"}
    image = "registry.example.com/kube-system/node-agent:3.0"
    container = {"image": image, "name": "agent", "resources": {"requests": requests}}
    spec = {"containers": [container], "nodeSelector": {"pool": "gpu"}}
    place, labels = (_AGENT_SPACE, _AGENT), {"app": _AGENT}
    template = {"metadata": {"labels": labels}, "spec": spec}
    body = {
        "spec": {"selector": {"matchLabels": labels}, "template": template},
        "status": {"currentNumberScheduled": _AGENTS, "desiredNumberScheduled": _AGENTS},
    }
    yield _object("DaemonSet", place, uid_of(*place, "DaemonSet"), made, labels, body, {})
    metadata = {"generateName": f"{_AGENT}-"} | _owners("DaemonSet", *place)
    for number in range(_AGENTS):
        name = f"{_AGENT}-{word(5, _AGENT, number)}"
        node = {"nodeName": f"node-{digest(name)[0] % 12 + 1:02d}"}
        body = _pod_body(spec | node, made, made)
        uid = uid_of(_AGENT_SPACE, name, "pod")
        yield _object("Pod", (_AGENT_SPACE, name), uid, made, labels, body, metadata)
