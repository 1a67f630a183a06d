"""Lives of a synthetic workload's pods: created, started, ready, troubled, deleted, gone.

All times are seconds of the day, negative before it.
"""

from __future__ import annotations

import heapq
import uuid
from dataclasses import dataclass, field

import numpy as np

from hpabatch.importers.synth.fleet import Workload
from hpabatch.importers.synth.load import DAY_S, Change, Floats

# The alphabet of Kubernetes' generated names: no vowels, nothing that looks like something else.
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_NODES = 12


@dataclass(slots=True)
class State:
    """A pod's phase and Ready condition from a second on; `ready` None: no such condition."""

    second: float
    phase: str
    ready: str | None
    transition: float | None


@dataclass(slots=True)
class Life:
    """One pod. `started` is None while it waits for a node; `stopped` ends its samples."""

    name: str
    uid: str
    owner: str
    target: str
    revision: str
    created: float
    node: str
    started: float | None = None
    ready_at: float = np.inf
    deleted: float | None = None
    gone: float | None = None
    stopped: float = np.inf
    states: list[State] = field(default_factory=list)
    downs: list[tuple[float, float]] = field(default_factory=list)

    def serves(self, seconds: Floats) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Return at which seconds the pod is ready and takes its part of the work."""
        end = min(self.stopped, np.inf if self.deleted is None else self.deleted)
        mask = np.asarray((seconds >= self.ready_at) & (seconds < end))
        for begin, until in self.downs:
            mask &= (seconds < begin) | (seconds >= until)
        return mask


@dataclass(frozen=True, slots=True)
class ScaleRow:
    """The scale's numbers from a second on."""

    second: float
    spec_replicas: int
    status_replicas: int


class PodFactory:
    """Makes, replaces and removes the pods of one workload as its size changes."""

    def __init__(self, workload: Workload, rng: np.random.Generator) -> None:
        """Start without pods."""
        self.workload = workload
        self.rng = rng
        self.lives: list[Life] = []
        self.active: list[Life] = []
        self.scales: list[ScaleRow] = []
        self.size = 0
        self.revision = self._word(10)
        self._events: list[tuple[float, int, str, Life | int | None]] = []
        self._order = 0

    def run(self, changes: tuple[Change, ...]) -> None:
        """Play the day: recorded sizes, rollout and everything that goes wrong."""
        for change in changes:
            self._at(change.second, "size", change.replicas)
        trouble = self.workload.trouble
        if self.workload.rollout_hour is not None:
            self._at(self.workload.rollout_hour * 3600, "rollout", None)
        if trouble.evicted_hour is not None:
            self._at(trouble.evicted_hour * 3600, "evict", None)
        if trouble.job_hour is not None:
            self._at(trouble.job_hour * 3600, "job", None)
        for _ in range(trouble.restarts):
            self._at(float(self.rng.integers(2 * 3600, 22 * 3600)), "restart", None)
        if trouble.flaky_hour is not None:
            self._at(trouble.flaky_hour * 3600 + 240, "flaky", None)
        while self._events:
            second, _, kind, payload = heapq.heappop(self._events)
            if second < DAY_S:
                self._happen(second, kind, payload)

    def _at(self, second: float, kind: str, payload: Life | int | None) -> None:
        self._order += 1
        heapq.heappush(self._events, (second, self._order, kind, payload))

    def _happen(self, second: float, kind: str, payload: Life | int | None) -> None:
        if kind == "size" and isinstance(payload, int):
            self._resize(second, payload)
        elif kind == "rollout":
            self.revision = self._word(10)
            self._at(second + 1, "replace", None)
        elif kind == "replace":
            self._replace_oldest(second)
        elif kind == "remove" and isinstance(payload, Life):
            if payload in self.active:
                self._remove(second, payload)
                self._record(second)
            self._at(second + 2, "replace", None)
        elif kind == "job":
            self._run_job(second)
        elif self.active:
            {"evict": self._evict, "restart": self._restart, "flaky": self._flaky}[kind](second)

    def _resize(self, second: float, size: int) -> None:
        first = not self.scales
        self.size = size
        if not first:
            # The controller of the workload follows within a second.
            self._record(second)
        while len(self.active) < size:
            self._create(self._age() if first else second + 1)
        while len(self.active) > size:
            self._remove(second + 1, self._victim())
        self._record(-86_400.0 if first else second + 1)

    def _record(self, second: float) -> None:
        self.scales.append(ScaleRow(second, self.size, len(self.active)))

    def _age(self) -> float:
        """Return a creation some hours to some days before the day."""
        return -float(self.rng.integers(6 * 3600, 4 * DAY_S))

    def _victim(self) -> Life:
        """Return the pod to remove: of a StatefulSet the last one, else the newest."""
        if self.workload.kind == "StatefulSet":
            return max(self.active, key=lambda life: int(life.name.rsplit("-", 1)[1]))
        return max(self.active, key=lambda life: (life.ready_at, life.created, life.name))

    def _create(self, second: float) -> Life:
        work = self.workload
        if work.kind == "StatefulSet":
            taken = {life.name for life in self.active}
            name = next(f"{work.name}-{i}" for i in range(1000) if f"{work.name}-{i}" not in taken)
            owner = f"StatefulSet/{work.name}"
        else:
            name = f"{work.name}-{self.revision}-{self._word(5)}"
            owner = f"ReplicaSet/{work.name}-{self.revision}"
        life = self._pod(name, owner, work.name, second)
        self._start(life, second + self._wait_for_node(second))
        self.active.append(life)
        return life

    def _pod(self, name: str, owner: str, target: str, second: float) -> Life:
        uid = new_uid(self.rng)
        node = f"node-{int(self.rng.integers(1, _NODES + 1)):02d}"
        life = Life(name, uid, owner, target, self.revision, second, node)
        life.states.append(State(second, "Pending", None, None))
        self.lives.append(life)
        return life

    def _wait_for_node(self, second: float) -> float:
        hour = self.workload.trouble.pending_hour
        if hour is not None and hour * 3600 <= second < hour * 3600 + 1800:
            return hour * 3600 + 2400 + float(self.rng.integers(0, 60)) - second
        return float(self.rng.integers(1, 4))

    def _start(self, life: Life, second: float) -> None:
        """Let a pod start: Pending on its node, Running, Ready."""
        life.started = float(np.floor(second))
        running = second + 2
        if any(container.kind == "init" for container in self.workload.containers):
            life.states.append(State(second + 1, "Pending", "False", life.started))
            running += 18
        life.states.append(State(running, "Running", "False", life.started))
        delay = self.workload.startup_s * float(self.rng.uniform(0.85, 1.3))
        life.ready_at = float(np.ceil(running + delay))
        life.states.append(State(life.ready_at, "Running", "True", life.ready_at))

    def _remove(self, second: float, life: Life) -> None:
        self.active.remove(life)
        life.deleted = second
        life.gone = second + float(self.rng.integers(3, 32))
        life.stopped = life.gone
        self._forget_after(life, second)
        if life.ready_at < second:
            stop = float(np.ceil(life.gone - 1))
            life.states.append(State(stop, "Running", "False", stop))

    def _forget_after(self, life: Life, second: float) -> None:
        """Drop what was planned for a pod but does not happen any more."""
        life.states = [state for state in life.states if state.second < second]
        if life.started is not None and life.started >= second:
            life.started = None

    def _replace_oldest(self, second: float) -> None:
        """One step of a rollout: a new pod beside the oldest of the old revision."""
        old = [life for life in self.active if life.revision != self.revision]
        if not old:
            return
        victim = min(old, key=lambda life: (life.created, life.name))
        fresh = self._create(second)
        self._record(second)
        self._at(fresh.ready_at + 1, "remove", victim)

    def _evict(self, second: float) -> None:
        """The oldest pod fails; its object stays, another pod takes its place."""
        life = min(self.active, key=lambda life: (life.created, life.name))
        self.active.remove(life)
        life.stopped = second
        self._forget_after(life, second)
        life.states.append(State(second, "Failed", "False", float(np.floor(second))))
        self._create(second + 1)

    def _restart(self, second: float) -> None:
        """A container is killed and comes back; the pod stays the same."""
        life = self.active[int(self.rng.integers(0, len(self.active)))]
        if life.ready_at + 600 > second:
            return
        self._down(life, second, second + 15 + self.workload.startup_s)

    def _flaky(self, second: float) -> None:
        """Half of the pods fail their readiness probe again and again for half an hour."""
        for life in self.active[::2]:
            at = second + float(self.rng.integers(0, 200))
            while at < second + 1800:
                until = at + float(self.rng.integers(40, 130))
                if life.ready_at < at - 30:
                    self._down(life, at, until)
                at = until + float(self.rng.integers(60, 240))

    def _down(self, life: Life, second: float, until: float) -> None:
        second, until = float(np.floor(second)), float(np.floor(until))
        life.downs.append((second, until))
        life.states.append(State(second, "Running", "False", second))
        life.states.append(State(until, "Running", "True", until))

    def _run_job(self, second: float) -> None:
        """A Job's pod with the same label: not one of the workload's, but the HPA counts it."""
        target = f"{self.workload.name}-migrate"
        life = self._pod(f"{target}-{self._word(5)}", f"Job/{target}", target, second)
        end = second + 420
        life.started = second + 2
        life.stopped = end
        life.gone = end + 3600
        life.states.append(State(second + 4, "Running", "True", second + 4))
        life.states.append(State(end, "Succeeded", "False", end))

    def _word(self, length: int) -> str:
        return "".join(_ALPHABET[int(i)] for i in self.rng.integers(0, len(_ALPHABET), length))


def new_uid(rng: np.random.Generator) -> str:
    """Return an object's uid as Kubernetes writes it, drawn from the stream."""
    return str(uuid.UUID(bytes=rng.bytes(16), version=4))
