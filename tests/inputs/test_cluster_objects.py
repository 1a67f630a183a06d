"""Objects of a cluster from files: forms, old versions, owners, and what is wrong with them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from hpabatch.errors import UsageError
from hpabatch.importers.common.objects import PodRequests
from hpabatch.inputs.cluster_objects import ClusterObjects, read_objects
from tests.importers.cluster_made import (
    HASH,
    START_MS,
    Json,
    budget,
    container,
    hpa,
    old_hpa,
    pod,
    replica_set,
    spec_of,
    stamp,
    workload,
    write_objects,
)


def cluster() -> list[Json]:
    spec = spec_of()
    return [
        workload("web", 2, spec),
        replica_set("web", spec),
        workload("db", 1, spec, kind="StatefulSet"),
        workload("agent", 1, spec, kind="DaemonSet"),
        pod(f"web-{HASH}-ccccc", f"ReplicaSet/web-{HASH}", spec, START_MS),
        hpa("web", "web", START_MS),
        old_hpa("db", "db", START_MS, "StatefulSet"),
        budget("web"),
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}},
    ]


def write(folder: Path, text: str | bytes, name: str = "objects.yaml") -> str:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def as_list(items: list[Json]) -> str:
    return yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items})


def as_typed_lists(items: list[Json]) -> str:
    """Return a list per kind, whose items name neither kind nor version, as an API answers."""
    kinds: dict[tuple[str, str], list[Json]] = {}
    for item in items:
        bare = {key: value for key, value in item.items() if key not in ("kind", "apiVersion")}
        kinds.setdefault((item["kind"], item["apiVersion"]), []).append(bare)
    return "---\n".join(
        yaml.safe_dump({"kind": f"{kind}List", "apiVersion": version, "items": bare})
        for (kind, version), bare in kinds.items()
    )


FORMS: dict[str, Callable[[list[Json]], str | bytes]] = {
    "a list": as_list,
    "a stream": lambda items: "---\n".join(yaml.safe_dump(item) for item in items),
    "lists by kind": as_typed_lists,
    "JSON": lambda items: json.dumps({"kind": "List", "apiVersion": "v1", "items": items}),
    "a JSON stream": lambda items: "\n".join(json.dumps(item) for item in items),
    "UTF-16": lambda items: ("\ufeff" + as_list(items)).encode("utf-16-le"),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_objects(tmp_path: Path, form: str) -> None:
    found = read_objects([write(tmp_path, FORMS[form](cluster()))])
    plain = read_objects([write_objects(tmp_path, cluster(), "plain.yaml")])
    assert found.hpas == plain.hpas
    assert found.workloads == plain.workloads
    assert found.pods == plain.pods
    assert found.skipped == {"Service": 1}
    assert found.budgets == plain.budgets
    assert [one.name for one in found.budgets.values()] == ["web"]
    assert found.notes() == []


def test_a_folder_is_read_as_its_manifests(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    for place, number in enumerate(cluster()):
        (tmp_path / "base" / f"{place}.yaml").write_text(yaml.safe_dump(number))
    (tmp_path / "notes.txt").write_text("{")
    whole = read_objects([write_objects(tmp_path, cluster())])
    (tmp_path / "objects.yaml").unlink(missing_ok=True)
    assert read_objects([tmp_path]).workloads == whole.workloads


def test_joined_manifests_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "joined.yaml"
    file.write_text("".join(yaml.safe_dump(thing) for thing in cluster()[:2]))
    with pytest.raises(UsageError, match=r"apiVersion stands twice: documents are separated by"):
        read_objects([file])


def test_several_files_join_and_the_last_of_different_ones_counts(tmp_path: Path) -> None:
    first = write_objects(tmp_path, cluster(), "one.yaml")
    second = write_objects(
        tmp_path, [hpa("web", "web", START_MS, most=5), *cluster()[:1]], "two.yaml"
    )
    found = read_objects([first, second])
    assert found.hpas["shop", "web"].spec.max_replicas == 5
    assert read_objects([first]).digest != found.digest


OLD = [("Deployment", "extensions/v1beta1"), ("Deployment", "apps/v1beta1"),
       ("StatefulSet", "apps/v1beta2"), ("DaemonSet", "extensions/v1beta1"),
       ("ReplicaSet", "extensions/v1beta1")]  # fmt: skip


@pytest.mark.parametrize(("kind", "version"), OLD)
def test_old_versions_of_workloads(tmp_path: Path, kind: str, version: str) -> None:
    document = workload("old", 3, spec_of(), kind=kind, version=version)
    del document["spec"]["selector"]
    found = read_objects([write_objects(tmp_path, [document])]).workloads["shop", kind, "old"]
    if kind == "DaemonSet":
        assert found.scale is None
    else:
        assert found.scale is not None
        assert (found.scale.replicas, found.scale.selector) == (3, "app=old,tier=front")


def objects_of(tmp_path: Path, items: list[Json]) -> ClusterObjects:
    return read_objects([write_objects(tmp_path, items)])


OWNERS: list[tuple[str, tuple[str, str] | None]] = [
    (f"web-{HASH}-ccccc", ("Deployment", "web")),
    (f"web-{HASH}-zzzzz", ("Deployment", "web")),
    ("web-5f6d8b7c9-zzzzz", ("Deployment", "web")),
    ("db-12", ("StatefulSet", "db")),
    ("db-012", None),
    ("agent-x2x9k", ("DaemonSet", "agent")),
    ("web-aaaaa", None),
    ("other-5f6d8b7c9-zzzzz", None),
    ("bare", None),
]


@pytest.mark.parametrize(("name", "workload_of"), OWNERS)
def test_the_workload_of_a_pod(
    tmp_path: Path, name: str, workload_of: tuple[str, str] | None
) -> None:
    bare = pod("bare", "ReplicaSet/none", spec_of(), START_MS)
    del bare["metadata"]["ownerReferences"]
    found = objects_of(tmp_path, [*cluster(), bare])
    assert found.workload_of("shop", name) == workload_of
    assert found.workload_of("elsewhere", name) is None


def test_a_pod_whose_replicaset_is_not_given_is_known_by_its_hash(tmp_path: Path) -> None:
    items = [item for item in cluster() if item["kind"] == "Pod"]
    found = objects_of(tmp_path, items)
    assert found.workload_of("shop", f"web-{HASH}-ccccc") == ("Deployment", "web")


@pytest.mark.parametrize("with_set", [True, False])
def test_pods_of_a_rollout_are_its_own(tmp_path: Path, with_set: bool) -> None:
    one = pod(f"shop-{HASH}-ccccc", f"ReplicaSet/shop-{HASH}", spec_of(), START_MS)
    labels = one["metadata"]["labels"]
    labels["rollouts-pod-template-hash"] = labels.pop("pod-template-hash")
    owned = replica_set("shop", spec_of())
    owned["metadata"]["ownerReferences"][0] |= {"kind": "Rollout"}
    found = objects_of(tmp_path, [one, owned] if with_set else [one])
    assert found.workload_of("shop", one["metadata"]["name"]) == ("Rollout", "shop")


def test_requests_of_a_template_are_completed_like_those_of_its_pods(tmp_path: Path) -> None:
    injected = spec_of()
    injected["containers"].append(container("mesh", "10m"))
    items = [
        *cluster(),
        pod("web-5f6d8b7c9-zzzzz", f"ReplicaSet/web-{HASH}", injected, START_MS + 1000),
    ]
    requests = PodRequests(objects_of(tmp_path, items))
    rows = {row.container: row for row in requests.of_workload(("shop", "Deployment", "web"))}
    # A limit without a request is one, too; the mesh's container is in the newest pod alone.
    assert [(name, row.kind, row.cpu_milli) for name, row in rows.items()] == [
        ("web", "app", 250), ("proxy", "app", 100), ("migrate", "init", 1000),
        ("log", "sidecar", 50), ("mesh", "app", 10),
    ]  # fmt: skip
    assert [r.container for r in requests.of_pod(f"uid-web-{HASH}-ccccc", ("", "", ""))] == [
        "web", "proxy", "migrate", "log",
    ]  # fmt: skip
    assert requests.of_workload(("shop", "Deployment", "none")) == ()


def rollout(name: str, size: Any, *, kind: str = "Rollout", **spec: Any) -> Json:
    """Return a custom resource as Argo Rollouts has it, without a template."""
    status = {"replicas": size, "selector": f"app={name},tier=front"}
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"replicas": size, **spec},
        "status": status,
    }


def rollout_set(name: str, cpu: str, hash: str, created_ms: int) -> Json:
    """Return the ReplicaSet of a Rollout."""
    owned = replica_set(name, spec_of(cpu), hash)
    owned["metadata"]["ownerReferences"][0] |= {"kind": "Rollout"}
    owned["metadata"]["creationTimestamp"] = stamp(created_ms)
    return owned


TEMPLATE = {"metadata": {"labels": {"app": "own"}}, "spec": spec_of("300m")}
SETS = [rollout_set("web", "100m", "7d4b9c6f5", START_MS + 9000),
        rollout_set("web", "500m", "5f6d8b7c9", START_MS)]  # fmt: skip
PODS = [pod(f"web-{HASH}-ccccc", f"ReplicaSet/web-{HASH}", spec_of("200m"), START_MS)]
LABELS = PODS[0]["metadata"]["labels"]
LABELS["rollouts-pod-template-hash"] = LABELS.pop("pod-template-hash")
REF: Json = {"workloadRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "base"}}
BASE = workload("base", 0, spec_of("700m"))


@pytest.mark.parametrize(
    ("items", "cpu"),
    [
        ([rollout("web", 4, template=TEMPLATE), *SETS], 300),
        ([rollout("web", 4), *SETS, *PODS], 100),
        ([rollout("web", 4, **REF), BASE, *SETS], 100),
        ([rollout("web", 4, **REF), BASE], 700),
        ([rollout("web", 4), *PODS], 200),
        ([*PODS], 200),
        ([rollout("web", "four"), *PODS], 200),
        ([rollout("web", 4)], None),
    ],
)
def test_requests_of_a_rollout_and_its_size(
    tmp_path: Path, items: list[Json], cpu: int | None
) -> None:
    found = objects_of(tmp_path, [*items, hpa("web", "web", START_MS, "Rollout")])
    kind = found.kind_of("shop", "web")
    assert kind == "Rollout"
    assert found.workload_of("shop", "web-5f6d8b7c9-zzzzz") == ("Rollout", "web")
    rows = {row.container: row for row in PodRequests(found).of_workload(("shop", kind, "web"))}
    assert (rows["web"].cpu_milli if rows else None) == cpu
    known = found.workloads.get(("shop", "Rollout", "web"))
    if known is None:
        assert len(found.notes()) == 1
        assert found.notes()[0].startswith("--objects: Rollout shop/web has an HPA, and is not th")
        assert found.notes()[0].endswith("; add: kubectl get rollout -A -o yaml")
    else:
        assert found.notes() == []
        assert known.scale is not None
        assert (known.scale.replicas, known.scale.selector) == (4, "app=web,tier=front")


def test_a_target_that_makes_its_pods_itself(tmp_path: Path) -> None:
    clones = rollout("db", 2, kind="CloneSet", template=TEMPLATE) | {
        "apiVersion": "apps.kruise.io/v1"
    }
    database = workload("db", 1, spec_of(), kind="StatefulSet")
    found = objects_of(tmp_path, [clones, database])
    assert found.kind_of("shop", "db") == "StatefulSet"
    assert found.workload_of("shop", "db-zzzzz") is None
    found = objects_of(tmp_path, [clones, database, hpa("db", "db", START_MS, "CloneSet")])
    assert found.kind_of("shop", "db") == "CloneSet"
    assert found.workload_of("shop", "db-zzzzz") == ("CloneSet", "db")


def broken_pod() -> Json:
    item = cluster()[4]
    item["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "much"
    return item


WRONG: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "expected HPAs, workloads or pods in"),
    "no list": ("No resources found", "expected objects, got 'No resources found'"),
    "other kinds": ("kind: Service\n", "got 1 Service; write them with: kubectl get"),
    "no YAML": ("kind: [", "objects.yaml: not YAML"),
    "no objects": ("kind: List\nitems: [1]\n", "item 1 of the list is not a mapping"),
    "no name": ("kind: Pod\nmetadata: {}\n", "a pod without a readable name"),
    "a quantity": (yaml.safe_dump(broken_pod()), f"pod shop/web-{HASH}-ccccc"),
    "a number": ("kind: Deployment\napiVersion: apps/v1\nmetadata: {name: a}\nspec: {replicas: x}",
                 "Deployment default/a"),
    "a template": ("kind: Deployment\napiVersion: apps/v1\nmetadata: {name: a}\n"
                   "spec: {template: {spec: {containers: 5}}}", "an object of kind 'Deployment'"),
    "deep": ("[" * 500 + "]" * 500, "refused"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_read_is_told_with_its_place(tmp_path: Path, what: str) -> None:
    text, told = WRONG[what]
    with pytest.raises(UsageError, match="objects") as error:
        read_objects([write(tmp_path, text)])
    assert told in str(error.value)


def test_all_broken_objects_are_told_at_once(tmp_path: Path) -> None:
    other: dict[str, Any] = {**broken_pod(), "metadata": {"name": "b"}}
    with pytest.raises(UsageError, match="there are 2 mistakes") as error:
        read_objects([write_objects(tmp_path, [broken_pod(), other])])
    assert "pod default/b" in str(error.value)


def test_an_hpa_that_no_controller_can_use_is_left_out(tmp_path: Path) -> None:
    document = hpa("web", "web", START_MS)
    document["spec"]["maxReplicas"] = "many"
    found = objects_of(tmp_path, [document, hpa("fine", "web", START_MS)])
    assert list(found.hpas) == [("shop", "fine")]
    assert any("HPA shop/web is left out: spec.maxReplicas" in note for note in found.notes())
