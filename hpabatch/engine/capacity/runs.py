"""The runs of a capacity plan: each HPA under three bounds and its work times a factor.

* TODAY: the last spec that was in force, all of the time.
* UNCLAMPED: the same with a maxReplicas that it does not reach.
* FREE: the same with minReplicas 1 beside (0 where today's is 0).

The rules use maxReplicas in two places alone, the bound of a move and the forced move from above
it, and no arithmetic is done with it. So a run that stays below CEILING is what any larger
maxReplicas gives; what limits it is the spec's behavior, or without one the doubling per sync. One
that reaches CEILING has no end: its metric does not fall with more pods. Where the simulation must
tell pods apart one by one (failures, room and different start-up times) it is CEILING_APART, or
today's maxReplicas if that is more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import polars as pl

from hpabatch.engine.fleet.candidates import SpecPeriod
from hpabatch.engine.fleet.frames import ALWAYS_MS, NEVER_MS
from hpabatch.engine.simulate.case import SimulationCase
from hpabatch.engine.simulate.loop import POINTS_AT_ONCE, in_order, in_parts, run_cases
from hpabatch.engine.simulate.measures import MINUTE_MS, Bounds, measures_frame
from hpabatch.engine.simulate.scenario import apply
from hpabatch.inputs.scenarios import Growth, Scenario, Step
from hpabatch.layout.records import I64, Records
from hpabatch.model.objects.hpa import HPASpec
from hpabatch.model.versions import Profile
from hpabatch.packing.simulation import groups_pods

TODAY: Final = "today"
UNCLAMPED: Final = "unclamped"
FREE: Final = "free"
BOUNDS: Final = (TODAY, UNCLAMPED, FREE)

CEILING: Final = 100_000
"""A size that counts as endless: Kubernetes is built for 150,000 pods in a cluster."""

CEILING_APART: Final = 5_000

AS_RECORDED: Final = 1000

PERCENTILES: Final = (50, 95, 99)

_WHOLE: Final = (
    *("start_ms", "period_ms", "steps", "min_replicas", "max_replicas"),
    *("cpu_milli", "memory_milli", *(f"desired_p{p}" for p in PERCENTILES), "desired_max"),
    *("lowest", "highest", "ticks_at_max", "first_at_max_ms", "peak"),
)
_TRACK: Final[Mapping[str, Any]] = {
    **dict.fromkeys(_WHOLE, pl.Int64()),
    "minutes_at_max": pl.Float64(),
    "endless": pl.String(),
    **dict.fromkeys(("ticks", "changes"), pl.List(pl.Int32())),
}


def percentile(values: I64, percent: int) -> int:
    """Return the nearest rank: the smallest value that so many percent of all do not exceed."""
    rank = max(-(-percent * values.size // 100), 1) - 1
    return int(np.partition(values, rank)[rank])


def ceiling_of(case: SimulationCase) -> int:
    """Return the size from which on a case's run without maxReplicas counts as endless."""
    if groups_pods(case.lane()):
        return CEILING
    return min(max(CEILING_APART, case.periods[-1].spec.max_replicas), CEILING)


def with_bounds(spec: HPASpec, bounds: str, ceiling: int) -> HPASpec:
    """Return today's spec with the bounds of a run."""
    if bounds == TODAY:
        return spec
    least = spec.min_replicas
    if bounds == FREE:
        least = min(1, 1 if least is None else least)
    return replace(spec, min_replicas=least, max_replicas=max(ceiling, spec.max_replicas))


def bounded(case: SimulationCase, bounds: str) -> SimulationCase:
    """Return a case under its last spec with the bounds of a run, all of the time."""
    spec = with_bounds(case.periods[-1].spec, bounds, ceiling_of(case))
    return replace(case, periods=(SpecPeriod(ALWAYS_MS, NEVER_MS, spec),), setting=bounds)


def grown(case: SimulationCase, growth_milli: int, profile: Profile) -> SimulationCase:
    """Return a case with its work times a factor, in thousandths, as a scenario's growth has it."""
    if growth_milli == AS_RECORDED:
        return case
    end_ms = case.start_ms + case.period_ms * case.steps
    scenario = Scenario((Step(Growth(growth_milli)),))
    applied = apply(scenario, case.workload, case.periods, case.start_ms, end_ms, profile=profile)
    return replace(case, workload=applied.workload)


def run_all(
    cases: Sequence[SimulationCase], growth_milli: int, profile: Profile, seed: int
) -> pl.DataFrame:
    """Run the cases under each of the bounds; return a row for each, in their order.

    It has the measures (column `setting`: the bounds) and what its track comes to: `desired_*` of
    the target's size after each tick, `lowest` and `highest` of the sizes before and after ticks,
    `endless` why the run does not show how many pods would have been enough (null: it does).

    Held are the pods that request something, the larger of the size and of the pods that are there
    (those that are ending still hold their requests): `peak` at most, by `changes` before the
    `ticks` with these numbers; all go with the last one. A run of 30 days has 172,800 ticks and
    some hundred to thousand changes.

    Trajectories are kept of a part of the HPAs at a time.

    Raises:
        ValueError: a metric has no signal in its workload's plant.
    """
    frames, perfect = [pl.DataFrame()], Bounds()
    for part in in_parts(cases, [c.steps * len(BOUNDS) for c in cases], POINTS_AT_ONCE):
        more = [grown(case, growth_milli, profile) for case in part]
        lanes = [bounded(case, bounds) for case in more for bounds in BOUNDS]
        rows = []
        for fleet, ended, *_ in run_cases(lanes, profile, seed, keep_points=True):
            firsts, points = fleet.simulation.lanes.first_point, fleet.simulation.points
            tracks = [_track(case, points[firsts[h] : firsts[h] + case.steps]) for h, case in ended]
            measures = measures_frame(fleet, ended, perfect)
            track = pl.DataFrame(tracks, schema=_TRACK)
            rows.append(pl.concat([measures, track], how="horizontal"))
        frames.append(in_order(pl.concat(rows), lanes))
    return pl.concat(frames[1:] or frames)


def _track(case: SimulationCase, points: Records) -> dict[str, Any]:
    """Return the columns of `_TRACK`."""
    spec = case.periods[-1].spec
    desired, before = points.desired.astype(np.int64), points.replicas.astype(np.int64)
    highest = int(max(desired.max(), before.max()))
    sizes = np.concatenate([before, desired])
    if (spec.min_replicas or 0) > 0:
        # A target at 0, which is set by hand, is not raised to minReplicas by the rules.
        sizes = sizes[sizes > 0]
    at_max = np.flatnonzero(desired == spec.max_replicas)
    held = np.maximum(desired, points.pods.astype(np.int64))
    changes = np.diff(held, prepend=0, append=0)
    ticks = np.flatnonzero(changes)
    return {
        "start_ms": case.start_ms,
        "period_ms": case.period_ms,
        "steps": case.steps,
        "min_replicas": spec.min_replicas,
        "max_replicas": spec.max_replicas,
        **case.requested._asdict(),
        **{f"desired_p{p}": percentile(desired, p) for p in PERCENTILES},
        "desired_max": int(desired.max()),
        "lowest": int(sizes.min(initial=highest)),
        "highest": highest,
        "ticks_at_max": at_max.size,
        "minutes_at_max": at_max.size * case.period_ms / MINUTE_MS,
        "first_at_max_ms": case.start_ms + int(at_max[0]) * case.period_ms if at_max.size else None,
        "peak": int(held.max()),
        "endless": _endless(case, points[-1], highest),
        "ticks": ticks.tolist(),
        "changes": changes[ticks].tolist(),
    }


def _endless(case: SimulationCase, last: Records, highest: int) -> str | None:
    """Return why no maxReplicas would have sufficed; None: one would."""
    ceiling = ceiling_of(case)
    if highest >= ceiling:
        return (
            f"without maxReplicas it asks for ever more pods (beyond {ceiling:,}): its "
            "metric does not fall below the target however many there are"
        )
    behavior = case.periods[-1].spec.behavior
    rules = behavior.scale_up if behavior is not None else None
    # (a size that stands still as scaling up is disabled has its end)
    may_rise = rules is None or rules.select_policy != "Disabled"
    if may_rise and last.stabilized > last.desired and last.desired == highest:
        return (
            f"at the end of the run it was still rising (at {highest:,}), held back by "
            "its scale-up rules alone"
        )
    return None
