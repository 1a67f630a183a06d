"""The metric pipeline: the scrape that a tick sees, and every pod's sample in it.

docs/simulation.md, "Samples", is the specification. Samples are written to the rows of the `Fleet`
when they become visible and stay there until the next.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hpabatch._jit import rule
from hpabatch.kernels.plant import HOUR_S, integral_at, usage_at
from hpabatch.layout.codes import METRIC_ANSWER_EMPTY, METRIC_OK
from hpabatch.layout.plant import (
    SCALE_ONE,
    SIGNAL_AGE,
    SIGNAL_BACKLOG,
    SIGNAL_TOTAL,
    Simulation,
)
from hpabatch.layout.records import Fleet, Record
from hpabatch.rules.numbers import div64, sub64


@rule
def in_gap(sim: Simulation, pipeline: Record, scrape: Record, ts_ms: int) -> bool:
    """Say whether nothing is scraped at an instant; instants ascend, so a cursor does."""
    k = pipeline.first_gap + scrape.gap
    while k < pipeline.last_gap and sim.gaps[k].to_ms <= ts_ms:
        k += 1
    scrape.gap = k - pipeline.first_gap
    return bool(k < pipeline.last_gap and sim.gaps[k].from_ms <= ts_ms)


@rule
def begin_scrapes(sim: Simulation, h: int, p: int) -> None:
    """Find the newest scrape that the first tick sees, and the first that it does not yet."""
    lane = sim.lanes[h]
    pipeline = sim.pipelines[sim.workloads[lane.workload].first_pipeline + p]
    scrape = sim.scrapes[lane.first_scrape + p]
    visible_ms = lane.start_ms - pipeline.lag_ms - pipeline.phase_ms
    ts_ms = visible_ms // pipeline.interval_ms * pipeline.interval_ms + pipeline.phase_ms
    scrape.next_ms = ts_ms
    scrape.gap, scrape.has_sample = 0, 0
    # Back to the newest scrape outside of all gaps; they are finite.
    while in_gap(sim, pipeline, scrape, ts_ms):
        ts_ms -= pipeline.interval_ms
        scrape.gap = 0
    scrape.gap = 0
    scrape.next_ms = ts_ms


@rule
def newest_scrape(sim: Simulation, h: int, p: int, now_ms: int) -> bool:
    """Take in the newest scrape that has become visible; say whether there is one."""
    lane = sim.lanes[h]
    workload = sim.workloads[np.uint64(lane.workload)]
    pipeline = sim.pipelines[np.uint64(workload.first_pipeline + p)]
    scrape, found = sim.scrapes[np.uint64(lane.first_scrape + p)], False
    ts_ms = scrape.next_ms
    while ts_ms + pipeline.lag_ms <= now_ms:
        if pipeline.first_gap == pipeline.last_gap or not in_gap(sim, pipeline, scrape, ts_ms):
            scrape.ts_ms, scrape.has_sample = ts_ms, 1
            found = True
        ts_ms += pipeline.interval_ms
    scrape.next_ms = ts_ms
    return found


@rule
def pod_sample(
    sim: Simulation, h: int, signal: int, flow_row: int, cohort: Record, ts_ms: int, window_ms: int
) -> int:
    """Return what a scrape at an instant says of a pod, before rounding to the signal's unit."""
    lane, what, flow = sim.lanes[h], sim.signals[np.uint64(signal)], sim.flows[np.uint64(flow_row)]
    if what.kind == SIGNAL_AGE:
        age_s = div64(ts_ms - cohort.started_ms, 1000)
        grown = div64(what.growth_milli * age_s, HOUR_S)
        return int(what.base_milli + min(grown, what.room_milli))
    r = flow.first_ring
    if flow.rings > 1:
        r += cohort.kind - sim.workloads[np.uint64(lane.workload)].first_class
    from_ms = max(ts_ms - window_ms, cohort.started_ms)
    ring = sim.rings[np.uint64(r)]
    if cohort.serve_ms <= from_ms and ring.since_ms <= from_ms and from_ms < ts_ms:
        return int(what.base_milli + ring.x_milli)  # nothing has changed in the window
    if from_ms >= ts_ms:
        if cohort.serve_ms <= ts_ms:
            return int(what.base_milli + usage_at(sim, lane, r, ts_ms))
        return int(what.startup_milli)
    served_from_ms = max(from_ms, cohort.serve_ms)
    served_ms, integral = 0, 0
    if served_from_ms < ts_ms:
        served_ms = ts_ms - served_from_ms
        before = integral_at(sim, lane, r, served_from_ms)
        integral = sub64(integral_at(sim, lane, r, ts_ms), before)
    idle_ms = ts_ms - from_ms - served_ms
    used = what.base_milli * served_ms + integral + what.startup_milli * idle_ms
    return div64(used, ts_ms - from_ms)


@rule
def seen_value(what: Record, value: int) -> int:
    """Return what the controller is told of a pod's value: scaled, in whole units.

    Rounded down to the signal's unit as it is measured; the scaled number of units is rounded half
    up.
    """
    if what.unit_milli > 1:
        value = div64(value, what.unit_milli) * what.unit_milli
    if what.scale_ppm == SCALE_ONE:
        return value
    units = div64(value, what.unit_milli)
    whole = div64(units, SCALE_ONE)  # (memory times a scale would not fit otherwise)
    part = (units - whole * SCALE_ONE) * what.scale_ppm + SCALE_ONE // 2
    return int((whole * what.scale_ppm + div64(part, SCALE_ONE)) * what.unit_milli)


@rule
def write_samples(
    sim: Simulation, fleet: Fleet, h: int, g: int, signal: int, flow_row: int, scrape: Record
) -> None:
    """Write a scrape's samples of one stream for all pods that have one."""
    lane, what = sim.lanes[h], sim.signals[np.uint64(signal)]
    pipeline = sim.pipelines[np.uint64(what.pipeline)]
    offset, ts_ms = fleet.streams[np.uint64(g)].sample_offset, scrape.ts_ms
    for row in range(lane.first_cohort, lane.first_cohort + sim.states[h].cohorts):
        cohort = sim.cohorts[np.uint64(row)]
        begun = cohort.scheduled != 0 and cohort.started_ms + pipeline.first_sample_ms <= ts_ms
        if not begun or fleet.row_state[np.uint64(row)] < 0:  # (what has vanished shows nothing)
            continue
        value = pod_sample(sim, h, signal, flow_row, cohort, ts_ms, pipeline.window_ms)
        sample: Any = np.uint64(row + offset)
        fleet.present[sample] = 1
        fleet.value_milli[sample] = seen_value(what, value)
        fleet.timing[sample].ts_ms = ts_ms + pipeline.later_ms
        fleet.timing[sample].window_ms = pipeline.window_ms


@rule
def answer_for_pods(sim: Simulation, fleet: Fleet, h: int, g: int) -> int:
    """Return what the API answers for a stream of the lane's pods."""
    first, offset = sim.lanes[h].first_cohort, fleet.streams[np.uint64(g)].sample_offset
    for row in range(first, first + sim.states[h].cohorts):
        if fleet.row_state[np.uint64(row)] >= 0 and fleet.present[np.uint64(row + offset)] != 0:
            return METRIC_OK
    return METRIC_ANSWER_EMPTY


@rule
def hide_samples(sim: Simulation, fleet: Fleet, h: int, g: int) -> None:
    """Take the samples of a stream away: they have become too old."""
    first, offset = sim.lanes[h].first_cohort, fleet.streams[g].sample_offset
    for row in range(first, first + sim.states[h].cohorts):
        fleet.present[row + offset] = 0


@rule
def take_samples(sim: Simulation, fleet: Fleet, h: int, now_ms: int) -> None:
    """Write what the metrics APIs show at a tick to the lane's rows and answers."""
    lane = sim.lanes[h]
    workload = sim.workloads[np.uint64(lane.workload)]
    fresh = 0
    for p in range(workload.pipelines):
        fresh |= (1 << p) if newest_scrape(sim, h, p, now_ms) else 0
    for g in range(fleet.lanes[h].first_stream, fleet.lanes[h].last_stream):
        number = sim.stream_signal[np.uint64(g)]
        if number < 0:
            continue  # a metric that the rules refuse before it is fetched
        signal, flow_row = workload.first_signal + number, lane.first_flow + number
        what = sim.signals[np.uint64(signal)]
        p = what.pipeline - workload.first_pipeline
        scrape = sim.scrapes[np.uint64(lane.first_scrape + p)]
        shows = (
            scrape.has_sample != 0
            and now_ms - scrape.ts_ms <= sim.pipelines[np.uint64(what.pipeline)].max_age_ms
        )
        answer = fleet.answers[np.uint64(h + fleet.streams[np.uint64(g)].answer_offset)]
        if what.kind == SIGNAL_TOTAL or what.kind == SIGNAL_BACKLOG:
            answer.code = METRIC_OK if shows else METRIC_ANSWER_EMPTY
            if fresh & (1 << p):
                ring = sim.flows[np.uint64(flow_row)].first_ring
                value = usage_at(sim, lane, ring, scrape.ts_ms)
                fleet.values_milli[g] = div64(value, what.unit_milli) * what.unit_milli
            continue
        if fresh & (1 << p):
            write_samples(sim, fleet, h, g, signal, flow_row, scrape)
        if not shows:
            hide_samples(sim, fleet, h, g)
        answer.code = answer_for_pods(sim, fleet, h, g)
