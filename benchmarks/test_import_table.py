"""Import of a CSV and a Parquet table, beside Polars scanning and sorting the same file.

HPABATCH_BENCH_IMPORT_MINUTES (default 5000: 2 million rows of 400 pods) sets the size of the table.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from hpabatch.api.imports import import_table

ROOT = Path(__file__).resolve().parents[1]
MINUTES = int(os.environ.get("HPABATCH_BENCH_IMPORT_MINUTES", "5000"))
WORKLOADS, PODS = 40, 10
BEGIN_S = 1_790_000_000
MAP = """level: pod
columns:
  time: time
  namespace: namespace
  workload: workload
  pod: pod
  cpu: {column: cpu, unit: cores}
  memory: {column: memory, unit: bytes}
requests: {cpu: 400m}
hpas: {template: {min: 2, max: 10, cpu: 60%}}
"""
KINDS = ("csv", "parquet")


@pytest.fixture(scope="module")
def folder() -> Path:
    """Return a folder with the same rows as CSV and as Parquet, all pods of a minute together."""
    place = ROOT / "build" / "bench-import" / str(MINUTES)
    place.mkdir(parents=True, exist_ok=True)
    (place / "map.yaml").write_text(MAP)
    draw = np.random.default_rng(1)
    pods, rows = WORKLOADS * PODS, MINUTES * WORKLOADS * PODS
    names = [f"web-{pod // PODS:02}" for pod in range(pods)]
    pod = np.tile(np.arange(pods), MINUTES)
    frame = pl.DataFrame(
        {
            "time": pl.from_epoch(pl.Series(BEGIN_S + np.repeat(np.arange(MINUTES), pods) * 60)),
            "namespace": pl.Series([f"team-{k // PODS % 8}" for k in range(pods)]).gather(pod),
            "workload": pl.Series(names).gather(pod),
            "pod": pl.Series([f"{n}-6d4cf56db6-{k:05x}" for k, n in enumerate(names)]).gather(pod),
            "cpu": np.round(draw.gamma(2, 0.2, rows), 3),
            "memory": draw.integers(200_000_000, 400_000_000, rows),
        }
    ).with_columns(pl.col("time").dt.replace_time_zone("UTC").dt.cast_time_unit("ms"))
    frame.write_parquet(place / "usage.parquet")
    as_text = pl.col("time").dt.to_string("%Y-%m-%dT%H:%M:%SZ")
    frame.with_columns(as_text).write_csv(place / "usage.csv")
    return place


def _note(benchmark: Any, kind: str, what: str) -> None:
    benchmark.group = "import"
    benchmark.extra_info.update(kind=kind, what=what, rows=MINUTES * WORKLOADS * PODS)


@pytest.mark.parametrize("kind", KINDS)
def test_scan_and_sort(benchmark: Any, folder: Path, kind: str) -> None:
    source = folder / f"usage.{kind}"

    def run() -> None:
        rows = pl.scan_csv(source) if kind == "csv" else pl.scan_parquet(source)
        rows.sort("namespace", "workload", "pod", "time").collect()

    _note(benchmark, kind, "scan and sort")
    benchmark.pedantic(run, rounds=3)


@pytest.mark.parametrize("kind", KINDS)
def test_import(benchmark: Any, folder: Path, kind: str) -> None:
    out = folder / "history"

    def run() -> None:
        import_table(folder / f"usage.{kind}", map=folder / "map.yaml", out=out)

    _note(benchmark, kind, "import")
    benchmark.pedantic(run, setup=lambda: shutil.rmtree(out, ignore_errors=True), rounds=3)
