"""The demo, a deterministic recording of a small fleet: `python -m benchmarks.fleet.demo data`.

Every workload draws from its own random stream (the seed and its name), and is simulated apart from
the others, so that adding, dropping or reordering workloads changes no other.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import polars as pl

import hpabatch
from benchmarks.fleet.demo_loop import DAYS, START, Load
from benchmarks.fleet.demo_objects import objects_text
from benchmarks.fleet.demo_tables import record
from benchmarks.fleet.demo_workloads import Workload, demo_fleet
from hpabatch.history.store.writer import write_table

END = START + timedelta(days=DAYS)
_SEED = 7
# The last hours of the CSV that stands beside the history.
_CSV_HOURS = 2


def generate(
    fleet: Sequence[Workload], seed: int = _SEED, hours: float = 24 * DAYS
) -> dict[str, pl.DataFrame]:
    """Return the tables of a recording of a fleet's first hours, sampled every 60 s.

    `hpa_status` is not among them: only a controller could have shown it.
    """
    return record([Load(work, seed, hours) for work in fleet])


def usage_csv(samples: pl.DataFrame, end: datetime) -> str:
    """Return the last hours of each pod's usage as somebody would export it."""
    return (
        samples.filter(pl.col("ts") >= end - timedelta(hours=_CSV_HOURS))
        .group_by("ts", "namespace", "pod")
        .agg(pl.col("cpu_milli", "memory_bytes").sum())
        .sort("ts", "namespace", "pod")
        .select(
            time=pl.col("ts").dt.strftime("%Y-%m-%dT%H:%M:%SZ"),
            namespace="namespace",
            pod="pod",
            cpu=pl.col("cpu_milli") / 1000,
            memory="memory_bytes",
        )
        .write_csv(float_precision=3)
    )


def main() -> None:
    """Write the demo, and `objects.yaml` and `usage.csv` of its end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, help="gets demo/, objects.yaml and usage.csv")
    folder: Path = parser.parse_args().folder
    fleet = demo_fleet()
    tables = generate(fleet)
    for name, frame in tables.items():
        size = write_table(frame, folder / "demo" / f"{name}.parquet", name)
        print(f"{name:20} {frame.height:>10,} rows {size:>10,} bytes")
    hpas = hpabatch.open(folder / "demo").get().items()
    (folder / "objects.yaml").write_text(objects_text(fleet, tables["pods"], hpas, END))
    (folder / "usage.csv").write_text(usage_csv(tables["pod_metrics"], END))


if __name__ == "__main__":
    main()
