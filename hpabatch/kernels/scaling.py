"""Creation and deletion of pods: resizing, losses, rollouts, pods that wait for room.

docs/simulation.md, "Pods", is the specification. A lane that has no room for a cohort more is
marked (`cohorts.add_row`) and whatever was being done is left as it is: the lane is run again.
"""

from __future__ import annotations

from hpabatch._jit import rare, rule
from hpabatch.kernels.cohorts import (
    add_row,
    count_live,
    count_scheduled,
    draw,
    first_tick_from,
    first_to_go,
    is_live,
    pod_at_rank,
    split,
    whole_seconds,
)
from hpabatch.layout.plant import NEVER_MS, Simulation
from hpabatch.layout.records import Fleet
from hpabatch.rules.numbers import div64

ANY_REVISION = 1 << 60


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
    row = first_to_go(sim, h, instant_ms, from_revision, to_revision)
    while count > 0 and row >= 0:
        if sim.cohorts[row].weight > count:
            row = split(sim, fleet, h, row, count)
            if row < 0:
                return
        count -= sim.cohorts[row].weight
        mark_deleted(sim, h, row, instant_ms)
        row = first_to_go(sim, h, instant_ms, from_revision, to_revision)


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
