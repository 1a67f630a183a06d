"""Observations as columns: HPAs and ticks as small objects become a `Fleet` and its memory.

Replays of a history and the live loop build the same columns themselves (`engine.shards`,
`live.passes`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hpabatch.layout import codes
from hpabatch.layout.records import (
    ANSWER,
    CHANGE,
    I8,
    I32,
    I64,
    POD_STATE,
    REQUEST,
    STREAM,
    TICK,
    TIMING,
    Answers,
    Fleet,
    Memory,
    PodStates,
    Requests,
    Streams,
    Ticks,
    Timings,
    records,
    records_from,
)
from hpabatch.model.objects.hpa import HPASpec
from hpabatch.model.quantity import Quantity
from hpabatch.model.requests import (
    ContainerRequests,
    PodRequest,
    RequestRules,
    pod_request,
    request_rules,
)
from hpabatch.model.versions import ControllerFlags, Profile
from hpabatch.packing.memory import make_sized_memory, slots_needed
from hpabatch.packing.specs import (
    SpecRows,
    StreamKey,
    lane_streams,
    pack_lanes,
    stream_keys,
)
from hpabatch.packing.texts import Texts, pod_flags


@dataclass(frozen=True, slots=True)
class PodResources:
    """Requests of a pod's spec; share one object among equal pods."""

    containers: Sequence[ContainerRequests] = ()
    init_containers: Sequence[ContainerRequests] = ()
    pod_level: Mapping[str, Quantity] | None = None
    overhead: Mapping[str, Quantity] | None = None


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod as the controller's cache shows it; times in ms, None where a field is unset."""

    name: str
    phase: str
    resources: PodResources
    deleting: bool = False
    start_ms: int | None = None
    ready: str | None = None
    transition_ms: int | None = None


@dataclass(frozen=True, slots=True)
class PodSample:
    """A pod's usage in milli with its timestamp and window in ms."""

    value_milli: int
    ts_ms: int = 0
    window_ms: int = 0


@dataclass(frozen=True, slots=True)
class MetricAnswer:
    """The metrics API's response for one metric: samples by pod name, or total values.

    `code` is METRIC_OK, METRIC_FETCH_FAILED (with the API's `error`) or METRIC_ANSWER_EMPTY (a list
    without items).
    """

    code: int = codes.METRIC_OK
    samples: Mapping[str, PodSample] = field(default_factory=dict)
    values_milli: tuple[int, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class TickView:
    """One sync as the controller sees it; `spec` counts the lane's specs, answers its metrics.

    `scale` and `selector` are SCALE_* and SELECTOR_* codes, with what is wrong in words.
    """

    now_ms: int
    spec: int
    replicas: int
    status_replicas: int
    pods: Sequence[PodView] = ()
    answers: Sequence[MetricAnswer] = ()
    scale: int = codes.SCALE_OK
    selector: int = codes.SELECTOR_OK
    restart: bool = False
    recreated: bool = False
    scale_error: str = ""
    selector_error: str = ""


@dataclass(frozen=True, slots=True)
class LaneView:
    """One HPA: its specs in the order of their validity, and its ticks."""

    specs: Sequence[HPASpec]
    ticks: Sequence[TickView]


class _LaneColumns:
    """The columns of one lane, built tick by tick."""

    def __init__(
        self, lane: LaneView, streams: list[StreamKey], rules: RequestRules, texts: Texts
    ) -> None:
        self.streams = streams
        self.rules = rules
        self.texts = texts
        self.rows: list[int] = []
        self.row_counts: list[int] = []
        self.states: dict[tuple[int, int, int, int, str], int] = {}
        self.resources: list[PodResources] = []
        self.pods: list[str] = []
        self.complete: dict[int, bool] = {}
        self.samples: list[list[tuple[int, int, int, int]]] = [[] for _ in streams]
        self.answers: list[list[tuple[int, tuple[int, ...], int]]] = [[] for _ in streams]
        keys = [stream_keys(spec) for spec in lane.specs]
        for tick in lane.ticks:
            self._add_tick(tick, dict(zip(keys[tick.spec], tick.answers, strict=True)))

    def _state(self, pod: PodView) -> int:
        flags = pod_flags(pod.phase, pod.deleting, pod.start_ms is not None, pod.ready)
        # A pod without some request is named in an error, so it is a state of its own.
        name = "" if self._is_complete(pod.resources) else pod.name
        key = (flags, pod.start_ms or 0, pod.transition_ms or 0, id(pod.resources), name)
        if key not in self.states:
            self.states[key] = len(self.states)
            self.resources.append(pod.resources)
            self.pods.append(pod.name)
        return self.states[key]

    def _is_complete(self, resources: PodResources) -> bool:
        if id(resources) not in self.complete:
            self.complete[id(resources)] = all(
                self._request("", resources, key).error is None for key in self.streams
            )
        return self.complete[id(resources)]

    def _add_tick(self, tick: TickView, answer_of: Mapping[StreamKey, MetricAnswer]) -> None:
        nothing = MetricAnswer()
        answers = [answer_of.get(key, nothing) for key in self.streams]
        names = [pod.name for pod in tick.pods]
        known = set(names)
        strays = list(dict.fromkeys(n for a in answers for n in a.samples if n not in known))
        self.rows.extend(self._state(pod) for pod in tick.pods)
        self.rows.extend(-1 for _ in strays)
        self.row_counts.append(len(names) + len(strays))
        for g, answer in enumerate(answers):
            for name in names + strays:
                s = answer.samples.get(name)
                row = (1, s.value_milli, s.ts_ms, s.window_ms) if s else (0, 0, 0, 0)
                self.samples[g].append(row)
            text = self.texts.number(answer.error)
            self.answers[g].append((answer.code, answer.values_milli, text))

    def requests(self) -> list[tuple[int, int]]:
        """Return (known, milli or the error's text) per stream and pod state, stream by stream."""
        result = []
        for key in self.streams:
            for name, resources in zip(self.pods, self.resources, strict=True):
                request = self._request(name, resources, key)
                if request.error is None:
                    result.append((1, request.milli))
                else:
                    result.append((0, self.texts.number(request.error)))
        return result

    def _request(self, pod: str, resources: PodResources, key: StreamKey) -> PodRequest:
        if not key.resource:
            return PodRequest(0)
        return pod_request(
            pod,
            resources.containers,
            resources.init_containers,
            resources.pod_level,
            resources.overhead,
            container=key.container,
            resource=key.resource,
            rules=self.rules,
        )


def pack_fleet(
    lanes: Sequence[LaneView],
    flags: ControllerFlags,
    profile: Profile,
    texts: Texts | None = None,
) -> Fleet:
    """Return the columns of some HPAs and their ticks; error texts go to `texts`.

    Values are taken as given; refuse bad ones before (`model.objects.validate`, `history.checks`).
    """
    texts = texts or Texts()
    spec_rows = SpecRows(flags, profile, words=True)
    spec_of: list[list[int]] = []
    columns: list[_LaneColumns] = []
    stream_count = 0
    for lane in lanes:
        streams = lane_streams(lane.specs)
        spec_of.append([spec_rows.add(spec, stream_count, streams) for spec in lane.specs])
        columns.append(_LaneColumns(lane, streams, request_rules(profile), texts))
        stream_count += len(streams)
    ends = starts([len(c.streams) for c in columns])
    specs, policies, metrics = spec_rows.tables()
    row_state, states, requests = _join_pods(columns)
    present, value_milli, timing = _join_samples(columns)
    answers, values_milli = _join_answers(columns)
    ticks = starts([len(lane.ticks) for lane in lanes])
    lane_table = pack_lanes(len(lanes), flags, profile)
    lane_table.first_tick, lane_table.last_tick = ticks[:-1], ticks[1:]
    lane_table.first_stream, lane_table.last_stream = ends[:-1], ends[1:]
    return Fleet(
        lanes=lane_table,
        specs=specs,
        policies=policies,
        metrics=metrics,
        streams=_join_streams(columns),
        ticks=_join_ticks(lanes, spec_of, columns, texts),
        row_state=row_state,
        row_weight=np.zeros(0, np.int64),
        states=states,
        present=present,
        value_milli=value_milli,
        timing=timing,
        requests=requests,
        answers=answers,
        values_milli=values_milli,
        changes=records(CHANGE, []),
        metric_words=spec_rows.words(),
    )


def starts(counts: Sequence[int]) -> I64:
    """Return first positions (n + 1,) of n consecutive parts of the given sizes."""
    return np.concatenate([[0], np.cumsum(np.array(counts, np.int64))]).astype(np.int64)


def _join_ticks(
    lanes: Sequence[LaneView],
    spec_of: list[list[int]],
    columns: list[_LaneColumns],
    texts: Texts,
) -> Ticks:
    rows = starts([n for c in columns for n in c.row_counts])
    ticks = [(h, tick) for h, lane in enumerate(lanes) for tick in lane.ticks]
    return records(
        TICK,
        [
            (
                tick.now_ms,
                spec_of[h][tick.spec],
                tick.replicas,
                tick.status_replicas,
                tick.scale,
                tick.selector,
                # At no known time: nothing from before the tick is remembered.
                max(tick.now_ms, 1) if tick.restart else 0,
                tick.recreated,
                rows[t],
                rows[t + 1],
                texts.number(tick.scale_error),
                texts.number(tick.selector_error),
                -1,
            )
            for t, (h, tick) in enumerate(ticks)
        ],
    )


def _join_pods(columns: list[_LaneColumns]) -> tuple[I32, PodStates, Requests]:
    rows: list[I64] = [np.zeros(0, np.int64)]
    first_state = 0
    for c in columns:
        row_state = np.array(c.rows, np.int64)
        rows.append(np.where(row_state < 0, -1, row_state + first_state))
        first_state += len(c.states)
    states = records(POD_STATE, [key[:3] for c in columns for key in c.states])
    return (
        np.concatenate(rows).astype(np.int32),
        states,
        records(REQUEST, [r for c in columns for r in c.requests()]),
    )


def _join_samples(columns: list[_LaneColumns]) -> tuple[I8, I64, Timings]:
    rows = [row for c in columns for block in c.samples for row in block]
    table = np.array(rows, np.int64).reshape(-1, 4)
    timing = records_from(TIMING, len(rows), ts_ms=table[:, 2], window_ms=table[:, 3])
    return table[:, 0].astype(np.int8), table[:, 1].copy(), timing


def _join_answers(columns: list[_LaneColumns]) -> tuple[Answers, I64]:
    answers = [answer for c in columns for block in c.answers for answer in block]
    first = starts([len(values) for _, values, _ in answers])
    table = records_from(
        ANSWER,
        len(answers),
        code=[code for code, _, _ in answers],
        first_value=first[:-1],
        last_value=first[1:],
        text=[text for _, _, text in answers],
    )
    return table, np.array([v for _, values, _ in answers for v in values], np.int64)


def _join_streams(columns: list[_LaneColumns]) -> Streams:
    """Return the offsets that lead from rows, states and ticks to a stream's own blocks."""
    offsets = []
    sample = request = answer = row = state = tick = 0
    for c in columns:
        for _ in c.streams:
            offsets.append((sample - row, request - state, answer - tick))
            sample += len(c.rows)
            request += len(c.states)
            answer += len(c.row_counts)
        row += len(c.rows)
        state += len(c.states)
        tick += len(c.row_counts)
    return records(STREAM, offsets)


# ---- memory --------------------------------------------------------------------------------------


def lane_capacities(fleet: Fleet, recorded: bool) -> tuple[I64, I64]:
    """Return (recommendation slots, event slots per direction) of each lane, shape (H,)."""
    specs, lanes = fleet.specs, fleet.lanes
    windows = np.maximum(specs.up_window_ms, specs.down_window_ms)
    periods = np.zeros(specs.size, np.int64)
    for s in range(specs.size):
        part = fleet.policies.period_ms[specs.first_up[s] : specs.last_down[s]]
        periods[s] = part.max(initial=0)
    recommendations, events = np.empty(lanes.size, np.int64), np.empty(lanes.size, np.int64)
    for h in range(lanes.size):
        ticks = fleet.ticks[lanes.first_tick[h] : lanes.last_tick[h]]
        now_ms, used = np.ascontiguousarray(ticks.now_ms), np.unique(ticks.spec)
        legacy = int(lanes.downscale_stabilization_ms[h])
        recommendations[h] = slots_needed(now_ms, int(windows[used].max(initial=legacy)))
        events[h] = slots_needed(now_ms, int(periods[used].max(initial=0)))
        if recorded:
            events[h] = lanes.last_change[h] - lanes.first_change[h] + 1
    return recommendations, events


def make_memory(fleet: Fleet, recorded: bool, spare: int = 0) -> Memory:
    """Return the memory of controllers that have just started, for all lanes of a fleet.

    `recorded`: scale events come from `fleet.changes` instead of the decisions. `spare`: room per
    lane for so many recommendations that are there before the first tick.
    """
    recommendations, events = lane_capacities(fleet, recorded)
    return make_sized_memory(recommendations + spare, events, spare)
