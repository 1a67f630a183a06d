"""Samples of synthetic pods: usage of their containers and their custom metrics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hpabatch.importers.synth.fleet import Container, Signal, Workload
from hpabatch.importers.synth.load import DAY_S, STEP_S, Floats, Ints
from hpabatch.importers.synth.pods import Life

# The metrics server of the whole cluster was restarted.
OUTAGE_S = (13 * 3600 + 37 * 60, 13 * 3600 + 43 * 60)

_GRID_S = 10
_PAGE = 4 << 10
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Samples:
    """One pod's samples of one container or metric; seconds of the day, -1: no value."""

    life: Life
    name: str
    seconds: Ints
    first: Ints  # cpu in milli, or the custom metric in milli
    second: Ints  # memory in bytes, or empty


class Meter:
    """Measures the pods of one workload under its demand."""

    def __init__(
        self, workload: Workload, lives: list[Life], demand: Floats, rng: np.random.Generator
    ) -> None:
        """Share the demand among the pods that are ready, on a grid of ten seconds."""
        self.workload = workload
        self.rng = rng
        self.own = [life for life in lives if life.target == workload.name]
        self.others = [life for life in lives if life.target != workload.name]
        grid = np.arange(0.0, DAY_S, _GRID_S)
        serving = np.zeros(len(grid), dtype=np.int64)
        for life in self.own:
            serving += life.serves(grid)
        minutes = np.arange(len(demand)) * float(STEP_S)
        self.share = np.interp(grid, minutes, demand) / np.maximum(serving, 1)

    def usage(self) -> Iterator[Samples]:
        """Yield the samples of every container of every pod."""
        for life in [*self.own, *self.others]:
            seconds = self._sample_times(life)
            if not len(seconds):
                continue
            work = self._work(life, seconds)
            for container in self.workload.containers:
                if container.kind != "init":
                    cpu = self._cpu(life, container, seconds, work)
                    memory = self._memory(container, work)
                    yield Samples(life, container.name, seconds, cpu, memory)

    def custom(self, signal: Signal) -> Iterator[Samples]:
        """Yield the samples of a Pods metric; pods that are not ready report no work."""
        for life in self.own:
            seconds = self._sample_times(life)
            if not len(seconds):
                continue
            units = self._work(life, seconds) / 1000.0 * signal.per_core
            noise = 1.0 + signal.noise * self.rng.standard_normal(len(seconds))
            milli = np.maximum(np.rint(units * noise * 10.0) * 100.0, 0.0).astype(np.int64)
            yield Samples(life, signal.metric, seconds, milli, np.empty(0, dtype=np.int64))

    def _sample_times(self, life: Life) -> Ints:
        """Return when a pod was sampled: each minute at its own second, without the gaps."""
        if life.started is None:
            return np.empty(0, dtype=np.int64)
        seconds = int(self.rng.integers(0, STEP_S)) + np.arange(0, DAY_S, STEP_S)
        # Scrapes come a second late now and then.
        seconds = seconds + (self.rng.random(len(seconds)) < 0.01)
        keep = (seconds > life.started + 20) & (seconds < life.stopped)
        keep &= (seconds < OUTAGE_S[0]) | (seconds >= OUTAGE_S[1])
        if self.rng.random() < 0.15:
            begin = float(self.rng.integers(0, DAY_S))
            keep &= (seconds < begin) | (seconds >= begin + float(self.rng.integers(180, 1200)))
        return np.asarray(seconds[keep & (seconds < DAY_S)], dtype=np.int64)

    def _work(self, life: Life, seconds: Ints) -> Floats:
        """Return the pod's work in milli at the sample times; 0 where it is not ready."""
        if life.target != self.workload.name:
            return np.full(len(seconds), 0.6 * self.workload.plan_milli)
        share = self.share[np.minimum(seconds // _GRID_S, len(self.share) - 1)]
        # No load balancer is fair: each pod has its own part, more or less.
        part = 1.0 + 0.04 * self.rng.standard_normal()
        return np.asarray(share * part * life.serves(seconds.astype(np.float64)))

    def _cpu(self, life: Life, container: Container, seconds: Ints, work: Floats) -> Ints:
        noise = 1.0 + 0.035 * self.rng.standard_normal(len(seconds))
        cpu = container.idle_milli + container.share * work * noise
        # Before it is ready a pod loads its code and warms its caches.
        cpu = np.where(work > 0.0, cpu, container.idle_milli + 0.3 * self.workload.plan_milli)
        if container.cpu_limit is not None:
            throttled = container.cpu_limit * (1.0 - 0.01 * self.rng.random(len(seconds)))
            cpu = np.minimum(cpu, throttled)
        milli = np.ceil(np.maximum(cpu, 1.0)).astype(np.int64)
        hour = self.workload.trouble.no_cpu_hour
        if hour is not None and container.name == "app":
            lost = (seconds >= hour * 3600) & (seconds < hour * 3600 + 600)
            milli[lost] = -1
        return milli

    def _memory(self, container: Container, work: Floats) -> Ints:
        """Return the working set: it follows the work slowly and moves every few minutes."""
        level = np.minimum(work / self.workload.plan_milli, 1.6)
        steps = np.maximum.accumulate(level) if self.workload.sticky_memory else _averaged(level)
        mib = container.memory_mib + container.memory_load_mib * steps
        mib = mib * (1.0 + 0.02 * self.rng.standard_normal())
        moves = self.rng.random(len(work)) < 0.12
        moves[0] = True
        last = np.maximum.accumulate(np.where(moves, np.arange(len(work)), 0))
        pages: npt.NDArray[np.float64] = np.ceil(mib[last] * (_MIB / _PAGE))
        return pages.astype(np.int64) * _PAGE


def _averaged(level: Floats) -> Floats:
    """Return the mean of the last thirty samples."""
    total = np.concatenate([[0.0], np.cumsum(level)])
    end = np.arange(1, len(level) + 1)
    begin = np.maximum(end - 30, 0)
    return np.asarray((total[end] - total[begin]) / (end - begin))
