"""A simulated run as a history: replayed with its own decisions, it decides the same again.

Every pod is its own here. The run is made tick by tick, and what the rules saw at each tick is
noted; what nobody ever saw (a scrape between two others) is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from hpabatch.arrays.layout import I64
from hpabatch.arrays.plant import LANE_FULL, PIPELINES, SIGNAL_BACKLOG, SIGNAL_TOTAL
from hpabatch.arrays.simulation import SimulatedFleet, pack_simulation
from hpabatch.engine.export_tables import Trace, source_of, streams_of, tables_of
from hpabatch.engine.simulate import SimulationCase
from hpabatch.errors import UsageError
from hpabatch.kernels.simulate import simulate_fleet
from hpabatch.model.config import Profile
from hpabatch.model.plant import Pipeline

_FIRST_COHORTS: Final = 64
_PODS: Final = ("pod", "created_ms", "scheduled", "started_ms", "ready_ms", "unready_ms",
                "deletion_ms", "gone_ms", "startup")  # fmt: skip
# Rows of pods that are kept before those that say the same are dropped: 72 MB.
_PENDING_ROWS: Final = 1_000_000
_MILLI_PER_BYTE: Final = 1000
_SECOND_MS: Final = 1000

Progress = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class ExportedRun:
    """The tables of a history, and the arguments with which a replay decides the same again."""

    tables: dict[str, pl.DataFrame]
    arguments: tuple[str, ...]


def export_run(
    cases: Sequence[SimulationCase],
    profile: Profile,
    seed: int = 0,
    progress: Progress | None = None,
) -> ExportedRun:
    """Run cases and return the run as the tables of a history.

    All cases must share start, sync period and flags, and each HPA may come once; the history's
    clusters and names are those of the workloads.

    Raises:
        UsageError: the cases do not fit one history.
        ValueError: a metric has no signal in its workload's plant.
    """
    max_age_ms = check_cases(cases)
    trace, cohorts = None, _FIRST_COHORTS
    while trace is None:
        trace = _Recorder(cases, profile, seed, cohorts).run(progress)
        cohorts *= 4
    first = cases[0]
    arguments = {
        "--k8s": profile.name,
        "--events": "decided",
        "--phase": f"{first.start_ms % first.period_ms}ms",
        "--sync-period": f"{first.period_ms}ms",
        "--max-age": f"{max_age_ms}ms",
    }
    words = tuple(word for pair in arguments.items() for word in pair)
    return ExportedRun(tables_of(trace, cases), words)


# ---- what one history can hold


def check_cases(cases: Sequence[SimulationCase]) -> int:
    """Refuse cases that one history cannot hold; return the one max_age of their samples."""
    if not cases:
        raise UsageError("there is no simulated HPA to export")
    for name in ("start_ms", "period_ms", "steps", "flags"):
        if len({getattr(case, name) for case in cases}) > 1:
            raise UsageError(
                f"the simulated HPAs differ in {name}, which one history cannot hold; export those "
                "that agree, one by one with --where"
            )
    keys = [(c.workload.cluster, c.workload.namespace, c.workload.hpa) for c in cases]
    if len(set(keys)) < len(keys):
        raise UsageError("an HPA is simulated under several settings; export one of them")
    _check_targets(cases)
    _check_series(cases)
    for case in cases:
        _check_resources(case)
    return _max_age_ms(cases)


def _max_age_ms(cases: Sequence[SimulationCase]) -> int:
    """Return the max_age of every API that is asked; a replay knows one."""
    plants = [case.workload.plant for case in cases]
    used = {p.pipelines.get(s.api, Pipeline()) for p in plants for s in p.signals.values()}
    ages = {pipeline.max_age_ms for pipeline in used}
    if len(ages) > 1:
        raise UsageError(
            "the pipelines differ in max_age, of which a replay knows one; give one in the plant "
            "file"
        )
    return ages.pop() if ages else Pipeline().max_age_ms


def _check_targets(cases: Sequence[SimulationCase]) -> None:
    """Refuse pods that belong to two HPAs, and an HPA whose target is another one later."""
    seen: set[tuple[str, str, str, str]] = set()
    for case in cases:
        w = case.workload
        refs = {(p.spec.scale_target_ref.kind, p.spec.scale_target_ref.name) for p in case.periods}
        if len(refs) > 1:
            raise UsageError(
                f"{w.namespace}/{w.hpa}: its specs scale different targets, but one workload is "
                "simulated; export the others with --where"
            )
        kind, name = refs.pop()
        if (w.cluster, w.namespace, kind, name) in seen:
            raise UsageError(
                f"several of the HPAs scale {kind} {w.namespace}/{name}, whose pods one history "
                "holds once; export one of them with --where"
            )
        seen.add((w.cluster, w.namespace, kind, name))


def _check_series(cases: Sequence[SimulationCase]) -> None:
    """Refuse an Object or External metric of two HPAs: each was simulated with its own values."""
    seen: set[tuple[str, ...]] = set()
    for case in cases:
        w = case.workload
        sources = {source_of(stream.metric, w.namespace) for stream in streams_of(case)}
        for source in sorted(s for s in sources if s is not None):
            table, name = source[0].removesuffix("_metrics"), source[-2]
            if (w.cluster, w.namespace, *source) in seen:
                raise UsageError(
                    f"several of the HPAs of namespace {w.namespace} have the {table} metric "
                    f"{name}, which is simulated of each apart and stands once in a history; "
                    "export one of them with --where"
                )
        seen |= {(w.cluster, w.namespace, *s) for s in sources if s is not None}


def _check_resources(case: SimulationCase) -> None:
    """Refuse usage that rows of containers cannot say."""
    place, signals = f"{case.workload.namespace}/{case.workload.hpa}", case.workload.plant.signals
    names = [(name.split("/"), signal) for name, signal in signals.items()]
    usage = [(p, signal) for p, signal in names if p[0] in ("resource", "container")]
    whole = {parts[1] for parts, _ in usage if parts[0] == "resource"}
    for parts, signal in usage:
        resource = parts[-1]
        if resource not in ("cpu", "memory"):
            raise UsageError(
                f"{place}: {resource} is simulated, but samples of a history hold cpu and memory; "
                "export the others with --where"
            )
        if resource == "memory" and signal.unit_milli % _MILLI_PER_BYTE:
            raise UsageError(
                f"{place}: memory is sampled in steps of {signal.unit_milli} milli-bytes, but "
                "samples of a history are whole bytes; give memory a unit of 1000 in the plant file"
            )
        if parts[0] == "container" and resource in whole:
            raise UsageError(
                f"{place}: {resource} is simulated of the pod and of container {parts[1]} apart, "
                "which samples cannot tell; export the others with --where"
            )


# ---- the run


class _Recorder:
    """Runs lanes tick by tick and keeps what was seen."""

    def __init__(
        self, cases: Sequence[SimulationCase], profile: Profile, seed: int, cohorts: int
    ) -> None:
        self.cases = cases
        lanes = [case.lane(individual=True) for case in cases]
        self.fleet: SimulatedFleet = pack_simulation(lanes, cases[0].flags, profile, seed, cohorts)
        sim, lane_table = self.fleet.simulation, self.fleet.fleet.lanes
        counts = lane_table.last_stream - lane_table.first_stream
        self.lane_of_stream = np.repeat(np.arange(counts.size), counts)
        workload = sim.lanes.workload[self.lane_of_stream]
        signal = sim.workloads.first_signal[workload] + np.maximum(sim.stream_signal, 0)
        api = sim.signals.pipeline[signal] - sim.workloads.first_pipeline[workload]
        self.scrape_of_stream = self.lane_of_stream * PIPELINES + api
        self.is_used = sim.stream_signal >= 0
        self.is_total = np.isin(sim.signals.kind[signal], (SIGNAL_TOTAL, SIGNAL_BACKLOG))
        self.last_scrape_ms = np.full(sim.scrapes.size, np.iinfo(np.int64).min)
        self.known_pods = np.zeros(0, np.int64)
        self.pods: list[pl.DataFrame] = []
        self.pending_rows = 0
        self.vanished: list[I64] = []
        self.samples: list[I64] = []
        self.totals: list[I64] = []
        self.scales: list[I64] = []

    def run(self, progress: Progress | None) -> Trace | None:
        """Run all ticks and return what was seen; None: a lane's pods did not fit."""
        f, steps = self.fleet, self.cases[0].steps
        for t in range(steps):
            simulate_fleet(f.simulation, f.fleet, f.memory, t + 1, f.results)
            if (f.simulation.states.status == LANE_FULL).any():
                return None
            self._look()
            if progress is not None and t % 64 == 0:
                progress(t / steps)
        self._drop_repeated()
        return Trace(
            pods=pl.concat([self._as_they_began(), *self.pods]),
            vanished=_frame(self.vanished, "lane", "pod", "ts"),
            samples=_frame(self.samples, "stream", "pod", "ts", "value", "fetched_at"),
            totals=_frame(self.totals, "stream", "ts", "value", "fetched_at"),
            scales=_frame(self.scales, "lane", "ts", "spec_replicas", "status_replicas"),
        )

    def _look(self) -> None:
        """Note what this tick's rules saw, and the pods as they are after it."""
        sim, fleet = self.fleet.simulation, self.fleet.fleet
        counts = sim.states.cohorts
        lane = np.repeat(np.arange(counts.size), counts)
        within = np.arange(lane.size) - np.repeat(np.cumsum(counts) - counts, counts)
        rows = sim.lanes.first_cohort[lane] + within
        pods = {name: np.array(sim.cohorts[name][rows], np.int64) for name in _PODS}
        now_ms = np.array(fleet.ticks.now_ms, np.int64)
        self._note_pods(lane, pods, int(now_ms[0]))
        self._note_samples(lane, rows, pods["pod"], now_ms)
        replicas, status = fleet.ticks.replicas, fleet.ticks.status_replicas
        self.scales.append(np.stack([np.arange(counts.size), now_ms, replicas, status]))

    def _note_pods(self, lane: I64, pods: dict[str, I64], now_ms: int) -> None:
        """Keep the pods' lives, and who is not there any more."""
        keys = (lane << 32) | pods["pod"]
        lost = np.setdiff1d(self.known_pods, keys)
        if lost.size:
            self.vanished.append(np.stack([lost >> 32, lost & 0xFFFF_FFFF, lost * 0 + now_ms]))
        self.known_pods = keys
        self.pods.append(pl.DataFrame({"lane": lane, **pods}))
        self.pending_rows += lane.size
        if self.pending_rows > _PENDING_ROWS:
            self._drop_repeated()

    def _drop_repeated(self) -> None:
        """Keep of each pod what it came to with each pair of instants of its readiness."""
        both = pl.concat(self.pods)
        same = ["lane", "pod", "unready_ms", "ready_ms"]
        self.pods = [both.unique(same, keep="last", maintain_order=True)]
        self.pending_rows = 0

    def _as_they_began(self) -> pl.DataFrame:
        """Return the scheduled pods as they were before any failure.

        Of one that failed in its first step in service nothing says afterwards that its tick saw it
        ready.
        """
        sim = self.fleet.simulation
        last = self.pods[0].filter(pl.col("scheduled") != 0)
        pods = last.unique(["lane", "pod"], keep="last", maintain_order=True)
        lane, started_ms = pods["lane"].to_numpy(), pods["started_ms"].to_numpy()
        workload = sim.lanes.workload[lane]
        startup = sim.workloads.first_startup[workload] + pods["startup"].to_numpy()
        ready_ms = started_ms + sim.startups.starting_ms[startup]
        ready_ms = -(-ready_ms // _SECOND_MS) * _SECOND_MS
        at_start = pods["pod"].to_numpy() < sim.lanes.initial[lane]
        return pods.with_columns(
            unready_ms="started_ms", ready_ms=pl.Series(np.where(at_start, started_ms, ready_ms))
        )

    def _note_samples(self, lane: I64, rows: I64, pod: I64, now_ms: I64) -> None:
        """Keep the samples of scrapes that this tick is the first to see."""
        sim, fleet = self.fleet.simulation, self.fleet.fleet
        fresh = sim.scrapes.ts_ms != self.last_scrape_ms
        self.last_scrape_ms = sim.scrapes.ts_ms.copy()
        scrape_ms = self.last_scrape_ms[self.scrape_of_stream]
        fetched_ms = now_ms[self.lane_of_stream]
        is_new = self.is_used & fresh[self.scrape_of_stream]
        n = np.flatnonzero(is_new & self.is_total & (fleet.answers.code == 0))
        self.totals.append(np.stack([n, scrape_ms[n], fleet.values_milli[n], fetched_ms[n]]))
        for g in np.flatnonzero(is_new & ~self.is_total):
            own = np.flatnonzero(lane == self.lane_of_stream[g])
            at = rows[own] + fleet.streams.sample_offset[g]
            has = (fleet.present[at] != 0) & (fleet.row_state[rows[own]] >= 0)
            own, at = own[has], at[has]
            same = np.ones(own.size, np.int64)
            self.samples.append(
                np.stack(
                    [
                        same * g,
                        pod[own],
                        fleet.timing.ts_ms[at],
                        fleet.value_milli[at],
                        same * fetched_ms[g],
                    ]
                )
            )


def _frame(parts: Sequence[I64], *names: str) -> pl.DataFrame:
    """Return rows that were noted as columns, shapes (names, n), as a frame."""
    columns = np.concatenate([np.zeros((len(names), 0), np.int64), *parts], axis=1)
    return pl.DataFrame({name: columns[k] for k, name in enumerate(names)})
