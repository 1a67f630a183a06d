"""Merging of cohorts whose pods no longer differ: cost does not grow with replicas.

Joining must never show in a run: lanes in which every pod is its own come to exactly the same.
"""

from __future__ import annotations

from hpabatch._jit import rare, rule
from hpabatch.kernels.cohorts import drop_row, goes_before, is_live
from hpabatch.layout.plant import NEVER_MS, Simulation
from hpabatch.layout.records import Fleet, Record


@rule
def settles_ms(sim: Simulation, fleet: Fleet, h: int, cohort: Record) -> int:
    """Return from when on pods cannot be told from older ones, as far as rules and samples go.

    Past the initialization periods, and serving for as long as any window reaches back.
    """
    workload = sim.workloads[sim.lanes[h].workload]
    if cohort.deletion_ms != NEVER_MS or cohort.scheduled == 0:
        return NEVER_MS
    lane = fleet.lanes[h]
    from_ms = cohort.started_ms + max(lane.cpu_initialization_ms, lane.readiness_delay_ms)
    from_ms = max(from_ms, cohort.ready_ms)
    for p in range(workload.pipelines):
        pipeline = sim.pipelines[workload.first_pipeline + p]
        back_ms = pipeline.lag_ms + pipeline.interval_ms
        from_ms = max(from_ms, cohort.started_ms + pipeline.first_sample_ms + back_ms)
        from_ms = max(from_ms, cohort.serve_ms + pipeline.window_ms + back_ms)
    return int(from_ms)


@rule
def is_settled_by(sim: Simulation, h: int, cohort: Record) -> bool:
    """Say whether every sample that can still be seen shows the pods in full service."""
    lane = sim.lanes[h]
    workload = sim.workloads[lane.workload]
    for p in range(workload.pipelines):
        pipeline = sim.pipelines[workload.first_pipeline + p]
        scrape = sim.scrapes[lane.first_scrape + p]
        first_ms = cohort.started_ms + pipeline.first_sample_ms
        seen = scrape.has_sample != 0 and first_ms <= scrape.ts_ms
        if not seen or cohort.serve_ms > scrape.ts_ms - pipeline.window_ms:
            return False
    return True


@rule
def are_equal(one: Record, other: Record) -> bool:
    """Say whether pods of two rows differ in nothing but their place in the removal order."""
    settled = one.settled != 0 and other.settled != 0
    return bool(settled and one.kind == other.kind and one.revision == other.revision)


@rule
def are_neighbours(sim: Simulation, h: int, one: int, other: int, now_ms: int) -> bool:
    """Say whether no live pods that differ from those of two equal rows stand between them.

    Then it cannot matter in whose place both stand: ready pods keep their order (pods that fail do
    not, but have rows of their own), and those to come are removed before them.
    """
    first = sim.lanes[h].first_cohort
    for row in range(first, first + sim.states[h].cohorts):
        pods = sim.cohorts[row]
        if not is_live(pods) or are_equal(pods, sim.cohorts[one]):
            continue
        if goes_before(sim, h, row, one, now_ms) != goes_before(sim, h, row, other, now_ms):
            return False
    return True


@rule
def merge_settled(sim: Simulation, fleet: Fleet, h: int, row: int, now_ms: int) -> None:
    """Join settled pods to equal ones of an earlier row, if there are any, and drop their row."""
    cohort = sim.cohorts[row]
    for other in range(sim.lanes[h].first_cohort, row):
        pods = sim.cohorts[other]
        if are_equal(pods, cohort) and are_neighbours(sim, h, row, other, now_ms):
            pods.weight += cohort.weight
            pods.pod = min(pods.pod, cohort.pod)
            fleet.row_weight[other] += cohort.weight
            drop_row(sim, fleet, h, row)
            return


@rare
def tidy_cohorts(sim: Simulation, fleet: Fleet, h: int, now_ms: int) -> None:
    """Drop cohorts that were gone at the last tick, and merge settled ones."""
    lane, state = sim.lanes[h], sim.states[h]
    merges = lane.grouped != 0 and sim.workloads[lane.workload].mergeable != 0
    row = lane.first_cohort + state.cohorts - 1
    while row >= lane.first_cohort:
        cohort = sim.cohorts[row]
        if cohort.gone_ms <= now_ms - lane.period_ms:
            drop_row(sim, fleet, h, row)
        elif merges:
            settles = settles_ms(sim, fleet, h, cohort) <= now_ms and is_settled_by(sim, h, cohort)
            cohort.settled = 1 if settles else 0
        row -= 1
    row = lane.first_cohort + state.cohorts - 1
    while merges and row > lane.first_cohort:
        merge_settled(sim, fleet, h, row, now_ms)
        row -= 1
