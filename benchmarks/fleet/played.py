"""Drawn workloads played over all days: demand, recorded sizes, lives of pods, their samples.

Times of lives are whole seconds since the start of the history, negative before it; NEVER is later
than all of them.
"""

from __future__ import annotations

import heapq
import math
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from benchmarks.fleet.draw import (
    DrawnWorkload,
    FleetRequest,
    Purpose,
    Streams,
    draw_workload,
    mean_level,
)
from benchmarks.fleet.parts import (
    ALPHABET,
    DAY_MS,
    Container,
    Floats,
    Ints,
    burst_shape,
    day_shape,
    recent_mean,
)

Floats32 = npt.NDArray[np.float32]
Booleans = npt.NDArray[np.bool_]

_MINUTES = 1440
_HOLD_MINUTES = 10
_FAST_MINUTES = 6
_SATURDAY = 5
# The metrics server answers for a pod after two scrapes.
_WARM_UP_S = 20
_BOOT_PART = 0.3
_CPU_NOISE = 0.04
_MEMORY_EVERY = 8
_MEMORY_MINUTES = 15
# Share of the samples that are lost, half of them in runs.
_GAPS = 0.002
_RUN_STEPS = 20
_PAGES_PER_MIB = 256
_PAGE_BYTES = 4096


# ---- demand and sizes


def demand_pods(work: DrawnWorkload, streams: Streams, days: int, weekday: int) -> Floats:
    """Return the demand per minute, in pods doing their plan; shape (days x 1440,).

    A cosine day, quieter weekends, noise that changes over minutes and hours, and bursts. Each day
    is drawn by itself: more days change none of the earlier ones.

    Args:
        weekday: of the first day, 0 is Monday.
    """
    hour = (np.arange(days * _MINUTES) % _MINUTES) / 60.0
    shape = day_shape(hour, work.peak_hour, work.night)
    noise = np.empty(days * _MINUTES)
    bursts = np.ones(days * _MINUTES)
    for day in range(days):
        rng = streams.open(Purpose.demand, day)
        today = slice(day * _MINUTES, (day + 1) * _MINUTES)
        noise[today] = _knots(rng, 60) + 0.7 * _knots(rng, _FAST_MINUTES)
        if (weekday + day) % 7 >= _SATURDAY:
            shape[today] *= work.weekend
        for _ in range(int(rng.poisson(work.bursts))):
            start, minutes = int(rng.integers(_MINUTES)), int(rng.integers(4, 40))
            part = bursts[day * _MINUTES + start :][: minutes + 60]
            height = float(rng.uniform(1.15, 1.9)) - 1.0
            np.maximum(part, burst_shape(np.arange(len(part)), minutes, height), out=part)
    scale = work.mean_pods / mean_level(work.night, work.weekend)
    return np.asarray(shape * np.maximum(1.0 + work.noise * noise, 0.1) * bursts * scale)


def _knots(rng: np.random.Generator, minutes: int) -> Floats:
    """Return a day of noise that bends every so many minutes."""
    values = rng.standard_normal(_MINUTES // minutes + 1)
    return np.interp(np.arange(_MINUTES), np.arange(len(values)) * minutes, values)


def recorded_sizes(work: DrawnWorkload, demand: Floats) -> list[tuple[int, int]]:
    """Return (minute, size) of every change of size; the first is the size at minute 0.

    A stand-in for what an autoscaler did, not the HPA's rule: two minutes late, up when the need
    is a tenth more than the size, down when it was a tenth less for ten minutes.
    """
    late = np.concatenate([np.full(4, demand[0]), demand])
    need = sliding_window_view(late[:-2], 3).mean(axis=1)
    before = np.concatenate([np.full(_HOLD_MINUTES - 1, need[0]), need])
    highest = sliding_window_view(before, _HOLD_MINUTES).max(axis=1)

    def within(pods: float) -> int:
        return min(max(math.ceil(pods), work.low), work.high)

    size = within(need[0])
    changes = [(0, size)]
    for minute, (now, recent) in enumerate(zip(need.tolist(), highest.tolist(), strict=True)):
        wish = within(now) if now > 1.1 * size else within(recent) if recent < 0.9 * size else size
        if wish != size:
            size = wish
            changes.append((minute, size))
    return changes


# ---- samples


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples of a pod, one row per scrape.

    Attributes:
        ts_ms: times, milliseconds since the start of the history.
        values: cpu in milli and memory in bytes per container, shape (rows, containers, 2).
    """

    ts_ms: Ints
    values: Ints


@dataclass(frozen=True, slots=True)
class _Scrapes:
    """When a pod was sampled on a day (ms and step), the noise, and whether it serves then."""

    step: Ints
    ts_ms: Ints
    noise: Floats32
    serves: Booleans
    keep: Booleans


class PlayedWorkload:
    """A workload with its demand and the lives of its pods over all days.

    Attributes:
        lives: pods in the order of a table (name, uid); a place is an index here.
    """

    def __init__(self, request: FleetRequest, index: int) -> None:
        """Draw and play the workload with a number from 0."""
        self.request = request
        self.work, self.streams = draw_workload(request, index)
        weekday = request.first_day.weekday()
        self.demand = demand_pods(self.work, self.streams, request.days, weekday)
        play = PodPlay(self.work, self.streams, request.days)
        play.run(recorded_sizes(self.work, self.demand))
        self.scales = play.scales
        traits = self.streams.open(Purpose.traits).standard_normal((len(play.lives), 2))
        places = self.streams.open(Purpose.traits, number=1).random(len(play.lives))
        self.lives: list[PodLife] = sorted(play.lives, key=lambda life: (life.pod, life.uid))
        ready = np.array([life.ready for life in self.lives])
        until = np.array([life.until for life in self.lives])
        downs = [(down, min(back, life.until)) for life in self.lives for down, back in life.downs]
        down, back = np.array(downs, dtype=np.int64).reshape(-1, 2).T
        # A pod that never got ready may end before it begins: it counts in neither.
        serves = ready < NEVER
        self._begins = np.sort(np.concatenate([ready[serves], back]))
        self._ends = np.sort(np.concatenate([until[serves], down]))
        self._first_s = np.array([life.started for life in self.lives]) + _WARM_UP_S
        self._stop_s = np.array([life.stopped for life in self.lives])
        numbers = [life.number for life in self.lives]
        own = traits[numbers]
        # No load balancer is fair, no two pods hold the same.
        self._part = np.clip(1.0 + 0.04 * own[:, 0], 0.8, 1.2)
        self._memory = np.clip(1.0 + 0.03 * own[:, 1], 0.85, 1.15).astype(np.float32)
        # Jitter never leads into the next step.
        span = max((request.step_ms - request.spread_ms) // request.unit_ms, 1)
        self._offset_ms = np.floor(places[numbers] * span).astype(np.int64) * request.unit_ms

    def steps_of_day(self, day: int) -> tuple[Ints, Ints]:
        """Return the first step of each life on a day and how many it has (before gaps)."""
        request = self.request
        start = day * DAY_MS + self._offset_ms

        def step(second: Ints, earlier_ms: int) -> Ints:
            late = np.minimum(second, NEVER) * 1000 - earlier_ms - start
            return np.clip(-(-late // request.step_ms), 0, request.steps)

        first = step(self._first_s, 0)
        # No sample comes after the pod is gone, the most delayed one neither.
        return first, np.maximum(step(self._stop_s, request.spread_ms) - first, 0)

    def work_of_day(self, day: int) -> Floats:
        """Return the work per serving pod in milli at each step of a day; shape (steps,)."""
        seconds = self._seconds(day)
        up = np.searchsorted(self._begins, seconds, side="right")
        down = np.searchsorted(self._ends, seconds, side="right")
        demand = self._demand_at(day) * self.work.plan_milli
        return np.asarray(demand / np.maximum(up - down, 1))

    def _seconds(self, day: int) -> Floats:
        steps = np.arange(self.request.steps)
        return np.asarray(day * DAY_MS / 1000 + steps * self.request.step_ms / 1000)

    def _demand_at(self, day: int) -> Floats:
        """Return the demand in pods at the steps of a day.

        The last minute of a day stays as it is: the next day's first one is not drawn where the
        history ends, and a longer history has to begin with the shorter one.
        """
        minutes = np.arange(day * _MINUTES, (day + 1) * _MINUTES)
        return np.interp(self._seconds(day), minutes * 60.0, self.demand[minutes])

    def usage(self, day: int) -> Iterator[tuple[PodLife, Samples]]:
        """Yield the usage of each pod's containers on a day."""
        work = self.work
        per_pod = self.work_of_day(day).astype(np.float32)
        slow = recent_mean(per_pod, _MEMORY_MINUTES * 60_000 // self.request.step_ms)
        levels = slow.astype(np.float32) / np.float32(work.plan_milli)
        levels = np.minimum(levels, np.float32(1.6))
        boot = np.float32(_BOOT_PART * work.plan_milli)
        for place, scrapes in self._scrapes(day):
            step, noise = scrapes.step, scrapes.noise
            busy = np.where(scrapes.serves, per_pod[step] * np.float32(self._part[place]), boot)
            # The working set moves every few samples only.
            held = step // _MEMORY_EVERY * _MEMORY_EVERY
            row = np.maximum(held - step[0], 0)
            values = np.empty((len(step), len(work.containers), 2), dtype=np.int64)
            for c, container in enumerate(work.containers):
                values[:, c, 0] = _cpu(container, busy, noise[:, c])
                own = noise[row, c]
                values[:, c, 1] = _memory(container, levels[held], own, self._memory[place])
            keep = scrapes.keep
            yield self.lives[place], Samples(scrapes.ts_ms[keep], values[keep])

    def _scrapes(self, day: int) -> Iterator[tuple[int, _Scrapes]]:
        """Yield the place of each pod that is sampled on a day, and its scrapes.

        Each is drawn from a stream of its own, noise of the shape (scrapes, containers).
        """
        width = len(self.work.containers)
        for place, (first, count) in enumerate(zip(*self.steps_of_day(day), strict=True)):
            if count:
                rng = self.streams.open(Purpose.usage, day, self.lives[place].number)
                noise = rng.standard_normal((count, width), dtype=np.float32)
                step = np.arange(first, first + count)
                yield place, self._scraped(rng, day, place, step, noise)

    def _scraped(
        self, rng: np.random.Generator, day: int, place: int, step: Ints, noise: Floats32
    ) -> _Scrapes:
        request, life, count = self.request, self.lives[place], len(step)
        ts_ms = day * DAY_MS + self._offset_ms[place] + step * request.step_ms
        serves = (ts_ms >= life.ready * 1000) & (ts_ms < life.until * 1000)
        for down, back in life.downs:
            serves &= (ts_ms < down * 1000) | (ts_ms >= back * 1000)
        if request.spread_ms:
            most = request.spread_ms // request.unit_ms
            jitter = rng.random(count, dtype=np.float32) * np.float32(most + 1)
            # 32 bits may round the largest product up.
            ts_ms = ts_ms + np.minimum(jitter.astype(np.int64), most) * request.unit_ms
        return _Scrapes(step, ts_ms, noise, serves, _kept(rng, count))


def _kept(rng: np.random.Generator, count: int) -> Booleans:
    """Draw which samples are not lost: half of the share goes one by one, half in runs."""
    keep, share = np.ones(count, dtype=np.bool_), _GAPS / 2
    if single := int(rng.binomial(count, share)):
        keep[rng.integers(0, count, single)] = False
    for _ in range(int(rng.poisson(count * share / _RUN_STEPS))):
        begin = int(rng.integers(1 - _RUN_STEPS, count))
        keep[max(begin, 0) : begin + _RUN_STEPS] = False
    return keep


def _cpu(container: Container, work: Floats32, noise: Floats32) -> Ints:
    factor = noise * np.float32(_CPU_NOISE * container.share) + np.float32(container.share)
    used = factor * work + np.float32(container.idle_milli)
    limit = np.inf if container.cpu_limit is None else container.cpu_limit
    return np.asarray(np.ceil(np.clip(used, 1.0, limit)), dtype=np.int64)


def _memory(container: Container, level: Floats32, noise: Floats32, own: np.float32) -> Ints:
    pages = (noise * np.float32(0.1) + np.float32(1.0)) * level
    pages *= np.float32(container.memory_load_mib * _PAGES_PER_MIB)
    pages += np.float32(container.memory_mib * _PAGES_PER_MIB)
    return np.asarray(pages * own, dtype=np.int64) * _PAGE_BYTES


DAY_S = 86_400
NEVER = 1 << 40
_NODES = 40
_PAGE = 1024
_MASK = (1 << 64) - 1

State = tuple[int, str, str | None, int | None]
"""Second, phase, Ready condition (None: no such condition) and its last transition."""


@dataclass(slots=True, eq=False)
class PodLife:
    """One pod. `ready` and `until` bound when it serves; `stopped` ends its samples."""

    number: int
    pod: str
    uid: str
    revision: str
    node: str
    created: int
    started: int = NEVER
    ready: int = NEVER
    until: int = NEVER
    stopped: int = NEVER
    deleted: int = NEVER
    gone: int = NEVER
    states: list[State] = field(default_factory=list)
    downs: list[tuple[int, int]] = field(default_factory=list)


class PodPlay:
    """Plays the pods of one workload as its size changes and things go wrong.

    Attributes:
        lives: every pod, in the order of creation.
        scales: (second, spec.replicas, status.replicas), the last of a second counts.
    """

    def __init__(self, work: DrawnWorkload, streams: Streams, days: int) -> None:
        """Start without pods."""
        self.work = work
        self.days = days
        self.lives: list[PodLife] = []
        self.scales: dict[int, tuple[int, int]] = {}
        self._streams = streams
        self._dice = _Dice(streams)
        self._active: list[PodLife] = []
        self._size = 0
        self._rolling = False
        self._revision = self._dice.word(10)
        self._events: list[tuple[int, str]] = []

    def run(self, changes: list[tuple[int, int]]) -> None:
        """Play all days; changes are (minute, size), the first is the size at the start."""
        self._begin(changes[0][1])
        phase = self._dice.below(60)
        for minute, size in changes[1:]:
            self._at(minute * 60 + phase, str(size))
        for day in range(self.days):
            self._plan_troubles(day)
        end = self.days * DAY_S
        while self._events and self._events[0][0] < end:
            second, kind = heapq.heappop(self._events)
            if kind.isdigit():
                self._resize(second, int(kind))
            else:
                getattr(self, f"_{kind}")(second)

    def _at(self, second: int, kind: str) -> None:
        """Plan an event; its kind is the name of a method, or a new size."""
        heapq.heappush(self._events, (second, kind))

    def _plan_troubles(self, day: int) -> None:
        rng = self._streams.open(Purpose.trouble, day)
        rollout, evicted = rng.random(2)
        start = day * DAY_S
        if rollout < 0.2:
            # People roll out while they are at work.
            self._at(start + int(rng.integers(8 * 3600, 19 * 3600)), "rollout")
        if evicted < 0.04:
            self._at(start + int(rng.integers(DAY_S)), "evict")
        for _ in range(int(rng.poisson(0.015 * self.work.mean_pods))):
            self._at(start + 1 + int(rng.integers(DAY_S - 1)), "restart")

    def _begin(self, size: int) -> None:
        """Make the pods that are there at the start, hours to days old."""
        self._size = size
        for _ in range(size):
            life = self._pod(-3600 - self._dice.below(4 * DAY_S))
            life.started = life.created + 2
            life.ready = life.started + 2 + self._startup()
            # The recording begins with a list: what was before it is not in it.
            life.states = [(0, "Running", "True", life.ready)]
        self.scales[0] = (size, size)

    def _pod(self, second: int) -> PodLife:
        dice = self._dice
        pod = f"{self.work.name}-{self._revision}-{dice.word(5)}"
        node = f"node-{dice.below(_NODES) + 1:03d}"
        life = PodLife(len(self.lives), pod, dice.uid(), self._revision, node, second)
        self.lives.append(life)
        self._active.append(life)
        return life

    def _startup(self) -> int:
        return self.work.startup_s * (85 + self._dice.below(45)) // 100

    def _create(self, second: int) -> PodLife:
        """Make a pod: Pending on its node, Running, Ready."""
        life = self._pod(second)
        life.started = second + 1 + self._dice.below(3)
        running = life.started + 2
        life.ready = running + 1 + self._startup()
        life.states = [
            (second, "Pending", None, None),
            (running, "Running", "False", life.started),
            (life.ready, "Running", "True", life.ready),
        ]
        return life

    def _record(self, second: int) -> None:
        self.scales[second] = (self._size, len(self._active))

    def _resize(self, second: int, size: int) -> None:
        self._size = size
        self._record(second)
        # The controller of the workload follows within a second.
        surplus = len(self._active) - size
        for _ in range(-surplus):
            self._create(second + 1)
        if surplus > 0:
            newest = heapq.nlargest(
                surplus, self._active, key=lambda life: (life.ready, life.number)
            )
            self._remove(second + 1, newest)
        self._record(second + 1)

    def _remove(self, second: int, victims: list[PodLife]) -> None:
        leaving = {life.number for life in victims}
        self._active = [life for life in self._active if life.number not in leaving]
        for life in victims:
            life.deleted = second
            life.gone = life.stopped = second + 3 + self._dice.below(29)
            served = life.ready < second and not (life.downs and life.downs[-1][1] > second)
            self._end(life, second)
            if served:
                life.states.append((life.gone - 1, "Running", "False", life.gone - 1))

    def _end(self, life: PodLife, second: int) -> None:
        """Let a pod serve no more, and drop what was planned for it but does not happen."""
        life.until = second
        life.states = [state for state in life.states if state[0] < second]
        if life.started >= second:
            life.started = NEVER
        if life.ready >= second:
            life.ready = NEVER

    def _rollout(self, second: int) -> None:
        self._revision = self._dice.word(10)
        if not self._rolling:
            self._rolling = True
            self._replace(second + 1)

    def _replace(self, second: int) -> None:
        """One step of a rollout: a quarter of the size as new pods beside the old ones."""
        old = sum(life.revision != self._revision for life in self._active)
        if not old:
            self._rolling = False
            return
        fresh = [self._create(second) for _ in range(min(old, max(1, self._size // 4)))]
        self._record(second)
        self._at(max(life.ready for life in fresh) + 1, "retire")

    def _retire(self, second: int) -> None:
        surplus = max(len(self._active) - self._size, 0)
        old = [life for life in self._active if life.revision != self._revision]
        self._remove(second, old[:surplus])
        self._record(second)
        self._at(second + 2, "replace")

    def _evict(self, second: int) -> None:
        """The oldest pod fails; its object stays for hours, another pod takes its place."""
        life = min(self._active, key=lambda life: (life.created, life.number))
        self._active.remove(life)
        life.stopped = second
        self._end(life, second)
        life.states.append((second, "Failed", "False", second))
        life.deleted = second + 3600 + self._dice.below(6 * 3600)
        life.gone = life.deleted + 1
        self._create(second + 1)

    def _restart(self, second: int) -> None:
        """A container is killed and comes back; the pod stays the same."""
        life = self._active[self._dice.below(len(self._active))]
        back = second + 10 + self.work.startup_s
        if life.ready + 600 > second or (life.downs and life.downs[-1][1] >= second):
            return
        life.downs.append((second, back))
        life.states.append((second, "Running", "False", second))
        life.states.append((back, "Running", "True", back))


class _Dice:
    """Small random numbers one at a time, drawn from the stream by the page: calls are slow."""

    def __init__(self, streams: Streams) -> None:
        self._rng = streams.open(Purpose.lives)
        self._page: list[int] = []

    def _bits(self) -> int:
        if not self._page:
            page = self._rng.integers(0, _MASK, _PAGE, dtype="uint64", endpoint=True)
            self._page = page[::-1].tolist()
        return self._page.pop()

    def below(self, bound: int) -> int:
        """Return a number from 0 to bound - 1; the bias of 64 bits does not matter here."""
        return self._bits() % bound

    def word(self, length: int) -> str:
        """Return a generated part of a name, up to 13 letters."""
        bits, letters = self._bits(), []
        for _ in range(length):
            bits, letter = divmod(bits, len(ALPHABET))
            letters.append(ALPHABET[letter])
        return "".join(letters)

    def uid(self) -> str:
        """Return an object's uid as Kubernetes writes it."""
        high, low = self._bits(), self._bits()
        return str(uuid.UUID(int=high << 64 | low, version=4))
