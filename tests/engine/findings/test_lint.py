"""Findings of manifests alone: each by manifests that have it, and by ones that nearly have it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Run, runner
from tests.cli.hostile import manifest


def workload(
    name: str, labels: Mapping[str, str], selector: Mapping[str, str], **requests: str
) -> dict[str, Any]:
    """Return a Deployment with two containers; the second requests what is given."""
    containers = [
        {"name": "app", "resources": {"requests": {"cpu": "1"}}},
        {"name": "side", "resources": {"requests": requests}},
    ]
    template = {"metadata": {"labels": dict(labels)}, "spec": {"containers": containers}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"selector": {"matchLabels": dict(selector)}, "template": template},
    }


WEB, API = {"app": "web"}, {"app": "api", "part": "shop"}
SCALED: dict[str, Any] = {
    "apiVersion": "keda.sh/v1alpha1",
    "kind": "ScaledObject",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {
        "scaleTargetRef": {"name": "web"},
        "triggers": [
            {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "60"}},
        ],
    },
}
OLD = manifest("web", "shop", "web") | {"apiVersion": "autoscaling/v2beta2"}
OLD["spec"]["metrics"] = []


@pytest.mark.parametrize(
    ("objects", "found"),
    [
        ([manifest("web", "shop", "web"), manifest("b", "shop", "web")], ["same_target"] * 2),
        ([manifest("web", "shop", "web"), manifest("b", "other", "web")], []),
        ([manifest("web", "shop", "web"), manifest("web", "shop", "web", maxReplicas=9)], []),
        ([manifest("web", "shop", "web"), SCALED], ["keda_and_hpa"] * 2),
        ([manifest("web", "shop", "api"), SCALED], []),
        ([OLD], ["deprecated_api"]),
        ([manifest("web", "shop", "web"), workload("web", WEB, WEB, cpu="1")], []),
        ([manifest("web", "shop", "web"), workload("web", WEB, WEB)], ["missing_request"]),
        ([manifest("web", "shop", "api"), workload("web", WEB, WEB)], []),
        (
            [
                *(manifest(name, "shop", name) for name in ("web", "api")),
                workload("web", WEB, WEB, cpu="1"),
                workload("api", API, {"part": "shop"}, cpu="1"),
            ],
            [],
        ),
        (
            [
                *(manifest(name, "shop", name) for name in ("web", "api")),
                workload("web", WEB | {"part": "shop"}, WEB, cpu="1"),
                workload("api", API, {"part": "shop"}, cpu="1"),
            ],
            ["overlapping_selectors"],
        ),
        (
            [
                *(manifest("web", namespace, "web") for namespace in ("shop", "other")),
                workload("web", WEB, WEB, cpu="1"),
                workload("web", WEB, WEB, cpu="1")
                | {"metadata": {"name": "web", "namespace": "other"}},
            ],
            [],
        ),
        ([manifest("web", "shop", "web", minReplicas=10)], ["min_is_max"]),
        ([manifest("web", "shop", "web", minReplicas=9)], []),
    ],
)
def test_findings_are_seen_and_near_misses_are_not(
    objects: list[dict[str, Any]],
    found: list[str],
    tmp_path: Path,
    capsysbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "all.yaml"
    file.write_text("---\n".join(json.dumps(value) + "\n" for value in objects))
    run: Run = runner("lint", capsysbinary, monkeypatch)
    for place in (file, tmp_path):
        done = run(place, "-o", "json", "--exit-code")
        rows = json.loads(done.stdout)
        assert [row["finding"] for row in rows] == found
        assert done.code == (3 if found else 0)
        assert all(json.loads(row["evidence"])["source"] == str(file) for row in rows)
