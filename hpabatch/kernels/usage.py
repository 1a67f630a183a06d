"""Observed usage of a workload at each tick: serving pods and their samples.

Reads what the alignment fills (`kernels.align`), block by block, and decides nothing. A pod's
sample counts at a tick only if it is as new as the newest of its stream: a pod whose sample was
lost would otherwise speak of an older time.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hpabatch._jit import kernel, rule
from hpabatch.kernels.align import extend_lane, fill_next
from hpabatch.layout.codes import (
    PHASE_MASK,
    PHASE_RUNNING,
    POD_DELETING,
    POD_STARTED,
    READY_MASK,
    READY_TRUE,
)
from hpabatch.layout.observations import WITHDRAWN, Observations, Rows
from hpabatch.layout.records import F64, I64, Fleet, I64x3, Record, RecordArray, record_dtype

HALF_MS = 1_800_000  # half hours are dealt in turn to the two halves of a pod's samples
FEWEST_COMPARED = 3  # pods of a tick, for one to be compared with their mean
PROBES = 512  # samples of a stream and load of which spacing, window and lag are noted


class TickUsages(RecordArray):
    """Pods at a tick: all that are matched; Running and Ready and not being deleted; of these ready
    for at least the settling time; started, but not that far; being deleted.
    """

    pods: I64
    ready: I64
    serving: I64
    starting: I64
    deleting: I64


TICK_USAGE: Final = record_dtype(TickUsages)


class SignalUsages(RecordArray):
    """One stream at a `tick` of its lane that saw something new, over its `counted` serving pods
    with a sample: when the newest of these and their mean was taken, their sum, least and most; the
    same of pods that were not yet ready; the requests of serving pods. Of a total: `counted`
    series, their sum, taken to be new at every tick.
    """

    tick: I64
    newest_ms: I64
    mean_ms: I64
    counted: I64
    sum_milli: I64
    least_milli: I64
    most_milli: I64
    starting: I64
    starting_milli: I64
    requested: I64
    request_milli: I64


SIGNAL_USAGE: Final = record_dtype(SignalUsages)


class TrackUsages(RecordArray):
    """One pod's samples of one stream: when the first and the last were taken; in each half how
    many and the sum of their ratios to the tick's mean; of settled ones how many, the first's time
    and value, and the sums of time since (h), value above, their product and the squared time.
    """

    first_ms: I64
    last_ms: I64
    even: I64
    odd: I64
    even_ratio: F64
    odd_ratio: F64
    settled: I64
    from_ms: I64
    from_milli: I64
    age_h: F64
    above: F64
    age_above: F64
    age_age: F64


TRACK_USAGE: Final = record_dtype(TrackUsages)


class UsageArrays(NamedTuple):
    """What the pass writes, beside `Fleet` and `Observations`.

    `ticks` (T,) TICK_USAGE beside `Fleet.ticks`; `tracks` (W,) TRACK_USAGE beside
    `Observations.tracks`. `signals` (A,) SIGNAL_USAGE: a stream's `shown[g]` of (G,) first places
    of those that it has in `Fleet.answers`. `newest_ms` (G,) is the newest sample that a stream has
    shown, `fresh_ms` (G,) how much older than the newest a sample may be to count. `probes`
    (G, PROBES, 4) spacing, window, lag and time in ms of some samples of the last load, `probed`
    (G,) how many.
    """

    ticks: TickUsages
    signals: SignalUsages
    tracks: TrackUsages
    shown: I64
    newest_ms: I64
    fresh_ms: I64
    probes: I64x3
    probed: I64


@rule
def ready_since(obs: Observations, fleet: Fleet, state: int) -> int:
    """Return since when a pod is ready, ms; -1: it is not Running, Ready and kept."""
    pod = fleet.states[state]
    flags = pod.pod_flags
    if flags & PHASE_MASK != PHASE_RUNNING or flags & READY_MASK != READY_TRUE:
        return -1
    if flags & POD_DELETING != 0:
        return -1
    # Without a recorded transition the state's own beginning is the best that is known.
    return int(pod.transition_ms if pod.transition_ms > 0 else obs.state_ms[state])


@rule
def count_pods(obs: Observations, fleet: Fleet, t: int, settle_ms: int, ticks: TickUsages) -> None:
    """Write the TICK_USAGE record of a tick."""
    tick, out = fleet.ticks[t], ticks[t]
    pods, ready, serving, starting, deleting = 0, 0, 0, 0, 0
    for row in range(tick.first_row, tick.last_row):
        state = fleet.row_state[row]
        if state < 0:
            continue
        pods += 1
        flags = fleet.states[state].pod_flags
        if flags & POD_DELETING != 0:
            deleting += 1
            continue
        since = ready_since(obs, fleet, state)
        ready += since >= 0
        if since >= 0 and tick.now_ms - since >= settle_ms:
            serving += 1
        elif flags & POD_STARTED != 0:
            starting += 1
    out.pods, out.ready, out.serving = pods, ready, serving
    out.starting, out.deleting = starting, deleting


@rule
def sample_class(
    obs: Observations, fleet: Fleet, row: int, sample: int, now_ms: int, settle_ms: int
) -> int:
    """Return 1 for the sample of a settled pod, 2 of one not yet ready, 0 of any other, or none."""
    state = fleet.row_state[row]
    if state < 0 or fleet.present[sample] == 0:
        return 0
    flags = fleet.states[state].pod_flags
    since = ready_since(obs, fleet, state)
    timing = fleet.timing[sample]
    if since < 0:
        kept = flags & POD_STARTED != 0 and flags & POD_DELETING == 0
        return 2 if kept and flags & READY_MASK != READY_TRUE else 0
    if now_ms - since >= settle_ms and timing.ts_ms - timing.window_ms >= since:
        return 1
    return 2 if timing.ts_ms <= since else 0


@rule
def add_pod_signal(
    obs: Observations, fleet: Fleet, h: int, g: int, t: int, settle_ms: int, out: UsageArrays
) -> int:
    """Write the SIGNAL_USAGE record of a pod stream at a tick, kept if it is new; return where."""
    tick, stream = fleet.ticks[t], fleet.streams[g]
    first, last, offset, now_ms = tick.first_row, tick.last_row, stream.sample_offset, tick.now_ms
    settled_ms, any_ms = -1, -1
    for row in range(first, last):
        kind = sample_class(obs, fleet, row, row + offset, now_ms, settle_ms)
        if kind > 0:
            any_ms = max(any_ms, fleet.timing[row + offset].ts_ms)
        if kind == 1:
            settled_ms = max(settled_ms, fleet.timing[row + offset].ts_ms)
    oldest_ms = settled_ms - out.fresh_ms[g]
    counted, total, behind, least, most = 0, 0, 0, 0, 0
    starting, starting_total, requested, request_total = 0, 0, 0, 0
    for row in range(first, last):
        kind = sample_class(obs, fleet, row, row + offset, now_ms, settle_ms)
        value, ts_ms = fleet.value_milli[row + offset], fleet.timing[row + offset].ts_ms
        if kind == 1 and ts_ms > oldest_ms:
            least = value if counted == 0 else min(least, value)
            most = value if counted == 0 else max(most, value)
            counted += 1
            total += value
            behind += settled_ms - ts_ms
        elif kind == 2 and ts_ms > out.newest_ms[g]:
            starting += 1
            starting_total += value
        if kind == 1:
            request = fleet.requests[fleet.row_state[row] + stream.request_offset]
            requested += request.known
            request_total += request.milli * request.known
    place = fleet.lanes[h].first_tick + stream.answer_offset + out.shown[g]
    signal = out.signals[place]
    out.shown[g] += any_ms > out.newest_ms[g]
    out.newest_ms[g] = max(out.newest_ms[g], any_ms)
    signal.tick = t - fleet.lanes[h].first_tick
    signal.newest_ms = settled_ms
    signal.mean_ms = settled_ms - behind // max(counted, 1)
    signal.counted, signal.sum_milli = counted, total
    signal.least_milli, signal.most_milli = least, most
    signal.starting, signal.starting_milli = starting, starting_total
    signal.requested, signal.request_milli = requested, request_total
    return int(place)


@rule
def add_total_signal(fleet: Fleet, h: int, g: int, t: int, out: UsageArrays) -> None:
    """Write the SIGNAL_USAGE record of an Object or External metric at a tick."""
    first, offset = fleet.lanes[h].first_tick, fleet.streams[g].answer_offset
    answer, now_ms = fleet.answers[t + offset], fleet.ticks[t].now_ms
    signal = out.signals[first + offset + out.shown[g]]
    total = 0
    for k in range(answer.first_value, answer.last_value):
        total += fleet.values_milli[k]
    counted = answer.last_value - answer.first_value
    out.shown[g] += counted > 0
    signal.tick = t - first
    signal.newest_ms, signal.mean_ms = now_ms, now_ms
    signal.counted, signal.sum_milli = counted, total
    signal.least_milli, signal.most_milli = total, total
    signal.starting, signal.starting_milli = 0, 0
    signal.requested, signal.request_milli = 0, 0


@rule
def add_track(track: Record, value: int, ts_ms: int, mean: float, compared: bool) -> None:
    """Add one new settled sample of a pod to its TRACK_USAGE record."""
    track.last_ms = ts_ms
    if compared:
        if (ts_ms // HALF_MS) % 2 == 0:
            track.even += 1
            track.even_ratio += value / mean
        else:
            track.odd += 1
            track.odd_ratio += value / mean
    if track.settled == 0:
        track.from_ms, track.from_milli = ts_ms, value
    track.settled += 1
    age_h, above = (ts_ms - track.from_ms) / 3_600_000, float(value - track.from_milli)
    track.age_h += age_h
    track.above += above
    track.age_above += age_h * above
    track.age_age += age_h * age_h


@rule
def add_tracks(
    obs: Observations,
    fleet: Fleet,
    h: int,
    g: int,
    t: int,
    place: int,
    settle_ms: int,
    out: UsageArrays,
) -> None:
    """Add the new samples of a tick's settled pods to their tracks; `place` is the signal's."""
    tick, stream, lane = fleet.ticks[t], fleet.streams[g], obs.lanes[h]
    signal = out.signals[place]
    compared = signal.counted >= FEWEST_COMPARED and signal.sum_milli > 0
    mean = signal.sum_milli / max(signal.counted, 1)
    oldest_ms = signal.newest_ms - out.fresh_ms[g]
    for row in range(tick.first_row, tick.last_row):
        sample = row + stream.sample_offset
        if sample_class(obs, fleet, row, sample, tick.now_ms, settle_ms) != 1:
            continue
        # The rows of a tick are the pods in view, in order (`fill_block`).
        j = obs.in_view[lane.first_pod + row - tick.first_row]
        track = out.tracks[obs.streams[g].first_track + j - lane.first_pod]
        ts_ms = fleet.timing[sample].ts_ms
        if ts_ms > track.last_ms and ts_ms > oldest_ms:
            add_track(track, fleet.value_milli[sample], ts_ms, mean, compared)


@rule
def observe_block(
    obs: Observations,
    fleet: Fleet,
    h: int,
    first: int,
    last: int,
    settle_ms: int,
    out: UsageArrays,
) -> None:
    """Write what a lane shows at the ticks first:last of a filled block."""
    for t in range(first, last):
        count_pods(obs, fleet, t, settle_ms, out.ticks)
        for g in range(fleet.lanes[h].first_stream, fleet.lanes[h].last_stream):
            if obs.streams[g].is_total != 0:
                add_total_signal(fleet, h, g, t, out)
            else:
                place = add_pod_signal(obs, fleet, h, g, t, settle_ms, out)
                add_tracks(obs, fleet, h, g, t, place, settle_ms, out)


@rule
def observe_lane(
    obs: Observations, fleet: Fleet, h: int, until_ms: int, settle_ms: int, out: UsageArrays
) -> None:
    """Write what a lane shows at its ticks before `until_ms`, block by block."""
    while True:
        first, end = fill_next(obs, fleet, h, until_ms)
        if end == first:
            return
        observe_block(obs, fleet, h, first, end, settle_ms, out)


@kernel
def observe_usage(
    first: int,
    last: int,
    obs: Observations,
    fleet: Fleet,
    until_ms: int,
    settle_ms: int,
    out: UsageArrays,
) -> None:
    """Write what every lane shows at its ticks before `until_ms`; loads are taken in before.

    Writes `out`, the ticks, answers and values of `fleet` for these ticks, and `obs` in place; rows
    and samples of `fleet` are scratch. Raises nothing.
    """
    for h in range(first, last):
        observe_lane(obs, fleet, h, until_ms, settle_ms, out)


@rule
def probe_stream(obs: Observations, g: int, out: UsageArrays) -> None:
    """Note spacing, window and lag of some of a stream's samples of this load, evenly chosen."""
    first, last = obs.streams[g].first_track, obs.streams[g].last_track
    steps = 0
    for k in range(first, last):
        steps += obs.tracks[k].last_step - obs.tracks[k].first_step
    stride, place, seen = steps // PROBES + 1, 0, 0
    for k in range(first, last):
        track = obs.tracks[k]
        if track.last_step > track.first_step and out.tracks[k].first_ms < 0:
            out.tracks[k].first_ms = obs.steps[track.first_step].ts_ms
        for s in range(track.first_step, track.last_step):
            seen += 1
            if s == track.first_step or seen % stride != 0:
                continue
            step = obs.steps[s]
            if step.present == WITHDRAWN or obs.steps[s - 1].present == WITHDRAWN:
                continue
            out.probes[g, place, 0] = step.ts_ms - obs.steps[s - 1].ts_ms
            out.probes[g, place, 1] = step.window_ms
            out.probes[g, place, 2] = step.seen_ms - step.ts_ms
            out.probes[g, place, 3] = step.ts_ms
            place += 1
    out.probed[g] = place


@rule
def take_in_lane(obs: Observations, rows: Rows, fleet: Fleet, h: int, out: UsageArrays) -> None:
    """Take in one load of a lane's samples and note what they are like."""
    extend_lane(obs, rows, h)
    for g in range(fleet.lanes[h].first_stream, fleet.lanes[h].last_stream):
        probe_stream(obs, g, out)


@kernel
def take_in_usage(
    first: int, last: int, obs: Observations, rows: Rows, fleet: Fleet, out: UsageArrays
) -> None:
    """Take in one load of samples of all lanes; note what they are like. Raises nothing."""
    for h in range(first, last):
        take_in_lane(obs, rows, fleet, h, out)
