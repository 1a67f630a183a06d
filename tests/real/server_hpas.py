"""HPAs in a real API server: how they get there, and how they are read back in every version."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hpabatch.model.objects.decode import KIND, decode_hpa
from hpabatch.model.objects.decode_fields import Problem
from hpabatch.model.objects.hpa import HPA
from tests.real.api_writes import Writer
from tests.real.cluster import Cluster, running_cluster
from tests.real.kubectl_objects import Json

NAMESPACE = "shop"
GATES = "HPAContainerMetrics=true,HPAScaleToZero=true"
VERSIONS = ("v1", "v2beta1", "v2beta2", "v2")


@contextmanager
def hpa_cluster(folder: Path) -> Iterator[Cluster]:
    """Start an API server that takes every kind of metric, with a namespace in it."""
    with running_cluster(folder, f"--feature-gates={GATES}") as running:
        running.kubectl("create", "namespace", NAMESPACE)
        yield running


def as_list(items: Iterable[Json]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)})


def document(name: str, spec: Json, metadata: Json | None = None, version: str = "v2beta2") -> Json:
    return {
        "apiVersion": f"autoscaling/{version}", "kind": KIND,
        "metadata": {"name": name, "namespace": NAMESPACE, **(metadata or {})}, "spec": spec,
    }  # fmt: skip


def write_status(cluster: Cluster, written: Json, status: Json) -> None:
    """Write the status of an HPA that is there; the rest of its document is only looked at."""
    path = f"{collection('v2beta2')}/{written['metadata']['name']}/status"
    Writer(cluster).send("PUT", path, {**written, "status": status})


def stored(cluster: Cluster, version: str = "v2beta2") -> list[Json]:
    """Return the HPAs that are there, in a version."""
    items: list[Json] = Writer(cluster).send("GET", collection(version))["items"]
    return items


def delete_all(cluster: Cluster) -> None:
    """Delete all HPAs by one request; `kubectl delete --all` makes one for each, five a second."""
    Writer(cluster).send("DELETE", collection("v2beta2"))


def collection(version: str) -> str:
    return f"/apis/autoscaling/{version}/namespaces/{NAMESPACE}/horizontalpodautoscalers"


def read_item(item: Json, version: str) -> tuple[HPA, list[Problem]]:
    """Return an item of a list, which does not say what it is, as the HPA that it is."""
    hpa, problems = decode_hpa({"apiVersion": f"autoscaling/{version}", "kind": KIND, **item})
    return hpa, list(problems)
