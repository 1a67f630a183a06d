"""The pods of the naive simulator: docs/simulation.md, "Pods", one object for each pod.

Where the document leaves something open, a comment that starts with "Reading:" says what is done.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

Json = dict[str, Any]

SECOND_MS = 1000
FIRST_LOSS_DRAW = 1000
FIRST_FAILURE_DRAW = 2048


class Sample(NamedTuple):
    """What a pipeline last measured of a pod or of a total."""

    ts: int
    value: int


@dataclass
class Pod:
    """One pod with everything that is known of it; None: not so far."""

    number: int
    pod_class: int
    share: int
    cost: int
    revision: int
    created: int
    scheduled: bool = False
    started: int | None = None
    ready: int | None = None
    serve: int | None = None
    unready_since: int | None = None
    deletion: int | None = None
    gone: int | None = None
    samples: dict[str, Sample] = field(default_factory=dict)

    def is_live(self) -> bool:
        """Tell whether nobody has marked the pod for deletion."""
        return self.deletion is None

    def is_ready(self, now: int) -> bool:
        """Tell whether the pod is ready at an instant."""
        return self.scheduled and self.ready is not None and self.ready <= now

    def is_visible(self, now: int) -> bool:
        """Tell whether the controller sees the pod."""
        return self.created <= now and (self.gone is None or now < self.gone)

    def is_gone(self, now: int) -> bool:
        """Tell whether the pod has vanished."""
        return self.gone is not None and self.gone <= now

    def is_billed(self, now: int) -> bool:
        """Tell whether the pod, which has not vanished, takes a place on a node."""
        return self.scheduled and self.created <= now


def whole_seconds_up(instant: int) -> int:
    """Round up to whole seconds: the document's ``s``."""
    return -(-instant // SECOND_MS) * SECOND_MS


class Clock:
    """The instants of the ticks."""

    def __init__(self, case: Json) -> None:
        self.start: int = case["start_ms"]
        self.period: int = case["period_ms"]

    def now(self, tick: int) -> int:
        """Return the instant of a tick; ticks before the run's first one have negative numbers."""
        return self.start + tick * self.period

    def first_tick_from(self, instant: int) -> int:
        """Return the instant of the run's first tick at or after an instant."""
        return self.now(max(0, -((self.start - instant) // self.period)))


class Cluster:
    """The target with its pods (those that have not vanished, in order of their numbers)."""

    def __init__(self, case: Json) -> None:
        self.clock = Clock(case)
        self.rules: Json = case["plant"]["pods"]
        self.draws: list[int] = case["draws"]
        self.first_draw: int = case["plant"]["first_draw"]
        self.pods: list[Pod] = []
        self.size: int = case["initial"]
        self.born = 0
        self.revision = 0
        self.rolling = False
        self.served = 0
        self.failures = 0
        for _ in range(self.size):
            self._add_initial_pod()

    def draw(self, index: int) -> int:
        """Return the workload's random number of an index."""
        return self.draws[(self.first_draw + index) % len(self.draws)]

    # --- coming

    def _new_pod(self, created: int) -> Pod:
        shares, costs = self.rules["shares"], self.rules["costs"]
        pod_class = self.born % len(shares)
        pod = Pod(
            number=self.born,
            pod_class=pod_class,
            share=shares[pod_class],
            cost=costs[pod_class],
            revision=self.revision,
            created=created,
        )
        self.born += 1
        self.pods.append(pod)
        return pod

    def _add_initial_pod(self) -> None:
        # Reading: the instant is taken as it is, whole second or not.
        pod = self._new_pod(self.clock.start - self.rules["initial_age_ms"])
        pod.scheduled = True
        pod.started = pod.ready = pod.serve = pod.unready_since = pod.created

    def create(self, instant: int) -> None:
        """Create a pod; it is scheduled at once if there is room."""
        has_room = self.has_room(instant)
        pod = self._new_pod(instant + self.rules["reaction_ms"])
        if has_room:
            self._schedule(pod, pod.created)

    def has_room(self, instant: int) -> bool:
        """Tell whether one more pod can be scheduled."""
        capacity = self.rules["capacity"]
        there = [pod for pod in self.pods if pod.scheduled and not pod.is_gone(instant)]
        return bool(capacity == 0 or len(there) < capacity)

    def _schedule(self, pod: Pod, instant: int) -> None:
        table = self.rules["startup_ms"]
        scheduling, starting = table[self.draw(pod.number) % len(table)]
        pod.scheduled = True
        pod.started = whole_seconds_up(instant + scheduling)
        pod.unready_since = pod.started
        pod.ready = whole_seconds_up(pod.started + starting)
        pod.serve = self.clock.first_tick_from(pod.ready)

    def schedule_waiting(self, now: int) -> None:
        """Schedule the pods that wait, as far as there is room.

        A pod that is to be deleted does not wait any more; one whose ``created`` is still to come
        does.
        """
        for pod in self.pods:
            if not pod.scheduled and pod.is_live() and self.has_room(now):
                self._schedule(pod, max(now, pod.created))

    # --- going

    def live(self) -> list[Pod]:
        """Return the pods that have no deletion."""
        return [pod for pod in self.pods if pod.is_live()]

    def removal_order(self, pods: list[Pod], now: int) -> list[Pod]:
        """Sort pods: first removed first."""
        if self.rules["removal"] == "statefulset":
            return sorted(pods, key=lambda pod: -pod.number)

        def rank(pod: Pod) -> tuple[int, ...]:
            return (
                1 if pod.scheduled else 0,
                1 if pod.is_ready(now) else 0,
                pod.cost,
                -(pod.ready or 0),  # unscheduled pods, which have neither, are equal in both
                -pod.created,
                -(pod.started or 0),
                -pod.share,
                -pod.number,
            )

        return sorted(pods, key=rank)

    def delete(self, pod: Pod, instant: int) -> None:
        """Mark a pod for deletion."""
        pod.deletion = instant + self.rules["reaction_ms"]
        pod.gone = pod.deletion + (self.rules["termination_ms"] if pod.scheduled else 0)

    def vanish(self, now: int) -> None:
        """Let the pods vanish whose time has come."""
        self.pods = [pod for pod in self.pods if pod.gone is None or pod.gone > now]

    def resize(self, size: int, instant: int) -> None:
        """Give the target a new size, and create or delete pods (outside rollouts)."""
        self.size = size
        if self.rolling:
            return
        live = self.live()
        for _ in range(size - len(live)):
            self.create(instant)
        for pod in self.removal_order(live, instant)[: max(0, len(live) - size)]:
            self.delete(pod, instant)

    # --- what happens to them

    def lose(self, thousandths: int, instant: int) -> None:
        """Let a share of the live pods vanish at once."""
        count = (len(self.live()) * thousandths + 500) // 1000
        for index in range(count):
            candidates = self.removal_order(self.live(), instant)
            lost = candidates[self.draw(FIRST_LOSS_DRAW + index) % len(candidates)]
            lost.deletion = lost.gone = instant
            self.pods.remove(lost)
        self.resize(self.size, instant)

    def start_rollout(self) -> None:
        """Begin a rollout: all pods that there are become old."""
        self.revision += 1
        self.rolling = True

    def progress_rollout(self, now: int) -> None:
        """Replace old pods by new ones as far as surge and unavailability allow."""
        if not self.rolling:
            return
        size = self.size
        surge = -(-size * self.rules["surge_pct"] // 100)
        away = size * self.rules["unavailable_pct"] // 100
        if surge == 0 and away == 0:  # Reading: the numbers of pods, not the percentages
            away = 1

        new, old = self._by_revision()
        for _ in range(min(size - len(new), size + surge - len(new) - len(old))):
            self.create(now)

        new, old = self._by_revision()
        unready = sum(not pod.is_ready(now) for pod in new)
        surplus = len(new) + len(old) - (size - away) - unready
        for pod in self.removal_order(old, now)[: max(0, min(len(old), surplus))]:
            self.delete(pod, now)

        for pod in self.removal_order(new, now)[: max(0, len(new) - size)]:
            self.delete(pod, now)

        new, old = self._by_revision()
        if not old and len(new) == size:
            self.rolling = False

    def _by_revision(self) -> tuple[list[Pod], list[Pod]]:
        """Return the live pods of the newest revision, and those of older ones."""
        live = self.live()
        new = [pod for pod in live if pod.revision == self.revision]
        return new, [pod for pod in live if pod.revision != self.revision]

    def serving(self, now: int) -> list[Pod]:
        """Return the pods that serve in the step that begins at an instant."""
        return [pod for pod in self.pods if self._serves(pod, now)]

    def _serves(self, pod: Pod, now: int) -> bool:
        if not pod.scheduled or pod.serve is None or pod.serve > now:
            return False
        if pod.deletion is None or pod.deletion > now:
            return True
        assert pod.gone is not None
        return bool(self.rules["serves_while_terminating"]) and pod.gone > now

    def fail(self, tick: int, serving: list[Pod]) -> None:
        """At the end of a step, let pods fail for which the time in service is reached.

        Reading: a failure that finds no pod waits for the end of the next step.
        """
        candidates = [pod for pod in serving if pod.is_live()]
        self.served += len(candidates) * self.clock.period
        failed_at = self.clock.now(tick + 1) // SECOND_MS * SECOND_MS
        thresholds = self.rules["failure_at_ms"]
        while (
            candidates
            and self.failures < len(thresholds)
            and self.served >= thresholds[self.failures]
        ):
            order = self.removal_order(candidates, failed_at)
            pod = order[self.draw(self.failures + FIRST_FAILURE_DRAW) % len(order)]
            pod.unready_since = failed_at
            pod.ready = whole_seconds_up(failed_at + self.rules["restart_ms"])
            pod.serve = self.clock.first_tick_from(pod.ready)
            candidates.remove(pod)
            self.failures += 1
