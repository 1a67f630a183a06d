"""The measures of simulated runs as a frame: one row per case, from the sums of its lane."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hpabatch.engine.columns.recorded import ABOVE_MINUTES
from hpabatch.engine.columns.simulate import MEASURES
from hpabatch.engine.simulate.case import SimulationCase
from hpabatch.kernels.measures import perfect_pod_ms
from hpabatch.layout import codes
from hpabatch.layout.records import F64, I64
from hpabatch.model.plant import BACKLOG, DIVISIBLE, PER_POD, QUEUE
from hpabatch.packing.simulation import SimulatedFleet
from hpabatch.packing.specs import StreamKey, lane_streams
from hpabatch.packing.workloads import Workload, primary_signal

MOST_DEMAND = 10_000_000
HOUR_MS = 3_600_000
MINUTE_MS = 60_000
COUNTS: Final = ("rescales", "rescales_up", "rescales_down", "reversals")


def sums_of(
    cases: Sequence[SimulationCase],
    total: Callable[[str], I64],
    minutes: Callable[[I64], F64],
    peaks: I64,
    perfect: F64,
) -> dict[str, pl.Series]:
    """Return the measures that runs and blocks of them have, by column: all of them sums.

    Args:
        cases: a row each.
        total: gives the sum of a measure (`layout.results.Measures`) over a row's steps.
        minutes: gives the minutes of so many steps.
        peaks: steps by the number of assumed ceilings that they are above.
        perfect: pod-hours of perfect forecasts; NaN: not known.
    """
    period_ms = periods_of(cases)
    known = np.array([knows_demand(case) for case in cases])
    divisible = np.array([has_kind(case, DIVISIBLE) for case in cases])
    known_ceiling = np.array([has_ceiling(case) for case in cases])
    queued = np.array([waits(case) for case in cases])
    cpu, memory = amounts(cases)
    pod_hours, left = total("pod_ms") / HOUR_MS, total("unserved_milli_s") / 1000.0
    return {
        "hours": pl.Series(total("steps") * period_ms / HOUR_MS),
        "replica_hours": pl.Series(total("replica_ms") / HOUR_MS),
        "pod_hours": pl.Series(pod_hours),
        "core_hours": where_known(pod_hours * np.nan_to_num(cpu), ~np.isnan(cpu)),
        "gib_hours": where_known(pod_hours * np.nan_to_num(memory), ~np.isnan(memory)),
        "saturated_minutes": where_known(minutes(total("saturated_steps")), known_ceiling),
        **above_columns(peaks, period_ms, cases),
        "unserved": where_known(left, divisible & ~queued & known_ceiling),
        "waiting": where_known(left, [knows_waiting(case) for case in cases]),
        "short_pod_hours": where_known(total("short_ms") / HOUR_MS, known),
        "perfect_pod_hours": where_known(perfect, known & ~np.isnan(perfect)),
        **{name: pl.Series(total(name)) for name in COUNTS},
        "at_max_minutes": pl.Series(minutes(total("at_max_steps"))),
        "invalid_minutes": pl.Series(minutes(total("invalid_steps"))),
    }


def measures_frame(
    fleet: SimulatedFleet, chosen: Sequence[tuple[int, SimulationCase]], bounds: Bounds
) -> pl.DataFrame:
    """Return one row per case, of which there are some, from the sums of its lane."""
    rows = np.array([h for h, _ in chosen], np.int64)
    cases = [case for _, case in chosen]
    m = fleet.simulation.measures[rows]
    period_ms = periods_of(cases)
    steps = m.steps.astype(np.float64)
    known = np.array([knows_demand(c) for c in cases])
    hours = m.steps * period_ms / HOUR_MS
    bound = np.array([bounds.hours(c) if k else np.nan for c, k in zip(cases, known, strict=True)])

    def share(count: I64 | F64, mask: Any = known) -> pl.Series:
        return where_known(100.0 * count / steps, mask)

    def minutes(count: I64) -> F64:
        return count * period_ms / MINUTE_MS

    def mean(total: I64, count: I64, unit: float) -> pl.Series:
        value = total / np.maximum(count, 1) / unit
        return where_known(value, known & (count > 0))

    pod_hours, short = m.pod_ms / HOUR_MS, m.short_ms / HOUR_MS
    # Surplus pods and missing ones, neither of which makes up for the other.
    regret = np.maximum(pod_hours + short - bound, 0) + short
    peaks, has = fleet.simulation.peaks[rows], [has_ceiling(case) for case in cases]
    columns = sums_of(cases, m.__getitem__, minutes, peaks, bound) | {
        "theta_u_pct": share(m.under_ratio),
        "theta_o_pct": share(m.over_ratio),
        "tau_u_pct": share(m.under_steps),
        "tau_o_pct": share(m.over_steps),
        "instability_pct": share(m.unstable_steps),
        "jitter_per_hour": where_known((m.supply_changes - m.demand_changes) / hours, known),
        "saturated_longest_minutes": where_known(minutes(m.saturated_longest), has),
        "episodes": int_where_known(m.episodes, known),
        "episodes_ended": int_where_known(m.episodes_ended, known),
        "episodes_reacted": int_where_known(m.episodes_reacted, known),
        "reaction_s": mean(m.reaction_ms, m.episodes_reacted, 1000.0),
        "settling_s": mean(m.settling_ms, m.episodes_ended, 1000.0),
        "overshoot": mean(m.overshoot, m.episodes_ended, 1.0),
        "outside_pct": share(m.outside_steps, [has_kind(c, DIVISIBLE) for c in cases]),
        "perfect_pod_hours": where_known(bound, known),
        "regret_pct": where_known(100.0 * regret / np.maximum(bound, 1e-12), known),
        "capacity_milli": pl.Series(
            [c.workload.plant.capacity_milli for c in cases], dtype=pl.Int64
        ),
        "drivers": pl.Series([_drivers(fleet, h, c) for h, c in chosen], dtype=pl.String),
    }
    for code, words in codes.BINDINGS.items():
        counts = fleet.simulation.bindings[rows][:, code]
        columns[f"minutes_{words.name}"] = pl.Series(minutes(counts))
    found = pl.DataFrame({name: columns[name] for name in MEASURES.meanings if name in columns})
    return pl.concat([keys_of(cases), found], how="horizontal")


def keys_of(cases: Sequence[SimulationCase]) -> pl.DataFrame:
    """Return the columns that name cases."""
    columns = ["cluster", "namespace", "hpa", "setting"]
    return pl.DataFrame([case.key for case in cases], schema=columns, orient="row")


def periods_of(cases: Sequence[SimulationCase]) -> I64:
    """Return the sync periods of cases (ms)."""
    return np.array([case.period_ms for case in cases], np.int64)


def was_at_max(fleet: SimulatedFleet, row: int) -> bool:
    """Say whether maxReplicas bound a run at any tick."""
    bindings = fleet.simulation.bindings[row]
    held = bindings[codes.BOUND_BY_MAX] + bindings[codes.BOUND_BY_FORCED_MAX]
    return bool(held > 0 or fleet.simulation.measures.at_max_steps[row] > 0)


def where_known(values: Any, known: Any) -> pl.Series:
    """Return values, null where a mask is False."""
    series = pl.Series(np.asarray(values, np.float64))
    return pl.select(pl.when(pl.Series(known)).then(series)).to_series()


def int_where_known(values: I64, known: Any) -> pl.Series:
    """Return whole numbers, null where a mask is False."""
    return pl.select(pl.when(pl.Series(known)).then(pl.Series(values))).to_series()


def has_kind(case: SimulationCase, kind: str) -> bool:
    """Say whether a signal of the workload is of a kind."""
    return any(signal.kind == kind for signal in case.workload.plant.signals.values())


def has_ceiling(case: SimulationCase) -> bool:
    """Say whether the most that a pod can do is known of some work of the pods."""
    signals = case.workload.plant.signals.values()
    return any(s.kind in (DIVISIBLE, PER_POD) and s.ceiling_milli is not None for s in signals)


def has_levels(case: SimulationCase) -> bool:
    """Say whether ceilings are assumed, as none is known."""
    name = primary_signal(case.workload.plant)
    return name is not None and bool(case.workload.plant.signals[name].levels_milli)


def above_columns(
    peaks: I64, period_ms: I64, cases: Sequence[SimulationCase]
) -> dict[str, pl.Series]:
    """Return the minutes above each assumed ceiling; null where the real one is known.

    `peaks` (cases, levels + 1) are steps by the number of ceilings that they are above.
    """
    above = peaks[:, ::-1].cumsum(axis=1)[:, -2::-1]
    minutes = above * np.asarray(period_ms)[:, None] / MINUTE_MS
    assumed = np.array([has_levels(c) for c in cases])
    return {name: where_known(minutes[:, k], assumed) for k, name in enumerate(ABOVE_MINUTES)}


def waits(case: SimulationCase) -> bool:
    """Say whether work of the primary signal that is not done waits instead of being gone."""
    name = primary_signal(case.workload.plant)
    if name is None:
        return False
    signal = case.workload.plant.signals[name]
    return signal.kind == BACKLOG or signal.overload == QUEUE


def knows_waiting(case: SimulationCase) -> bool:
    """Say whether work waits, and what a pod does of it at most is known."""
    name = primary_signal(case.workload.plant)
    if name is None or not waits(case):
        return False
    signal = case.workload.plant.signals[name]
    return signal.kind == BACKLOG or signal.ceiling_milli is not None


def amounts(cases: Sequence[SimulationCase]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what a pod of each case requests: cores and GiB, NaN where that is not known."""
    cpu = np.array([_amount(c.requested.cpu_milli, 1000.0) for c in cases])
    memory = np.array([_amount(c.requested.memory_milli, 1000.0 * 2**30) for c in cases])
    return cpu, memory


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


def knows_demand(case: SimulationCase) -> bool:
    """Say whether it is known how many pods the work asks for."""
    plant = case.workload.plant
    return bool(plant.capacity_milli) and primary_signal(plant) is not None


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


class Bounds:
    """The pod-hours of perfect forecasts: each is computed once for all settings of a workload."""

    def __init__(self) -> None:
        """Begin without any."""
        self._known: dict[tuple[int, ...], tuple[Workload, float]] = {}

    def hours(self, case: SimulationCase, first: int = 0, last: int | None = None) -> float:
        """Return the pod-hours of steps first:last that never leave a step with too few pods.

        NaN where the demand is absurd.
        """
        last = case.steps if last is None else last
        key = (id(case.workload), case.start_ms, case.period_ms, first, last)
        if key not in self._known:
            # (the workload is kept, so no other object can get its id)
            found = _perfect_hours(case, demand_series(case)[first:last])
            self._known[key] = case.workload, found
        return self._known[key][1]


def _perfect_hours(case: SimulationCase, demand: I64) -> float:
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
