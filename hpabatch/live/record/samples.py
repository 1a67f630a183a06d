"""Samples of the metrics APIs as rows: each once, and one more where a pod is no longer listed.

A metrics API gives the same sample until it has a newer one. A row's `ts` is the sample's own,
unless a row of the same pod or series has that or a later one: then it is 1 ms later than that
row's. So the order of `ts` is the order in which samples were seen, and no row replaces another.
The window of such a sample of usage is longer by as much: it begins when it did.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

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
from hpabatch.live.record.objects import Life, Pods, Stream
from hpabatch.live.record.rows import Rows
from hpabatch.live.record.segments import NULL

AHEAD_MS: Final = 300_000
"""A timestamp further in the future is written as this much ahead, to keep the order."""

FORGET_MS: Final = 3_600_000
"""Streams that were not requested for this long are withdrawn and forgotten."""

_FORGET_EVERY = 100
_INT64_MAX = 2**63 - 1

Window = tuple[int, int]
"""The time from after the last pass to this one, ms, in which its responses were fetched."""

Request = tuple[str, ...]
"""Table of a custom, object or external metric, and the request's own columns of its rows."""

_COLUMNS: Final = {
    "pod_custom_metrics": ("namespace", "metric", "selector"),
    "object_metrics": ("namespace", "kind", "name", "metric", "selector"),
    "external_metrics": ("namespace", "metric", "selector"),
}


@dataclass(slots=True)
class _Recorded:
    """The streams of one request: by uid of pods, by series of the others."""

    streams: dict[str, Stream]
    requested_ms: int = 0


class Samples:
    """Last written samples of every pod and series."""

    def __init__(
        self,
        rows: Rows,
        pods: Pods,
        floor_ms: int = 0,
        resumed: Mapping[Request, dict[str, int]] | None = None,
    ) -> None:
        """Begin with the streams of the store.

        Args:
            floor_ms: upper bound of the `ts` of rows of unknown streams.
            resumed: the last `ts` of known ones, by request and by uid or series.
        """
        self._rows, self._pods, self._floor_ms = rows, pods, floor_ms
        self._resumed_ms = dict(resumed or {})
        self._mark = 0
        self._recorded: dict[Request, _Recorded] = {}

    def add(self, responses: Responses, within: Window) -> None:
        """Write the new samples of a pass's responses."""
        self._mark += 1
        usage = {key: one for key, one in responses.items() if isinstance(key, str)}
        self._usage(usage, within)
        for key, response in responses.items():
            if not isinstance(key, str):
                self._add(_request(key), response, within)
        if self._mark % _FORGET_EVERY == 0:
            self._forget(within)

    # ---- usage

    def _usage(self, responses: Mapping[str, Response], within: Window) -> None:
        fetched: dict[str, int | None] = {}
        for namespace, response in responses.items():
            if response.error:
                fetched[namespace] = None
                continue
            at_ms = fetched[namespace] = _fetched(response, within)
            self._usage_rows(response.samples, at_ms)  # type: ignore[arg-type]
        whole, mark = fetched.get(""), self._mark
        for life in self._pods.lives.values() if fetched else ():
            stream = life.usage
            seen_ms = fetched.get(life.namespace, whole)
            if stream.shown and stream.mark != mark and seen_ms is not None:
                self._rows.segment.table("pod_metrics").add(
                    namespace=life.namespace, target=life.target, uid=life.uid, pod=life.name,
                    container="", ts=self._withdrawn(stream), fetched_at=seen_ms,
                )  # fmt: skip

    def _usage_rows(self, samples: tuple[UsageSample, ...], fetched_ms: int) -> None:
        """Write the new samples; the hot loop of recording: about 1 µs a sample."""
        table, lives = self._rows.segment.table("pod_metrics"), self._pods.lives
        append = {name: b.append for name, b in table.buffers.items()}
        namespace, target, uid, pod = (append[n] for n in ("namespace", "target", "uid", "pod"))
        container, ts, window = append["container"], append["ts"], append["window_ms"]
        cpu, memory, fetched = append["cpu_milli"], append["memory_bytes"], append["fetched_at"]
        mark, latest = self._mark, fetched_ms + AHEAD_MS
        for sample in samples:
            life = lives.get(sample[:2])
            if life is None:
                continue
            stream = life.usage
            if stream.sample == sample:
                stream.mark = mark
                continue
            if not sample.containers:
                continue  # an item without containers has no value: as if it were absent
            at_ms = _next_ts(stream, sample.ts_ms, latest)
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
                    cpu(min(max(milli, 0), CPU_MILLI_MAX))
                if memory_milli is None:
                    memory(NULL)
                else:
                    size = -(-memory_milli // 1000)
                    memory(min(max(size, 0), MEMORY_BYTES_MAX))
                fetched(fetched_ms)

    # ---- custom metrics of pods, metrics of objects, external series

    def _add(self, request: Request, response: Response, within: Window) -> None:
        recorded = self._recorded.get(request)
        if recorded is None:
            recorded = self._recorded[request] = _Recorded(self._resumed(request))
        recorded.requested_ms = within[1]
        if response.error:
            return
        fetched_ms, streams = _fetched(response, within), recorded.streams
        samples: tuple[PodSample | SeriesSample, ...] = response.samples  # type: ignore[assignment]
        for sample in samples:
            life: Life | None = None
            if isinstance(sample, SeriesSample):
                name = sample.series
            else:
                life = self._pods.lives.get((request[1], sample.pod))
                if life is None:
                    continue
                name = life.uid
            stream = streams.get(name)
            if stream is None:
                stream = streams[name] = Stream(self._floor_ms, life)
            stream.mark = self._mark
            if stream.sample != sample:
                ts = _next_ts(stream, sample.ts_ms, fetched_ms + AHEAD_MS)
                stream.sample, stream.shown = sample, True
                self._add_row(request, name, stream, ts, fetched_ms)
        self._withdraw(request, streams, fetched_ms)

    def _resumed(self, request: Request) -> dict[str, Stream]:
        known = self._resumed_ms.pop(request, {})
        if request[0] != "pod_custom_metrics":
            return {series: Stream(ms, shown=True) for series, ms in known.items()}
        return {
            life.uid: Stream(known[life.uid], life, shown=True)
            for life in (self._pods.lives.values() if known else ())
            if life.namespace == request[1] and life.uid in known
        }

    def _add_row(
        self, request: Request, name: str, stream: Stream, ts: int, fetched_ms: int
    ) -> None:
        """Write a row of a stream's sample; without one it ends the last row."""
        table, life, sample = request[0], stream.life, stream.sample
        row: dict[str, object] = dict(zip(_COLUMNS[table], request[1:], strict=True))
        if life is not None:
            row |= {"target": life.target, "uid": life.uid, "pod": life.name}
        elif table == "external_metrics":
            row["series"] = name
        if isinstance(sample, PodSample) and 0 <= (sample.window_ms or 0) <= _INT64_MAX:
            row["window_ms"] = sample.window_ms
        if isinstance(sample, PodSample | SeriesSample):
            row["value_milli"] = min(max(sample.value_milli, NULL + 1), _INT64_MAX)
        self._rows.segment.table(table).add(**row, ts=ts, fetched_at=fetched_ms)

    def _withdraw(
        self, request: Request, streams: dict[str, Stream], fetched_ms: int, every: bool = False
    ) -> None:
        """Write the end of samples that are no longer listed; forget deleted pods, old series."""
        lives = self._pods.lives
        for name, stream in list(streams.items()):
            life = stream.life
            if life is not None and lives.get((life.namespace, life.name)) is not life:
                del streams[name]
            elif stream.mark == self._mark and not every:
                continue
            elif stream.shown:
                self._add_row(request, name, stream, self._withdrawn(stream), fetched_ms)
                stream.gone_ms = fetched_ms
            elif life is None and fetched_ms - stream.gone_ms > FORGET_MS:
                self._floor_ms = max(self._floor_ms, stream.last_ms)
                del streams[name]

    # ---- common

    def _withdrawn(self, stream: Stream) -> int:
        """Return the `ts` of the row that withdraws a stream's last one, and keep it."""
        stream.last_ms = max(stream.last_ms, self._floor_ms, YEAR_2000_MS) + 1
        stream.sample, stream.shown = None, False
        return stream.last_ms

    def _forget(self, within: Window) -> None:
        """Withdraw and forget streams that were not requested for a long time."""
        since = within[1] - FORGET_MS
        for request in [k for k, one in self._recorded.items() if one.requested_ms < since]:
            streams = self._recorded.pop(request).streams
            self._withdraw(request, streams, within[1], every=True)
            self._floor_ms = max([self._floor_ms, *(s.last_ms for s in streams.values())])


def _next_ts(stream: Stream, ts_ms: int, latest_ms: int) -> int:
    """Return the `ts` of a stream's next row, and keep it."""
    stream.last_ms = max(min(max(ts_ms, YEAR_2000_MS), latest_ms), stream.last_ms + 1)
    return stream.last_ms


def _fetched(response: Response, within: Window) -> int:
    return min(max(response.fetched_ms, within[0]), within[1])


def _request(key: PodMetricKey | ObjectMetricKey | ExternalMetricKey) -> Request:
    """Return a request as the table has it; a Namespace metric has the HPA's own namespace."""
    if isinstance(key, ObjectMetricKey):
        name = key.namespace if key.kind == "Namespace" and not key.group else key.name
        return ("object_metrics", key.namespace, key.kind, name, key.metric, key.selector)
    table = "pod_custom_metrics" if isinstance(key, PodMetricKey) else "external_metrics"
    return (table, key.namespace, key.metric, key.selector)
