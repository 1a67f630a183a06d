"""`hpabatch live --apply` as a process before a real API server, and what it acts on."""

from __future__ import annotations

import json
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.ports import hold_port, port_of
from tests.real.api_writes import Json, Writer

ROOT = Path(__file__).parents[2]
OURS = "ours"
LEASE_S = 6
TAKEOVER_S = LEASE_S * 25 / 24 + 0.5 + 5
"""Duration of the lease, a 24th of it and a pass, with 5 s for a busy machine.

Twice a takeover is longer.
"""
WAIT_S = 120.0  # for what comes in a second or two where nothing else runs
FLAGS = {
    "downscale-stabilization": "4s",
    "cpu-initialization-period": "1s",
    "initial-readiness-delay": "1s",
}
KCM_ARGS = " ".join(
    [
        *(f"--horizontal-pod-autoscaler-{name}={value}" for name, value in FLAGS.items()),
        "--horizontal-pod-autoscaler-sync-period=1s --kube-api-qps=1000 --kube-api-burst=1000",
    ]
)
CPU: Json = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
}


class Applying:
    """A running instance."""

    def __init__(
        self, folder: Path, kubeconfig: Path, *more: str, every: str = "500ms",
        store: Path | None = None,
    ) -> None:  # fmt: skip
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._held = hold_port()
        port = port_of(self._held)
        self._metrics = f"http://127.0.0.1:{port}/metrics"
        self.log = folder / "log.jsonl"
        command = [
            sys.executable, "-m", "tests.real.apply_process", "" if store is None else str(store),
            "live", "--apply", "--kubeconfig", str(kubeconfig), "--log-format", "json",
            "--every", every, "--stateless",
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

    @property
    def lines(self) -> list[Json]:
        """All that it said; the last line may not yet be whole."""
        whole, _, _ = (self.folder / "out").read_text().rpartition("\n")
        return [json.loads(line) for line in whole.splitlines()]

    def since(self, count: int, *events: str) -> list[Json]:
        """Return what it said after its first `count` lines, of some events."""
        return [line for line in self.lines[count:] if line["event"] in events]

    def problems(self) -> dict[str, str]:
        """Return what is wrong now, as its lines tell."""
        found: dict[str, str] = {}
        for line in self.lines:
            if line["event"] == "problem":
                found[line["about"]] = line["text"]
            elif line["event"] == "fine":
                del found[line["about"]]
        return found

    def metrics(self) -> dict[str, float]:
        """Return its metrics, by name and labels as they are written."""
        with urllib.request.urlopen(self._metrics, timeout=20) as answer:
            text: str = answer.read().decode()
        rows = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, value in rows}

    def desired(self) -> dict[str, int]:
        """Return what it last decided, by namespace/name."""
        return {
            f"{line['namespace']}/{line['hpa']}": line["desired"]
            for line in self.lines if "hpa" in line
        }  # fmt: skip

    def until(self, holds: Callable[[], Any], seconds: float = WAIT_S) -> None:
        end = time.monotonic() + seconds
        while not holds():
            assert self.process.poll() is None, (self.folder / "err").read_text()
            assert time.monotonic() < end, self._told()
            time.sleep(0.05)

    def _told(self) -> str:
        """Return what it said last, for whoever waited in vain."""
        rows = [
            f"{one['ts'][14:23]} {one['event']} {one.get('about') or one.get('hpa', '')} "
            f"{one.get('desired', '')} {one.get('text') or one.get('why')}"[:160]
            for one in self.lines[-20:]
        ]
        return "\n".join([str(self.folder), *rows])

    def end(self) -> tuple[int, float]:
        """Ask it to end; return its exit code, and how long that took (s)."""
        begun = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        return code, time.monotonic() - begun

    def kill(self) -> None:
        """End it if it still runs, and give its port back."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._held.close()


Start = Callable[..., Applying]
"""Starts an instance with further arguments."""


class Ground:
    """Makes and removes what HPAs look at, as the administrator; with hpabatch's own namespace."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self._stub = f"https://127.0.0.1:{writer.stub_port}/control"
        self._tls = ssl.create_default_context(cafile=str(writer.folder / "pki/ca.crt"))

    def levels(self, **levels: object) -> None:
        """Tell the metrics server what to say."""
        request = urllib.request.Request(self._stub, json.dumps(levels).encode(), method="PUT")
        urllib.request.urlopen(request, context=self._tls, timeout=10).close()

    def app(self, namespace: str, name: str, metric: Json = CPU, replicas: int = 2) -> None:
        """Make a Deployment and its HPA."""
        self.deployment(namespace, name, replicas)
        self.hpa(namespace, name, metric)

    def deployment(self, namespace: str, name: str, replicas: int = 2) -> None:
        labels = {"app": name}
        containers = [
            {"name": "c", "image": "x", "resources": {"requests": {"cpu": "100m", "memory": "1Mi"}}}
        ]
        body = {
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
            },
        }  # fmt: skip
        self.writer.send("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", body)

    def hpa(self, namespace: str, name: str, metric: Json = CPU, **more: object) -> None:
        spec = {"minReplicas": 1, "maxReplicas": 10, "metrics": [metric]}
        self.hpa_of(namespace, name, spec, **more)

    def hpa_of(self, namespace: str, name: str, spec: Json, **more: object) -> None:
        """Make an HPA of a Deployment with a spec."""
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
        spec = {"scaleTargetRef": target, **spec}
        body = {"metadata": {"name": name, **more}, "spec": spec}
        self.writer.send("POST", self.hpas(namespace), body)

    @staticmethod
    def hpas(namespace: str) -> str:
        return f"/apis/autoscaling/v2beta2/namespaces/{namespace}/horizontalpodautoscalers"

    def remove_hpa(self, namespace: str, name: str) -> None:
        self.writer.send("DELETE", f"{self.hpas(namespace)}/{name}")

    def remove_deployment(self, namespace: str, name: str) -> None:
        """Delete it with its ReplicaSets and pods, which no garbage collector does here.

        Controllers that have not yet seen that the owner is gone may make them anew: until a second
        has passed without any, they are deleted again.
        """
        self.writer.send("DELETE", f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}")
        owned = [
            f"/apis/apps/v1/namespaces/{namespace}/replicasets?labelSelector=app%3D{name}",
            f"/api/v1/namespaces/{namespace}/pods?labelSelector=app%3D{name}",
        ]
        end, none_since = time.monotonic() + WAIT_S, time.monotonic()
        while time.monotonic() < none_since + 1:
            assert time.monotonic() < end, f"{name} is made again and again"
            for collection in owned:
                if self.writer.send("GET", collection)["items"]:
                    self.writer.send("DELETE", collection)
                    none_since = time.monotonic()
            time.sleep(0.1)

    def desired(self) -> dict[str, int]:
        """Return what the cluster's controller wrote, by namespace/name."""
        found = self.writer.send("GET", "/apis/autoscaling/v1/horizontalpodautoscalers")["items"]
        return {
            f"{one['metadata']['namespace']}/{one['metadata']['name']}": one.get("status", {}).get(
                "desiredReplicas", -1
            )
            for one in found
        }

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
