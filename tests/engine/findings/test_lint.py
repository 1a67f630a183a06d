"""Findings of manifests alone: each by manifests that have it, and by ones that nearly have it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Run, invoke, runner
from tests.cli.hostile import manifest


def workload(
    name: str, labels: Mapping[str, str], selector: Mapping[str, str], **requests: str
) -> dict[str, Any]:
    """Return a Deployment with two containers; the second requests what is given."""
    containers = [
        {"name": "app", "resources": {"requests": {"cpu": "7"}}},
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
        ([manifest("web", "shop", "web"), workload("web", WEB, WEB, cpu="3")], ["sidecars_count"]),
        ([manifest("web", "shop", "web"), workload("web", WEB, WEB, cpu="2")], []),
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


@pytest.mark.parametrize(
    ("kustomization", "found"),
    [
        ("", ["same_target_apart"] * 2),
        ("resources: [a.yaml, ./sub/b.yaml]", ["same_target"] * 2),
        ("resources: [a.yaml, other.yaml]", ["same_target_apart"] * 2),
        ("resources: {a.yaml: [}", ["same_target_apart"] * 2),
    ],
)
def test_what_is_applied_together_is_told_from_alternatives(
    kustomization: str, found: list[str], tmp_path: Path
) -> None:
    (tmp_path / "sub").mkdir()
    for place, name in (("a.yaml", "web"), ("sub/b.yaml", "b")):
        (tmp_path / place).write_text(json.dumps(manifest(name, "shop", "web")))
    if kustomization:
        (tmp_path / "kustomization.yaml").write_text(kustomization)
    rows = json.loads(invoke("lint", tmp_path, "-o", "json").stdout)
    assert [row["finding"] for row in rows] == found


@pytest.mark.parametrize(
    ("annotation", "found", "told"),
    [
        ("min_is_max until 2999-01-31: waiting for quota", [], "1 ignored"),
        ("at_max, min_is_max until 2999-01-31: quota", [], "1 ignored"),
        ("at_max until 2999-01-31: quota", ["min_is_max"], "is never"),
        (
            "min_is_max until 2001-01-31: quota",
            ["min_is_max"],
            "(its ignore ended 2001-01-31: quota)",
        ),
        ("min_is_max: quota", ["bad_ignore", "min_is_max"], "expected FINDING until"),
        ("min_is_max until 2999-01-31:", ["bad_ignore", "min_is_max"], "expected FINDING until"),
        ("min_is_max until 2999-31-31: x", ["bad_ignore", "min_is_max"], "2999-31-31 is no date"),
        ("min_max until 2999-01-31: x", ["bad_ignore", "min_is_max"], "did you mean min_is_max"),
        ("min_is_max, x until 2999-01-31: x", ["bad_ignore", "min_is_max"], "no finding x"),
        ("gate_limit until 2999-01-31: x", ["bad_ignore", "min_is_max"], "gate_limit cannot be"),
        ("bad_ignore until 2999-01-31: x\nx", ["bad_ignore"] * 2 + ["min_is_max"], "cannot be"),
        (
            "a" + " " * 100_000 + "x until: y",
            ["bad_ignore", "min_is_max"],
            "expected FINDING until",
        ),
    ],
)
def test_an_annotation_ignores_until_its_day(
    annotation: str, found: list[str], told: str, tmp_path: Path
) -> None:
    document = manifest("web", "shop", "web", minReplicas=10)
    document["metadata"]["annotations"] = {"hpabatch/ignore": annotation}
    (tmp_path / "hpa.yaml").write_text(json.dumps(document))
    rows = json.loads(invoke("lint", tmp_path, "-o", "json").stdout)
    assert [row["finding"] for row in rows] == found
    assert told in invoke("lint", tmp_path).stdout or told == "is never"
