"""The closed loop of rules and plants: runs of cases, and their measures as frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

import numpy as np
import polars as pl

from hpabatch.engine.simulate.case import SimulationCase
from hpabatch.engine.simulate.measures import Bounds, has_ceiling, measures_frame
from hpabatch.kernels.simulate import simulate_fleet
from hpabatch.layout import codes
from hpabatch.layout.plant import LANE_FULL
from hpabatch.layout.records import I64
from hpabatch.layout.results import Measures
from hpabatch.model.progress import Progress, silent
from hpabatch.model.versions import Profile
from hpabatch.packing.simulation import FEWEST_COHORTS, SimulatedFleet, pack_simulation

# Lanes at a time: the state of one is some kB, a kept trajectory 112 B a tick.
LANES_AT_ONCE = 4096
POINTS_AT_ONCE = 4_000_000


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """One row of measures per case, and where trajectories are kept one per case and tick."""

    measures: pl.DataFrame
    points: pl.DataFrame | None


def simulate(
    cases: Sequence[SimulationCase],
    profile: Profile,
    seed: int = 0,
    keep_points: bool = False,
    progress: Progress = silent,
) -> SimulationResult:
    """Run all cases; rows come in their order, and no row depends on the other cases.

    Raises:
        ValueError: a metric has no signal in its workload's plant.
    """
    measures, points, done, bounds = [], [], 0, Bounds()
    for ran in run_cases(cases, profile, seed, keep_points):
        measures.append(measures_frame(ran.fleet, ran.chosen, bounds))
        if keep_points:
            points.append(points_frame(ran.fleet, ran.chosen))
        done += len(ran.chosen)
        progress("simulating", done / len(cases))
    frame = pl.concat(measures) if measures else pl.DataFrame()
    kept = pl.concat(points) if points else None
    return SimulationResult(in_order(frame, cases), kept)


def in_order(frame: pl.DataFrame, cases: Sequence[SimulationCase]) -> pl.DataFrame:
    """Return rows in the order of their cases."""
    keys = ["cluster", "namespace", "hpa", "setting"]
    order = pl.DataFrame([c.key for c in cases], schema=keys, orient="row")
    return order.join(frame, on=keys, how="left", maintain_order="left") if cases else frame


Item = TypeVar("Item")


def in_parts(items: Iterable[Item], points: Iterable[int], most: int) -> Iterator[list[Item]]:
    """Yield items in parts of at most so many points (one item may have more) and LANES_AT_ONCE."""
    part: list[Item] = []
    held = 0
    for item, more in zip(items, points, strict=True):
        if part and (len(part) == LANES_AT_ONCE or held + more > most):
            yield part
            part, held = [], 0
        part.append(item)
        held += more
    if part:
        yield part


class Ran(NamedTuple):
    """Lanes that came to their end: their arrays, and which of their rows are which cases.

    `snapshots` are the sums of all rows after `cuts` steps, ascending, `peaks` their steps by
    level.
    """

    fleet: SimulatedFleet
    chosen: list[tuple[int, SimulationCase]]
    cuts: tuple[int, ...]
    snapshots: tuple[Measures, ...]
    peaks: tuple[I64, ...]


def run_cases(
    cases: Sequence[SimulationCase],
    profile: Profile,
    seed: int,
    keep_points: bool = False,
    block_ms: int = 0,
) -> Iterator[Ran]:
    """Run cases in parts that fit memory; yield arrays with the lanes that came to their end.

    With `block_ms` the sums are looked at every so often.
    """
    points = [case.steps if keep_points else 0 for case in cases]
    for part in in_parts(cases, points, POINTS_AT_ONCE):
        yield from _run_part(part, profile, seed, keep_points, block_ms)


def _run_part(
    cases: Sequence[SimulationCase], profile: Profile, seed: int, keep_points: bool, block_ms: int
) -> Iterator[Ran]:
    """Run cases; those that need more cohorts than they had room for again with more."""
    for flags, period_ms in dict.fromkeys((c.flags, c.period_ms) for c in cases):
        left = [c for c in cases if c.flags == flags and c.period_ms == period_ms]
        cohorts = FEWEST_COHORTS
        while left:
            lanes = [case.lane() for case in left]
            fleet = pack_simulation(lanes, flags, profile, seed, cohorts, keep_points)
            steps = max(case.steps for case in left)
            cuts = block_cuts(steps, period_ms, block_ms)
            snapshots, peaks = _run(fleet, [*cuts, steps])
            full = fleet.simulation.states.status == LANE_FULL
            ended = [(h, case) for h, case in enumerate(left) if not full[h]]
            if ended:
                yield Ran(fleet, ended, cuts, tuple(snapshots[:-1]), tuple(peaks[:-1]))
            left = [case for h, case in enumerate(left) if full[h]]
            cohorts *= 4


def block_cuts(steps: int, period_ms: int, block_ms: int) -> tuple[int, ...]:
    """Return after how many steps each block of a run ends, but the last one; 0: there are none."""
    if block_ms == 0:
        return ()
    count = -(-steps * period_ms // block_ms)
    ends = (k * block_ms // period_ms for k in range(1, count + 1))
    return tuple(end for end in ends if 0 < end < steps)


def _run(fleet: SimulatedFleet, cuts: Sequence[int]) -> tuple[list[Measures], list[I64]]:
    """Run all lanes; return their sums, and their steps by level, after each of the cuts."""
    found, peaks = [], []
    for until in cuts:
        simulate_fleet(fleet.simulation, fleet.fleet, fleet.memory, until, fleet.results)
        found.append(fleet.simulation.measures.copy())
        peaks.append(fleet.simulation.peaks.copy())
    return found, peaks


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


def points_frame(
    fleet: SimulatedFleet, chosen: Sequence[tuple[int, SimulationCase]]
) -> pl.DataFrame:
    """Return one row per case and tick."""
    frames = []
    for h, case in chosen:
        first = int(fleet.simulation.lanes.first_point[h])
        points = fleet.simulation.points[first : first + case.steps]
        cluster, namespace, hpa, setting = case.key
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
            ).with_columns(
                pl.when(pl.lit(has_ceiling(case))).then(pl.col("saturated").cast(pl.Boolean()))
            )
        )
    return pl.concat(frames) if frames else pl.DataFrame()


def elastic_speedup(measures: pl.DataFrame, baseline: str) -> pl.DataFrame:
    """Return the measures with `elastic_speedup` against a baseline setting of the same HPA.

    The geometric mean of the ratios baseline / setting of theta_U, theta_O, tau_U and tau_O (Herbst
    et al. 2018): above 1 is better than the baseline. A ratio of 0 / 0 counts as 1; null where the
    setting's value alone is 0 or the demand is not known.
    """
    names = ["theta_u_pct", "theta_o_pct", "tau_u_pct", "tau_o_pct"]
    keys = ["cluster", "namespace", "hpa"]
    base = measures.filter(pl.col("setting") == baseline).select(
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
    return joined.with_columns(elastic_speedup=product.pow(0.25)).drop(f"base_{n}" for n in names)
