"""Columnar layouts of recorded observations: what the alignment walks to fill a `Fleet`.

Everything of a shard is numbered through and found by first/last positions, as in `layout.records`.
A *track* is one pod's (or one series') samples of one source; its *steps* are the samples that
become visible, in the order in which they do. Times are UTC ms; integers int64, C order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hpabatch.layout.records import I8, I32, I64, Records, record_dtype, records_from

# One lane's sources: its instants of decision clock_ms[first_clock:last_clock], its PERIOD, SCALE
# and FETCH rows, its controller's starts, its LANE_POD rows, what its scale's selectors come to
# (selectors[first_selector + k]; pod j of the lane matches selector k if
# member[first_member + j * selectors + k]), the instants of an ambiguous selector, and its scratch:
# rows first_row:first_row + row_capacity, samples of its stream g (from 0)
# first_sample + g * row_capacity, values first_value:.
LANE_SOURCE = record_dtype(
    "first_clock",
    "last_clock",
    "first_period",
    "last_period",
    "first_scale",
    "last_scale",
    "first_start",
    "last_start",
    "first_pod",
    "last_pod",
    "selectors",
    "first_selector",
    "first_member",
    "first_ambiguous",
    "last_ambiguous",
    "first_fetch",
    "last_fetch",
    "first_answer",
    "answers",
    "first_row",
    "row_capacity",
    "first_sample",
    "first_value",
    "first_track",
    "last_track",
)

# A spec (a row of `Fleet.specs`) and when it is in force, the end exclusive; `life` counts the
# objects that the HPA's name had, from 0.
PERIOD = record_dtype("from_ms", "to_ms", "spec", "life")

# The scale as read from `ts_ms` on; `selector` counts the lane's selectors. `code` is SCALE_OK, or
# says why it cannot be read from then on (sizes and selector as before), `text` the number of the
# error's text.
SCALE_ROW = record_dtype("ts_ms", "replicas", "status_replicas", "selector", "code", "text")

# What a metrics API answered for a metric of the spec from `ts_ms` on: METRIC_OK (as sampled),
# METRIC_FETCH_FAILED (with the number of its text) or METRIC_ANSWER_EMPTY.
FETCH = record_dtype("metric", "ts_ms", "code", "text")

# An instant at which a lane's selector is ambiguous, and the number of the text that says so.
AMBIGUOUS = record_dtype("ts_ms", "text")

# What a scale's selector comes to (SELECTOR_*), and the number of the text of its error.
SELECTOR = record_dtype("code", "text")

# A pod of a lane: its life and its rows of `state_ms` and `Fleet.states`.
LANE_POD = record_dtype("created_ms", "gone_ms", "first_state", "last_state")

# Where a stream's tracks are: of pod streams one per pod of the lane, in order; else one a series.
STREAM_SOURCE = record_dtype("is_total", "first_track", "last_track")

# One track: its source SOURCE_*, the container's code or -1 for all together, a factor to milli,
# this load's sample rows first_row:last_row, and its steps: those of this load begin at first_step
# (room for the steps kept and one per row), those kept from the last load at old_first:old_last.
# `text`: of the error that old versions give where a sample lacks the container.
TRACK = record_dtype(
    "source",
    "container",
    "factor",
    "first_row",
    "last_row",
    "first_step",
    "last_step",
    "old_first",
    "old_last",
    "text",
)

SOURCE_CPU = 0
SOURCE_MEMORY = 1
SOURCE_PLAIN = 2
SOURCE_OTHER = 3  # a resource that is not recorded: its samples are there, without a value

# A sample from the instant at which it is visible; present 0: a container lacks the resource,
# LACKS_CONTAINER: it has not the container that the track is of, WITHDRAWN: from then on the
# metrics API no longer lists the pod or series.
LACKS_CONTAINER = 2
WITHDRAWN = 4

STEP = record_dtype("seen_ms", "ts_ms", "window_ms", "value_milli", "present")


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

    lanes: Records
    clock_ms: I64
    periods: Records
    scales: Records
    starts_ms: I64
    selectors: Records
    member: I8
    pods: Records
    state_ms: I64
    ambiguous: Records
    fetches: Records
    streams: Records
    tracks: Records
    steps: Records
    old_steps: Records
    parameters: I64
    cursors: I64
    state_cursor: I64
    step_cursor: I64
    answers: I64
    in_view: I64
    seen: I64


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


def empty_steps(length: int) -> Records:
    """Return room for steps."""
    return records_from(STEP, length)


def new_cursors(first_tick: I64, first_value: I64) -> I64:
    """Return cursors (H, CURSOR_LENGTH) at the beginning of every lane."""
    cursors = np.zeros((first_tick.size, CURSOR_LENGTH), np.int64)
    cursors[:, CURSOR_TICK] = first_tick
    cursors[:, CURSOR_VALUE] = first_value
    cursors[:, CURSOR_LAST_CLOCK] = cursors[:, CURSOR_LIFE] = -1
    return cursors
