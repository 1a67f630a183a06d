"""Writes to a real API server for tests of what only reads: many pods fast, and no waiting."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.real.cluster import Cluster

Json = dict[str, Any]
TOKEN = "admin-token"


class Writer:
    """Writes as the administrator."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        environment = cluster.environment
        self.folder = Path(environment["RUN"])
        self.server = f"https://127.0.0.1:{environment['P_API']}"
        self.stub_port = int(environment.get("P_STUB", 0))
        self._etcd = f"http://127.0.0.1:{environment['P_ETCD']}"
        self._tls = ssl.create_default_context(cafile=str(self.folder / "pki" / "ca.crt"))

    def send(self, method: str, path: str, body: object = None, patch: str = "merge") -> Json:
        kind = f"{patch}-patch+json" if method == "PATCH" else "json"
        request = urllib.request.Request(
            self.server + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {TOKEN}", "Content-Type": f"application/{kind}"},
        )
        with urllib.request.urlopen(request, context=self._tls) as reply:
            found: Json = json.load(reply)
            return found

    def watch(self, collection: str) -> Iterator[Json]:
        """Yield the objects of a collection, as they are and as they become; none is left out."""
        request = urllib.request.Request(
            f"{self.server}{collection}?watch=true",
            headers={"Authorization": f"Bearer {TOKEN}"},
        )
        with urllib.request.urlopen(request, context=self._tls) as reply:
            for line in reply:
                yield json.loads(line)["object"]

    def may(self, user: str, what: str, namespace: str = "", *, name: str = "") -> bool:
        """Say whether a user may do what `kubectl auth can-i` takes, such as "get pods/log"."""
        verb, _, resource = what.partition(" ")
        resource, _, part = resource.partition("/")
        resource, _, group = resource.partition(".")
        asked = {"verb": verb, "group": group, "resource": resource, "subresource": part,
                 "namespace": namespace, "name": name}  # fmt: skip
        spec = {"user": user, "groups": ["system:authenticated"], "resourceAttributes": asked}
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        return bool(self.send("POST", path, {"spec": spec})["status"]["allowed"])

    def namespace(self, name: str) -> None:
        self.send("POST", "/api/v1/namespaces", {"metadata": {"name": name}})

    def pods(self, namespace: str, names: Iterable[str]) -> None:
        """Make pods, eight at once."""
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda name: self.pod(namespace, name), names))

    def pod(self, namespace: str, name: str) -> None:
        body = {
            "metadata": {"name": name, "labels": {"app": "x"}},
            "spec": {"containers": [{"name": "c", "image": "c"}]},
        }
        self.send("POST", f"/api/v1/namespaces/{namespace}/pods", body)

    def label(self, namespace: str, name: str, **labels: str) -> None:
        body = {"metadata": {"labels": labels}}
        self.send("PATCH", f"/api/v1/namespaces/{namespace}/pods/{name}", body)

    def delete(self, namespace: str, name: str) -> None:
        path = f"/api/v1/namespaces/{namespace}/pods/{name}?gracePeriodSeconds=0"
        self.send("DELETE", path)

    def compact(self) -> None:
        """Let etcd forget all that was before now."""
        version = self.send("GET", "/api/v1/namespaces")["metadata"]["resourceVersion"]
        request = urllib.request.Request(
            f"{self._etcd}/v3/kv/compaction",
            data=json.dumps({"revision": version, "physical": True}).encode(),
        )
        urllib.request.urlopen(request).close()

    def restart(self) -> None:
        """Kill the API server, and start it again."""
        self.kill()
        self.start()

    def kill(self) -> None:
        self._command = self._kill("kube-apiserver")

    def _kill(self, name: str) -> list[bytes]:
        """Kill a process of the cluster, and return its command."""
        pid = int(dict(line.split() for line in self._pids())[name])
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]
        os.kill(pid, signal.SIGKILL)
        while _runs(pid):  # it has its port until then
            time.sleep(0.01)
        return command

    def _start(self, name: str, command: list[bytes]) -> None:
        with (self.folder / "log" / f"{name}-2.log").open("wb") as log:
            started = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )
        lines = [line for line in self._pids() if not line.startswith(f"{name} ")]
        text = "\n".join([*lines, f"{name} {started.pid}", ""])
        (self.folder / "pids").write_text(text)  # so that it is stopped with the others
        started.returncode = 0  # it is not waited for

    def start(self) -> None:
        self._start("kube-apiserver", self._command)
        until = time.monotonic() + 60
        while True:
            try:
                self.send("GET", "/api/v1/namespaces/default")
                return
            except OSError:
                assert time.monotonic() < until, "the API server does not start again"
                time.sleep(0.1)

    def _pids(self) -> list[str]:
        return (self.folder / "pids").read_text().splitlines()


def _runs(pid: int) -> bool:
    """Return whether a process has not ended, be it waited for or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
