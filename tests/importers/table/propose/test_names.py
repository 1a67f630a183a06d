"""Proposed maps: columns that name a row, units of cpu and memory, long tables known by values."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from hpabatch.errors import RefusedError
from hpabatch.importers.table.propose.run import propose_map
from tests.importers.tables import import_table

PODS = ("cart-7d4b9c6f5-x2x9k", "cart-7d4b9c6f5-bbq7t", "web-5f6585d649-fnmft")
OBJECTS = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME, namespace: SPACE, uid: d}
spec:
  selector: {matchLabels: {app: x}}
  template: {metadata: {labels: {app: x}}, spec: {containers: [{name: app, image: x}]}}
---
"""


def columns(folder: Path, head: str, *ends: str, objects: str = "") -> dict[str, object]:
    """Return `columns` of the map of a table with those ends of rows at each of ten minutes."""
    rows = [f"2026-10-07T10:{m:02}:00Z,{end}" for m in range(10) for end in ends]
    (folder / "a.csv").write_text("\n".join([f"time,{head}", *rows, ""]))
    beside = []
    if objects:
        (folder / "objects.yaml").write_text(objects)
        beside = [str(folder / "objects.yaml")]
    text = propose_map([str(folder / "a.csv")], beside).text
    found = yaml.safe_load(text)
    return {**found["columns"], "level": found["level"]}


@pytest.mark.parametrize("place", ["node", "instance", "job", "host", "endpoint", "app", "service"])
def test_the_names_of_pods_say_their_workloads_whatever_else_there_is(
    tmp_path: Path, place: str
) -> None:
    found = columns(tmp_path, f"pod,{place},cpu", *(f"{pod},x-1,0.2" for pod in PODS))
    assert found["workload"]["column"] == "pod"  # type: ignore[index]


def test_a_deployment_beside_pods_is_their_workload(tmp_path: Path) -> None:
    found = columns(tmp_path, "pod,kube_deployment,cpu", *(f"{pod},cart,0.2" for pod in PODS))
    assert found["workload"] == "kube_deployment"
    daemons = ("agent-x2x9k", "agent-bbq7t")
    assert columns(tmp_path, "pod,cpu", *(f"{p},0.2" for p in daemons))["kind"] == {
        "value": "DaemonSet"
    }
    assert "kind" not in columns(
        tmp_path, "pod,deployment,cpu", *(f"{p},agent,0.2" for p in daemons)
    )


def test_places_are_workloads_only_where_nothing_else_is(tmp_path: Path) -> None:
    found = columns(tmp_path, "shop,node,cpu", "a,n-1,0.2", "b,n-2,0.3", "b,n-3,0.3")
    assert found["workload"] == "shop"
    assert columns(tmp_path, "node,cpu", "n-1,0.2", "n-2,0.3")["workload"] == "node"


@pytest.mark.parametrize("name", ["k8s_ns", "team_ns", "src.namespace", "nsName", "kube-ns"])
def test_parts_of_names_say_the_namespace(tmp_path: Path, name: str) -> None:
    found = columns(tmp_path, f"{name},pod,cpu", *(f"shop,{pod},0.2" for pod in PODS))
    assert found["namespace"] == name


@pytest.mark.parametrize("name", ["namespace_uid", "ns_phase", "answers"])
def test_other_parts_say_none(tmp_path: Path, name: str) -> None:
    found = columns(tmp_path, f"{name},pod,cpu", *(f"shop,{pod},0.2" for pod in PODS))
    assert found["namespace"] == {"value": "default"}


@pytest.mark.parametrize("name", ["replicas_available", "statusReplicas", "kube_podcount"])
def test_parts_of_names_say_the_size(tmp_path: Path, name: str) -> None:
    found = columns(tmp_path, f"k8s_deployment,max_replicas,{name},cpu_sum", "web,9,2,0.4")
    assert (found["level"], found["replicas"]) == ("workload", name)
    assert found["workload"] == "k8s_deployment"


def test_a_bound_or_a_share_is_no_size(tmp_path: Path) -> None:
    found = columns(tmp_path, "service,max_replicas,cpu_per_replica", "web,9,0.4", "api,8,0.4")
    assert found["level"] == "pod"


def test_objects_of_another_cluster_are_told(tmp_path: Path) -> None:
    objects = "".join(OBJECTS.replace("NAME", n).replace("SPACE", "shpo") for n in ("cart", "mail"))
    ends = [f"shop,{pod},0.2" for pod in PODS]
    with pytest.raises(RefusedError) as error:
        columns(tmp_path, "namespace,pod,cpu", *ends, objects=objects)
    told = str(error.value)
    assert "give the objects of the cluster that the table is of, or state columns" in told


def test_sizes_that_are_means_over_time_are_rounded(tmp_path: Path) -> None:
    columns(tmp_path, "ns,deployment,avg_replicas,cpu_sum", "shop,web,2.4,0.4", "shop,web,3,0.4")
    text = propose_map([str(tmp_path / "a.csv")]).text
    assert "# assumed: the sizes are means over time, which are rounded" in text
    assert "rounding: {replicas: nearest}" in text
    (tmp_path / "map.yaml").write_text(text)
    result = import_table([str(tmp_path / "a.csv")], tmp_path / "map.yaml", None)
    assert (result.dropped, result.workloads["replicas_max"].to_list()) == ({}, [3])


def proposed(folder: Path, name: str, value: float) -> str:
    """Return the map of a table with one pod, comments on one line."""
    rows = [f"2026-10-07T10:{m:02}:00Z,web-0,{value * (1 + m / 100):g}" for m in range(20)]
    (folder / "a.csv").write_text("\n".join([f"time,pod,{name}", *rows, ""]))
    return propose_map([str(folder / "a.csv")]).text.replace("\n  #   ", " ")


@pytest.mark.parametrize(
    "name",
    ["pod:cpu_usage:rate1m", "namespace_pod:cpu_usage:rate5m", "pod_cpu_usage_5m", "cpu:avg30s"],
)
def test_the_window_of_a_rate_is_no_unit(tmp_path: Path, name: str) -> None:
    text = proposed(tmp_path, name, 0.2235)
    assert "unit: cores}" in text
    assert "assumed: cores, because" in text


@pytest.mark.parametrize(
    ("name", "value", "unit"),
    [("cpu_mc", 223.5, "millicores"), ("cpu_m", 4.5, "millicores"), ("cpu_cores", 120, "cores")],
)
def test_names_that_the_values_allow(tmp_path: Path, name: str, value: float, unit: str) -> None:
    text = proposed(tmp_path, name, value)
    assert f"{unit}, by the column's name" in text
    assert f"unit: {unit}}}" in text


WORKLOADS = (("shop", "web", 2, 0.4), ("shop", "api", 3, 0.9), ("pay", "ledger", 1, 0.2))


def long_map(folder: Path, head: str, names: tuple[str, str, str]) -> dict[str, object]:
    """Return the map of a table with rows of sizes, cores and bytes."""
    rows = [
        f"2026-10-07T10:{m:02}:00Z,{space},{app},{name},{value}"
        for m in range(10)
        for space, app, size, cpu in WORKLOADS
        for name, value in zip(names, (size, cpu, size << 28), strict=True)
    ]
    (folder / "a.csv").write_text("\n".join([head, *rows, ""]))
    found: dict[str, object] = yaml.safe_load(propose_map([str(folder / "a.csv")]).text)
    return found


@pytest.mark.parametrize("metric", ["metric", "what", "kpi_label"])
@pytest.mark.parametrize("value", ["val", "value", "reading", "v"])
def test_a_long_table_is_known_by_its_values(tmp_path: Path, metric: str, value: str) -> None:
    names = ("replicas_available", "cpu_cores_total", "mem_bytes_total")
    found = long_map(tmp_path, f"timestamp,team_ns,app,{metric},{value}", names)
    assert found["level"] == "workload"
    assert found["pivot"] == {"name": metric, "value": value}
    columns = found["columns"]
    assert isinstance(columns, dict)
    assert (columns["namespace"], columns["workload"]) == ("team_ns", "app")
    assert columns["replicas"] == "replicas_available"
    assert columns["cpu"] == {"column": "cpu_cores_total", "unit": "cores", "of": "sum"}
    assert columns["memory"] == {"column": "mem_bytes_total", "unit": "bytes", "of": "sum"}


def test_workloads_that_are_called_as_measures_are_no_metrics(tmp_path: Path) -> None:
    rows = [
        f"2026-10-07T10:{m:02}:00Z,{name},0.4"
        for m in range(10)
        for name in ("cpu-hog", "web", "api")
    ]
    (tmp_path / "a.csv").write_text("\n".join(["time,app,cpu", *rows, ""]))
    assert "pivot" not in propose_map([str(tmp_path / "a.csv")]).text
