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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import polars as pl

from hpabatch.engine.fleet.candidates import SpecPeriod
from hpabatch.engine.fleet.frames import ALWAYS_MS, NEVER_MS
from hpabatch.engine.simulate.case import SimulationCase
from hpabatch.engine.simulate.loop import POINTS_AT_ONCE, in_parts, run_cases
from hpabatch.engine.simulate.measures import Bounds, measures_frame
from hpabatch.engine.simulate.run import KEY
from hpabatch.engine.simulate.scenario import apply
from hpabatch.engine.simulate.work import Key
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


@dataclass(frozen=True, slots=True)
class Track:
    """One run, tick by tick.

    `desired`: the target's size after each tick; `held`: the pods that request something, the
    larger of that and of the pods that are there (those that are ending still hold their requests).
    `lowest` and `highest` are over the sizes before and after the ticks; `rises`: at its end the
    run was at its highest, and only its scale-up rules kept it from more.
    """

    case: SimulationCase
    desired: I64
    held: I64
    lowest: int
    highest: int
    ceiling: int
    rises: bool

    @property
    def has_no_end(self) -> bool:
        """Whether the metrics ask for ever more pods."""
        return self.highest >= self.ceiling

    @property
    def is_open(self) -> bool:
        """Whether the run does not show how many pods would have been enough."""
        return self.has_no_end or self.rises


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of one HPA by bounds, and their rows of measures (column `setting`: the bounds)."""

    key: Key
    tracks: dict[str, Track]
    measures: pl.DataFrame


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
    cases: Sequence[SimulationCase],
    growth_milli: int,
    profile: Profile,
    seed: int,
    bounds: Sequence[str] = BOUNDS,
) -> Iterator[Runs]:
    """Run the cases under each of the bounds; yield them one by one, in their order.

    Trajectories are kept of a part of the HPAs at a time.

    Raises:
        ValueError: a metric has no signal in its workload's plant.
    """
    for part in in_parts(cases, [c.steps * len(bounds) for c in cases], POINTS_AT_ONCE):
        lanes = []
        for case in part:
            more = grown(case, growth_milli, profile)
            lanes += [bounded(more, name) for name in bounds]
        tracks: dict[tuple[Key, str], Track] = {}
        rows, perfect = [], Bounds()
        for fleet, ended, *_ in run_cases(lanes, profile, seed, keep_points=True):
            rows.append(measures_frame(fleet, ended, perfect))
            for h, case in ended:
                first = int(fleet.simulation.lanes.first_point[h])
                points = fleet.simulation.points[first : first + case.steps]
                tracks[case.key[:3], case.setting] = _track(case, points)
        measures = pl.concat(rows)
        for case in part:
            key = case.key[:3]
            names = zip(KEY, key, strict=True)
            yield Runs(
                key,
                {name: tracks.pop((key, name)) for name in bounds},
                measures.filter(*(pl.col(name) == value for name, value in names)),
            )


def _track(case: SimulationCase, points: Records) -> Track:
    desired = points.desired.astype(np.int64)
    before = points.replicas.astype(np.int64)
    highest = int(max(desired.max(), before.max()))
    sizes = np.concatenate([before, desired])
    if (case.periods[-1].spec.min_replicas or 0) > 0:
        # A target at 0, which is set by hand, is not raised to minReplicas by the rules.
        sizes = sizes[sizes > 0]
    last = points[-1]
    return Track(
        case=case,
        desired=desired,
        held=np.maximum(desired, points.pods.astype(np.int64)),
        lowest=int(sizes.min(initial=highest)),
        highest=highest,
        ceiling=ceiling_of(case),
        rises=bool(last.stabilized > last.desired and last.desired == highest) and _may_rise(case),
    )


def _may_rise(case: SimulationCase) -> bool:
    """Return whether scaling up is not disabled: else a size that stands still has its end."""
    behavior = case.periods[-1].spec.behavior
    rules = behavior.scale_up if behavior is not None else None
    return rules is None or rules.select_policy != "Disabled"
