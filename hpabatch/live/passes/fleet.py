"""Columns of a pass as kernels read them: two ticks per lane, the last pass's and this one's.

Every pass builds them anew from the HPAs and pods: 1,000 HPAs of 10 pods take about 0.25 s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hpabatch.cluster.objects.types import ExternalMetricKey, ObjectMetricKey, PodMetricKey
from hpabatch.cluster.objects.wanted import metric_key
from hpabatch.layout.records import (
    ANSWER,
    CHANGE,
    I32,
    I64,
    METRIC_WORDS,
    REQUEST,
    STREAM,
    TICK,
    TIMING,
    Fleet,
    Records,
    records,
    records_from,
)
from hpabatch.layout.results import Results, empty_results
from hpabatch.live.passes.lanes import Lane
from hpabatch.live.passes.pods import PodColumns
from hpabatch.live.passes.result import MetricColumns
from hpabatch.model.objects.hpa import HPASpec, MetricSpec
from hpabatch.model.requests import request_rules
from hpabatch.model.versions import ControllerFlags, Profile
from hpabatch.packing.specs import SpecRows, StreamKey, lane_streams, pack_lanes, stream_keys
from hpabatch.packing.texts import Texts

TICKS = 2  # per lane: the last pass's, of which only the spec matters, and this one's


class Usage(NamedTuple):
    """Usage of a resource, of one container or ("") of all of a pod."""

    resource: str
    container: str = ""


Source = Usage | PodMetricKey | ObjectMetricKey | ExternalMetricKey | None
"""Source of a metric's samples; None: nothing is requested."""


@dataclass(frozen=True, slots=True)
class Stream:
    """One metric of a lane: its source and spec."""

    lane: int
    key: StreamKey
    metric: MetricSpec
    source: Source

    @property
    def of_pods(self) -> bool:
        """Whether it has a sample for each pod."""
        return isinstance(self.source, Usage | PodMetricKey)


class Structure:
    """The columns that depend on the HPAs and their specs alone.

    Attributes:
        lanes: in the order of all columns.
        specs: by row of the spec table.
        streams: by number.
        spec_now: (H,) the row of each lane's spec, and `spec_before` of the last pass's.
        texts: error messages of the pass by number.
    """

    def __init__(self, lanes: Sequence[Lane], flags: ControllerFlags, profile: Profile) -> None:
        """Pack the lanes' specs."""
        self.lanes = lanes
        self.texts = Texts()
        self.streams: list[Stream] = []
        self.specs: list[HPASpec] = []
        rows = SpecRows(flags, profile, words=True)
        first_stream, now, before = [0], [], []
        for h, lane in enumerate(lanes):
            specs = [lane.spec] if lane.before is None else [lane.before, lane.spec]
            keys = lane_streams(specs)
            numbers = [rows.add(spec, first_stream[-1], keys) for spec in specs]
            before.append(numbers[0])
            now.append(numbers[-1])
            self.specs += specs
            self.streams += _streams(h, lane.key[0], specs, keys)
            first_stream.append(len(self.streams))
        self.spec_now, self.spec_before = np.array(now, np.int64), np.array(before, np.int64)
        self.tables = rows.tables()
        self.words: I64 = rows.words() if self.streams else np.zeros((0, METRIC_WORDS), np.int64)
        count = len(lanes)
        self.lane_table = pack_lanes(count, flags, profile)
        ticks = TICKS * np.arange(count)
        self.lane_table.first_tick, self.lane_table.last_tick = ticks, ticks + TICKS
        self.lane_table.first_stream = np.array(first_stream[:-1], np.int64)
        self.lane_table.last_stream = np.array(first_stream[1:], np.int64)
        self.lane_of_stream = np.array([s.lane for s in self.streams], np.int64)
        self.ticks = records_from(TICK, TICKS * count)
        self.answers = records_from(ANSWER, TICKS * len(self.streams))
        self.results: Results = empty_results(self.ticks.size, self.answers.size, details=True)
        # Responses of stream g are rows 2 g (last pass) and 2 g + 1 (this one).
        self.answer_offset = TICKS * (np.arange(len(self.streams)) - self.lane_of_stream)

    def answer_rows(self) -> I64:
        """Return the rows of this pass's responses, by stream."""
        return TICKS * np.arange(len(self.streams), dtype=np.int64) + TICKS - 1

    def tick_rows(self) -> I64:
        """Return the rows of this pass's ticks, by lane."""
        return TICKS * np.arange(len(self.lanes), dtype=np.int64) + TICKS - 1


def _streams(
    h: int, namespace: str, specs: Sequence[HPASpec], keys: Sequence[StreamKey]
) -> list[Stream]:
    metric_of: dict[StreamKey, MetricSpec] = {}
    for spec in reversed(specs):  # the newest spec defines a metric
        for metric, key in zip(spec.metrics, stream_keys(spec), strict=True):
            metric_of.setdefault(key, metric)
    return [Stream(h, key, metric_of[key], source_of(namespace, metric_of[key])) for key in keys]


def source_of(namespace: str, metric: MetricSpec) -> Source:
    """Return the source of a metric of an HPA in a namespace."""
    member = metric.resource or metric.container_resource
    if metric.type == "Resource" and metric.resource:
        return Usage(metric.resource.name)
    if metric.type == "ContainerResource" and member is not None:
        own = metric.container_resource
        return Usage(member.name, own.container if own else "")
    try:
        return metric_key(namespace, metric)
    except ValueError:
        return None  # its selector does not convert


class Layout:
    """The columns that depend on the pods of each lane.

    Attributes:
        pods: all pods.
        members: by lane the slots of its pods, in the order of their names.
        row_state: (R,) the slot of each row; lane h has the rows first_row[h]:first_row[h + 1].
        streams: STREAM (G,); those of pods have a sample for each pod of their lane.
    """

    def __init__(self, structure: Structure, pods: PodColumns, profile: Profile) -> None:
        """Lay out the pods of all lanes; errors of their requests go to the structure's texts."""
        streams = structure.streams
        self.pods = pods
        self.members = [pods.matching(lane.key[0], lane.selects) for lane in structure.lanes]
        counts = np.array([part.size for part in self.members], np.int64)
        self.first_row = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.row_state: I32 = _joined(self.members).astype(np.int32)
        sizes = [self.members[s.lane].size if s.of_pods else 0 for s in streams]
        first_sample = np.cumsum([0, *sizes], dtype=np.int64)[:-1]
        keys = [_request_key(stream) for stream in streams]
        blocks = {key: k * len(pods.pods) for k, key in enumerate(dict.fromkeys(keys))}
        rules = request_rules(profile)
        self.requests = records(
            REQUEST,
            [row for key in blocks for row in pods.requests(*key, rules, structure.texts)],
        )
        self.streams = records_from(
            STREAM,
            len(streams),
            sample_offset=first_sample - self.first_row[structure.lane_of_stream],
            request_offset=[blocks[key] for key in keys],
            answer_offset=structure.answer_offset,
        )


def _request_key(stream: Stream) -> tuple[str, str]:
    """Return resource and container of the requests that a stream uses."""
    resource = stream.key.resource if stream.of_pods else ""
    return resource, stream.key.container if resource else ""


def _joined(parts: Sequence[I64]) -> I64:
    return np.concatenate([np.zeros(0, np.int64), *parts])


def join_fleet(
    structure: Structure,
    layout: Layout,
    samples: Sequence[tuple[int, int, int, int]],
    values_milli: I64,
    changes: Records,
) -> Fleet:
    """Return the columns for the kernels; `samples`: (present, value, ts, window), by stream."""
    present, value_milli, ts_ms, window_ms = np.array(samples, np.int64).reshape(-1, 4).T
    specs, policies, metrics = structure.tables
    return Fleet(
        lanes=structure.lane_table,
        specs=specs,
        policies=policies,
        metrics=metrics,
        streams=layout.streams,
        ticks=structure.ticks,
        row_state=layout.row_state,
        row_weight=np.zeros(0, np.int64),
        states=layout.pods.states,
        present=present.astype(np.int8),
        value_milli=value_milli.copy(),
        timing=records_from(TIMING, len(samples), ts_ms=ts_ms, window_ms=window_ms),
        requests=layout.requests,
        answers=structure.answers,
        values_milli=values_milli,
        changes=changes,
        metric_words=structure.words,
    )


def size_changes(lanes: Sequence[Lane], table: Records) -> Records:
    """Return the CHANGE records of all lanes since the last pass; set their ranges in `table`.

    `table`: the LANE records.
    """
    rows: list[tuple[int, int, int]] = []
    first, last = np.zeros(len(lanes), np.int64), np.zeros(len(lanes), np.int64)
    for h, lane in enumerate(lanes):
        # (a controller that sees an HPA for the first time knows of no change before)
        if lane.changes and not lane.fresh:
            first[h] = len(rows)
            rows += lane.changes
            last[h] = len(rows)
    table.first_change, table.last_change = first, last
    return records(CHANGE, rows)


def metric_columns(structure: Structure) -> MetricColumns:
    """Return the results of the metrics of every lane, in the order of the spec."""
    specs, _, metrics = structure.tables
    first = np.asarray(specs.first_metric[structure.spec_now], np.int64)
    counts = np.asarray(specs.last_metric[structure.spec_now], np.int64) - first
    start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    rows = np.repeat(first - start[:-1], counts) + np.arange(start[-1])
    stream = np.asarray(metrics.stream[rows], np.int64)
    said = structure.results.metrics[structure.answer_rows()[stream]]
    return MetricColumns(
        start=start,
        source=np.asarray(metrics.source[rows], np.int8),
        code=np.array(said["code"], np.int8),
        proposal=np.array(said["proposal"], np.int64),
    )
