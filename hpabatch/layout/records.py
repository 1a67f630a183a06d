"""Columnar layouts of what kernels read, keep and write.

A *lane* is one HPA over its ticks; index `h`. Everything ragged is numbered through over all lanes
and found by first/last positions: ticks `t`, pods' rows, pod states, samples, answers. Tables that
are read by the row are record arrays (one array each: a kernel that passes dozens of arrays around
spends its time on that; measured 4 µs a tick against 0.05), the per-sample columns of the hot loop
are plain arrays. Integers are int64 and codes int64 or int8, floats float64, C order; a null is a
0/1 field or a bit, never a magic value. `packing.pack` builds these from objects, `engine.align`
from frames; nothing else knows their form.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

I64: TypeAlias = NDArray[np.int64]
I32: TypeAlias = NDArray[np.int32]
I8: TypeAlias = NDArray[np.int8]
Records: TypeAlias = Any  # np.recarray; numpy's type for it says nothing about the fields


def record_dtype(*fields: str) -> np.dtype[Any]:
    """Return a record type of int64 fields; `name:f8` and `name:i1` name other types."""
    pairs = [f.split(":") if ":" in f else [f, "i8"] for f in fields]
    return np.dtype([(name, kind) for name, kind in pairs], align=True)


# One HPA. Its ticks are first_tick:last_tick, its recorded size changes first_change:last_change,
# its streams first_stream:last_stream.
# Then the flags (times in ms) of its controller and the bits of its version (`model.versions`).
LANE = record_dtype(
    "first_tick",
    "last_tick",
    "first_change",
    "last_change",
    "first_stream",
    "last_stream",
    "cpu_initialization_ms",
    "readiness_delay_ms",
    "downscale_stabilization_ms",
    "switches",
)

# One validity of an HPA's spec. Windows in ms and tolerances as ratios are resolved (flag or
# behavior); selects are SELECT_*; policies up are rows first_up:first_down, down the next ones to
# last_down; metrics first_metric:last_metric.
SPEC = record_dtype(
    "min_replicas",
    "max_replicas",
    "has_behavior",
    "up_window_ms",
    "down_window_ms",
    "up_select",
    "down_select",
    "has_object_or_external",
    "first_up",
    "first_down",
    "last_down",
    "first_metric",
    "last_metric",
    "up_tolerance:f8",
    "down_tolerance:f8",
)

# One scaling policy: kind POLICY_*, value in pods or percent.
POLICY = record_dtype("kind", "value", "period_ms")

# One metric of a spec: kind RESOURCE_UTILIZATION..METRIC_UNUSABLE, source SOURCE_*, error METRIC_*
# (refused before it is fetched), the target by kind, the stream where its observations lie, and the
# first stream of the lane that observes the same (a spec may name a metric twice).
METRIC = record_dtype(
    "kind", "source", "error", "is_cpu", "target_milli", "target_pct", "stream", "subject"
)

METRIC_WORDS = 12  # METRIC_* codes

# Where a metric's observations lie: sample of pod row r at r + sample_offset, request of pod state
# s at s + request_offset, answer of tick t at t + answer_offset.
STREAM = record_dtype("sample_offset", "request_offset", "answer_offset")

# One sync: the controller's clock, the spec in force, the scale as read, SCALE_* and SELECTOR_*
# codes, when a fresh controller started before it (ms; 0: none did; the tick itself: at no known
# time), whether the HPA is another object of its name since the last tick (0/1), the pods' rows
# first_row:last_row, and the texts of what was wrong with scale and selector.
TICK = record_dtype(
    "now_ms",
    "spec",
    "replicas",
    "status_replicas",
    "scale",
    "selector",
    "restart",
    "recreated",
    "first_row",
    "last_row",
    "scale_text",
    "selector_text",
)

# A pod as the controller's cache shows it, between two changes: its flags (phase, deleting,
# readiness, started; a plain `flags` would be numpy's own), start and last readiness transition.
POD_STATE = record_dtype("pod_flags", "start_ms", "transition_ms")

# When a sample was taken and over which window; read for cpu of pods that initialise only.
TIMING = record_dtype("ts_ms", "window_ms")

# A pod's request per stream and pod state; known 0 where a container lacks one, and then `milli` is
# the number of the text that says so.
REQUEST = record_dtype("known", "milli")

# What a metrics API answered, per stream and tick: METRIC_OK, METRIC_FETCH_FAILED or
# METRIC_ANSWER_EMPTY; an Object or External metric's values are first_value:last_value. `text` is
# the number of an error's text (`packing.texts`), here and below.
ANSWER = record_dtype("code", "first_value", "last_value", "text")

# A recorded size change that spends policy budgets.
CHANGE = record_dtype("ts_ms", "before", "after")


class Fleet(NamedTuple):
    """Everything that a replay reads; row types as above.

    Shapes: lanes (H,), specs (S,), policies (J,), metrics (M,), streams (G,), ticks (T,);
    row_state (R,) the pod state of each (tick, pod) row, or -1 for a sample whose pod is not in the
    controller's cache (int32: it is read for every sample); row_weight (R,) how many equal pods a
    row stands for, (0,) where each is one; states (Q,); present (0/1),
    value_milli and timing (N,) per sample;
    requests (W,), answers (A,), values_milli (V,), changes (C,). metric_words (M, METRIC_WORDS):
    by METRIC_* code a number for what is said of a metric, its name where it is fine; equal for
    equal words, but for the text of an API's error. Only statuses need it.
    """

    lanes: Records
    specs: Records
    policies: Records
    metrics: Records
    streams: Records
    ticks: Records
    row_state: I32
    row_weight: I64
    states: Records
    present: I8
    value_milli: I64
    timing: Records
    requests: Records
    answers: Records
    values_milli: I64
    changes: Records
    metric_words: I64 = np.zeros((0, METRIC_WORDS), np.int64)


# One entry of upstream's recommendation list, and at the same index one entry of each of three
# rings of slot numbers (slots not yet replaceable by age, a minimum queue, a maximum queue) and of
# a stack of replaceable ones.
REC_SLOT = record_dtype("value", "ms", "ring_age", "ring_min", "ring_max", "old")

# One entry of a scale event list.
EVENT_SLOT = record_dtype("change", "ms", "outdated")


class Memory(NamedTuple):
    """What controllers remember between ticks; kernels never allocate.

    `head` (H, HEAD_LENGTH) scalars per lane at the HEAD_* positions: counts, queue ends, the last
    status and its conditions (codes in the status' order, 0 = free), and where the lane's parts of
    the other arrays begin. `recs` upstream's slot list, `events` the scale events, up and down.
    """

    head: I64
    recs: Records
    events: Records


HEAD_REC_COUNT = 0
HEAD_AGE_FIRST = 1
HEAD_AGE_COUNT = 2
HEAD_MIN_FIRST = 3
HEAD_MIN_COUNT = 4
HEAD_MAX_FIRST = 5
HEAD_MAX_COUNT = 6
HEAD_MIN_FROM = 7
HEAD_MAX_FROM = 8
HEAD_OLD_BEFORE = 9
HEAD_UNSORTED = 10
HEAD_UP_COUNT = 11
HEAD_DOWN_COUNT = 12
HEAD_STATUS_CURRENT = 13
HEAD_STATUS_DESIRED = 14
HEAD_NEXT_CHANGE = 15
HEAD_CONDITIONS = 16  # four of them
HEAD_REC_START = 20
HEAD_REC_SIZE = 21
HEAD_OLD_COUNT = 22
HEAD_UP_START = 23
HEAD_DOWN_START = 24
HEAD_SEEN = 25  # 1 once the lane has a recommendation list, empty or not
HEAD_SPARE = 26  # how many recommendations from before the first tick there is room for
HEAD_LENGTH = 27

# What was decided in a tick; codes as in `layout.codes`. `desired` and `current` are the HPA status
# after it; `proposal` the metrics' answer, `stabilized` after the windows, `limited` after policies
# and bounds (where the metrics path was not taken these repeat the current replicas); `metric` the
# position of the driving metric or -1.
DECISION = record_dtype(
    "desired:i4",
    "current:i4",
    "proposal:i4",
    "stabilized:i4",
    "limited:i4",
    "rescaled:i1",
    "metric:i2",
    "invalid_metrics:i2",
    "binding:i1",
    "reason:i1",
    "condition_0:i1",
    "condition_1:i1",
    "condition_2:i1",
    "condition_3:i1",
)

# What one metric said in a tick, at its answer's index: code METRIC_*, step STEP_*, the last ratio
# formed (usage to target, after substitutions) and the status values of that kind of metric.
METRIC_DECISION = record_dtype(
    "average_milli",
    "value_milli",
    "ratio:f8",
    "proposal:i4",
    "utilization_pct:i4",
    "code:i1",
    "step:i1",
)


# What a metric's answer in a tick was made of, at its answer's index: how many pods were in each
# group, samples of pods that the cache does not hold, and the text of an error.
DETAIL = record_dtype(
    "ready:i4",
    "unready:i4",
    "missing:i4",
    "ignored:i4",
    "stray:i4",
    "text:i4",
)

NO_DETAILS: Records = np.zeros(0, DETAIL).view(np.recarray)


class Results(NamedTuple):
    """Everything that a replay writes: DECISION (T,) and METRIC_DECISION (A,) records.

    `details` (A,) DETAIL records, or (0,) where nobody asks for them.
    """

    decisions: Records
    metrics: Records
    details: Records = NO_DETAILS


# The HPA's status after a tick, beside its DECISION. Of each condition slot: when its status last
# changed, and the tick (of all ticks) whose words it has, -1: those of the status before the first
# tick. `metrics_tick` is the tick whose metrics `currentMetrics` shows (-1: those of the status
# before the first tick, NO_METRICS: null); `last_scale_ms` NO_TIME_MS before the first scale;
# `observed` the row of the spec whose generation is `observedGeneration` (-1: that of the status
# before the first tick, NO_GENERATION: unset);
# `written`: the status differs from the last one, so it was sent to the API server.
STATUS = record_dtype(
    "transition_0_ms",
    "transition_1_ms",
    "transition_2_ms",
    "transition_3_ms",
    "last_scale_ms",
    "set_0:i4",
    "set_1:i4",
    "set_2:i4",
    "set_3:i4",
    "metrics_tick:i4",
    "observed:i4",
    "written:i1",
)

NO_TIME_MS = -(2**62)
NO_METRICS = -2
NO_GENERATION = -2
FROM_BEFORE = -1

# One entry of `currentMetrics` as last shown: its stream and kind, or NO_ENTRY.
SHOWN_METRIC = record_dtype("stream", "kind", "utilization_pct", "average_milli", "value_milli")


class StatusMemory(NamedTuple):
    """Each HPA's status between ticks, for what `Memory` does not hold.

    `head` (H, STATUS_LENGTH) at the STATUS_* positions, of conditions four each; `shown` (G,)
    SHOWN_METRIC, a lane's from its first stream on, in the order of `currentMetrics`;
    `generations` (S,) the generation of each spec, as a number that is equal for equal ones.
    """

    head: I64
    shown: Records
    generations: I64


STATUS_NEXT = 0  # the next tick to note, as an offset
STATUS_CURRENT = 1
STATUS_DESIRED = 2
STATUS_LAST_SCALE = 3
STATUS_SHOWN = 4  # entries of `currentMetrics`
STATUS_METRICS_TICK = 5
STATUS_CODES = 6
STATUS_TIMES = 10
STATUS_WORDS = 14  # what a condition's message says, as a number: equal for equal messages
STATUS_SETS = 18
STATUS_OBSERVED = 22  # the spec whose generation the status shows
STATUS_LENGTH = 23


def records(dtype: np.dtype[Any], rows: Any) -> Records:
    """Return a record array of the given rows (tuples, or an (n, fields) table of numbers)."""
    array = np.array([tuple(row) for row in rows], dtype)
    return array.view(np.recarray)


def records_from(dtype: np.dtype[Any], length: int, **columns: Any) -> Records:
    """Return a record array of `length` rows; fields without a column (or scalar) are 0."""
    array = np.zeros(length, dtype)
    for name, column in columns.items():
        array[name] = column
    return array.view(np.recarray)


def canonical(array: Any, dtype: Any = np.int64) -> NDArray[Any]:
    """Return a writable C-ordered array of `dtype`, so that every kernel has one signature.

    Numba compiles a further specialisation for read-only, Fortran-ordered and other-width arrays.
    """
    return np.require(array, dtype=dtype, requirements=["C", "W"])


def poisoned(dtype: np.dtype[Any], length: int) -> Records:
    """Return records that hold what no rule writes."""
    array = np.full(length, 0, dtype)
    array.view(np.uint8).fill(0xA5)
    return array.view(np.recarray)


def empty_results(ticks: int, answers: int, details: bool = False) -> Results:
    """Return results of the given sizes, filled with values that no decision has (poison)."""
    return Results(
        poisoned(DECISION, ticks),
        poisoned(METRIC_DECISION, answers),
        poisoned(DETAIL, answers) if details else NO_DETAILS,
    )
