"""A deterministic day of a small fleet: `python -m hpabatch.importers.synth.demo --out data/demo`.

Every workload draws from its own random stream (the seed and its name), so that adding, dropping
or reordering workloads changes no other. The recorded replica counts are a stand-in that follows
the demand; they are not the HPA's decisions (see `load.recorded_replicas`).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import polars as pl
import yaml

from hpabatch.errors import EXIT_OK, HpabatchError, UsageError
from hpabatch.history.atomic import atomic_path
from hpabatch.history.schema import TABLES
from hpabatch.history.store.writer import write_table
from hpabatch.importers.synth.demo_backend import backend_workloads
from hpabatch.importers.synth.demo_online import online_workloads
from hpabatch.importers.synth.fleet import Document, Workload
from hpabatch.importers.synth.record import CLUSTER, Recorder, compact_json, start_ms

DAY = date(2026, 10, 7)
SEED = 7


def demo_fleet() -> tuple[Workload, ...]:
    """Return the demo's workloads."""
    return (*online_workloads(), *backend_workloads())


def generate(
    fleet: Sequence[Workload], seed: int = SEED, day: date = DAY
) -> dict[str, pl.DataFrame]:
    """Return the tables of one day of a fleet, sampled every 60 s; not yet sorted.

    `hpa_status` is not among them: only a controller could have shown it.

    Raises:
        UsageError: the fleet is empty or two workloads have the same namespace and name.
    """
    names = {(work.namespace, work.name) for work in fleet}
    if not fleet or len(names) != len(fleet):
        raise UsageError("a synthetic fleet needs workloads, each with its own name")
    midnight_ms = start_ms(day)
    parts: dict[str, list[pl.DataFrame]] = {}
    for work in fleet:
        for table, frame in Recorder(work, seed, day).tables().items():
            parts.setdefault(table, []).append(frame)
    parts["controller"] = [_controller(midnight_ms)]
    return {name: pl.concat(parts[name]) for name in TABLES if name in parts}


def _controller(midnight_ms: int) -> pl.DataFrame:
    flags = {"horizontal-pod-autoscaler-sync-period": "15s"}
    row = {"cluster": CLUSTER, "event": "start", "version": "v1.38.0", "flags": compact_json(flags)}
    ts = pl.Series("ts", [midnight_ms - 86_400_000]).cast(pl.Datetime("ms", "UTC"))
    return pl.DataFrame(row).with_columns(ts)


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
    """Write the HPAs, as they are at the end of the day, as one YAML file per namespace.

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
        with atomic_path(folder / f"{namespace}.yaml") as temporary:
            temporary.write_text(text, encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Generate the demo; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m hpabatch.importers.synth.demo",
        description="Write a deterministic day of a small fleet as a history.",
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the history")
    parser.add_argument("--manifests", type=Path, help="folder for the HPAs as YAML")
    parser.add_argument("--seed", type=int, default=SEED, help="default: %(default)s")
    parser.add_argument(
        "--day", type=date.fromisoformat, default=DAY, help="UTC day, default: %(default)s"
    )
    options = parser.parse_args(arguments)
    try:
        if options.seed < 0:
            raise UsageError("--seed must not be negative")
        fleet = demo_fleet()
        sizes = write_history(generate(fleet, options.seed, options.day), options.out)
        if options.manifests is not None:
            write_manifests(fleet, options.manifests)
    except HpabatchError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    for name, size in (*sizes.items(), ("all", sum(sizes.values()))):
        sys.stderr.write(f"{name:20} {size:>10,} bytes\n")
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
