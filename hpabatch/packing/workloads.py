"""Simulated workloads as columns: plants, their signals and what they work on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hpabatch.layout import plant as layout
from hpabatch.layout.records import I64
from hpabatch.model import plant as model

KIND_CODES = {
    model.DIVISIBLE: layout.SIGNAL_DIVISIBLE,
    model.PER_POD: layout.SIGNAL_PER_POD,
    model.TOTAL: layout.SIGNAL_TOTAL,
    model.BACKLOG: layout.SIGNAL_BACKLOG,
    model.AGE: layout.SIGNAL_AGE,
}


@dataclass(frozen=True, slots=True)
class Workload:
    """The workload of one HPA.

    `work` by signal name, shape (pieces,), milli-units: constant pieces of `resolution_ms` from
    `work_start_ms` on (of divisible and total signals the total, of per-pod ones per pod, of
    backlogs per second). `initial` is the target's size at the start.
    """

    cluster: str
    namespace: str
    hpa: str
    plant: model.Plant
    work: Mapping[str, I64]
    work_start_ms: int
    resolution_ms: int
    initial: int


def primary_signal(plant: model.Plant) -> str | None:
    """Return the name of the signal that demand is measured by: what pods do, else what waits."""
    for kind in (model.DIVISIBLE, model.BACKLOG):
        for name, signal in plant.signals.items():
            if signal.kind == kind:
                return name
    return None


class WorkloadTables:
    """The rows of workloads; equal objects are added once."""

    def __init__(self) -> None:
        """Begin without a row."""
        self.numbers: dict[int, int] = {}
        self.workloads: list[dict[str, int]] = []
        self.levels: list[tuple[int, ...]] = []
        self.signals: list[dict[str, int]] = []
        self.pipelines: list[dict[str, int]] = []
        self.gaps: list[tuple[int, int]] = []
        self.classes: list[tuple[int, int]] = []
        self.startups: list[tuple[int, int]] = []
        self.failures: list[int] = []
        self.work: list[I64] = []
        self.pieces = 0

    def add(self, workload: Workload) -> int:
        """Return the row of a workload."""
        number = self.numbers.setdefault(id(workload), len(self.workloads))
        if number == len(self.workloads):
            self._add(workload)
        return number

    def _add(self, workload: Workload) -> None:
        plant, pods = workload.plant, workload.plant.pods
        first_signal, first_pipeline = len(self.signals), len(self.pipelines)
        pipelines = pipelines_of(plant)
        primary = primary_signal(plant)
        observed = plant.signals[primary].observed_milli if primary else None
        low, high = observed or (-layout.UNLIMITED, layout.UNLIMITED)
        row = {
            "work_start_ms": workload.work_start_ms,
            "resolution_ms": workload.resolution_ms,
            "pieces": max((w.size for w in workload.work.values()), default=1),
            "first_signal": first_signal,
            "last_signal": first_signal + len(plant.signals),
            "first_pipeline": first_pipeline,
            "pipelines": len(pipelines),
            "first_class": len(self.classes),
            "classes": len(pods.shares),
            "first_startup": len(self.startups),
            "startups": len(pods.startup_ms),
            "first_failure": len(self.failures),
            "last_failure": len(self.failures) + len(pods.failure_at_ms),
            "reaction_ms": pods.reaction_ms,
            "termination_ms": pods.termination_ms,
            "serves_while_terminating": int(pods.serves_while_terminating),
            "capacity": pods.capacity,
            "stateful": int(pods.removal == model.STATEFUL_SET),
            "restart_ms": pods.restart_ms,
            "surge_pct": pods.surge_pct,
            "unavailable_pct": pods.unavailable_pct,
            "initial_age_ms": pods.initial_age_ms,
            "first_draw": plant.first_draw,
            "primary": first_signal + list(plant.signals).index(primary) if primary else -1,
            "capacity_milli": plant.capacity_milli or 0,
            "observed_low_milli": low,
            "observed_high_milli": high,
            "mergeable": int(_is_mergeable(plant)),
        }
        self.workloads.append(row)
        levels = plant.signals[primary].levels_milli if primary else ()
        self.levels.append(levels or (layout.UNLIMITED,) * layout.LEVELS)
        self.classes += list(zip(pods.shares, _costs(pods), strict=True))
        self.startups += list(pods.startup_ms)
        self.failures += list(pods.failure_at_ms)
        for name, signal in plant.signals.items():
            number = first_pipeline + pipelines.index(_source_of(plant, signal))
            self._add_signal(signal, number, workload.work.get(name), row["pieces"])
        for _, pipeline, later_ms in pipelines:
            self._add_pipeline(pipeline, later_ms)

    def _add_signal(
        self, signal: model.Signal, pipeline: int, work: I64 | None, pieces: int
    ) -> None:
        given = np.zeros(1, np.int64) if work is None or work.size == 0 else work
        # A shorter series goes on with its last piece.
        series = np.concatenate([given, np.full(pieces - given.size, given[-1], np.int64)])
        ceiling = layout.UNLIMITED if signal.ceiling_milli is None else signal.ceiling_milli
        self.signals.append(
            {
                "kind": KIND_CODES[signal.kind],
                "pipeline": pipeline,
                "first_work": self.pieces,
                "base_milli": signal.base_milli,
                "room_milli": max(ceiling - signal.base_milli, 0),
                "startup_milli": signal.startup_milli,
                "rate_milli": signal.rate_milli,
                "growth_milli": signal.growth_milli_per_hour,
                "queues": int(signal.overload == model.QUEUE),
                "queue_milli": signal.queue_milli,
                "unit_milli": signal.unit_milli,
                "scale_ppm": signal.sight.scale_ppm,
            }
        )
        self.work.append(series)
        self.pieces += pieces

    def _add_pipeline(self, pipeline: model.Pipeline, later_ms: int) -> None:
        first = len(self.gaps)
        self.gaps += list(pipeline.gaps_ms)
        self.pipelines.append(
            {
                "interval_ms": pipeline.interval_ms,
                "phase_ms": pipeline.phase_ms,
                "window_ms": pipeline.window_ms,
                "lag_ms": pipeline.lag_ms,
                "later_ms": later_ms,
                "first_sample_ms": pipeline.first_sample_ms,
                # (a sample is as old as its time says, which is told later)
                "max_age_ms": pipeline.max_age_ms + later_ms,
                "first_gap": first,
                "last_gap": len(self.gaps),
            }
        )


Source = tuple[str, model.Pipeline, int]
"""A metrics API, how it measures, and by how much later the times are that it tells, ms."""


def _source_of(plant: model.Plant, signal: model.Signal) -> Source:
    return signal.api, plant.pipeline_of(signal), signal.sight.later_ms


def pipelines_of(plant: model.Plant) -> list[Source]:
    """Return what measures a plant's signals: of an API as many as it is seen in different ways."""
    found = dict.fromkeys(_source_of(plant, signal) for signal in plant.signals.values())
    return sorted(found, key=lambda source: model.PIPELINES.index(source[0]))


def _is_mergeable(plant: model.Plant) -> bool:
    """Say whether pods that have settled are all alike, however old they are.

    With several classes their ages say which class is removed first.
    """
    ageless = all(signal.kind != model.AGE for signal in plant.signals.values())
    return ageless and len(plant.pods.shares) == 1


def _costs(pods: model.Pods) -> tuple[int, ...]:
    """Return a deletion cost per class; a single one counts for all."""
    return pods.costs * len(pods.shares) if len(pods.costs) == 1 else pods.costs
