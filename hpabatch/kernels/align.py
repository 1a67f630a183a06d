"""Alignment: the pods and samples that the controller saw at each tick, from sorted rows.

A lane's ticks are filled in blocks small enough for a processor's cache, then decided, so that the
rows of (tick, pod) never go to memory. A pod's samples are walked once, by a cursor. A pod is in
the controller's cache from its creation until it is gone; a size change at exactly a tick is that
tick's own outcome and seen at the next one.
"""

from __future__ import annotations

from hpabatch._jit import kernel, rule
from hpabatch.kernels.replay import replay_lane
from hpabatch.kernels.steps import extend_track
from hpabatch.kernels.ticks import fill_ticks, finish_tick
from hpabatch.layout.codes import (
    METRIC_ANSWER_EMPTY,
    METRIC_CONTAINER_LACKS,
    METRIC_OK,
)
from hpabatch.layout.observations import (
    CURSOR_CLOCK,
    CURSOR_FETCH,
    CURSOR_TICK,
    CURSOR_VALUE,
    LACKS_CONTAINER,
    WITHDRAWN,
    Observations,
    Rows,
)
from hpabatch.layout.records import Fleet, Memory, Record
from hpabatch.layout.results import Results
from hpabatch.layout.switches import CONTAINER_MAY_LACK


@rule
def pods_in_view(obs: Observations, h: int, first_ms: int, last_ms: int) -> int:
    """Write the lane's pods that live at some time of first_ms:last_ms to `in_view`; count them."""
    lane, count = obs.lanes[h], 0
    for j in range(lane.first_pod, lane.last_pod):
        if obs.pods[j].created_ms <= last_ms and obs.pods[j].gone_ms > first_ms:
            obs.in_view[lane.first_pod + count] = j
            count += 1
    return count


@rule
def block_length(obs: Observations, h: int, until_ms: int) -> int:
    """Return for how many of the lane's next instants the rows of (tick, pod) fit its scratch."""
    lane, cursor = obs.lanes[h], obs.cursors[h]
    first = lane.first_clock + cursor[CURSOR_CLOCK]
    if first >= lane.last_clock or obs.clock_ms[first] >= until_ms:
        return 0
    # As many as fit with the pods of the first instant; more pods in the block make it shorter.
    pods = pods_in_view(obs, h, obs.clock_ms[first], obs.clock_ms[first])
    length = min(lane.last_clock - first, max(lane.row_capacity // max(pods, 1), 1))
    while True:
        last_ms = min(obs.clock_ms[first + length - 1], until_ms)
        pods = pods_in_view(obs, h, obs.clock_ms[first], last_ms)
        fitting = max(lane.row_capacity // max(pods, 1), 1)
        if fitting >= length:
            return int(length)
        length = fitting


@rule
def fill_states(
    obs: Observations, fleet: Fleet, h: int, j: int, v: int, width: int, first: int, last: int
) -> None:
    """Write the pod's state at each tick of a block, -1 where it is not cached or not matched."""
    lane, pod = obs.lanes[h], obs.pods[j]
    member = lane.first_member + (j - lane.first_pod) * lane.selectors
    state = obs.state_cursor[j]
    row = lane.first_row + v
    for t in range(first, last):
        tick = fleet.ticks[t]
        now_ms, chosen = tick.now_ms, tick.selector_row
        while state + 1 < pod.last_state and obs.state_ms[state + 1] <= now_ms:
            state += 1
        alive = pod.created_ms <= now_ms and now_ms < pod.gone_ms
        matched = chosen >= 0 and obs.member[member + max(chosen, 0)] != 0
        fleet.row_state[row] = state if alive and matched else -1
        row += width
    obs.state_cursor[j] = state


@rule
def note_listed(answer: Record, fails: bool, text: int) -> None:
    """Note that an answer lists a pod; `fails`: in a version for which that is an error."""
    if fails and answer.code != METRIC_CONTAINER_LACKS:
        answer.code, answer.text = METRIC_CONTAINER_LACKS, text
    elif answer.code == METRIC_ANSWER_EMPTY:
        answer.code = METRIC_OK


@rule
def fill_samples(
    obs: Observations,
    fleet: Fleet,
    h: int,
    g: int,
    j: int,
    v: int,
    width: int,
    first: int,
    last: int,
) -> int:
    """Write the pod's visible sample of stream g at each tick of a block; return how many show."""
    lane = obs.lanes[h]
    k = obs.streams[g].first_track + j - lane.first_pod
    end, text = obs.tracks[k].last_step, obs.tracks[k].text
    strict = fleet.lanes[h].switches & CONTAINER_MAY_LACK == 0
    cursor, max_age_ms = obs.step_cursor[k], obs.parameters[1]
    none = cursor < obs.tracks[k].first_step
    offset, answer = fleet.streams[g].sample_offset, fleet.streams[g].answer_offset
    ts_ms, window_ms, value, present = 0, 0, 0, 0
    if not none:
        step = obs.steps[cursor]
        ts_ms, window_ms, value, present = (
            step.ts_ms,
            step.window_ms,
            step.value_milli,
            step.present,
        )
    next_ms = obs.steps[cursor + 1].seen_ms if cursor + 1 < end else 2**62
    row, shown = lane.first_row + v, 0
    for t in range(first, last):
        now_ms = fleet.ticks[t].now_ms
        if next_ms <= now_ms:
            none = False
            while next_ms <= now_ms:
                cursor += 1
                next_ms = obs.steps[cursor + 1].seen_ms if cursor + 1 < end else 2**62
            step = obs.steps[cursor]
            ts_ms, window_ms = step.ts_ms, step.window_ms
            value, present = step.value_milli, step.present
        sample = row + offset
        listed = not none and now_ms - ts_ms <= max_age_ms and fleet.row_state[row] >= 0
        if listed and present != WITHDRAWN:
            note_listed(fleet.answers[t + answer], strict and present == LACKS_CONTAINER, text)
            fleet.present[sample] = present & 1
            fleet.value_milli[sample] = value
            fleet.timing[sample].ts_ms = ts_ms
            fleet.timing[sample].window_ms = window_ms
            shown += present & 1
        else:
            fleet.present[sample] = 0
            fleet.value_milli[sample] = 0
        row += width
    obs.step_cursor[k] = cursor
    return shown


@rule
def fill_totals(obs: Observations, fleet: Fleet, h: int, g: int, first: int, last: int) -> int:
    """Write the visible values of an Object or External metric per tick; return how many show."""
    cursor, max_age_ms = obs.cursors[h], obs.parameters[1]
    answer, shown = fleet.streams[g].answer_offset, 0
    for t in range(first, last):
        now_ms, place = fleet.ticks[t].now_ms, cursor[CURSOR_VALUE]
        fleet.answers[t + answer].first_value = place
        for k in range(obs.streams[g].first_track, obs.streams[g].last_track):
            step = obs.step_cursor[k]
            while step + 1 < obs.tracks[k].last_step and obs.steps[step + 1].seen_ms <= now_ms:
                step += 1
            obs.step_cursor[k] = step
            if step < obs.tracks[k].first_step or obs.steps[step].present == WITHDRAWN:
                continue
            if now_ms - obs.steps[step].ts_ms <= max_age_ms:
                fleet.values_milli[place] = obs.steps[step].value_milli
                place += 1
        shown += place - cursor[CURSOR_VALUE]
        if place > cursor[CURSOR_VALUE]:
            fleet.answers[t + answer].code = METRIC_OK
        fleet.answers[t + answer].last_value = place
        cursor[CURSOR_VALUE] = place
    return shown


@rule
def apply_fetches(obs: Observations, fleet: Fleet, h: int, t: int) -> None:
    """Put the recorded answers of the metrics APIs, where there are any, over the samples' own."""
    lane, cursor = obs.lanes[h], obs.cursors[h]
    if lane.first_fetch == lane.last_fetch:
        return
    k = lane.first_fetch + cursor[CURSOR_FETCH]
    while k < lane.last_fetch and obs.fetches[k].ts_ms <= fleet.ticks[t].now_ms:
        place = lane.first_answer + obs.fetches[k].metric
        obs.answers[place, 0], obs.answers[place, 1] = obs.fetches[k].code, obs.fetches[k].text
        k += 1
    cursor[CURSOR_FETCH] = k - lane.first_fetch
    spec = fleet.specs[fleet.ticks[t].spec]
    for m in range(min(lane.answers, spec.last_metric - spec.first_metric)):
        code = obs.answers[lane.first_answer + m, 0]
        if code != METRIC_OK:
            stream = fleet.metrics[spec.first_metric + m].stream
            answer = fleet.answers[t + fleet.streams[stream].answer_offset]
            answer.code, answer.text = code, obs.answers[lane.first_answer + m, 1]


@rule
def fill_block(obs: Observations, fleet: Fleet, h: int, first: int, last: int) -> None:
    """Fill everything of the ticks first:last but their TICK records' head."""
    lane = obs.lanes[h]
    width = pods_in_view(obs, h, fleet.ticks[first].now_ms, fleet.ticks[last - 1].now_ms)
    for t in range(first, last):
        fleet.ticks[t].first_row = lane.first_row + (t - first) * width
        fleet.ticks[t].last_row = fleet.ticks[t].first_row + width
    for v in range(width):
        fill_states(obs, fleet, h, obs.in_view[lane.first_pod + v], v, width, first, last)
    for g in range(fleet.lanes[h].first_stream, fleet.lanes[h].last_stream):
        offset = fleet.streams[g].answer_offset
        for t in range(first, last):
            answer = fleet.answers[t + offset]
            answer.code, answer.first_value, answer.last_value = METRIC_ANSWER_EMPTY, 0, 0
            answer.text = 0
        if obs.streams[g].is_total != 0:
            obs.seen[g, 0] += fill_totals(obs, fleet, h, g, first, last)
            continue
        for v in range(width):
            j = obs.in_view[lane.first_pod + v]
            obs.seen[g, 0] += fill_samples(obs, fleet, h, g, j, v, width, first, last)
    for t in range(first, last):
        apply_fetches(obs, fleet, h, t)
        finish_tick(obs, fleet, h, t)


@rule
def fill_next(obs: Observations, fleet: Fleet, h: int, until_ms: int) -> tuple[int, int]:
    """Fill the next block of a lane's ticks before `until_ms`; return first:end, empty at the end.

    Instants at which the HPA had no spec have no tick: there may be blocks of them alone.
    """
    while True:
        length = block_length(obs, h, until_ms)
        first = obs.cursors[h, CURSOR_TICK]
        if length == 0:
            return first, first
        count = fill_ticks(obs, fleet, h, length, until_ms)
        if count > 0:
            fill_block(obs, fleet, h, first, first + count)
            return first, first + count


@rule
def extend_lane(obs: Observations, rows: Rows, h: int) -> None:
    """Take in one load's samples of a lane, behind the steps kept of the last one."""
    lane = obs.lanes[h]
    for k in range(lane.first_track, lane.last_track):
        extend_track(obs, rows, k)


@rule
def replay_observed_lane(
    obs: Observations,
    rows: Rows,
    fleet: Fleet,
    memory: Memory,
    h: int,
    extend: bool,
    until_ms: int,
    recorded: bool,
    results: Results,
) -> None:
    """Take in one load of a lane and decide its ticks before `until_ms`, block by block."""
    if extend:
        extend_lane(obs, rows, h)
    while True:
        first, end = fill_next(obs, fleet, h, until_ms)
        if end == first:
            return
        replay_lane(fleet, memory, h, first, end, recorded, results)


@kernel
def replay_observations(
    first: int,
    last: int,
    obs: Observations,
    rows: Rows,
    fleet: Fleet,
    memory: Memory,
    extend: bool,
    until_ms: int,
    recorded: bool,
    results: Results,
) -> None:
    """Take in one load of samples and decide every lane's ticks before `until_ms`.

    Loads come in order of time; between two the caller moves the tracks on. With `extend` False
    the load was taken in before. Writes `results`, the
    ticks, answers and values of `fleet` for the ticks decided, and `obs` and `memory` in place;
    rows and samples of `fleet` are scratch. Raises nothing.
    """
    for h in range(first, last):
        replay_observed_lane(obs, rows, fleet, memory, h, extend, until_ms, recorded, results)
