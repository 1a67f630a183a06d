"""Simulated clusters as columns: the one place where plants and settings become arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from hpabatch.layout import codes, results
from hpabatch.layout import plant as layout
from hpabatch.layout.records import (
    ANSWER,
    CHANGE,
    I64,
    POD_STATE,
    REQUEST,
    STREAM,
    TICK,
    TIMING,
    A,
    Fleet,
    Memory,
    RecordType,
    records,
    records_from,
)
from hpabatch.layout.results import Results, empty_results
from hpabatch.layout.switches import COMBINE_MEAN, COMBINE_MIN
from hpabatch.model import plant as model
from hpabatch.model.objects.hpa import HPASpec
from hpabatch.model.versions import ControllerFlags, Profile
from hpabatch.packing.memory import make_sized_memory
from hpabatch.packing.specs import SpecRows, lane_streams, pack_lanes, pack_metric, stream_keys
from hpabatch.packing.workloads import Workload, WorkloadTables

EVENT_CODES = {
    model.SCALE: layout.EVENT_SCALE,
    model.LOSE: layout.EVENT_LOSE,
    model.ROLLOUT: layout.EVENT_ROLLOUT,
}
FEWEST_COHORTS = 8

COMBINE_MAX: Final = "max"
COMBINATIONS: Final = {COMBINE_MAX: 0, "min": COMBINE_MIN, "mean": COMBINE_MEAN}
"""Ways to combine the proposals of several metrics, each with its switch."""


@dataclass(frozen=True, slots=True)
class SimulatedLane:
    """One HPA under one setting: what `pack_simulation` makes a lane of.

    `specs` are (since when, spec), ascending; before the first the first counts. `individual`:
    every pod is told from the others, so that a run can be exported. What no version does:
    to `combine` other than by the largest proposal, and by signal other `requests` (milli) for a
    utilization to be a share of.
    """

    workload: Workload
    specs: tuple[tuple[int, HPASpec], ...]
    start_ms: int
    period_ms: int
    steps: int
    events: tuple[model.Event, ...] = ()
    individual: bool = False
    combine: str = COMBINE_MAX
    requests: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SimulatedFleet:
    """The arrays of some lanes, ready to run."""

    simulation: layout.Simulation
    fleet: Fleet
    memory: Memory
    results: Results


def groups_pods(lane: SimulatedLane) -> bool:
    """Say whether equal pods may form cohorts without any effect on the run.

    Where numbers of pods matter (room, ordinals) and pods of a batch differ, each is its own. So it
    is where pods fail: those that became ready anew at one instant are told apart by their age and
    number, and by a sample of before.
    """
    pods = lane.workload.plant.pods
    alike = len(pods.startup_ms) == 1 and len(pods.shares) == 1
    if lane.individual or pods.failure_at_ms:
        return False
    if pods.removal == model.STATEFUL_SET:
        return alike and not any(event.kind == model.LOSE for event in lane.events)
    return alike or pods.capacity == 0


def draw_table(seed: int) -> I64:
    """Return the random numbers of a seed, shape (DRAWS,), below 2^31."""
    return np.random.Generator(np.random.PCG64(seed)).integers(
        0, 1 << 31, layout.DRAWS, dtype=np.int64
    )


def pack_simulation(
    lanes: Sequence[SimulatedLane],
    flags: ControllerFlags,
    profile: Profile,
    seed: int = 0,
    cohorts: int = FEWEST_COHORTS,
    keep_points: bool = False,
    trace_rows: int = 0,
) -> SimulatedFleet:
    """Return the arrays of some lanes under one controller's flags.

    Lanes of the same `Workload` object share its rows. `cohorts` is the room for different pods
    that a lane gets at least; `keep_points` makes room for trajectories, `trace_rows` for a log of
    so many rows, which the lanes share evenly (but at least that of one tick).

    Raises:
        ValueError: a metric of a spec has no signal in its workload's plant.
    """
    return _Packer(lanes, flags, profile, cohorts).pack(seed, keep_points, trace_rows)


class _Packer:
    def __init__(
        self,
        lanes: Sequence[SimulatedLane],
        flags: ControllerFlags,
        profile: Profile,
        cohorts: int,
    ) -> None:
        self.lanes, self.flags, self.profile = lanes, flags, profile
        self.tables = WorkloadTables()
        self.specs = SpecRows(flags, profile)
        self.periods: list[tuple[int, int]] = []
        self.events: list[tuple[int, int, int]] = []
        self.stream_rows: list[tuple[int, int, int]] = []
        self.stream_signal: list[int] = []
        self.requests: list[tuple[int, int, int]] = []
        self.sim_rows: list[dict[str, int]] = []
        self.stream_ends: list[tuple[int, int]] = []
        self.flows: list[dict[str, int]] = []
        self.rings = self.scrapes = 0
        self.rows = self.samples = self.points = 0
        self.sizes: list[tuple[int, int]] = []
        for lane in lanes:
            self._add_lane(lane, cohorts)

    def _add_lane(self, lane: SimulatedLane, cohorts: int) -> None:
        tables, h = self.tables, len(self.sim_rows)
        number = tables.add(lane.workload)
        specs = [spec for _, spec in lane.specs]
        streams = lane_streams(specs)
        first_stream, first_period, first_event = (
            len(self.stream_rows),
            len(self.periods),
            len(self.events),
        )
        for from_ms, spec in lane.specs:
            self.periods.append((from_ms, self.specs.add(spec, first_stream, streams)))
        events = sorted(lane.events, key=lambda e: e.at_ms)
        self.events += [(e.at_ms, EVENT_CODES[e.kind], e.value) for e in events]
        self.sim_rows.append(
            {
                "start_ms": lane.start_ms,
                "period_ms": lane.period_ms,
                "steps": lane.steps,
                "workload": number,
                "first_period": first_period,
                "last_period": len(self.periods),
                "first_event": first_event,
                "last_event": len(self.events),
                "first_cohort": self.rows,
                "cohort_capacity": _room(lane, cohorts),
                "first_flow": len(self.flows),
                "first_scrape": self.scrapes,
                "initial": lane.workload.initial,
                "grouped": int(groups_pods(lane)),
                "first_point": self.points,
            }
        )
        self._add_streams(lane, specs, streams, h)
        self.stream_ends.append((first_stream, len(self.stream_rows)))
        self._add_flows(lane.workload)
        self.scrapes += tables.workloads[number]["pipelines"]
        self.rows += self.sim_rows[-1]["cohort_capacity"]
        self.points += lane.steps
        self.sizes.append(_memory_sizes(specs, self.flags, lane.period_ms))

    def _add_streams(
        self, lane: SimulatedLane, specs: Sequence[HPASpec], streams: Sequence[Any], h: int
    ) -> None:
        metric_of = {
            key: metric
            for spec in specs
            for key, metric in zip(stream_keys(spec), spec.metrics, strict=True)
        }
        signals = list(lane.workload.plant.signals)
        room = self.sim_rows[-1]["cohort_capacity"]
        for key in streams:
            metric, g = metric_of[key], len(self.stream_rows)
            name = model.signal_name(metric)
            if pack_metric(metric).kind == codes.METRIC_UNUSABLE:
                self.stream_signal.append(-1)
            elif name in lane.workload.plant.signals:
                self.stream_signal.append(signals.index(name))
            else:
                place = f"{lane.workload.namespace}/{lane.workload.hpa}"
                raise ValueError(f"{place}: the plant has no signal {name}")
            self.stream_rows.append((self.samples - self.rows, self.samples - self.rows, g - h))
            signal = lane.workload.plant.signals.get(name)
            request = signal.request_milli if signal is not None else None
            request = lane.requests.get(name, request)
            needs = bool(key.resource)
            known = int(request is not None or not needs)
            self.requests.append((room, known, (request or 0) if needs else 0))
            self.samples += room

    def _add_flows(self, workload: Workload) -> None:
        for signal in workload.plant.signals.values():
            rings = {model.DIVISIBLE: len(workload.plant.pods.shares), model.AGE: 0}
            count = rings.get(signal.kind, 1)
            self.flows.append(
                {"first_ring": self.rings, "rings": count, "queue_milli": signal.queue_milli}
            )
            self.rings += count

    def pack(self, seed: int, keep_points: bool, trace_rows: int) -> SimulatedFleet:
        """Return everything as arrays."""
        count = len(self.lanes)
        specs, policies, metrics = self.specs.tables()
        lane_table = pack_lanes(count, self.flags, self.profile)
        what_ifs = [COMBINATIONS[lane.combine] for lane in self.lanes]
        lane_table.switches |= np.array(what_ifs, np.int64)
        ends = np.array(self.stream_ends, np.int64).reshape(-1, 2)
        lane_table.first_stream, lane_table.last_stream = ends[:, 0], ends[:, 1]
        lane_table.first_tick = np.arange(count)
        lane_table.last_tick = np.arange(count) + 1
        g = np.arange(len(self.stream_rows))
        request = np.array(self.requests, np.int64).reshape(-1, 3)
        fleet = Fleet(
            lanes=lane_table,
            specs=specs,
            policies=policies,
            metrics=metrics,
            streams=records(STREAM, self.stream_rows),
            ticks=records_from(TICK, count),
            row_state=np.full(self.rows, -1, np.int32),
            row_weight=np.zeros(self.rows, np.int64),
            states=records_from(POD_STATE, self.rows),
            present=np.zeros(self.samples, np.int8),
            value_milli=np.zeros(self.samples, np.int64),
            timing=records_from(TIMING, self.samples),
            requests=records_from(
                REQUEST,
                self.samples,
                known=np.repeat(request[:, 1], request[:, 0]),
                milli=np.repeat(request[:, 2], request[:, 0]),
            ),
            answers=records_from(ANSWER, g.size, first_value=g, last_value=g + 1),
            values_milli=np.zeros(g.size, np.int64),
            changes=records_from(CHANGE, 0),
        )
        sizes = np.array(self.sizes, np.int64).reshape(-1, 2)
        return SimulatedFleet(
            simulation=self._simulation(seed, keep_points, trace_rows),
            fleet=fleet,
            memory=make_sized_memory(sizes[:, 0], sizes[:, 1]),
            results=empty_results(count, g.size),
        )

    def _ring_length(self) -> int:
        """Return how many steps back a scrape that becomes visible can reach, a power of two."""
        steps = 4
        for lane in self.sim_rows:
            workload = self.tables.workloads[lane["workload"]]
            first = workload["first_pipeline"]
            for pipeline in self.tables.pipelines[first : first + workload["pipelines"]]:
                back_ms = pipeline["lag_ms"] + pipeline["window_ms"]
                steps = max(steps, back_ms // lane["period_ms"] + 4)
        return 1 << (steps - 1).bit_length()

    def _simulation(self, seed: int, keep_points: bool, trace_rows: int) -> layout.Simulation:
        tables, count = self.tables, len(self.lanes)
        length = self._ring_length()
        lanes = zip(self.sim_rows, self.stream_ends, strict=True)
        least = (tick_rows(row["cohort_capacity"], last - first) for row, (first, last) in lanes)
        room = max(trace_rows // count, *least) if trace_rows else 0
        traced = count if room else 0
        return layout.Simulation(
            lanes=_table(layout.SIM_LANE, self.sim_rows),
            states=records_from(layout.SIM_STATE, count),
            workloads=_table(layout.WORKLOAD, tables.workloads),
            levels_milli=np.array(tables.levels, np.int64).reshape(-1, layout.LEVELS),
            signals=_table(layout.SIGNAL, tables.signals),
            pipelines=_table(layout.PIPELINE, tables.pipelines),
            gaps=records(layout.GAP, tables.gaps),
            classes=records(layout.CLASS, tables.classes),
            startups=records(layout.STARTUP, tables.startups),
            failure_ms=np.array(tables.failures, np.int64),
            work_milli=np.concatenate([np.zeros(0, np.int64), *tables.work]),
            periods=records(layout.SIM_PERIOD, self.periods),
            events=records(layout.EVENT, self.events),
            draws=draw_table(seed),
            cohorts=records_from(layout.COHORT, self.rows),
            scrapes=records_from(layout.SCRAPE, self.scrapes),
            flows=_table(layout.FLOW, self.flows),
            rings=records_from(layout.RING, self.rings, first_slot=np.arange(self.rings) * length),
            slots=records_from(layout.SLOT, self.rings * length),
            ring_length=length,
            stream_signal=np.array(self.stream_signal, np.int64),
            measures=records_from(results.MEASURES, count),
            bindings=np.zeros((count, layout.BINDINGS), np.int64),
            peaks=np.zeros((count, layout.LEVELS + 1), np.int64),
            drivers=np.zeros(len(self.stream_rows), np.int64),
            points=records_from(results.POINT, self.points if keep_points else 0),
            traces=records_from(layout.TRACE, traced),
            trace_log=np.zeros((traced * room, layout.TRACE_COLUMNS), np.int64),
            traced_pods=np.zeros((self.rows if room else 0, layout.TRACE_COLUMNS), np.int64),
            traced_ms=np.full(self.scrapes if room else 0, -layout.NEVER_MS),
        )


def tick_rows(cohorts: int, streams: int) -> int:
    """Return how many rows of a log one tick of a lane can fill (see `kernels.trace`)."""
    return cohorts * (1 + streams) + streams + 2


def _room(lane: SimulatedLane, cohorts: int) -> int:
    pods = lane.workload.plant.pods
    least = cohorts + 2 * len(pods.shares) * min(len(pods.startup_ms), 8)
    return least if groups_pods(lane) else least + lane.workload.initial


def _memory_sizes(
    specs: Sequence[HPASpec], flags: ControllerFlags, period_ms: int
) -> tuple[int, int]:
    """Return how many recommendations and scale events per direction a lane can come to hold."""
    window_ms, policy_ms = flags.downscale_stabilization_ms, 0
    for spec in specs:
        rules = [spec.behavior.scale_up, spec.behavior.scale_down] if spec.behavior else []
        for rule in rules:
            if rule is None:
                continue
            window_ms = max(window_ms, (rule.stabilization_window_seconds or 0) * 1000)
            periods = [policy.period_seconds * 1000 for policy in rule.policies or ()]
            policy_ms = max([policy_ms, *periods])
    return window_ms // period_ms + 4, policy_ms // period_ms + 4


def _table(dtype: RecordType[A], rows: Sequence[Mapping[str, int]]) -> A:
    """Return records of rows by field name; fields that no row has are 0."""
    names = rows[0].keys() if rows else ()
    columns = {name: [row[name] for row in rows] for name in names}
    return records_from(dtype, len(rows), **columns)
