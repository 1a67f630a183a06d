"""Pods that come and go: cohorts of equal pods, their creation, removal and looks.

docs/simulation.md, "Pods", is the specification. A lane's cohorts are its first `state.cohorts`
rows; the same rows of the `Fleet` show them to the rules. A cohort that vanished keeps its row, and
shows nothing, until the next tick.
"""

from __future__ import annotations

from hpabatch._jit import rare, rule
from hpabatch.arrays.layout import Fleet, Records
from hpabatch.arrays.plant import DRAWS, LANE_FULL, NEVER_MS, Simulation
from hpabatch.model.codes import (
    PHASE_PENDING,
    PHASE_RUNNING,
    POD_DELETING,
    POD_STARTED,
    READY_ABSENT,
    READY_FALSE,
    READY_TRUE,
)
from hpabatch.rules.numbers import div64

SECOND_MS = 1000
ANY_REVISION = 1 << 60


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
def first_tick_from(lane: Records, instant_ms: int) -> int:
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
def is_live(cohort: Records) -> bool:
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
    age; StatefulSets remove the highest ordinal.
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
    return bool(one.pod > other.pod)


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

    Of pods that serve at `serving_ms` only (NEVER_MS: of all).
    """
    first = sim.lanes[h].first_cohort
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
            return int(row) if cohort.weight == 1 else split(sim, fleet, h, row, 1)
    return -1


@rule
def start_pods(sim: Simulation, h: int, row: int, from_ms: int) -> None:
    """Schedule the pods of a row at an instant: when they start and are ready."""
    lane, cohort = sim.lanes[h], sim.cohorts[row]
    startup = sim.startups[sim.workloads[lane.workload].first_startup + cohort.startup]
    cohort.scheduled = 1
    cohort.started_ms = whole_seconds(from_ms + startup.scheduling_ms)
    cohort.ready_ms = whole_seconds(cohort.started_ms + startup.starting_ms)
    cohort.unready_ms = cohort.started_ms
    cohort.serve_ms = first_tick_from(lane, cohort.ready_ms)
    cohort.next_ms = 0


@rule
def new_cohort(sim: Simulation, fleet: Fleet, h: int, kind: int, startup: int, ms: int) -> int:
    """Return the row of the next pod, created at an instant and not scheduled; -1: no room."""
    row = add_row(sim, fleet, h)
    if row < 0:
        return -1
    cohort, state = sim.cohorts[row], sim.states[h]
    cohort.weight, cohort.pod = 1, state.next_pod
    cohort.created_ms, cohort.scheduled = ms, 0
    cohort.started_ms = cohort.ready_ms = cohort.serve_ms = NEVER_MS
    cohort.unready_ms = cohort.deletion_ms = cohort.gone_ms = NEVER_MS
    cohort.kind, cohort.revision = kind, state.revision
    cohort.startup, cohort.next_ms = startup, 0
    fleet.row_weight[row] = 1
    return row


@rare
def create_pods(sim: Simulation, fleet: Fleet, h: int, count: int, instant_ms: int) -> None:
    """Create pods at an instant; equal ones of the batch are one cohort where the lane groups."""
    lane, state = sim.lanes[h], sim.states[h]
    workload = sim.workloads[lane.workload]
    created_ms = instant_ms + workload.reaction_ms
    room = NEVER_MS
    if workload.capacity > 0:
        room = workload.capacity - count_scheduled(sim, h, instant_ms)
    batch = lane.first_cohort + state.cohorts
    for _ in range(count):
        kind = int(workload.first_class + state.next_pod % workload.classes)
        startup = draw(sim, h, state.next_pod) % workload.startups
        scheduled = 1 if room > 0 else 0
        found = -1
        if lane.grouped != 0:
            for row in range(batch, lane.first_cohort + state.cohorts):
                pods = sim.cohorts[row]
                same = pods.kind == kind and pods.startup == startup
                if same and pods.scheduled == scheduled:
                    found = row
        if found >= 0:
            sim.cohorts[found].weight += 1
            fleet.row_weight[found] += 1
        else:
            found = new_cohort(sim, fleet, h, kind, startup, created_ms)
            if found < 0:
                return
            if scheduled != 0:
                start_pods(sim, h, found, created_ms)
        room -= scheduled
        state.next_pod += 1


@rule
def mark_deleted(sim: Simulation, h: int, row: int, instant_ms: int) -> None:
    """Let pods be deleted from an instant on."""
    workload, cohort = sim.workloads[sim.lanes[h].workload], sim.cohorts[row]
    cohort.deletion_ms = instant_ms + workload.reaction_ms
    cohort.gone_ms = cohort.deletion_ms
    if cohort.scheduled != 0:
        cohort.gone_ms += workload.termination_ms
    cohort.next_ms = 0


@rare
def delete_pods(
    sim: Simulation,
    fleet: Fleet,
    h: int,
    count: int,
    instant_ms: int,
    from_revision: int,
    to_revision: int,
) -> None:
    """Mark live pods of some revisions for deletion, in removal order."""
    while count > 0:
        row = first_to_go(sim, h, instant_ms, from_revision, to_revision)
        if row < 0:
            return
        if sim.cohorts[row].weight > count:
            row = split(sim, fleet, h, row, count)
            if row < 0:
                return
        count -= sim.cohorts[row].weight
        mark_deleted(sim, h, row, instant_ms)


@rare
def resize(sim: Simulation, fleet: Fleet, h: int, instant_ms: int) -> None:
    """Create or delete pods towards the target's size; a rollout does so itself."""
    state = sim.states[h]
    if state.rollout != 0:
        return
    live = count_live(sim, h, 0, ANY_REVISION)
    if live < state.target:
        create_pods(sim, fleet, h, state.target - live, instant_ms)
    else:
        delete_pods(sim, fleet, h, live - state.target, instant_ms, 0, ANY_REVISION)
    state.next_pod_ms = 0


@rare
def lose_pods(sim: Simulation, fleet: Fleet, h: int, share: int, instant_ms: int) -> None:
    """Let a share (thousandths) of the live pods vanish at an instant."""
    live = count_live(sim, h, 0, ANY_REVISION)
    for i in range(div64(live * share + 500, 1000)):
        rank = draw(sim, h, 1000 + i) % (live - i)
        row = pod_at_rank(sim, fleet, h, rank, instant_ms, NEVER_MS)
        if row < 0:
            return
        sim.cohorts[row].deletion_ms = sim.cohorts[row].gone_ms = instant_ms
        sim.cohorts[row].next_ms = 0
    sim.states[h].next_pod_ms = 0
    resize(sim, fleet, h, instant_ms)


@rare
def schedule_waiting(sim: Simulation, fleet: Fleet, h: int, now_ms: int) -> None:
    """Schedule waiting pods, lowest number first, while there is room."""
    lane, state = sim.lanes[h], sim.states[h]
    workload = sim.workloads[lane.workload]
    if workload.capacity == 0:
        return
    room = workload.capacity - count_scheduled(sim, h, now_ms)
    while room > 0:
        found = -1
        for row in range(lane.first_cohort, lane.first_cohort + state.cohorts):
            cohort = sim.cohorts[row]
            waits = cohort.scheduled == 0 and is_live(cohort)
            if waits and (found < 0 or cohort.pod < sim.cohorts[found].pod):
                found = row
        if found < 0:
            return
        # The lowest numbers stay in the row; those that go on waiting get their own.
        left = sim.cohorts[found].weight - room
        if left > 0 and split(sim, fleet, h, found, left) < 0:
            return
        room -= sim.cohorts[found].weight
        start_pods(sim, h, found, max(now_ms, sim.cohorts[found].created_ms))


@rare
def roll_out(sim: Simulation, fleet: Fleet, h: int, now_ms: int) -> None:
    """Make one tick's progress of a rollout: new pods by surge, old ones by what is ready."""
    state = sim.states[h]
    workload, wanted = sim.workloads[sim.lanes[h].workload], state.target
    surge = -(-wanted * workload.surge_pct // 100)
    away = wanted * workload.unavailable_pct // 100
    if surge == 0 and away == 0:
        away = 1
    newest = state.revision
    new = count_live(sim, h, newest, newest + 1)
    old = count_live(sim, h, 0, newest)
    create_pods(sim, fleet, h, max(0, min(wanted - new, wanted + surge - new - old)), now_ms)
    new = count_live(sim, h, newest, newest + 1)
    unready, first = 0, sim.lanes[h].first_cohort
    for row in range(first, first + state.cohorts):
        cohort = sim.cohorts[row]
        if is_live(cohort) and cohort.revision == newest and cohort.ready_ms > now_ms:
            unready += cohort.weight
    gone = max(0, min(old, new + old - (wanted - away) - unready))
    delete_pods(sim, fleet, h, gone, now_ms, 0, newest)
    delete_pods(sim, fleet, h, max(0, new - wanted), now_ms, newest, newest + 1)
    if count_live(sim, h, 0, newest) == 0 and count_live(sim, h, newest, newest + 1) == wanted:
        state.rollout = 0
    state.next_pod_ms = 0


@rule
def show_cohort(fleet: Fleet, cohort: Records, row: int, now_ms: int) -> None:
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
def serves(workload: Records, cohort: Records, now_ms: int) -> bool:
    """Say whether pods serve in the step that begins at a tick."""
    if cohort.serve_ms > now_ms:
        return False
    if workload.serves_while_terminating != 0:
        return bool(cohort.gone_ms > now_ms)
    return bool(cohort.deletion_ms > now_ms)
