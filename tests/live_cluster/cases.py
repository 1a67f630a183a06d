"""The workloads and HPAs of the script: one case for each way in which an HPA can be special.

All cpu cases ask for 200m a pod and aim at half of it, so a load of N "pods' worth" is N × 100m.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.live_cluster.server import Json
from tests.live_cluster.truth import Target

CPU_WORTH_MILLI: Final = 100
RPS_WORTH: Final = 10.0
QUEUE_WORTH: Final = 30
MEMORY_WORTH: Final = 100 << 20
APPS: Final = "/apis/apps/v1"
CORE: Final = "/api/v1"
WIDGETS: Final = "/apis/hpabatch.example/v1"
STUB, GATES, CRD = "stub", "gates", "crd"
"""What a case needs: settable metrics, the API server's alpha gates, a kind of its own."""


@dataclass(frozen=True)
class Case:
    """An HPA and its target; `moves`: so many sizes in a row at least, or the script is too dull.

    `target` None: there is no such kind.
    """

    name: str
    about: str
    hpa: Json
    target: tuple[str, str] | None
    objects: tuple[tuple[str, Json], ...]
    moves: int = 1
    needs: frozenset[str] = field(default_factory=lambda: frozenset({STUB}))

    def target_in(self, namespace: str) -> Target | None:
        if self.target is None:
            return None
        resource, name = self.target
        return Target(resource, namespace, name)


def pod_spec(requests: Mapping[str, str]) -> Json:
    container = {"name": "c", "image": "registry.k8s.io/pause:3.9"}
    return {"containers": [{**container, "resources": {"requests": dict(requests)}}]}


REQUESTS: Final = {"cpu": "200m", "memory": "128Mi"}


def workload(
    name: str, kind: str = "Deployment", replicas: int = 2, labels: Mapping[str, str] | None = None,
    select: Mapping[str, str] | None = None, requests: Mapping[str, str] = REQUESTS,
) -> Json:  # fmt: skip
    """Return a workload whose pods have the label `app`: its name."""
    labels = dict(labels or {"app": name})
    chosen = dict(select or labels)
    core = kind == "ReplicationController"
    return {
        "apiVersion": "v1" if core else "apps/v1", "kind": kind, "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "selector": chosen if core else {"matchLabels": chosen},
            "template": {"metadata": {"labels": labels}, "spec": pod_spec(requests)},
        },
    }  # fmt: skip


def cpu(percent: int = 50) -> Json:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def memory(**target: object) -> Json:
    return {"type": "Resource", "resource": {"name": "memory", "target": dict(target)}}


def pods_metric() -> Json:
    target = {"type": "AverageValue", "averageValue": f"{RPS_WORTH:.0f}"}
    return {"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": target}}


def external(name: str, **target: object) -> Json:
    return {"type": "External", "external": {"metric": {"name": name}, "target": dict(target)}}


def queue() -> Json:
    return external("queue", type="AverageValue", averageValue=str(QUEUE_WORTH))


def object_metric() -> Json:
    described = {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "front"}
    target = {"type": "Value", "value": "10"}
    metric = {"name": "hits"}
    return {
        "type": "Object",
        "object": {"describedObject": described, "metric": metric, "target": target},
    }


def container() -> Json:
    target = {"type": "Utilization", "averageUtilization": 50}
    source = {"name": "cpu", "container": "c", "target": target}
    return {"type": "ContainerResource", "containerResource": source}


def rules(*policies: tuple[str, int, int], **more: object) -> Json:
    found: Json = dict(more)
    if policies:
        found["policies"] = [
            {"type": t, "value": v, "periodSeconds": p} for t, v, p in policies
        ]  # fmt: skip
    return found


def hpa_of(
    name: str, metrics: Sequence[Json], behavior: Json | None = None, lowest: int = 1,
    highest: int = 10, target: tuple[str, str, str] | None = None,
) -> Json:  # fmt: skip
    """Return an HPA in the fields that v2beta2 and v2 share; the API version is set later."""
    version, kind, named = target or ("apps/v1", "Deployment", name)
    spec: Json = {
        "scaleTargetRef": {"apiVersion": version, "kind": kind, "name": named},
        "minReplicas": lowest, "maxReplicas": highest, "metrics": list(metrics),
    }  # fmt: skip
    if behavior is not None:
        spec["behavior"] = behavior
    return {"kind": "HorizontalPodAutoscaler", "metadata": {"name": name}, "spec": spec}


def plain(
    name: str, about: str, metrics: Sequence[Json], behavior: Json | None = None, *,
    moves: int = 2, lowest: int = 1, highest: int = 10, needs: Iterable[str] = (),
) -> Case:  # fmt: skip
    """Return a case whose target is a Deployment of its own."""
    hpa = hpa_of(name, metrics, behavior, lowest, highest)
    objects = ((f"{APPS}/namespaces/NS/deployments", workload(name)),)
    target = ("deployments", name)
    return Case(name, about, hpa, target, objects, moves, frozenset({STUB, *needs}))


def _behaviors() -> list[Case]:
    slow = {
        "scaleUp": rules(("Pods", 2, 4), stabilizationWindowSeconds=0),
        "scaleDown": rules(("Pods", 1, 3), stabilizationWindowSeconds=0),
    }
    least = {
        "scaleUp": rules(("Percent", 50, 3), ("Pods", 3, 3), selectPolicy="Min"),
        "scaleDown": rules(("Percent", 50, 4), stabilizationWindowSeconds=2),
    }
    frozen = {"scaleDown": {"selectPolicy": "Disabled"}}
    calm = {
        "scaleUp": {"stabilizationWindowSeconds": 4},
        "scaleDown": {"stabilizationWindowSeconds": 3},
    }
    return [
        plain("default", "behavior {}: its defaults", [cpu()], {}, moves=4),
        plain("slow", "policies of pods, no windows", [cpu()], slow, moves=8),
        plain("least", "two policies, the lesser one", [cpu()], least, moves=6),
        plain("frozen", "scaling down disabled", [cpu()], frozen, moves=2),
        plain("calm", "windows in both directions", [cpu()], calm, moves=4),
    ]


def _metrics() -> list[Case]:
    value = external("jobs", type="Value", value="10")
    average = memory(type="AverageValue", averageValue=str(MEMORY_WORTH))
    share = memory(type="Utilization", averageUtilization=80)
    return [
        plain("memory", "memory, average value", [average], moves=3),
        plain("memory-share", "memory of its requests", [share], moves=3),
        plain("rps", "a Pods metric", [pods_metric()], moves=4),
        plain("queue", "an External metric, average value", [queue()], moves=4),
        plain("jobs", "an External value, down to zero", [value], lowest=0, needs=[GATES]),
        plain("several", "cpu, Pods and External", [cpu(), pods_metric(), queue()], moves=4),
        plain("container", "cpu of a container", [container()], moves=5, needs=[GATES]),
        plain("half", "cpu, and a metric that is not there", [cpu(), object_metric()], moves=3),
        plain("blind", "only a metric that is not there", [object_metric()], moves=1),
    ]


def _shared() -> list[Case]:
    """Two Deployments whose HPAs see each other's pods: in 1.20 both act."""
    wide, narrow = {"app": "shared"}, {"app": "shared", "tier": "b"}
    found = []
    for name, labels in (("shared-a", wide), ("shared-b", narrow)):
        objects = ((f"{APPS}/namespaces/NS/deployments", workload(name, labels=labels)),)
        about = "its selector matches the other's pods" if labels is wide else "of the other's pods"
        hpa = hpa_of(name, [cpu()])
        # Which of the two is synced first after a change of the load decides who takes how much
        # of it: one of them may move only once.
        found.append(Case(name, about, hpa, ("deployments", name), objects, 2))
    return found


def _targets() -> list[Case]:
    found = []
    for name, kind, resource, root, version in (
        ("set", "ReplicaSet", "replicasets", APPS, "apps/v1"),
        ("stateful", "StatefulSet", "statefulsets", APPS, "apps/v1"),
        ("old", "ReplicationController", "replicationcontrollers", CORE, "v1"),
    ):
        objects = ((f"{root}/namespaces/NS/{resource}", workload(name, kind)),)
        hpa = hpa_of(name, [cpu()], target=(version, kind, name))
        found.append(Case(name, f"a {kind}", hpa, (resource, name), objects, 3))
    unknown = hpa_of("unknown", [cpu()], target=("hpabatch.example/v1", "Gadget", "none"))
    bare = workload("bare", requests={"memory": "1Mi"})
    objects = ((f"{APPS}/namespaces/NS/deployments", bare),)
    return [
        *found, _widget(),
        Case("unknown", "a kind that is not there", unknown, None, (), 0, frozenset()),
        Case("bare", "pods without a cpu request", hpa_of("bare", [cpu()]),
             ("deployments", "bare"), objects, 1),
    ]  # fmt: skip


def _widget() -> Case:
    """A kind of its own with a scale subresource; its three pods never change."""
    body = {
        "apiVersion": "hpabatch.example/v1", "kind": "Widget", "metadata": {"name": "widget"},
        "spec": {"replicas": 3}, "status": {"replicas": 3, "selector": "app=widget"},
    }  # fmt: skip
    pods = [
        (f"{CORE}/namespaces/NS/pods", {
            "apiVersion": "v1", "kind": "Pod", "spec": pod_spec(REQUESTS),
            "metadata": {"name": f"widget-{k}", "labels": {"app": "widget"}},
        })
        for k in range(3)
    ]  # fmt: skip
    hpa = hpa_of("widget", [cpu()], target=("hpabatch.example/v1", "Widget", "widget"))
    objects = (*pods, (f"{WIDGETS}/namespaces/NS/widgets", body))
    needs = frozenset({STUB, CRD})
    return Case("widget", "a kind with a scale", hpa, ("widgets", "widget"), objects, 3, needs)


def _handled() -> list[Case]:
    """HPAs and targets that somebody handles; without metrics they are cases of any cluster."""
    return [
        plain("failing", "pods fail, get unready, lose their metrics", [cpu()], moves=5),
        plain("edited", "its target utilization is changed", [cpu()], moves=4),
        _anywhere("bounds", "min and max are changed", 4),
        _anywhere("resized", "scaled by hand, to zero too", 4),
        _anywhere("gone", "its target is deleted and made anew", 3),
    ]


def _anywhere(name: str, about: str, moves: int) -> Case:
    hpa = hpa_of(name, [cpu()], lowest=2, highest=6)
    objects = ((f"{APPS}/namespaces/NS/deployments", workload(name)),)
    return Case(name, about, hpa, ("deployments", name), objects, moves, frozenset())


def all_cases() -> list[Case]:
    """Return every case, in the order in which they are made."""
    old = plain("ramp", "an HPA of v1", [cpu()], moves=5)
    return [
        old,
        plain("spike", "without behavior", [cpu()], moves=5, highest=20),
        *_behaviors(), *_metrics(), *_shared(), *_targets(), *_handled(),
    ]  # fmt: skip


def in_version(hpa: Json, version: str) -> Json:
    """Return an HPA with its API version; v1 knows one target, cpu of the requests."""
    if version != "v1":
        return {"apiVersion": f"autoscaling/{version}", **hpa}
    spec = dict(hpa["spec"])
    [metric] = spec.pop("metrics")
    spec["targetCPUUtilizationPercentage"] = metric["resource"]["target"]["averageUtilization"]
    return {"apiVersion": "autoscaling/v1", **hpa, "spec": spec}
