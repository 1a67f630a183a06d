"""Drawn workloads played over all days: demand, recorded sizes, lives of pods, their samples."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

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
from benchmarks.fleet.lives import NEVER, PodLife, PodPlay
from benchmarks.fleet.parts import (
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
