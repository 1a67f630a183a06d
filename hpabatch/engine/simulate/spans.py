"""Run of a simulated HPA: when it starts, how long it takes, and how often the HPA syncs."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from hpabatch.engine.fit.workload import RECORDED, Fact, Workload
from hpabatch.engine.fleet.candidates import Candidate
from hpabatch.engine.fleet.frames import NEVER_MS
from hpabatch.engine.fleet.plan import ReplayPlan
from hpabatch.engine.fleet.request import MIN_SYNC_PERIOD_MS
from hpabatch.errors import UsageError
from hpabatch.history.reader import History

FEWEST_SYNCS: Final = 20  # fewer recorded syncs say nothing about the effective period
FEWEST_PASSES: Final = 2


def effective_period_ms(history: History, candidate: Candidate) -> int | None:
    """Return the median time between two recorded syncs of an HPA, None where few were recorded.

    Upstream's controller has a request rate and so many HPAs may take it longer than its flag says:
    1,000 HPAs some 50 s at the default rate.
    """
    names = [(candidate.namespace, candidate.name)]
    fetches = history.select("metric_fetches", candidate.cluster, names, columns=["ts"])
    instants = np.unique(fetches["ts"].to_physical().to_numpy())
    if instants.size <= FEWEST_SYNCS:
        return None
    return max(round(float(np.median(np.diff(instants)))), MIN_SYNC_PERIOD_MS)


def sync_fact(period_ms: int, whose: str = "recorded syncs of this HPA") -> Fact:
    """Return the effective sync period as a fact; `whose` names what it was measured between."""
    note = f"median time between the {whose}"
    return Fact("sync.period", period_ms / 1000, "s", None, None, RECORDED, note)


def pass_period_ms(plan: ReplayPlan, cluster: str) -> int | None:
    """Return the median time between the passes at which a cluster is decided, None without any.

    A loop's passes come evenly but for late ones, and so do a run's ticks.
    """
    passes = plan.clocks.passes.get(cluster)
    if passes is None or passes.size < FEWEST_PASSES:
        return None
    return max(round(float(np.median(np.diff(passes)))), MIN_SYNC_PERIOD_MS)


def work_span(workload: Workload) -> tuple[int, int]:
    """Return since when and until when (ms, exclusive) a workload's work is known.

    A piece more at each end: samples begin some time within the first one.
    """
    pieces = max((work.size for work in workload.work.values()), default=0)
    if pieces == 0:
        return workload.work_start_ms, NEVER_MS
    piece_ms = workload.resolution_ms
    first_ms = workload.work_start_ms - piece_ms
    return first_ms, workload.work_start_ms + (pieces + 1) * piece_ms


class Run(NamedTuple):
    """The ticks of an HPA's runs; `sync` is its effective period where that was recorded."""

    start_ms: int
    period_ms: int
    steps: int
    sync: Fact | None

    @property
    def end_ms(self) -> int:
        """When it ends (exclusive)."""
        return self.start_ms + self.period_ms * self.steps


def run_of(
    plan: ReplayPlan,
    candidate: Candidate,
    workload: Workload | None,
    sync_period_ms: int | None,
    length_ms: int | None,
    *,
    repeats: bool,
) -> Run:
    """Return the run of an HPA: its own syncs while spec and work are known.

    `sync_period_ms` and `length_ms` are those that were asked for. With `repeats` the work goes on.

    Raises:
        UsageError: it is to be longer than that, and nothing says what the work is then.
    """
    clocks, key, sync = plan.clocks, (candidate.cluster, candidate.namespace, candidate.name), None
    period_ms = clocks.grid.period_ms
    if key in clocks.estimated:
        period_ms = max(round(clocks.estimated[key].period_ms), MIN_SYNC_PERIOD_MS)
    own_ms = effective_period_ms(plan.history, candidate)
    if own_ms is not None and sync_period_ms is None:
        period_ms, sync = own_ms, sync_fact(own_ms)
    loops_ms = pass_period_ms(plan, candidate.cluster)
    if loops_ms is not None:
        period_ms, sync = loops_ms, sync_fact(loops_ms, "passes of the live loop")
    from_ms, to_ms = candidate.periods[0].from_ms, candidate.periods[-1].to_ms
    if workload is not None:
        first_ms, last_ms = work_span(workload)
        from_ms, to_ms = max(from_ms, first_ms), min(to_ms, last_ms)
    instants = clocks.instants(clocks.of(key))
    instants = instants[(instants >= from_ms) & (instants < to_ms)]
    start_ms = int(instants[0]) if instants.size else max(from_ms, clocks.from_ms)
    known_ms = (int(instants[-1]) if instants.size else start_ms) - start_ms + period_ms
    wanted_ms = length_ms or known_ms
    if wanted_ms > known_ms and not repeats:
        raise UsageError(
            f"{candidate.namespace}/{candidate.name} was recorded for {known_ms // 60_000} "
            f"minutes, a run of {wanted_ms // 60_000} needs more work: give a shorter --for, "
            "or a scenario with a `repeat` step"
        )
    return Run(start_ms, period_ms, max(wanted_ms // period_ms, 1), sync)
