"""One workload of a synthetic fleet: requests, load and HPA."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hpabatch.importers.synth.fleet import (
    Container,
    Document,
    Signal,
    average,
    container_resource,
    external_metric,
    hpa_spec,
    object_metric,
    pods_metric,
    resource,
    rules,
    utilization,
)
from hpabatch.importers.synth.request import SynthRequest
from hpabatch.importers.synth.scale.streams import Purpose, Streams

KIND = "Deployment"
HPAS_PER_NAMESPACE = 25

_REQUESTS = (100, 200, 250, 500, 1000, 2000)
_TARGETS = (50, 55, 60, 65, 70, 75, 80)
# Part of the app's request that each sidecar asks for.
_SIDECAR_PART = 0.1
# What HPAs are set by under `--metrics mix`, and in which parts.
_MIX = ("cpu", "cpu+memory", "container", "pods", "object", "external")
_MIX_PARTS = (0.48, 0.12, 0.10, 0.12, 0.09, 0.09)
# A recording keeps some more pods than the demand needs: it waits before it removes any.
_OVERHANG = 1.07

_BEHAVIORS: tuple[dict[str, Document], ...] = (
    {"down": rules(window=60)},
    {"down": rules(("Percent", 10, 60), window=300)},
    {"up": rules(("Pods", 4, 60), ("Percent", 50, 60), select="Max")},
    {"up": rules(("Percent", 100, 30), window=30), "down": rules(("Pods", 2, 120), select="Min")},
    {"up": rules(window=0), "down": rules(("Percent", 50, 60), window=600)},
)


@dataclass(frozen=True, slots=True)
class ScaleWorkload:
    """A Deployment, its HPA and its demand.

    Attributes:
        plan_milli: cpu per pod at which the HPA is content, of all containers.
        mean_pods: demand of an average hour, in pods doing their plan.
        night: demand at the quietest hour as part of the peak.
        weekend: demand of a Saturday or Sunday as part of a workday's.
        bursts: how many bursts a day has on average.
        low, high: minReplicas and maxReplicas.
        startup_s: from running to ready.
        signal: the custom or external metric of the HPA, None: it has none.
    """

    cluster: str
    namespace: str
    name: str
    containers: tuple[Container, ...]
    plan_milli: float
    mean_pods: float
    night: float
    weekend: float
    peak_hour: float
    noise: float
    bursts: float
    low: int
    high: int
    startup_s: int
    signal: Signal | None
    spec: Document

    @property
    def selector(self) -> str:
        """The scale's selector in string form."""
        return f"app={self.name}"

    @property
    def memory_mib(self) -> int:
        """Working set of the app at rest."""
        return self.containers[0].memory_mib


def identity_of(settings: SynthRequest, index: int) -> tuple[str, str, str]:
    """Return cluster, namespace and name of the workload with a number from 0.

    They depend on nothing but the number and the clusters, so a larger fleet has the same ones
    and more.
    """
    space = index // HPAS_PER_NAMESPACE
    cluster = settings.cluster
    if settings.clusters > 1:
        cluster = f"{cluster}-{space % settings.clusters + 1}"
    return cluster, f"ns-{space:04d}", f"app-{index:05d}"


def streams_of(settings: SynthRequest, index: int) -> Streams:
    """Return the random streams of a workload."""
    return Streams(settings.seed, "/".join(identity_of(settings, index)))


def draw_workload(settings: SynthRequest, index: int, streams: Streams) -> ScaleWorkload:
    """Draw what a workload is like."""
    rng = streams.open(Purpose.profile)
    cluster, namespace, name = identity_of(settings, index)
    # Sizes of workloads are spread: many small ones, a few large ones, 1 on average.
    factor = float(np.clip(np.exp(rng.normal(-0.125, 0.5)), 0.25, 4.0))
    request = int(rng.choice(_REQUESTS))
    target = int(rng.choice(_TARGETS))
    night, weekend = float(rng.uniform(0.3, 0.75)), float(rng.uniform(0.7, 1.0))
    containers = _containers(settings, request, rng)
    plan_milli = sum(c.cpu_request or 0 for c in containers) * target / 100
    mean_pods = max(settings.pods * factor / _OVERHANG, 0.7)
    peak = mean_pods / mean_level(night, weekend)
    low = max(1, math.floor(peak * night * float(rng.uniform(0.4, 1.0))))
    high = max(low + 1, math.ceil(peak * float(rng.uniform(1.1, 1.8))))
    kind = str(rng.choice(_MIX, p=_MIX_PARTS)) if settings.metrics == "mix" else "cpu"
    signal = _signal(kind, name, float(rng.choice((20, 50, 120))))
    behavior = _BEHAVIORS[int(rng.integers(len(_BEHAVIORS)))] if rng.random() < 0.25 else {}
    metrics = _metrics(kind, target, signal, plan_milli)
    return ScaleWorkload(
        cluster=cluster,
        namespace=namespace,
        name=name,
        containers=containers,
        plan_milli=plan_milli,
        mean_pods=mean_pods,
        night=night,
        weekend=weekend,
        peak_hour=float(rng.normal(14.0, 2.5)),
        noise=float(rng.uniform(0.02, 0.08)),
        bursts=float(rng.uniform(0.0, 2.0)),
        low=low,
        high=high,
        startup_s=int(np.clip(rng.lognormal(2.7, 0.6), 3, 120)),
        signal=signal,
        spec=hpa_spec(name, low, high, *metrics, kind=KIND, **behavior),
    )


def mean_level(night: float, weekend: float) -> float:
    """Return the week's mean of the demand's daily shape, as part of its peak."""
    wave = (1.0 + np.cos(np.arange(1440) / 1440 * 2.0 * np.pi)) / 2.0
    day = night + (1.0 - night) * float(np.mean(wave**1.3))
    return day * (5.0 + 2.0 * weekend) / 7.0


def _containers(
    settings: SynthRequest, request: int, rng: np.random.Generator
) -> tuple[Container, ...]:
    """Return the app and its sidecars; `share` is each one's part of the pod's requests."""
    memory = int(rng.choice((128, 256, 512, 1024)))
    has_limit = rng.random() < 0.4
    native = rng.random() < 0.5
    small = max(10, round(request * _SIDECAR_PART))
    total = request + small * (settings.containers - 1)
    app = Container(
        "app",
        cpu_request=request,
        memory_request_mib=memory,
        cpu_limit=2 * request if has_limit else None,
        memory_limit_mib=2 * memory,
        share=request / total,
        memory_mib=round(memory * 0.45),
        memory_load_mib=round(memory * 0.2),
    )
    sidecar = Container(
        "sidecar",
        kind="sidecar" if native else "app",
        cpu_request=small,
        memory_request_mib=64,
        share=small / total,
        idle_milli=2,
        memory_mib=34,
        memory_load_mib=8,
    )
    return (app, *[_renamed(sidecar, i) for i in range(1, settings.containers)])


def _renamed(container: Container, number: int) -> Container:
    return Container(
        f"{container.name}-{number}",
        kind=container.kind,
        cpu_request=container.cpu_request,
        memory_request_mib=container.memory_request_mib,
        share=container.share,
        idle_milli=container.idle_milli,
        memory_mib=container.memory_mib,
        memory_load_mib=container.memory_load_mib,
    )


def _signal(kind: str, name: str, per_core: float) -> Signal | None:
    match kind:
        case "pods":
            return Signal("pods", "http_requests_per_second", per_core)
        case "object":
            return Signal(
                "object", "requests_per_second", per_core, object_kind="Ingress", object_name=name
            )
        case "external":
            return Signal("external", "queue_messages", per_core, selector=f"queue={name}")
    return None


def _metrics(
    kind: str, target: int, signal: Signal | None, plan_milli: float
) -> tuple[Document, ...]:
    """Return the HPA's metrics: content at the same work per pod whatever they are."""
    if signal is not None:
        per_pod = average(f"{max(1, round(plan_milli * signal.per_core))}m")
        if signal.kind == "pods":
            return (pods_metric(signal.metric, per_pod),)
        if signal.kind == "object":
            return (
                object_metric(
                    signal.object_kind,
                    signal.object_name,
                    "networking.k8s.io/v1",
                    signal.metric,
                    per_pod,
                ),
            )
        key, _, value = signal.selector.partition("=")
        return (external_metric(signal.metric, per_pod, {key: value}),)
    if kind == "container":
        return (container_resource("cpu", "app", utilization(target)),)
    cpu = resource("cpu", utilization(target))
    # A memory target that the usage stays below: cpu decides nearly always.
    return (cpu, resource("memory", utilization(85))) if kind == "cpu+memory" else (cpu,)
