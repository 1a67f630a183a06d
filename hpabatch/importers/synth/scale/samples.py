"""Samples of a synthetic workload's pods: one day, any of its pods, all of them at once in arrays.

Every pod and day has its own random stream, so the samples of a pod are the same whichever other
pods are measured together with it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hpabatch.importers.synth.fleet import Container, Floats, Ints, Signal
from hpabatch.importers.synth.request import DAY_MS, SynthRequest
from hpabatch.importers.synth.scale.demand import MINUTES, demand_pods, recorded_sizes
from hpabatch.importers.synth.scale.pods import NEVER, PodLife, PodPlay
from hpabatch.importers.synth.scale.streams import Purpose, Streams
from hpabatch.importers.synth.scale.workload import ScaleWorkload, draw_workload, streams_of

Floats32 = npt.NDArray[np.float32]

# The metrics server answers for a pod after two scrapes.
_WARM_UP_S = 20
_BOOT_PART = 0.3
_CPU_NOISE = 0.04
_SIGNAL_NOISE = 0.03
_MEMORY_EVERY = 8
_MEMORY_MINUTES = 15
_RUN_STEPS = 20
_FETCH_MS = 700
_LATE_STEPS = 4
_PAGES_PER_MIB = 256
_PAGE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples in the order (pod, ts, container).

    Attributes:
        place: the pod of each row, as its place in the lives that were asked for.
        container: the container of each row, as its place in the workload's.
        ts_ms: time of each row, milliseconds since the start of the history.
        first: cpu in milli, or the custom metric in milli.
        second: memory in bytes; empty for a custom metric.
        fetched_ms: when it was fetched, None: not recorded.
    """

    place: Ints
    container: Ints
    ts_ms: Ints
    first: Ints
    second: Ints
    fetched_ms: Ints | None


class PlayedWorkload:
    """A workload with its demand and the lives of its pods over all days.

    Attributes:
        lives: pods in the order of a table (name, uid).
        ready, until: bounds of serving per life, in seconds since the start.
    """

    def __init__(self, settings: SynthRequest, index: int) -> None:
        """Draw and play the workload with a number from 0."""
        self.settings = settings
        self.streams: Streams = streams_of(settings, index)
        self.work: ScaleWorkload = draw_workload(settings, index, self.streams)
        weekday = settings.first_day.weekday()
        self.demand = demand_pods(self.work, self.streams, settings.days, weekday)
        play = PodPlay(self.work, self.streams, settings.days)
        play.run(recorded_sizes(self.work, self.demand))
        self.scales = play.scales
        traits = self.streams.open(Purpose.traits).standard_normal((len(play.lives), 2))
        places = self.streams.open(Purpose.traits, number=1).random(len(play.lives))
        self.lives: list[PodLife] = sorted(play.lives, key=lambda life: (life.pod, life.uid))
        self.ready = np.array([life.ready for life in self.lives], dtype=np.int64)
        self.until = np.array([life.until for life in self.lives], dtype=np.int64)
        downs = [(down, min(back, life.until)) for life in self.lives for down, back in life.downs]
        self._downs = np.array(downs, dtype=np.int64).reshape(-1, 2)
        self._first_s = np.array([life.started for life in self.lives], dtype=np.int64) + _WARM_UP_S
        self._stop_s = np.array([life.stopped for life in self.lives], dtype=np.int64)
        numbers = [life.number for life in self.lives]
        own = traits[numbers]
        # No load balancer is fair, no two pods hold the same.
        self._part = np.clip(1.0 + 0.04 * own[:, 0], 0.8, 1.2)
        self._memory = np.clip(1.0 + 0.03 * own[:, 1], 0.85, 1.15)
        self._offset_ms = _offsets(places[numbers], settings)

    def steps_of_day(self, day: int) -> tuple[Ints, Ints]:
        """Return the first step of each life on a day and how many it has (before gaps)."""
        settings = self.settings
        start = day * DAY_MS + self._offset_ms

        def step(second: Ints, earlier_ms: int) -> Ints:
            late = np.minimum(second, NEVER) * 1000 - earlier_ms - start
            return np.clip(-(-late // settings.step_ms), 0, settings.steps)

        first = step(self._first_s, 0)
        # No sample comes after the pod is gone, the most delayed one neither.
        count = np.maximum(step(self._stop_s, settings.spread_ms) - first, 0)
        return first, count

    def sampled(self, day: int) -> tuple[Ints, Ints]:
        """Return the places of the lives with samples on a day and how many rows each has."""
        count = self.steps_of_day(day)[1]
        places = np.flatnonzero(count)
        return places, count[places] * len(self.work.containers)

    def work_of_day(self, day: int) -> Floats:
        """Return the work per serving pod in milli at each step of a day; shape (steps,)."""
        seconds = (
            day * DAY_MS / 1000 + np.arange(self.settings.steps) * self.settings.step_ms / 1000
        )
        # A pod that never got ready may end before it begins: it counts in neither.
        serves = self.ready < NEVER
        begins = np.sort(np.concatenate([self.ready[serves], self._downs[:, 1]]))
        ends = np.sort(np.concatenate([self.until[serves], self._downs[:, 0]]))
        up = np.searchsorted(begins, seconds, side="right")
        down = np.searchsorted(ends, seconds, side="right")
        demand = self._demand_at(day, seconds) * self.work.plan_milli
        return np.asarray(demand / np.maximum(up - down, 1))

    def _demand_at(self, day: int, seconds: Floats) -> Floats:
        """Return the demand in pods at times of a day, in seconds since the start.

        The last minute of a day stays as it is: the next day's first one is not drawn where the
        history ends, and a longer history has to begin with the shorter one.
        """
        minutes = np.arange(day * MINUTES, (day + 1) * MINUTES)
        return np.interp(seconds, minutes * 60.0, self.demand[minutes])

    def usage(self, day: int, chosen: Ints) -> Samples:
        """Return the usage of all containers of some lives (their places) on a day."""
        work = self.work
        grid = _Grid(self, day, chosen, Purpose.usage, len(work.containers))
        per_pod = self.work_of_day(day).astype(np.float32)
        share = per_pod[grid.step]
        share *= np.repeat(self._part[grid.places].astype(np.float32), grid.counts)
        slow = _averaged(per_pod, _MEMORY_MINUTES * 60_000 // self.settings.step_ms)
        # The working set moves every few samples only.
        held = grid.step // _MEMORY_EVERY * _MEMORY_EVERY
        level = np.minimum(slow[held] / np.float32(work.plan_milli), np.float32(1.6))
        row = np.maximum(np.arange(len(held)) - (grid.step - held), grid.starts)
        own = np.repeat(self._memory[grid.places].astype(np.float32), grid.counts)
        cpu = np.empty((len(share), len(work.containers)), dtype=np.int64)
        memory = np.empty_like(cpu)
        boot = np.float32(_BOOT_PART * work.plan_milli)
        for c, container in enumerate(work.containers):
            noise = grid.noise[:, c]
            cpu[:, c] = _cpu(container, np.where(grid.serves, share, boot), noise)
            memory[:, c] = _memory(container, level, noise[row], own)
        return grid.samples(cpu, memory)

    def custom(self, day: int, chosen: Ints, signal: Signal) -> Samples:
        """Return the samples of a Pods metric; pods that do not serve report nothing done."""
        grid = _Grid(self, day, chosen, Purpose.custom, 1)
        units = self.work_of_day(day)[grid.step] * np.repeat(self._part[grid.places], grid.counts)
        units *= grid.serves * signal.per_core
        units *= 1.0 + _SIGNAL_NOISE * grid.noise[:, 0]
        milli = np.rint(np.maximum(units, 0.0)).astype(np.int64)
        return grid.samples(milli[:, None], np.empty((0, 1), dtype=np.int64))

    def total(self, day: int, signal: Signal) -> tuple[Ints, Ints]:
        """Return times (ms since the start) and values (milli) of a whole workload's metric."""
        settings = self.settings
        rng = self.streams.open(Purpose.signal, day)
        step = np.arange(settings.steps, dtype=np.int64)
        keep = rng.random(len(step)) >= settings.gaps
        seconds = (day * DAY_MS + step * settings.step_ms) / 1000
        demand = self._demand_at(day, seconds)
        noise = 1.0 + _SIGNAL_NOISE * rng.standard_normal(len(step))
        milli = np.rint(demand * self.work.plan_milli * signal.per_core * noise).astype(np.int64)
        ts_ms = day * DAY_MS + step * settings.step_ms
        return ts_ms[keep], np.maximum(milli, 0)[keep]


class _Grid:
    """When the chosen pods were sampled on a day, and the noise of each sample.

    Attributes:
        places: lives that have samples.
        counts: how many each has; `starts`: the first row of each row's pod.
        step: step of the day of each row.
        noise: standard normal numbers; shape (rows, width).
        serves: whether the pod is ready at the step.
    """

    def __init__(
        self, played: PlayedWorkload, day: int, chosen: Ints, purpose: Purpose, width: int
    ) -> None:
        first, counts = (part[chosen] for part in played.steps_of_day(day))
        sampled = counts > 0
        self.settings = played.settings
        self.asked = np.flatnonzero(sampled)
        self.places: Ints = chosen[sampled]
        self.counts: Ints = counts[sampled]
        self.width = width
        ends = np.cumsum(self.counts)
        rows = int(ends[-1]) if len(ends) else 0
        begins = ends - self.counts
        self.starts = np.repeat(begins, self.counts)
        self.step = np.arange(rows) - np.repeat(begins - first[sampled], self.counts)
        offset = np.repeat(day * DAY_MS + played._offset_ms[self.places], self.counts)
        self.ts_ms = self.step * self.settings.step_ms + offset
        self.noise = np.empty((rows, width), dtype=np.float32)
        self.serves = np.ones(rows, dtype=np.bool_)
        self._keep: npt.NDArray[np.bool_] | None = None
        if self.settings.gaps:
            self._keep = np.ones(rows, dtype=np.bool_)
        self.fetched_ms: Ints | None = None
        self._delays = np.zeros(rows, dtype=np.int64) if self.settings.late else None
        jitter = np.empty(rows if self.settings.spread_ms else 0, dtype=np.float32)
        for place, begin, end in zip(
            self.places.tolist(), begins.tolist(), ends.tolist(), strict=True
        ):
            life = played.lives[place]
            rng = played.streams.open(purpose, day, life.number)
            rng.standard_normal(out=self.noise[begin:end], dtype=np.float32)
            if len(jitter):
                rng.random(out=jitter[begin:end], dtype=np.float32)
            self._lose(rng, begin, end)
            self._delay(rng, begin, end)
            self._mark(life, begin, end)
        self._shake(jitter)

    def _shake(self, jitter: Floats32) -> None:
        """Move samples by their jitter, and let them be fetched."""
        if len(jitter):
            unit = self.settings.unit_ms
            most = self.settings.spread_ms // unit
            # 32 bits may round the largest product up.
            jitter *= np.float32(most + 1)
            self.ts_ms += np.minimum(jitter.astype(np.int64), most) * unit
        if self._delays is not None:
            self.fetched_ms = self.ts_ms + _FETCH_MS + self._delays

    def _lose(self, rng: np.random.Generator, begin: int, end: int) -> None:
        """Drop samples: half of the share one by one, half in runs."""
        if self._keep is None:
            return
        rows, share = end - begin, self.settings.gaps / 2
        single = int(rng.binomial(rows, share))
        if single:
            self._keep[begin + rng.integers(0, rows, single)] = False
        for _ in range(int(rng.poisson(rows * share / _RUN_STEPS))):
            lost = begin + int(rng.integers(1 - _RUN_STEPS, rows))
            self._keep[max(lost, begin) : min(lost + _RUN_STEPS, end)] = False

    def _delay(self, rng: np.random.Generator, begin: int, end: int) -> None:
        """Let a share of the samples be fetched some steps late."""
        if self._delays is None:
            return
        count = int(rng.binomial(end - begin, self.settings.late))
        late = begin + rng.choice(end - begin, count, replace=False, shuffle=False)
        step_ms = self.settings.step_ms
        self._delays[late] = rng.integers(step_ms, _LATE_STEPS * step_ms + 1, count)

    def _mark(self, life: PodLife, begin: int, end: int) -> None:
        """Mark the samples at which the pod does not serve."""
        ts = self.ts_ms[begin:end]
        first, last = int(ts[0]), int(ts[-1])
        if life.ready * 1000 > first or life.until * 1000 <= last:
            self.serves[begin:end] = (ts >= life.ready * 1000) & (ts < life.until * 1000)
        for down, back in life.downs:
            if back * 1000 > first and down * 1000 <= last:
                self.serves[begin:end] &= (ts < down * 1000) | (ts >= back * 1000)

    def samples(self, first: Ints, second: Ints) -> Samples:
        """Return values of shape (rows, width) as rows, without those that are lost."""
        keep = slice(None) if self._keep is None else self._keep
        place = np.repeat(self.asked, self.counts)[keep]
        container = np.tile(np.arange(self.width), len(place))
        fetched = None if self.fetched_ms is None else self.fetched_ms[keep]
        return Samples(
            place=np.repeat(place, self.width),
            container=container,
            ts_ms=np.repeat(self.ts_ms[keep], self.width),
            first=first[keep].reshape(-1),
            second=second[keep].reshape(-1) if len(second) else second.reshape(-1),
            fetched_ms=None if fetched is None else np.repeat(fetched, self.width),
        )


def _offsets(uniform: Floats, settings: SynthRequest) -> Ints:
    """Return each pod's place in the step, such that jitter never leads into the next step."""
    unit = settings.unit_ms
    places = max((settings.step_ms - settings.spread_ms) // unit, 1)
    return np.floor(uniform * places).astype(np.int64) * unit


def _cpu(container: Container, work: Floats32, noise: Floats32) -> Ints:
    factor = noise * np.float32(_CPU_NOISE * container.share)
    factor += np.float32(container.share)
    factor *= work
    factor += np.float32(container.idle_milli)
    limit = np.inf if container.cpu_limit is None else container.cpu_limit
    return np.asarray(np.ceil(np.clip(factor, 1.0, limit)), dtype=np.int64)


def _memory(container: Container, level: Floats32, noise: Floats32, own: Floats32) -> Ints:
    pages = noise * np.float32(0.1)
    pages += np.float32(1.0)
    pages *= level
    pages *= np.float32(container.memory_load_mib * _PAGES_PER_MIB)
    pages += np.float32(container.memory_mib * _PAGES_PER_MIB)
    pages *= own
    return np.asarray(pages, dtype=np.int64) * _PAGE_BYTES


def _averaged(values: Floats32, steps: int) -> Floats32:
    """Return the mean of the last so many values, of fewer at the beginning."""
    total = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
    end = np.arange(1, len(values) + 1)
    begin = np.maximum(end - max(steps, 1), 0)
    return np.asarray((total[end] - total[begin]) / (end - begin), dtype=np.float32)
