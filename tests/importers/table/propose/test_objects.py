"""Tests of proposals beside objects of the cluster, on the demo's table and objects."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from hpabatch.errors import UsageError
from hpabatch.importers.table.propose.run import propose, propose_map
from tests.importers.cluster_made import HASH, START_MS, hpa, spec_of, workload, write_objects
from tests.importers.tables import import_table, read_tables

DATA = Path(__file__).parents[4] / "data"
USAGE, OBJECTS = str(DATA / "usage.csv"), str(DATA / "objects.yaml")


def test_what_the_objects_say_is_left_out_of_the_map(tmp_path: Path) -> None:
    """The demo's CSV and objects, imported as proposed, have the pods of the demo itself."""
    place = tmp_path / "map.yaml"
    found = propose([USAGE], str(place), [OBJECTS])
    keys = [line.split(":")[0] for line in found.text.splitlines() if not line.startswith("  ")]
    assert [key for key in keys if not key.startswith("#")] == ["level", "columns"]
    assert "workload" not in found.text
    import_table([USAGE], place, tmp_path / "history", objects=[OBJECTS])
    rows = read_tables(tmp_path / "history")["pod_metrics"]
    demo = pl.read_parquet(DATA / "demo" / "pod_metrics.parquet")
    key = ["namespace", "target", "pod", "ts"]
    last = demo.filter(pl.col("ts") >= rows["ts"].min())
    assert set(rows.select(key).unique().rows()) <= set(last.select(key).unique().rows())
    assert rows.select(key).n_unique() == 11_905


def test_a_namespace_that_no_column_has_is_that_of_the_objects(tmp_path: Path) -> None:
    rows = pl.read_csv(USAGE).filter(pl.col("namespace") == "shop").drop("namespace")
    rows.write_csv(tmp_path / "shop.csv")
    found = propose_map([str(tmp_path / "shop.csv")], [OBJECTS])
    assert "namespace: {value: shop}" in found.text
    assert "the namespace in which the objects have" in found.text


def test_objects_that_cannot_be_read_are_told_before_the_table_is(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere\.yaml"):
        propose_map([str(tmp_path / "no.csv")], ["nowhere.yaml"])


def test_objects_of_hpas_alone_are_told() -> None:
    found = propose_map([USAGE], [str(DATA / "demo-manifests" / "shop.yaml")])
    assert "which has neither workloads nor pods: state the requests, as in " in found.text


def test_a_column_of_a_metric_that_an_hpa_asks_for_is_that_metric(tmp_path: Path) -> None:
    asked = hpa("worker", "worker", START_MS)
    selector = {"matchLabels": {"queue": "jobs"}}
    asked["spec"]["metrics"] += [
        {
            "type": "External",
            "external": {
                "metric": {"name": name, "selector": selector},
                "target": {"type": "AverageValue", "averageValue": "30"},
            },
        }
        for name in ("queue_length", "lag")
    ]
    objects = write_objects(tmp_path, [workload("worker", 2, spec_of()), asked])
    table = tmp_path / "pods.csv"
    rows = [f"{START_MS + 60_000 * k},shop,worker-{HASH}-ccccc,0.2,{k}" for k in range(60)]
    table.write_text("\n".join(["time,namespace,pod,cpu,queue_length", *rows]))
    place = tmp_path / "map.yaml"
    found = propose([str(table)], str(place), [objects])
    assert "not used" not in found.text
    result = import_table([str(table)], place, tmp_path / "history", objects=[objects])
    sampled = read_tables(tmp_path / "history")["external_metrics"]
    assert sampled.select("metric", "selector").unique().rows() == [("queue_length", "queue=jobs")]
    (told,) = (text for text in result.warnings if "without samples" in text)
    assert told.startswith("--objects: 1 metric of HPAs without samples")
    assert "External lag of shop/worker" in told
