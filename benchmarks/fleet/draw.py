"""Options of a large fleet, and its workloads, each drawn from random streams of its own."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any

import numpy as np

from benchmarks.fleet.parts import DAY_MS, Container, Document
from hpabatch.errors import UsageError
from hpabatch.model.options import Request, option
from hpabatch.model.times import show_duration

KIND = "Deployment"
_JITTER_MS = 1000
_HPAS_PER_NAMESPACE = 25

_REQUESTS = (100, 200, 250, 500, 1000, 2000)
_TARGETS = (50, 55, 60, 65, 70, 75, 80)
# Part of the app's request that each sidecar asks for.
_SIDECAR_PART = 0.1
# A recording keeps some more pods than the demand needs: it waits before it removes any.
_OVERHANG = 1.07


def _rules(*policies: tuple[str, int, int], **more: Any) -> Document:
    """Return one direction of `behavior`; policies are (type, value, periodSeconds)."""
    names = ("type", "value", "periodSeconds")
    listed = [dict(zip(names, policy, strict=True)) for policy in policies]
    return more | ({"policies": listed} if listed else {})


_BEHAVIORS: tuple[Document, ...] = (
    {"scaleDown": _rules(stabilizationWindowSeconds=60)},
    {"scaleDown": _rules(("Percent", 10, 60), stabilizationWindowSeconds=300)},
    {"scaleUp": _rules(("Pods", 4, 60), ("Percent", 50, 60), selectPolicy="Max")},
    {
        "scaleUp": _rules(("Percent", 100, 30), stabilizationWindowSeconds=30),
        "scaleDown": _rules(("Pods", 2, 120), selectPolicy="Min"),
    },
    {
        "scaleUp": _rules(stabilizationWindowSeconds=0),
        "scaleDown": _rules(("Percent", 50, 60), stabilizationWindowSeconds=600),
    },
)


@dataclass(frozen=True, kw_only=True)
class FleetRequest(Request):
    """A large fleet: its size, span, faults and seed."""

    hpas: int = option(
        "number", "Number of HPAs, each with a Deployment.", 100, metavar="N", minimum=1,
        maximum=100_000,
    )  # fmt: skip
    pods: int = option(
        "number", "Pods of an HPA, on average.", 20, metavar="N", minimum=1, maximum=5000
    )
    days: int = option("number", "Number of UTC days.", 1, metavar="N", minimum=1, maximum=366)
    step_ms: int = option(
        "duration", "Time between two samples of a pod; divides the day.", 15_000, metavar="TIME",
        minimum=1_000, maximum=3_600_000,
    )  # fmt: skip
    seed: int = option(
        "number", "Seed of all random draws.", 7, metavar="N", minimum=0, maximum=2**63 - 1
    )
    start: str = option("text", "First day (UTC).", "2026-10-05", metavar="YYYY-MM-DD")
    containers: int = option(
        "number", "Containers of a pod; all but the first are sidecars.", 1, metavar="N",
        minimum=1, maximum=9,
    )  # fmt: skip
    cluster: str = option("text", "Name of the cluster.", "synthetic", metavar="NAME")

    def check(self) -> None:
        """Refuse what cannot be made (UsageError)."""
        super().check()
        if DAY_MS % self.step_ms:
            raise UsageError(
                f"--step {show_duration(self.step_ms)}: expected a time of which a day has a whole "
                "number, such as 5s, 15s, 30s or 1m"
            )
        try:
            self.first_day  # noqa: B018
        except ValueError:
            raise UsageError(
                f"--start: expected a day such as 2026-10-05, got {self.start!r}"
            ) from None

    @property
    def first_day(self) -> datetime:
        """Midnight UTC of the first day."""
        return datetime.strptime(self.start, "%Y-%m-%d").replace(tzinfo=UTC)

    @property
    def start_ms(self) -> int:
        """Midnight UTC of the first day, ms since 1970."""
        return int(self.first_day.timestamp()) * 1000

    @property
    def spread_ms(self) -> int:
        """Most time by which a sample comes late."""
        return _JITTER_MS if self.step_ms >= 3 * _JITTER_MS else 0

    @property
    def steps(self) -> int:
        """Steps of a day."""
        return DAY_MS // self.step_ms

    @property
    def unit_ms(self) -> int:
        """The grain of sample times: whole seconds, as the metrics API gives, where possible."""
        return 1 if self.step_ms % 1000 or self.spread_ms % 1000 else 1000


class Purpose(IntEnum):
    """What a random stream is for; numbers are part of the data and never change."""

    profile = 1
    demand = 2
    trouble = 3
    lives = 4
    traits = 5
    usage = 6


class Streams:
    """All random numbers of one workload, each at an address of its own.

    A Philox generator is a function of key and counter. The key comes from the seed and the
    workload's name, the counter from the purpose, a number and the day. So what is drawn for one
    pod and day depends on no other draw, whatever is generated before, beside or not at all.
    """

    def __init__(self, seed: int, identity: str) -> None:
        """Derive the key of a workload, e.g. `synthetic/ns-0001/app-00025`."""
        digest = hashlib.sha256(identity.encode()).digest()
        words = [int.from_bytes(digest[i : i + 4], "little") for i in range(0, 16, 4)]
        low, high = np.random.SeedSequence([seed, *words]).generate_state(2, np.uint64)
        self._key = int(low) | int(high) << 64

    def open(self, purpose: Purpose, day: int = 0, number: int = 0) -> np.random.Generator:
        """Return the generator at an address."""
        counter = (day << 192) | (number << 128) | (int(purpose) << 64)
        return np.random.Generator(np.random.Philox(key=self._key, counter=counter))


@dataclass(frozen=True, slots=True)
class DrawnWorkload:
    """A Deployment, its HPA and its demand.

    Attributes:
        plan_milli: cpu per pod at which the HPA is content, of all containers.
        mean_pods: demand of an average hour, in pods doing their plan.
        night: demand at the quietest hour as part of the peak.
        weekend: demand of a Saturday or Sunday as part of a workday's.
        bursts: how many bursts a day has on average.
        low, high: minReplicas and maxReplicas.
        startup_s: from running to ready.
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
    spec: Document

    @property
    def place(self) -> dict[str, Any]:
        """The columns that name the workload in every table."""
        return {"cluster": self.cluster, "namespace": self.namespace, "target": self.name}


def draw_workload(request: FleetRequest, index: int) -> tuple[DrawnWorkload, Streams]:
    """Draw what a workload is like; return it with its random streams."""
    # They depend on nothing but the number: a larger fleet has the same ones and more.
    namespace, name = f"ns-{index // _HPAS_PER_NAMESPACE:04d}", f"app-{index:05d}"
    streams = Streams(request.seed, f"{request.cluster}/{namespace}/{name}")
    rng = streams.open(Purpose.profile)
    # Sizes of workloads are spread: many small ones, a few large ones, 1 on average.
    factor = float(np.clip(np.exp(rng.normal(-0.125, 0.5)), 0.25, 4.0))
    cpu_request = int(rng.choice(_REQUESTS))
    target = int(rng.choice(_TARGETS))
    night, weekend = float(rng.uniform(0.3, 0.75)), float(rng.uniform(0.7, 1.0))
    containers = _containers(request, cpu_request, rng)
    plan_milli = sum(c.cpu_request or 0 for c in containers) * target / 100
    mean_pods = max(request.pods * factor / _OVERHANG, 0.7)
    peak = mean_pods / mean_level(night, weekend)
    low = max(1, math.floor(peak * night * float(rng.uniform(0.4, 1.0))))
    high = max(low + 1, math.ceil(peak * float(rng.uniform(1.1, 1.8))))
    rng.choice(3)  # (a draw that the data have had since they had metrics of other kinds)
    behavior = _BEHAVIORS[int(rng.integers(len(_BEHAVIORS)))] if rng.random() < 0.25 else None
    percent = {"type": "Utilization", "averageUtilization": target}
    spec: Document = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": KIND, "name": name},
        "minReplicas": low,
        "maxReplicas": high,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": percent}}],
    }
    work = DrawnWorkload(
        cluster=request.cluster,
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
        spec=spec | ({} if behavior is None else {"behavior": behavior}),
    )
    return work, streams


def mean_level(night: float, weekend: float) -> float:
    """Return the week's mean of the demand's daily shape, as part of its peak."""
    wave = (1.0 + np.cos(np.arange(1440) / 1440 * 2.0 * np.pi)) / 2.0
    day = night + (1.0 - night) * float(np.mean(wave**1.3))
    return day * (5.0 + 2.0 * weekend) / 7.0


def _containers(
    request: FleetRequest, cpu_request: int, rng: np.random.Generator
) -> tuple[Container, ...]:
    """Return the app and its sidecars; `share` is each one's part of the pod's requests."""
    memory = int(rng.choice((128, 256, 512, 1024)))
    has_limit = rng.random() < 0.4
    native = rng.random() < 0.5
    small = max(10, round(cpu_request * _SIDECAR_PART))
    total = cpu_request + small * (request.containers - 1)
    app = Container(
        "app",
        cpu_request=cpu_request,
        memory_request_mib=memory,
        cpu_limit=2 * cpu_request if has_limit else None,
        memory_limit_mib=2 * memory,
        share=cpu_request / total,
        memory_mib=round(memory * 0.45),
        memory_load_mib=round(memory * 0.2),
    )
    sidecars = (
        Container(
            f"sidecar-{number}",
            kind="sidecar" if native else "app",
            cpu_request=small,
            memory_request_mib=64,
            share=small / total,
            idle_milli=2,
            memory_mib=34,
            memory_load_mib=8,
        )
        for number in range(1, request.containers)
    )
    return (app, *sidecars)
