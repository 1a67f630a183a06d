"""Manifests edited in place: what is wanted is there, and only changed lines differ."""

from __future__ import annotations

import difflib
import io
import json
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from hpabatch.errors import RefusedError
from hpabatch.inputs.manifest_edit import edit_manifest
from hpabatch.inputs.manifests import load_manifests, stored_spec
from hpabatch.model.objects.decode_fields import Severity
from hpabatch.model.objects.defaults import default_behavior, default_hpa
from hpabatch.model.objects.hpa import (
    HPA,
    Behavior,
    HPASpec,
    MetricSpec,
    MetricTarget,
    ScalingPolicy,
)
from hpabatch.model.objects.validate import validate_hpa
from hpabatch.model.quantity import Quantity
from hpabatch.model.versions import PROFILES
from tests.real.patch_cases import MANIFEST

PROFILE = PROFILES["1.37"]
FOLDER = os.environ.get("HPABATCH_MANIFESTS", "")
CHANGES = ("min", "max", "target", "down", "up", "policies", "select")

V2 = MANIFEST.replace("/v2beta2", "/v2").replace("NAME", "api")
PLAIN = """\
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: api
  namespace: shop
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: api
  maxReplicas: 10
"""
JSON = json.dumps(
    {
        "apiVersion": "v1",
        "kind": "List",
        "items": [yaml.safe_load(V2.split("---")[0]), yaml.safe_load(PLAIN.replace("api", "web"))],
    },
    indent=4,
)
TEXTS = {"v2": V2, "plain": PLAIN, "json": JSON}


def hpas_of(text: str) -> Iterator[HPA]:
    """Yield the HPAs of a text that a server takes."""
    for entry in load_manifests(["-"], io.BytesIO(text.encode())).entries:
        wrong = any(problem.severity is Severity.error for problem in entry.problems)
        if entry.hpa is None or wrong or not entry.hpa.name:
            continue
        if not validate_hpa(default_hpa(entry.hpa), PROFILE):
            yield entry.hpa


def api_of(text: str) -> HPA:
    (hpa,) = (hpa for hpa in hpas_of(text) if hpa.name == "api")
    return hpa


def _other_target(target: MetricTarget) -> MetricTarget:
    if target.average_utilization is not None:
        return replace(target, average_utilization=target.average_utilization + 7)
    old = target.average_value or target.value
    assert old is not None
    new = Quantity.parse(str(Quantity.from_milli(old.milli() * 2)))
    if target.average_value is not None:
        return replace(target, average_value=new)
    return replace(target, value=new)


def _other_metric(metric: MetricSpec) -> MetricSpec:
    return metric.with_target(_other_target(metric.target))


def changed(spec: HPASpec, seed: str, possible: Sequence[str] = CHANGES) -> HPASpec:
    """Return a spec with some fields changed."""
    rng = random.Random(seed)
    ways = rng.sample(possible, rng.randint(1, 4))
    if "min" in ways:
        spec = replace(spec, min_replicas=(spec.min_replicas or 0) + 1)
    if "max" in ways or (spec.min_replicas or 0) > spec.max_replicas:
        spec = replace(spec, max_replicas=spec.max_replicas * 2 + 1)
    if "target" in ways:
        metrics = list(spec.metrics)
        place = rng.randrange(len(metrics))
        metrics[place] = _other_metric(metrics[place])
        spec = replace(spec, metrics=tuple(metrics))
    if not {"down", "up", "policies", "select"} & set(ways):
        return spec
    behavior = default_behavior(spec.behavior or Behavior())
    assert behavior is not None
    up, down = behavior.scale_up, behavior.scale_down
    assert up is not None
    assert down is not None
    if "down" in ways:
        down = replace(down, stabilization_window_seconds=777)
    if "policies" in ways:
        down = replace(down, policies=(ScalingPolicy("Percent", 13, 45),) * rng.randint(1, 3))
    if "up" in ways:
        up = replace(up, stabilization_window_seconds=33)
    if "select" in ways:
        up = replace(up, select_policy="Min")
    return replace(spec, behavior=Behavior(up, down))


def lines_of(before: str, after: str) -> tuple[list[str], list[str]]:
    """Return the lines that went and came."""
    found = list(difflib.ndiff(before.splitlines(), after.splitlines()))
    return (
        [line[2:] for line in found if line.startswith("- ")],
        [line[2:] for line in found if line.startswith("+ ")],
    )


def edit(text: str, wanted: HPASpec, hpa: HPA | None = None) -> str:
    hpa = hpa or api_of(text)
    namespace = hpa.namespace or "default"
    return edit_manifest(text, namespace, hpa.name, stored_spec(hpa, PROFILE), wanted, PROFILE)


def is_edited(text: str, hpa: HPA, seed: str) -> bool:
    """Edit and read again: the wanted spec, and no line gone that held nothing of the change.

    False: the edit is refused, and the patch named instead.
    """
    wanted = changed(stored_spec(hpa, PROFILE), seed)
    try:
        after = edit(text, wanted, hpa)
    except RefusedError as error:
        if not str(error).endswith(": use the patch"):
            raise
        return False
    again = [
        (found.name, stored_spec(found, PROFILE))
        for found in hpas_of(after)
        if (found.name, found.namespace) == (hpa.name, hpa.namespace)
    ]
    assert again == [(hpa.name, wanted)]
    gone, come = lines_of(text, after)
    assert come
    assert sum("#" in line for line in gone) == sum("#" in line for line in come)
    fixed = ("kind:", "name:", "namespace:", "scaleTargetRef:", "apiVersion:")
    assert not [line for line in gone if line.strip().startswith(fixed)]
    return True


@pytest.mark.parametrize("name", TEXTS)
def test_any_change_is_edited_or_refused(name: str) -> None:
    edited = [is_edited(TEXTS[name], api_of(TEXTS[name]), f"{seed}") for seed in range(40)]
    assert sum(edited) >= {"v2": 20, "plain": 36, "json": 3}[name]


def _rows() -> list[dict[str, Any]]:
    path = Path(FOLDER or ".", "hpa_manifests.jsonl")
    if not FOLDER or not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.skipif(not FOLDER, reason="HPABATCH_MANIFESTS names no folder of real manifests")
def test_any_change_in_real_manifests() -> None:
    edited = [
        is_edited(row["yaml"], hpa, row["id"]) for row in _rows() for hpa in hpas_of(row["yaml"])
    ]
    assert (len(edited) > 200, sum(edited) > 0.6 * len(edited)) == (True, True)


def test_only_changed_lines_differ() -> None:
    spec = stored_spec(api_of(V2), PROFILE)
    assert spec.behavior is not None
    assert spec.behavior.scale_down is not None
    down = replace(
        spec.behavior.scale_down,
        stabilization_window_seconds=60,
        policies=(ScalingPolicy("Pods", 3, 60),),
    )
    wanted = replace(
        spec,
        min_replicas=3,
        max_replicas=20,
        metrics=tuple(_other_metric(metric) for metric in spec.metrics),
        behavior=replace(spec.behavior, scale_down=down),
    )
    gone, come = lines_of(V2, edit(V2, wanted))
    assert gone == [
        "    maxReplicas: 10   # agreed with finance",
        "            target: {type: Utilization, averageUtilization: 60}  # measured in spring",
        '                averageValue: "100"',
        "                value: 2",
    ]
    assert come == [
        "    minReplicas: 3",
        "    maxReplicas: 20   # agreed with finance",
        "            target: {type: Utilization, averageUtilization: 67}  # measured in spring",
        '                averageValue: "200"',
        "                value: 3",
        "            stabilizationWindowSeconds: 60",
    ]


def test_windows_line_ends_and_a_missing_last_one_stay() -> None:
    windows = V2.replace("\n", "\r\n")
    wanted = replace(stored_spec(api_of(V2), PROFILE), min_replicas=3, max_replicas=20)
    assert edit(windows, wanted) == edit(V2, wanted).replace("\n", "\r\n")
    spec = stored_spec(api_of(PLAIN.rstrip()), PROFILE)
    assert edit(PLAIN.rstrip(), replace(spec, max_replicas=20)).endswith("maxReplicas: 20")
    after = edit(PLAIN.rstrip(), replace(spec, metrics=(_other_metric(spec.metrics[0]),)))
    assert after.endswith("type: Utilization\n        averageUtilization: 87")


def test_what_is_there_already_is_left_alone() -> None:
    assert edit(V2, stored_spec(api_of(V2), PROFILE)) is V2


def test_a_manifest_that_was_not_judged_is_left_alone() -> None:
    spec = stored_spec(api_of(V2), PROFILE)
    judged, wanted = replace(spec, max_replicas=12), replace(spec, max_replicas=20)
    with pytest.raises(RefusedError, match=r"not what was judged \(maxReplicas 12 -> 10\)"):
        edit_manifest(V2, "shop", "api", judged, wanted, PROFILE)
    with pytest.raises(RefusedError, match="shop/web is not in this file"):
        edit_manifest(V2, "shop", "web", spec, wanted, PROFILE)
    with pytest.raises(RefusedError, match="is in this file 2 times"):
        edit_manifest(V2 + "---\n" + V2, "shop", "api", spec, wanted, PROFILE)


def test_a_value_shared_with_another_hpa_is_not_changed() -> None:
    text = """\
apiVersion: v1
kind: List
items:
- apiVersion: autoscaling/v2
  kind: HorizontalPodAutoscaler
  metadata: {name: api, namespace: shop}
  spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: api}, maxReplicas: &most 9}
- apiVersion: autoscaling/v2
  kind: HorizontalPodAutoscaler
  metadata: {name: web, namespace: shop}
  spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, maxReplicas: *most}
"""
    wanted = replace(stored_spec(api_of(text), PROFILE), max_replicas=20)
    with pytest.raises(RefusedError, match="without changing something else: use the patch"):
        edit(text, wanted)


def test_what_has_no_place_is_left_to_the_patch() -> None:
    spec = stored_spec(api_of(PLAIN), PROFILE)
    behavior = default_behavior(Behavior())
    assert behavior is not None
    assert behavior.scale_down is not None
    down = replace(behavior.scale_down, stabilization_window_seconds=60)
    wanted = replace(spec, behavior=replace(behavior, scale_down=down))
    for text, why in (
        (PLAIN + "  behavior: {}\n", "scaleDown would come into braces"),
        (PLAIN + "  behavior:\n", "its behavior has a key without a value"),
        (PLAIN + "  behavior:\n    scaleDown:\n", "its behavior has a key without a value"),
        (PLAIN.replace("/v2", "/v1"), "it is of autoscaling/v1, not of autoscaling/v2"),
    ):
        with pytest.raises(RefusedError, match=f"cannot be edited .{why}.: use the patch"):
            edit(text, wanted)
    tolerance = V2.replace("scaleDown:\n", "scaleDown:\n            tolerance: 50m\n")
    with pytest.raises(RefusedError, match="tolerance would be removed"):
        edit_manifest(
            tolerance, "shop", "api", stored_spec(api_of(tolerance), PROFILE),
            stored_spec(api_of(V2), PROFILE), PROFILE,
        )  # fmt: skip


def test_a_server_that_moves_cpu_last_gets_the_right_metric_edited() -> None:
    old = PROFILES["1.26"]
    spec = stored_spec(api_of(V2), old)
    assert [metric.type for metric in spec.metrics] == ["Pods", "Resource"]
    wanted = replace(spec, metrics=(spec.metrics[0], _other_metric(spec.metrics[1])))
    _, come = lines_of(V2, edit_manifest(V2, "shop", "api", spec, wanted, old))
    assert [line.split("  #")[0].strip() for line in come] == [
        "target: {type: Utilization, averageUtilization: 67}"
    ]
