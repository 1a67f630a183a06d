"""Columnar layouts of what kernels read, keep and write.

A *lane* is one HPA over its ticks; index `h`. Everything ragged is numbered through over all lanes
and found by first/last positions: ticks `t`, pods' rows, pod states, samples, answers. Tables that
are read by the row are record arrays (one array each: a kernel that passes dozens of arrays around
spends its time on that; measured 4 µs a tick against 0.05), the per-sample columns of the hot loop
are plain arrays. Integers are int64 and codes int64 or int8, floats float64, C order; a null is a
0/1 field or a bit, never a magic value. `packing` builds these from objects, `engine.shards.pack`
from frames; nothing else knows their form.
"""

from __future__ import annotations

from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Generic,
    NamedTuple,
    Self,
    TypeAlias,
    TypeVar,
    overload,
)

import numpy as np
from numpy.typing import NDArray

I64: TypeAlias = NDArray[np.int64]
I32: TypeAlias = NDArray[np.int32]
I16: TypeAlias = NDArray[np.int16]
I8: TypeAlias = NDArray[np.int8]
F64: TypeAlias = NDArray[np.float64]
# Of more dimensions than one: a kernel is compiled for what its annotations say.
I64x2: TypeAlias = Annotated[I64, 2]
I64x3: TypeAlias = Annotated[I64, 3]
I32x2: TypeAlias = Annotated[I32, 2]
F64x2: TypeAlias = Annotated[F64, 2]
Record: TypeAlias = Any  # one row, whose fields numba checks when it compiles
Records: TypeAlias = Any  # a record array of any type


class RecordArray(np.ndarray[Any, np.dtype[np.void]]):
    """A record array as a type checker sees it: a subclass names the columns.

    Only a description: the arrays are plain `np.recarray`s of `record_dtype(subclass)`.
    """

    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        def __getitem__(self, key: slice | NDArray[Any]) -> Self: ...
        @overload
        def __getitem__(self, key: Any) -> Any: ...
        def __getitem__(self, key: Any) -> Any: ...


A = TypeVar("A", bound=RecordArray)
_KINDS: Final = {"I64": "i8", "I32": "i4", "I16": "i2", "I8": "i1", "F64": "f8"}

if TYPE_CHECKING:

    class RecordType(np.dtype[np.void], Generic[A]):  # type: ignore[misc]
        """A numpy record type that remembers which columns it stands for."""

        names: tuple[str, ...]

else:
    RecordType = np.dtype


def record_dtype(columns: type[A]) -> RecordType[A]:
    """Return the record type of the columns that a class names."""
    fields = [(name, _KINDS[kind]) for name, kind in columns.__annotations__.items()]
    return np.dtype(fields, align=True)  # type: ignore[return-value]


class Lanes(RecordArray):
    """One HPA. Its ticks are first_tick:last_tick, its recorded size changes
    first_change:last_change, its streams first_stream:last_stream. Then the flags (times in ms) of
    its controller and the bits of its version (`model.versions`).
    """

    first_tick: I64
    last_tick: I64
    first_change: I64
    last_change: I64
    first_stream: I64
    last_stream: I64
    cpu_initialization_ms: I64
    readiness_delay_ms: I64
    downscale_stabilization_ms: I64
    switches: I64


LANE: Final = record_dtype(Lanes)


class Specs(RecordArray):
    """One validity of an HPA's spec. Windows in ms and tolerances as ratios are resolved (flag or
    behavior); selects are SELECT_*; policies up are rows first_up:first_down, down the next ones to
    last_down; metrics first_metric:last_metric.
    """

    min_replicas: I64
    max_replicas: I64
    has_behavior: I64
    up_window_ms: I64
    down_window_ms: I64
    up_select: I64
    down_select: I64
    has_object_or_external: I64
    first_up: I64
    first_down: I64
    last_down: I64
    first_metric: I64
    last_metric: I64
    up_tolerance: F64
    down_tolerance: F64


SPEC: Final = record_dtype(Specs)


class Policies(RecordArray):
    """One scaling policy: kind POLICY_*, value in pods or percent."""

    kind: I64
    value: I64
    period_ms: I64


POLICY: Final = record_dtype(Policies)


class Metrics(RecordArray):
    """One metric of a spec: kind RESOURCE_UTILIZATION..METRIC_UNUSABLE, source SOURCE_*, error
    METRIC_* (refused before it is fetched), the target by kind, the stream where its observations
    lie, and the first stream of the lane that observes the same (a spec may name a metric twice).
    """

    kind: I64
    source: I64
    error: I64
    is_cpu: I64
    target_milli: I64
    target_pct: I64
    stream: I64
    subject: I64


METRIC: Final = record_dtype(Metrics)

METRIC_WORDS = 12  # METRIC_* codes


class Streams(RecordArray):
    """Where a metric's observations lie: sample of pod row r at r + sample_offset, request of pod
    state s at s + request_offset, answer of tick t at t + answer_offset.
    """

    sample_offset: I64
    request_offset: I64
    answer_offset: I64


STREAM: Final = record_dtype(Streams)


class Ticks(RecordArray):
    """One sync: the controller's clock, the spec in force, the scale as read, SCALE_* and
    SELECTOR_* codes, when a fresh controller started before it (ms; 0: none did; the tick itself:
    at no known time), whether the HPA is another object of its name since the last tick (0/1), the
    pods' rows first_row:last_row, the texts of what was wrong with scale and selector, and which of
    the lane's selectors the scale has (from 0; -1: not known), which only the alignment reads.
    """

    now_ms: I64
    spec: I64
    replicas: I64
    status_replicas: I64
    scale: I64
    selector: I64
    restart: I64
    recreated: I64
    first_row: I64
    last_row: I64
    scale_text: I64
    selector_text: I64
    selector_row: I64


TICK: Final = record_dtype(Ticks)


class PodStates(RecordArray):
    """A pod as the controller's cache shows it, between two changes: its flags (phase, deleting,
    readiness, started; a plain `flags` would be numpy's own), start and last readiness transition.
    """

    pod_flags: I64
    start_ms: I64
    transition_ms: I64


POD_STATE: Final = record_dtype(PodStates)


class Timings(RecordArray):
    """When a sample was taken and over which window; read for cpu of pods that initialise only."""

    ts_ms: I64
    window_ms: I64


TIMING: Final = record_dtype(Timings)


class Requests(RecordArray):
    """A pod's request per stream and pod state; known 0 where a container lacks one, and then
    `milli` is the number of the text that says so.
    """

    known: I64
    milli: I64


REQUEST: Final = record_dtype(Requests)


class Answers(RecordArray):
    """What a metrics API answered, per stream and tick: METRIC_OK, METRIC_FETCH_FAILED or
    METRIC_ANSWER_EMPTY; an Object or External metric's values are first_value:last_value. `text` is
    the number of an error's text (`packing.texts`), here and below.
    """

    code: I64
    first_value: I64
    last_value: I64
    text: I64


ANSWER: Final = record_dtype(Answers)


class Changes(RecordArray):
    """A recorded size change that spends policy budgets."""

    ts_ms: I64
    before: I64
    after: I64


CHANGE: Final = record_dtype(Changes)


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

    lanes: Lanes
    specs: Specs
    policies: Policies
    metrics: Metrics
    streams: Streams
    ticks: Ticks
    row_state: I32
    row_weight: I64
    states: PodStates
    present: I8
    value_milli: I64
    timing: Timings
    requests: Requests
    answers: Answers
    values_milli: I64
    changes: Changes
    metric_words: I64x2 = np.zeros((0, METRIC_WORDS), np.int64)


class Recommendations(RecordArray):
    """One entry of upstream's recommendation list, and at the same index one entry of each of three
    rings of slot numbers (slots not yet replaceable by age, a minimum queue, a maximum queue) and
    of a stack of replaceable ones.
    """

    value: I64
    ms: I64
    ring_age: I64
    ring_min: I64
    ring_max: I64
    old: I64


REC_SLOT: Final = record_dtype(Recommendations)


class ScaleEvents(RecordArray):
    """One entry of a scale event list."""

    change: I64
    ms: I64
    outdated: I64


EVENT_SLOT: Final = record_dtype(ScaleEvents)


class Memory(NamedTuple):
    """What controllers remember between ticks; kernels never allocate.

    `head` (H, HEAD_LENGTH) scalars per lane at the HEAD_* positions: counts, queue ends, the last
    status and its conditions (codes in the status' order, 0 = free), and where the lane's parts of
    the other arrays begin. `recs` upstream's slot list, `events` the scale events, up and down.
    """

    head: I64x2
    recs: Recommendations
    events: ScaleEvents


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


def records(dtype: RecordType[A], rows: Any) -> A:
    """Return a record array of the given rows (tuples, or an (n, fields) table of numbers)."""
    array = np.array([tuple(row) for row in rows], dtype)
    return array.view(np.recarray)  # type: ignore[return-value]


def records_from(dtype: RecordType[A], length: int, **columns: Any) -> A:
    """Return a record array of `length` rows; fields without a column (or scalar) are 0."""
    array = np.zeros(length, dtype)
    for name, column in columns.items():
        array[name] = column
    return array.view(np.recarray)  # type: ignore[return-value]


def canonical(array: Any, dtype: Any = np.int64) -> NDArray[Any]:
    """Return a writable C-ordered array of `dtype`, so that every kernel has one signature.

    Numba compiles a further specialisation for read-only, Fortran-ordered and other-width arrays.
    """
    return np.require(array, dtype=dtype, requirements=["C", "W"])
