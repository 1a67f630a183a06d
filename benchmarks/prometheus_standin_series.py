"""The series of the made-up fleet: their labels, and what they say from which scrape on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from benchmarks.prometheus_standin_fleet import FLIP, MINUTE_MS, Fleet, Pod

Labels = dict[str, str]
Steps = list[tuple[int, int, str]]
"""First scrape, last scrape exclusive, and the value as it is printed."""

CPU: Final = "container_cpu_usage_seconds_total"
MEMORY: Final = "container_memory_working_set_bytes"
HPA: Final = "kube_horizontalpodautoscaler"
GIB: Final = 1 << 30


class Gauge(NamedTuple):
    """A series of kube-state-metrics."""

    labels: Labels
    steps: Steps


class Usage(NamedTuple):
    """A series of cAdvisor: a pod's container, sampled in minutes first <= minute < last."""

    labels: Labels
    pod: Pod
    first: int
    last: int
    factor: int
    """Values are those of the formula, times this: the row of the whole pod has more."""


Series = Gauge | Usage


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom a metric is about: its series are made when they are asked for.

    Attributes:
        pod: None: it is about a deployment and its HPA, or about the whole cluster.
        deployment: its number, -1: none.
    """

    namespace: str
    name: str
    pod: Pod | None = None
    deployment: int = -1


Maker = Callable[[Fleet, Subject], Iterator[Series]]


class Metric(NamedTuple):
    """How a metric's series are found: the label that names its subject, and what makes them."""

    label: str
    make: Maker


def _scraped(fleet: Fleet, metric: str) -> Labels:
    return {
        "__name__": metric,
        "cluster": fleet.cluster,
        "endpoint": "http",
        "instance": "10.244.0.9:8080",
        "job": "kube-state-metrics",
        "service": "kube-state-metrics",
    }


def _of_pod(fleet: Fleet, metric: str, pod: Pod) -> Labels:
    return _scraped(fleet, metric) | {
        "namespace": pod.namespace,
        "pod": pod.name,
        "uid": pod.uid,
    }


def _node(pod: Pod) -> str:
    return f"node-{pod.number % 50:03d}"


def _created_s(fleet: Fleet, pod: Pod) -> int:
    return (fleet.start_ms + pod.created * MINUTE_MS) // 1000 + 10


def _always(**values: str) -> Callable[[str], Maker]:
    """Return a maker of one series per pod, whose labels and value are formulas."""

    def of(metric: str) -> Maker:
        def make(fleet: Fleet, subject: Subject) -> Iterator[Series]:
            pod = subject.pod
            assert pod is not None
            facts = {
                "node": _node(pod), "replicaset": pod.replicaset, "app": pod.deployment,
                "created": str(_created_s(fleet, pod)), "started": str(_created_s(fleet, pod) + 1),
                "template": pod.replicaset.rpartition("-")[2],
            }  # fmt: skip
            told = {name: text.format_map(facts) for name, text in values.items()}
            value = told.pop("value", "1")
            yield Gauge(_of_pod(fleet, metric, pod) | told, [(pod.first, pod.last, value)])

        return make

    return of


def _phase(fleet: Fleet, subject: Subject) -> Iterator[Series]:
    pod = subject.pod
    assert pod is not None
    labels = _of_pod(fleet, "kube_pod_status_phase", pod)
    for phase in ("Pending", "Succeeded", "Failed", "Unknown", "Running"):
        value = "1" if phase == "Running" else "0"
        yield Gauge(labels | {"phase": phase}, [(pod.first, pod.last, value)])


def ready_steps(fleet: Fleet, pod: Pod) -> list[tuple[int, int, bool]]:
    """Return when a pod is ready: not in its first minute, unsteady ones not at noon either."""
    bounds = [pod.first]
    if pod.created >= 0:
        bounds.append(pod.first + 1)
    if pod.unsteady:
        for day in range(fleet.days):
            bounds += [day * 1440 + minute for minute in FLIP]
    bounds = [*sorted({b for b in bounds if pod.first <= b < pod.last}), pod.last]
    found = []
    for begin, end in pairwise(bounds):
        young = pod.created >= 0 and begin == pod.first
        away = pod.unsteady and FLIP[0] <= begin % 1440 < FLIP[1]
        found.append((begin, end, not young and not away))
    return found


def _ready(fleet: Fleet, subject: Subject) -> Iterator[Series]:
    pod = subject.pod
    assert pod is not None
    labels = _of_pod(fleet, "kube_pod_status_ready", pod)
    steps = ready_steps(fleet, pod)
    for condition in ("true", "false", "unknown"):
        wanted = {"true": True, "false": False}.get(condition)
        told = [(a, b, "1" if ready is wanted else "0") for a, b, ready in steps]
        yield Gauge(labels | {"condition": condition}, told)


def _ready_time(fleet: Fleet, subject: Subject) -> Iterator[Series]:
    pod = subject.pod
    assert pod is not None
    steps = []
    for begin, end, ready in ready_steps(fleet, pod):
        if ready:
            since = _created_s(fleet, pod) + 80
            if pod.unsteady and begin % 1440 == FLIP[1]:
                since = (fleet.start_ms + begin * MINUTE_MS) // 1000 - 30
            steps.append((begin, end, str(since)))
    yield Gauge(_of_pod(fleet, "kube_pod_status_ready_time", pod), steps)


def _resources(metric: str) -> Maker:
    factor = 2 if metric.endswith("limits") else 1

    def make(fleet: Fleet, subject: Subject) -> Iterator[Series]:
        pod = subject.pod
        assert pod is not None
        labels = _of_pod(fleet, metric, pod) | {"container": "app", "node": _node(pod)}
        resized = pod.resized if factor == 1 else None
        steps = [(pod.first, pod.last, "0.5" if factor == 1 else "1")]
        if resized is not None:
            steps = [(pod.first, resized, "0.5"), (resized, pod.last, "0.75")]
        yield Gauge(labels | {"resource": "cpu", "unit": "core"}, steps)
        memory = [(pod.first, pod.last, str(factor * GIB))]
        yield Gauge(labels | {"resource": "memory", "unit": "byte"}, memory)

    return make


def _usage(metric: str) -> Maker:
    def make(fleet: Fleet, subject: Subject) -> Iterator[Series]:
        pod = subject.pod
        assert pod is not None
        labels = {
            "__name__": metric, "cluster": fleet.cluster, "endpoint": "https-metrics",
            "instance": f"{_node(pod)}:10250", "job": "kubelet",
            "metrics_path": "/metrics/cadvisor", "namespace": pod.namespace, "node": _node(pod),
            "pod": pod.name, "service": "kubelet",
        }  # fmt: skip
        if metric == CPU:
            labels["cpu"] = "total"
        group = f"/kubepods/burstable/pod{pod.uid}"
        firsts, lasts = fleet.sample_bounds([pod])
        first, last = int(firsts[0]), int(lasts[0])
        bounds = [first, *([pod.restarted] if pod.restarted else []), last]
        for life, (begin, end) in enumerate(pairwise(bounds)):
            own = {"container": "app", "id": f"{group}/{pod.number:08x}{life:056x}",
                   "image": "registry.example/app:1", "name": f"{life:02x}"}  # fmt: skip
            yield Usage(labels | own, pod, begin, end, 1)
        yield Usage(labels | {"id": group}, pod, first, last, 2)  # the pod as a whole

    return make


# ---- deployments and HPAs


def _deployment(metric: str) -> Maker:
    def make(fleet: Fleet, subject: Subject) -> Iterator[Series]:
        labels = _scraped(fleet, metric) | {
            "namespace": subject.namespace, "deployment": subject.name,
        }  # fmt: skip
        yield Gauge(labels, [(a, b, str(size)) for a, b, size in fleet.sizes(subject.deployment)])

    return make


def _replicaset_owner(fleet: Fleet, subject: Subject) -> Iterator[Series]:
    labels = _scraped(fleet, "kube_replicaset_owner") | {
        "namespace": subject.namespace, "replicaset": subject.name,
        "owner_kind": "Deployment", "owner_name": f"app-{subject.deployment:04d}",
        "owner_is_controller": "true",
    }  # fmt: skip
    yield Gauge(labels, [(0, fleet.minutes, "1")])


def _hpa(metric: str, value: str = "1", **more: str) -> Maker:
    def make(fleet: Fleet, subject: Subject) -> Iterator[Series]:
        labels = _scraped(fleet, metric) | {
            "namespace": subject.namespace, "horizontalpodautoscaler": subject.name,
        }  # fmt: skip
        told = {name: text.format(name=subject.name) for name, text in more.items()}
        steps = [(0, fleet.minutes, value)]
        if value == "size":
            steps = [(a, b, str(size)) for a, b, size in fleet.sizes(subject.deployment)]
        elif value == "utilization":
            steps = [
                (at, min(at + 3, fleet.minutes), str(fleet.utilization(subject.deployment, at)))
                for at in range(0, fleet.minutes, 3)
            ]
        yield Gauge(labels | told, steps)

    return make


def _condition(fleet: Fleet, subject: Subject) -> Iterator[Series]:
    metric = f"{HPA}_status_condition"
    for condition in ("AbleToScale", "ScalingActive", "ScalingLimited"):
        for status in ("true", "false", "unknown"):
            holds = status == ("false" if condition == "ScalingLimited" else "true")
            value = "1" if holds else "0"
            yield from _hpa(metric, value, condition=condition, status=status)(fleet, subject)


def _cluster(metric: str, **more: str) -> Maker:
    def make(fleet: Fleet, subject: Subject) -> Iterator[Series]:
        labels = _scraped(fleet, metric) | more
        if subject.namespace:
            labels["namespace"] = subject.namespace
        value = str(fleet.start_ms // 1000 - 10_000_000) if metric.endswith("created") else "1"
        yield Gauge(labels, [(0, fleet.minutes, value)])

    return make


_POD_MAKERS: Final[dict[str, Callable[[str], Maker]]] = {
    "kube_pod_info": _always(
        node="{node}", created_by_kind="ReplicaSet", created_by_name="{replicaset}",
        host_ip="10.0.0.7", pod_ip="10.244.0.7",
    ),
    "kube_pod_owner": _always(
        owner_kind="ReplicaSet", owner_name="{replicaset}", owner_is_controller="true"
    ),
    "kube_pod_labels": _always(label_app="{app}", label_pod_template_hash="{template}"),
    "kube_pod_created": _always(value="{created}"),
    "kube_pod_start_time": _always(value="{started}"),
    "kube_pod_status_ready_time": lambda metric: _ready_time,
    "kube_pod_container_info": _always(container="app", image="registry.example/app:1"),
    "kube_pod_container_resource_requests": _resources,
    "kube_pod_container_resource_limits": _resources,
    "kube_pod_status_phase": lambda metric: _phase,
    "kube_pod_status_ready": lambda metric: _ready,
    CPU: _usage,
    MEMORY: _usage,
}  # fmt: skip

_HPA_MAKERS: Final[dict[str, Maker]] = {
    f"{HPA}_{name}": make
    for name, make in {
        "info": _hpa(
            f"{HPA}_info", scaletargetref_api_version="apps/v1",
            scaletargetref_kind="Deployment", scaletargetref_name="{name}",
        ),
        "spec_min_replicas": _hpa(f"{HPA}_spec_min_replicas", "2"),
        "spec_max_replicas": _hpa(f"{HPA}_spec_max_replicas", "40"),
        "metadata_generation": _hpa(f"{HPA}_metadata_generation", "3"),
        "spec_target_metric": _hpa(
            f"{HPA}_spec_target_metric", "60", metric_name="cpu", metric_target_type="utilization"
        ),
        "status_current_replicas": _hpa(f"{HPA}_status_current_replicas", "size"),
        "status_desired_replicas": _hpa(f"{HPA}_status_desired_replicas", "size"),
        "status_target_metric": _hpa(
            f"{HPA}_status_target_metric", "utilization",
            metric_name="cpu", metric_target_type="utilization",
        ),
        "status_condition": _condition,
    }.items()
}  # fmt: skip

METRICS: Final[dict[str, Metric]] = {
    **{name: Metric("pod", make(name)) for name, make in _POD_MAKERS.items()},
    **{name: Metric("horizontalpodautoscaler", make) for name, make in _HPA_MAKERS.items()},
    **{
        name: Metric("deployment", _deployment(name))
        for name in ("kube_deployment_spec_replicas", "kube_deployment_status_replicas")
    },
    "kube_replicaset_owner": Metric("replicaset", _replicaset_owner),
    "kube_namespace_created": Metric("", _cluster("kube_namespace_created")),
    "kube_namespace_status_phase": Metric(
        "", _cluster("kube_namespace_status_phase", phase="Active")
    ),
    "kubernetes_build_info": Metric(
        "", _cluster("kubernetes_build_info", git_version="v1.29.3", job="apiserver")
    ),
}


def subjects(fleet: Fleet) -> dict[str, list[Subject]]:
    """Return everybody that metrics are about, by the label that names them."""
    pods = [Subject(pod.namespace, pod.name, pod) for pod in fleet.lives]
    deployments = [
        Subject(fleet.namespace(number), f"app-{number:04d}", None, number)
        for number in range(fleet.deployments)
    ]
    sets = {pod.replicaset: pod for pod in fleet.lives}
    spaces = ["default", *sorted({one.namespace for one in deployments})]
    return {
        "pod": pods,
        "deployment": deployments,
        "horizontalpodautoscaler": deployments,
        "replicaset": [
            Subject(pod.namespace, name, None, int(pod.deployment[4:]))
            for name, pod in sets.items()
        ],
        "": [Subject(namespace, "") for namespace in spaces],
    }
