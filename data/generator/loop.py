"""The closed loop that the demo is a recording of: workloads as cases of hpabatch's simulation."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
import polars as pl

from data.generator.fleet import HpaDocument, Workload
from data.generator.load import DAY_S, STEP_S, demand_milli, smoothed, whole
from hpabatch.engine.fleet.candidates import SpecPeriod
from hpabatch.engine.fleet.frames import ALWAYS_MS, NEVER_MS
from hpabatch.engine.simulate.case import SimulationCase
from hpabatch.engine.simulate.export import export_run
from hpabatch.importers.synth.fleet import Document, Ints, compact_json, start_ms
from hpabatch.model import plant
from hpabatch.model.objects.decode import hpa_from_json
from hpabatch.model.objects.defaults import default_hpa
from hpabatch.model.objects.hpa import HPA, HPASpec, MetricSpec
from hpabatch.model.versions import ControllerFlags, profile_for
from hpabatch.packing.workloads import Workload as SimulatedWorkload

CLUSTER = "demo"
K8S = "1.38"
SYNC_MS = 15_000
LAG_MS = 2_000
FIRST_SAMPLE_MS = 15_000
MAX_AGE_MS = 150_000
_MIB_MILLI = (1 << 20) * 1000
_DRAWS = 4096
# Load balancers are not fair: pods come in three classes by their part of the work.
_SHARES = (1000, 960, 1030)
# The metrics server of the whole cluster was restarted on the last day.
OUTAGE_MINUTES = (13 * 60 + 37, 13 * 60 + 43)


@dataclass(frozen=True, slots=True)
class Span:
    """The days of a recording; `part` of them in hours is simulated, None: all."""

    first: date
    days: int
    part: float | None = None

    @property
    def start_ms(self) -> int:
        """Midnight of the first day."""
        return start_ms(self.first)

    @property
    def last_day_ms(self) -> int:
        """Midnight of the last day."""
        return self.start_ms + (self.days - 1) * DAY_S * 1000

    @property
    def steps(self) -> int:
        """Number of syncs."""
        hours = 24.0 * self.days if self.part is None else self.part
        return round(hours * 3_600_000) // SYNC_MS


class Load:
    """One workload's random stream, demand and position in the cluster's scrapes."""

    def __init__(self, work: Workload, seed: int, span: Span) -> None:
        """Open the workload's own random stream: adding or dropping others changes nothing."""
        self.work, self.span = work, span
        self.stream = zlib.crc32(f"{work.namespace}/{work.name}".encode())
        self.rng = np.random.Generator(
            np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(self.stream,)))
        )
        self.demand = demand_milli(work, span.first.weekday(), span.days, self.rng)
        self.phase_ms = self.stream % STEP_S * 1000

    def case(self) -> SimulationCase:
        """Return the workload as a case of the simulation, under the first of its HPAs."""
        document, span = self.work.hpas[0], self.span
        periods = self._periods(document)
        signals, work = {}, {}
        for period in periods:
            for metric in period.spec.metrics:
                name = plant.signal_name(metric)
                signals[name], work[name] = self._signal(name, metric)
        simulated = SimulatedWorkload(
            cluster=CLUSTER,
            namespace=self.work.namespace,
            hpa=document.name,
            plant=plant.Plant(
                signals=signals,
                pods=self._pods(),
                pipelines=self._pipelines(),
                first_draw=self.stream % _DRAWS,
            ),
            work=work,
            work_start_ms=span.start_ms,
            resolution_ms=STEP_S * 1000,
            initial=self.work.initial,
        )
        return SimulationCase(
            workload=simulated,
            periods=periods,
            setting="demo",
            start_ms=span.start_ms,
            period_ms=SYNC_MS,
            steps=span.steps,
            flags=ControllerFlags(),
            events=self._events(),
        )

    def _periods(self, document: HpaDocument) -> tuple[SpecPeriod, ...]:
        if self.work.stands_still:
            still = {"minReplicas": self.work.initial, "maxReplicas": self.work.initial}
            return (SpecPeriod(ALWAYS_MS, NEVER_MS, spec_of(document.spec | still)),)
        if document.edited is None:
            return (SpecPeriod(ALWAYS_MS, NEVER_MS, spec_of(document.spec)),)
        at_ms = self.span.last_day_ms + round(document.edited[0] * 3_600_000)
        return (
            SpecPeriod(ALWAYS_MS, at_ms, spec_of(document.spec)),
            SpecPeriod(at_ms, NEVER_MS, spec_of(document.edited[1])),
        )

    def _events(self) -> tuple[plant.Event, ...]:
        events = [
            plant.Event(rollout_ms(self.span, day, hour), plant.ROLLOUT)
            for day, hour in self.work.rollouts
        ]
        if self.work.lost is not None:
            events.append(plant.Event(rollout_ms(self.span, *self.work.lost), plant.LOSE, 333))
        return tuple(events)

    def _pods(self) -> plant.Pods:
        start = self.work.startup_s * 1000
        rows = ((1000, start), (2000, start * 6 // 5), (self.work.scheduling_s * 1000, start))
        order = plant.STATEFUL_SET if self.work.kind == "StatefulSet" else plant.REPLICA_SET
        return plant.Pods(
            startup_ms=rows,
            removal=order,
            shares=_SHARES,
            initial_age_ms=(20 + self.stream % 50) * 3_600_000,
        )

    def _pipelines(self) -> dict[str, plant.Pipeline]:
        span, minute = self.span, 60_000
        gap = tuple(span.last_day_ms + at * minute for at in OUTAGE_MINUTES)
        never = (span.start_ms - 1000 * minute, span.last_day_ms + DAY_S * 1000 + 1000 * minute)
        found = {}
        for api in plant.PIPELINES:
            is_pods = api == plant.RESOURCE
            gaps = ((gap[0], gap[1]),) if is_pods else ((never,) if self.work.unpublished else ())
            found[api] = plant.Pipeline(
                interval_ms=STEP_S * 1000,
                phase_ms=self.phase_ms,
                window_ms=30_000,
                lag_ms=LAG_MS,
                first_sample_ms=FIRST_SAMPLE_MS,
                max_age_ms=MAX_AGE_MS,
                gaps_ms=gaps,
            )
        return found

    # ---- signals

    def _signal(self, name: str, metric: MetricSpec) -> tuple[plant.Signal, Ints]:
        """Return the plant's signal of a metric, and its work per minute."""
        what, *parts = name.split("/")
        if what in ("resource", "container"):
            return self._cpu(what) if parts[-1] == "cpu" else self._memory()
        signal = next(s for s in self.work.signals if s.kind == what)
        if what == "pods":
            return (
                plant.Signal(plant.DIVISIBLE, plant.CUSTOM, unit_milli=1000),
                whole(self.demand * signal.per_core),
            )
        if self.work.queue_rate is None:
            return (
                plant.Signal(plant.TOTAL, plant.EXTERNAL, unit_milli=1000),
                whole(self.demand * signal.per_core) // 1000 * 1000,
            )
        rate = whole(np.array([1000 * self.work.queue_rate]))[0]
        arrivals = self.demand / self.work.plan_milli * 1000 * self.work.queue_rate
        return (
            plant.Signal(plant.BACKLOG, plant.EXTERNAL, rate_milli=int(rate), unit_milli=1000),
            whole(arrivals),
        )

    def _cpu(self, what: str) -> tuple[plant.Signal, Ints]:
        containers = self.work.containers[: 1 if what == "container" else None]
        containers = tuple(c for c in containers if c.kind != "init")
        requests = [c.cpu_request for c in containers]
        known = [request for request in requests if request is not None]
        signal = plant.Signal(
            plant.DIVISIBLE,
            base_milli=containers[0].idle_milli,
            ceiling_milli=self.work.ceiling_milli,
            startup_milli=round(0.3 * self.work.plan_milli) if self.work.ceiling_milli else 0,
            request_milli=sum(known) if len(known) == len(requests) else None,
            unit_milli=cpu_unit(self.work),
        )
        return signal, whole(self.demand)

    def _memory(self) -> tuple[plant.Signal, Ints]:
        container = self.work.containers[0]
        request = container.memory_request_mib
        grows = self.work.growth_mib is not None
        signal = plant.Signal(
            plant.AGE if grows else plant.DIVISIBLE,
            base_milli=container.memory_mib * _MIB_MILLI,
            ceiling_milli=4 * (request or 256) * _MIB_MILLI if grows else None,
            request_milli=None if request is None else request * _MIB_MILLI,
            growth_milli_per_hour=round((self.work.growth_mib or 0.0) * _MIB_MILLI),
            unit_milli=_MIB_MILLI,
        )
        load = smoothed(self.demand) / self.work.plan_milli * container.memory_load_mib
        return signal, whole(load) * (0 if grows else _MIB_MILLI)


def cpu_unit(work: Workload) -> int:
    """Return the steps in which a pod's cpu is sampled, about 3 % of what it is meant for."""
    return max(1, round(work.plan_milli / 30))


def rollout_ms(span: Span, day: int, hour: float) -> int:
    """Return an instant of a day."""
    return span.start_ms + day * DAY_S * 1000 + round(hour * 3_600_000)


def spec_of(document: Document) -> HPASpec:
    """Return a spec as the API server stores it."""
    hpa, problems = hpa_from_json(compact_json(document))
    assert not problems, (json.dumps(document), problems)
    return default_hpa(HPA(name="any", namespace="any", spec=hpa.spec)).spec


def simulate(loads: Sequence[Load]) -> dict[str, pl.DataFrame]:
    """Run the fleet's HPAs over their workloads and return the run as tables of a history."""
    return export_run([load.case() for load in loads], profile_for(K8S)).tables
