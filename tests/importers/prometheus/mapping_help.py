"""Shared parts of tests of mappings: HPAs, files, and promtool where it is there."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

import yaml

from hpabatch.model.objects.decode import decode_hpa
from hpabatch.model.objects.hpa import HPA
from tests.real.prometheus import missing, program


def hpa_of(*metrics: Mapping[str, object], name: str = "web", namespace: str = "shop") -> HPA:
    document = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "scaleTargetRef": {"kind": "Deployment", "name": name, "apiVersion": "apps/v1"},
            "maxReplicas": 9,
            "metrics": list(metrics),
        },
    }
    hpa, problems = decode_hpa(document)
    assert not problems
    return hpa


def pods_metric(name: str, selector: Mapping[str, object] | None = None) -> dict[str, object]:
    metric = {"name": name} | ({} if selector is None else {"selector": selector})
    target = {"type": "AverageValue", "averageValue": "10"}
    return {"type": "Pods", "pods": {"metric": metric, "target": target}}


def external_metric(name: str, selector: Mapping[str, object] | None = None) -> dict[str, object]:
    metric = {"name": name} | ({} if selector is None else {"selector": selector})
    return {"type": "External", "external": {"metric": metric, "target": value_target()}}


def object_metric(
    name: str, kind: str, of: str, api_version: str = "v1", selector: object = None
) -> dict[str, object]:
    metric = {"name": name} | ({} if selector is None else {"selector": selector})
    described = {"kind": kind, "name": of, "apiVersion": api_version}
    inner = {"metric": metric, "describedObject": described, "target": value_target()}
    return {"type": "Object", "object": inner}


def value_target() -> dict[str, str]:
    return {"type": "Value", "value": "10"}


def write(folder: Path, text: str | Mapping[str, object], name: str = "file.yaml") -> Path:
    path = folder / name
    path.write_text(text if isinstance(text, str) else yaml.safe_dump(text, sort_keys=False))
    return path


def refused_by_promtool(folder: Path, queries: Iterable[str]) -> str:
    """Return what promtool says against expressions, "" if it takes all or is not there."""
    if missing():
        return ""
    rules = [{"record": f"test:rule:{n}", "expr": query} for n, query in enumerate(queries)]
    file = folder / "rules.yaml"
    file.write_text(json.dumps({"groups": [{"name": "test", "rules": rules}]}))
    done = subprocess.run(
        [program("promtool"), "check", "rules", file], capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr if done.returncode else ""
