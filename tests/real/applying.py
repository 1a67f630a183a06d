"""`hpabatch live --apply` as a process before a real API server, and what it acts on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.ports import hold_port, port_of
from tests.real.api_writes import Json
from tests.real.live_place import FLAGS, Live, Place

ROOT = Path(__file__).parents[2]
OURS = "ours"
LEASE_S = 6
TAKEOVER_S = LEASE_S * 25 / 24 + 0.5 + 5
"""Duration of the lease, a 24th of it and a pass, with 5 s for a busy machine.

Twice a takeover is longer.
"""


class Applying(Live):
    """A running instance."""

    def __init__(
        self, folder: Path, kubeconfig: Path, *more: str, every: str = "500ms", silence: float = 2,
        skew_s: float = 0, store: Path | None = None,
    ) -> None:  # fmt: skip
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._held = hold_port()
        port = port_of(self._held)
        self._metrics = f"http://127.0.0.1:{port}/metrics"
        self.log = folder / "log.jsonl"
        command = [
            sys.executable, "-m", "tests.real.apply_process", str(silence), str(skew_s),
            "" if store is None else str(store), "live", "--apply", "--kubeconfig",
            str(kubeconfig), "--log-format", "json", "--every", every, "--stateless",
            "--metrics-addr", f"127.0.0.1:{port}", "--own-namespace", OURS,
            "--apply-log", str(self.log), "--lease", f"{LEASE_S}s",
            "--most-removed", "100", "--most-removed-fleet", "100",
            *(f"--flag={name}={value}" for name, value in FLAGS.items()), *more,
        ]  # fmt: skip
        with (folder / "out").open("a") as out, (folder / "err").open("a") as err:
            self.process = subprocess.Popen(command, stdout=out, stderr=err, cwd=ROOT)

    def logged(self, *events: str) -> list[Json]:
        """Return lines of its log of writes."""
        if not self.log.exists():
            return []
        whole, _, _ = self.log.read_text().rpartition("\n")
        lines = [json.loads(line) for line in whole.splitlines()]
        return [line for line in lines if line["event"] in events]

    def sizes(self, hpa: str) -> list[tuple[int, int]]:
        """Return the sizes that it wrote, from and to, in order."""
        done = {line["id"] for line in self.logged("done")}
        will = [line for line in self.logged("will") if line["hpa"] == hpa]
        return [(line["from"], line["to"]) for line in will if line["id"] in done]

    def leads(self) -> bool:
        """Return whether it may write, as its log says."""
        told = self.logged("leads", "follows")
        return bool(told) and told[-1]["event"] == "leads"

    def until_problem(self, about: str, words: str) -> None:
        """Wait until a problem is told."""
        self.until(lambda: words in self.problems().get(about, ""))

    def kill_now(self) -> None:
        """Kill it as a power failure does."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


Start = Callable[..., Applying]
"""Starts an instance with further arguments."""


class Ground(Place):
    """A place with hpabatch's own namespace in it."""

    def prepare(self, *namespaces: str) -> None:
        self.own_namespace(OURS)
        self.namespaces(*namespaces)

    def namespaces(self, *names: str) -> None:
        for name in names:
            self.writer.namespace(name)

    def own_namespace(self, name: str) -> None:
        """Make another namespace for hpabatch's own objects."""
        self.writer.namespace(name)
        self.switch("false", name)

    def switch(self, value: str, namespace: str = OURS) -> None:
        """Set the kill switch."""
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        body = {"metadata": {"name": "hpabatch-apply"}, "data": {"stop": value}}
        if any(one["metadata"]["name"] == "hpabatch-apply" for one in self._items(path)):
            self.writer.send("PATCH", f"{path}/hpabatch-apply", body)
        else:
            self.writer.send("POST", path, body)

    def size(self, namespace: str, name: str) -> int:
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
        return int(self.writer.send("GET", path)["spec"]["replicas"])

    def resize(self, namespace: str, name: str, replicas: int) -> None:
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
        self.writer.send("PATCH", path, {"spec": {"replicas": replicas}})

    def annotate(self, path: str, value: str | None) -> None:
        """Set the annotation that forbids writes."""
        self.writer.send("PATCH", path, {"metadata": {"annotations": {"hpabatch/apply": value}}})

    def document(self, folder: Path, namespace: str, *names: str, **spec: object) -> Path:
        """Write HPA documents of Deployments, and return their folder."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            path = folder / f"{namespace}-{name}.json"
            path.write_text(json.dumps(hpa_document(namespace, name, **spec)))
        return folder

    def own_config_maps(self) -> dict[str, str]:
        """Return the versions of hpabatch's own ConfigMaps, by name."""
        found = self._items(f"/api/v1/namespaces/{OURS}/configmaps")
        return {
            one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in found
        }  # fmt: skip

    def report(self, namespace: str, name: str) -> str:
        """Return what is reported of an own document, "" before it is."""
        reports = f"/api/v1/namespaces/{OURS}/configmaps"
        for one in self._items(reports):
            if one["metadata"]["name"] == f"hpabatch-report-{namespace}":
                return str(one["data"].get(name, ""))
        return ""

    def events(self, namespace: str, name: str) -> list[tuple[str, str]]:
        """Return reason and message of the events about an HPA."""
        path = f"/api/v1/namespaces/{namespace}/events"
        return [
            (one["reason"], one["message"])
            for one in self._items(path)
            if one["involvedObject"]["name"] == name
            and one["involvedObject"]["kind"] == "HorizontalPodAutoscaler"
        ]

    def _items(self, collection: str) -> list[Json]:
        found: list[Json] = self.writer.send("GET", collection)["items"]
        return found


def queue_metric(value: str) -> Json:
    """Return an External metric, which does not depend on pods."""
    target = {"type": "AverageValue", "averageValue": value}
    return {"type": "External", "external": {"metric": {"name": "queue"}, "target": target}}


def hpa_document(namespace: str, name: str, **spec: object) -> Json:
    target = {"type": "Utilization", "averageUtilization": 50}
    whole = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "minReplicas": 1, "maxReplicas": 10,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}], **spec,
    }  # fmt: skip
    return {
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": namespace}, "spec": whole,
    }  # fmt: skip
