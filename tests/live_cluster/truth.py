"""Decisions of upstream's controller, from the API server's audit log.

It syncs one HPA after another: reads the target's scale, asks for metrics, writes the scale if it
rescales, then the status if that changed. The instant of a decision is when the scale was asked
for; it lasts until the last answer of that sync.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from tests.live_cluster.server import Json

AGENT = "horizontal-pod-autoscaler"
CONDITIONS = "autoscaling.alpha.kubernetes.io/conditions"
METRIC_GROUPS = ("metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io")
POLICY = """apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: RequestResponse
  users: ["system:kube-controller-manager"]
  verbs: [get, update]
  resources:
  - {group: apps, resources: [deployments/scale, replicasets/scale, statefulsets/scale]}
  - {group: "", resources: [replicationcontrollers/scale]}
  - {group: hpabatch.example, resources: [widgets/scale]}
  - {group: autoscaling, resources: [horizontalpodautoscalers/status]}
- level: Metadata
  users: ["system:kube-controller-manager"]
  verbs: [get, list]
  resources:
  - {group: metrics.k8s.io}
  - {group: custom.metrics.k8s.io}
  - {group: external.metrics.k8s.io}
- level: None
"""


class Hpa(NamedTuple):
    """Which HPA."""

    namespace: str
    name: str


class Target(NamedTuple):
    """Which scale, as a path of the API names it."""

    resource: str
    namespace: str
    name: str


class Status(NamedTuple):
    """A status that the controller wrote; `reasons` by condition type."""

    at_us: int
    current: int
    desired: int
    reasons: Mapping[str, str]


@dataclass
class Sync:
    """One sync of an HPA; times in µs: asked for the scale, for metrics, wrote the scale, ended.

    `replicas` is the size that it saw (None: the scale was not there), `written` the size that it
    wrote to the scale (`refused`: it could not), `status` the status that it wrote; None: none.
    """

    at_us: int
    end_us: int
    replicas: int | None
    metrics_us: int | None = None
    write_us: int | None = None
    written: int | None = None
    refused: bool = False
    status: Status | None = None

    @property
    def at_ms(self) -> int:
        return self.at_us // 1000

    @property
    def end_ms(self) -> int:
        return -(-self.end_us // 1000)

    @property
    def decided_ms(self) -> int:
        """The last moment at which it can have decided: it writes the scale, or it is over."""
        return self.end_ms if self.write_us is None else self.write_us // 1000

    @property
    def desired(self) -> int | None:
        """The size that the decision leaves the target at; None: there was none, or not known."""
        if self.refused:
            return None
        return self.replicas if self.written is None else self.written


@dataclass
class Truth:
    """Every sync of every HPA whose target is known, in order, and all statuses written."""

    syncs: dict[Hpa, list[Sync]] = field(default_factory=dict)
    statuses: dict[Hpa, list[Status]] = field(default_factory=dict)

    def sizes(self, hpa: Hpa) -> list[int]:
        """Return the sizes that were decided, repetitions left out."""
        return distinct(sync.desired for sync in self.syncs.get(hpa, ()))

    def until(self, end_ms: int) -> Truth:
        """Return what was done until an instant."""
        return Truth(
            {h: [s for s in syncs if s.end_ms <= end_ms] for h, syncs in self.syncs.items()},
            {h: [s for s in all_ if s.at_us <= end_ms * 1000] for h, all_ in self.statuses.items()},
        )


def distinct(sizes: Iterable[int | None]) -> list[int]:
    """Return sizes without None and without repetitions in a row."""
    found: list[int] = []
    for size in sizes:
        if size is not None and (not found or found[-1] != size):
            found.append(size)
    return found


def read_truth(log: Path, targets: Mapping[Target, Hpa]) -> Truth:
    """Read an audit log of the policy above; each target belongs to one HPA."""
    events = []
    with log.open() as lines:
        for line in lines:
            event = json.loads(line)
            if AGENT in event.get("userAgent", "") and event["stage"] == "ResponseComplete":
                events.append((_us(event["requestReceivedTimestamp"]), event))
    events.sort(key=lambda pair: pair[0])
    truth, open_sync, open_hpa = Truth(), None, None
    for at_us, event in events:
        ref = event.get("objectRef") or {}
        if ref.get("subresource") == "scale":
            hpa = targets.get(Target(ref["resource"], ref["namespace"], ref["name"]))
            if hpa is None:
                open_sync = open_hpa = None
            elif event["verb"] == "get":
                open_sync, open_hpa = _began(event, at_us), hpa
                truth.syncs.setdefault(hpa, []).append(open_sync)
            elif open_sync is not None and hpa == open_hpa:
                # The log holds the answer to it only, so a refused size is not known.
                open_sync.refused = event["responseStatus"]["code"] >= 400
                open_sync.write_us = at_us
                open_sync.written = _replicas(event)
        elif ref.get("subresource") == "status":
            hpa = Hpa(ref["namespace"], ref["name"])
            if event["responseStatus"]["code"] < 400:
                status = _status(event, at_us)
                truth.statuses.setdefault(hpa, []).append(status)
                if open_sync is not None and hpa == open_hpa:
                    open_sync.status = status
            if hpa != open_hpa:  # of an unknown kind: there is no scale to ask for
                open_sync = open_hpa = None
        elif ref.get("apiGroup") in METRIC_GROUPS and open_sync is not None:
            open_sync.metrics_us = open_sync.metrics_us or at_us
        else:
            continue
        if open_sync is not None:
            open_sync.end_us = max(open_sync.end_us, _us(event["stageTimestamp"]))
    return truth


def _began(event: Json, at_us: int) -> Sync:
    return Sync(at_us, _us(event["stageTimestamp"]), _replicas(event))


def _replicas(event: Json) -> int | None:
    if event["responseStatus"]["code"] >= 400:
        return None
    return int(event["responseObject"]["spec"].get("replicas", 0))


def _status(event: Json, at_us: int) -> Status:
    body = event["requestObject"]
    told = json.loads(body["metadata"].get("annotations", {}).get(CONDITIONS, "[]"))
    status = body.get("status", {})
    return Status(
        at_us, status.get("currentReplicas", 0), status.get("desiredReplicas", 0),
        {one["type"]: one["reason"] for one in told},
    )  # fmt: skip


def _us(text: str) -> int:
    moment = datetime.fromisoformat(text)
    return int(moment.timestamp()) * 1_000_000 + moment.microsecond
