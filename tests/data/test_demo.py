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
from tests.data.laws import assert_lawful

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "data" / "demo"
MIB = 1 << 20
MOST_BYTES = 4_000_000

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
def test_a_workload_depends_on_no_other(part: dict[str, pl.DataFrame]) -> None:
    again = generate(SMALL[::-1], hours=PART_HOURS)
    assert len(part) == 8
    assert part.keys() == again.keys()
    assert all(frame.equals(again[table]) for table, frame in part.items())


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


@pytest.mark.compiled
def test_another_seed_gives_other_data(part: dict[str, pl.DataFrame]) -> None:
    other = generate(SMALL[:1], seed=1, hours=0.25)["pod_metrics"]
    same = part["pod_metrics"].join(other, on=["uid", "container", "ts", "cpu_milli"], how="semi")
    assert other.height > 0
    assert same.height < other.height


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


def test_the_objects_are_those_of_the_history(demo: History) -> None:
    items = yaml.load((ROOT / "data" / "objects.yaml").read_text(), Loader=yaml.CSafeLoader)
    of_kind = {
        kind: {
            (i["metadata"]["namespace"], i["metadata"]["name"]): i
            for i in items["items"]
            if i["kind"] == kind
        }
        for kind in ("HorizontalPodAutoscaler", "Pod", "Deployment", "StatefulSet", "ReplicaSet")
    }
    current = demo.read("hpas").filter(pl.col("valid_to").is_null())
    assert set(of_kind["HorizontalPodAutoscaler"]) == set(
        current.select("namespace", "name").iter_rows()
    )
    uids = {pod["metadata"]["uid"] for pod in of_kind["Pod"].values()}
    rows = demo.read("pods").filter(pl.col("deletion_requested").is_null())
    assert set(rows["uid"]) <= uids
    # Every owner that is named is there, under its uid.
    owners = {k: v for kind in ("ReplicaSet", "StatefulSet") for k, v in of_kind[kind].items()}
    for (namespace, _), pod in of_kind["Pod"].items():
        (reference,) = pod["metadata"]["ownerReferences"]
        if namespace != "kube-system":
            owner = owners[namespace, reference["name"]]
            assert owner["metadata"]["uid"] == reference["uid"]
            assert owner["spec"]["replicas"] > 0


def test_the_csv_has_columns_as_people_write_them() -> None:
    rows = pl.read_csv(ROOT / "data" / "usage.csv")
    assert rows.columns == ["time", "namespace", "pod", "cpu", "memory"]
    assert rows["time"].min() == "2026-10-07T22:00:00Z"
    assert rows["cpu"].dtype == pl.Float64
    assert rows["memory"].min() > 10 * MIB  # type: ignore[operator]


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


def test_the_demo_is_small() -> None:
    files = (p for p in (ROOT / "data").rglob("*.*") if "__pycache__" not in p.parts)
    assert sum(p.stat().st_size for p in files if p.is_file()) < MOST_BYTES


def test_the_readme_tells_rows_sizes_and_faults(demo: History) -> None:
    text = (ROOT / "data" / "README.md").read_text()
    for table in demo.tables:
        size = demo.files[table][0].stat().st_size
        rows = pl.scan_parquet(DEMO / f"{table}.parquet").select(pl.len()).collect().item()
        assert f"| `{table}` | {rows:,} | {size:,} |" in text
    faults = {f"| `{w.namespace}/{w.name}` | {w.fault} |" for w in demo_fleet() if w.fault}
    assert len(faults) == 12
    assert faults == {line for line in text.splitlines() if line.startswith("| `") and "/" in line}


# -- what the demo must contain


def test_kinds_of_metrics_and_targets_occur(demo: History) -> None:
    found = set()
    for text in demo.read("hpas")["spec"]:
        for metric in json.loads(text).get("metrics", []):
            member = metric["type"][0].lower() + metric["type"][1:]
            found.add((metric["type"], metric[member]["target"]["type"]))
    assert found == {
        ("Resource", "Utilization"),
        ("Resource", "AverageValue"),
        ("ContainerResource", "Utilization"),
        ("ContainerResource", "AverageValue"),
        ("Pods", "AverageValue"),
        ("Object", "Value"),
        ("Object", "AverageValue"),
        ("External", "AverageValue"),
    }
    assert sorted(demo.read("object_metrics")["kind"].unique()) == ["Ingress", "Service"]


def test_behaviors_differ(demo: History) -> None:
    behaviors = [json.loads(text).get("behavior") for text in demo.read("hpas")["spec"]]
    assert None in behaviors
    assert {} in behaviors
    sides = [side for b in behaviors if b for side in b.values()]
    assert {side.get("selectPolicy") for side in sides} == {None, "Max", "Min", "Disabled"}
    assert {0, 60, 3600} <= {side.get("stabilizationWindowSeconds") for side in sides}
    assert {"20m", "0"} <= {side.get("tolerance") for side in sides}


def test_it_keeps_the_laws_of_generated_fleets(demo: History) -> None:
    assert_lawful({name: pl.scan_parquet(DEMO / f"{name}.parquet") for name in demo.tables})


def test_names_are_a_clusters(demo: History) -> None:
    pods = demo.read("pods")
    alive = pods.filter(pl.col("gone").is_null())
    assert alive.select("namespace", "pod").is_unique().all()
    numbered = pods.filter(pl.col("target") == "sessions")["pod"].sort().to_list()
    assert numbered == [f"sessions-{k}" for k in range(9)]
    revisions = pods.filter(pl.col("target") == "frontend")["owner"].unique()
    assert revisions.len() == 4


def test_the_whole_cluster_has_a_gap() -> None:
    samples = pl.scan_parquet(DEMO / "pod_metrics.parquet").select("ts").unique()
    last = samples.filter(pl.col("ts") >= datetime(2026, 10, 7, tzinfo=UTC)).collect()["ts"]
    missing = set(range(1440)) - set(last.dt.hour().cast(pl.Int64()) * 60 + last.dt.minute())
    assert missing == {13 * 60 + 37 + i for i in range(6)}


# -- the faults are really there


def sizes(demo: History, target: str) -> pl.Series:
    return demo.read("scales").filter(pl.col("target") == target)["spec_replicas"]


def test_sizes_of_those_that_cannot_act(demo: History) -> None:
    expected = {"web-assets": 8, "ledger": 4, "settlement": 3, "enricher": 3, "audit": 3}
    found = {name: sizes(demo, name).unique().to_list() for name in expected}
    assert found == {name: [size] for name, size in expected.items()}
    assert sizes(demo, "gateway").max() == 3


def test_those_that_never_scale_in(demo: History) -> None:
    for name in ("sessions", "crawler", "ranker"):
        found = sizes(demo, name)
        assert found.is_sorted(), name
        assert found.max() > found.min(), name  # type: ignore[operator]


def test_settlement_lacks_a_request(demo: History) -> None:
    requests = demo.read("pod_requests").join(demo.read("pods"), on="uid")
    settlement = requests.filter(pl.col("target") == "settlement")
    envoy = settlement.filter(pl.col("container") == "envoy")["cpu_milli"]
    assert envoy.null_count() == envoy.len() == 3


def test_some_metrics_never_appear(demo: History) -> None:
    assert "pubsub_undelivered" not in demo.read("external_metrics")["metric"].to_list()
    assert "gpu_utilization" not in demo.read("pod_custom_metrics")["metric"].to_list()


def test_suggest_flaps(demo: History) -> None:
    steps = sizes(demo, "suggest").diff().drop_nulls()
    assert (steps > 0).sum() > 21 * 30
    assert (steps < 0).sum() > 21 * 30


def test_thumbnails_go_to_zero(demo: History) -> None:
    assert sizes(demo, "thumbnails").min() == 0


def test_api_was_edited(demo: History) -> None:
    rows = demo.read("hpas").filter(pl.col("name") == "api").sort("valid_from")
    assert [json.loads(text)["maxReplicas"] for text in rows["spec"]] == [8, 20]
    assert rows["generation"].to_list() == [1, 2]
    assert rows["valid_to"].to_list() == [rows["valid_from"][1], None]
    assert sizes(demo, "api").max() > 8  # type: ignore[operator]
