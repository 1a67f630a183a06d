"""Settings that are right and settings that are wrong, as `fidelity` answers on them.

    python -m benchmarks.answers_truth --seed 101 --hpas 100 --days 3 --work build/answers_truth

A fleet of `benchmarks.truth_fleet` runs in closed loop; every third HPA reads memory beside cpu.
The run is recorded as coarsely as real sources are: thinned to samples of a spacing, points or
means over it, per pod or per workload, written as CSV, and imported. Each HPA is answered on with
its true settings, and with settings that are wrong by one deviation each. Seeds below 100 are for
tuning.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import yaml

from benchmarks.exported_run import export_run
from benchmarks.truth_fleet import CPU, FleetOptions, Truth, make_fleet
from benchmarks.truth_record import TODAY, case_of
from hpabatch.api.imports import import_table
from hpabatch.engine.fidelity.answer import RIGHT, UNTOLD, WRONG, answers
from hpabatch.engine.fidelity.walk import walk_shards
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.fleet.plan import plan_replay
from hpabatch.history.reader import open_history
from hpabatch.history.store.writer import write_table
from hpabatch.model.objects.hpa import (
    HPA,
    Behavior,
    HPASpec,
    MetricSpec,
    MetricTarget,
    ResourceMetricSource,
    ScalingRules,
)
from hpabatch.model.plant import DIVISIBLE, Signal
from hpabatch.model.quantity import Quantity
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


SOURCES: Final = (
    Source(15_000),
    Source(30_000),
    Source(60_000),
    Source(300_000),
    Source(15_000, windows=True),
    Source(30_000, windows=True),
    Source(60_000, windows=True),
    Source(300_000, windows=True),
    Source(15_000, pods=False),
    Source(60_000, pods=False),
)
WRONG_BY: Final = {
    # How settings are wrong: the deviation that would tell, as the truth's own answer names it.
    "target +10": "target +10 points",
    "target -10": "target -10 points",
    "window doubled": "scale-down window doubled",
    "window halved": "scale-down window halved",
    "tolerance": "the other tolerance",
    "metric": "",
}


def wrong_spec(known: Known, by: str) -> HPASpec | None:
    """Return a spec that is wrong by one deviation; None: this HPA has no such."""
    spec = known.truth.spec
    if by.startswith("target"):
        points = 10 if by.endswith("+10") else -10
        return replace(spec, metrics=tuple(_moved(m, points) for m in spec.metrics))
    if by.startswith("window"):
        rules = _side(spec, up=False)
        seconds = rules.stabilization_window_seconds
        seconds = 300 if seconds is None else seconds
        if not seconds:
            return None
        seconds = seconds * 2 if by.endswith("doubled") else seconds // 2
        return _with(spec, down=replace(rules, stabilization_window_seconds=seconds))
    if by == "tolerance":
        return _with(
            spec,
            up=_other_tolerance(_side(spec, up=True)),
            down=_other_tolerance(_side(spec, up=False)),
        )
    if known.memory_pct is None or not _never(spec.metrics[-1]):
        return None
    drives = memory_metric(max(int(known.memory_pct * 0.75), 1))
    return replace(spec, metrics=(*spec.metrics[:-1], drives))


def _moved(metric: MetricSpec, points: int) -> MetricSpec:
    source = metric.resource
    if source is None or _never(metric):
        return metric
    pct = max((source.target.average_utilization or 0) + points, 1)
    target = replace(source.target, average_utilization=pct)
    return replace(metric, resource=replace(source, target=target))


def _never(metric: MetricSpec) -> bool:
    source = metric.resource
    return source is not None and source.target.average_utilization == NEVER_PCT


def _side(spec: HPASpec, up: bool) -> ScalingRules:
    found = spec.behavior and (spec.behavior.scale_up if up else spec.behavior.scale_down)
    return found or ScalingRules()


def _other_tolerance(rules: ScalingRules) -> ScalingRules:
    now = 0.1 if rules.tolerance is None else rules.tolerance.approx_float()
    return replace(rules, tolerance=Quantity.parse("0.2" if now < 0.15 else "0.1"))


def _with(
    spec: HPASpec, up: ScalingRules | None = None, down: ScalingRules | None = None
) -> HPASpec:
    behavior = Behavior(
        scale_up=up or _side(spec, up=True), scale_down=down or _side(spec, up=False)
    )
    return replace(spec, behavior=behavior)


def answered(history: Path, known: Sequence[Known], by: str) -> pl.DataFrame:
    """Return the answers on a source's HPAs with true ("") or wrong settings."""
    pairs = [(k, k.truth.spec if not by else wrong_spec(k, by)) for k in known]
    kept = [(k, spec) for k, spec in pairs if spec is not None]
    hpas = stated([k for k, _ in kept], [spec for _, spec in kept if spec is not None])
    names = [(h.namespace, h.name) for h in hpas]
    wanted = pl.DataFrame(names, schema=["namespace", "hpa"], orient="row")
    plan = plan_replay(
        open_history(history), ReplayParameters(K8S), hpas,
        lambda frame: frame.join(
            wanted, on=["namespace", "hpa"], how="semi", maintain_order="left"
        ),
    )  # fmt: skip
    return pl.concat([answers(walk) for walk in walk_shards(plan)])


def of_source(history: Path, known: Sequence[Known]) -> Iterator[dict[str, Any]]:
    """Yield a row for each HPA and each way in which its settings are stated."""
    true = answered(history, known, "")
    told = {(r["namespace"], r["hpa"]): r["told_apart"] or "" for r in true.to_dicts()}
    for by in ("", *WRONG_BY):
        found = true if not by else answered(history, known, by)
        for row in found.to_dicts():
            key = row["namespace"], row["hpa"]
            would_show = bool(by and WRONG_BY[by]) and WRONG_BY[by] in told[key].split(", ")
            if by == "metric":  # the deviation is there in the wrong spec alone
                would_show = "without resource/memory" in (row["answer_why"] or "") and (
                    row["answer"] == WRONG
                )
            yield {"by": by, "detectable": would_show, **row}


def table_of(rows: pl.DataFrame) -> pl.DataFrame:
    """Return a row per source and way: how many settings, and the shares of each answer."""
    share = [(pl.col("answer") == a).mean().alias(a) for a in (RIGHT, WRONG, UNTOLD)]
    return rows.group_by("source", "by", maintain_order=True).agg(
        pl.len().alias("settings"),
        *share,
        pl.col("detectable").sum(),
        (pl.col("answer") == WRONG).filter("detectable").mean().alias("of_detectable_wrong"),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; print the table as measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hpas", type=int, default=100)
    parser.add_argument("--days", type=int, default=3)
    parser.add_argument("--work", type=Path, default=Path("build/answers_truth"))
    given = parser.parse_args(arguments)
    folder = given.work / f"{given.seed}-{given.hpas}-{given.days}"
    known, tables = record(given.hpas, given.seed, given.days, folder / "raw")
    found = []
    for source in SOURCES:
        history = import_source(tables, known, source, folder / source.name)
        rows = pl.DataFrame(list(of_source(history, known)), infer_schema_length=None)
        found.append(rows.with_columns(source=pl.lit(source.name)))
        with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_width_chars=160, float_precision=3):
            print(table_of(found[-1]), flush=True)
    pl.concat(found, how="vertical_relaxed").write_parquet(folder / "answers.parquet")
    return 0


if __name__ == "__main__":
    sys.exit(main())
