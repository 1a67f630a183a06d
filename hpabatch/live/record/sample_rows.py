"""Samples of the metrics APIs to rows: each once, and one more where a pod is no longer listed.

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
    Answer,
    Answers,
    ExternalMetricKey,
    ObjectMetricKey,
    PodMetricKey,
    PodSample,
    SeriesSample,
    UsageSample,
)
from hpabatch.history.checks import YEAR_2000_MS
from hpabatch.history.columns import CPU_MILLI_MAX, MEMORY_BYTES_MAX
from hpabatch.live.record.lives import Life, Stream
from hpabatch.live.record.segments import NULL, Segment

AHEAD_MS: Final = 300_000
"""A sample from further in the future is told as being from there: the order must go on."""

FORGET_MS: Final = 3_600_000
"""What nobody asked for in that time is withdrawn and forgotten."""

_FORGET_EVERY = 100
_INT64_MAX = 2**63 - 1

Window = tuple[int, int]
"""From after the last pass until this one, ms: all that is fetched for it was fetched then."""

SeriesKey = tuple[str, ...]
"""The columns of a row of object_metrics or external_metrics that say whose it is."""


@dataclass(slots=True)
class _Asked:
    """The streams of one request, by pod or series."""

    streams: dict[Any, Stream] = field(default_factory=dict)
    asked_ms: int = 0


class SampleRows:
    """What was last written of every pod's and series' samples.

    Attributes:
        strays: samples of pods that are not known, in the last pass.
        bent: values that no table can hold, and were written as the nearest that one can.
        floor_ms: no row has a later `ts` of whatever is not remembered.
    """

    def __init__(self, floor_ms: int = 0) -> None:
        """Begin without memory."""
        self.strays = self.bent = 0
        self.floor_ms = floor_ms
        self._mark = 0
        self._pods: dict[PodMetricKey, _Asked] = {}
        self._objects: dict[ObjectMetricKey, _Asked] = {}
        self._external: dict[ExternalMetricKey, _Asked] = {}
        self.resumed_pods: dict[tuple[str, str, str], dict[str, int]] = {}
        self.resumed_series: dict[SeriesKey, dict[str, int]] = {}

    def add(
        self, answers: Answers, lives: Mapping[tuple[str, str], Life], within: Window, into: Segment
    ) -> None:
        """Write what is new in a pass's answers; `lives` by namespace and name of the pod."""
        self.strays = 0
        self._mark += 1
        self._usage(answers.usage, lives, within, into)
        for key, answer in answers.pods.items():
            self._custom(key, answer, lives, within, into)
        for thing, answer in answers.objects.items():
            name = _name_of(thing)
            row = (thing.namespace, thing.kind, name, thing.metric, thing.selector)
            self._series("object_metrics", row, self._objects, thing, answer, within, into)
        for item, answer in answers.external.items():
            self._series("external_metrics", item, self._external, item, answer, within, into)
        if self._mark % _FORGET_EVERY == 0:
            self._forget(within, into)

    def lose(self, lives: Mapping[tuple[str, str], Life]) -> None:
        """Take it that rows were lost: whatever is seen next is written, or withdrawn."""
        streams = [life.usage for life in lives.values()]
        for group in (self._pods, self._objects, self._external):
            streams += [s for asked in group.values() for s in asked.streams.values()]
        for stream in streams:
            stream.sample = None
            stream.shown = stream.shown or stream.last_ms > 0

    # ---- usage

    def _usage(
        self,
        answers: Mapping[str, Answer],
        lives: Mapping[tuple[str, str], Life],
        within: Window,
        into: Segment,
    ) -> None:
        fetched: dict[str, int | None] = {}
        for namespace, answer in answers.items():
            if answer.error:
                fetched[namespace] = None
                continue
            at_ms = fetched[namespace] = _fetched(answer, within)
            self._usage_rows(answer.samples, lives, at_ms, into)  # type: ignore[arg-type]
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
        lives: Mapping[tuple[str, str], Life],
        fetched_ms: int,
        into: Segment,
    ) -> None:
        """Write the samples that are new; this is the loop that counts: some 1 µs a sample."""
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
                continue  # An item without containers has no value: it is as good as not there.
            at_ms = self._next_ts(stream, sample.ts_ms, latest)
            stream.sample, stream.mark, stream.shown = sample, mark, True
            span = sample.window_ms
            if span is None or not 0 <= span <= _INT64_MAX:
                span = NULL
            if at_ms > sample.ts_ms:
                # A decision asks whether a sample began before an instant: so it still does.
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
        answer: Answer,
        lives: Mapping[tuple[str, str], Life],
        within: Window,
        into: Segment,
    ) -> None:
        asked = self._pods.get(key)
        if asked is None:
            resumed = self.resumed_pods.pop((key.namespace, key.metric, key.selector), {})
            asked = self._pods[key] = _Asked(_resumed_streams(key.namespace, resumed, lives))
        asked.asked_ms = within[1]
        if answer.error:
            return
        fetched_ms, mark, streams = _fetched(answer, within), self._mark, asked.streams
        add = into.table("pod_custom_metrics").add
        samples: tuple[PodSample, ...] = answer.samples  # type: ignore[assignment]
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
        lives: Mapping[tuple[str, str], Life],
        into: Segment,
        every: bool = False,
    ) -> None:
        """Write of which pods there is no sample any more, and forget those of pods gone."""
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
        group: dict[Any, _Asked],
        key: ObjectMetricKey | ExternalMetricKey,
        answer: Answer,
        within: Window,
        into: Segment,
    ) -> None:
        """Write the new values of an object's metric, or of an external metric's series."""
        asked = group.get(key)
        if asked is None:
            known = self.resumed_series.pop((table, *row), {})
            streams = {name: Stream(ms, shown=True) for name, ms in known.items()}
            asked = group[key] = _Asked(streams)
        asked.asked_ms = within[1]
        if answer.error:
            return
        fetched_ms, mark = _fetched(answer, within), self._mark
        add = into.table(table).add
        samples: tuple[SeriesSample, ...] = answer.samples  # type: ignore[assignment]
        for sample in samples:
            stream = asked.streams.get(sample.series)
            if stream is None:
                stream = asked.streams[sample.series] = Stream(self.floor_ms)
            stream.mark = mark
            if stream.sample == sample:
                continue
            ts = self._next_ts(stream, sample.ts_ms, fetched_ms + AHEAD_MS)
            stream.sample, stream.shown = sample, True
            whose = row if table == "object_metrics" else (*row, sample.series)
            add(*whose, ts, self._value(sample.value_milli), fetched_ms)
        self._withdraw_series(table, row, asked, fetched_ms, into)

    def _withdraw_series(
        self,
        table: str,
        row: SeriesKey,
        asked: _Asked,
        fetched_ms: int,
        into: Segment,
        every: bool = False,
    ) -> None:
        add = into.table(table).add
        for series, stream in list(asked.streams.items()):
            if stream.mark == self._mark and not every:
                continue
            if stream.shown:
                whose = row if table == "object_metrics" else (*row, series)
                add(*whose, self._withdrawn(stream), None, fetched_ms)
                stream.gone_ms = fetched_ms
            elif fetched_ms - stream.gone_ms > FORGET_MS:
                self.floor_ms = max(self.floor_ms, stream.last_ms)
                del asked.streams[series]

    # ---- common

    def _next_ts(self, stream: Stream, ts_ms: int, latest_ms: int) -> int:
        """Return the `ts` of a stream's next row, and take note of it."""
        if not YEAR_2000_MS <= ts_ms <= latest_ms:
            self.bent += 1
            ts_ms = min(max(ts_ms, YEAR_2000_MS), latest_ms)
        if ts_ms <= stream.last_ms:
            ts_ms = stream.last_ms + 1
        stream.last_ms = ts_ms
        return ts_ms

    def _withdrawn(self, stream: Stream) -> int:
        """Return the `ts` of the row that withdraws a stream's last one, and take note of it."""
        stream.last_ms = max(stream.last_ms, self.floor_ms, YEAR_2000_MS) + 1
        stream.sample, stream.shown = None, False
        return stream.last_ms

    def _value(self, milli: int) -> int:
        return milli if NULL < milli <= _INT64_MAX else self._bend(milli, _INT64_MAX, NULL + 1)

    def _bend(self, value: int, most: int, least: int = 0) -> int:
        self.bent += 1
        return min(max(value, least), most)

    def _forget(self, within: Window, into: Segment) -> None:
        """Let go of what was not asked for in a long time."""
        since = within[1] - FORGET_MS
        for key in [k for k, asked in self._pods.items() if asked.asked_ms < since]:
            streams = self._pods.pop(key).streams
            self._withdraw_pods(key, streams, within[1], _lives_of(streams), into, every=True)
            self._raise_floor(streams)
        for thing in [k for k, asked in self._objects.items() if asked.asked_ms < since]:
            row = (thing.namespace, thing.kind, _name_of(thing), thing.metric, thing.selector)
            asked = self._objects.pop(thing)
            self._withdraw_series("object_metrics", row, asked, within[1], into, every=True)
            self._raise_floor(asked.streams)
        for item in [k for k, asked in self._external.items() if asked.asked_ms < since]:
            asked = self._external.pop(item)
            self._withdraw_series("external_metrics", item, asked, within[1], into, every=True)
            self._raise_floor(asked.streams)

    def _raise_floor(self, streams: Mapping[Any, Stream]) -> None:
        self.floor_ms = max([self.floor_ms, *(s.last_ms for s in streams.values())])


def _fetched(answer: Answer, within: Window) -> int:
    return min(max(answer.fetched_ms, within[0]), within[1])


def _name_of(key: ObjectMetricKey) -> str:
    """Return whom the table names: a Namespace metric is that of the HPA's own namespace."""
    return key.namespace if key.kind == "Namespace" and not key.group else key.name


def _resumed_streams(
    namespace: str, resumed: Mapping[str, int], lives: Mapping[tuple[str, str], Life]
) -> dict[str, Stream]:
    if not resumed:
        return {}
    return {
        life.uid: Stream(resumed[life.uid], life, shown=True)
        for life in lives.values()
        if life.namespace == namespace and life.uid in resumed
    }


def _lives_of(streams: Mapping[str, Stream]) -> dict[tuple[str, str], Life]:
    return {(s.life.namespace, s.life.name): s.life for s in streams.values() if s.life}
