"""Cohorts of equal pods: rows, order of removal, appearance to the controller.

docs/simulation.md, "Pods", is the specification. A lane's cohorts are its first `state.cohorts`
rows; the same rows of the `Fleet` show them to the rules. A cohort that vanished keeps its row, and
shows nothing, until the next tick.
"""

from __future__ import annotations

from hpabatch._jit import rare, rule
from hpabatch.layout.codes import (
    PHASE_PENDING,
    PHASE_RUNNING,
    POD_DELETING,
    POD_STARTED,
    READY_ABSENT,
    READY_FALSE,
    READY_TRUE,
)
from hpabatch.layout.plant import DRAWS, LANE_FULL, NEVER_MS, Simulation
from hpabatch.layout.records import Fleet, Record

SECOND_MS = 1000


@rule
def whole_seconds(ms: int) -> int:
    """Return an instant rounded up to whole seconds."""
    return -(-ms // SECOND_MS) * SECOND_MS


@rule
def draw(sim: Simulation, h: int, number: int) -> int:
    """Return a random number below 2^31 of the lane's workload."""
    workload = sim.workloads[sim.lanes[h].workload]
    return int(sim.draws[(workload.first_draw + number) % DRAWS])


@rule
def first_tick_from(lane: Record, instant_ms: int) -> int:
    """Return the first tick's instant at or after one that is not before the start."""
    ticks = -(-(instant_ms - lane.start_ms) // lane.period_ms)
    return int(lane.start_ms + max(ticks, 0) * lane.period_ms)


@rule
def copy_row(sim: Simulation, fleet: Fleet, h: int, source: int, row: int) -> None:
    """Make one row of a lane what another is, its samples included."""
    sim.cohorts[row] = sim.cohorts[source]
    fleet.row_state[row] = row if fleet.row_state[source] >= 0 else -1
    fleet.row_weight[row] = fleet.row_weight[source]
    fleet.states[row] = fleet.states[source]
    for g in range(fleet.lanes[h].first_stream, fleet.lanes[h].last_stream):
        offset = fleet.streams[g].sample_offset
        fleet.present[row + offset] = fleet.present[source + offset]
        fleet.value_milli[row + offset] = fleet.value_milli[source + offset]
        fleet.timing[row + offset] = fleet.timing[source + offset]


@rule
def add_row(sim: Simulation, fleet: Fleet, h: int) -> int:
    """Return a new row that shows nothing yet, -1 if the lane has no room for it."""
    lane, state = sim.lanes[h], sim.states[h]
    if state.cohorts == lane.cohort_capacity:
        state.status = LANE_FULL
        return -1
    row = int(lane.first_cohort + state.cohorts)
    state.cohorts += 1
    fleet.row_state[row] = -1
    fleet.row_weight[row] = 0
    for g in range(fleet.lanes[h].first_stream, fleet.lanes[h].last_stream):
        fleet.present[row + fleet.streams[g].sample_offset] = 0
    return row


@rule
def drop_row(sim: Simulation, fleet: Fleet, h: int, row: int) -> None:
    """Give a row back; the lane's last one takes its place."""
    lane, state = sim.lanes[h], sim.states[h]
    last = lane.first_cohort + state.cohorts - 1
    if row != last:
        copy_row(sim, fleet, h, last, row)
    state.cohorts -= 1


@rare
def split(sim: Simulation, fleet: Fleet, h: int, row: int, weight: int) -> int:
    """Take the `weight` highest numbers of a cohort into one of their own; -1: no room."""
    other = add_row(sim, fleet, h)
    if other < 0:
        return -1
    copy_row(sim, fleet, h, row, other)
    sim.cohorts[row].weight -= weight
    fleet.row_weight[row] -= weight
    sim.cohorts[other].weight = weight
    sim.cohorts[other].pod += sim.cohorts[row].weight
    fleet.row_weight[other] = weight
    return other


@rule
def is_live(cohort: Record) -> bool:
    """Say whether pods are neither deleted nor marked for it."""
    return bool(cohort.deletion_ms == NEVER_MS)


@rule
def count_live(sim: Simulation, h: int, from_revision: int, to_revision: int) -> int:
    """Return how many live pods have a revision in from:to."""
    first, total = sim.lanes[h].first_cohort, 0
    for row in range(first, first + sim.states[h].cohorts):
        cohort = sim.cohorts[row]
        if is_live(cohort) and from_revision <= cohort.revision < to_revision:
            total += cohort.weight
    return total


@rule
def count_scheduled(sim: Simulation, h: int, instant_ms: int) -> int:
    """Return how many pods take room at an instant."""
    first, total = sim.lanes[h].first_cohort, 0
    for row in range(first, first + sim.states[h].cohorts):
        cohort = sim.cohorts[row]
        if cohort.scheduled != 0 and cohort.gone_ms > instant_ms:
            total += cohort.weight
    return total


@rule
def goes_before(sim: Simulation, h: int, a: int, b: int, now_ms: int) -> bool:
    """Say whether the pods of row `a` are removed before those of row `b`.

    Follows pkg/controller/controller_utils.go, ActivePodsWithRanks, without nodes and buckets of
    age; StatefulSets remove the highest ordinal. Rows of one batch that differ in nothing that
    matters may share numbers: any order of these will do, as long as it is one.
    """
    one, other = sim.cohorts[a], sim.cohorts[b]
    if sim.workloads[sim.lanes[h].workload].stateful != 0:
        return bool(one.pod > other.pod)
    if one.scheduled != other.scheduled:
        return bool(one.scheduled < other.scheduled)
    ready, other_ready = one.ready_ms <= now_ms, other.ready_ms <= now_ms
    if ready != other_ready:
        return bool(other_ready)
    cost, other_cost = sim.classes[one.kind].cost, sim.classes[other.kind].cost
    if cost != other_cost:
        return bool(cost < other_cost)
    if one.ready_ms != other.ready_ms:
        return bool(one.ready_ms > other.ready_ms)
    if one.created_ms != other.created_ms:
        return bool(one.created_ms > other.created_ms)
    if one.started_ms != other.started_ms:
        return bool(one.started_ms > other.started_ms)
    share, other_share = sim.classes[one.kind].share, sim.classes[other.kind].share
    if share != other_share:
        return bool(share > other_share)
    return bool(one.pod > other.pod or (one.pod == other.pod and a > b))


@rule
def first_to_go(sim: Simulation, h: int, now_ms: int, from_revision: int, to_revision: int) -> int:
    """Return the row of the first live pods in removal order of some revisions, -1: none."""
    first, found = sim.lanes[h].first_cohort, -1
    for row in range(first, first + sim.states[h].cohorts):
        cohort = sim.cohorts[row]
        if not is_live(cohort) or not from_revision <= cohort.revision < to_revision:
            continue
        if found < 0 or goes_before(sim, h, row, found, now_ms):
            found = row
    return found


@rare
def pod_at_rank(
    sim: Simulation, fleet: Fleet, h: int, rank: int, now_ms: int, serving_ms: int
) -> int:
    """Return the row, made its own, of the live pod at a rank of the removal order; -1: no room.

    Of pods that serve at `serving_ms` only (NEVER_MS: of all); there are more than `rank`.
    """
    first, found = sim.lanes[h].first_cohort, -1
    for row in range(first, first + sim.states[h].cohorts):
        cohort = sim.cohorts[row]
        if not is_live(cohort) or cohort.serve_ms > serving_ms:
            continue
        before = 0
        for other in range(first, first + sim.states[h].cohorts):
            pods = sim.cohorts[other]
            counts = is_live(pods) and pods.serve_ms <= serving_ms and other != row
            if counts and goes_before(sim, h, other, row, now_ms):
                before += pods.weight
        if before <= rank < before + cohort.weight:
            found = row
    return int(found) if sim.cohorts[found].weight == 1 else split(sim, fleet, h, found, 1)


@rule
def show_cohort(fleet: Fleet, cohort: Record, row: int, now_ms: int) -> None:
    """Write how pods look to the controller at an instant, and when they next look different."""
    pod = fleet.states[row]
    if now_ms < cohort.created_ms or cohort.gone_ms <= now_ms:
        fleet.row_state[row] = -1
        cohort.next_ms = cohort.created_ms if now_ms < cohort.created_ms else NEVER_MS
        return
    fleet.row_state[row] = row
    if now_ms < cohort.started_ms:
        pod.pod_flags, pod.start_ms, pod.transition_ms = PHASE_PENDING | READY_ABSENT, 0, 0
        cohort.next_ms = cohort.started_ms
    elif now_ms < cohort.ready_ms:
        pod.pod_flags = PHASE_RUNNING | READY_FALSE | POD_STARTED
        pod.start_ms, pod.transition_ms = cohort.started_ms, cohort.unready_ms
        cohort.next_ms = cohort.ready_ms
    else:
        pod.pod_flags = PHASE_RUNNING | READY_TRUE | POD_STARTED
        pod.start_ms, pod.transition_ms = cohort.started_ms, cohort.ready_ms
        cohort.next_ms = NEVER_MS
    if cohort.deletion_ms <= now_ms:
        pod.pod_flags |= POD_DELETING
        cohort.next_ms = min(cohort.next_ms, cohort.gone_ms)
    else:
        cohort.next_ms = min(cohort.next_ms, cohort.deletion_ms)


@rule
def serves(workload: Record, cohort: Record, now_ms: int) -> bool:
    """Say whether pods serve in the step that begins at a tick."""
    if cohort.serve_ms > now_ms:
        return False
    if workload.serves_while_terminating != 0:
        return bool(cohort.gone_ms > now_ms)
    return bool(cohort.deletion_ms > now_ms)
