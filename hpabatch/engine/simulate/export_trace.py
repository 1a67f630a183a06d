"""Trace of a simulated run: pods, samples that show, and sizes, from the logs of its lanes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from hpabatch.layout.plant import (
    NEVER_MS,
    TRACE_COLUMNS,
    TRACED_NOTE,
    TRACED_POD,
    TRACED_SAMPLE,
    TRACED_SCALE,
    TRACED_TOTAL,
)
from hpabatch.packing.simulation import SimulatedFleet, tick_rows

LOG_ROWS = 2_000_000
"""Rows of all logs together: 192 MB if every tick fills its room, which few do by a tenth."""

# Rows of pods that are kept before those that say the same are dropped, and rows of samples that
# are made a part: 80 and 20 MB.
PENDING_ROWS = 1_000_000
PART_ROWS = 500_000
_PODS: Final = ("pod", "created_ms", "scheduled", "started_ms", "ready_ms", "unready_ms",
                "deletion_ms", "gone_ms", "startup")  # fmt: skip
# What follows the kind of a row and the tick's time, as `kernels.trace` writes it.
_ROWS: Final = {
    TRACED_POD: ("lane", "ts", *_PODS, "note"),
    TRACED_NOTE: ("lane", "ts", "note"),
    TRACED_SAMPLE: ("lane", "fetched_at", "stream", "pod", "ts", "value"),
    TRACED_TOTAL: ("lane", "fetched_at", "stream", "ts", "value"),
    TRACED_SCALE: ("lane", "ts", "spec_replicas", "status_replicas"),
}
_SAMPLE: Final = ("stream", "pod", "ts", "value", "fetched_at")
_TOTAL: Final = ("stream", "ts", "value", "fetched_at")
_SECOND_MS: Final = 1000


@dataclass(frozen=True, slots=True)
class Trace:
    """Observations of a run; all columns int64, times ms.

    pods: `lane`, `pod` (its number) and a pod's life (`layout.plant.COHORT`); of each pod rows for
        every pair of instants of its readiness, the latest last.
    vanished: `lane`, `pod`, `ts`: at which tick a pod was not there any more.
    samples: `stream` (over all lanes), `pod`, `ts`, `value`, `fetched_at`; in parts, ascending in
        time, each of whole ticks.
    totals: `stream`, `ts`, `value`, `fetched_at`.
    scales: `lane`, `ts`, `spec_replicas`, `status_replicas`: at the first tick, and at those that
        found another size.
    """

    pods: pl.DataFrame
    vanished: pl.DataFrame
    samples: tuple[pl.DataFrame, ...]
    totals: pl.DataFrame
    scales: pl.DataFrame


class Tracer:
    """Takes the rows out of the logs of a fleet of individual pods."""

    def __init__(self, fleet: SimulatedFleet) -> None:
        """Take a fleet that has not begun and has logs."""
        self.fleet = fleet
        self.kept: dict[int, list[pl.DataFrame]] = {what: [] for what in _ROWS}
        self.pending_rows = self.sample_rows = 0
        self.parts: list[pl.DataFrame] = []

    def ticks_at_once(self) -> int:
        """Return how many ticks fit into every lane's log."""
        sim, lanes = self.fleet.simulation, self.fleet.fleet.lanes
        streams = np.array(lanes["last_stream"] - lanes["first_stream"])
        rooms = np.array(sim.lanes["cohort_capacity"])
        most = max(map(tick_rows, rooms.tolist(), streams.tolist()))
        return int(sim.trace_log.shape[0] // sim.traces.size // most)

    def take(self) -> None:
        """Take out what the lanes have noted; all of them are at the same tick."""
        for what, frame in self._frames():
            self.kept[what].append(frame)
            self.pending_rows += frame.height if what == TRACED_POD else 0
            self.sample_rows += frame.height if what == TRACED_SAMPLE else 0
        if self.pending_rows > PENDING_ROWS:
            self._drop_repeated()
        if self.sample_rows > PART_ROWS:
            self._end_part()

    def _frames(self) -> Iterator[tuple[int, pl.DataFrame]]:
        """Yield the rows of each kind, in order of ticks and within one of lanes."""
        sim = self.fleet.simulation
        logs = sim.trace_log.reshape(sim.traces.size, -1, TRACE_COLUMNS)
        counts = np.array(sim.traces["rows"])
        rows = np.concatenate([log[:count] for log, count in zip(logs, counts, strict=True)])
        lane = np.repeat(np.arange(counts.size), counts)
        sim.traces["rows"] = 0
        for what, names in _ROWS.items():
            at = np.flatnonzero(rows[:, 0] == what)
            at = at[np.argsort(rows[at, 1], kind="stable")]
            columns = [lane[at], *(rows[at, k + 1] for k in range(len(names) - 1))]
            yield what, pl.DataFrame(dict(zip(names, columns, strict=True)))

    def _drop_repeated(self) -> None:
        """Keep of each pod what it came to with each pair of instants of its readiness."""
        both = pl.concat(self.kept[TRACED_POD])
        same = ["lane", "pod", "unready_ms", "ready_ms"]
        self.kept[TRACED_POD] = [both.unique(same, keep="last", maintain_order=True)]
        self.pending_rows = 0

    def _end_part(self) -> None:
        """Make what was sampled since the last part one of its own."""
        if not self.kept[TRACED_SAMPLE]:
            return
        self.parts.append(pl.concat(self.kept[TRACED_SAMPLE]).select(_SAMPLE))
        self.kept[TRACED_SAMPLE], self.sample_rows = [], 0

    def trace(self) -> Trace:
        """Return what was noted."""
        self._drop_repeated()
        self._end_part()
        pods = self._pods()
        last = pods.unique(["lane", "pod"], keep="last", maintain_order=True)
        vanished = last.filter(pl.col("end") < NEVER_MS)
        pods = pods.select("lane", *_PODS)
        return Trace(
            pods=pl.concat([self._as_they_began(pods), pods]),
            vanished=vanished.select("lane", "pod", ts="end"),
            samples=tuple(self.parts),
            totals=pl.concat(self.kept[TRACED_TOTAL]).select(_TOTAL),
            scales=pl.concat(self.kept[TRACED_SCALE]),
        )

    def _pods(self) -> pl.DataFrame:
        """Return the pods in the order in which they changed or went, those that stay last.

        `end` is the tick of the first note of the lane that does not say the same of the pod.
        """
        next_notes = pl.concat(self.kept[TRACED_NOTE]).select(
            "lane", end="ts", note=pl.col("note") - 1
        )
        pods = self.kept[TRACED_POD][0].join(
            next_notes, on=["lane", "note"], how="left", maintain_order="left"
        )
        pods = pods.with_columns(pl.col("end").fill_null(NEVER_MS))
        return pods.sort("end", "lane", maintain_order=True)

    def _as_they_began(self, pods: pl.DataFrame) -> pl.DataFrame:
        """Return the scheduled pods as they were before any failure.

        Of one that failed in its first step in service nothing says afterwards that its tick saw it
        ready.
        """
        sim = self.fleet.simulation
        last = pods.filter(pl.col("scheduled") != 0)
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
