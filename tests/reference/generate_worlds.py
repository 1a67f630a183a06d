"""Random targets: pods that start, fail, flap and terminate, the load, and the metrics APIs."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Any

from .generate_values import any_quantity, chance, error_text, plain_quantity
from .times import SECOND, format_time

Json = dict[str, Any]

LOADS = ("walk", "walk", "sine", "noise")


# --- pods -----------------------------------------------------------------------------------------


@dataclass
class _Pod:
    """A simulated pod; all times in microseconds, whole seconds."""

    name: str
    scheduled: int  # when it leaves Pending
    ready_from: int
    sampled_from: int
    deleted: int | None = None
    fate: str = "Running"  # phase after fate_from
    fate_from: int = 0
    flaps: bool = False  # readiness comes and goes


@dataclass
class Workload:
    """A scale target: its size and its pods, which follow the size slowly."""

    rng: random.Random
    name: str
    replicas: int
    labels: Json | None = None  # of its pods; None: they are not written
    pods: list[_Pod] = field(default_factory=list)
    born: int = 0
    settled: bool = False  # the pods of the first tick have been there for long

    def follow(self, now: int) -> None:
        """Make the pods follow the scale: new ones start late, surplus ones terminate slowly."""
        second = now - now % SECOND
        self.pods = [p for p in self.pods if p.deleted is None or p.deleted > second - 30 * SECOND]
        live = [p for p in self.pods if p.deleted is None and p.fate == "Running"]
        for pod in live[self.replicas :]:
            pod.deleted = second
        for _ in range(self.replicas - len(live)):
            self.pods.append(self._new_pod(now, second))
        self.settled = True

    def _new_pod(self, now: int, second: int) -> _Pod:
        rng = self.rng
        scheduled = second - 86_400 * SECOND
        if self.settled:
            scheduled = second + rng.choice([0, 0, 2, 40]) * SECOND
        ready = scheduled + rng.choice([1, 5, 12, 30, 90]) * SECOND
        sampled = scheduled + rng.choice([0, 15, 30, 60]) * SECOND
        pod = _Pod(f"{self.name}-{self.born}", scheduled, ready, sampled)
        self.born += 1
        if chance(rng, 0.06):
            pod.fate = rng.choice(["Failed", "Succeeded", "Unknown"])
            pod.fate_from = now + rng.randint(0, 600) * SECOND
        pod.flaps = chance(rng, 0.15)
        return pod

    def written(self, now: int) -> list[Json]:
        """Write the pods as the lister sees them now."""
        written = [_write_pod(pod, now) for pod in self.pods]
        if self.labels is not None:
            written = [pod | {"labels": self.labels} for pod in written]
        return written

    def sampled(self, now: int) -> set[str]:
        """Return the names of the pods that the metrics APIs know by now."""
        return {pod.name for pod in self.pods if now >= pod.sampled_from}


def _write_pod(pod: _Pod, now: int) -> Json:
    written: Json = {"name": pod.name, "phase": "Running", "deletion_timestamp": None}
    if pod.deleted is not None:
        written["deletion_timestamp"] = format_time(pod.deleted)
    if now < pod.scheduled:
        written.update(phase="Pending", start_time=None, ready=None)
        return written
    if pod.fate != "Running" and now >= pod.fate_from:
        written["phase"] = pod.fate
    written["start_time"] = format_time(pod.scheduled)
    is_ready, transition = now >= pod.ready_from, pod.ready_from
    if not is_ready:
        transition = pod.scheduled
    elif pod.flaps:
        turns = (now - pod.ready_from) // (75 * SECOND)
        is_ready, transition = turns % 2 == 0, pod.ready_from + turns * 75 * SECOND
    status = "True" if is_ready else "False"
    written["ready"] = {"status": status, "last_transition_time": format_time(transition)}
    return written


# --- the load -------------------------------------------------------------------------------------


@dataclass
class Load:
    """The wished number of replicas: wanders, swings or jumps between 0 and above the maximum."""

    rng: random.Random
    kind: str
    value: float
    pauses: float  # probability of a time without load
    quiet_ticks: int = 0

    def next(self, now: int, limit: int) -> float:
        """Draw the wish of the next tick."""
        self.value = self._draw(now, limit)
        return self.value

    def _draw(self, now: int, limit: int) -> float:
        rng = self.rng
        if self.quiet_ticks > 0:
            self.quiet_ticks -= 1
            return 0.0
        if chance(rng, self.pauses):
            self.quiet_ticks = rng.randint(1, 80)
        if chance(rng, 0.03):
            return rng.random() * limit * 1.2
        if self.kind == "noise":
            return max(0.0, rng.gauss(0.5, 0.25) * limit)
        if self.kind == "sine":
            phase = now / (1800 * SECOND) * 2 * math.pi
            return max(0.0, (0.5 + 0.5 * math.sin(phase)) * limit * rng.uniform(0.95, 1.05))
        drift = rng.uniform(-0.08, 0.08) * limit if chance(rng, 0.3) else 0.0
        wandered = self.value * rng.uniform(0.93, 1.07) + drift
        return min(max(0.0, wandered), 1.2 * limit)


# --- the metrics APIs -----------------------------------------------------------------------------


@dataclass
class Apis:
    """What the metrics APIs answer about some pods."""

    rng: random.Random
    flaws: float  # probability of each kind of fault
    containers: list[Json]  # that are sampled

    def answer(
        self, metric: Json, wished: float, replicas: int, now: int, names: list[str]
    ) -> Json:
        """Draw the answer to one metric of an HPA; ``names``: the pods that have samples."""
        rng = self.rng
        if chance(rng, self.flaws):
            return rng.choice([{}, {"metrics_error": error_text(rng)}])
        kind = metric["type"]
        if chance(rng, 0.5):
            wished *= rng.uniform(0.9, 1.1)
        if kind in ("Object", "External"):
            return self._single_answer(metric, wished, replicas)
        if kind not in ("Pods", "Resource", "ContainerResource"):
            return {}
        sampled = [name for name in names if not chance(rng, self.flaws)]
        share = wished / max(1, len(sampled))
        samples = {name: self._sample(metric, share, now) for name in sampled}
        if chance(rng, self.flaws / 2):
            samples["web-gone"] = self._sample(metric, 1.0, now)
        return {"pod_metrics": samples} if samples else {}

    def _single_answer(self, metric: Json, wished: float, replicas: int) -> Json:
        rng = self.rng
        source = metric["object" if metric["type"] == "Object" else "external"]
        target = source["target"]
        unit = 1000
        for text in (target.get("value"), target.get("averageValue")):
            if text is not None:
                unit = int(float(text[:-1])) if text.endswith("m") else int(text) * 1000
        total = round(wished * unit)
        if "averageValue" not in target:
            total = round(unit * wished / max(1, replicas))
        if chance(rng, 0.02):
            total = rng.choice([0, -total, total * 1000])
        if metric["type"] == "Object":
            return {"object_value": any_quantity(rng, total)}
        part = rng.randint(0, max(0, total)) if chance(rng, 0.3) else 0
        parts = [part, total - part] if part else [total]
        return {"external_values": [any_quantity(rng, value) for value in parts]}

    def _sample(self, metric: Json, share: float, now: int) -> Json:
        """Draw one pod's sample; a share of 1.0 is the metric's target."""
        rng = self.rng
        share *= rng.uniform(0.95, 1.05)
        stamp = now - now % SECOND - rng.randint(0, 40) * SECOND
        sample: Json = {"timestamp": format_time(stamp), "window_s": rng.choice([None, 15, 30])}
        if metric["type"] == "Pods":
            sample["value"] = any_quantity(rng, round(share * 1000))
            return sample
        source = metric["resource" if metric["type"] == "Resource" else "containerResource"]
        percent = source["target"].get("averageUtilization", 75)
        sample["containers"] = {
            container["name"]: {
                "cpu": plain_quantity(round(share * percent)),
                "memory": f"{round(share * percent * 1024)}Ki",
            }
            for container in self.containers
        }
        if chance(rng, self.flaws / 4):
            del sample["containers"]["app"]["cpu"]
        if chance(rng, self.flaws / 4):
            del sample["containers"][rng.choice(list(sample["containers"]))]
        return sample


def sampled_containers(document: Json) -> list[Json]:
    """Return the containers of a timeline that metrics-server lists: app ones and sidecars."""
    sidecars = [c for c in document.get("init_containers") or [] if c.get("restart_policy")]
    return list(document.get("containers") or []) + sidecars
