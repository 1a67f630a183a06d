"""A server in memory that answers requests for raw samples, for tests of who asks."""

from __future__ import annotations

from collections.abc import Sequence

from hpabatch.importers.prometheus.client.errors import TooMuchError
from hpabatch.importers.prometheus.client.http import Limits, Server
from hpabatch.importers.prometheus.client.queries import RangeRequest, Request, SeriesRequest
from hpabatch.importers.prometheus.client.samples import Samples
from tests.importers.prometheus.made import Series, made


class Memory(Server):
    """Responses from a list of series; no response has more than `most` samples."""

    def __init__(
        self, series: Sequence[Series], most: int = 1 << 30, most_samples: int = 1 << 40
    ) -> None:
        super().__init__("http://memory", limits=Limits(concurrency=1, most_samples=most_samples))
        self.series = list(series)
        self.most = most
        self.asked: list[Request] = []

    def fetch(self, request: Request) -> Samples:
        with self._lock:
            self.asked.append(request)
        return self._answer(request)

    def _answer(self, request: Request) -> Samples:
        assert not isinstance(request, RangeRequest)
        assert isinstance(request, SeriesRequest)
        found = [
            (labels, kept)
            for labels, points in self.series
            if labels.get("__name__") == request.query.series[0]
            and all(labels.get(n, "") in v for n, v in request.expected().must.items())
            and (kept := self._points(request, points))
        ]
        if sum(len(points) for _, points in found) > self.most:
            raise TooMuchError("too many samples")
        return made(found)

    def _points(
        self, ask: SeriesRequest, points: Sequence[tuple[int, float]]
    ) -> list[tuple[int, float]]:
        # Closed on the left, as Prometheus 2 has it.
        inside = [(t, v) for t, v in points if ask.from_ms <= t <= ask.until_ms]
        if ask.form == "raw" or not inside:
            return inside
        values = [v for _, v in inside]
        if ask.form == "now":
            fresh = [v for t, v in points if ask.until_ms - 300_000 < t <= ask.until_ms]
            return [(ask.until_ms, fresh[-1])] if fresh else []
        value = {"min": min(values), "max": max(values), "last": values[-1]}[ask.form]
        return [(ask.until_ms, value)]
