"""Objects beside a table: what goes first, what is told, and what the map may leave out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from hpabatch.importers.table.run import ImportResult
from tests.importers.cluster_made import (
    HASH,
    START_MS,
    Json,
    budget,
    container,
    hpa,
    pod,
    replica_set,
    spec_of,
    workload,
    write_objects,
)
from tests.importers.tables import (
    import_table,
    merged,
    read_tables,
    run_import,
    write_csv,
    write_map,
)

POD = f"web-{HASH}-ccccc"
GONE = f"web-{HASH}-zzzzz"
MAP: dict[str, Any] = {
    "level": "pod",
    "columns": {
        "time": {"column": "ts", "unit": "ms"},
        "namespace": {"value": "shop"},
        "pod": "pod",
        "container": "container",
        "cpu": {"column": "cpu", "unit": "millicores"},
    },
}
SERVICES: dict[str, Any] = {
    "level": "workload",
    "columns": {
        "time": {"column": "ts", "unit": "ms"},
        "namespace": {"value": "shop"},
        "workload": "service",
        "replicas": "replicas",
        "cpu": {"column": "cpu", "unit": "millicores", "of": "sum"},
    },
}


def cluster(spec: Json | None = None) -> list[Json]:
    spec = spec or spec_of()
    owner = f"ReplicaSet/web-{HASH}"
    return [
        workload("web", 2, spec),
        replica_set("web", spec),
        pod(POD, owner, spec, START_MS),
        hpa("web-cpu", "web", START_MS - 1000),
    ]


def rows(*pods: str, containers: str = "web proxy log", last: int = 5, more: str = "") -> str:
    lines = ["ts,pod,container,cpu" + (",request" if more else "")]
    for minute in range(last):
        for name in pods:
            for one in containers.split():
                tail = f",{more}" if more and one == "web" else "," if more else ""
                lines.append(f"{START_MS + minute * 60_000},{name},{one},100{tail}")
    return "\n".join(lines) + "\n"


def imported(
    folder: Path, changes: dict[str, Any], data: str, objects: list[Json], base: Any = MAP
) -> tuple[ImportResult, dict[str, pl.DataFrame]]:
    return run_import(folder, merged(base, changes), data, objects=[write_objects(folder, objects)])


def requests_of(tables: dict[str, pl.DataFrame], uid: str) -> dict[str, int | None]:
    found = tables["pod_requests"].filter(pl.col("uid") == uid)
    return dict(found.select("container", "cpu_milli").rows())


def test_a_map_needs_neither_requests_nor_hpas_nor_a_workload(tmp_path: Path) -> None:
    result, tables = imported(tmp_path, {}, rows(POD, GONE), cluster())
    assert result.warnings == ()
    assert not any("request" in text or "HPA" in text or "kind" in text for text in result.assumed)
    assert tables["hpas"]["name"].to_list() == ["web-cpu"]
    for uid in tables["pods"]["uid"]:
        assert requests_of(tables, uid) == {"web": 250, "proxy": 100, "log": 50, "migrate": 1000}


def test_pods_of_no_known_workload_are_left_out_and_counted(tmp_path: Path) -> None:
    result, tables = imported(tmp_path, {}, rows(POD, "stray"), cluster())
    assert result.dropped["pod of a workload that the objects do not have (--objects)"] == 15
    assert tables["pods"]["pod"].to_list() == [POD]


def test_the_table_goes_before_the_map_the_map_before_the_objects(tmp_path: Path) -> None:
    said: dict[str, Any] = {
        "requests": {"cpu": {"workloads": {"web": "70m", "shop/web/log": "60m"}}}
    }
    _, tables = imported(tmp_path, said, rows(POD), cluster())
    amounts = {"web": 70, "proxy": 70, "log": 60, "migrate": 1000}
    assert requests_of(tables, f"uid-{POD}") == amounts
    said = {"requests": {"cpu": {"column": "request", "unit": "millicores"}}}
    (tmp_path / "two").mkdir()
    _result, tables = imported(tmp_path / "two", said, rows(POD, more="300"), cluster())
    # Where a row of the table has no amount, the objects' counts.
    amounts = {"web": 300, "proxy": 100, "log": 50, "migrate": 1000}
    assert requests_of(tables, f"uid-{POD}") == amounts


def test_what_the_map_says_of_all_is_for_what_the_objects_leave_open(tmp_path: Path) -> None:
    bare = spec_of()
    bare["containers"].append(container("bare", None))
    said = {"requests": {"cpu": "10m"}, "hpas": {"template": {"max": 5, "cpu": "50%"}}}
    other = workload("other", 1, bare)
    data = rows(POD) + rows("other-5f6d8b7c9-zzzzz", containers="bare").split("\n", 1)[1]
    _result, tables = imported(tmp_path, said, data, [*cluster(bare), other])
    assert requests_of(tables, f"uid-{POD}")["bare"] == 10
    assert requests_of(tables, f"uid-{POD}")["web"] == 250
    # The template is for workloads whose HPA the objects do not have.
    assert sorted(tables["hpas"]["name"]) == ["other", "web-cpu"]


@pytest.mark.parametrize(("entry", "names"), [({"max": 4}, ["web"]), (None, [])])
def test_an_entry_of_the_map_goes_before_an_hpa_of_the_objects(
    tmp_path: Path, entry: Any, names: list[str]
) -> None:
    content = merged(MAP, {"hpas": {"template": {"max": 9, "cpu": "60%"}}})
    content["hpas"]["workloads"] = {"web": entry}
    path, objects = write_map(tmp_path, content), write_objects(tmp_path, cluster())
    source = write_csv(tmp_path, rows(POD))
    import_table([source], path, tmp_path / "out", objects=[objects])
    tables = read_tables(tmp_path / "out")
    assert (
        [row["name"] for row in tables["hpas"].to_dicts()] == names
        if names
        else ("hpas" not in tables)
    )


def test_usage_of_whole_pods_counts_against_the_requests_of_their_containers(
    tmp_path: Path,
) -> None:
    data = rows(POD, GONE, containers="x")
    _, tables = imported(tmp_path, {"columns": {"container": None}}, data, cluster())
    assert set(tables["pod_metrics"]["container"]) == {"app"}
    assert "app" not in requests_of(tables, f"uid-{POD}")
    assert requests_of(tables, f"uid-{POD}")["web"] == 250
    # A single container has the usage.
    single = {"containers": [container("web", "200m")]}
    (tmp_path / "two").mkdir()
    _, tables = imported(tmp_path / "two", {"columns": {"container": None}}, data, cluster(single))
    assert set(tables["pod_metrics"]["container"]) == {"web"}
    assert requests_of(tables, f"uid-{POD}") == {"web": 200}


def test_a_uid_and_a_workload_of_the_table_count(tmp_path: Path) -> None:
    said = {"columns": {"workload": {"value": "front"}, "uid": {"value": "other"}}}
    _, tables = imported(tmp_path, said, rows(POD), cluster())
    assert tables["pods"].select("target", "uid").rows() == [("front", "other")]


def test_rows_per_workload_get_requests_selector_and_hpas(tmp_path: Path) -> None:
    lines = [f"{START_MS + k * 60_000},web,{2 + k // 3},400" for k in range(6)]
    data = "\n".join(["ts,service,replicas,cpu", *lines]) + "\n"
    result, tables = imported(tmp_path, {}, data, cluster(), SERVICES)
    assert set(tables["scales"]["selector"]) == {"app=web,tier=front"}
    assert set(tables["pods"]["labels"]) == {'{"app":"web","tier":"front"}'}
    assert {name for uid in tables["pods"]["uid"] for name in requests_of(tables, uid)} == {
        "web", "proxy", "log", "migrate",
    }  # fmt: skip
    assert tables["hpas"]["name"].to_list() == ["web-cpu"]
    items = cluster()
    del next(item for item in items if item["kind"] == "Deployment")["spec"]["replicas"]
    (tmp_path / "unsized").mkdir()
    result, _ = imported(tmp_path / "unsized", {}, data, items, SERVICES)
    assert not any("another size" in text for text in result.warnings)


def test_a_name_that_recurs_was_another_pod_before_its_creation(tmp_path: Path) -> None:
    spec = spec_of()
    items = [
        workload("db", 1, spec, kind="StatefulSet"),
        pod("db-0", "StatefulSet/db", spec, START_MS + 150_000),
    ]
    _, tables = imported(tmp_path, {}, rows("db-0"), items)
    pods = tables["pods"].sort("created")
    assert pods["uid"].to_list()[1] == "uid-db-0"
    created = pods["created"].dt.timestamp("ms").to_list()
    gone = pods["gone"].dt.timestamp("ms").to_list()
    assert created[1] == START_MS + 150_000
    assert gone == [START_MS + 150_000, None]
    samples = tables["pod_metrics"].group_by("uid").len().sort("len")["len"].to_list()
    assert samples == [6, 9]


def test_an_hpa_begins_with_its_creation(tmp_path: Path) -> None:
    items = [*cluster()[:3], hpa("web", "web", START_MS + 90_000)]
    _, tables = imported(tmp_path, {}, rows(POD), items)
    assert tables["hpas"]["valid_from"].dt.timestamp("ms").to_list() == [START_MS + 90_000]
    late = [*cluster()[:3], hpa("web", "web", START_MS + 900_000), hpa("no", "none", START_MS)]
    (tmp_path / "two").mkdir()
    result, _ = imported(tmp_path / "two", {}, rows(POD), late)
    assert any("1 HPA created after the table's last row" in t for t in result.warnings)
    assert any("1 of 2 HPAs not used" in text for text in result.warnings)


def test_what_the_objects_say_beside_the_spec_is_kept(tmp_path: Path) -> None:
    spec = spec_of()
    spread = {"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1}
    spec["topologySpreadConstraints"] = [spread]
    scaled = hpa("web-cpu", "web", START_MS - 1000)
    scaled["metadata"]["ownerReferences"] = [
        {"kind": "Other", "name": "first"},
        {"kind": "ScaledObject", "name": "web", "controller": True},
    ]
    limits = {"minAvailable": 1, "selector": {"matchLabels": {"tier": "front"}}}
    nodes = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"zone": name}}}
        for name in "abc"
    ]
    objects = [*cluster(spec)[:3], scaled, {**budget("web"), "spec": limits}, *nodes]
    _, tables = imported(tmp_path, {}, rows(POD, last=3), objects)
    (row,) = tables["hpa_context"].to_dicts()
    assert (row["name"], row["owner"]) == ("web-cpu", "ScaledObject/web")
    assert row["ts"].timestamp() * 1000 == START_MS + 2 * 60_000
    assert json.loads(row["budgets"]) == [{"name": "web", "minAvailable": "1"}]
    assert json.loads(row["spreads"]) == [
        {"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "domains": 3}
    ]


def test_an_hpa_of_the_map_without_any_object_has_no_context(tmp_path: Path) -> None:
    said = {"hpas": {"template": {"max": 5, "cpu": "50%"}}, "columns": {"workload": {"value": "x"}}}
    _, tables = imported(tmp_path, said, rows(POD, last=3), [replica_set("web", spec_of())])
    assert tables["hpas"]["name"].to_list() == ["x"]
    assert "hpa_context" not in tables
