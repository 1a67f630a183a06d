"""The closed loop that the demo is a recording of: workloads as cases of hpabatch's simulation."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import polars as pl

from benchmarks.exported_run import export_run
from benchmarks.fleet.demo_workloads import Workload
from benchmarks.fleet.parts import (
    DAY_MS,
    MIB_MILLI,
    Document,
    Floats,
    Ints,
    burst_shape,
    compact_json,
    day_shape,
    recent_mean,
)
from hpabatch.engine.fleet.candidates import SpecPeriod
from hpabatch.engine.fleet.frames import ALWAYS_MS, NEVER_MS
from hpabatch.engine.simulate.case import SimulationCase
from hpabatch.model import plant
from hpabatch.model.objects.decode import hpa_from_json
from hpabatch.model.objects.defaults import default_hpa
from hpabatch.model.objects.hpa import HPA, HPASpec, MetricSpec
from hpabatch.model.versions import ControllerFlags, profile_for
from hpabatch.packing.workloads import Workload as SimulatedWorkload

START = datetime(2026, 9, 17, tzinfo=UTC)
START_MS = int(START.timestamp()) * 1000
DAYS = 21
CLUSTER = "demo"
K8S = "1.38"
SYNC_MS = 15_000
STEP_MS = 60_000
LAG_MS = 2_000
FIRST_SAMPLE_MS = 15_000
_MAX_AGE_MS = 150_000
_HOUR_MS = 3_600_000
_DAY_STEPS = DAY_MS // STEP_MS
_DRAWS = 4096
# Load balancers are not fair: pods come in three classes by their part of the work.
_SHARES = (1000, 960, 1030)
# A workday is the measure; a Saturday and a Sunday are quieter.
_WEEKDAY_FACTORS = (1.0, 1.02, 1.0, 0.99, 0.95, 0.62, 0.55)


def instant_ms(day: int, hour: float) -> int:
    """Return an instant of a day (from 0)."""
    return START_MS + day * DAY_MS + round(hour * _HOUR_MS)


# When no pod was sampled: the metrics server of the whole cluster was restarted on the last day.
OUTAGE_MS = instant_ms(DAYS - 1, 13 + 37 / 60), instant_ms(DAYS - 1, 13 + 43 / 60)


def demand_milli(work: Workload, rng: np.random.Generator) -> Floats:
    """Return the work that arrives, in milli-cores of the whole workload, per minute.

    A cosine day, the day of the week, slow noise (an AR(1) process, so that neighbors are alike)
    and daily bursts, which differ in height from day to day. Shape (days * 1440,).
    """
    minute = np.arange(_DAY_STEPS * DAYS)
    day, hour = minute // _DAY_STEPS, minute % _DAY_STEPS / 60.0
    shape = day_shape(hour, work.peak_hour, work.night)
    shape = shape * np.array(_WEEKDAY_FACTORS)[(START.weekday() + day) % 7]
    noise = np.empty(minute.size)
    state = 0.0
    for i, step in enumerate(rng.standard_normal(minute.size).tolist()):
        state = 0.9 * state + 0.43 * step
        noise[i] = state
    shape = shape * np.maximum(1.0 + work.noise * noise, 0.05)
    for start, minutes, factor in work.bursts:
        height = (factor - 1.0) * rng.uniform(0.6, 1.2, DAYS)[day]
        shape = shape * burst_shape((hour - start) * 60.0, minutes, height)
    return np.asarray(np.maximum(shape, 0.0) * work.plan_milli * work.peak_pods)


class Load:
    """One workload's random stream, demand and position in the cluster's scrapes.

    The first `hours` are simulated, in so many `steps` (syncs).
    """

    def __init__(self, work: Workload, seed: int, hours: float) -> None:
        """Open the workload's own random stream: adding or dropping others changes nothing."""
        self.work, self.steps = work, round(hours * _HOUR_MS) // SYNC_MS
        self._stream = zlib.crc32(f"{work.namespace}/{work.name}".encode())
        sequence = np.random.SeedSequence(seed, spawn_key=(self._stream,))
        self.demand = demand_milli(work, np.random.Generator(np.random.PCG64(sequence)))
        self.phase_ms = self._stream % 60 * 1000

    def case(self) -> SimulationCase:
        """Return the workload as a case of the simulation, under the first of its HPAs."""
        (name, final), *_ = self.work.hpas.items()
        periods = self._periods(final)
        signals, work = {}, {}
        for period in periods:
            for metric in period.spec.metrics:
                signal = plant.signal_name(metric)
                signals[signal], work[signal] = self._signal(signal, metric)
        simulated = SimulatedWorkload(
            cluster=CLUSTER,
            namespace=self.work.namespace,
            hpa=name,
            plant=plant.Plant(
                signals=signals,
                pods=self._pods(),
                pipelines=self._pipelines(),
                first_draw=self._stream % _DRAWS,
            ),
            work=work,
            work_start_ms=START_MS,
            resolution_ms=STEP_MS,
            initial=self.work.initial,
        )
        return SimulationCase(
            workload=simulated,
            periods=periods,
            setting="demo",
            start_ms=START_MS,
            period_ms=SYNC_MS,
            steps=self.steps,
            flags=ControllerFlags(),
            events=self._events(),
        )

    def specs(self, final: Document) -> tuple[tuple[int | None, Document], ...]:
        """Return the specs of an HPA, each with when it ended (ms)."""
        if self.work.edited is None:
            return ((None, final),)
        hour, maximum = self.work.edited
        at_ms = instant_ms(DAYS - 1, hour)
        return (at_ms, final | {"maxReplicas": maximum}), (None, final)

    def _periods(self, final: Document) -> tuple[SpecPeriod, ...]:
        if self.work.stands_still:
            final = final | dict.fromkeys(("minReplicas", "maxReplicas"), self.work.initial)
        periods, begin = [], ALWAYS_MS
        for ended, spec in self.specs(final):
            end = NEVER_MS if ended is None else ended
            periods.append(SpecPeriod(begin, end, _stored(spec)))
            begin = end
        return tuple(periods)

    def _events(self) -> tuple[plant.Event, ...]:
        events = [plant.Event(instant_ms(*at), plant.ROLLOUT) for at in self.work.rollouts]
        if self.work.lost is not None:
            events.append(plant.Event(instant_ms(*self.work.lost), plant.LOSE, 333))
        return tuple(events)

    def _pods(self) -> plant.Pods:
        start = self.work.startup_s * 1000
        rows = ((1000, start), (2000, start * 6 // 5), (self.work.scheduling_s * 1000, start))
        order = plant.STATEFUL_SET if self.work.kind == "StatefulSet" else plant.REPLICA_SET
        return plant.Pods(
            startup_ms=rows,
            removal=order,
            shares=_SHARES,
            initial_age_ms=(20 + self._stream % 50) * _HOUR_MS,
        )

    def _pipelines(self) -> dict[str, plant.Pipeline]:
        beyond = 1000 * STEP_MS
        never = (START_MS - beyond, START_MS + DAYS * DAY_MS + beyond)
        unpublished = (never,) if self.work.unpublished else ()
        return {
            api: plant.Pipeline(
                interval_ms=STEP_MS,
                phase_ms=self.phase_ms,
                window_ms=30_000,
                lag_ms=LAG_MS,
                first_sample_ms=FIRST_SAMPLE_MS,
                max_age_ms=_MAX_AGE_MS,
                gaps_ms=(OUTAGE_MS,) if api == plant.RESOURCE else unpublished,
            )
            for api in plant.PIPELINES
        }

    # ---- signals

    def _signal(self, name: str, metric: MetricSpec) -> tuple[plant.Signal, Ints]:
        """Return the plant's signal of a metric, and its work per minute."""
        what, *parts = name.split("/")
        work = self.work
        if what in ("resource", "container"):
            return self._cpu(what) if parts[-1] == "cpu" else self._memory()
        units = _whole(self.demand * work.per_core)
        if what == "pods":
            return plant.Signal(plant.DIVISIBLE, plant.CUSTOM, unit_milli=1000), units
        if work.queue_rate is None:
            total = plant.Signal(plant.TOTAL, plant.EXTERNAL, unit_milli=1000)
            return total, units // 1000 * 1000
        rate = round(1000 * work.queue_rate)
        backlog = plant.Signal(plant.BACKLOG, plant.EXTERNAL, rate_milli=rate, unit_milli=1000)
        return backlog, _whole(self.demand / work.plan_milli * 1000 * work.queue_rate)

    def _cpu(self, what: str) -> tuple[plant.Signal, Ints]:
        work = self.work
        containers = work.containers[: 1 if what == "container" else None]
        requests = [c.cpu_request for c in containers if c.kind != "init"]
        known = [request for request in requests if request is not None]
        signal = plant.Signal(
            plant.DIVISIBLE,
            base_milli=containers[0].idle_milli,
            ceiling_milli=work.ceiling_milli,
            startup_milli=round(0.3 * work.plan_milli) if work.ceiling_milli else 0,
            request_milli=sum(known) if len(known) == len(requests) else None,
            unit_milli=work.cpu_unit,
        )
        return signal, _whole(self.demand)

    def _memory(self) -> tuple[plant.Signal, Ints]:
        container, growth = self.work.containers[0], self.work.growth_mib
        request = container.memory_request_mib
        signal = plant.Signal(
            plant.DIVISIBLE if growth is None else plant.AGE,
            base_milli=container.memory_mib * MIB_MILLI,
            ceiling_milli=None if growth is None else 4 * request * MIB_MILLI,
            request_milli=request * MIB_MILLI,
            growth_milli_per_hour=round((growth or 0.0) * MIB_MILLI),
            unit_milli=MIB_MILLI,
        )
        recent = recent_mean(self.demand, 30)
        load = recent / self.work.plan_milli * container.memory_load_mib
        return signal, _whole(load) * (MIB_MILLI if growth is None else 0)


def _whole(values: Floats) -> Ints:
    return np.rint(values).astype(np.int64)


def _stored(document: Document) -> HPASpec:
    """Return a spec as the API server stores it."""
    hpa, problems = hpa_from_json(compact_json(document))
    assert not problems, (document, problems)
    return default_hpa(HPA(name="any", namespace="any", spec=hpa.spec)).spec


def simulate(loads: Sequence[Load]) -> dict[str, pl.DataFrame]:
    """Run the fleet's HPAs over their workloads and return the run as tables of a history."""
    return export_run([load.case() for load in loads], profile_for(K8S)).tables
