"""Nezha's pods (k8s_pods_nezha.parquet) as histories, one per application.

    python -m tests.real.import_nezha OUT [SHARE]

The data: per pod and minute the cpu and memory used and their percentages of the limit. Stated,
because the data do not say it:

* request = limit x SHARE (default 1: what API defaulting makes of a limit without a request). The
  limit is the median of usage / percentage, to whole 5m; where nothing was used, its application's
  median limit.
* An HPA on every workload: cpu at 50 %, minReplicas 1, maxReplicas 8, no behavior.
* The recorded size is the most frequent number of pods with a sample in a minute; no HPA ran.
* A pod lives from a minute before its first sample to a minute after its last one; those of the
  trace's first two minutes ran before, those of its last two go on. It is Ready all its life.
* Samples are visible at once (delay 0) and average over the minute before them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl

from hpabatch.engine.replay import ReplayParameters
from tests.real.tables import (
    MINUTE_MS,
    RAN_BEFORE_MS,
    Pod,
    Workload,
    print_table,
    replay_folder,
    summary_table,
    write_workloads,
)

FILE = "k8s_pods_nezha.parquet"
TARGET_PCT = 50
MAX_REPLICAS = 8
EDGE_MS = 2 * MINUTE_MS
PARAMETERS = ReplayParameters("1.36")


def _limits(rows: pl.DataFrame) -> dict[str, int]:
    """Return each workload's cpu limit in milli."""
    percent = pl.col("cpu_pct_of_limit")
    limit = (pl.col("cpu_millicores") / percent * 100).filter(percent > 0.05).median()
    found = rows.group_by("workload").agg(limit=limit)
    found = found.with_columns(pl.col("limit").fill_null(pl.col("limit").median()))
    return {name: max(5, round(value / 5) * 5) for name, value in found.rows()}


def _pods(rows: pl.DataFrame, first_ms: int, last_ms: int) -> list[Pod]:
    pods = []
    lives = rows.group_by("pod").agg(a=pl.col("ms").min(), b=pl.col("ms").max()).sort("pod")
    for name, begin, end in lives.rows():
        before = RAN_BEFORE_MS if begin - first_ms < EDGE_MS else MINUTE_MS
        gone = None if last_ms - end < EDGE_MS else end + MINUTE_MS
        pods.append(Pod(name, begin - before, begin - before, gone_ms=gone))
    return pods


def _size(rows: pl.DataFrame) -> int:
    """Return the most frequent number of pods in a minute, the smallest of equals."""
    counts = rows.group_by(pl.col("ms") // MINUTE_MS).agg(pl.col("pod").n_unique().alias("n"))
    often = counts.group_by("n").len().sort(["len", "n"], descending=[True, False])
    return int(often["n"][0])


def import_app(traces: Path, app: str, folder: Path, share: float = 1.0) -> list[Workload]:
    """Write the history of one application and return its workloads."""
    rows = pl.read_parquet(traces / FILE).filter(pl.col("app") == app)
    rows = rows.with_columns(ms=pl.col("ts").to_physical())
    first_ms, last_ms = int(rows["ms"].min()), int(rows["ms"].max())  # type: ignore[arg-type]
    limits = _limits(rows)
    workloads = []
    for (name,), part in sorted(rows.partition_by("workload", as_dict=True).items()):
        workloads.append(
            Workload(
                cluster="nezha",
                namespace=app,
                name=str(name),
                request_milli=max(1, round(limits[str(name)] * share)),
                target_pct=TARGET_PCT,
                max_replicas=MAX_REPLICAS,
                pods=_pods(part, first_ms, last_ms),
                sizes=[(first_ms - MINUTE_MS, _size(part))],
            )
        )
    samples = rows.select(
        namespace="app",
        target="workload",
        pod="pod",
        ts="ms",
        window_ms=pl.lit(MINUTE_MS, dtype=pl.Int64),
        cpu_milli=pl.col("cpu_millicores").ceil().cast(pl.Int64),
        memory_bytes=(pl.col("memory_mib") * (1 << 20)).ceil().cast(pl.Int64),
    )
    write_workloads(workloads, samples, folder)
    return workloads


def apps(traces: Path) -> list[str]:
    return sorted(pl.read_parquet(traces / FILE, columns=["app"])["app"].unique().to_list())


def main(traces: Path, out: Path, share: float) -> None:
    for app in apps(traces):
        import_app(traces, app, out / app, share)
        result = replay_folder(out / app, PARAMETERS)
        table = summary_table(result).with_columns(
            bound=pl.Series(
                result.decisions.group_by("hpa", maintain_order=True).agg(
                    pl.col("binding").unique().sort().str.join(" ")
                )["binding"]
            )
        )
        print_table(table)


if __name__ == "__main__":
    from tests.real.settings import traces_folder

    main(traces_folder(), Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 1.0)
