"""The closed loop of the standard benchmark in plain Python: a fair loop, no pod is an object.

The same rules, plant and measures as the compiled simulation has for one cpu metric, one start-up
time and `behavior`; what the benchmark does not use (queues, classes, failures, rollouts, scale to
zero) is left out. A batch of equal pods is one list. The benchmark asserts equal trajectories.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

NEVER: Final = 1 << 60
SECOND: Final = 1000
HOUR: Final = 3_600_000

# Fields of a batch of pods.
COUNT, CREATED, STARTED, READY, SERVE, DELETION, GONE, SAMPLE, SAMPLE_TS = range(9)
Batch = list[int]
Policy = tuple[bool, int, int]
"""Whether it counts pods (else percent), its value and its period in ms."""


@dataclass(frozen=True)
class Rules:
    """An HPA with one cpu utilization target and a behavior; its flags."""

    target_pct: int
    lowest: int
    highest: int
    up_window_ms: int
    down_window_ms: int
    up: Sequence[Policy]
    down: Sequence[Policy]
    tolerance: float = 0.1
    initialization_ms: int = 300_000


@dataclass(frozen=True)
class Pods:
    """A plant with one divisible signal, its overload dropped, and one class of pods."""

    base: int
    ceiling: int
    startup: int
    request: int
    capacity: int
    scheduling_ms: int = 1000
    starting_ms: int = 14_000
    reaction_ms: int = 500
    termination_ms: int = 30_000
    initial_age_ms: int = 3_600_000
    interval_ms: int = 15_000
    window_ms: int = 15_000
    first_sample_ms: int = 15_000
    max_age_ms: int = 60_000


@dataclass
class Measures:
    """Sums over the steps, and what is needed between two of them."""

    pod_ms: int = 0
    under: float = 0.0
    over: float = 0.0
    under_steps: int = 0
    over_steps: int = 0
    unstable: int = 0
    saturated: int = 0
    unserved: int = 0
    rescales: int = 0
    reversals: int = 0
    direction: int = 0
    last: tuple[int, int] = (0, 0)
    replicas: list[int] = field(default_factory=list)


def whole_second(ms: int) -> int:
    """Return an instant rounded up to whole seconds."""
    return -(-ms // SECOND) * SECOND


class Loop:
    """One HPA, its pods and its controller's memory."""

    def __init__(self, rules: Rules, pods: Pods, start_ms: int, period_ms: int, size: int) -> None:
        """Begin with `size` pods that have served the first step's work for ever."""
        self.rules, self.pods = rules, pods
        self.start_ms, self.period_ms, self.size = start_ms, period_ms, size
        since = start_ms - pods.initial_age_ms
        self.batches: list[Batch] = [[size, since, since, since, since, NEVER, NEVER, 0, -1]]
        self.done: list[int] = []  # work of a serving pod in each step
        self.integral: list[int] = [0]  # of that, until each step's begin
        self.before = 0
        self.next_scrape = start_ms
        self.recommendations: list[tuple[int, int]] = []
        self.events: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
        self.measures = Measures()

    # ---- the plant

    def integral_at(self, ms: int) -> int:
        """Return the integral of a serving pod's work until an instant."""
        past = ms - self.start_ms
        if past <= 0:
            return self.before * past
        step = min(past // self.period_ms, len(self.done) - 1)
        return self.integral[step] + self.done[step] * (past - step * self.period_ms)

    def sample(self, now_ms: int) -> None:
        """Take in the newest scrape that this tick sees."""
        pods, ts = self.pods, -1
        while self.next_scrape <= now_ms:
            ts = self.next_scrape
            self.next_scrape += pods.interval_ms
        if ts < 0:
            return
        for batch in self.batches:
            started, serve = batch[STARTED], batch[SERVE]
            if started + pods.first_sample_ms > ts or batch[GONE] <= ts:
                continue
            since = max(ts - pods.window_ms, started)
            serving_since = max(since, serve)
            served = work = 0
            if serving_since < ts:
                served = ts - serving_since
                work = self.integral_at(ts) - self.integral_at(serving_since)
            idle = ts - since - served
            used = pods.base * served + work + pods.startup * idle
            batch[SAMPLE], batch[SAMPLE_TS] = used // (ts - since), ts

    def resize(self, now_ms: int) -> None:
        """Create or delete pods, the newest first."""
        pods = self.pods
        live = [batch for batch in self.batches if batch[DELETION] == NEVER]
        missing = self.size - sum(batch[COUNT] for batch in live)
        at_ms = now_ms + pods.reaction_ms
        if missing > 0:
            started = whole_second(at_ms + pods.scheduling_ms)
            ready = whole_second(started + pods.starting_ms)
            late = -(-(ready - self.start_ms) // self.period_ms)
            serve = self.start_ms + late * self.period_ms
            self.batches.append([missing, at_ms, started, ready, serve, NEVER, NEVER, 0, -1])
        for batch in sorted(live, key=lambda batch: -batch[READY]):
            if missing >= 0:
                return
            going = min(-missing, batch[COUNT])
            gone = at_ms + pods.termination_ms
            if going < batch[COUNT]:
                batch[COUNT] -= going
                batch = [going, *batch[1:]]
                self.batches.append(batch)
            batch[DELETION], batch[GONE] = at_ms, gone
            missing += going

    def serve(self, now_ms: int, work: int) -> tuple[int, int]:
        """Share a step's work; return how many pods serve and how much is left."""
        pods = self.pods
        serving = sum(
            batch[COUNT] for batch in self.batches if batch[SERVE] <= now_ms < batch[DELETION]
        )
        each = work // serving if serving else 0
        done = min(each, pods.ceiling - pods.base)
        self.done.append(done)
        self.integral.append(self.integral[-1] + done * self.period_ms)
        if not serving and work:
            self.measures.saturated += 1
            return 0, work
        self.measures.saturated += each > done
        return serving, (each - done) * serving

    # ---- the controller

    def propose(self, now_ms: int, current: int) -> int | None:
        """Return what the metric asks for, None if it cannot tell."""
        rules, pods = self.rules, self.pods
        ready = unready = missing = usage = 0
        for count, created, started, is_ready, _, deletion, gone, value, ts in self.batches:
            if not created <= now_ms < gone or deletion <= now_ms:
                continue
            if ts < 0 or now_ms - ts > pods.max_age_ms:
                if now_ms < started:
                    unready += count
                else:
                    missing += count
                continue
            if now_ms < started:
                unready += count
            elif now_ms < started + rules.initialization_ms:
                if now_ms >= is_ready and ts >= is_ready + pods.window_ms:
                    ready += count
                    usage += value * count
                else:
                    unready += count
            elif now_ms >= is_ready:
                ready += count
                usage += value * count
            else:
                unready += count
        if ready == 0:
            return None
        return self.calculate(current, ready, unready, missing, usage)

    def calculate(self, current: int, ready: int, unready: int, missing: int, usage: int) -> int:
        """Return the replicas for a usage (`GetResourceReplicas`)."""
        rules, request = self.rules, self.pods.request
        ratio = usage * 100 // (ready * request) / rules.target_pct
        grows_unready = unready > 0 and ratio > 1.0
        if not grows_unready and missing == 0:
            if self.within(ratio):
                return current
            return math.ceil(ratio * ready)
        counted = ready
        if missing and ratio != 1.0:
            counted += missing
            if ratio < 1.0:
                usage += missing * request * max(100, rules.target_pct) // 100
        if grows_unready:
            counted += unready
        again = usage * 100 // (counted * request) / rules.target_pct
        if self.within(again) or (ratio < 1.0) != (again < 1.0):
            return current
        wanted = math.ceil(again * counted)
        turned = wanted > current if again < 1.0 else wanted < current
        return current if turned else wanted

    def within(self, ratio: float) -> bool:
        """Say whether a ratio is no reason to do anything."""
        return 1.0 - self.rules.tolerance <= ratio <= 1.0 + self.rules.tolerance

    def stabilize(self, now_ms: int, current: int, wanted: int) -> int:
        """Keep a wish within both windows (`stabilizeRecommendationWithBehaviors`)."""
        rules = self.rules
        up_cutoff, down_cutoff = now_ms - rules.up_window_ms, now_ms - rules.down_window_ms
        lowest = highest = wanted
        for ms, value in self.recommendations:
            if ms > up_cutoff and value < lowest:
                lowest = value
            if ms > down_cutoff and value > highest:
                highest = value
        oldest = min(up_cutoff, down_cutoff)
        kept = [pair for pair in self.recommendations if pair[0] >= oldest]
        self.recommendations = [*kept, (now_ms, wanted)]
        return min(max(current, lowest), highest)

    def limit(self, now_ms: int, current: int, wanted: int) -> int:
        """Keep a wish within the policies and bounds (`convertDesiredReplicasWithBehaviorRate`)."""
        if wanted == current:
            return current
        rules, ups = self.rules, wanted > current
        limits = []
        for counts_pods, value, period_ms in rules.up if ups else rules.down:
            cutoff = now_ms - period_ms
            added, removed = (
                sum(change for ms, change in events if ms > cutoff) for events in self.events
            )
            start = current - added + removed
            if counts_pods:
                limits.append(start + value if ups else start - value)
            elif ups:
                limits.append(math.ceil(start * (1.0 + value / 100.0)))
            else:
                limits.append(int(start * (1.0 - value / 100.0)))
        if ups:
            return min(wanted, max(max(limits), current), rules.highest)
        return max(wanted, min(min(limits), current), rules.lowest)

    def decide(self, now_ms: int) -> int:
        """Reconcile once and return the size that the target is to have."""
        current, rules = self.size, self.rules
        if not self.recommendations:
            self.recommendations.append((now_ms, current))
        proposal = self.propose(now_ms, current)
        if proposal is None:
            return current
        stabilized = self.stabilize(now_ms, current, proposal)
        desired = self.limit(now_ms, current, stabilized)
        if desired != current:
            events = self.events[desired < current]
            longest = max(
                period for _, _, period in (rules.up if desired > current else rules.down)
            )
            events[:] = [pair for pair in events if pair[0] >= now_ms - longest]
            events.append((now_ms, abs(desired - current)))
        return desired

    # ---- a tick and its step

    def tick(self, now_ms: int, work: int) -> None:
        """Run one tick and the step after it."""
        if len(self.batches) > 1:
            self.batches = [batch for batch in self.batches if batch[GONE] > now_ms]
        self.sample(now_ms)
        m, before = self.measures, self.size
        m.replicas.append(before)
        self.size = self.decide(now_ms)
        if self.size != before:
            self.resize(now_ms)
            direction = 1 if self.size > before else -1
            m.rescales += 1
            m.reversals += m.direction not in (0, direction)
            m.direction = direction
        serving, left = self.serve(now_ms, work)
        m.unserved += left * self.period_ms // 1000
        there = sum(
            batch[COUNT] for batch in self.batches if batch[CREATED] <= now_ms < batch[GONE]
        )
        m.pod_ms += there * self.period_ms
        self.measure(serving, max(1, -(-work // self.pods.capacity)))

    def measure(self, serving: int, demand: int) -> None:
        """Hold a step's supply against its demand."""
        m = self.measures
        if serving < demand:
            m.under_steps += 1
            m.under += (demand - serving) / demand
        elif serving > demand:
            m.over_steps += 1
            m.over += (serving - demand) / demand
        supplied, asked = serving - m.last[0], demand - m.last[1]
        m.unstable += (supplied > 0) - (supplied < 0) != (asked > 0) - (asked < 0)
        m.last = serving, demand


def simulate(
    rules: Rules,
    pods: Pods,
    work: Sequence[int],
    *,
    resolution_ms: int,
    start_ms: int,
    period_ms: int,
    steps: int,
    size: int,
) -> Measures:
    """Run `steps` ticks from `start_ms` on under the pieces of work of `resolution_ms`."""
    loop = Loop(rules, pods, start_ms, period_ms, size)
    loop.before = min(work[0] // size, pods.ceiling - pods.base)
    loop.measures.last = size, max(1, -(-work[0] // pods.capacity))
    for t in range(steps):
        piece = min(t * period_ms // resolution_ms, len(work) - 1)
        loop.tick(start_ms + t * period_ms, work[piece])
    return loop.measures
