"""Columnar layouts of the simulated cluster: plants, what happens to them, and their state.

docs/simulation.md says what each number does. A *lane* is one HPA under one setting; lanes of equal
workloads share the workload's rows. Everything is numbered through and found by first/last
positions, as in `layout.records`. Times are UTC ms, quantities milli-units, integers int64.
A *cohort* is a number of pods that are equal in everything: cost does not grow with replicas.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hpabatch.layout.records import I64, I64x2, RecordArray, record_dtype
from hpabatch.layout.results import Measures, Points

NEVER_MS: Final = 1 << 60
UNLIMITED: Final = 1 << 60


class SimLanes(RecordArray):
    """One HPA under one setting: its ticks start_ms + t * period_ms, its workload, the specs in
    force (PERIOD rows), what happens (EVENT rows), and its cohorts' rows first_cohort:first_cohort
    + cohort_capacity, which are also its rows and pod states in the `Fleet`. `grouped` 1: equal
    pods form cohorts; 0: every pod is its own. Its scrapes are rows first_scrape on, one for each
    pipeline of its workload. Its trajectory, where one is kept, begins at first_point.
    """

    start_ms: I64
    period_ms: I64
    steps: I64
    workload: I64
    first_period: I64
    last_period: I64
    first_event: I64
    last_event: I64
    first_cohort: I64
    cohort_capacity: I64
    first_flow: I64
    first_scrape: I64
    initial: I64
    grouped: I64
    first_point: I64


SIM_LANE: Final = record_dtype(SimLanes)


class Workloads(RecordArray):
    """One workload: its pods' parameters, signals and the pipelines that measure them (rows
    first_pipeline:first_pipeline + pipelines). `primary` is the signal (a row) that demand is
    measured by, -1 for none; `capacity_milli` the work that one pod is meant to do, 0 unknown.
    Classes are rows first_class:first_class + classes.
    """

    work_start_ms: I64
    resolution_ms: I64
    pieces: I64
    first_signal: I64
    last_signal: I64
    first_pipeline: I64
    pipelines: I64
    first_class: I64
    classes: I64
    first_startup: I64
    startups: I64
    first_failure: I64
    last_failure: I64
    reaction_ms: I64
    termination_ms: I64
    serves_while_terminating: I64
    capacity: I64
    stateful: I64
    restart_ms: I64
    surge_pct: I64
    unavailable_pct: I64
    initial_age_ms: I64
    first_draw: I64
    primary: I64
    capacity_milli: I64
    observed_low_milli: I64
    observed_high_milli: I64
    mergeable: I64


WORKLOAD: Final = record_dtype(Workloads)


class Signals(RecordArray):
    """One signal: kind SIGNAL_*, its pipeline (a row), and its work: work_milli[first_work:]. The
    controller sees what a pod uses times scale_ppm / SCALE_ONE.
    """

    kind: I64
    pipeline: I64
    first_work: I64
    base_milli: I64
    room_milli: I64
    startup_milli: I64
    rate_milli: I64
    growth_milli: I64
    queues: I64
    queue_milli: I64
    unit_milli: I64
    scale_ppm: I64


SIGNAL: Final = record_dtype(Signals)

SIGNAL_DIVISIBLE: Final = 0
SIGNAL_PER_POD: Final = 1
SIGNAL_TOTAL: Final = 2
SIGNAL_BACKLOG: Final = 3
SIGNAL_AGE: Final = 4

SCALE_ONE: Final = 1_000_000


class Pipelines(RecordArray):
    """How a metrics API measures; gaps are rows first_gap:last_gap. The controller is told a time
    of a sample that is later_ms after the scrape.
    """

    interval_ms: I64
    phase_ms: I64
    window_ms: I64
    lag_ms: I64
    later_ms: I64
    first_sample_ms: I64
    max_age_ms: I64
    first_gap: I64
    last_gap: I64


PIPELINE: Final = record_dtype(Pipelines)


class Gaps(RecordArray):
    """A time in which a pipeline scrapes nothing."""

    from_ms: I64
    to_ms: I64


GAP: Final = record_dtype(Gaps)


class Classes(RecordArray):
    """A class of pods: its share of the work (thousandths), and its cost of deletion."""

    share: I64
    cost: I64


CLASS: Final = record_dtype(Classes)


class Startups(RecordArray):
    """How long one pod takes to be scheduled, and then to be ready."""

    scheduling_ms: I64
    starting_ms: I64


STARTUP: Final = record_dtype(Startups)


class SimPeriods(RecordArray):
    """A spec (a row of `Fleet.specs`) and since when it is in force."""

    from_ms: I64
    spec: I64


SIM_PERIOD: Final = record_dtype(SimPeriods)


class SimEvents(RecordArray):
    """An event of a scenario; `value`: the new size, or the share of pods lost (thousandths)."""

    at_ms: I64
    kind: I64
    value: I64


EVENT: Final = record_dtype(SimEvents)
EVENT_SCALE: Final = 0
EVENT_LOSE: Final = 1
EVENT_ROLLOUT: Final = 2


class Cohorts(RecordArray):
    """Some equal pods: `pod` is the lowest of their numbers, `kind` their class (a row), `startup`
    their row of the start-up table, `next_ms` when they next look different to a controller.
    deletion_ms is NEVER_MS where there is none; `settled` is scratch of `kernels.settle`.
    """

    weight: I64
    pod: I64
    created_ms: I64
    scheduled: I64
    started_ms: I64
    ready_ms: I64
    serve_ms: I64
    unready_ms: I64
    deletion_ms: I64
    gone_ms: I64
    kind: I64
    revision: I64
    startup: I64
    next_ms: I64
    settled: I64


COHORT: Final = record_dtype(Cohorts)


class SimStates(RecordArray):
    """Where a lane is: its next step; `status` OK, or FULL when its cohorts did not fit (it stands
    still since); the target's size, the piece of work and until when, and sums over its cohorts
    (serving pods and their shares, pods that are there, status.replicas), which hold until
    next_pod_ms. Since calm_ms every pod serves (NEVER_MS: one does not, or is on its way out), the
    youngest started at begun_ms; before busy_until_ms samples still change by themselves, before
    sure_until_ms ticks decide what the last one did; `repeated` counts the steps that were not
    computed, as they repeat the one before.
    """

    step: I64
    now_ms: I64
    cohorts: I64
    target: I64
    next_pod: I64
    next_event: I64
    next_event_ms: I64
    period: I64
    period_until_ms: I64
    revision: I64
    rollout: I64
    failures: I64
    served_ms: I64
    piece: I64
    piece_until_ms: I64
    demand: I64
    serving: I64
    shares: I64
    pods: I64
    status_replicas: I64
    status: I64
    next_pod_ms: I64
    calm_ms: I64
    begun_ms: I64
    busy_until_ms: I64
    sure_until_ms: I64
    repeated: I64


SIM_STATE: Final = record_dtype(SimStates)
LANE_OK: Final = 0
LANE_FULL: Final = 1


class Scrapes(RecordArray):
    """What one pipeline has shown a lane, one row for each of its pipelines: the next scrape, the
    newest taken in (has_sample 0: none), the gap to look at, and of that sample: the step it lies
    in and the instant its window begins.
    """

    next_ms: I64
    ts_ms: I64
    has_sample: I64
    gap: I64


SCRAPE: Final = record_dtype(Scrapes)


class Flows(RecordArray):
    """One signal of one lane: its queue and its rings, one per class of pods (of totals one); of
    its last step what was offered, what was left, whether a pod was cut off or out of the range
    seen, and above how many of the workload's levels its highest pod was.
    """

    queue_milli: I64
    first_ring: I64
    rings: I64
    saturated: I64
    unserved_milli: I64
    offered_milli: I64
    outside: I64
    above: I64


FLOW: Final = record_dtype(Flows)


class Rings(RecordArray):
    """Per class of a signal of a lane: current x, x before the start, integral until the current
    step.
    """

    x_milli: I64
    before_milli: I64
    first_slot: I64
    since_ms: I64


RING: Final = record_dtype(Rings)


class Slots(RecordArray):
    """One step of a ring: x in it, and the integral of x from the start of the run to its
    beginning.
    """

    x_milli: I64
    integral: I64


SLOT: Final = record_dtype(Slots)


class Traces(RecordArray):
    """The trace of a lane: rows of its log that are written, notes of its pods so far, cohorts in
    the last note, and the sizes that the last row of sizes has.
    """

    rows: I64
    notes: I64
    pods: I64
    replicas: I64
    status_replicas: I64


TRACE: Final = record_dtype(Traces)
TRACE_COLUMNS: Final = 12
"""Of a row of a log: what it is (TRACED_*), the tick's time, and up to ten numbers."""

TRACED_POD: Final = 0
TRACED_NOTE: Final = 1
TRACED_SAMPLE: Final = 2
TRACED_TOTAL: Final = 3
TRACED_SCALE: Final = 4

BINDINGS: Final = 20
"""Rules that can bind a decision (codes BOUND_BY_*); counts have one column each."""

LEVELS: Final = 5
"""Levels of usage per pod of a workload; steps are counted by how many of them it is above."""

DRAWS: Final = 4096


class Simulation(NamedTuple):
    """Everything of the simulated clusters beside the `Fleet`; row types as above.

    Shapes: lanes, states (L,); workloads (W,), their levels_milli (W, LEVELS), ascending; signals,
    pipelines, gaps, classes, startups, failure_ms, work_milli as counted by the workloads; periods,
    events by the lanes; draws (4096,);
    cohorts (rows of all lanes); scrapes, flows by the lanes (one per pipeline, per signal),
    rings by the flows, slots by the rings, each ring `ring_length` (a power of two) of them;
    stream_signal (G,) the flow's number (from 0) of each stream of `Fleet.streams`;
    measures (L,), bindings (L, BINDINGS), peaks (L, LEVELS + 1): steps by the number of levels that
    their highest pod is above; drivers (streams beside `Fleet.streams`): ticks in which
    a metric drove the decision; points (0 or as counted by the lanes); of a traced run (else all
    empty) traces (L,), trace_log (L * room, TRACE_COLUMNS), and what was noted last: traced_pods
    (rows of the cohorts, TRACE_COLUMNS), traced_ms the scrapes, beside `scrapes`.
    """

    lanes: SimLanes
    states: SimStates
    workloads: Workloads
    levels_milli: I64x2
    signals: Signals
    pipelines: Pipelines
    gaps: Gaps
    classes: Classes
    startups: Startups
    failure_ms: I64
    work_milli: I64
    periods: SimPeriods
    events: SimEvents
    draws: I64
    cohorts: Cohorts
    scrapes: Scrapes
    flows: Flows
    rings: Rings
    slots: Slots
    ring_length: int
    stream_signal: I64
    measures: Measures
    bindings: I64x2
    peaks: I64x2
    drivers: I64
    points: Points
    traces: Traces
    trace_log: I64x2
    traced_pods: I64x2
    traced_ms: I64
