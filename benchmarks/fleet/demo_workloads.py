"""Workloads of the demo fleet: their HPAs, pods and load.

Work is measured in milli-cores of the whole workload, so that demand, pods and usage agree
whatever the metric is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.fleet.parts import Container, Document

_WORKLOADS = Path(__file__).with_name("demo.yaml")
_MANIFESTS = Path(__file__).parents[2] / "data" / "demo-manifests"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A scaled workload, its HPAs, its demand and its pods.

    Attributes:
        hpas: specs by name, as they are at the end.
        containers: the first is the app.
        plan_milli: work that a pod is meant for.
        peak_pods: the peak demand of a workday, in pods doing their plan.
        initial: size at the start.
        edited: until that hour of the last day maxReplicas was this.
        night: demand at the quietest hour as part of the peak.
        peak_hour: when the peak is.
        noise: relative noise of the demand.
        bursts: of every day: hour, minutes, and factor of the usual demand.
        stands_still: its HPAs cannot act, which no simulation of one HPA knows.
        ceiling_milli: most cpu that a pod can use; None: no limit.
        startup_s: from its start until a pod is ready.
        scheduling_s: how long one pod in three waits for a node.
        rollouts: days (from 0) and hours of new revisions.
        lost: day and hour at which a third of the pods is lost.
        per_core: units of its Pods, Object or External metric per core of work.
        queue_rate: items a second that a pod takes from the queue of an Object or External metric;
            None: the metric follows the demand.
        unpublished: Pods, Object and External metrics do not exist.
        growth_mib: memory per hour that a pod does not give back; None: it follows the work.
        fault: what is badly set on purpose, for data/README.md; "" if nothing.
    """

    namespace: str
    name: str
    kind: str
    hpas: dict[str, Document]
    containers: tuple[Container, ...]
    plan_milli: float
    peak_pods: float
    initial: int
    edited: tuple[float, int] | None = None
    night: float = 0.3
    peak_hour: float = 14.0
    noise: float = 0.03
    bursts: Sequence[tuple[float, float, float]] = ()
    stands_still: bool = False
    ceiling_milli: int | None = None
    startup_s: int = 12
    scheduling_s: int = 2
    rollouts: Sequence[tuple[int, float]] = ()
    lost: tuple[int, float] | None = None
    per_core: float = 0.0
    queue_rate: float | None = None
    unpublished: bool = False
    growth_mib: float | None = None
    fault: str = ""

    @property
    def labels(self) -> dict[str, str]:
        """The labels that the selector asks for."""
        team = {"team": "payments"} if self.namespace == "payments" else {}
        return {"app": self.name, **team}

    @property
    def selector(self) -> str:
        """The scale's selector in string form."""
        return ",".join(f"{key}={value}" for key, value in sorted(self.labels.items()))

    @property
    def cpu_unit(self) -> int:
        """The steps in which a pod's cpu is sampled, about 3 % of what it is meant for; milli."""
        return max(1, round(self.plan_milli / 30))


def demo_fleet() -> tuple[Workload, ...]:
    """Return the demo's workloads, with the HPAs of its manifests."""
    fleet = []
    for namespace, workloads in yaml.safe_load(_WORKLOADS.read_text()).items():
        manifests = list(yaml.safe_load_all((_MANIFESTS / f"{namespace}.yaml").read_text()))
        for name, given in workloads.items():
            hpas = {
                document["metadata"]["name"]: document["spec"]
                for document in manifests
                if document["spec"]["scaleTargetRef"]["name"] == name
            }
            fleet.append(_workload(namespace, name, hpas, **given))
    return tuple(fleet)


def _workload(
    namespace: str,
    name: str,
    hpas: dict[str, Document],
    app: dict[str, Any],
    beside: Sequence[dict[str, Any]] = (),
    **more: Any,
) -> Workload:
    first = next(iter(hpas.values()))
    fields: dict[str, Any] = {"initial": first.get("minReplicas") or 1} | more
    return Workload(
        namespace=namespace,
        name=name,
        kind=first["scaleTargetRef"]["kind"],
        hpas=hpas,
        containers=(Container("app", **app), *(Container(**other) for other in beside)),
        **fields,
    )
