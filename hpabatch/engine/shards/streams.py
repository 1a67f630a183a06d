"""The streams of a shard's lanes: their tracks, and room for rows, samples and answers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hpabatch.engine.fleet.candidates import Candidate
from hpabatch.engine.fleet.sources import TrackList
from hpabatch.engine.shards.read import ShardInput
from hpabatch.engine.shards.shard import Growing, joined_records
from hpabatch.layout.observations import STREAM_SOURCE
from hpabatch.layout.records import (
    ANSWER,
    REQUEST,
    STREAM,
    Requests,
    records,
)
from hpabatch.model.messages import lacking_container
from hpabatch.model.objects.hpa import LabelSelector, MetricSpec
from hpabatch.model.requests import request_rules
from hpabatch.model.selectors import selector_from_object
from hpabatch.packing.specs import StreamKey, stream_keys
from hpabatch.packing.texts import Texts


class ShardStreams:
    """Collects the streams of a shard, lane by lane.

    Attributes:
        of_lanes: each lane's streams, with the metric that each is of.
        tracks: where their samples come from.
    """

    def __init__(self, given: ShardInput, rows_per_block: int) -> None:
        """Take what all lanes share; `rows_per_block` 0 makes room for all of a lane's rows."""
        self.given = given
        self.rows_per_block = rows_per_block
        self.of_lanes: list[list[tuple[StreamKey, MetricSpec]]] = []
        self.tracks = TrackList()
        self.stream, self.source = Growing(STREAM), Growing(STREAM_SOURCE)
        self.rows, self.samples = Growing(np.int32), Growing(np.int64)
        self.answers, self.values = Growing(ANSWER), Growing(np.int64)
        self._blocks: dict[tuple[str, str], int] = {}
        self._requests: list[Requests] = []

    @property
    def count(self) -> int:
        """Number of streams."""
        return self.stream.size

    def requests(self) -> Requests:
        """Return REQUEST records: the blocks that the streams name."""
        return joined_records(REQUEST, self._requests)

    def add(
        self,
        candidate: Candidate,
        keys: Sequence[StreamKey],
        pods: list[int],
        series: Sequence[tuple[str, ...]],
        lane: dict[str, int],
        source: dict[str, int],
        last_tick: int,
    ) -> None:
        """Add a lane's streams with their tracks, and room for their rows, samples and answers.

        `pods` are numbers in the shard, `series` the external metrics' series; where all begins and
        ends is written to `lane` and `source`.
        """
        ticks = last_tick - lane["first_tick"]
        capacity = max(self.rows_per_block or ticks * max(len(pods), 1), len(pods))
        source["first_row"], _ = self.rows.reserve(capacity)
        source["row_capacity"] = capacity
        source["first_sample"] = self.samples.size
        source["first_value"] = self.values.size
        source["first_track"] = len(self.tracks)
        lane["first_stream"] = self.count
        metrics = _metric_of_stream(candidate, keys)
        for key, metric in zip(keys, metrics, strict=True):
            first_track = len(self.tracks)
            is_total = metric.type in ("Object", "External")
            _add_tracks(self.tracks, candidate, key, metric, pods, series)
            self._add_track_texts(candidate.namespace, key.container, pods, first_track)
            self.source.add(records(STREAM_SOURCE, [(is_total, first_track, len(self.tracks))]))
            sample, _ = self.samples.reserve(capacity)
            answer, _ = self.answers.reserve(ticks)
            if is_total:
                self.values.reserve(ticks * (len(self.tracks) - first_track))
            block = self._request_block("" if is_total else key.resource, key.container)
            offsets = (sample - source["first_row"], block, answer - lane["first_tick"])
            self.stream.add(records(STREAM, [offsets]))
        lane["last_stream"] = self.count
        source["last_track"] = len(self.tracks)
        self.of_lanes.append(list(zip(keys, metrics, strict=True)))

    def _add_track_texts(
        self, namespace: str, container: str, pods: Sequence[int], first_track: int
    ) -> None:
        """Word what old versions say of a sample that lacks a metric's container."""
        if self.given.profile.container_may_lack or not container:
            return
        for j, p in enumerate(pods):
            text = lacking_container(container, namespace, str(self.given.pods.names[p]))
            self.tracks.texts[first_track + j] = self.given.texts.number(text)

    def _request_block(self, resource: str, container: str) -> int:
        """Return where the requests of all states for a resource begin; equal ones are shared."""
        key = (resource, container if resource else "")
        if key not in self._blocks:
            rules = request_rules(self.given.profile)
            self._blocks[key] = sum(block.size for block in self._requests)
            self._requests.append(self.given.pods.requests(*key, rules, self._request_texts()))
        return self._blocks[key]

    def _request_texts(self) -> Texts | None:
        return self.given.texts if self.given.whole else None


def _add_tracks(
    tracks: TrackList,
    candidate: Candidate,
    key: StreamKey,
    metric: MetricSpec,
    pods: Sequence[int],
    series: Sequence[tuple[str, ...]],
) -> None:
    """Add the tracks of one stream: one a pod, or one a series of an Object or External metric.

    `series` are the known (namespace, metric, selector, series) of external metrics, sorted.
    """
    namespace = candidate.namespace
    if metric.type == "Pods" and metric.pods is not None:
        name, selector = metric.pods.metric.name, _print_selector(metric.pods.metric.selector)
        for p in pods:
            tracks.add_plain(("pod_custom_metrics", name, selector, str(p)))
    elif metric.type == "Object" and metric.object is not None:
        described, identifier = metric.object.described_object, metric.object.metric
        # A Namespace metric is that of the HPA's own namespace, whatever name is given.
        is_namespace = described.kind == "Namespace" and "/" not in described.api_version
        name = namespace if is_namespace else described.name
        selector = _print_selector(identifier.selector)
        described_object = (namespace, described.kind, name)
        tracks.add_plain(("object_metrics", *described_object, identifier.name, selector))
    elif metric.type == "External" and metric.external is not None:
        identifier = metric.external.metric
        wanted = (namespace, identifier.name, _print_selector(identifier.selector))
        for owner in series:
            if owner[:3] == wanted:
                tracks.add_plain(("external_metrics", *owner))
    elif metric.type not in ("Object", "External"):
        tracks.add_usage(list(pods), key.resource, key.container)


def _print_selector(selector: LabelSelector | None) -> str:
    """Return a metric selector in the history's form; one that does not convert matches nothing."""
    try:
        return str(selector_from_object(selector))
    except ValueError:
        return "!"


def _metric_of_stream(candidate: Candidate, streams: Sequence[StreamKey]) -> list[MetricSpec]:
    """Return the metric that each stream is of: the first spec's that has it."""
    found: dict[StreamKey, MetricSpec] = {}
    for period in candidate.periods:
        for metric, key in zip(period.spec.metrics, stream_keys(period.spec), strict=True):
            found.setdefault(key, metric)
    return [found[key] for key in streams]
