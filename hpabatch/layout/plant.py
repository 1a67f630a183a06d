"""Columnar layouts of the simulated cluster: plants, what happens to them, and their state.

docs/simulation.md says what each number does. A *lane* is one HPA under one setting; lanes of equal
workloads share the workload's rows. Everything is numbered through and found by first/last
positions, as in `layout.records`. Times are UTC ms, quantities milli-units, integers int64.
A *cohort* is a number of pods that are equal in everything: cost does not grow with replicas.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hpabatch.layout.records import I64, Records, record_dtype

NEVER_MS: Final = 1 << 60
UNLIMITED: Final = 1 << 60

# One HPA under one setting: its ticks start_ms + t * period_ms, its workload, the specs in force
# (PERIOD rows), what happens (EVENT rows), and its cohorts' rows first_cohort:first_cohort +
# cohort_capacity, which are also its rows and pod states in the `Fleet`.
# `grouped` 1: equal pods form cohorts; 0: every pod is its own. Its trajectory, where one is kept,
# begins at first_point.
SIM_LANE = record_dtype(
    "start_ms",
    "period_ms",
    "steps",
    "workload",
    "first_period",
    "last_period",
    "first_event",
    "last_event",
    "first_cohort",
    "cohort_capacity",
    "first_flow",
    "initial",
    "grouped",
    "first_point",
)

# One workload: its pods' parameters, signals and pipelines (PIPELINES rows from first_pipeline on).
# `primary` is the signal (a row) that demand is measured by, -1 for none; `capacity_milli` the work
# that one pod is meant to do, 0 unknown. Classes are rows first_class:first_class + classes.
WORKLOAD = record_dtype(
    "work_start_ms",
    "resolution_ms",
    "pieces",
    "first_signal",
    "last_signal",
    "first_pipeline",
    "first_class",
    "classes",
    "first_startup",
    "startups",
    "first_failure",
    "last_failure",
    "reaction_ms",
    "termination_ms",
    "serves_while_terminating",
    "capacity",
    "stateful",
    "restart_ms",
    "surge_pct",
    "unavailable_pct",
    "initial_age_ms",
    "first_draw",
    "primary",
    "capacity_milli",
    "observed_low_milli",
    "observed_high_milli",
    "mergeable",
)

# One signal: kind SIGNAL_*, its pipeline (a row), and its work: work_milli[first_work:].
SIGNAL = record_dtype(
    "kind",
    "pipeline",
    "first_work",
    "base_milli",
    "room_milli",
    "startup_milli",
    "rate_milli",
    "growth_milli",
    "queues",
    "queue_milli",
    "unit_milli",
)

SIGNAL_DIVISIBLE: Final = 0
SIGNAL_PER_POD: Final = 1
SIGNAL_TOTAL: Final = 2
SIGNAL_BACKLOG: Final = 3
SIGNAL_AGE: Final = 4

PIPELINES: Final = 3

# How one metrics API measures; gaps are rows first_gap:last_gap.
PIPELINE = record_dtype(
    "interval_ms",
    "phase_ms",
    "window_ms",
    "lag_ms",
    "first_sample_ms",
    "max_age_ms",
    "first_gap",
    "last_gap",
)

GAP = record_dtype("from_ms", "to_ms")
CLASS = record_dtype("share", "cost")
STARTUP = record_dtype("scheduling_ms", "starting_ms")

# A spec (a row of `Fleet.specs`) and since when it is in force.
SIM_PERIOD = record_dtype("from_ms", "spec")

EVENT = record_dtype("at_ms", "kind", "value")
EVENT_SCALE: Final = 0
EVENT_LOSE: Final = 1
EVENT_ROLLOUT: Final = 2

# Some equal pods: `pod` is the lowest of their numbers, `kind` their class (a row), `startup` their
# row of the start-up table, `next_ms` when they next look different to a controller.
# deletion_ms is NEVER_MS where there is none; `settled` is scratch of `kernels.settle`.
COHORT = record_dtype(
    "weight",
    "pod",
    "created_ms",
    "scheduled",
    "started_ms",
    "ready_ms",
    "serve_ms",
    "unready_ms",
    "deletion_ms",
    "gone_ms",
    "kind",
    "revision",
    "startup",
    "next_ms",
    "settled",
)

# Where a lane is: its next step; `status` OK, or FULL when its cohorts did not fit (it stands still
# since); the target's size, the piece of work and until when, and sums over its cohorts (serving
# pods and their shares, pods that are there, status.replicas), which hold until next_pod_ms. Since
# calm_ms every pod serves (NEVER_MS: one does not, or is on its way out), the youngest started at
# begun_ms; before busy_until_ms samples still change by themselves, before sure_until_ms ticks
# decide what the last one did; `repeated` counts the steps that were not computed, as they repeat
# the one before.
SIM_STATE = record_dtype(
    "step",
    "now_ms",
    "cohorts",
    "target",
    "next_pod",
    "next_event",
    "next_event_ms",
    "period",
    "period_until_ms",
    "revision",
    "rollout",
    "failures",
    "served_ms",
    "piece",
    "piece_until_ms",
    "demand",
    "serving",
    "shares",
    "pods",
    "status_replicas",
    "status",
    "next_pod_ms",
    "calm_ms",
    "begun_ms",
    "busy_until_ms",
    "sure_until_ms",
    "repeated",
)
LANE_OK: Final = 0
LANE_FULL: Final = 1

# What one pipeline has shown a lane, one row per lane and pipeline: the next scrape, the newest
# taken in (has_sample 0: none), the gap to look at, and of that sample: the step it lies in and the
# instant its window begins.
SCRAPE = record_dtype("next_ms", "ts_ms", "has_sample", "gap")

# One signal of one lane: its queue and its rings, one per class of pods (of totals one); of its
# last step what was offered, what was left, and whether a pod was cut off or out of the range seen.
FLOW = record_dtype(
    "queue_milli",
    "first_ring",
    "rings",
    "saturated",
    "unserved_milli",
    "offered_milli",
    "outside",
)

# Per class of a signal of a lane: current x, x before the start, integral until the current step.
RING = record_dtype("x_milli", "before_milli", "first_slot", "since_ms")

# One step of a ring: x in it, and the integral of x from the start of the run to its beginning.
SLOT = record_dtype("x_milli", "integral")

# What one tick and step came to, where a trajectory is kept. Sizes are numbers of pods; `demand` is
# the number that the work asks for (0: unknown); `usage_milli` per pod of the first class of the
# primary signal, `work_milli` its offered work, `queue_milli` what is left of it.
POINT = record_dtype(
    "now_ms",
    "replicas:i4",
    "desired:i4",
    "proposal:i4",
    "stabilized:i4",
    "serving:i4",
    "pods:i4",
    "demand",
    "binding:i1",
    "reason:i1",
    "metric:i2",
    "invalid_metrics:i2",
    "saturated:i1",
    "usage_milli",
    "work_milli",
    "unserved_milli",
)

# The measures of a lane, sums over its steps; their definitions are in `kernels.measures`. The
# fields after `overshoot` are the state between two steps.
MEASURES = record_dtype(
    "steps",
    "replica_ms",
    "pod_ms",
    "short_ms",
    "under_steps",
    "over_steps",
    "under_ratio:f8",
    "over_ratio:f8",
    "unstable_steps",
    "supply_changes",
    "demand_changes",
    "saturated_steps",
    "saturated_longest",
    "unserved_milli_s",
    "rescales",
    "rescales_up",
    "rescales_down",
    "reversals",
    "at_max_steps",
    "invalid_steps",
    "outside_steps",
    "episodes",
    "episodes_ended",
    "episodes_reacted",
    "reaction_ms",
    "settling_ms",
    "overshoot",
    "saturated_run",
    "last_serving",
    "last_demand",
    "last_direction",
    "episode_start",
    "episode_reacted",
    "episode_peak",
    "watching",
    "watched_demand",
    "watched_size",
)

BINDINGS: Final = 20
"""Rules that can bind a decision (codes BOUND_BY_*); counts have one column each."""

DRAWS: Final = 4096


class Simulation(NamedTuple):
    """Everything of the simulated clusters beside the `Fleet`; row types as above.

    Shapes: lanes, states (L,); workloads (W,); signals, pipelines, gaps, classes, startups,
    failure_ms, work_milli as counted by the workloads; periods, events by the lanes; draws (4096,);
    cohorts (rows of all lanes); scrapes (L * PIPELINES,); flows by the lanes (one per signal),
    rings by the flows, slots by the rings, each ring `ring_length` (a power of two) of them;
    stream_signal (G,) the flow's number (from 0) of each stream of `Fleet.streams`;
    measures (L,), bindings (L, BINDINGS), drivers (streams beside `Fleet.streams`): ticks in which
    a metric drove the decision; points (0 or as counted by the lanes).
    """

    lanes: Records
    states: Records
    workloads: Records
    signals: Records
    pipelines: Records
    gaps: Records
    classes: Records
    startups: Records
    failure_ms: I64
    work_milli: I64
    periods: Records
    events: Records
    draws: I64
    cohorts: Records
    scrapes: Records
    flows: Records
    rings: Records
    slots: Records
    ring_length: int
    stream_signal: I64
    measures: Records
    bindings: I64
    drivers: I64
    points: Records
