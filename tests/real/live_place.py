"""Deployments and HPAs in a real cluster, and `hpabatch live` looking at it as a process."""

from __future__ import annotations

import json
import os
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

WAIT_S = 120.0  # for what comes in a second or two where nothing else runs
PROGRAM = Path(sys.executable).with_name("hpabatch")
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
RPS: Json = {
    "type": "Pods",
    "pods": {"metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": "10"}},
}
QUEUE: Json = {
    "type": "External",
    "external": {
        "metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}
    },
}  # fmt: skip


class Place:
    """Makes and removes what HPAs look at, as the administrator."""

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

    def big_pod(self, namespace: str, name: str, size: int) -> None:
        """Make a pod of so many bytes."""
        variables = [{"name": "X", "value": "x" * size}]
        spec = {"containers": [{"name": "c", "image": "x", "env": variables}]}
        body = {"metadata": {"name": name, "labels": {"app": "big"}}, "spec": spec}
        self.writer.send("POST", f"/api/v1/namespaces/{namespace}/pods", body)

    def big_hpa(self, namespace: str, name: str, size: int) -> None:
        """Make an HPA of so many bytes; it has no target."""
        self.hpa(namespace, name, annotations={"note": "x" * size})

    def allow(self, user: str, namespace: str) -> None:
        """Let a user read what the loop needs, in one namespace."""
        group = "rbac.authorization.k8s.io"
        read = ["get", "list", "watch"]
        rules = [
            {"apiGroups": ["autoscaling", "apps", "metrics.k8s.io", ""], "resources": ["*"],
             "verbs": read}
        ]  # fmt: skip
        role = {"metadata": {"name": "reader"}, "rules": rules}
        bound = {
            "metadata": {"name": "reader"},
            "subjects": [{"kind": "User", "name": user, "apiGroup": group}],
            "roleRef": {"kind": "Role", "name": "reader", "apiGroup": group},
        }
        root = f"/apis/{group}/v1/namespaces/{namespace}"
        self.writer.send("POST", f"{root}/roles", role)
        self.writer.send("POST", f"{root}/rolebindings", bound)

    def remake_a_pod(self, namespace: str, app: str) -> None:
        """Delete a pod, and wait until another one stands for it."""
        path = f"/api/v1/namespaces/{namespace}/pods"
        chosen = f"{path}?labelSelector=app%3D{app}"
        names = {pod["metadata"]["name"] for pod in self.writer.send("GET", chosen)["items"]}
        gone = min(names)
        self.writer.delete(namespace, gone)
        end = time.monotonic() + WAIT_S
        while True:
            pods = self.writer.send("GET", chosen)["items"]
            run = {pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] == "Running"}
            if len(run - {gone}) == len(names):
                return
            assert time.monotonic() < end, run
            time.sleep(0.1)

    def count(self, collection: str) -> int:
        """Return how many objects there are."""
        return len(self.writer.send("GET", collection)["items"])

    def until(self, desired: dict[str, int]) -> None:
        """Wait until the cluster's controller has written that, and no pod comes or goes."""
        end = time.monotonic() + WAIT_S
        while self.desired() != desired or not self._is_settled(desired):
            assert time.monotonic() < end, (self.desired(), self.count("/api/v1/pods"))
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

    def _is_settled(self, desired: dict[str, int]) -> bool:
        pods = self.writer.send("GET", "/api/v1/pods")["items"]
        run = [pod for pod in pods if pod["status"]["phase"] == "Running"]
        return len(run) == len(pods) == sum(desired.values())


class Live:
    """A running `hpabatch live`."""

    def __init__(self, folder: Path, kubeconfig: Path, *more: str, every: str = "500ms") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._held = hold_port()
        port = port_of(self._held)
        self._metrics = f"http://127.0.0.1:{port}/metrics"
        command = [
            str(PROGRAM), "live", "--kubeconfig", str(kubeconfig), "--log-format", "json",
            "--every", every, "--stateless", "--metrics-addr", f"127.0.0.1:{port}", *more,
            *(f"--flag={name}={value}" for name, value in FLAGS.items()),
        ]  # fmt: skip
        with (folder / "out").open("w") as out, (folder / "err").open("w") as err:
            self.process = subprocess.Popen(command, stdout=out, stderr=err)

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

    def files(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def threads(self) -> int:
        return self._status("Threads")

    def memory_mib(self) -> float:
        return self._status("VmRSS") / 1024

    def _status(self, name: str) -> int:
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(s.split()[1]) for s in text.splitlines() if s.startswith(f"{name}:"))

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
