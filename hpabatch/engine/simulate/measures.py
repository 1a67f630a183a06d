"""The measures of simulated runs, and of stretches of them: one table over the sums of their steps.

A row is a case; `TABLE` says how each measure comes from the sums (`layout.results.Measures`) and
from what is known of the case (`_known`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from hpabatch.engine.columns.recorded import ABOVE_MINUTES
from hpabatch.engine.columns.simulate import MEASURES
from hpabatch.engine.simulate.case import SimulationCase
from hpabatch.kernels.measures import perfect_pod_ms
from hpabatch.layout import codes
from hpabatch.layout.records import I64
from hpabatch.layout.results import MEASURES as SUMS
from hpabatch.model.plant import BACKLOG, DIVISIBLE, PER_POD, QUEUE
from hpabatch.packing.simulation import SimulatedFleet
from hpabatch.packing.specs import lane_streams
from hpabatch.packing.workloads import Workload, primary_signal

MOST_DEMAND = 10_000_000
HOUR_MS = 3_600_000
MINUTE_MS = 60_000
_GIB: Final = 2**30
# Units are columns: by a constant Polars does not divide, it multiplies by the inverse, and rounds
# that.
_UNITS: Final = {"an_hour": HOUR_MS, "a_minute": MINUTE_MS, "a_thousand": 1000}
_HOUR, _MINUTE, _THOUSAND = map(pl.col, _UNITS)
_STEPS: Final = pl.col("period_ms")
_DEMAND, _DIVISIBLE, _CEILING = pl.col("has_demand"), pl.col("is_divisible"), pl.col("has_ceiling")
_PEAKS: Final = [f"steps_above_{level}" for level in range(len(ABOVE_MINUTES) + 1)]
"""Steps by the number of assumed ceilings that they are above."""


def _minutes(steps: str | pl.Expr) -> pl.Expr:
    return (pl.col(steps) if isinstance(steps, str) else steps) * _STEPS / _MINUTE


def _share(steps: str) -> pl.Expr:
    return 100.0 * pl.col(steps) / pl.col("steps")


def _mean(total: str, count: str) -> pl.Expr:
    return pl.when(_DEMAND & (pl.col(count) > 0)).then(pl.col(total) / pl.col(count))


_HOURS: Final = pl.col("steps") * _STEPS / _HOUR
_POD_HOURS: Final = pl.col("pod_ms") / _HOUR
_SHORT: Final = pl.col("short_ms") / _HOUR
_PERFECT: Final = pl.col("perfect_hours")
_LEFT: Final = pl.col("unserved_milli_s") / _THOUSAND
# Surplus pods and missing ones, neither of which makes up for the other.
_REGRET: Final = pl.max_horizontal(_POD_HOURS + _SHORT - _PERFECT, 0) + _SHORT

TABLE: Final[Mapping[str, pl.Expr]] = {
    "hours": _HOURS,
    "replica_hours": pl.col("replica_ms") / _HOUR,
    "pod_hours": _POD_HOURS,
    "core_hours": _POD_HOURS * pl.col("cores"),
    "gib_hours": _POD_HOURS * pl.col("gib"),
    "theta_u_pct": pl.when(_DEMAND).then(_share("under_ratio")),
    "theta_o_pct": pl.when(_DEMAND).then(_share("over_ratio")),
    "tau_u_pct": pl.when(_DEMAND).then(_share("under_steps")),
    "tau_o_pct": pl.when(_DEMAND).then(_share("over_steps")),
    "instability_pct": pl.when(_DEMAND).then(_share("unstable_steps")),
    "jitter_per_hour": pl.when(_DEMAND).then(
        (pl.col("supply_changes") - pl.col("demand_changes")) / _HOURS
    ),
    "saturated_minutes": pl.when(_CEILING).then(_minutes("saturated_steps")),
    "saturated_longest_minutes": pl.when(_CEILING).then(_minutes("saturated_longest")),
    **{
        name: pl.when("has_levels").then(_minutes(pl.sum_horizontal(_PEAKS[level:])))
        for level, name in enumerate(ABOVE_MINUTES, 1)
    },
    "unserved": pl.when(_DIVISIBLE & ~pl.col("waits") & _CEILING).then(_LEFT),
    "waiting": pl.when("knows_waiting").then(_LEFT),
    **{name: pl.col(name) for name in ("rescales", "rescales_up", "rescales_down", "reversals")},
    **{
        name: pl.when(_DEMAND).then(name)
        for name in ("episodes", "episodes_ended", "episodes_reacted")
    },
    "reaction_s": _mean("reaction_ms", "episodes_reacted") / _THOUSAND,
    "settling_s": _mean("settling_ms", "episodes_ended") / _THOUSAND,
    "overshoot": _mean("overshoot", "episodes_ended"),
    "at_max_minutes": _minutes("at_max_steps"),
    "invalid_minutes": _minutes("invalid_steps"),
    "outside_pct": pl.when(_DIVISIBLE).then(_share("outside_steps")),
    "under_minutes": pl.when(_DEMAND).then(_minutes("under_steps")),
    "over_minutes": pl.when(_DEMAND).then(_minutes("over_steps")),
    "unstable_minutes": pl.when(_DEMAND).then(_minutes("unstable_steps")),
    "outside_minutes": pl.when(_DIVISIBLE).then(_minutes("outside_steps")),
    "short_pod_hours": pl.when(_DEMAND).then(_SHORT),
    "perfect_pod_hours": _PERFECT,
    "regret_pct": pl.when(_PERFECT.is_not_null()).then(
        100.0 * _REGRET / pl.max_horizontal(_PERFECT, 1e-12)
    ),
    "capacity_milli": pl.col("capacity_milli"),
}
"""How each measure comes from a row's sums. Those with a mean, a share, episodes, the longest of
something or a regret are of whole runs; the others add up over stretches of one.
"""


def known_sums(
    cases: Sequence[SimulationCase],
    sums: Mapping[str, I64],
    peaks: I64,
    perfect: Sequence[float | None],
) -> pl.DataFrame:
    """Return what `TABLE` is about, a row for each case.

    Args:
        cases: a row each.
        sums: each measure (`layout.results.Measures`) over a row's steps.
        peaks: steps by the number of assumed ceilings that they are above, (cases, levels + 1).
        perfect: pod-hours of perfect forecasts (`Bounds.hours`).
    """
    names = ["cluster", "namespace", "hpa", "setting"]
    keys = pl.DataFrame([case.key for case in cases], schema=names, orient="row")
    known = pl.DataFrame([_known(case) for case in cases], schema=_KNOWN)
    above = pl.DataFrame({name: peaks[:, k] for k, name in enumerate(_PEAKS)})
    hours = pl.Series("perfect_hours", perfect, dtype=pl.Float64)
    units = pl.DataFrame({name: [size] * len(cases) for name, size in _UNITS.items()})
    frames = (keys, known, units, pl.DataFrame(sums), above, hours.to_frame())
    return pl.concat(frames, how="horizontal")


def measures_frame(
    fleet: SimulatedFleet, chosen: Sequence[tuple[int, SimulationCase]], bounds: Bounds
) -> pl.DataFrame:
    """Return one row per case, of which there are some, from the sums of its lane."""
    rows, cases = np.array([h for h, _ in chosen], np.int64), [case for _, case in chosen]
    found, bindings = fleet.simulation.measures[rows], fleet.simulation.bindings[rows]
    sums = {name: found[name] for name in SUMS.names}
    frame = known_sums(
        cases, sums, fleet.simulation.peaks[rows], [bounds.hours(case) for case in cases]
    )
    words = {f"minutes_{words.name}": code for code, words in codes.BINDINGS.items()}
    frame = frame.with_columns(
        *(pl.Series(name, bindings[:, code]) for name, code in words.items()),
        pl.Series("drivers", [_drivers(fleet, h, c) for h, c in chosen], dtype=pl.String),
    )
    table = {**TABLE, "drivers": pl.col("drivers"), **{name: _minutes(name) for name in words}}
    return frame.select(
        *("cluster", "namespace", "hpa", "setting"),
        *(table[name].alias(name) for name in MEASURES.names if name in table),
    )


def was_at_max(fleet: SimulatedFleet, row: int) -> bool:
    """Say whether maxReplicas bound a run at any tick."""
    bindings = fleet.simulation.bindings[row]
    held = bindings[codes.BOUND_BY_MAX] + bindings[codes.BOUND_BY_FORCED_MAX]
    return bool(held > 0 or fleet.simulation.measures.at_max_steps[row] > 0)


_KNOWN: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("period_ms", "capacity_milli"), pl.Int64()),
    **dict.fromkeys(("has_demand", "is_divisible", "has_ceiling", "has_levels"), pl.Boolean()),
    **dict.fromkeys(("waits", "knows_waiting"), pl.Boolean()),
    **dict.fromkeys(("cores", "gib"), pl.Float64()),
}


def _known(case: SimulationCase) -> dict[str, Any]:
    """Return what the measures of a case depend on beside its sums.

    `has_demand`: it is known how many pods the work asks for; `has_levels`: ceilings are assumed,
    as none is known; `waits`: work that is not done waits instead of being gone, and
    `knows_waiting`: what a pod does of it at most is known. `cores` and `gib`: of a pod's requests.
    """
    plant, (cpu, memory) = case.workload.plant, case.requested
    primary = plant.signals.get(primary_signal(plant) or "")
    is_backlog = waits = has_levels = False
    ceiling_milli = None
    if primary is not None:
        is_backlog, ceiling_milli = primary.kind == BACKLOG, primary.ceiling_milli
        waits = is_backlog or primary.overload == QUEUE
        has_levels = bool(primary.levels_milli)
    return {
        "period_ms": case.period_ms,
        "capacity_milli": plant.capacity_milli,
        "has_demand": bool(plant.capacity_milli) and primary is not None,
        "is_divisible": any(signal.kind == DIVISIBLE for signal in plant.signals.values()),
        "has_ceiling": has_ceiling(case),
        "has_levels": has_levels,
        "waits": waits,
        "knows_waiting": waits and (is_backlog or ceiling_milli is not None),
        "cores": None if cpu is None else cpu / 1000.0,
        "gib": None if memory is None else memory / (1000.0 * _GIB),
    }


def has_ceiling(case: SimulationCase) -> bool:
    """Say whether the most that a pod can do is known of some work of the pods."""
    signals = case.workload.plant.signals.values()
    return any(s.kind in (DIVISIBLE, PER_POD) and s.ceiling_milli is not None for s in signals)


def _drivers(fleet: SimulatedFleet, h: int, case: SimulationCase) -> str:
    """Return by metric the share of ticks in which it drove the decision, `cpu 98%, memory 2%`."""
    lane = fleet.fleet.lanes[h]
    counts = fleet.simulation.drivers[lane.first_stream : lane.last_stream]
    total = int(fleet.simulation.measures.steps[h])
    keys = lane_streams([p.spec for p in case.periods])
    names = [
        (f"{key.resource} of {key.container}" if key.container else key.resource)
        or str(getattr(key.subject, "name", key.type))
        for key in keys
    ]
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


class Bounds:
    """The pod-hours of perfect forecasts: each is computed once for all settings of a workload."""

    def __init__(self) -> None:
        """Begin without any."""
        self._known: dict[tuple[int, ...], tuple[Workload, float | None]] = {}

    def hours(self, case: SimulationCase, first: int = 0, last: int | None = None) -> float | None:
        """Return the pod-hours of steps first:last that never leave a step with too few pods.

        None where the demand is not known, or absurd.
        """
        last = case.steps if last is None else last
        key = (id(case.workload), case.start_ms, case.period_ms, first, last)
        if key not in self._known:
            # (the workload is kept, so no other object can get its id)
            found = _perfect_hours(case, demand_series(case)[first:last])
            self._known[key] = case.workload, found
        return self._known[key][1]


def _perfect_hours(case: SimulationCase, demand: I64) -> float | None:
    if demand.size == 0 or demand.max() > MOST_DEMAND:
        return None  # a capacity far too small would take an entry a pod
    pods = case.workload.plant.pods
    startup = [scheduling + starting for scheduling, starting in pods.startup_ms]
    restart_ms = sum(startup) // len(startup) + pods.termination_ms
    scratch = np.zeros(int(demand.max(initial=0)), np.int64)
    return perfect_pod_ms(demand, case.period_ms, restart_ms, scratch) / HOUR_MS
