"""The demo: the same bytes again, what must be in it, and the files beside it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
import yaml

from benchmarks.fleet.demo import END, generate, usage_csv
from benchmarks.fleet.demo_objects import objects_text
from benchmarks.fleet.demo_workloads import demo_fleet
from hpabatch.history.reader import History, open_history

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "data" / "demo"

# A queue, a container's metric, one that goes to zero, memory that grows, an invalid one.
SMALL = tuple(
    work
    for work in demo_fleet()
    if work.name in {"webhooks", "checkout", "thumbnails", "sessions", "settlement"}
)
PART_HOURS = 3.0


@pytest.fixture(scope="module")
def demo() -> History:
    return open_history(DEMO, "replay")


@pytest.fixture(scope="module")
def part() -> dict[str, pl.DataFrame]:
    """Return the first hours of some workloads, made anew."""
    return generate(SMALL, hours=PART_HOURS)


# -- determinism


@pytest.mark.compiled
def test_the_committed_demo_is_what_the_generator_makes(
    demo: History, part: dict[str, pl.DataFrame]
) -> None:
    """A run of the first hours is the beginning of the whole one."""
    seen = pl.col("ts") < datetime(2026, 9, 17, 2, 50, tzinfo=UTC)
    targets = [work.name for work in SMALL]
    for table, count in (("pod_metrics", 2_500), ("external_metrics", 300)):
        rows = demo.read(table).filter(seen)
        if "target" in rows.columns:
            rows = rows.filter(pl.col("target").is_in(targets))
        else:
            rows = rows.filter(pl.col("metric") != "kafka_consumergroup_lag")
        order = [name for name in rows.columns if not name.endswith(("milli", "bytes"))]
        again = part[table].filter(seen).select(rows.columns).sort(order, nulls_last=True)
        assert again.equals(rows.sort(order, nulls_last=True)), table
        assert rows.height > count
    mine = demo.read("hpas").filter(pl.col("name").is_in(targets)).sort("uid")
    assert part["hpas"].select(mine.columns).sort("uid").equals(mine)


# -- the files beside it


def test_the_committed_objects_and_csv_are_those_of_the_history(demo: History) -> None:
    text = (ROOT / "data" / "objects.yaml").read_text()
    items = yaml.load(text, Loader=yaml.CSafeLoader)["items"]
    kinds = list(dict.fromkeys(item["kind"] for item in items))
    assert kinds == [
        "Deployment", "StatefulSet", "ReplicaSet", "DaemonSet", "HorizontalPodAutoscaler", "Pod",
        "PodDisruptionBudget",
    ]  # fmt: skip
    hpas = [item for item in items if item["kind"] == "HorizontalPodAutoscaler"]
    assert objects_text(demo_fleet(), demo.read("pods"), hpas, END) == text
    assert usage_csv(demo.read("pod_metrics"), END) == (ROOT / "data" / "usage.csv").read_text()


def test_manifests_and_history_hold_the_same_hpas(demo: History) -> None:
    current = demo.read("hpas").filter(pl.col("valid_to").is_null())
    recorded = {
        (row["namespace"], row["name"]): json.loads(row["spec"])
        for row in current.iter_rows(named=True)
    }
    manifests = {
        (doc["metadata"]["namespace"], doc["metadata"]["name"]): doc["spec"]
        for path in (ROOT / "data" / "demo-manifests").iterdir()
        for doc in yaml.safe_load_all(path.read_text())
    }
    assert manifests == recorded
    assert len(recorded) == 31


def test_the_readme_tells_rows_sizes_and_faults(demo: History) -> None:
    text = (ROOT / "data" / "README.md").read_text()
    for table in demo.tables:
        size = demo.files[table][0].stat().st_size
        rows = pl.scan_parquet(DEMO / f"{table}.parquet").select(pl.len()).collect().item()
        assert f"| `{table}` | {rows:,} | {size:,} |" in text
    faults = {f"| `{w.namespace}/{w.name}` | {w.fault} |" for w in demo_fleet() if w.fault}
    assert len(faults) == 12
    assert faults == {line for line in text.splitlines() if line.startswith("| `") and "/" in line}
