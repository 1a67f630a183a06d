"""Sources whose lens is known, and what `fidelity --lens auto` finds of them.

    python -m benchmarks.lens_truth --seed 101 --sources 30 --work build/lens_truth

Each source is a fleet in closed loop (`benchmarks.truth_fleet`). With a lens, the controller reads
means over `smoothing`, and what is recorded are the samples of 15 s from which it has them, at
other times and by another factor. Without one, what the controller saw is recorded with the delays
that real pipelines have, thinned to points. Sizes and pods are recorded at their own times.

Runs are the many short ones of one service, whose usage is recorded noisily by a factor: with one
target, only its ratio to the target can be known. They come through CSV, as an HPA each or as one.
Seeds below 100 are for tuning.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from benchmarks.answers_truth import K8S, SYNC_MS, Known, Source, import_source, stated, thinned
from benchmarks.exported_run import export_run
from benchmarks.truth_fleet import CPU, FleetOptions, Truth, make_fleet
from benchmarks.truth_record import TODAY, case_of
from hpabatch.engine.fidelity.lens import LensEstimate, estimate_lenses
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.fleet.plan import plan_replay
from hpabatch.engine.shards.read import DAY_MS
from hpabatch.history.reader import open_history
from hpabatch.history.schema import empty_frame
from hpabatch.history.store.writer import write_table
from hpabatch.inputs.lenses import Lens
from hpabatch.model.objects.defaults import default_hpa
from hpabatch.model.objects.hpa import (
    HPA,
    MetricIdentifier,
    MetricSpec,
    MetricTarget,
    PodsMetricSource,
    ResourceMetricSource,
)
from hpabatch.model.plant import CUSTOM, RESOURCE, Pipeline, signal_name
from hpabatch.model.quantity import Quantity
from hpabatch.model.versions import profile_for

HPAS: Final = 12
DAYS: Final = 2
MAX_AGE_MS: Final = 150_000
RUN_MINUTES: Final = 70
RUN_DAYS: Final = 10
RUN_TARGET: Final = 80
RUN_NOISE: Final = 0.01
RUNS: Final = 62
RUN_SOURCES: Final = (Source(15_000, pods=False), Source(30_000), Source(60_000, windows=True))
NEVER: Final = MetricSpec(
    type="Pods",
    pods=PodsMetricSource(
        metric=MetricIdentifier(name="recorded"),
        target=MetricTarget(type="AverageValue", average_value=Quantity.parse("1G")),
    ),
)
"""A metric of the same usage that never drives: its samples are those that are recorded."""

Tables = dict[str, pl.DataFrame]


def drawn(seed: int, number: int) -> Lens:
    """Return the true lens of a source: each of the three changes something in most."""
    random = np.random.Generator(np.random.PCG64([seed, number, 11]))
    lag_ms = int(random.integers(-60, 61)) * 1000 * bool(random.random() < 0.8)
    smoothing_ms = int(random.choice([30, 60, 90, 120, 180, 240, 300])) * 1000
    smoothing_ms *= bool(random.random() < 0.6)
    scale = round(float(random.uniform(0.7, 1.3)), 3) if random.random() < 0.6 else 1.0
    return Lens(CPU, None, lag_ms, smoothing_ms, scale)


def seen_through(truth: Truth, lens: Lens) -> Truth:
    """Return a truth whose controller reads means, with the samples of 15 s beside them."""
    workload, name = truth.workload, signal_name(NEVER)
    signal = workload.plant.signals[CPU]
    pipelines = {
        RESOURCE: Pipeline(window_ms=lens.smoothing_ms or SYNC_MS, max_age_ms=MAX_AGE_MS),
        CUSTOM: Pipeline(window_ms=SYNC_MS, max_age_ms=MAX_AGE_MS),
    }
    plant = replace(
        workload.plant,
        signals={**workload.plant.signals, name: replace(signal, api=CUSTOM)},
        pipelines=pipelines,
    )
    work = {**workload.work, name: workload.work[CPU]}
    spec = replace(truth.spec, metrics=(*truth.spec.metrics, NEVER))
    return replace(truth, spec=spec, workload=replace(workload, plant=plant, work=work))


def run(fleet: Sequence[Truth], seed: int, days: int = DAYS) -> Tables:
    """Run a fleet in closed loop; return the tables of its history."""
    steps = days * DAY_MS // SYNC_MS
    cases = [replace(case_of(t, t.spec, TODAY, 0, 1, SYNC_MS), steps=steps) for t in fleet]
    return export_run(cases, profile_for(K8S), seed=seed).tables


def recorded(tables: Tables, lens: Lens) -> Tables:
    """Return the tables with the usage that stands for what the controller saw through a lens."""
    keys = ["uid", "ts"]
    sharp = tables.pop("pod_custom_metrics").select(*keys, "value_milli")
    later = pl.duration(milliseconds=lens.lag_ms, time_unit="ms")
    usage = tables["pod_metrics"].join(sharp, on=keys, how="inner", maintain_order="left")
    usage = usage.with_columns(
        pl.col("ts") - later,
        cpu_milli=(pl.col("value_milli") / lens.scale).round().cast(pl.Int64),
        window_ms=pl.lit(SYNC_MS, dtype=pl.Int64),
        fetched_at=pl.lit(None, dtype=pl.Datetime("ms", "UTC")),
    )
    found = {"pod_metrics": usage.select(empty_frame("pod_metrics").columns)}
    return without_last_metric(tables | found)


def without_last_metric(tables: Tables) -> Tables:
    """Return the tables with HPAs that do not read the metric whose samples are recorded."""
    specs = pl.col("spec").map_elements(_without_last_metric, return_dtype=pl.String)
    return tables | {"hpas": tables["hpas"].with_columns(specs)}


def _without_last_metric(spec: str) -> str:
    found = json.loads(spec)
    return json.dumps(found | {"metrics": found["metrics"][:-1]})


def points(tables: Tables, spacing_ms: int) -> Tables:
    """Return the tables with fewer samples, of which nobody knows when they were fetched."""
    rows = thinned(tables["pod_metrics"], Source(spacing_ms))
    usage = tables["pod_metrics"].with_columns(fetched_at=pl.lit(None, pl.Datetime("ms", "UTC")))
    kept = usage.join(rows.select("pod", "ts"), on=["pod", "ts"], how="semi", maintain_order="left")
    return tables | {"pod_metrics": kept}


def write(tables: Tables, folder: Path) -> Path:
    """Write tables as a history."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, frame in tables.items():
        write_table(frame, folder / f"{name}.parquet", name)
    return folder


def found_in(history: Path, fleet: Sequence[Truth]) -> LensEstimate:
    """Return what is found of a recording of cpu."""
    known = [Known(t, None) for t in fleet]
    hpas = stated(known, [t.spec for t in fleet])
    plan = plan_replay(open_history(history), ReplayParameters(K8S), hpas)
    return estimate_lenses(plan)[0]


def sources_with(seed: int, count: int, work: Path) -> Iterator[dict[str, Any]]:
    """Yield a row for each source with a lens."""
    for k in range(count):
        lens = drawn(seed, k)
        fleet = make_fleet(
            FleetOptions(hpas=HPAS, weeks=1, seed=seed * 1000 + k, sample_ms=SYNC_MS)
        )
        tables = run([seen_through(t, lens) for t in fleet], seed)
        found = found_in(write(recorded(tables, lens), work / f"lens-{k}"), fleet)
        yield row_of(f"lens {k}", lens, found)


def sources_without(seed: int, count: int, work: Path) -> Iterator[dict[str, Any]]:
    """Yield a row for each recording of sources without a lens, as fine as several are."""
    none = Lens(CPU)
    for k in range(count):
        number = seed * 1000 + 500 + k
        fleet = make_fleet(FleetOptions(hpas=HPAS, weeks=1, seed=number, sample_ms=SYNC_MS))
        tables = run(fleet, seed)
        place = work / f"none-{k}"
        yield row_of("as seen", none, found_in(write(tables, place / "seen"), fleet))
        for spacing_ms in (15_000, 30_000, 60_000):
            history = write(points(tables, spacing_ms), place / f"{spacing_ms}")
            yield row_of(f"{spacing_ms // 1000} s", none, found_in(history, fleet))
        for source in (Source(15_000), Source(60_000), Source(60_000, windows=True)):
            known = [Known(t, None) for t in fleet]
            history = import_source(tables, known, source, place / source.name)
            yield row_of(f"CSV {source.name}", none, found_in(history, fleet))


def service_runs(seed: int, count: int) -> tuple[list[Truth], Tables]:
    """Run one service many times in closed loop, under waves of load of some 15 minutes."""
    (service,) = make_fleet(FleetOptions(hpas=1, weeks=1, seed=seed, sample_ms=SYNC_MS))
    target = MetricTarget(type="Utilization", average_utilization=RUN_TARGET)
    metric = MetricSpec(type="Resource", resource=ResourceMetricSource(name="cpu", target=target))
    spec = replace(service.spec, min_replicas=1, max_replicas=10, metrics=(metric,), behavior=None)
    request = service.workload.plant.signals[CPU].request_milli
    assert request is not None
    pods = replace(service.workload.plant.pods, startup_ms=((2000, 20_000),))
    plant = replace(service.workload.plant, pods=pods)
    minute, fleet = np.arange(RUN_MINUTES + 1), []
    for k in range(count):
        random = np.random.Generator(np.random.PCG64([seed, k, 13]))
        waves = [
            size * np.sin(2 * np.pi * (minute / random.uniform(*minutes) + random.random()))
            for size, minutes in ((0.45, (12, 18)), (0.25, (5, 9)))
        ]
        noise = 0.04 * random.standard_normal(minute.size)
        load = random.uniform(2, 4) * np.maximum(1 + sum(waves) + noise, 0.1)
        work = {CPU: (load * request).astype(np.int64)}
        workload = replace(
            service.workload, namespace=f"run-{k:02}", plant=plant, work=work, initial=3
        )
        fleet.append(replace(service, spec=default_hpa(HPA("app", "any", spec=spec)).spec,
                             workload=workload))  # fmt: skip
    steps = RUN_MINUTES * 60_000 // SYNC_MS
    cases = [replace(case_of(t, t.spec, TODAY, 0, 1, SYNC_MS), steps=steps) for t in fleet]
    return fleet, export_run(cases, profile_for(K8S), seed=seed).tables


def recorded_runs(tables: Tables, ratio: float, seed: int, apart: bool) -> Tables:
    """Return usage recorded by a factor, and sizes, over days; `apart`: each run is an HPA."""
    random = np.random.Generator(np.random.PCG64([seed, 17]))
    usage = tables["pod_metrics"]
    noise = pl.Series(np.exp(RUN_NOISE * random.standard_normal(usage.height)))
    seen = (pl.col("cpu_milli") * noise / ratio).round().cast(pl.Int64)
    found = {"pod_metrics": usage.with_columns(cpu_milli=seen), "scales": tables["scales"]}
    number = pl.col("namespace").str.tail(2).cast(pl.Int64)
    every_ms = RUN_DAYS * DAY_MS // 62 // SYNC_MS * SYNC_MS
    later = pl.duration(milliseconds=number * every_ms)
    changed = [pl.col("ts") + later]
    if not apart:
        changed += [pl.lit("one").alias("namespace")]
    pods = pl.concat_str("namespace", pl.lit("-"), "pod")
    found["pod_metrics"] = found["pod_metrics"].with_columns(pod=pods, uid=pods)
    return {name: frame.with_columns(changed) for name, frame in found.items()}


def found_in_runs(
    seed: int, count: int, ratio: float, source: Source, apart: bool, work: Path
) -> LensEstimate:
    """Return what is found of runs that came through CSV, each as an HPA (`apart`) or as one."""
    fleet, tables = service_runs(seed, count)
    if not apart:
        workload = replace(fleet[0].workload, namespace="one")
        fleet = [replace(fleet[0], workload=workload)]
    rows = recorded_runs(tables, ratio, seed, apart)
    known = [Known(t, None) for t in fleet]
    return found_in(import_source(rows, known, source, work / source.name), fleet)


def sources_of_runs(seed: int, count: int, work: Path) -> Iterator[dict[str, Any]]:
    """Yield a row for each recording of runs, every third one without a factor."""
    kinds = [(source, apart) for source in RUN_SOURCES for apart in (True, False)]
    for k in range(count):
        random = np.random.Generator(np.random.PCG64([seed, k, 19]))
        ratio = round(float(random.uniform(0.75, 1.3)), 3) if k % 3 else 1.0
        source, apart = kinds[k % len(kinds)]
        own = seed * 1000 + 800 + k
        found = found_in_runs(own, RUNS, ratio, source, apart, work / f"runs-{k}")
        name = f"runs {k}, {source.name}, {'apart' if apart else 'as one'}"
        yield row_of(name, Lens(CPU, scale=ratio), found)


def row_of(name: str, lens: Lens, found: LensEstimate) -> dict[str, Any]:
    """Return truth and finding side by side; shares are of intervals that hold the truth."""
    row: dict[str, Any] = {"source": name, "used": found.used, "why": found.why, "p": found.p}
    wanted = {"lag_ms": lens.lag_ms, "smoothing_ms": lens.smoothing_ms, "ratio": lens.scale}
    for key, true in wanted.items():
        interval = getattr(found, key)
        row |= {f"{key}_true": float(true), key: float(getattr(found.found, key))}
        low, high = (None, None) if interval is None else (interval.low, interval.high)
        covers = None if interval is None else interval.low <= true <= interval.high
        row |= {f"{key}_low": low, f"{key}_high": high, f"{key}_covers": covers}
    row |= {"applied": str(found.lens), "changes": found.searched_changes, "as_if": found.as_if}
    return row


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; print each row, and the shares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sources", type=int, default=30)
    parser.add_argument("--none", type=int, default=6, help="sources without a lens")
    parser.add_argument("--runs", type=int, default=9, help="sources of many short runs")
    parser.add_argument("--work", type=Path, default=Path("build/lens_truth"))
    given = parser.parse_args(arguments)
    work, rows = given.work / str(given.seed), []
    parts = {
        sources_with: given.sources,
        sources_without: given.none,
        sources_of_runs: given.runs,
    }
    for part, count in parts.items():
        for row in part(given.seed, count, work):
            rows.append(row)
            print({k: v for k, v in row.items() if v is not None}, flush=True)
    frame = pl.DataFrame(rows, infer_schema_length=None)
    frame.write_parquet(work / "found.parquet")
    lenses = frame.filter(pl.col("source").str.starts_with("lens"))
    print(lenses.select(pl.col("used").mean(), pl.selectors.ends_with("_covers").mean()))
    runs = frame.filter(pl.col("source").str.starts_with("runs"))
    off = (pl.col("ratio") / pl.col("ratio_true") - 1).abs().alias("off")
    told = pl.col("as_if") != ""
    print(runs.group_by(pl.col("ratio_true") == 1).agg(pl.len(), told.sum(), off.max()))
    none = frame.filter(~pl.col("source").str.contains("^(lens|runs)"))
    print(none.group_by("source", maintain_order=True).agg(pl.len(), pl.col("used").sum()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
