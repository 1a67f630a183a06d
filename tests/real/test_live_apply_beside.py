"""`hpabatch live --apply` beside upstream's controller 1.20.2: equal namespaces, the same load.

HPA by HPA the sizes have to be the same, in the same order. Each level of the load lasts until both
are at rest, so the instants of their syncs do not matter.

One difference of observation is allowed: what a sync sees of a pod that is just starting is a
matter of ms, so by a metric of pods the two may take different steps, and come to rest at different
sizes within the tolerance. Then each of their sizes has to be one at which the rules stay.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.real.api_writes import Json
from tests.real.applying import Applying, Ground, queue_metric
from tests.real.cluster import missing

RPS: Json = {
    "type": "Pods",
    "pods": {"metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": "10"}},
}

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

OURS, THEIRS = "our-shop", "their-shop"
SEED = 20
DRAWN = 14
MOST_DIFFERENT = 3
TOLERANCE = 0.1
REQUEST_M = 100
REST_S = 9  # without a change: more than a window, a policy's period and a sync take together
QUEUES = (60, 190, 41, 0, 130)
CPU_M = (100, 900, 420, 0, 240)
"""Levels, one after the other: of the External metric, and of the cpu of the HPAs that are fixed"""


@pytest.fixture(scope="module")
def ground(controlled: Ground) -> Iterator[Ground]:
    controlled.namespaces(OURS, THEIRS)
    yield controlled
    controlled.writer.send("DELETE", controlled.hpas(THEIRS))


def _cpu_metric(**target: object) -> Json:
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


FIXED: dict[str, list[Json]] = {
    "calm": [queue_metric("40")],
    "even": [queue_metric("20")],
    "steep": [queue_metric("5")],
    "half": [_cpu_metric(type="Utilization", averageUtilization=50)],
    "most": [_cpu_metric(type="Utilization", averageUtilization=90)],
    "value": [_cpu_metric(type="AverageValue", averageValue="70m")],
}


def test_sizes_are_those_of_upstreams_controller(ground: Ground, tmp_path: Path) -> None:
    """Different metrics, two of them at once, bounds, windows and policies."""
    draw = random.Random(SEED)
    specs: dict[str, dict[str, Any]] = {
        name: {"minReplicas": 1, "maxReplicas": 10, "metrics": metrics}
        for name, metrics in FIXED.items()
    } | {f"d{k:02}": _drawn(draw, k) for k in range(DRAWN)}
    folder = tmp_path / "hpas"
    for name, spec in specs.items():
        for space in (OURS, THEIRS):
            ground.deployment(space, name)
        ground.document(folder, OURS, name, **spec)
        ground.hpa_of(THEIRS, name, spec)
    levels = [_level(specs, k) for k in range(len(QUEUES))]
    ground.levels(**levels[0])
    login = ground.writer.folder / "kubeconfig"
    one = Applying(tmp_path / "one", login, "--manifests", str(folder), every="1s")
    try:
        one.until(one.leads)
        _sizes_under(ground, list(specs), levels[:1])  # to begin both from rest
        seen, rests = _sizes_under(ground, list(specs), levels[1:])
    finally:
        one.kill()
    ours, theirs = seen[OURS], seen[THEIRS]
    others = {name: (ours[name], theirs[name]) for name in specs if ours[name] != theirs[name]}
    for name, case in others.items():
        assert any(metric["type"] != "External" for metric in specs[name]["metrics"]), (name, case)
        for level, rest in zip(levels[1:], rests, strict=True):
            for space in (OURS, THEIRS):
                size = rest[space][name]
                assert _proposed(specs[name], name, level, size) == size, (name, case, specs[name])
    assert len(others) <= MOST_DIFFERENT, others
    assert sum(map(len, ours.values())) >= 60
    assert min(map(len, ours.values())) >= 2


def _proposed(spec: Mapping[str, Any], name: str, level: Json, size: int) -> int:
    """Return the size that the metrics ask for at a size, within the bounds."""
    found = []
    for metric in spec["metrics"]:
        target = next(iter(one for one in metric.values() if isinstance(one, dict)))["target"]
        if metric["type"] == "External":
            total, each = level["external"]["queue"], float(target["averageValue"])
        elif metric["type"] == "Pods":
            total, each = level["custom"][f"{OURS}/{name}/rps"], float(target["averageValue"])
        else:
            total = level["cpu_total_m"][f"{OURS}/{name}"]
            share = target.get("averageUtilization")
            each = share / 100 * REQUEST_M if share else float(target["averageValue"][:-1])
        is_near = abs(total / (each * size) - 1) <= TOLERANCE + 0.01  # usages are whole numbers
        found.append(size if is_near else math.ceil(total / each))
    return int(min(max(*found, spec["minReplicas"]), spec["maxReplicas"]))


def _drawn(draw: random.Random, number: int) -> dict[str, Any]:
    """Return a drawn HPA; those of pods' metrics have no windows and policies of their own."""
    queue = queue_metric(str(draw.choice((7, 11, 13, 17, 23, 37))))
    of_pods = (
        _cpu_metric(type="Utilization", averageUtilization=draw.choice((50, 70, 90))), RPS,
        _cpu_metric(type="AverageValue", averageValue=f"{draw.choice((45, 70, 130))}m"),
    )[number % 3]  # fmt: skip
    metrics = [[queue], [of_pods], [queue, of_pods]][0 if number % 5 < 3 else number % 5 - 2]
    spec = {
        "minReplicas": draw.randint(1, 2), "maxReplicas": draw.randint(8, 14), "metrics": metrics
    }  # fmt: skip
    if metrics == [queue] and number % 5:
        spec["behavior"] = {"scaleUp": _rules(draw), "scaleDown": _rules(draw)}
    return spec


def _rules(draw: random.Random) -> Json:
    """Return a window and one policy: of several the instants of the syncs would matter."""
    kind, values = draw.choice((("Pods", (3, 4, 5)), ("Percent", (60, 100, 200))))
    policy = {"type": kind, "value": draw.choice(values), "periodSeconds": draw.choice((1, 2))}
    return {"stabilizationWindowSeconds": draw.choice((0, 2, 3)), "policies": [policy]}


def _level(specs: Mapping[str, object], number: int) -> Json:
    """Return a level of all metrics."""
    draw = random.Random(number)
    cpu, rps = {}, {}
    for name in specs:
        total, requests = draw.randrange(0, 700, 60), float(draw.randrange(0, 130, 7))
        for space in (OURS, THEIRS):
            cpu[f"{space}/{name}"] = CPU_M[number] if name in FIXED else total
            rps[f"{space}/{name}/rps"] = requests
    return {"external": {"queue": QUEUES[number]}, "cpu_total_m": cpu, "custom": rps}


def _sizes_under(
    ground: Ground, names: Sequence[str], levels: Sequence[Json]
) -> tuple[dict[str, dict[str, list[int]]], list[dict[str, dict[str, int]]]]:
    """Return by namespace and name the sizes that targets take one after another.

    Each level lasts until all are at rest: also return the sizes at its end.
    """
    seen: dict[str, dict[str, list[int]]] = {
        space: {name: [] for name in names} for space in (OURS, THEIRS)
    }
    changed, rests = [time.monotonic()], list[dict[str, dict[str, int]]]()

    def look() -> None:
        for one in ground.writer.watch("/apis/apps/v1/deployments"):
            size, meta = one["spec"]["replicas"], one["metadata"]
            sizes = seen.get(meta["namespace"], {}).get(meta["name"])
            if sizes is not None and sizes[-1:] != [size]:
                sizes.append(size)
                changed[0] = time.monotonic()

    threading.Thread(target=look, daemon=True).start()  # it ends with the cluster
    for level in levels:
        ground.levels(**level)
        changed[0] = time.monotonic()
        while time.monotonic() - changed[0] < REST_S:
            time.sleep(0.1)
        rests.append({s: {name: sizes[-1] for name, sizes in of.items()} for s, of in seen.items()})
    return {s: {name: list(sizes) for name, sizes in of.items()} for s, of in seen.items()}, rests
