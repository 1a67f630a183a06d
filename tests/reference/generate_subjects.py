"""Measurements of a random workload, and a pod's share of each."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from .generate_values import chance

Json = dict[str, Any]

_MIB_MILLI = 1024 * 1024 * 1000


@dataclass
class Subject:
    """Something that can be measured, and the level of it that one pod is meant to have."""

    name: str
    kind: str  # of its signal
    level: int
    request: int | None = None
    metric: Json = field(default_factory=dict)  # type and source, without a target

    @property
    def api(self) -> str:
        """Return the metrics API that measures it."""
        apis = {"Pods": "custom", "Object": "external", "External": "external"}
        return apis.get(self.metric["type"], "resource")


@dataclass
class Plan:
    """What holds for the whole case."""

    rng: random.Random
    start: int
    period: int
    steps: int
    limit: int  # bound of maxReplicas
    zero: bool  # minReplicas may be 0
    requests_known: bool

    @property
    def end(self) -> int:
        """Return the instant at which the last step ends."""
        return self.start + self.steps * self.period

    def instant(self) -> int:
        """Draw an instant of the run, or shortly before it; often exactly a tick's."""
        if chance(self.rng, 0.3):
            return self.start + self.rng.randrange(self.steps) * self.period
        return self.rng.randrange(self.start - 2 * self.period, self.end)


# --- subjects -------------------------------------------------------------------------------------


def _cpu(rng: random.Random) -> int:
    return rng.choice([100, 250, 333, 1000, rng.randint(20, 4000)])


def _memory(rng: random.Random) -> int:
    return rng.choice([64, 100, 256, 1024]) * _MIB_MILLI + rng.choice([0, 0, 777])


def _resource(rng: random.Random, container: str | None) -> Subject:
    resource = rng.choice(["cpu", "cpu", "memory"])
    kinds = ["divisible", "divisible", "divisible", "per_pod"]
    if resource == "memory":
        kinds += ["age", "age", "age"]
    source: Json = {"name": resource}
    if container is not None:
        source["container"] = container
    return Subject(
        name=f"resource/{resource}" if container is None else f"container/{container}/{resource}",
        kind=rng.choice(kinds),
        level=_cpu(rng) if resource == "cpu" else _memory(rng),
        metric={"type": "Resource", "resource": source}
        if container is None
        else {"type": "ContainerResource", "containerResource": source},
    )


def _identifier(rng: random.Random, name: str) -> tuple[Json, str]:
    """Draw a metric's identifier; return it with its name in a signal's name."""
    draw = rng.random()
    if draw < 0.7:
        return {"name": name}, name
    if draw < 0.85:
        return {"name": name, "selector": {"matchLabels": {"queue": "a"}}}, f"{name}{{queue=a}}"
    labels = {"zone": "b", "queue": "orders"}
    return {"name": name, "selector": {"matchLabels": labels}}, f"{name}{{queue=orders,zone=b}}"


def _pods_metric(rng: random.Random) -> Subject:
    identifier, text = _identifier(rng, rng.choice(["qps", "busy"]))
    kind = rng.choice(["divisible", "divisible", "per_pod"])
    level = rng.choice([500, 1000, 30_000, rng.randint(1, 99_999)])
    return Subject(
        f"pods/{text}", kind, level, None, {"type": "Pods", "pods": {"metric": identifier}}
    )


def _total(rng: random.Random, metric_type: str) -> Subject:
    identifier, text = _identifier(rng, rng.choice(["load", "depth"]))
    kind = rng.choice(["total", "backlog"])
    level = rng.choice([1000, 7000, 20_000, rng.randint(1, 99_999)])
    if metric_type == "External":
        source = {"type": "External", "external": {"metric": identifier}}
        return Subject(f"external/{text}", kind, level, None, source)
    described = {"kind": "Ingress", "name": "web", "apiVersion": "networking.k8s.io/v1"}
    source = {"type": "Object", "object": {"describedObject": described, "metric": identifier}}
    return Subject(f"object/Ingress/web/{text}", kind, level, None, source)


def draw_subjects(plan: Plan) -> list[Subject]:
    """Draw what is measured: at least one total where minReplicas may be 0."""
    rng = plan.rng
    found: dict[str, Subject] = {}
    if plan.zero:
        subject = _total(rng, rng.choice(["Object", "External"]))
        found[subject.name] = subject
    for _ in range(rng.randint(0 if plan.zero else 1, 4)):
        kind = rng.choice(["Resource", "Resource", "Container", "Pods", "Object", "External"])
        if kind in ("Resource", "Container"):
            subject = _resource(rng, None if kind == "Resource" else rng.choice(["app", "proxy"]))
            known = plan.requests_known or chance(rng, 0.5)
            subject.request = max(1, subject.level * 100 // rng.randint(30, 150)) if known else None
        elif kind == "Pods":
            subject = _pods_metric(rng)
        else:
            subject = _total(rng, kind)
        found.setdefault(subject.name, subject)
    subjects = list(found.values())
    rng.shuffle(subjects)
    return subjects
