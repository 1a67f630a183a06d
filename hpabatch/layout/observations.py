"""Columnar layouts of recorded observations: what the alignment walks to fill a `Fleet`.

Everything of a shard is numbered through and found by first/last positions, as in `layout.records`.
A *track* is one pod's (or one series') samples of one source; its *steps* are the samples that
become visible, in the order in which they do. Times are UTC ms; integers int64, C order.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from hpabatch.layout.records import I8, I32, I64, I64x2, RecordArray, record_dtype, records_from


class LaneSources(RecordArray):
    """One lane's sources: its instants of decision clock_ms[first_clock:last_clock], its PERIOD,
    SCALE and FETCH rows, its controller's starts, its LANE_POD rows, what its scale's selectors
    come to (selectors[first_selector + k]; pod j of the lane matches selector k if
    member[first_member + j * selectors + k]), the instants of an ambiguous selector, and its
    scratch: rows first_row:first_row + row_capacity, samples of its stream g (from 0) first_sample
    + g * row_capacity, values first_value:.
    """

    first_clock: I64
    last_clock: I64
    first_period: I64
    last_period: I64
    first_scale: I64
    last_scale: I64
    first_start: I64
    last_start: I64
    first_pod: I64
    last_pod: I64
    selectors: I64
    first_selector: I64
    first_member: I64
    first_ambiguous: I64
    last_ambiguous: I64
    first_fetch: I64
    last_fetch: I64
    first_answer: I64
    answers: I64
    first_row: I64
    row_capacity: I64
    first_sample: I64
    first_value: I64
    first_track: I64
    last_track: I64


LANE_SOURCE: Final = record_dtype(LaneSources)


class Periods(RecordArray):
    """A spec (a row of `Fleet.specs`) and when it is in force, the end exclusive; `life` counts the
    objects that the HPA's name had, from 0.
    """

    from_ms: I64
    to_ms: I64
    spec: I64
    life: I64


PERIOD: Final = record_dtype(Periods)


class Scales(RecordArray):
    """The scale as read from `ts_ms` on; `selector` counts the lane's selectors. `code` is
    SCALE_OK, or says why it cannot be read from then on (sizes and selector as before), `text` the
    number of the error's text.
    """

    ts_ms: I64
    replicas: I64
    status_replicas: I64
    selector: I64
    code: I64
    text: I64


SCALE_ROW: Final = record_dtype(Scales)


class Fetches(RecordArray):
    """What a metrics API answered for a metric of the spec from `ts_ms` on: METRIC_OK (as sampled),
    METRIC_FETCH_FAILED (with the number of its text) or METRIC_ANSWER_EMPTY.
    """

    metric: I64
    ts_ms: I64
    code: I64
    text: I64


FETCH: Final = record_dtype(Fetches)


class Ambiguities(RecordArray):
    """A sync at which a lane's selector is ambiguous, and the number of the text that says so."""

    ts_ms: I64
    text: I64


AMBIGUOUS: Final = record_dtype(Ambiguities)


class Selectors(RecordArray):
    """What a scale's selector comes to (SELECTOR_*), and the number of the text of its error."""

    code: I64
    text: I64


SELECTOR: Final = record_dtype(Selectors)


class LanePods(RecordArray):
    """A pod of a lane: its life and its rows of `state_ms` and `Fleet.states`."""

    created_ms: I64
    gone_ms: I64
    first_state: I64
    last_state: I64


LANE_POD: Final = record_dtype(LanePods)


class StreamSources(RecordArray):
    """Where a stream's tracks are: of pod streams one per pod of the lane, in order; else one a
    series.
    """

    is_total: I64
    first_track: I64
    last_track: I64


STREAM_SOURCE: Final = record_dtype(StreamSources)


class Tracks(RecordArray):
    """One track: its source SOURCE_*, the container's code or -1 for all together, a factor to
    milli, this load's sample rows first_row:last_row, and its steps: those of this load begin at
    first_step (room for the steps kept and one per row), those kept from the last load at
    old_first:old_last. `text`: of the error that old versions give where a sample lacks the
    container.
    """

    source: I64
    container: I64
    factor: I64
    first_row: I64
    last_row: I64
    first_step: I64
    last_step: I64
    old_first: I64
    old_last: I64
    text: I64


TRACK: Final = record_dtype(Tracks)

SOURCE_CPU = 0
SOURCE_MEMORY = 1
SOURCE_PLAIN = 2
SOURCE_OTHER = 3  # a resource that is not recorded: its samples are there, without a value

# What `present` of a step says beside 0 and 1.
LACKS_CONTAINER = 2
WITHDRAWN = 4


class Steps(RecordArray):
    """A sample from the time at which it is visible. `present` 0: a container lacks the resource;
    LACKS_CONTAINER: the pod has no container of the track's name; WITHDRAWN: from then on the
    metrics API no longer lists the pod or series.
    """

    seen_ms: I64
    ts_ms: I64
    window_ms: I64
    value_milli: I64
    present: I64


STEP: Final = record_dtype(Steps)


class Rows(NamedTuple):
    """One load of samples, sorted by owner and time; a column may be empty (see each).

    `usage_*` (N,) container samples: `fetched_ms` NOT_FETCHED where not recorded, (0,) if nowhere;
    `container` codes, (0,) if no track asks for one; `cpu_known`, `memory_known` 0/1, (0,) where
    all are known. Rows of one time in which neither is known withdraw the pod. `plain_*` (M,)
    samples of all other metrics, likewise; one whose value is not known withdraws.
    """

    usage_ts_ms: I64
    usage_fetched_ms: I64
    usage_window_ms: I64
    usage_container: I32
    cpu_milli: I64
    cpu_known: I8
    memory_bytes: I64
    memory_known: I8
    plain_ts_ms: I64
    plain_fetched_ms: I64
    plain_window_ms: I64
    plain_milli: I64
    plain_known: I8


NOT_FETCHED_MS = -(2**62)


class Observations(NamedTuple):
    """Everything of a shard that ticks are filled from; row types as above.

    Shapes: lanes (H,), clock_ms (K,), periods, scales, starts_ms, pods, selectors, member
    (0/1), ambiguous, fetches as counted by the lanes; state_ms (Q,) beside `Fleet.states`;
    streams (G,) beside `Fleet.streams`; tracks (W,), steps and old_steps as counted by the tracks.
    `parameters` (2,): delay_ms, max_age_ms. `cursors` (H, CURSOR_LENGTH) say how far each lane is,
    `state_cursor` (pods,), `step_cursor` (W,), `answers` (answers, 2) current codes and texts by
    metric, `in_view` (pods,) scratch; `seen` (G, 2): ticks in which a stream showed a value, and
    its steps.
    """

    lanes: LaneSources
    clock_ms: I64
    periods: Periods
    scales: Scales
    starts_ms: I64
    selectors: Selectors
    member: I8
    pods: LanePods
    state_ms: I64
    ambiguous: Ambiguities
    fetches: Fetches
    streams: StreamSources
    tracks: Tracks
    steps: Steps
    old_steps: Steps
    parameters: I64
    cursors: I64x2
    state_cursor: I64
    step_cursor: I64
    answers: I64x2
    in_view: I64
    seen: I64x2


CURSOR_CLOCK = 0  # the next instant, as an offset
CURSOR_TICK = 1  # the next free row of `Fleet.ticks`
CURSOR_PERIOD = 2
CURSOR_SCALE = 3  # scale rows seen
CURSOR_START = 4
CURSOR_AMBIGUOUS = 5
CURSOR_FETCH = 6
CURSOR_LAST_CLOCK = 7  # the offset of the last instant that had a spec, or -1
CURSOR_VALUE = 8  # the next free value
CURSOR_LIFE = 9  # of the last instant that had a spec, or -1
CURSOR_LENGTH = 10


def empty_steps(length: int) -> Steps:
    """Return room for steps."""
    return records_from(STEP, length)


def new_cursors(first_tick: I64, first_value: I64) -> I64:
    """Return cursors (H, CURSOR_LENGTH) at the beginning of every lane."""
    cursors = np.zeros((first_tick.size, CURSOR_LENGTH), np.int64)
    cursors[:, CURSOR_TICK] = first_tick
    cursors[:, CURSOR_VALUE] = first_value
    cursors[:, CURSOR_LAST_CLOCK] = cursors[:, CURSOR_LIFE] = -1
    return cursors
