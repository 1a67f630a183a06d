"""Dry run of an import: the requests that it would send, found without a server.

The import itself runs with an imagined server that counts requests. Its fleet has the expected
size; targets change their size every day and a tenth of the pods is replaced.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from hpabatch.errors import UsageError
from hpabatch.importers.common.claims import Coverage
from hpabatch.importers.common.sink import Sink
from hpabatch.importers.prometheus.client.fetch import Fetcher, Pieces
from hpabatch.importers.prometheus.client.login import server_url
from hpabatch.importers.prometheus.client.samples import (
    POINTS,
    Samples,
    empty_samples,
    make_samples,
)
from hpabatch.importers.prometheus.client.series_requests import (
    RangeRequest,
    Request,
    SeriesRequest,
)
from hpabatch.importers.prometheus.reading.window import Place, import_window
from hpabatch.importers.prometheus.reading.window_metrics import AdapterSeries
from hpabatch.importers.prometheus.request import PrometheusRequest
from hpabatch.importers.prometheus.result import ImportResult
from hpabatch.importers.prometheus.site import Beside, Site, read_beside
from hpabatch.importers.prometheus.windows import Window, told, windows
from hpabatch.model.printable import counted

_SPACES = 20
_REPLACED = 10
"""One pod of this number is replaced a day."""

_SERIES: Mapping[str, int] = {
    "cpu": 2, "cpu_rate": 2, "memory": 2, "pod_phase": 5, "pod_ready": 3, "containers": 2,
    "requests": 4, "limits": 4, "hpa_target": 2, "hpa_metric": 2, "hpa_condition": 9,
}  # fmt: skip
"""Series per object by name; else one."""

_RARE = (
    "pod_deleted", "pod_ready_time", "init_containers", "init_requests", "init_limits",
    "overhead_cpu", "overhead_memory",
)  # fmt: skip
"""Series of few pods."""

_MOVES = ("hpa_metric", "hpa_current", "hpa_desired")


@dataclass(slots=True)
class Counted:
    """Requests of a kind: number, the first as PromQL, samples of all responses."""

    example: str
    requests: int = 0
    samples: int = 0
    largest: int = 0


@dataclass(slots=True)
class Imagined:
    """A server with an imagined fleet.

    Attributes:
        pods, hpas: of the fleet.
        spacing_ms: of raw samples.
        times: the number of windows that the current one stands for.
        asked: requests, by kind.
    """

    pods: int
    hpas: int
    spacing_ms: int
    times: int = 1
    asked: dict[str, Counted] = field(default_factory=dict)

    def fetch(self, request: Request) -> Samples:
        """Return a response of the right labels; raw samples are counted, not made."""
        if isinstance(request, RangeRequest):
            count = (request.last_ms - request.first_ms) // request.step_ms + 1
            self._count(f"{request.name} (every step)", request.promql(), count)
            return empty_samples()
        assert isinstance(request, SeriesRequest)
        each = _SERIES.get(request.query.name, 1)
        labels = [
            {**one, "container": f"c{k}"} for one in self._labels(request) for k in range(each)
        ]
        count = len(labels)
        if request.form == "raw":
            count *= (request.until_ms - request.from_ms) // self.spacing_ms
        kind = f"{request.query.series[0]} ({_WORDS[request.form]})"
        self._count(kind, request.promql(), count)
        if request.query.name == "heartbeat":
            points = pl.DataFrame([(0, request.until_ms, 1.0)], schema=POINTS, orient="row")
            return make_samples(labels, points)
        if not labels or (request.form == "raw" and request.query.name != "pod_info"):
            return empty_samples()
        moves = request.query.name in _MOVES or "replicas" in request.query.name
        value = float(request.form == "max") if moves else 1.0
        if request.query.name in ("pod_created", "pod_started"):
            value = request.from_ms / 1000
        rows = [(k, request.until_ms, value) for k in range(len(labels))]
        return make_samples(labels, pl.DataFrame(rows, schema=POINTS, orient="row"))

    def namespaces(self) -> tuple[str, ...]:
        """Return the namespaces of its HPAs."""
        return tuple(sorted({f"team-{k % _SPACES}" for k in range(self.hpas)}))

    def stop(self) -> None:
        """Do nothing."""

    def _count(self, kind: str, text: str, samples: int) -> None:
        short = text if len(text) <= 200 else f"{text[:120]} … {text[-60:]}"
        known = self.asked.setdefault(kind, Counted(short))
        known.requests += self.times
        known.samples += samples * self.times
        known.largest = max(known.largest, samples)

    def _labels(self, ask: SeriesRequest) -> list[dict[str, str]]:
        """Return the labels of the objects that a request names, by the site's names."""
        name = ask.query.name
        if name in _RARE:
            return []
        if name in ("heartbeat", "build_info"):
            return [{"namespace": "default", "git_version": "v1.37.0"}]
        if name.startswith("hpa_") or "replicas" in name:
            found = [self._hpa(k, ask.split) for k in range(self.hpas)]
        elif name == "replicaset_owner":
            found = [self._replicaset(k) for k in range(self.hpas)]
        else:
            found = [self._pod(k) for k in range(self.pods) if self._is_there(k, ask)]
        wanted = {label: set(values) for label, values in ask.names.items()}
        kept = [one for one in found if all(one.get(n) in v for n, v in wanted.items() if n in one)]
        return [{ask.query.their(n): value for n, value in one.items()} for one in kept]

    def _is_there(self, pod: int, ask: SeriesRequest) -> bool:
        return ask.form != "now" or pod % _REPLACED != 0

    def _hpa(self, number: int, label: str) -> dict[str, str]:
        name = f"app-{number}"
        found = {
            "namespace": f"team-{number % _SPACES}",
            "horizontalpodautoscaler": name,
            "scaletargetref_kind": "Deployment",
            "scaletargetref_name": name,
            "scaletargetref_api_version": "apps/v1",
        }
        return found if label in (*found, "namespace") else {**found, label: name}

    def _replicaset(self, number: int) -> dict[str, str]:
        return {
            "namespace": f"team-{number % _SPACES}",
            "replicaset": f"app-{number}-7d4b9c6f5",
            "owner_kind": "Deployment",
            "owner_name": f"app-{number}",
            "owner_is_controller": "true",
        }

    def _pod(self, number: int) -> dict[str, str]:
        owner = number % self.hpas
        return {
            "namespace": f"team-{owner % _SPACES}",
            "pod": f"app-{owner}-7d4b9c6f5-{number:05d}",
            "uid": f"00000000-0000-0000-0000-{number:012d}",
            "owner_kind": "ReplicaSet",
            "owner_name": f"app-{owner}-7d4b9c6f5",
            "owner_is_controller": "true",
            "container": "app",
        }


class NothingThere:
    """A server without series for an adapter."""

    def label_values(
        self, label: str, matchers: Sequence[str], start_ms: int, end_ms: int
    ) -> list[str]:
        """Return no values."""
        return []

    def label_names(self, matchers: Sequence[str], start_ms: int, end_ms: int) -> list[str]:
        """Return no names."""
        return []


_WORDS = {
    "raw": "raw samples",
    "min": "smallest, one a series",
    "max": "largest, one a series",
    "last": "last, one a series",
    "now": "at an instant",
}


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
            f"{told(self.start_ms)} to {told(self.end_ms)}: {counted(self.windows, 'window')}, "
            f"{counted(requests, 'request')}, about {counted(samples, 'sample')}; "
            f"the largest response has about {largest:,}",
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
    """
    start_ms, end_ms = request.span_ms(now_ms())
    if start_ms is None or end_ms is None:
        raise UsageError("--dry-run needs --start and --end")
    if end_ms <= start_ms:
        raise UsageError(
            f"there is no time from {told(start_ms)} to {told(end_ms)}: give a later --end"
        )
    request = replace(request, url=server_url(request.url))
    beside = read_beside(request)
    server = Imagined(request.expect_pods, request.expect_hpas, request.spacing_ms)
    todo = windows(start_ms, end_ms, request.max_gap_ms, Coverage())
    # Whole days are alike: the second, and those at the ends, stand for all.
    counted = todo[:2] + (todo[-1:] if len(todo) > 2 else [])
    each = [1, max(0, len(todo) - 2), 1][: len(counted)]
    if len(todo) == 2:
        each = [1, 1]
    for window, times in zip(counted, each, strict=True):
        server.times = times
        _imagine(server, request, beside, window)
    rows = [
        (kind, one.requests, one.samples, one.largest, one.example)
        for kind, one in server.asked.items()
    ]
    schema = {"asked_for": pl.String, "questions": pl.Int64, "samples": pl.Int64,
              "largest": pl.Int64, "first_question": pl.String}  # fmt: skip
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    return Estimate(frame, request, start_ms, end_ms, len(todo))


def _imagine(server: Imagined, request: PrometheusRequest, beside: Beside, window: Window) -> None:
    """Import a window of the imagined fleet, without a store."""
    queries = beside.queries
    names = frozenset(queries.names()) - set(queries.queries["cpu_rate"].series)
    spaces = request.namespaces or server.namespaces()
    known = queries.present(names)
    site = Site({}, names, known, (request.cluster,), {request.cluster: spaces})
    series = AdapterSeries(NothingThere(), 0, 0)
    result = ImportResult(window.span.after_ms, window.span.until_ms, site)
    with Fetcher(server, Pieces(None), 1) as fetcher:
        place = Place(request, beside, site, series, request.cluster, fetcher, Sink(None))
        import_window(place, window, result, lambda share: None)
