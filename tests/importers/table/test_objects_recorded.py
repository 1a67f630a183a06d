"""A table and the objects of a cluster beside it give what the recorder has of the same cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from hpabatch.cluster.objects.decoders import HpaDecoder, PodDecoder, WorkloadDecoder
from hpabatch.cluster.objects.types import Change, ContainerUsage, Kind, Response, UsageSample
from hpabatch.live.record.recorder import Recorder
from tests.importers.cluster_made import (
    HASH,
    START_MS,
    Json,
    budget,
    hpa,
    old_hpa,
    pod,
    replica_set,
    spec_of,
    workload,
    write_objects,
)
from tests.importers.tables import read_tables, run_import

MINUTE = 60_000
PASSES = 20
DB = {"containers": [{"name": "db", "resources": {"requests": {"cpu": "2", "memory": "1Gi"},
                                                  "limits": {"memory": "2Gi"}}}]}  # fmt: skip
MAP: dict[str, Any] = {
    "level": "pod",
    "columns": {
        "time": {"column": "ts", "unit": "ms"},
        "cluster": {"value": "made"},
        "namespace": {"value": "shop"},
        "pod": "pod",
        "container": "container",
        "cpu": {"column": "cpu", "unit": "millicores"},
        "memory": {"column": "memory", "unit": "bytes"},
        "replicas": "replicas",
    },
    "window": "30s",
    "lives": {"edge": "0s", "ran_before": "0s"},
}


class Cluster:
    """A cluster that grows, shrinks and resizes a pod; what a recorder and a table saw of it.

    Attributes:
        objects: as they are at the end.
        rows: of the table.
    """

    def __init__(self, folder: Path) -> None:
        self.now_ms = START_MS
        self.recorder = Recorder(folder, "made", clock=lambda: self.now_ms, segment_s=1e9)
        self.objects: dict[tuple[str, str], Json] = {}
        self.rows: list[tuple[object, ...]] = []
        self.changes: list[Change] = []
        self.decoders: dict[str, Any] = {
            "Pod": (Kind.pod, PodDecoder()),
            "HorizontalPodAutoscaler": (Kind.hpa, HpaDecoder()),
            "Deployment": (Kind.scale, WorkloadDecoder("apps", "Deployment")),
            "StatefulSet": (Kind.scale, WorkloadDecoder("apps", "StatefulSet")),
        }

    def put(self, document: Json, seen: bool = True) -> None:
        kind = document["kind"]
        self.objects[kind, document["metadata"]["name"]] = document
        if seen:
            of, decoder = self.decoders[kind]
            found = decoder.decode(json.dumps(document).encode())
            self.changes.append(Change(of, found.key, found.thing, self.now_ms))

    def remove(self, name: str) -> None:
        del self.objects["Pod", name]
        self.changes.append(Change(Kind.pod, ("shop", name), None, self.now_ms))

    def look(self, number: int) -> None:
        """Decide once, one minute later; the table gets the same samples."""
        self.now_ms += MINUTE
        samples = []
        for (kind, name), document in sorted(self.objects.items()):
            if kind != "Pod":
                continue
            spec = document["spec"]
            running = [c["name"] for c in spec["containers"]]
            running += [c["name"] for c in spec.get("initContainers", []) if "restartPolicy" in c]
            usages = [
                ContainerUsage(c, 10 * number + k, (1 << 20) * 1000) for k, c in enumerate(running)
            ]
            ts = self.now_ms - 5000
            samples.append(UsageSample("shop", name, ts, 30_000, tuple(usages)))
            owner = ("StatefulSet", "db") if name == "db-0" else ("Deployment", "web")
            size = self.objects[owner]["spec"]["replicas"]
            for one in usages:
                self.rows.append((ts, name, one.name, one.cpu_milli, 1 << 20, size))
        self.recorder.apply(self.changes)
        self.changes = []
        self.recorder.observe(self.now_ms, {"": Response(self.now_ms, tuple(samples))}, {})
        self.recorder.pass_done(self.now_ms, number == 0, 2, 1, "1.36")


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> tuple[Cluster, dict[str, pl.DataFrame]]:
    folder = tmp_path_factory.mktemp("recorded")
    cluster, spec = Cluster(folder / "history"), spec_of()
    cluster.put(workload("web", 2, spec))
    cluster.put(workload("db", 1, DB, kind="StatefulSet"))
    cluster.put(replica_set("web", spec), seen=False)
    cluster.put(budget("web"), seen=False)
    cluster.put(hpa("web", "web", START_MS - MINUTE))
    cluster.put(old_hpa("db", "db", START_MS, "StatefulSet"))
    for name in ("ccccc", "ddddd"):
        owner = f"ReplicaSet/web-{HASH}"
        cluster.put(pod(f"web-{HASH}-{name}", owner, spec, START_MS))
    cluster.put(pod("db-0", "StatefulSet/db", DB, START_MS))
    for number in range(PASSES):
        if number == 5:  # grows, between two looks
            cluster.now_ms += 2000
            cluster.put(workload("web", 3, spec))
            cluster.put(pod(f"web-{HASH}-fffff", owner, spec, cluster.now_ms))
        if number == 9:  # a pod is resized in place
            cluster.put(pod(f"web-{HASH}-ccccc", owner, spec_of("300m"), START_MS))
        if number == 14:  # shrinks
            cluster.put(workload("web", 2, spec))
            cluster.remove(f"web-{HASH}-ddddd")
        cluster.look(number)
    assert cluster.recorder.close()
    return cluster, read_tables(folder / "history")


@pytest.fixture(scope="module")
def imported(
    seen: tuple[Cluster, dict[str, pl.DataFrame]], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, pl.DataFrame]:
    folder, cluster = tmp_path_factory.mktemp("imported"), seen[0]
    names = ["ts", "pod", "container", "cpu", "memory", "replicas"]
    table = pl.DataFrame(cluster.rows, schema=names, orient="row")
    objects = write_objects(folder, list(cluster.objects.values()))
    result, tables = run_import(folder, MAP, table, objects=[objects])
    assert result.warnings == ()
    assert not result.dropped
    return tables


Tables = dict[str, pl.DataFrame]


def same(one: Tables, other: Tables, table: str, columns: list[str], where: pl.Expr) -> int:
    """Assert that two histories have the same rows of a table, and return how many."""
    found = [
        tables[table].filter(where).select(columns).unique().sort(columns)
        for tables in (one, other)
    ]
    assert found[0].rows() == found[1].rows()
    return found[0].height


def test_usage_and_lives_are_those_of_the_recording(
    seen: tuple[Cluster, Tables], imported: Tables
) -> None:
    recorded, everything = seen[1], pl.col("container") != ""
    values = ["window_ms", "cpu_milli", "memory_bytes"]
    columns = ["cluster", "namespace", "target", "pod", "container", "ts", *values]
    assert same(recorded, imported, "pod_metrics", columns, everything) == 167
    there = pl.col("gone").is_null()
    facts = ["cluster", "namespace", "target", "pod", "uid", "labels", "owner", "created"]
    assert same(recorded, imported, "pods", [*facts, "started", "node"], there) == 3
    # Of the pod that is gone, the objects know the workload and its labels, and no more.
    gone = imported["pods"].filter(~there)
    assert gone.select("pod", "target", "labels").rows() == [
        (f"web-{HASH}-ddddd", "web", '{"app":"web","tier":"front"}')
    ]
    ready = pl.col("ready") == "True"
    facts = ["namespace", "target", "uid", "phase", "ready", "last_transition"]
    listed = imported["pods"].filter(there).select("uid")
    one, other = (
        {**tables, "pod_states": tables["pod_states"].join(listed, on="uid", how="semi")}
        for tables in (recorded, imported)
    )
    assert same(one, other, "pod_states", facts, ready) == 3


def test_requests_are_those_of_the_recording(
    seen: tuple[Cluster, Tables], imported: Tables
) -> None:
    key = ["uid", "kind", "index", "container"]
    amounts = ["cpu_milli", "memory_milli", "cpu_limit_milli", "memory_limit_milli"]
    listed = imported["pods"].filter(pl.col("gone").is_null()).select("uid")
    last = [
        tables["pod_requests"]
        .join(listed, on="uid", how="semi")
        .sort("valid_from")
        .unique(key, keep="last")
        .select("namespace", "target", *key, *amounts)
        .sort(key)
        for tables in (seen[1], imported)
    ]
    assert last[0].rows() == last[1].rows()
    assert last[0].height == 9
    # What the recording has of the pod that is gone follows from the template.
    requests = [
        tables["pod_requests"]
        .join(tables["pods"].filter(pl.col("pod").str.ends_with("ddddd")), on="uid", how="semi")
        .select(*key[1:], *amounts)
        .sort(key[1:])
        for tables in (seen[1], imported)
    ]
    assert requests[0].rows() == requests[1].rows()
    assert requests[0].height == 4


def test_hpas_and_sizes_are_those_of_the_recording(
    seen: tuple[Cluster, Tables], imported: Tables
) -> None:
    facts = ["cluster", "namespace", "name", "uid", "spec", "labels", "annotations", "created",
             "generation", "valid_to"]  # fmt: skip
    assert same(seen[1], imported, "hpas", facts, pl.lit(value=True)) == 2
    columns = ["target_kind", "target", "spec_replicas", "status_replicas", "selector", "error"]
    sizes = [
        tables["scales"].sort("target", "ts").select("cluster", "namespace", *columns).rows()
        for tables in (seen[1], imported)
    ]
    assert sizes[0] == sizes[1]
    assert len(sizes[0]) == 4
    # A change is seen in the first sample after it, at most a minute later.
    times = [
        tables["scales"].sort("target", "ts")["ts"].to_list() for tables in (seen[1], imported)
    ]
    assert all(abs((one - other).total_seconds()) <= 60 for one, other in zip(*times, strict=True))
