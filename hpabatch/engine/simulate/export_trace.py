"""What is seen of a simulated run, tick by tick: pods, the samples that show, and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from hpabatch.layout.plant import PIPELINES, SIGNAL_BACKLOG, SIGNAL_TOTAL
from hpabatch.layout.records import I64
from hpabatch.packing.simulation import SimulatedFleet

# Rows of pods that are kept before those that say the same are dropped, and rows of samples that
# are made a part: 80 and 20 MB.
PENDING_ROWS = 1_000_000
PART_ROWS = 500_000
_PODS: Final = ("pod", "created_ms", "scheduled", "started_ms", "ready_ms", "unready_ms",
                "deletion_ms", "gone_ms", "startup")  # fmt: skip
_SAMPLE: Final = ("stream", "pod", "ts", "value", "fetched_at")
_TOTAL: Final = ("stream", "ts", "value", "fetched_at")
_SCALE: Final = ("lane", "ts", "spec_replicas", "status_replicas")
_SECOND_MS: Final = 1000


@dataclass(frozen=True, slots=True)
class Trace:
    """What was seen of a run; all columns int64, times ms.

    pods: `lane`, `pod` (its number) and a pod's life (`layout.plant.COHORT`); of each pod rows for
        every pair of instants of its readiness, the latest last.
    vanished: `lane`, `pod`, `ts`: at which tick a pod was not there any more.
    samples: `stream` (over all lanes), `pod`, `ts`, `value`, `fetched_at`; in parts, ascending in
        time, each of whole ticks.
    totals: `stream`, `ts`, `value`, `fetched_at`.
    scales: `lane`, `ts`, `spec_replicas`, `status_replicas`: at every tick.
    """

    pods: pl.DataFrame
    vanished: pl.DataFrame
    samples: tuple[pl.DataFrame, ...]
    totals: pl.DataFrame
    scales: pl.DataFrame


class Tracer:
    """Looks at a fleet of individual pods after each of its ticks."""

    def __init__(self, fleet: SimulatedFleet) -> None:
        """Take a fleet that has not begun."""
        self.fleet = fleet
        sim, lanes = fleet.simulation, fleet.fleet.lanes
        counts = np.array(lanes["last_stream"] - lanes["first_stream"])
        self.lane_of_stream = np.repeat(np.arange(counts.size), counts)
        workload = sim.lanes["workload"][self.lane_of_stream]
        signal = sim.workloads["first_signal"][workload] + np.maximum(sim.stream_signal, 0)
        api = sim.signals["pipeline"][signal] - sim.workloads["first_pipeline"][workload]
        self.scrape_of_stream = self.lane_of_stream * PIPELINES + api
        is_total = np.isin(sim.signals["kind"][signal], (SIGNAL_TOTAL, SIGNAL_BACKLOG))
        self.shows_total = is_total & (sim.stream_signal >= 0)
        self.shows_pods = ~is_total & (sim.stream_signal >= 0)
        self.first_cohort = np.array(sim.lanes["first_cohort"])
        self.sample_offset = np.array(fleet.fleet.streams["sample_offset"])
        # Views: what they show changes with every tick.
        self.cohorts = [sim.cohorts[name] for name in _PODS]
        self.scrape_ms = sim.scrapes["ts_ms"]
        self.sample_ms = fleet.fleet.timing["ts_ms"]
        self.last_scrape_ms = np.full(sim.scrapes.size, np.iinfo(np.int64).min)
        self.last_pods = np.zeros((1 + len(_PODS), 0), np.int64)
        self.pods: list[pl.DataFrame] = []
        self.pending: list[I64] = []
        self.pending_rows = 0
        self.vanished: list[I64] = []
        self.samples: list[I64] = []
        self.sample_rows = 0
        self.parts: list[pl.DataFrame] = []
        self.totals: list[I64] = []
        self.scales: list[I64] = []

    def look(self) -> None:
        """Note what the last tick's rules saw, and the pods as they are after it."""
        ticks = self.fleet.fleet.ticks
        now_ms = np.array(ticks["now_ms"])
        counts = np.array(self.fleet.simulation.states["cohorts"])
        self._note_pods(counts, int(now_ms[0]))
        self._note_samples(counts, int(now_ms[0]))
        lane = np.arange(now_ms.size)
        self.scales.append(np.stack([lane, now_ms, ticks["replicas"], ticks["status_replicas"]]))

    def _note_pods(self, counts: I64, now_ms: int) -> None:
        """Keep the pods' lives, and who is not there any more."""
        rows, lane = self._rows(np.arange(counts.size), counts)
        pods = np.stack([lane, *(column[rows] for column in self.cohorts)])
        if pods.shape == self.last_pods.shape and (pods == self.last_pods).all():
            return
        lost = np.setdiff1d(_keys(self.last_pods), _keys(pods))
        self.vanished.append(np.stack([lost >> 32, lost & 0xFFFF_FFFF, lost * 0 + now_ms]))
        self.last_pods = pods
        self.pending.append(pods)
        self.pending_rows += lane.size
        if self.pending_rows > PENDING_ROWS:
            self._drop_repeated()

    def _rows(self, lanes: I64, counts: I64) -> tuple[I64, I64]:
        """Return the rows of the cohorts of some lanes, and which of the lanes each belongs to."""
        each = counts[lanes]
        of = np.repeat(np.arange(lanes.size), each)
        within = np.arange(of.size) - (np.cumsum(each) - each)[of]
        return self.first_cohort[lanes][of] + within, of

    def _drop_repeated(self) -> None:
        """Keep of each pod what it came to with each pair of instants of its readiness."""
        both = pl.concat([*self.pods, _frame(self.pending, "lane", *_PODS)])
        same = ["lane", "pod", "unready_ms", "ready_ms"]
        self.pods = [both.unique(same, keep="last", maintain_order=True)]
        self.pending, self.pending_rows = [], 0

    def _note_samples(self, counts: I64, now_ms: int) -> None:
        """Keep the samples of scrapes that this tick is the first to see."""
        fleet = self.fleet.fleet
        scrape_ms = np.array(self.scrape_ms)
        is_new = (scrape_ms != self.last_scrape_ms)[self.scrape_of_stream]
        self.last_scrape_ms = scrape_ms
        n = np.flatnonzero(is_new & self.shows_total & (fleet.answers["code"] == 0))
        ts_ms = scrape_ms[self.scrape_of_stream[n]]
        self.totals.append(np.stack([n, ts_ms, fleet.values_milli[n], n * 0 + now_ms]))
        streams = np.flatnonzero(is_new & self.shows_pods)
        rows, of = self._rows(self.lane_of_stream[streams], counts)
        g = streams[of]
        at = rows + self.sample_offset[g]
        has = (fleet.present[at] != 0) & (fleet.row_state[rows] >= 0)
        g, at, pod = g[has], at[has], self.cohorts[0][rows[has]]
        values = fleet.value_milli[at]
        self.samples.append(np.stack([g, pod, self.sample_ms[at], values, g * 0 + now_ms]))
        self.sample_rows += g.size
        if self.sample_rows > PART_ROWS:
            self._end_part()

    def _end_part(self) -> None:
        """Make what was sampled since the last part one of its own."""
        self.parts.append(_frame(self.samples, *_SAMPLE))
        self.samples, self.sample_rows = [], 0

    def trace(self) -> Trace:
        """Return what was seen."""
        self._drop_repeated()
        self._end_part()
        return Trace(
            pods=pl.concat([self._as_they_began(), *self.pods]),
            vanished=_frame(self.vanished, "lane", "pod", "ts"),
            samples=tuple(self.parts),
            totals=_frame(self.totals, *_TOTAL),
            scales=_frame(self.scales, *_SCALE),
        )

    def _as_they_began(self) -> pl.DataFrame:
        """Return the scheduled pods as they were before any failure.

        Of one that failed in its first step in service nothing says afterwards that its tick saw it
        ready.
        """
        sim = self.fleet.simulation
        last = self.pods[0].filter(pl.col("scheduled") != 0)
        pods = last.unique(["lane", "pod"], keep="last", maintain_order=True)
        lane, started_ms = pods["lane"].to_numpy(), pods["started_ms"].to_numpy()
        workload = sim.lanes["workload"][lane]
        startup = sim.workloads["first_startup"][workload] + pods["startup"].to_numpy()
        ready_ms = started_ms + sim.startups["starting_ms"][startup]
        ready_ms = -(-ready_ms // _SECOND_MS) * _SECOND_MS
        at_start = pods["pod"].to_numpy() < sim.lanes["initial"][lane]
        return pods.with_columns(
            unready_ms="started_ms", ready_ms=pl.Series(np.where(at_start, started_ms, ready_ms))
        )


def _keys(pods: I64) -> I64:
    """Return one number per pod of a lane."""
    return np.asarray((pods[0] << 32) | pods[1])


def _frame(parts: Sequence[I64], *names: str) -> pl.DataFrame:
    """Return rows that were noted as columns, shapes (names, n), as a frame."""
    columns = np.concatenate([np.zeros((len(names), 0), np.int64), *parts], axis=1)
    return pl.DataFrame({name: columns[k] for k, name in enumerate(names)})
