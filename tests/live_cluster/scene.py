"""A namespace of the cluster under the script's hand: its workloads, pods, HPAs, metric levels."""

from __future__ import annotations

import json
import secrets
import ssl
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.live_cluster.cases import (
    APPS,
    CORE,
    CPU_WORTH_MILLI,
    MEMORY_WORTH,
    QUEUE_WORTH,
    RPS_WORTH,
    Case,
    in_version,
)
from tests.live_cluster.server import Json, Server, ServerError

PREFIX: Final = "hpabatch-test-"
REGISTRATIONS: Final = "/apis/apiregistration.k8s.io/v1/apiservices"
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_SUBRESOURCES: Final = {
    "status": {},
    "scale": {
        "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    },
}  # fmt: skip
WIDGET: Final[Json] = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.hpabatch.example"},
    "spec": {
        "group": "hpabatch.example", "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
        "versions": [{
            "name": "v1", "served": True, "storage": True, "subresources": _SUBRESOURCES,
            "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": True,
            }},
        }],
    },
}  # fmt: skip


class Stub:
    """The metrics server whose answers are set."""

    def __init__(self, port: int, authority: Path) -> None:
        self.url = f"https://127.0.0.1:{port}/control"
        self.context = ssl.create_default_context(cafile=str(authority))
        self.said: Json = {}

    def put(self, levels: Json) -> None:
        """Set some levels; the others stay."""
        for key, value in levels.items():
            if isinstance(value, dict):
                self.said.setdefault(key, {}).update(value)
            else:
                self.said[key] = value
        self._send(levels)

    def again(self) -> None:
        """Tell a stub that was started anew what the one before knew."""
        self._send(self.said)

    def _send(self, levels: Json) -> None:
        request = urllib.request.Request(self.url, json.dumps(levels).encode(), method="PUT")
        with urllib.request.urlopen(request, context=self.context, timeout=10) as answer:
            answer.read()


@dataclass
class Scene:
    """What the script acts on; `worth` of load is in pods' worth (see `cases`)."""

    server: Server
    namespace: str
    cases: Sequence[Case]
    stub: Stub | None
    kept: dict[str, Json] = field(default_factory=dict)

    def make(self) -> None:
        """Make all workloads, wait for their pods, then make the HPAs."""
        versions = self._versions()
        for case in self.cases:
            for collection, body in case.objects:
                self.server.create(self._here(collection), body)
                self._write_status(collection, body)
        if self.stub is not None:
            self.server.until(self._all_run, "all pods run")
        for number, case in enumerate(self.cases):
            version = "v1" if case.name == "ramp" else versions[number % len(versions)]
            path = f"/apis/autoscaling/{version}/namespaces/{self.namespace}"
            body = in_version(case.hpa, version)
            self.server.create(f"{path}/horizontalpodautoscalers", body)

    def _here(self, collection: str) -> str:
        return collection.replace("NS", self.namespace)

    def _write_status(self, collection: str, body: Json) -> None:
        if "status" in body:
            path = f"{self._here(collection)}/{body['metadata']['name']}/status"
            self.server.patch(path, {"status": body["status"]})

    def _versions(self) -> list[str]:
        """Return the versions with every field that the API serves."""
        served = [one["version"] for one in self.server.get("/apis/autoscaling")["versions"]]
        return [version for version in ("v2", "v2beta2") if version in served]

    def _all_run(self) -> bool:
        bodies = [body["spec"] for case in self.cases for _, body in case.objects]
        sizes = [int(spec["replicas"]) for spec in bodies if "template" in spec]
        bare = [spec for spec in bodies if "containers" in spec]
        running = [pod for pod in self.pods() if pod["status"]["phase"] == "Running"]
        return len(running) == sum(sizes) + len(bare)

    # -- levels --------------------------------------------------------------------------------

    def levels(
        self,
        cpu: Mapping[str, float] | None = None,
        rps: Mapping[str, float] | None = None,
        external: Mapping[str, float] | None = None,
        memory: float | None = None,
    ) -> None:
        """Set loads all at once: `cpu` and `rps` of apps (`_` in a name is `-`), in pods' worth.

        External metrics are as they are, but `queue` is in pods' worth; `memory` is every pod's.
        """
        said: Json = {
            "cpu_total_m": {
                self._app(app): round(load * CPU_WORTH_MILLI) for app, load in (cpu or {}).items()
            },
            "custom": {
                f"{self._app(app)}/rps": float(load * RPS_WORTH)
                for app, load in (rps or {}).items()
            },
            "external": {
                name: round(load * QUEUE_WORTH) if name == "queue" else load
                for name, load in (external or {}).items()
            },
        }
        if memory is not None:
            said["mem_pod"] = int(memory * MEMORY_WORTH)
        assert self.stub is not None
        self.stub.put(said)

    def _app(self, name: str) -> str:
        return f"{self.namespace}/{name.replace('_', '-')}"

    def metrics_api(self, name: str, on: bool) -> None:
        """Take a metrics API away, or put it back; `name` such as v1beta1.metrics.k8s.io."""
        path = f"{REGISTRATIONS}/{name}"
        if on:
            self.server.create(REGISTRATIONS, self.kept.pop(name))
            self.server.until(lambda: self._available(path), f"{name} is available")
        else:
            found = self.server.get(path)
            keep = {key: found[key] for key in ("apiVersion", "kind", "spec")}
            self.kept[name] = {**keep, "metadata": {"name": name}}
            self.server.delete(path)

    def _available(self, path: str) -> bool:
        told = self.server.get(path).get("status", {}).get("conditions", [])
        return any(one["type"] == "Available" and one["status"] == "True" for one in told)

    # -- objects -------------------------------------------------------------------------------

    def pods(self, app: str = "") -> list[Json]:
        """Return the pods of an app that are not being deleted, oldest name first."""
        query = {"labelSelector": f"app={app}"} if app else {}
        found = self.server.get(f"{CORE}/namespaces/{self.namespace}/pods", **query)["items"]
        alive = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
        return sorted(alive, key=lambda pod: str(pod["metadata"]["name"]))

    def set_pod(self, pod: Json, phase: str, ready: bool = True) -> None:
        """Set a pod's phase and readiness."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        conditions = [
            {"type": name, "status": str(ready), "lastTransitionTime": now}
            for name in ("Ready", "ContainersReady")
        ]
        path = f"{CORE}/namespaces/{self.namespace}/pods/{pod['metadata']['name']}/status"
        status = {"phase": phase, "conditions": conditions}
        self.server.patch(path, {"status": status}, "strategic")

    def edit(self, name: str, spec: Json) -> None:
        """Change fields of an HPA's spec."""
        self.server.patch(self._hpa(name), {"spec": spec})

    def _hpa(self, name: str) -> str:
        version = self._versions()[0]
        path = f"/apis/autoscaling/{version}/namespaces/{self.namespace}"
        return f"{path}/horizontalpodautoscalers/{name}"

    def resize(self, name: str, replicas: int) -> None:
        """Scale a Deployment by hand."""
        path = f"{APPS}/namespaces/{self.namespace}/deployments/{name}/scale"
        self.server.patch(path, {"spec": {"replicas": replicas}})

    def remove(self, name: str) -> None:
        """Delete a Deployment with its ReplicaSets and pods (there is no garbage collector)."""
        here = f"{APPS}/namespaces/{self.namespace}"
        self.server.delete(f"{here}/deployments/{name}")
        selector = {"labelSelector": f"app={name}"}
        self.server.delete(f"{here}/replicasets", **selector)
        self.server.delete(f"{CORE}/namespaces/{self.namespace}/pods", **selector)

    def remake(self, name: str) -> None:
        """Make the objects of a case again."""
        [case] = [one for one in self.cases if one.name == name]
        for collection, body in case.objects:
            self.server.create(self._here(collection), body)


@contextmanager
def scene(server: Server, cases: Sequence[Case], stub: Stub | None, own: bool) -> Iterator[Scene]:
    """Make a namespace, and remove it whatever happens; `own`: the cluster is ours alone."""
    name = PREFIX + secrets.token_hex(3)
    server.create(f"{CORE}/namespaces", {"metadata": {"name": name}})
    if own:
        server.create(DEFINITIONS, WIDGET)
        path = "/apis/hpabatch.example/v1"
        server.until(lambda: server.there(path), "the kind Widget is served")
    found = Scene(server, name, cases, stub)
    try:
        yield found
    finally:
        for registration in list(found.kept):
            with suppress(ServerError, AssertionError):
                found.metrics_api(registration, on=True)
        server.delete(f"{CORE}/namespaces/{name}")
        if own:
            server.delete(f"{DEFINITIONS}/{WIDGET['metadata']['name']}")
        path = f"{CORE}/namespaces/{name}"
        server.until(lambda: not server.there(path), f"the namespace {name} is removed", 120)
