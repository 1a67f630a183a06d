"""Steps of the workloads; after each of them nothing happens for some syncs."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from tests.live_cluster.scene import Scene

HOLD: Final = 3.0
"""Syncs after a step until the next one: each level is seen by two at least."""
LONG: Final = 10.0
"""Syncs until the windows of the flags have passed."""
RESOURCE_API: Final = "v1beta1.metrics.k8s.io"
EXTERNAL_API: Final = "v1beta1.external.metrics.k8s.io"
Act = Callable[[Scene], None]


@dataclass(frozen=True)
class Step:
    """A step: what is done, and how long nothing happens then, in syncs."""

    name: str
    act: Act
    hold: float = HOLD


def run_steps(
    steps: Iterable[Step],
    scene: Scene,
    sync_s: float,
    to_next_pass: Callable[[], float],
    tell: Callable[[str], None],
) -> None:
    """Do all steps.

    What is done shortly before the loop's next pass (in so many seconds) is mostly seen by it
    before the controller decides on it.
    """
    for step in steps:
        time.sleep(to_next_pass())
        step.act(scene)
        tell(step.name)
        time.sleep(step.hold * sync_s)


def idle(scene: Scene) -> None:
    """Give every app the load that its two pods are meant for."""
    cpu = (
        "ramp spike default slow least frozen calm several container half set stateful old bare "
        "failing edited bounds resized gone"
    )
    scene.levels(
        cpu={**dict.fromkeys(cpu.split(), 2.0), "shared": 4, "widget": 3},
        rps={"rps": 2, "several": 2}, external={"queue": 2, "jobs": 10}, memory=1.0,
    )  # fmt: skip


def short_script() -> list[Step]:
    """Return the script of `make test-cluster`: all kinds of load, then handling and failures."""
    return [
        Step("idle", idle, 4),
        Step("up", _up),
        Step("higher", _higher),
        Step("highest", _highest),
        Step("a pod fails", lambda s: s.set_pod(s.pods("failing")[0], "Failed", ready=False)),
        Step("drop", _drop),
        Step("min and max are raised", lambda s: s.edit("bounds", _bounds(4, 8))),
        Step("a pod gets unready under load", _unready_under_load),
        Step("max is lowered", lambda s: s.edit("bounds", _bounds(2, 3))),
        Step("scaled to zero", lambda s: s.resize("resized", 0)),
        Step("metrics of a pod vanish", lambda s: s.set_pod(s.pods("failing")[0], "Unknown")),
        Step("of all its pods", _vanish),
        Step("they come back", _appear),
        Step("scaled from zero", lambda s: s.resize("resized", 4)),
        Step("a target is deleted", lambda s: s.remove("gone")),
        Step("up again", _again),
        Step("scaled above max", lambda s: s.resize("resized", 9)),
        Step("the target is made anew", lambda s: s.remake("gone")),
        Step("the target utilization is changed", _stricter),
        Step("metrics.k8s.io is gone", lambda s: s.metrics_api(RESOURCE_API, on=False)),
        Step("it is back", lambda s: s.metrics_api(RESOURCE_API, on=True)),
        Step("external.metrics.k8s.io is gone", lambda s: s.metrics_api(EXTERNAL_API, on=False)),
        Step("it is back", lambda s: s.metrics_api(EXTERNAL_API, on=True)),
        Step("quiet", _quiet, 2 * LONG + HOLD),
    ]


def _bounds(lowest: int, highest: int) -> dict[str, int]:
    return {"minReplicas": lowest, "maxReplicas": highest}


def _up(scene: Scene) -> None:
    scene.levels(
        cpu={
            "ramp": 4, "spike": 18, "default": 9, "slow": 9, "least": 9, "frozen": 6, "calm": 7,
            "several": 3, "container": 5, "half": 4, "set": 4, "stateful": 4, "old": 4,
            "shared": 7, "widget": 6, "failing": 5, "edited": 3, "gone": 4,
        },
        rps={"rps": 4.7, "several": 2}, external={"queue": 5, "jobs": 35}, memory=1.6,
    )  # fmt: skip


def _higher(scene: Scene) -> None:
    scene.levels(
        cpu={"ramp": 7, "several": 3, "calm": 9, "set": 6, "stateful": 5, "old": 6},
        rps={"rps": 8, "several": 5}, external={"queue": 8, "jobs": 60},
    )  # fmt: skip


def _highest(scene: Scene) -> None:
    """Let container be at exactly 1.1 of its target: until 1.32 that is out of the tolerance."""
    scene.levels(
        cpu={"ramp": 10, "several": 3, "edited": 4, "container": 5.5}, rps={"several": 2},
        external={"queue": 14, "jobs": 90}, memory=0.4,
    )  # fmt: skip


def _drop(scene: Scene) -> None:
    scene.levels(
        cpu={
            "ramp": 2.5, "spike": 1, "default": 1.5, "slow": 1, "least": 1, "frozen": 1, "calm": 2,
            "several": 2, "container": 2, "half": 1.5, "set": 2, "stateful": 2, "old": 2,
            "shared": 3, "widget": 1, "gone": 2,
        },
        rps={"rps": 2, "several": 1}, external={"queue": 1, "jobs": 0},
    )  # fmt: skip


def _again(scene: Scene) -> None:
    scene.levels(
        cpu={"ramp": 6, "spike": 7, "default": 6, "calm": 6, "several": 5}, rps={"rps": 6},
        external={"queue": 6, "jobs": 40},
    )  # fmt: skip


def _unready_under_load(scene: Scene) -> None:
    """Within the initial readiness delay: the pod is taken for one that was never ready."""
    scene.set_pod(scene.pods("failing")[1], "Running", ready=False)
    scene.levels(cpu={"failing": 7})


def _quiet(scene: Scene) -> None:
    scene.levels(
        cpu={
            "ramp": 1, "spike": 3, "default": 2, "calm": 1, "several": 1, "edited": 1, "failing": 2,
        },
        rps={"rps": 1, "several": 1}, external={"queue": 1, "jobs": 10}, memory=0.7,
    )  # fmt: skip


def _vanish(scene: Scene) -> None:
    for pod in scene.pods("failing"):
        scene.set_pod(pod, "Unknown")


def _appear(scene: Scene) -> None:
    for pod in scene.pods("failing"):
        scene.set_pod(pod, "Running")


def _stricter(scene: Scene) -> None:
    target = {"type": "Utilization", "averageUtilization": 25}
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    scene.edit("edited", {"metrics": [metric]})


def plain_script() -> list[Step]:
    """Return the script for a cluster whose metrics are its own: sizes are handled, no load."""
    return [
        Step("idle", lambda s: None, 4),
        Step("min and max are raised", lambda s: s.edit("bounds", _bounds(4, 8))),
        Step("scaled to zero", lambda s: s.resize("resized", 0)),
        Step("max is lowered", lambda s: s.edit("bounds", _bounds(2, 3))),
        Step("scaled from zero", lambda s: s.resize("resized", 4)),
        Step("a target is deleted", lambda s: s.remove("gone")),
        Step("min is raised above", lambda s: s.edit("bounds", _bounds(5, 6))),
        Step("scaled above max", lambda s: s.resize("resized", 9)),
        Step("the target is made anew", lambda s: s.remake("gone")),
        Step("min is raised", lambda s: s.edit("gone", _bounds(3, 6))),
        Step("quiet", lambda s: None, 4),
    ]


def random_script(seed: int, seconds: float, sync_s: float) -> Iterator[Step]:
    """Yield steps of random levels and mishaps for about so many seconds."""
    rng = random.Random(seed)
    yield Step("idle", idle, 4)
    left = seconds / sync_s - 4
    while left > 0:
        for name, act in _random_acts(rng):
            hold = rng.choice([HOLD, HOLD, HOLD, HOLD + 2, LONG])
            left -= hold
            yield Step(name, act, hold)
    yield Step("quiet", _quiet, LONG)


def _random_acts(rng: random.Random) -> list[tuple[str, Act]]:
    """Return a change of some apps' levels, now and then a mishap instead."""
    if rng.random() < 0.25:
        return rng.choice(_MISHAPS)
    apps = (
        "ramp spike default slow least frozen calm several container half set stateful old shared "
        "widget failing edited gone"
    )
    chosen = rng.sample(apps.split(), rng.randint(3, 12))
    cpu = {app: _load(rng) for app in chosen}
    rps = {app: _load(rng) for app in rng.sample(["rps", "several"], rng.randint(0, 2))}
    queue, jobs = _load(rng), rng.choice([0, 5, 10, 35, 60, 100])
    worth = rng.choice([0.4, 0.7, 1.0, 1.3, 1.6])

    def act(scene: Scene) -> None:
        scene.levels(cpu, rps, {"queue": queue, "jobs": jobs}, worth)

    return [(f"levels of {len(chosen)} apps", act)]


def _load(rng: random.Random) -> float:
    return round(rng.choice([0, rng.uniform(0.2, 3), rng.uniform(2, 8), rng.uniform(6, 25)]), 2)


def _fail(scene: Scene) -> None:
    for pod in scene.pods("failing")[:2]:
        scene.set_pod(pod, "Failed", ready=False)


def _unready(scene: Scene) -> None:
    for pod in scene.pods("spike")[:2]:
        scene.set_pod(pod, "Running", ready=False)


def _without(name: str) -> list[tuple[str, Act]]:
    api = name.removeprefix("v1beta1.")
    return [
        (f"{api} is gone", lambda s: s.metrics_api(name, on=False)),
        ("it is back", lambda s: s.metrics_api(name, on=True)),
    ]


_MISHAPS: Final[list[list[tuple[str, Act]]]] = [
    [("two pods fail", _fail)],
    [("two pods get unready", _unready)],
    [("metrics vanish", _vanish), ("they come back", _appear)],
    [("min and max are raised", lambda s: s.edit("bounds", _bounds(4, 8)))],
    [("max is lowered", lambda s: s.edit("bounds", _bounds(2, 3)))],
    [("scaled to zero", lambda s: s.resize("resized", 0))],
    [("scaled to four", lambda s: s.resize("resized", 4))],
    [("scaled above max", lambda s: s.resize("resized", 9))],
    _without(RESOURCE_API),
    _without(EXTERNAL_API),
]
