"""Workloads of the demo fleet: their HPAs, pods and load.

Work is measured in milli-cores of the whole workload, so that demand, pods and usage agree
whatever the metric is called.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hpabatch.importers.synth.fleet import Container, Document, Signal, hpa_spec


@dataclass(frozen=True, slots=True)
class Burst:
    """Extra demand of every day: `factor` times the usual, from `hour`, for `minutes`, fading."""

    hour: float
    minutes: float
    factor: float


@dataclass(frozen=True, slots=True)
class HpaDocument:
    """An HPA; `edited` is the hour of the last day and the spec that replaced the first."""

    name: str
    spec: Document
    edited: tuple[float, Document] | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """A scaled workload, its HPAs, its demand and its pods.

    Attributes:
        plan_milli: work that a pod is meant for.
        peak_pods: the peak demand of a workday, in pods doing their plan.
        initial: size at the start.
        night: demand at the quietest hour as part of the peak.
        peak_hour: when the peak is.
        noise: relative noise of the demand.
        stands_still: its HPAs cannot act, which no simulation of one HPA knows.
        ceiling_milli: most cpu that a pod can use; None: no limit.
        startup_s: from its start until a pod is ready.
        scheduling_s: how long one pod in three waits for a node.
        rollouts: days (from 0) and hours of new revisions.
        lost: day and hour at which a third of the pods is lost.
        signals: custom and external metrics.
        queue_rate: items a second that a pod takes from the queue of an Object or External metric;
            None: the metric follows the demand.
        unpublished: Pods, Object and External metrics do not exist.
        growth_mib: memory per hour that a pod does not give back; None: it follows the work.
        fault: what is badly set on purpose, for data/README.md; "" if nothing.
    """

    namespace: str
    name: str
    hpas: tuple[HpaDocument, ...]
    containers: tuple[Container, ...]
    plan_milli: float
    peak_pods: float
    initial: int
    kind: str = "Deployment"
    night: float = 0.3
    peak_hour: float = 14.0
    noise: float = 0.03
    bursts: tuple[Burst, ...] = ()
    stands_still: bool = False
    ceiling_milli: int | None = None
    startup_s: int = 12
    scheduling_s: int = 2
    rollouts: tuple[tuple[int, float], ...] = ()
    lost: tuple[int, float] | None = None
    signals: tuple[Signal, ...] = ()
    queue_rate: float | None = None
    unpublished: bool = False
    growth_mib: float | None = None
    fault: str = ""
    labels: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        """Make the labels that the selector asks for."""
        team = {"team": "payments"} if self.namespace == "payments" else {}
        object.__setattr__(self, "labels", {"app": self.name, **team})

    @property
    def selector(self) -> str:
        """The scale's selector in string form."""
        return ",".join(f"{key}={value}" for key, value in sorted(self.labels.items()))


def app(cpu: int | None, memory_request: int | None = 256, **more: Any) -> Container:
    """Return an app container with a cpu request in milli and a memory request in MiB."""
    return Container("app", cpu_request=cpu, memory_request_mib=memory_request, **more)


def sidecar(cpu: int | None, memory_mib: int | None = 64) -> Container:
    """Return a sidecar that does a seventh of the pod's work beside it."""
    return Container(
        "envoy",
        kind="sidecar",
        cpu_request=cpu,
        memory_request_mib=memory_mib,
        share=0.15,
        idle_milli=3,
        memory_mib=38,
        memory_load_mib=8,
    )


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
    initial: int | None = None,
    **more: Any,
) -> Workload:
    """Return a workload with one HPA of its own name.

    `edit` is an hour of the last day and a new maxReplicas.
    """

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
        max(bounds[0] or 1, 1) if initial is None else initial,
        kind=kind,
        **more,
    )
