"""Plain alignment: what the controller saw at each tick, from recorded samples.

Right rather than fast: one pass per pod over the ticks of its life, with sorted look-ups. A sample
is visible from its fetch time (or `ts + delay`) until a newer one is visible or `max_age` after it
was taken; then the pod is missing. A pod is in the controller's cache from its creation until it is
gone. A size change at exactly a tick's instant is that tick's own outcome and seen at the next.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from hpabatch.engine.fleet.candidates import Candidate
from hpabatch.layout import codes
from hpabatch.layout.records import (
    ANSWER,
    CHANGE,
    I8,
    I64,
    POD_STATE,
    REQUEST,
    STREAM,
    TICK,
    TIMING,
    Fleet,
    Records,
    records,
    records_from,
)
from hpabatch.model.objects.hpa import LabelSelector, MetricSpec
from hpabatch.model.requests import request_rules
from hpabatch.model.selectors import parse_selector, selector_from_object
from hpabatch.model.versions import ControllerFlags, Profile
from hpabatch.packing.specs import SpecRows, StreamKey, lane_streams, pack_lanes, stream_keys
from tests.engine.plain.pod_rows import PodRows, visible_samples
from tests.engine.plain.recording import LACKING, Recording, SampleColumns, ScaleColumns
from tests.engine.plain.requests import RequestLookup

Answer = tuple[int, int, str]
"""An answer of a metrics API: its time in ms, the metric's place in the spec, and what it was."""

ANSWER_CODES = {"error": codes.METRIC_FETCH_FAILED, "empty": codes.METRIC_ANSWER_EMPTY}


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of an HPA besides its spec, its target and its pods; times in ms, ascending.

    The clock's instants, its controller's starts, the metrics APIs' answers, and the instants at
    which its selector is ambiguous.
    """

    ticks_ms: I64
    starts_ms: I64
    answers: Sequence[Answer] = ()
    ambiguous_ms: Collection[int] = ()


@dataclass(slots=True)
class Lane:
    """One HPA's observations, tick after tick; arrays as in `layout.records`, numbered from 0."""

    candidate: Candidate
    streams: list[StreamKey]
    ticks: Records
    row_state: I64
    states: Records
    requests: list[Records]
    samples: list[tuple[I8, I64, Records]]
    answers: list[tuple[Records, I64]]
    changes: Records


class Aligner:
    """Builds lanes from a recording; `max_age_ms` is the age at which a sample is forgotten."""

    def __init__(self, recording: Recording, max_age_ms: int, profile: Profile) -> None:
        """Keep the parameters; nothing is computed yet."""
        self.recording = recording
        self.max_age_ms = max_age_ms
        self.profile = profile
        self.requests = RequestLookup(recording, request_rules(profile))

    def lane(self, candidate: Candidate, facts: Facts) -> Lane | None:
        """Return an HPA's lane, None if its target's scale was never recorded."""
        scale = self.recording.scales.get(candidate.target)
        if scale is None:
            return None
        spec_of = spec_of_ticks(candidate, facts.ticks_ms)
        kept = np.flatnonzero(spec_of >= 0)
        now_ms, spec_of = facts.ticks_ms[kept], spec_of[kept]
        members = self._members(candidate, scale)
        seen = scale_seen(scale, now_ms)
        rows = PodRows(self.recording, self.requests, self.max_age_ms, members, seen, scale, now_ms)
        streams = lane_streams([period.spec for period in candidate.periods])
        lane = Lane(
            candidate=candidate,
            streams=streams,
            ticks=_ticks(scale, seen, now_ms, spec_of, rows),
            row_state=rows.row_state,
            states=rows.states,
            requests=[rows.requests(key) for key in streams],
            samples=[],
            answers=[],
            changes=scale_changes(scale, now_ms),
        )
        lane.ticks.restart = restarts(now_ms, kept, facts.starts_ms)
        uids = [candidate.periods[k].uid for k in spec_of]
        lane.ticks.recreated = [k > 0 and uids[k - 1] != uid for k, uid in enumerate(uids)]
        ambiguous = np.isin(now_ms, list(facts.ambiguous_ms))
        ambiguous &= lane.ticks.selector == codes.SELECTOR_OK
        lane.ticks.selector[ambiguous] = codes.SELECTOR_AMBIGUOUS
        metrics = _metric_of_stream(candidate, streams)
        for key, metric in zip(streams, metrics, strict=True):
            self._observe(lane, key, metric, rows, now_ms)
        _apply_answers(lane, spec_of, facts.answers)
        return lane

    def _members(self, candidate: Candidate, scale: ScaleColumns) -> list[I64]:
        """Return the pods that each of the scale's selectors matches."""
        place, target = candidate.target[:2], candidate.target[3]
        return [self.recording.pods_of(place, target, text) for text in scale.selectors]

    def _observe(
        self, lane: Lane, key: StreamKey, metric: MetricSpec, rows: PodRows, now_ms: I64
    ) -> None:
        """Add one stream's samples and answers to a lane."""
        place = lane.candidate.target[:2]
        none = np.zeros(0, np.int64)
        if metric.type in ("Object", "External"):
            series = self._series(place, metric)
            answers, values = self._totals(series, now_ms)
            lane.samples.append(rows.no_samples())
            lane.answers.append((answers, values))
            return
        samples = self._pod_source(key, metric)
        present, value, timing, listed = rows.samples(samples)
        empty = np.bincount(rows.tick, weights=listed != 0, minlength=now_ms.size) == 0
        code = np.where(empty, codes.METRIC_ANSWER_EMPTY, codes.METRIC_OK)
        lacking = np.bincount(rows.tick, weights=listed == LACKING, minlength=now_ms.size) > 0
        if not self.profile.container_may_lack:
            code = np.where(lacking, codes.METRIC_CONTAINER_LACKS, code)
        lane.samples.append((present, value, timing))
        lane.answers.append((records_from(ANSWER, now_ms.size, code=code), none))

    def _pod_source(self, key: StreamKey, metric: MetricSpec) -> SampleColumns:
        if metric.pods is not None and metric.type == "Pods":
            identifier = metric.pods.metric
            return self.recording.custom_samples(identifier.name, _print(identifier.selector))
        return self.recording.pod_samples(key.resource, key.container)

    def _series(self, place: tuple[str, str], metric: MetricSpec) -> SampleColumns | None:
        if metric.object is not None and metric.type == "Object":
            described, identifier = metric.object.described_object, metric.object.metric
            # A Namespace metric is that of the HPA's own namespace, whatever name is given.
            is_namespace = described.kind == "Namespace" and "/" not in described.api_version
            name = place[1] if is_namespace else described.name
            return self.recording.object_samples(
                place, described.kind, name, identifier.name, _print(identifier.selector)
            )
        if metric.external is not None and metric.type == "External":
            identifier = metric.external.metric
            selector = _print(identifier.selector)
            return self.recording.external_samples(place, identifier.name, selector)
        return None

    def _totals(self, series: SampleColumns | None, now_ms: I64) -> tuple[Records, I64]:
        """Return the answers of an Object or External metric and their values, by tick."""
        count = 0 if series is None else series.first.size - 1
        index = np.full((now_ms.size, max(count, 1)), -1, np.int64)
        if series is not None:
            for k in range(count):
                index[:, k] = visible_samples(series, k, now_ms, self.max_age_ms)
        shown = index >= 0
        last = np.cumsum(shown.sum(axis=1))
        values = series.value_milli[index[shown]] if series is not None and shown.any() else None
        answers = records_from(
            ANSWER,
            now_ms.size,
            code=np.where(shown.any(axis=1), codes.METRIC_OK, codes.METRIC_ANSWER_EMPTY),
            first_value=last - shown.sum(axis=1),
            last_value=last,
        )
        return answers, np.zeros(0, np.int64) if values is None else values


def _apply_answers(lane: Lane, spec_of: I64, answers: Sequence[Answer]) -> None:
    """Put the metrics APIs' answers over the samples: at each tick the newest of each metric."""
    for t, now_ms in enumerate(lane.ticks.now_ms.tolist()):
        keys = stream_keys(lane.candidate.periods[int(spec_of[t])].spec)
        for m, key in enumerate(keys):
            given = [
                (ms, word)
                for ms, metric, word in answers
                if ms <= now_ms and _place(lane.candidate, ms, metric) == m
            ]
            if given and max(given)[1] != "ok":
                code = ANSWER_CODES[max(given)[1]]
                lane.answers[lane.streams.index(key)][0].code[t] = code


def _place(candidate: Candidate, ms: int, metric: int) -> int:
    """Return where a metric of the spec that was recorded stands in the one that is stored."""
    for period in candidate.periods:
        if period.from_ms <= ms < period.to_ms and period.order:
            return period.order.index(metric) if metric in period.order else -1
    return metric


def spec_of_ticks(candidate: Candidate, ticks_ms: I64) -> I64:
    """Return the position of the spec in force at each tick, -1 where there is none."""
    spec_of = np.full(ticks_ms.size, -1, np.int64)
    for k, period in enumerate(candidate.periods):
        inside = (ticks_ms >= period.from_ms) & (ticks_ms < period.to_ms)
        spec_of[inside] = k
    return spec_of


def restarts(now_ms: I64, kept: I64, starts_ms: I64) -> I64:
    """Return when (ms) the controller lost its memory before a tick, else 0; shape of now_ms.

    That is the first tick after a recorded start, and after a sync that found the HPA gone: then
    its recommendations and events are dropped; of both it is the later. `kept` are the ticks'
    places on the clock.
    """
    restart = np.zeros(now_ms.size, np.int64)
    at = np.searchsorted(now_ms, starts_ms)
    again = np.flatnonzero(np.diff(kept) > 1) + 1
    restart[again] = now_ms[again]
    inside = at < now_ms.size
    np.maximum.at(restart, at[inside], np.maximum(starts_ms[inside], 1))
    return restart


def _ticks(scale: ScaleColumns, seen: I64, now_ms: I64, spec_of: I64, rows: PodRows) -> Records:
    """Return a lane's TICK records but for the restarts."""
    known = np.maximum(seen, 0)
    wrong = np.array([_selector_code(text) for text in scale.selectors], np.int64)
    failures = np.array([_scale_code(text) for text in scale.error], np.int64)
    row_start = np.concatenate([[0], np.cumsum(rows.per_tick)])
    return records_from(
        TICK,
        now_ms.size,
        now_ms=now_ms,
        spec=spec_of,
        replicas=scale.replicas[known],
        status_replicas=scale.status_replicas[known],
        scale=np.where(seen < 0, codes.SCALE_UNKNOWN, failures[known]),
        selector=wrong[scale.selector[known]],
        first_row=row_start[:-1],
        last_row=row_start[1:],
    )


def _print(selector: LabelSelector | None) -> str:
    """Return a metric selector in the history's form; one that does not convert matches nothing."""
    try:
        return str(selector_from_object(selector))
    except ValueError:
        return "!"


def _scale_code(error: str) -> int:
    """Return SCALE_* of what the API server said, "" for a scale that was read."""
    if error.startswith("unexpected GroupVersion"):
        return codes.SCALE_BAD_VERSION
    if error.startswith("no matches for"):
        return codes.SCALE_NO_RESOURCE
    return codes.SCALE_GET_FAILED if error else codes.SCALE_OK


def _selector_code(text: str | None) -> int:
    """Return SELECTOR_* of a scale's selector; null means that only the owner is known."""
    if text is None:
        return codes.SELECTOR_OK
    if text == "":
        return codes.SELECTOR_MISSING
    try:
        parse_selector(text)
    except ValueError:
        return codes.SELECTOR_INVALID
    return codes.SELECTOR_OK


def _metric_of_stream(candidate: Candidate, streams: Sequence[StreamKey]) -> list[MetricSpec]:
    found: dict[StreamKey, MetricSpec] = {}
    for period in candidate.periods:
        for metric, key in zip(period.spec.metrics, stream_keys(period.spec), strict=True):
            found.setdefault(key, metric)
    return [found[key] for key in streams]


def scale_seen(scale: ScaleColumns, now_ms: I64) -> I64:
    """Return the row of the scale that each tick reads, -1 before the first; shape of `now_ms`."""
    seen = np.searchsorted(scale.ts_ms, now_ms, side="left") - 1
    return np.where((seen < 0) & (now_ms == scale.ts_ms[0]), 0, seen)


def scale_changes(scale: ScaleColumns, now_ms: I64) -> Records:
    """Return the recorded size changes as CHANGE records, none from before the first tick.

    The controller has just started then and knows of no change.
    """
    changed = np.flatnonzero(np.diff(scale.replicas)) + 1
    known = [k for k, text in enumerate(scale.error) if not text]
    changed = changed[changed > min(known, default=changed.max(initial=0))]
    changed = changed[scale.ts_ms[changed] >= (now_ms[0] if now_ms.size else 0)]
    return records_from(
        CHANGE,
        changed.size,
        ts_ms=scale.ts_ms[changed],
        before=scale.replicas[changed - 1],
        after=scale.replicas[changed],
    )


def join_lanes(lanes: Sequence[Lane], flags: ControllerFlags, profile: Profile) -> Fleet:
    """Return the lanes as one fleet: positions shifted, blocks laid one after another."""
    spec_rows = SpecRows(flags, profile)
    offsets, streams = _Offsets(), []
    lane_table = pack_lanes(len(lanes), flags, profile)
    for h, lane in enumerate(lanes):
        first_stream = offsets.stream
        rows = [spec_rows.add(p.spec, first_stream, lane.streams) for p in lane.candidate.periods]
        lane.ticks.spec += rows[0]
        streams += offsets.add(lane)
        lane_table.first_tick[h], lane_table.last_tick[h] = offsets.last_tick, offsets.tick
        lane_table.first_stream[h], lane_table.last_stream[h] = first_stream, offsets.stream
        lane_table.first_change[h], lane_table.last_change[h] = offsets.last_change, offsets.change
    specs, policies, metrics = spec_rows.tables()
    blocks = [block for lane in lanes for block in lane.samples]
    return Fleet(
        lanes=lane_table,
        specs=specs,
        policies=policies,
        metrics=metrics,
        streams=records(STREAM, streams),
        ticks=_stack(TICK, [lane.ticks for lane in lanes]),
        row_weight=np.zeros(0, np.int64),
        row_state=np.concatenate(
            [np.zeros(0, np.int64), *(lane.row_state for lane in lanes)]
        ).astype(np.int32),
        states=_stack(POD_STATE, [lane.states for lane in lanes]),
        present=np.concatenate([np.zeros(0, np.int8), *(block[0] for block in blocks)]),
        value_milli=np.concatenate([np.zeros(0, np.int64), *(block[1] for block in blocks)]),
        timing=_stack(TIMING, [block[2] for block in blocks]),
        requests=_stack(REQUEST, [part for lane in lanes for part in lane.requests]),
        answers=_stack(ANSWER, [part[0] for lane in lanes for part in lane.answers]),
        values_milli=np.concatenate(
            [np.zeros(0, np.int64), *(part[1] for lane in lanes for part in lane.answers)]
        ),
        changes=_stack(CHANGE, [lane.changes for lane in lanes]),
    )


def _stack(dtype: np.dtype[np.void], parts: Sequence[Records]) -> Records:
    return np.concatenate([np.zeros(0, dtype), *parts]).astype(dtype, copy=False).view(np.recarray)


class _Offsets:
    """Where the next lane's parts begin; `add` shifts a lane's own positions in place."""

    def __init__(self) -> None:
        self.tick = self.row = self.state = self.sample = self.request = 0
        self.answer = self.value = self.change = self.stream = 0
        self.last_tick = self.last_change = 0

    def add(self, lane: Lane) -> list[tuple[int, int, int]]:
        """Shift the lane behind those before it; return its STREAM rows."""
        streams = []
        for answers, values in lane.answers:
            streams.append(
                (self.sample - self.row, self.request - self.state, self.answer - self.tick)
            )
            answers.first_value += self.value
            answers.last_value += self.value
            self.sample += lane.row_state.size
            self.request += lane.states.size
            self.answer += lane.ticks.size
            self.value += values.size
        lane.ticks.first_row += self.row
        lane.ticks.last_row += self.row
        lane.row_state += self.state
        self.last_tick, self.tick = self.tick, self.tick + lane.ticks.size
        self.last_change, self.change = self.change, self.change + lane.changes.size
        self.row += lane.row_state.size
        self.state += lane.states.size
        self.stream += len(lane.streams)
        return streams
