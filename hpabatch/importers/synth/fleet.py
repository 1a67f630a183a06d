"""What a synthetic workload is made of, and short spellings for autoscaling/v2 documents.

Work is measured in milli-cores of the whole workload, so that demand, pods and usage agree
whatever the metric is called.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Document = dict[str, Any]
"""A part of an autoscaling/v2 document, as JSON has it."""


@dataclass(frozen=True, slots=True)
class Container:
    """A container: what it asks for and what it uses.

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
class Burst:
    """Extra demand: `factor` times the usual, from `hour`, for `minutes`, then fading away."""

    hour: float
    minutes: float
    factor: float


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


@dataclass(frozen=True, slots=True)
class Trouble:
    """What goes wrong with the pods, as hours of the day; None: it does not happen."""

    flaky_hour: float | None = None  # the readiness probe fails under load for half an hour
    pending_hour: float | None = None  # pods of this half hour find no node
    evicted_hour: float | None = None  # a pod fails and stays as a Failed object
    job_hour: float | None = None  # a Job's pod carries the same label, ends as Succeeded
    no_cpu_hour: float | None = None  # samples lack cpu for ten minutes
    restarts: int = 0  # containers killed and started again


@dataclass(frozen=True, slots=True)
class HpaDocument:
    """An HPA; `edited` is the hour and the spec that replaced the first."""

    name: str
    spec: Document
    edited: tuple[float, Document] | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """A scaled workload, its HPAs, its demand and its pods.

    Attributes:
        plan_milli: work per pod that the recorded replica count aims at.
        peak_pods: the day's peak demand, in pods doing their plan.
        night: demand at the quietest hour as part of the peak.
        peak_hour: when the peak is.
        noise: relative noise of the demand.
        hold_minutes: how long the recording waits before it removes pods.
        stands_at: the recorded size never changes (its HPA cannot act); None: it does.
        startup_s: from start to ready.
        sticky_memory: memory that is not given back.
        fault: what is badly set on purpose, for data/README.md; "" if nothing.
    """

    namespace: str
    name: str
    hpas: tuple[HpaDocument, ...]
    containers: tuple[Container, ...]
    plan_milli: float
    peak_pods: float
    kind: str = "Deployment"
    night: float = 0.3
    peak_hour: float = 14.0
    noise: float = 0.05
    bursts: tuple[Burst, ...] = ()
    hold_minutes: int = 10
    stands_at: int | None = None
    startup_s: float = 12.0
    rollout_hour: float | None = None
    signals: tuple[Signal, ...] = ()
    trouble: Trouble = field(default_factory=Trouble)
    pod_requests: tuple[int | None, int | None] | None = None
    overhead: tuple[int, int] | None = None
    sample_window_ms: int | None = 15_000
    sticky_memory: bool = False
    fault: str = ""

    @property
    def selector(self) -> str:
        """The scale's selector in string form."""
        return ",".join(f"{key}={value}" for key, value in sorted(self.labels.items()))

    @property
    def labels(self) -> dict[str, str]:
        """The labels that the selector asks for."""
        labels = {"app": self.name}
        if self.namespace == "payments":
            labels["team"] = "payments"
        return labels

    def bounds(self, hour: float) -> tuple[int, int]:
        """Return between which sizes the recording moves at an hour, the widest of all HPAs."""
        if self.stands_at is not None:
            return self.stands_at, self.stands_at
        specs = [
            hpa.edited[1] if hpa.edited and hour >= hpa.edited[0] else hpa.spec for hpa in self.hpas
        ]
        return (
            min(int(spec.get("minReplicas", 1)) for spec in specs),
            max(int(spec["maxReplicas"]) for spec in specs),
        )


def app(cpu: int | None, memory_request: int | None = 256, **more: Any) -> Container:
    """Return an app container with a cpu request in milli and a memory request in MiB."""
    return Container("app", cpu_request=cpu, memory_request_mib=memory_request, **more)


def sidecar(cpu: int | None, memory_mib: int | None = 64, name: str = "envoy") -> Container:
    """Return a sidecar that does a seventh of the pod's work beside it."""
    return Container(
        name,
        kind="sidecar",
        cpu_request=cpu,
        memory_request_mib=memory_mib,
        share=0.15,
        idle_milli=3,
        memory_mib=38,
        memory_load_mib=8,
    )


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


def scaled(
    namespace: str,
    name: str,
    bounds: tuple[int | None, int],
    metrics: tuple[Document, ...],
    containers: tuple[Container, ...],
    plan_milli: float,
    peak_pods: float,
    *,
    kind: str = "Deployment",
    edit: tuple[float, int] | None = None,
    up: Document | None = None,
    down: Document | None = None,
    behavior: Document | None = None,
    **more: Any,
) -> Workload:
    """Return a workload with one HPA of its own name; `edit` is an hour and a new maxReplicas."""

    def spec(maximum: int) -> Document:
        return hpa_spec(
            name, bounds[0], maximum, *metrics, kind=kind, up=up, down=down, behavior=behavior
        )

    edited = None if edit is None else (edit[0], spec(edit[1]))
    return Workload(
        namespace,
        name,
        (HpaDocument(name, spec(bounds[1]), edited),),
        containers,
        plan_milli,
        peak_pods,
        kind=kind,
        **more,
    )
