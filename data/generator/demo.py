"""A deterministic recording of a small fleet: `python -m data.generator.demo --out data/demo`.

Every workload draws from its own random stream (the seed and its name), and is simulated apart from
the others, so that adding, dropping or reordering workloads changes no other.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import polars as pl
import yaml

import hpabatch
from data.generator.demo_backend import backend_workloads
from data.generator.demo_online import online_workloads
from data.generator.fleet import Workload
from data.generator.loop import Load, Span
from data.generator.objects import objects_text
from data.generator.record import record
from hpabatch.errors import EXIT_OK, HpabatchError, UsageError
from hpabatch.history.atomic import atomic_path
from hpabatch.history.store.writer import write_table
from hpabatch.importers.synth.fleet import Document

SPAN = Span(date(2026, 9, 17), 21)
SEED = 7
# The last hours of the CSV that stands beside the history.
CSV_HOURS = 2


def demo_fleet() -> tuple[Workload, ...]:
    """Return the demo's workloads."""
    return (*online_workloads(), *backend_workloads())


def generate(
    fleet: Sequence[Workload], seed: int = SEED, span: Span = SPAN
) -> dict[str, pl.DataFrame]:
    """Return the tables of a recording of a fleet, sampled every 60 s; not yet sorted.

    `hpa_status` is not among them: only a controller could have shown it.

    Raises:
        UsageError: the fleet is empty or two workloads have the same namespace and name.
    """
    names = {(work.namespace, work.name) for work in fleet}
    if not fleet or len(names) != len(fleet):
        raise UsageError("a synthetic fleet needs workloads, each with its own name")
    return record([Load(work, seed, span) for work in fleet])


def write_history(tables: dict[str, pl.DataFrame], folder: Path) -> dict[str, int]:
    """Write every table to `folder/<table>.parquet`; return the sizes in bytes.

    Raises:
        HistoryError: a table does not fit the registry.
        UsageError: the folder cannot be written.
    """
    return {
        name: write_table(frame, folder / f"{name}.parquet", name) for name, frame in tables.items()
    }


def write_manifests(fleet: Sequence[Workload], folder: Path) -> None:
    """Write the HPAs, as they are at the end, as one YAML file per namespace.

    Raises:
        UsageError: the folder cannot be written.
    """
    documents: dict[str, list[Document]] = {}
    for work in fleet:
        for hpa in work.hpas:
            manifest = {
                "apiVersion": "autoscaling/v2",
                "kind": "HorizontalPodAutoscaler",
                "metadata": {"name": hpa.name, "namespace": work.namespace},
                "spec": hpa.spec if hpa.edited is None else hpa.edited[1],
            }
            # Without shared objects, which YAML would show as anchors.
            documents.setdefault(work.namespace, []).append(json.loads(json.dumps(manifest)))
    for namespace, manifests in documents.items():
        text = yaml.safe_dump_all(manifests, sort_keys=False, default_flow_style=False)
        write_text(folder / f"{namespace}.yaml", text)


def write_beside(fleet: Sequence[Workload], history: Path, span: Span = SPAN) -> None:
    """Write `objects.yaml` and `usage.csv` beside a history of the fleet that was written.

    Raises:
        HistoryError: the history cannot be read.
        UsageError: a file cannot be written.
    """
    end = datetime.fromtimestamp(span.start_ms / 1000, UTC) + timedelta(hours=24 * span.days)
    tables = {name: pl.read_parquet(history / f"{name}.parquet") for name in ("pods", "scales")}
    hpas = hpabatch.open(history).get().items()
    write_text(history.parent / "objects.yaml", objects_text(fleet, tables, hpas, end))
    samples = pl.read_parquet(history / "pod_metrics.parquet")
    write_text(history.parent / "usage.csv", usage_csv(samples, end))


def usage_csv(samples: pl.DataFrame, end: datetime) -> str:
    """Return the last hours of each pod's usage as somebody would export it."""
    return (
        samples.filter(pl.col("ts") >= end - timedelta(hours=CSV_HOURS))
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


def write_text(path: Path, text: str) -> None:
    """Write a file, whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Generate the demo; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m data.generator.demo",
        description="Write a deterministic recording of a small fleet as a history.",
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="folder of the history; other files go beside it"
    )
    parser.add_argument("--manifests", type=Path, help="folder for the HPAs as YAML")
    parser.add_argument("--seed", type=int, default=SEED, help="default: %(default)s")
    options = parser.parse_args(arguments)
    try:
        if options.seed < 0:
            raise UsageError("--seed must not be negative")
        fleet = demo_fleet()
        sizes = write_history(generate(fleet, options.seed), options.out)
        if options.manifests is not None:
            write_manifests(fleet, options.manifests)
        write_beside(fleet, options.out)
    except HpabatchError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    for name, size in (*sizes.items(), ("all", sum(sizes.values()))):
        sys.stderr.write(f"{name:20} {size:>10,} bytes\n")
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
