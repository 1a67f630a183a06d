"""Columns that name a row: parts of their names, pods beside places, and objects' names."""

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


def test_objects_say_what_columns_are_that_no_name_says(tmp_path: Path) -> None:
    pairs = (("batch", "mailer"), ("shop", "web"), ("shop", "api"))
    objects = "".join(OBJECTS.replace("NAME", n).replace("SPACE", s) for s, n in pairs)
    head, ends = "area,tag,thing,size,cpu", [f"{s},{k}-x,{n},2,0.4" for k, (s, n) in
                                             enumerate(pairs)]  # fmt: skip
    found = columns(tmp_path, head, *ends, objects=objects)
    assert (found["namespace"], found["workload"]) == ("area", "thing")
    assert columns(tmp_path, head, *ends)["namespace"] == {"value": "default"}


def test_objects_of_another_cluster_are_told_with_what_both_have(tmp_path: Path) -> None:
    objects = "".join(OBJECTS.replace("NAME", n).replace("SPACE", "shpo") for n in ("cart", "mail"))
    ends = [f"shop,{pod},0.2" for pod in PODS]
    with pytest.raises(RefusedError) as error:
        columns(tmp_path, "namespace,pod,cpu", *ends, objects=objects)
    told = str(error.value)
    assert "the table has shop/cart, shop/web, the objects have shpo/cart, shpo/mail" in told
    assert "(shop/cart; did you mean shpo/cart?); give the objects of the cluster" in told
    objects = OBJECTS.replace("NAME", "crat").replace("SPACE", "shop")
    with pytest.raises(RefusedError, match=r"cart, web, the objects have crat \(cart; did you"):
        columns(tmp_path, "pod,cpu", *(f"{pod},0.2" for pod in PODS), objects=objects)


def test_sizes_that_are_means_over_time_are_rounded(tmp_path: Path) -> None:
    columns(tmp_path, "ns,deployment,avg_replicas,cpu_sum", "shop,web,2.4,0.4", "shop,web,3,0.4")
    text = propose_map([str(tmp_path / "a.csv")]).text
    assert "# assumed: the sizes are means over time, which are rounded" in text
    assert "rounding: {replicas: nearest}" in text
    (tmp_path / "map.yaml").write_text(text)
    result = import_table([str(tmp_path / "a.csv")], tmp_path / "map.yaml", None)
    assert (result.dropped, result.workloads["replicas_max"].to_list()) == ({}, [3])
