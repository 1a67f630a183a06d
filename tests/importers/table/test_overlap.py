"""Selectors that overlap: pods of another workload count, and are named wherever pods are."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpabatch.api.replays import replay
from hpabatch.api.statuses import explain
from hpabatch.engine.explain.request import ExplainRequest
from hpabatch.engine.replay.request import ReplayRequest
from hpabatch.history.reader import open_history
from tests.importers.tables import import_table, write_csv, write_map

WORKLOAD = """
- apiVersion: apps/v1
  kind: Deployment
  metadata: {{name: app-{name}, namespace: app}}
  spec:
    replicas: {replicas}
    selector: {{matchLabels: {{app: app}}}}
    template:
      metadata: {{labels: {{app: app, role: {name}}}}}
      spec: {{containers: [{{name: c, image: x, resources: {{requests: {{cpu: {cpu}}}}}}}]}}"""
OBJECTS = (
    "apiVersion: v1\nkind: List\nitems:"
    + WORKLOAD.format(name="frontend", replicas=2, cpu="200m")
    + WORKLOAD.format(name="backend", replicas=1, cpu="600m")
    + """
- apiVersion: autoscaling/v2
  kind: HorizontalPodAutoscaler
  metadata: {name: app-frontend, namespace: app}
  spec:
    minReplicas: 2
    maxReplicas: 10
    scaleTargetRef: {kind: Deployment, name: app-frontend, apiVersion: apps/v1}
    metrics:
    - type: Resource
      resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}
"""
)
BACKEND = "app-backend-7f8d9c6b5d-k4j5h"
FRONTENDS = [f"app-frontend-6b5c9d7f4d-{end}" for end in ("x2x9k", "q7w2m", "n8v6c", "r4t5z")]


@pytest.fixture
def overlapping(tmp_path: Path) -> Path:
    """A history of two idle pods, from minute 5 on four, and a busy one of another Deployment."""
    lines = ["time,namespace,pod,cpu"]
    for step in range(29):
        time = f"2026-01-01T12:{step // 4:02}:{step % 4 * 15:02}Z,app"
        own = FRONTENDS[: 2 if step < 20 else 4]
        lines += [f"{time},{pod},5m" for pod in own] + [f"{time},{BACKEND},590m"]
    objects = tmp_path / "objects.yaml"
    objects.write_text(OBJECTS)
    cpu = {"column": "cpu", "unit": "quantity"}
    columns = {"time": "time", "namespace": "namespace", "pod": "pod", "cpu": cpu}
    place = write_map(tmp_path, {"level": "pod", "columns": columns})
    source = write_csv(tmp_path, "\n".join(lines) + "\n")
    import_table([source], place, tmp_path / "history", objects=[str(objects)])
    return tmp_path / "history"


@pytest.mark.parametrize(
    ("at", "change"),
    [
        ("12:04:45", "from 2 to 4 replicas: cpu is at 60% of the requests (target 50%), which asks "
         "for 4 replicas"),
        ("12:07:00", "from 4 to 5 replicas: cpu is at 43% of the requests (target 50%), which asks "
         "for 5 replicas"),
    ],
)  # fmt: skip
def test_a_pod_of_another_deployment_is_named(overlapping: Path, at: str, change: str) -> None:
    request = ExplainRequest(name="app/app-frontend", at=f"2026-01-01 {at}")
    text = explain(open_history(overlapping), request).text
    assert f"{BACKEND} 590m of 600m (of Deployment app-backend), app-frontend-" in text
    assert text.count("(of Deployment app-backend)") == 1
    sentence = f"goes {change}; it counts pod {BACKEND}, which belongs to Deployment app-backend; "
    assert sentence + "its pods differ: 2.5% (app-frontend-" in text


def test_a_replay_names_it(overlapping: Path) -> None:
    (warning,) = [w for w in replay(open_history(overlapping), ReplayRequest()).warnings
                  if "selector" in w]  # fmt: skip
    assert warning == (
        f"app/app-frontend: its selector matches pod {BACKEND}, which belongs to Deployment "
        "app-backend; the controller counts it, too: make the selectors of the workloads distinct"
    )
