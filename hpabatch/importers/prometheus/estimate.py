"""How much an import would ask, without asking: it runs, with a server that only counts."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from hpabatch.errors import UsageError
from hpabatch.history.store.storage import temporary_root
from hpabatch.importers.prometheus.beside import Beside, read_beside
from hpabatch.importers.prometheus.client.fetch import Fetcher
from hpabatch.importers.prometheus.client.login import server_url
from hpabatch.importers.prometheus.client.pieces import Pieces
from hpabatch.importers.prometheus.imagined import Imagined, NothingThere
from hpabatch.importers.prometheus.reading.window import Place, import_window
from hpabatch.importers.prometheus.reading.window_metrics import AdapterSeries
from hpabatch.importers.prometheus.request import Coverage, ImportRequest, Window, told, windows
from hpabatch.importers.prometheus.result import ImportResult
from hpabatch.importers.prometheus.site import Site
from hpabatch.importers.table.groups import Sink


@dataclass(frozen=True, slots=True)
class Estimate:
    """What an import would ask.

    Attributes:
        frame: a row per kind of question: asked_for, questions, samples (of all answers),
            largest (samples of one answer) and the first question as PromQL.
        request: with its start and end.
        pods, hpas: the size of the fleet that was reckoned with.
        windows: pieces of time, of at most a UTC day.
    """

    frame: pl.DataFrame
    request: ImportRequest
    pods: int
    hpas: int
    windows: int

    def told(self) -> list[str]:
        """Return what it comes to, sentences."""
        frame, request = self.frame, self.request
        assert request.start_ms is not None
        assert request.end_ms is not None
        questions, samples = (int(frame[name].sum()) for name in ("questions", "samples"))
        largest = max(frame["largest"].to_list(), default=0)
        return [
            f"nothing is asked (--dry-run); reckoned with {self.pods:,} pods of {self.hpas:,} HPAs "
            f"(--expect-pods, --expect-hpas), 2 containers each, scraped every "
            f"{request.spacing_ms // 1000} s, a tenth of them replaced every day",
            f"{told(request.start_ms)} to {told(request.end_ms)}: {self.windows:,} windows, "
            f"{questions:,} questions, about {samples:,} samples; the largest answer has about "
            f"{largest:,}",
        ]

    def as_json(self) -> str:
        """Return everything as JSON."""
        request = self.request
        said = {
            "start_ms": request.start_ms,
            "end_ms": request.end_ms,
            "pods": self.pods,
            "hpas": self.hpas,
            "windows": self.windows,
            "questions": self.frame.to_dicts(),
        }
        return json.dumps(said, indent=1, ensure_ascii=False)


def estimate(request: ImportRequest, pods: int, hpas: int) -> Estimate:
    """Return what an import of such a fleet would ask; nothing is sent anywhere.

    Raises:
        UsageError: no time is given, or a file cannot be read.
    """
    if request.start_ms is None or request.end_ms is None:
        raise UsageError("--dry-run needs --start and --end")
    if request.end_ms <= request.start_ms:
        raise UsageError(
            f"there is no time from {told(request.start_ms)} to {told(request.end_ms)}: give a "
            "later --end"
        )
    start_ms, end_ms = request.start_ms, request.end_ms
    request = replace(request, url=server_url(request.url))
    beside = read_beside(request)
    server = Imagined(pods, hpas, request.spacing_ms)
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
        (kind, one.questions, one.samples, one.largest, one.example)
        for kind, one in server.asked.items()
    ]
    schema = {"asked_for": pl.String, "questions": pl.Int64, "samples": pl.Int64,
              "largest": pl.Int64, "first_question": pl.String}  # fmt: skip
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    return Estimate(frame, request, pods, hpas, len(todo))


def _imagine(server: Imagined, request: ImportRequest, beside: Beside, window: Window) -> None:
    """Import a window of a fleet that nobody has, to nowhere."""
    queries = beside.queries
    names = frozenset(queries.names()) - set(queries.queries["cpu_rate"].series)
    spaces = request.namespaces or server.namespaces()
    known = queries.present(names)
    site = Site({}, names, known, (request.cluster,), {request.cluster: spaces})
    series = AdapterSeries(NothingThere(), 0, 0)
    result = ImportResult(window.span.after_ms, window.span.until_ms, site)
    root = temporary_root()
    with Fetcher(server, Pieces(None), 1) as fetcher, TemporaryDirectory(dir=root) as folder:
        lite = Path(folder) if request.lite else None
        place = Place(request, beside, site, series, request.cluster, fetcher, Sink(None), lite)
        import_window(place, window, result, lambda share: None)
