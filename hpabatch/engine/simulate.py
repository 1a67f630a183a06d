"""Simulate HPAs under settings: the closed loop of rules and plants, and its measures as frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from hpabatch.arrays.layout import I64
from hpabatch.arrays.plant import LANE_FULL
from hpabatch.arrays.simulation import (
    FEWEST_COHORTS,
    SimulatedFleet,
    SimulatedLane,
    pack_simulation,
)
from hpabatch.arrays.specs import StreamKey, lane_streams
from hpabatch.arrays.workloads import Workload, primary_signal
from hpabatch.engine.candidates import SpecPeriod
from hpabatch.engine.requested import NOT_REQUESTED, Requested
from hpabatch.kernels.regret import perfect_pod_ms
from hpabatch.kernels.simulate import simulate_fleet
from hpabatch.model import codes
from hpabatch.model.config import ControllerFlags, Profile
from hpabatch.model.plant import BACKLOG, DIVISIBLE, PER_POD, QUEUE, Event

# Lanes at a time: the state of one is some kB, a kept trajectory 112 B a tick.
LANES_AT_ONCE = 4096
POINTS_AT_ONCE = 4_000_000
MOST_DEMAND = 10_000_000
HOUR_MS = 3_600_000
MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class SimulationCase:
    """One HPA under one setting.

    `periods` are the specs and when they are in force; before the first one it counts too. A run
    has `steps` ticks from `start_ms` on, `period_ms` (the effective sync period) apart.
    """

    workload: Workload
    periods: tuple[SpecPeriod, ...]
    setting: str
    start_ms: int
    period_ms: int
    steps: int
    flags: ControllerFlags
    events: tuple[Event, ...] = ()
    requested: Requested = NOT_REQUESTED

    def lane(self, individual: bool = False) -> SimulatedLane:
        """Return the case as a lane."""
        return SimulatedLane(
            workload=self.workload,
            specs=tuple((p.from_ms, p.spec) for p in self.periods),
            start_ms=self.start_ms,
            period_ms=self.period_ms,
            steps=self.steps,
            events=self.events,
            individual=individual,
        )


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """One row of measures per case, and where trajectories are kept one per case and tick."""

    measures: pl.DataFrame
    points: pl.DataFrame | None


Progress = Callable[[str, float], None]


def _silent(message: str, share: float) -> None:
    """Report no progress."""


def simulate(
    cases: Sequence[SimulationCase],
    profile: Profile,
    seed: int = 0,
    keep_points: bool = False,
    progress: Progress = _silent,
) -> SimulationResult:
    """Run all cases; rows come in their order, and no row depends on the other cases.

    Raises:
        ValueError: a metric has no signal in its workload's plant.
    """
    measures, points, done = [], [], 0
    for part in _parts(cases, keep_points):
        for fleet, chosen in _run(part, profile, seed, keep_points):
            measures.append(_measures(fleet, chosen))
            if keep_points:
                points.append(_points(fleet, chosen))
        done += len(part)
        progress("simulating", done / len(cases))
    frame = pl.concat(measures) if measures else pl.DataFrame()
    kept = pl.concat(points) if points else None
    return SimulationResult(in_order(frame, cases), kept)


def in_order(frame: pl.DataFrame, cases: Sequence[SimulationCase]) -> pl.DataFrame:
    """Return rows in the order of their cases."""
    keys = ["cluster", "namespace", "hpa", "setting"]
    order = pl.DataFrame([_key(c) for c in cases], schema=keys, orient="row")
    return order.join(frame, on=keys, how="left", maintain_order="left") if cases else frame


def _key(case: SimulationCase) -> tuple[str, str, str, str]:
    w = case.workload
    return w.cluster, w.namespace, w.hpa, case.setting


def _parts(cases: Sequence[SimulationCase], keep_points: bool) -> Iterator[list[SimulationCase]]:
    """Yield the cases in parts that fit memory."""
    part: list[SimulationCase] = []
    points = 0
    for case in cases:
        full = len(part) == LANES_AT_ONCE or (keep_points and points + case.steps > POINTS_AT_ONCE)
        if part and full:
            yield part
            part, points = [], 0
        part.append(case)
        points += case.steps
    if part:
        yield part


def _run(
    cases: Sequence[SimulationCase], profile: Profile, seed: int, keep_points: bool
) -> Iterator[tuple[SimulatedFleet, list[tuple[int, SimulationCase]]]]:
    """Run cases; yield arrays with those of their lanes that came to their end.

    Cases that need more cohorts than they had room for are run again with more.
    """
    for flags in dict.fromkeys(case.flags for case in cases):
        left, cohorts = [c for c in cases if c.flags == flags], FEWEST_COHORTS
        while left:
            fleet = pack_simulation(
                [case.lane() for case in left], flags, profile, seed, cohorts, keep_points
            )
            until = max(case.steps for case in left)
            simulate_fleet(fleet.simulation, fleet.fleet, fleet.memory, until, fleet.results)
            full = fleet.simulation.states.status == LANE_FULL
            ended = [(h, case) for h, case in enumerate(left) if not full[h]]
            if ended:
                yield fleet, ended
            left = [case for h, case in enumerate(left) if full[h]]
            cohorts *= 4


# The bindings that have a column of minutes, by their word in `model.codes.BINDINGS`.
def _binding_columns(counts: I64, period_ms: I64) -> dict[str, pl.Series]:
    columns = {}
    for code, words in codes.BINDINGS.items():
        minutes = counts[:, code] * period_ms / MINUTE_MS
        columns[f"minutes_{words.name}"] = pl.Series(minutes)
    return columns


def _measures(fleet: SimulatedFleet, chosen: Sequence[tuple[int, SimulationCase]]) -> pl.DataFrame:
    """Return one row per case, of which there are some, from the sums of its lane."""
    rows = np.array([h for h, _ in chosen], np.int64)
    cases = [case for _, case in chosen]
    m = fleet.simulation.measures[rows]
    period_ms = np.array([c.period_ms for c in cases], np.int64)
    keys = pl.DataFrame(
        [_key(c) for c in cases], schema=["cluster", "namespace", "hpa", "setting"], orient="row"
    )
    steps = m.steps.astype(np.float64)
    known = np.array([bool(c.workload.plant.capacity_milli) for c in cases])
    known &= np.array([primary_signal(c.workload.plant) is not None for c in cases])
    hours = m.steps * period_ms / HOUR_MS
    bound = np.array([perfect_hours(c) if k else np.nan for c, k in zip(cases, known, strict=True)])

    def share(count: I64) -> pl.Series:
        return _known(100.0 * count / steps, known)

    def mean(total: I64, count: I64, unit: float) -> pl.Series:
        value = total / np.maximum(count, 1) / unit
        return _known(value, known & (count > 0))

    pod_hours, short = m.pod_ms / HOUR_MS, m.short_ms / HOUR_MS
    # Surplus pods and missing ones, neither of which makes up for the other.
    regret = np.maximum(pod_hours + short - bound, 0) + short
    divisible = np.array([_has(c, DIVISIBLE) for c in cases])
    shared = divisible | np.array([_has(c, PER_POD) for c in cases])
    waits = np.array([_waits(c) for c in cases])
    work_left = m.unserved_milli_s / 1000.0
    cpu = np.array([_amount(c.requested.cpu_milli, 1000.0) for c in cases])
    memory = np.array([_amount(c.requested.memory_milli, 1000.0 * 2**30) for c in cases])
    columns = {
        "hours": pl.Series(hours),
        "replica_hours": pl.Series(m.replica_ms / HOUR_MS),
        "pod_hours": pl.Series(pod_hours),
        "core_hours": _known(pod_hours * np.nan_to_num(cpu), ~np.isnan(cpu)),
        "gib_hours": _known(pod_hours * np.nan_to_num(memory), ~np.isnan(memory)),
        "theta_u_pct": share(m.under_ratio),
        "theta_o_pct": share(m.over_ratio),
        "tau_u_pct": share(m.under_steps),
        "tau_o_pct": share(m.over_steps),
        "instability_pct": share(m.unstable_steps),
        "jitter_per_hour": _known((m.supply_changes - m.demand_changes) / hours, known),
        "saturated_minutes": _known(m.saturated_steps * period_ms / MINUTE_MS, shared),
        "saturated_longest_minutes": _known(m.saturated_longest * period_ms / MINUTE_MS, shared),
        "unserved": _known(work_left, divisible & ~waits),
        "waiting": _known(work_left, waits),
        "rescales": pl.Series(m.rescales),
        "rescales_up": pl.Series(m.rescales_up),
        "rescales_down": pl.Series(m.rescales_down),
        "reversals": pl.Series(m.reversals),
        "episodes": _known_int(m.episodes, known),
        "episodes_ended": _known_int(m.episodes_ended, known),
        "episodes_reacted": _known_int(m.episodes_reacted, known),
        "reaction_s": mean(m.reaction_ms, m.episodes_reacted, 1000.0),
        "settling_s": mean(m.settling_ms, m.episodes_ended, 1000.0),
        "overshoot": mean(m.overshoot, m.episodes_ended, 1.0),
        "at_max_minutes": pl.Series(m.at_max_steps * period_ms / MINUTE_MS),
        "invalid_minutes": pl.Series(m.invalid_steps * period_ms / MINUTE_MS),
        "outside_pct": _known(100.0 * m.outside_steps / steps, divisible),
        "short_pod_hours": _known(short, known),
        "perfect_pod_hours": _known(bound, known),
        "regret_pct": _known(100.0 * regret / np.maximum(bound, 1e-12), known),
        "capacity_milli": pl.Series(
            [c.workload.plant.capacity_milli for c in cases], dtype=pl.Int64
        ),
        "drivers": pl.Series([_drivers(fleet, h, c) for h, c in chosen], dtype=pl.String),
    }
    columns |= _binding_columns(fleet.simulation.bindings[rows], period_ms)
    return pl.concat([keys, pl.DataFrame(columns)], how="horizontal")


def _known(values: Any, known: Any) -> pl.Series:
    series = pl.Series(np.asarray(values, np.float64))
    return pl.select(pl.when(pl.Series(known)).then(series)).to_series()


def _known_int(values: I64, known: Any) -> pl.Series:
    return pl.select(pl.when(pl.Series(known)).then(pl.Series(values))).to_series()


def _has(case: SimulationCase, kind: str) -> bool:
    return any(signal.kind == kind for signal in case.workload.plant.signals.values())


def _waits(case: SimulationCase) -> bool:
    """Say whether work of the primary signal that is not done waits instead of being gone."""
    name = primary_signal(case.workload.plant)
    if name is None:
        return False
    signal = case.workload.plant.signals[name]
    return signal.kind == BACKLOG or signal.overload == QUEUE


def _amount(milli: int | None, unit: float) -> float:
    return float("nan") if milli is None else milli / unit


def _drivers(fleet: SimulatedFleet, h: int, case: SimulationCase) -> str:
    """Return by metric the share of ticks in which it drove the decision, `cpu 98%, memory 2%`."""
    lane = fleet.fleet.lanes[h]
    counts = fleet.simulation.drivers[lane.first_stream : lane.last_stream]
    total = int(fleet.simulation.measures.steps[h])
    keys = lane_streams([p.spec for p in case.periods])
    names = [_stream_name(key) for key in keys]
    parts = [(int(n), name) for n, name in zip(counts, names, strict=True) if n]
    parts.sort(key=lambda part: -part[0])
    return ", ".join(f"{name} {100 * n / max(total, 1):.0f}%" for n, name in parts)


def demand_series(case: SimulationCase) -> I64:
    """Return how many pods the work of each step asks for, shape (steps,).

    ceil(work / capacity), at least 1: the same for every setting of the workload.
    """
    workload, name = case.workload, primary_signal(case.workload.plant)
    capacity = workload.plant.capacity_milli
    if name is None or not capacity:
        return np.zeros(0, np.int64)
    now_ms = case.start_ms + np.arange(case.steps, dtype=np.int64) * case.period_ms
    work = workload.work[name]
    piece = (now_ms - workload.work_start_ms) // workload.resolution_ms
    per_step = work[np.clip(piece, 0, work.size - 1)]
    return np.maximum(1, -(-per_step // capacity))


def perfect_hours(case: SimulationCase) -> float:
    """Return the pod-hours of a perfect forecast that never leaves a step with too few pods."""
    demand = demand_series(case)
    if demand.max(initial=0) > MOST_DEMAND:
        return float("nan")  # a capacity far too small: it would take an entry a pod
    pods = case.workload.plant.pods
    startup = [scheduling + starting for scheduling, starting in pods.startup_ms]
    restart_ms = sum(startup) // len(startup) + pods.termination_ms
    scratch = np.zeros(int(demand.max(initial=0)), np.int64)
    return perfect_pod_ms(demand, case.period_ms, restart_ms, scratch) / HOUR_MS


def _stream_name(key: StreamKey) -> str:
    """Return a short name of what a metric measures."""
    if key.resource:
        return f"{key.resource} of {key.container}" if key.container else key.resource
    return str(getattr(key.subject, "name", key.type))


_POINT_COLUMNS: Final = (
    "replicas",
    "desired",
    "proposal",
    "stabilized",
    "serving",
    "pods",
    "demand",
    "saturated",
    "usage_milli",
    "work_milli",
    "unserved_milli",
)


def _points(fleet: SimulatedFleet, chosen: Sequence[tuple[int, SimulationCase]]) -> pl.DataFrame:
    """Return one row per case and tick."""
    frames = []
    for h, case in chosen:
        first = int(fleet.simulation.lanes.first_point[h])
        points = fleet.simulation.points[first : first + case.steps]
        cluster, namespace, hpa, setting = _key(case)
        columns = {name: pl.Series(points[name].astype(np.int64)) for name in _POINT_COLUMNS}
        bindings = {code: words.name for code, words in codes.BINDINGS.items()}
        frames.append(
            pl.DataFrame(
                {
                    "cluster": pl.Series([cluster] * case.steps, dtype=pl.String),
                    "namespace": pl.Series([namespace] * case.steps, dtype=pl.String),
                    "hpa": pl.Series([hpa] * case.steps, dtype=pl.String),
                    "setting": pl.Series([setting] * case.steps, dtype=pl.String),
                    "ts": pl.Series(points.now_ms.astype(np.int64)).cast(pl.Datetime("ms", "UTC")),
                    **columns,
                    "binding": pl.Series(points.binding.astype(np.int64)).replace_strict(
                        bindings, return_dtype=pl.String()
                    ),
                }
            ).with_columns(pl.col("saturated").cast(pl.Boolean()))
        )
    return pl.concat(frames) if frames else pl.DataFrame()


def elastic_speedup(measures: pl.DataFrame, baseline: str, noisy: str = "") -> pl.DataFrame:
    """Return the measures with `elastic_speedup` against a baseline setting of the same HPA.

    Settings whose name ends with `noisy` run on other work: theirs is the baseline that does too.

    The geometric mean of the ratios baseline / setting of theta_U, theta_O, tau_U and tau_O (Herbst
    et al. 2018): above 1 is better than the baseline. A ratio of 0 / 0 counts as 1; null where the
    setting's value alone is 0 or the demand is not known.
    """
    names = ["theta_u_pct", "theta_o_pct", "tau_u_pct", "tau_o_pct"]
    keys = ["cluster", "namespace", "hpa", "noisy"]
    is_noisy = pl.col("setting").str.ends_with(noisy) & pl.lit(noisy != "")
    measures = measures.with_columns(noisy=is_noisy)
    base = measures.filter(pl.col("setting").is_in([baseline, f"{baseline}{noisy}"])).select(
        *keys, *(pl.col(n).alias(f"base_{n}") for n in names)
    )
    joined = measures.join(base, on=keys, how="left", maintain_order="left")
    ratios = [
        pl.when((pl.col(n) == 0) & (pl.col(f"base_{n}") == 0))
        .then(1.0)
        .when(pl.col(n) == 0)
        .then(None)
        .otherwise(pl.col(f"base_{n}") / pl.col(n))
        for n in names
    ]
    product = ratios[0] * ratios[1] * ratios[2] * ratios[3]
    return joined.with_columns(elastic_speedup=product.pow(0.25)).drop(
        "noisy", *(f"base_{n}" for n in names)
    )
