"""Dry run of an import: the requests that it would send, by arithmetic.

Counted are the requests of reading/, one line each. The fleet has the expected size; targets change
their size every day, and a tenth of the pods is replaced.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import polars as pl

from hpabatch.errors import UsageError
from hpabatch.importers.common.claims import Coverage
from hpabatch.importers.prometheus.client.login import server_url
from hpabatch.importers.prometheus.client.queries import Query
from hpabatch.importers.prometheus.client.series_requests import Form, SeriesRequest
from hpabatch.importers.prometheus.metrics.queries import MetricQuery
from hpabatch.importers.prometheus.reading.reader import FACTS_AT_ONCE
from hpabatch.importers.prometheus.reading.sources_seen import SILENT_MS
from hpabatch.importers.prometheus.reading.window_pods import SPACES_AT_ONCE
from hpabatch.importers.prometheus.reading.window_usage import steps_at_once
from hpabatch.importers.prometheus.request import PrometheusRequest
from hpabatch.importers.prometheus.site import Beside, read_beside
from hpabatch.importers.prometheus.windows import Window, check_order, windows
from hpabatch.model.printable import counted
from hpabatch.model.times import show_instant

_SPACES = 20
_REPLACED = 10
"""One pod of this number is replaced a day."""

_HPA = "horizontalpodautoscaler"
_HPA_GAUGES = {
    "hpa_info": (1, False), "hpa_min": (1, False), "hpa_max": (1, False), "hpa_target": (2, False),
    "hpa_generation": (1, False), "hpa_current": (1, True), "hpa_desired": (1, True),
    "hpa_metric": (2, True), "hpa_condition": (9, False),
}  # fmt: skip
"""Series of an HPA by gauge, and whether they change every day."""

_POD_GAUGES = {
    "pod_info": (1, True), "pod_deleted": (0, False), "pod_ready_time": (0, False),
    "pod_phase": (5, False), "pod_ready": (3, True), "containers": (2, False),
    "requests": (4, False), "limits": (4, False), "init_containers": (0, False),
    "init_requests": (0, False), "init_limits": (0, False), "overhead_cpu": (0, False),
    "overhead_memory": (0, False),
}  # fmt: skip
"""Series of a pod by gauge (0: few pods have any), and whether raw samples of replaced pods are
read."""

_POD_FACTS: dict[str, Form] = {"pod_labels": "last", "pod_created": "max", "pod_started": "max"}
WORDS: dict[Form, str] = {
    "raw": "raw samples",
    "min": "smallest, one a series",
    "max": "largest, one a series",
    "last": "last, one a series",
    "now": "at an instant",
}


_Row = tuple[str, int, int, int, str]
"""Kind of request, requests, samples, samples of the largest response, the first as PromQL."""


@dataclass(frozen=True, slots=True)
class _Requests:
    """The requests of one window."""

    request: PrometheusRequest
    beside: Beside
    window: Window

    def rows(self) -> Iterator[_Row]:
        """Yield the requests by kind; a kind may come again."""
        hpas, pods = self.request.expect_hpas, self.request.expect_pods
        spaces = -(-self._spaces // SPACES_AT_ONCE)
        queries = self.beside.queries.queries
        yield self._once(queries["hpa_info"], "last", 1, hpas)
        yield self._once(queries["hpa_info"], "now", 2, 2 * hpas)
        for name, (series, moves) in _HPA_GAUGES.items():
            yield from self._gauge(queries[name], hpas, _HPA, series, hpas if moves else 0)
        yield self._raw(queries["heartbeat"], 1, "", 2)
        yield self._once(queries["build_info"], "now", 1, 1)
        yield self._once(queries["pod_owner"], "last", spaces, pods)
        yield self._once(queries["pod_owner"], "now", 2 * spaces, 2 * pods)
        yield self._once(queries["replicaset_owner"], "last", spaces, hpas)
        for name, form in _POD_FACTS.items():
            yield self._once(queries[name], form, -(-pods // FACTS_AT_ONCE), pods, "pod")
        for name, (series, moves) in _POD_GAUGES.items():
            moving = -(-pods // _REPLACED) if moves else 0
            yield from self._gauge(queries[name], pods, "pod", series, moving)
        scalable = self.beside.queries.scalables["Deployment"]
        for query in self.beside.queries.replicas(scalable):
            yield from self._gauge(query, hpas, scalable.label, 1, hpas)
        yield from self._usage()
        for metric in self.beside.mappings.plan(self.beside.hpas).queries:
            yield self._metric(metric)

    @property
    def _spaces(self) -> int:
        return len(self.request.namespaces) or min(_SPACES, self.request.expect_hpas)

    def _usage(self) -> Iterator[_Row]:
        pods, mappings = self.request.expect_pods, self.beside.mappings
        groups = -(-pods // self.request.pods_at_once) + self._spaces - 1
        for resource in ("memory", "cpu"):
            served = mappings.resource_query(resource, "team-0", ("app-0",))
            if served is None:
                yield self._raw(self.beside.queries.queries[resource], pods, "pod", 2, SILENT_MS)
            else:
                yield self._stepped(resource, served.promql, groups, max(1, 2 * pods // groups))

    def _metric(self, query: MetricQuery) -> _Row:
        if query.kind != "pods":
            return self._stepped(query.title, query.text(), 1, 1)
        pods = len(query.hpas) * -(-self.request.expect_pods // self.request.expect_hpas)
        groups = -(-pods // self.request.pods_at_once)
        return self._stepped(query.title, query.text(("app-0",)), groups, -(-pods // groups))

    def _gauge(
        self, query: Query, objects: int, label: str, series: int, moving: int
    ) -> Iterator[_Row]:
        """Yield the requests of `Reader.gauge`."""
        requests, samples = -(-objects // FACTS_AT_ONCE), objects * series
        yield self._once(query, "min", requests, samples, label)
        yield self._once(query, "max", requests, samples, label)
        yield self._once(query, "now", 2 * requests, 2 * samples, label)
        if moving:
            yield self._raw(query, moving, label, series)

    def _raw(self, query: Query, objects: int, label: str, series: int, ahead_ms: int = 0) -> _Row:
        """Return the requests of `Reader.raw`."""
        request, span = self.request, self.window.span
        each = series * ((span.until_ms + ahead_ms - span.from_ms) // request.spacing_ms)
        sizes = [
            min(request.pods_at_once, objects - at) * each
            for at in range(0, objects, request.pods_at_once)
        ]
        requests = sum(max(1, -(-samples // request.max_samples)) for samples in sizes)
        return self._once(query, "raw", requests, sum(sizes), label)

    def _once(self, query: Query, form: Form, requests: int, samples: int, label: str = "") -> _Row:
        span = self.window.span
        names = {"namespace": ("team-0",), **({label: ("app-0",)} if label else {})}
        promql = SeriesRequest(query, form, span.from_ms, span.until_ms, names).promql()
        kind = f"{query.series[0]} ({WORDS[form]})"
        return kind, requests, samples, -(-samples // requests), promql

    def _stepped(self, name: str, promql: str, groups: int, series: int) -> _Row:
        """Return the requests of `window_usage.ranged` for each of these groups."""
        span, step_ms = self.window.span, self.request.step_ms
        steps = (span.until_ms - span.after_ms) // step_ms
        most = steps_at_once(self.request.max_samples, series)
        requests, samples = groups * -(-steps // most), groups * series * steps
        return f"{name} (every step)", requests, samples, series * min(steps, most), promql


@dataclass(frozen=True, slots=True)
class Estimate:
    """Requests that an import would send.

    Attributes:
        frame: a row per kind of request: asked_for, questions (their number), samples (of all
            responses), largest (samples of one response) and the first request as PromQL.
        request: the options, with the size of the fleet.
        start_ms, end_ms: the time.
        windows: pieces of time, of at most a UTC day.
    """

    frame: pl.DataFrame
    request: PrometheusRequest
    start_ms: int
    end_ms: int
    windows: int

    def told(self) -> list[str]:
        """Return the result in sentences."""
        frame, request = self.frame, self.request
        requests, samples = (int(frame[name].sum()) for name in ("questions", "samples"))
        largest = max(frame["largest"].to_list(), default=0)
        return [
            f"nothing is sent (--dry-run); assumed are {counted(request.expect_pods, 'pod')} of "
            f"{counted(request.expect_hpas, 'HPA')} "
            f"(--expect-pods, --expect-hpas), 2 containers each, scraped every "
            f"{request.spacing_ms // 1000} s, a tenth of them replaced every day",
            f"{show_instant(self.start_ms)} to {show_instant(self.end_ms)}: "
            f"{counted(self.windows, 'window')}, {counted(requests, 'request')}, about "
            f"{counted(samples, 'sample')}; the largest response has about {largest:,}",
        ]

    def as_json(self) -> str:
        """Return everything as JSON."""
        request = self.request
        said = {
            "start_ms": self.start_ms,
            "end_ms": self.end_ms,
            "pods": request.expect_pods,
            "hpas": request.expect_hpas,
            "windows": self.windows,
            "questions": self.frame.to_dicts(),
        }
        return json.dumps(said, indent=1, ensure_ascii=False)


def estimate(
    request: PrometheusRequest, now_ms: Callable[[], int] = lambda: round(time.time() * 1000)
) -> Estimate:
    """Return the requests of an import of a fleet of that size; nothing is sent.

    Raises:
        UsageError: no time is given, or a file cannot be read.
        RefusedError: the adapter's rules for cpu and memory cannot be followed.
    """
    start_ms, end_ms = request.span_ms(now_ms())
    if start_ms is None or end_ms is None:
        raise UsageError("--dry-run needs --start and --end")
    check_order(start_ms, end_ms)
    request = replace(request, url=server_url(request.url))
    beside = read_beside(request)
    todo = windows(start_ms, end_ms, request.max_gap_ms, Coverage())
    rows = [row for window in todo for row in _Requests(request, beside, window).rows()]
    schema = {"asked_for": pl.String, "questions": pl.Int64, "samples": pl.Int64,
              "largest": pl.Int64, "first_question": pl.String}  # fmt: skip
    frame = pl.DataFrame(rows, schema=schema, orient="row").group_by(
        "asked_for", maintain_order=True
    ).agg(
        pl.col("questions", "samples").sum(), pl.col("largest").max(),
        pl.col("first_question").first(),
    )  # fmt: skip
    return Estimate(frame, request, start_ms, end_ms, len(todo))
