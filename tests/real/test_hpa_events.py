"""Events of HPAs as a real API server logs them and a real kubectl records them.

Upstream's controller of 1.20 scales a Deployment while its HPA is made, edited, deleted and made
anew. What the audit log of the level RequestResponse, a watch and the API itself say is the same.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hpabatch.importers.hpa_events.run import Events, read_hpa_events
from hpabatch.model.objects.decode import decode_hpa
from hpabatch.model.objects.encode import spec_to_json
from tests.real.cluster import Cluster, missing, running_cluster
from tests.real.kubectl_objects import Json

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

WRITES = "[create, update, patch, delete, deletecollection]"
POLICY = """apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: {level}
  verbs: {verbs}
  resources:
  - {{group: autoscaling, resources: [horizontalpodautoscalers, horizontalpodautoscalers/status]}}
  - {{group: apps, resources: [deployments/scale]}}
- level: None
"""
CONTROLLER = (
    "--horizontal-pod-autoscaler-sync-period=1s --horizontal-pod-autoscaler-initial-readiness-delay"
    "=1s --horizontal-pod-autoscaler-cpu-initialization-period=1s "
    "--horizontal-pod-autoscaler-downscale-stabilization=1s"
)
FLAGS = (
    "--stub", "--fake-kubelet", "--controllers", "deployment,replicaset,horizontalpodautoscaling",
)  # fmt: skip
HPA = """apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: shop, labels: {team: a}}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 2
  maxReplicas: 3
  metrics:
  - {type: Resource, resource: {name: memory, target: {type: AverageValue, averageValue: 50Gi}}}
  - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}
  behavior: {scaleDown: {stabilizationWindowSeconds: 3}}
"""
DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: app, image: x, resources: {requests: {cpu: 100m, memory: 1Gi}}}]}
"""


@dataclass(frozen=True)
class Recording:
    """The files of a run, and what the API said after each edit: (spec, labels)."""

    folder: Path
    said: list[tuple[str, dict[str, str]]]

    def read(self, *names: str) -> Events:
        return read_hpa_events([self.folder / name for name in names])


def stored(cluster: Cluster) -> Json:
    found: Json = json.loads(cluster.kubectl("get", "hpa.v2.autoscaling", "web", "-n", "shop",
                                             "-o", "json"))  # fmt: skip
    return found


def until(what: Callable[[], bool]) -> None:
    for _ in range(300):
        if what():
            return
        time.sleep(0.1)
    raise AssertionError("it did not happen in half a minute")


def watch(cluster: Cluster, file: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Record as docs/prometheus.md says; kubectl writes an event on a line."""
    stamp = (
        "import json, sys, time\nfor line in sys.stdin:\n"
        "    print(json.dumps({'received': time.time(), **json.loads(line)}), flush=True)\n"
    )
    told = subprocess.Popen(
        ["kubectl", "get", "hpa.v2.autoscaling", "-A", "-w", "-o", "json", "--output-watch-events"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=cluster.environment,
    )  # fmt: skip
    yield told
    assert told.stdout is not None
    with file.open("wb") as stream, told.stdout as piped:
        yield subprocess.Popen([sys.executable, "-c", stamp], stdin=piped, stdout=stream)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recording]:
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "policy.yaml").write_text(POLICY.format(level="RequestResponse", verbs=WRITES))
    log = folder / "audit.log"
    api = f"--audit-policy-file={folder}/policy.yaml --audit-log-path={log}"
    with running_cluster(
        folder, f"{api} --audit-log-mode=blocking", FLAGS, {"KCM_ARGS": CONTROLLER}
    ) as cluster:
        watches = list(watch(cluster, folder / "watch.json"))
        try:
            yield Recording(folder, run(cluster))
        finally:
            for one in watches:
                one.terminate()
                one.wait()


def run(cluster: Cluster) -> list[tuple[str, dict[str, str]]]:
    """Let an HPA live; return what the API said of it after each of its edits."""
    said = []

    def note(what: Callable[[Json], bool] = lambda item: True) -> None:
        until(lambda: what(stored(cluster)))
        item = stored(cluster)
        hpa, _ = decode_hpa(item)
        said.append((spec_to_json(hpa), item["metadata"].get("labels", {})))

    def sized(size: int) -> Callable[[Json], bool]:
        return lambda item: item.get("status", {}).get("currentReplicas") == size

    patch = ("patch", "hpa", "web", "-n", "shop", "-p")
    cluster.kubectl("create", "namespace", "shop")
    cluster.kubectl("create", "-f", "-", stdin=DEPLOYMENT)
    cluster.kubectl("create", "-f", "-", stdin=HPA)
    note(sized(3))  # The stub's pods use more than they ask for.
    cluster.kubectl(*patch, '{"spec":{"maxReplicas":4}}')
    note(sized(4))
    cluster.kubectl("label", "hpa", "web", "-n", "shop", "team=b", "--overwrite")
    note()
    time.sleep(1.1)  # An object knows the second of its creation.
    assert cluster.try_kubectl(*patch, '{"spec":{"maxReplicas":0}}').returncode
    cluster.kubectl(*patch, '{"spec":{"maxReplicas":99}}', "--dry-run=server")
    cluster.kubectl("delete", "hpa", "web", "-n", "shop")
    cluster.kubectl("create", "-f", "-", stdin=HPA)
    note(sized(3))
    return said


def told(events: Events) -> list[tuple[str, dict[str, str]]]:
    rows = events.hpas.sort("valid_from")
    return [(spec, json.loads(labels)) for spec, labels in rows.select("spec", "labels").rows()]


@pytest.mark.parametrize("name", ["audit.log", "watch.json"])
def test_specs_are_what_the_api_said_after_each_edit(recording: Recording, name: str) -> None:
    events = recording.read(name)
    until(lambda: len(told(recording.read(name))) >= len(recording.said))
    events = recording.read(name)
    assert told(events) == recording.said
    rows = events.hpas.sort("valid_from")
    assert rows["uid"].to_list()[0] == rows["uid"].to_list()[2] != rows["uid"].to_list()[3]
    assert rows["valid_to"].to_list()[:2] == rows["valid_from"].to_list()[1:3]
    assert rows["valid_to"].to_list()[3] is None
    assert rows["valid_to"][2] <= rows["valid_from"][3]
    assert events.seen_first == frozenset()
    assert not [text for text in events.warnings if "statuses" not in text]


def test_statuses_are_those_of_the_controller(recording: Recording) -> None:
    events = recording.read("audit.log")
    rows = events.statuses.rows()
    assert rows.height > 3
    assert {3, 4} <= set(rows["desired_replicas"])
    last: Any = json.loads(rows.sort("ts")["current_metrics"].drop_nulls()[-1])
    assert [one["resource"]["name"] for one in last] == ["memory", "cpu"]
    assert "averageUtilization" in last[1]["resource"]["current"]
    assert json.loads(rows["conditions"][-1])[0]["type"] == "AbleToScale"


def test_log_and_watch_together_say_what_the_log_says(recording: Recording) -> None:
    events = recording.read("audit.log")
    both = recording.read("watch.json", "audit.log")
    assert both.hpas.equals(events.hpas)
    assert both.statuses.rows().equals(events.statuses.rows())
