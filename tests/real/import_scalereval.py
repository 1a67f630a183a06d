"""A ScalerEval run (hpa_runs_scalereval.parquet) as a history: a real HPA on a real cluster.

    python -m tests.real.import_scalereval OUT [APP SCALER]

The data: per service and second the replicas and the mean and maximum over its pods of a 1-minute
cpu rate. Stated, because the data do not say it:

* request = the limit of hpa_runs_scalereval_limits.json; services without one are left out.
* All pods of a service are alike: each has `cpu_usage_mean`, in the run's first 100 s (where the
  mean includes pods of the run before) `cpu_usage_max`.
* Pod k is there while there are more than k replicas; it is Ready READY_AFTER_MS after it appears,
  and gets its deletion timestamp when the number falls, 30 s before it is gone.
* Samples are visible at once and have the window of metrics-server's default resolution. What that
  server really answered is not in the data.
* The HPA's own syncs: every 15 s. All size changes of a run fall on one second of a quarter of a
  minute, which is the phase.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from hpabatch.engine.replay import ReplayParameters, ReplayResult
from hpabatch.model.quantity import Quantity
from tests.real.tables import (
    RAN_BEFORE_MS,
    Pod,
    Workload,
    print_table,
    replay_folder,
    summary_table,
    write_workloads,
)

FILE = "hpa_runs_scalereval.parquet"
LIMITS = "hpa_runs_scalereval_limits.json"
SYNC_MS = 15_000
MAX_REPLICAS = 8
LEFTOVERS_MS = 100_000
READY_AFTER_MS = 10_000
WINDOW_MS = 15_000
GRACE_MS = 30_000


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the study; the scaler's number is the HPA's cpu target."""

    app: str
    scaler: str

    @property
    def target_pct(self) -> int:
        return int(self.scaler.removeprefix("KHPA-"))


def read_run(traces: Path, run: Run) -> pl.DataFrame:
    """Return the rows of the services whose replicas were recorded, with `ms`."""
    rows = pl.read_parquet(traces / FILE)
    rows = rows.filter((pl.col("app") == run.app) & (pl.col("scaler") == run.scaler))
    rows = rows.filter(pl.col("replicas").is_not_null() & pl.col("cpu_usage_max").is_not_null())
    return rows.with_columns(ms=pl.col("ts").to_physical()).sort("service", "ms")


def sizes_of(rows: pl.DataFrame) -> list[tuple[int, int]]:
    """Return (ms, replicas) of the first row of a service and of every change."""
    changed = rows.filter((pl.col("replicas") != pl.col("replicas").shift(1)).fill_null(value=True))
    return [(int(ms), int(size)) for ms, size in changed.select("ms", "replicas").rows()]


def phase_ms(rows: pl.DataFrame) -> int:
    """Return the place within a sync period at which most sizes changed."""
    places: Counter[int] = Counter()
    for part in rows.partition_by("service"):
        places.update(ms % SYNC_MS for ms, _ in sizes_of(part)[1:])
    return min(places, key=lambda place: (-places[place], place)) if places else 0


def pods_of(service: str, sizes: list[tuple[int, int]]) -> list[Pod]:
    """Return pods that follow a size: pod k while there are more than k, a new one each time."""
    pods: list[Pod] = []
    running: list[tuple[str, int, int]] = []
    for ms, size in sizes:
        while len(running) < size:
            first = ms == sizes[0][0]
            name = f"{service}-{len(running)}-{ms // 1000 % 100_000:05d}"
            created = ms - RAN_BEFORE_MS if first else ms
            running.append((name, created, created + READY_AFTER_MS))
        while len(running) > size:
            pods.append(Pod(*running.pop(), deleted_ms=ms, gone_ms=ms + GRACE_MS))
    return pods + [Pod(*pod) for pod in running]


def samples_of(rows: pl.DataFrame, app: str, service: str, pods: list[Pod]) -> pl.DataFrame:
    """Return the samples of a service's pods, all alike."""
    early = pl.col("ms") < pl.col("ms").min() + LEFTOVERS_MS
    usage = rows.select(
        ts="ms",
        cpu_milli=pl.when(early).then("cpu_usage_max").otherwise("cpu_usage_mean"),
        memory=pl.when(early).then("mem_usage_max").otherwise("mem_usage_mean"),
    )
    parts = []
    for pod in pods:
        end = pod.deleted_ms if pod.deleted_ms is not None else int(usage["ts"][-1]) + 1
        inside = usage.filter((pl.col("ts") >= pod.ready_ms) & (pl.col("ts") < end))
        parts.append(inside.with_columns(pod=pl.lit(pod.name)))
    return pl.concat(parts).select(
        "pod",
        "ts",
        pl.col("cpu_milli").ceil().cast(pl.Int64),
        namespace=pl.lit(app),
        target=pl.lit(service),
        window_ms=pl.lit(WINDOW_MS, dtype=pl.Int64),
        memory_bytes=(pl.col("memory") * (1 << 20)).ceil().cast(pl.Int64),
    )


def import_run(traces: Path, run: Run, folder: Path, share: float = 1.0) -> list[Workload]:
    """Write the history of one run and return its workloads; request = limit x `share`."""
    limits = json.loads((traces / LIMITS).read_text())[f"{run.app}/{run.scaler}"]
    workloads, samples = [], []
    for part in read_run(traces, run).partition_by("service", maintain_order=True):
        service = str(part["service"][0])
        limit = (limits.get(service) or [None])[0]
        if limit is None:
            continue
        sizes = sizes_of(part)
        pods = pods_of(service, sizes)
        workloads.append(
            Workload(
                cluster="scalereval",
                namespace=run.app,
                name=service,
                request_milli=round(Quantity.parse(limit).milli() * share),
                target_pct=run.target_pct,
                max_replicas=MAX_REPLICAS,
                pods=pods,
                sizes=[(sizes[0][0] - SYNC_MS, sizes[0][1]), *sizes[1:]],
            )
        )
        samples.append(samples_of(part, run.app, service, pods))
    write_workloads(workloads, pl.concat(samples), folder)
    return workloads


def replay_run(traces: Path, run: Run, folder: Path, share: float = 1.0) -> ReplayResult:
    """Import a run and replay it at the phase of its own controller."""
    import_run(traces, run, folder, share)
    phase = phase_ms(read_run(traces, run))
    return replay_folder(folder, ReplayParameters("1.36", phase_ms=phase))


def changes(result: ReplayResult) -> pl.DataFrame:
    """Return the ticks in which the recorded size or ours changed, the recording's beside ours."""
    moved = (pl.col("applied") != pl.col("replicas")) | pl.col("rescaled")
    names = ["ts", "hpa", "replicas", "applied", "desired", "proposal", "ratio", "binding"]
    return result.decisions.filter(moved).select(names).with_columns(pl.col("ratio").round(3))


def main(traces: Path, out: Path, run: Run) -> None:
    result = replay_run(traces, run, out)
    print_table(summary_table(result))
    print_table(changes(result))


if __name__ == "__main__":
    from tests.real.settings import traces_folder

    chosen = Run(*sys.argv[2:4]) if len(sys.argv) > 3 else Run("hipster", "KHPA-50")
    main(traces_folder(), Path(sys.argv[1]), chosen)
