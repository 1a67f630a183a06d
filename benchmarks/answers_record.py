"""Recordings of controllers whose settings are known, as coarse as real sources are.

A fleet of `benchmarks.truth_fleet` runs in closed loop; every third HPA reads memory beside cpu.
The run is thinned to samples of a spacing, points or means over it, per pod or per workload,
written as CSV, and comes back through `import table`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import yaml

from benchmarks.truth_fleet import CPU, FleetOptions, Truth, make_fleet
from benchmarks.truth_record import TODAY, case_of
from hpabatch.api.imports import import_table
from hpabatch.engine.simulate.export import export_run
from hpabatch.history.store.writer import write_table
from hpabatch.model.objects.hpa import (
    HPA,
    HPASpec,
    MetricSpec,
    MetricTarget,
    ResourceMetricSource,
)
from hpabatch.model.plant import DIVISIBLE, Signal
from hpabatch.model.versions import profile_for

SYNC_MS: Final = 15_000
DAY_MS: Final = 86_400_000
K8S: Final = "1.37"
MEMORY: Final = "resource/memory"
MIB: Final = 1024 * 1024
NEVER_PCT: Final = 10_000
_EVERY: Final = 3


@dataclass(frozen=True, slots=True)
class Source:
    """What a recording was thinned to; `windows`: means over the spacing, else points."""

    spacing_ms: int
    windows: bool = False
    pods: bool = True

    @property
    def name(self) -> str:
        """The name of the source's folder."""
        form = "mean" if self.windows else "point"
        return f"{self.spacing_ms // 1000}s-{form}-{'pod' if self.pods else 'workload'}"


@dataclass(frozen=True, slots=True)
class Known:
    """An HPA as it really is, and its recorded usage of memory as a share of the request."""

    truth: Truth
    memory_pct: float | None

    @property
    def hpa(self) -> HPA:
        """Its object."""
        workload = self.truth.workload
        return HPA(name=workload.hpa, namespace=workload.namespace, spec=self.truth.spec)


def memory_metric(target_pct: int) -> MetricSpec:
    """Return a metric of memory utilization."""
    target = MetricTarget(type="Utilization", average_utilization=target_pct)
    return MetricSpec(type="Resource", resource=ResourceMetricSource(name="memory", target=target))


def fleet_of(hpas: int, seed: int) -> list[Truth]:
    """Return a fleet, every third HPA of which reads memory; half of these never scale by it."""
    fleet = make_fleet(FleetOptions(hpas=hpas, weeks=1, seed=seed, sample_ms=SYNC_MS))
    return [_with_memory(t, seed, k) if k % _EVERY == 0 else t for k, t in enumerate(fleet)]


def _with_memory(truth: Truth, seed: int, number: int) -> Truth:
    """Return a truth with memory: some of it goes with the work, more slowly than cpu does."""
    random = np.random.Generator(np.random.PCG64([seed, number, 7]))
    workload, plant = truth.workload, truth.workload.plant
    request = 256 * MIB * 1000
    work = workload.work[CPU] / max(float(np.mean(workload.work[CPU])), 1.0)
    slow = np.convolve(work, np.ones(30) / 30, mode="same")
    pods = max(float(np.mean(workload.work[CPU])) / _per_pod(truth), 1.0)
    level = slow * pods * request * random.uniform(0.25, 0.4)
    signal = Signal(DIVISIBLE, base_milli=request // 5, request_milli=request, unit_milli=1000)
    target = int(random.choice([50, 60, 70])) if number % (2 * _EVERY) == 0 else NEVER_PCT
    spec = replace(truth.spec, metrics=(*truth.spec.metrics, memory_metric(target)))
    signals = {**plant.signals, MEMORY: signal}
    work_of = {**workload.work, MEMORY: level.astype(np.int64) // 1000 * 1000}
    return replace(
        truth,
        spec=spec,
        workload=replace(workload, plant=replace(plant, signals=signals), work=work_of),
    )


def _per_pod(truth: Truth) -> float:
    """Return about what a pod does at the target."""
    signal, metric = truth.workload.plant.signals[CPU], truth.spec.metrics[0]
    assert metric.resource is not None
    assert signal.request_milli is not None
    pct = metric.resource.target.average_utilization or 50
    return max(signal.request_milli * pct / 100 - signal.base_milli, 1.0)


def record(hpas: int, seed: int, days: int, folder: Path) -> tuple[list[Known], dict[str, Any]]:
    """Run a fleet in closed loop; return its HPAs and the run's tables, written to a folder."""
    fleet = fleet_of(hpas, seed)
    steps = days * DAY_MS // SYNC_MS
    cases = [replace(case_of(t, t.spec, TODAY, 0, 1, SYNC_MS), steps=steps) for t in fleet]
    tables = export_run(cases, profile_for(K8S), seed=seed).tables
    folder.mkdir(parents=True, exist_ok=True)
    for name, frame in tables.items():
        write_table(frame, folder / f"{name}.parquet", name)
    means = tables["pod_metrics"].group_by("namespace", "target").agg(pl.col("memory_bytes").mean())
    memory = {(n, t): b for n, t, b in means.iter_rows()}
    known = []
    for t in fleet:
        signal = t.workload.plant.signals.get(MEMORY)
        used = memory.get((t.workload.namespace, t.workload.hpa))
        pct = None
        if signal is not None and used is not None and signal.request_milli:
            pct = 100 * used * 1000 / signal.request_milli
        known.append(Known(t, pct))
    return known, tables


# ---- thinned, as CSV, through the import


def thinned(samples: pl.DataFrame, source: Source) -> pl.DataFrame:
    """Return the rows of pods that a source would have."""
    every = f"{source.spacing_ms}ms"
    group = samples.sort("uid", "ts").with_columns(bin=pl.col("ts").dt.truncate(every))
    values = ["cpu_milli", "memory_bytes"]
    how = (
        [pl.col("ts").last(), *(pl.col(v).mean().round() for v in values)]
        if source.windows
        else [pl.col("ts").first(), *(pl.col(v).first() for v in values)]
    )
    keys = ["namespace", "target", "pod", "uid", "bin"]
    return group.group_by(keys, maintain_order=True).agg(*how).drop("uid").sort("ts", "pod")


def rows_per_workload(pods: pl.DataFrame, scales: pl.DataFrame) -> pl.DataFrame:
    """Return rows of workloads: sums over their pods, and the size at that time."""
    keys = ["namespace", "target"]
    total = pods.group_by([*keys, "bin"]).agg(
        pl.col("ts").max(), pl.col("cpu_milli").sum(), pl.col("memory_bytes").sum()
    )
    sizes = scales.select(*keys, "ts", replicas="spec_replicas").sort("ts")
    return total.sort("ts").join_asof(sizes, on="ts", by=keys).drop_nulls("replicas")


def import_source(tables: dict[str, Any], known: Sequence[Known], source: Source, to: Path) -> Path:
    """Write a source as CSV with its map, import it, and return the history's folder."""
    to.mkdir(parents=True, exist_ok=True)
    pods = thinned(tables["pod_metrics"], source)
    rows = pods if source.pods else rows_per_workload(pods, tables["scales"])
    rows.drop("bin").with_columns(pl.col("ts").dt.strftime("%Y-%m-%dT%H:%M:%S%.3fZ")).write_csv(
        to / "usage.csv"
    )
    (to / "map.yaml").write_text(yaml.safe_dump(_map(known, source), sort_keys=False))
    history = to / "history"
    import_table(to / "usage.csv", map=to / "map.yaml", out=history)
    return history


def _map(known: Sequence[Known], source: Source) -> dict[str, Any]:
    cpu: dict[str, str] = {}
    memory: dict[str, str] = {}
    for one in known:
        workload = one.truth.workload
        signals = workload.plant.signals
        cpu[f"{workload.namespace}/{workload.hpa}"] = f"{signals[CPU].request_milli}m"
        if MEMORY in signals:
            memory[f"{workload.namespace}/{workload.hpa}"] = "256Mi"
    of = {} if source.pods else {"of": "sum"}
    columns: dict[str, Any] = {"time": "ts", "namespace": "namespace", "workload": "target"}
    columns |= {"pod": "pod"} if source.pods else {"replicas": "replicas"}
    columns["cpu"] = {"column": "cpu_milli", "unit": "millicores", **of}
    requests: dict[str, Any] = {"cpu": {"workloads": cpu}}
    if memory:
        columns["memory"] = {"column": "memory_bytes", "unit": "bytes", **of}
        requests["memory"] = {"workloads": memory}
    return {
        "level": "pod" if source.pods else "workload",
        "columns": columns,
        "window": f"{source.spacing_ms // 1000}s" if source.windows else "15s",
        "requests": requests,
        "hpas": {"template": {"min": 1, "max": 10, "cpu": "60%"}},
    }


def stated(known: Sequence[Known], specs: Sequence[HPASpec]) -> list[HPA]:
    """Return the HPAs with other specs."""
    return [replace(k.hpa, spec=spec) for k, spec in zip(known, specs, strict=True)]
