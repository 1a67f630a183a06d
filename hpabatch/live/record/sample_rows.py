"""Samples of the metrics APIs as rows: each once, and one more where a pod is no longer listed.

A metrics API gives the same sample until it has a newer one. A row's `ts` is the sample's own,
unless a row of the same pod or series has that or a later one: then it is 1 ms later than that
row's. So the order of `ts` is the order in which samples were seen, and no row replaces another.
The window of such a sample of usage is longer by as much: it begins when it did.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from hpabatch.cluster.objects.types import (
    ExternalMetricKey,
    ObjectMetricKey,
    PodMetricKey,
    PodSample,
    Response,
    Responses,
    SeriesSample,
    UsageSample,
)
from hpabatch.history.checks import YEAR_2000_MS
from hpabatch.history.columns import CPU_MILLI_MAX, MEMORY_BYTES_MAX
from hpabatch.live.record.lives import Life, Stream
from hpabatch.live.record.segments import NULL, Segment

AHEAD_MS: Final = 300_000
"""A timestamp further in the future is written as this much ahead, to keep the order."""

FORGET_MS: Final = 3_600_000
"""Streams that were not requested for this long are withdrawn and forgotten."""

_FORGET_EVERY = 100
_INT64_MAX = 2**63 - 1

Window = tuple[int, int]
"""The time from after the last pass to this one, ms, in which its responses were fetched."""

Lives = Mapping[tuple[str, str], Life]
"""Pods by namespace and name."""

SeriesKey = tuple[str, ...]
"""The identifying columns of a row of object_metrics or external_metrics."""


@dataclass(slots=True)
class _Recorded:
    """The streams of one request, by pod or series."""

    streams: dict[Any, Stream] = field(default_factory=dict)
    requested_ms: int = 0


class SampleRows:
    """Last written samples of every pod and series.

    Attributes:
        strays: samples of unknown pods in the last pass.
        bent: values outside a table's range, written as the nearest value within.
        floor_ms: upper bound of the `ts` of rows of unknown streams.
    """

    def __init__(self, floor_ms: int = 0) -> None:
        """Begin without streams."""
        self.strays = self.bent = 0
        self.floor_ms = floor_ms
        self._mark = 0
        self._pods: dict[PodMetricKey, _Recorded] = {}
        self._objects: dict[ObjectMetricKey, _Recorded] = {}
        self._external: dict[ExternalMetricKey, _Recorded] = {}
        self.resumed_pods: dict[tuple[str, str, str], dict[str, int]] = {}
        self.resumed_series: dict[SeriesKey, dict[str, int]] = {}

    def add(
        self,
        responses: Responses,
        lives: Lives,
        within: Window,
        into: Segment,
    ) -> None:
        """Write the new samples of a pass's responses."""
        self.strays = 0
        self._mark += 1
        self._usage(responses.usage, lives, within, into)
        for key, response in responses.pods.items():
            self._custom(key, response, lives, within, into)
        for thing, response in responses.objects.items():
            name = _name_of(thing)
            row = (thing.namespace, thing.kind, name, thing.metric, thing.selector)
            self._series("object_metrics", row, self._objects, thing, response, within, into)
        for item, response in responses.external.items():
            self._series("external_metrics", item, self._external, item, response, within, into)
        if self._mark % _FORGET_EVERY == 0:
            self._forget(within, into)

    def lose(self, lives: Lives) -> None:
        """Handle lost rows: the next sample of each stream is written, or its end."""
        streams = [life.usage for life in lives.values()]
        for group in (self._pods, self._objects, self._external):
            streams += [s for recorded in group.values() for s in recorded.streams.values()]
        for stream in streams:
            stream.sample = None
            stream.shown = stream.shown or stream.last_ms > 0

    # ---- usage

    def _usage(
        self,
        responses: Mapping[str, Response],
        lives: Lives,
        within: Window,
        into: Segment,
    ) -> None:
        fetched: dict[str, int | None] = {}
        for namespace, response in responses.items():
            if response.error:
                fetched[namespace] = None
                continue
            at_ms = fetched[namespace] = _fetched(response, within)
            self._usage_rows(response.samples, lives, at_ms, into)  # type: ignore[arg-type]
        if not fetched:
            return
        whole, mark = fetched.get(""), self._mark
        for life in lives.values():
            stream = life.usage
            if stream.shown and stream.mark != mark:
                seen = fetched.get(life.namespace, whole)
                if seen is not None:
                    self._withdraw_usage(life, seen, into)

    def _usage_rows(
        self,
        samples: tuple[UsageSample, ...],
        lives: Lives,
        fetched_ms: int,
        into: Segment,
    ) -> None:
        """Write the new samples; the hot loop of recording: about 1 µs a sample."""
        append = {name: b.append for name, b in into.table("pod_metrics").buffers.items()}
        namespace, target, uid, pod = (append[n] for n in ("namespace", "target", "uid", "pod"))
        container, ts, window = append["container"], append["ts"], append["window_ms"]
        cpu, memory, fetched = append["cpu_milli"], append["memory_bytes"], append["fetched_at"]
        mark, latest = self._mark, fetched_ms + AHEAD_MS
        for sample in samples:
            life = lives.get(sample[:2])
            if life is None:
                self.strays += 1
                continue
            stream = life.usage
            if stream.sample == sample:
                stream.mark = mark
                continue
            if not sample.containers:
                continue  # an item without containers has no value: as if it were absent
            at_ms = self._next_ts(stream, sample.ts_ms, latest)
            stream.sample, stream.mark, stream.shown = sample, mark, True
            span = sample.window_ms
            if span is None or not 0 <= span <= _INT64_MAX:
                span = NULL
            if at_ms > sample.ts_ms:
                # Decisions depend on the sample's beginning, which therefore must stay.
                span = max(span, 0) + at_ms - sample.ts_ms
            for name, milli, memory_milli in sample.containers:
                namespace(life.namespace)
                target(life.target)
                uid(life.uid)
                pod(life.name)
                container(name)
                ts(at_ms)
                window(span)
                if milli is None:
                    cpu(NULL)
                else:
                    cpu(milli if 0 <= milli <= CPU_MILLI_MAX else self._bend(milli, CPU_MILLI_MAX))
                if memory_milli is None:
                    memory(NULL)
                else:
                    size = -(-memory_milli // 1000)
                    self.bent += memory_milli != 1000 * size
                    fits = 0 <= size <= MEMORY_BYTES_MAX
                    memory(size if fits else self._bend(size, MEMORY_BYTES_MAX))
                fetched(fetched_ms)

    def _withdraw_usage(self, life: Life, fetched_ms: int, into: Segment) -> None:
        ts = self._withdrawn(life.usage)
        into.table("pod_metrics").add(
            life.namespace, life.target, life.uid, life.name, "", ts, None, None, None, fetched_ms
        )

    # ---- custom metrics of pods

    def _custom(
        self,
        key: PodMetricKey,
        response: Response,
        lives: Lives,
        within: Window,
        into: Segment,
    ) -> None:
        recorded = self._pods.get(key)
        if recorded is None:
            resumed = self.resumed_pods.pop((key.namespace, key.metric, key.selector), {})
            recorded = self._pods[key] = _Recorded(_resumed_streams(key.namespace, resumed, lives))
        recorded.requested_ms = within[1]
        if response.error:
            return
        fetched_ms, mark, streams = _fetched(response, within), self._mark, recorded.streams
        add = into.table("pod_custom_metrics").add
        samples: tuple[PodSample, ...] = response.samples  # type: ignore[assignment]
        for sample in samples:
            life = lives.get((key.namespace, sample.pod))
            if life is None:
                self.strays += 1
                continue
            stream = streams.get(life.uid)
            if stream is None:
                stream = streams[life.uid] = Stream(self.floor_ms, life)
            stream.mark = mark
            if stream.sample == sample:
                continue
            ts = self._next_ts(stream, sample.ts_ms, fetched_ms + AHEAD_MS)
            stream.sample, stream.shown = sample, True
            window = sample.window_ms
            if window is not None and not 0 <= window <= _INT64_MAX:
                window = None
            add(
                *(life.namespace, life.target, life.uid, life.name, key.metric, key.selector),
                *(ts, window, self._value(sample.value_milli), fetched_ms),
            )
        self._withdraw_pods(key, streams, fetched_ms, lives, into)

    def _withdraw_pods(
        self,
        key: PodMetricKey,
        streams: dict[str, Stream],
        fetched_ms: int,
        lives: Lives,
        into: Segment,
        every: bool = False,
    ) -> None:
        """Write the end of samples of pods that are no longer listed; forget deleted pods."""
        add = into.table("pod_custom_metrics").add
        for uid, stream in list(streams.items()):
            life = stream.life
            if life is None or lives.get((life.namespace, life.name)) is not life:
                del streams[uid]
            elif stream.shown and (every or stream.mark != self._mark):
                add(
                    *(life.namespace, life.target, uid, life.name, key.metric, key.selector),
                    *(self._withdrawn(stream), None, None, fetched_ms),
                )

    # ---- objects and external series

    def _series(
        self,
        table: str,
        row: SeriesKey,
        group: dict[Any, _Recorded],
        key: ObjectMetricKey | ExternalMetricKey,
        response: Response,
        within: Window,
        into: Segment,
    ) -> None:
        """Write the new values of an object's metric, or of an external metric's series."""
        recorded = group.get(key)
        if recorded is None:
            known = self.resumed_series.pop((table, *row), {})
            streams = {name: Stream(ms, shown=True) for name, ms in known.items()}
            recorded = group[key] = _Recorded(streams)
        recorded.requested_ms = within[1]
        if response.error:
            return
        fetched_ms, mark = _fetched(response, within), self._mark
        add = into.table(table).add
        samples: tuple[SeriesSample, ...] = response.samples  # type: ignore[assignment]
        for sample in samples:
            stream = recorded.streams.get(sample.series)
            if stream is None:
                stream = recorded.streams[sample.series] = Stream(self.floor_ms)
            stream.mark = mark
            if stream.sample == sample:
                continue
            ts = self._next_ts(stream, sample.ts_ms, fetched_ms + AHEAD_MS)
            stream.sample, stream.shown = sample, True
            whose = row if table == "object_metrics" else (*row, sample.series)
            add(*whose, ts, self._value(sample.value_milli), fetched_ms)
        self._withdraw_series(table, row, recorded, fetched_ms, into)

    def _withdraw_series(
        self,
        table: str,
        row: SeriesKey,
        recorded: _Recorded,
        fetched_ms: int,
        into: Segment,
        every: bool = False,
    ) -> None:
        add = into.table(table).add
        for series, stream in list(recorded.streams.items()):
            if stream.mark == self._mark and not every:
                continue
            if stream.shown:
                whose = row if table == "object_metrics" else (*row, series)
                add(*whose, self._withdrawn(stream), None, fetched_ms)
                stream.gone_ms = fetched_ms
            elif fetched_ms - stream.gone_ms > FORGET_MS:
                self.floor_ms = max(self.floor_ms, stream.last_ms)
                del recorded.streams[series]

    # ---- common

    def _next_ts(self, stream: Stream, ts_ms: int, latest_ms: int) -> int:
        """Return the `ts` of a stream's next row, and keep it."""
        if not YEAR_2000_MS <= ts_ms <= latest_ms:
            self.bent += 1
            ts_ms = min(max(ts_ms, YEAR_2000_MS), latest_ms)
        if ts_ms <= stream.last_ms:
            ts_ms = stream.last_ms + 1
        stream.last_ms = ts_ms
        return ts_ms

    def _withdrawn(self, stream: Stream) -> int:
        """Return the `ts` of the row that withdraws a stream's last one, and keep it."""
        stream.last_ms = max(stream.last_ms, self.floor_ms, YEAR_2000_MS) + 1
        stream.sample, stream.shown = None, False
        return stream.last_ms

    def _value(self, milli: int) -> int:
        return milli if NULL < milli <= _INT64_MAX else self._bend(milli, _INT64_MAX, NULL + 1)

    def _bend(self, value: int, most: int, least: int = 0) -> int:
        self.bent += 1
        return min(max(value, least), most)

    def _forget(self, within: Window, into: Segment) -> None:
        """Withdraw and forget streams that were not requested for a long time."""
        since = within[1] - FORGET_MS
        for key in [k for k, recorded in self._pods.items() if recorded.requested_ms < since]:
            streams = self._pods.pop(key).streams
            self._withdraw_pods(key, streams, within[1], _lives_of(streams), into, every=True)
            self._raise_floor(streams)
        for thing in [k for k, recorded in self._objects.items() if recorded.requested_ms < since]:
            row = (thing.namespace, thing.kind, _name_of(thing), thing.metric, thing.selector)
            recorded = self._objects.pop(thing)
            self._withdraw_series("object_metrics", row, recorded, within[1], into, every=True)
            self._raise_floor(recorded.streams)
        for item in [k for k, recorded in self._external.items() if recorded.requested_ms < since]:
            recorded = self._external.pop(item)
            self._withdraw_series("external_metrics", item, recorded, within[1], into, every=True)
            self._raise_floor(recorded.streams)

    def _raise_floor(self, streams: Mapping[Any, Stream]) -> None:
        self.floor_ms = max([self.floor_ms, *(s.last_ms for s in streams.values())])


def _fetched(response: Response, within: Window) -> int:
    return min(max(response.fetched_ms, within[0]), within[1])


def _name_of(key: ObjectMetricKey) -> str:
    """Return the object's name in the table; a Namespace metric has the HPA's own namespace."""
    return key.namespace if key.kind == "Namespace" and not key.group else key.name


def _resumed_streams(namespace: str, resumed: Mapping[str, int], lives: Lives) -> dict[str, Stream]:
    if not resumed:
        return {}
    return {
        life.uid: Stream(resumed[life.uid], life, shown=True)
        for life in lives.values()
        if life.namespace == namespace and life.uid in resumed
    }


def _lives_of(streams: Mapping[str, Stream]) -> dict[tuple[str, str], Life]:
    return {(s.life.namespace, s.life.name): s.life for s in streams.values() if s.life}
