"""Trace of a lane, tick by tick: its pods, the samples that show and its sizes, as rows of a log.

A log has room for the rows of as many ticks as are run at once (`packing.simulation.tick_rows` of
each); whoever runs the lanes takes the rows out and sets `Traces.rows` to 0. Rows begin with what
they are and the tick's time; then follow

* TRACED_POD: number, created_ms, scheduled, started_ms, ready_ms, unready_ms, deletion_ms, gone_ms,
  startup, note: a note has all pods of a lane, and is made when any of them is another than before;
* TRACED_NOTE: the note's number, in front of its pods (of which there may be none);
* TRACED_SAMPLE: stream, pod, ts_ms, value; TRACED_TOTAL: stream, ts_ms, value; of scrapes that
  this tick is the first to see;
* TRACED_SCALE: spec.replicas, status.replicas: at the first tick, and where they change.
"""

from __future__ import annotations

from hpabatch._jit import rare
from hpabatch.layout.codes import METRIC_OK
from hpabatch.layout.plant import (
    SIGNAL_BACKLOG,
    SIGNAL_TOTAL,
    TRACE_COLUMNS,
    TRACED_NOTE,
    TRACED_POD,
    TRACED_SAMPLE,
    TRACED_SCALE,
    TRACED_TOTAL,
    Simulation,
)
from hpabatch.layout.records import Fleet


@rare
def trace_pods(sim: Simulation, h: int, now_ms: int, at: int) -> int:
    """Write a note of the pods if they are others than in the last one; return the next row."""
    first, cohorts, trace = sim.lanes[h].first_cohort, sim.states[h].cohorts, sim.traces[h]
    log, changed = sim.trace_log, bool(trace.pods != cohorts)
    for k in range(cohorts):
        cohort, row, traced = sim.cohorts[first + k], at + 1 + k, sim.traced_pods[first + k]
        log[row, 0], log[row, 1] = TRACED_POD, now_ms
        log[row, 2], log[row, 3] = cohort.pod, cohort.created_ms
        log[row, 4], log[row, 5] = cohort.scheduled, cohort.started_ms
        log[row, 6], log[row, 7] = cohort.ready_ms, cohort.unready_ms
        log[row, 8], log[row, 9] = cohort.deletion_ms, cohort.gone_ms
        log[row, 10], log[row, 11] = cohort.startup, trace.notes
        for j in range(2, TRACE_COLUMNS - 1):
            changed = changed or bool(traced[j] != log[row, j])
            traced[j] = log[row, j]
    if not changed:
        return at
    log[at, 0], log[at, 1], log[at, 2] = TRACED_NOTE, now_ms, trace.notes
    trace.notes += 1
    trace.pods = cohorts
    return int(at + 1 + cohorts)


@rare
def trace_samples(sim: Simulation, fleet: Fleet, h: int, g: int, now_ms: int, at: int) -> int:
    """Write the samples that a stream of the lane's pods shows; return the next row."""
    first, log = sim.lanes[h].first_cohort, sim.trace_log
    offset = fleet.streams[g].sample_offset
    for row in range(first, first + sim.states[h].cohorts):
        if fleet.present[row + offset] != 0 and fleet.row_state[row] >= 0:
            log[at, 0], log[at, 1], log[at, 2] = TRACED_SAMPLE, now_ms, g
            log[at, 3], log[at, 4] = sim.cohorts[row].pod, fleet.timing[row + offset].ts_ms
            log[at, 5] = fleet.value_milli[row + offset]
            at += 1
    return at


@rare
def trace_streams(sim: Simulation, fleet: Fleet, h: int, now_ms: int, at: int) -> int:
    """Write what the streams of newly seen scrapes show; return the next row."""
    lane, log = sim.lanes[h], sim.trace_log
    workload = sim.workloads[lane.workload]
    for g in range(fleet.lanes[h].first_stream, fleet.lanes[h].last_stream):
        if sim.stream_signal[g] < 0:
            continue
        signal = sim.signals[workload.first_signal + sim.stream_signal[g]]
        row = lane.first_scrape + signal.pipeline - workload.first_pipeline
        ts_ms = sim.scrapes[row].ts_ms
        if ts_ms == sim.traced_ms[row]:
            continue
        if signal.kind != SIGNAL_TOTAL and signal.kind != SIGNAL_BACKLOG:
            at = trace_samples(sim, fleet, h, g, now_ms, at)
        elif fleet.answers[h + fleet.streams[g].answer_offset].code == METRIC_OK:
            log[at, 0], log[at, 1], log[at, 2] = TRACED_TOTAL, now_ms, g
            log[at, 3], log[at, 4] = ts_ms, fleet.values_milli[g]
            at += 1
    for row in range(lane.first_scrape, lane.first_scrape + workload.pipelines):
        sim.traced_ms[row] = sim.scrapes[row].ts_ms
    return at


@rare
def trace_tick(sim: Simulation, fleet: Fleet, h: int, t: int) -> None:
    """Write what tick t of a lane saw, and its pods as they are after it."""
    trace, tick, log = sim.traces[h], fleet.ticks[h], sim.trace_log
    now_ms = tick.now_ms
    first = sim.trace_log.shape[0] // sim.traces.size * h
    at = trace_pods(sim, h, now_ms, first + trace.rows)
    at = trace_streams(sim, fleet, h, now_ms, at)
    size, status = tick.replicas, tick.status_replicas
    if t == 0 or size != trace.replicas or status != trace.status_replicas:
        log[at, 0], log[at, 1], log[at, 2], log[at, 3] = TRACED_SCALE, now_ms, size, status
        trace.replicas, trace.status_replicas = size, status
        at += 1
    trace.rows = at - first
