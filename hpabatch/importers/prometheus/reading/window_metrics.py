"""Custom, object and external metrics of a window: the values that the HPAs saw, at every step."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from hpabatch.importers.prometheus.client.http import Server
from hpabatch.importers.prometheus.client.series_requests import RangeRequest, chunks
from hpabatch.importers.prometheus.metrics.mapping import Mappings, MetricPlan
from hpabatch.importers.prometheus.metrics.queries import MetricQuery, instants_near, metric_rows
from hpabatch.importers.prometheus.reading.reader import Reader
from hpabatch.importers.prometheus.reading.sources_seen import SILENT_MS
from hpabatch.importers.prometheus.reading.window_usage import ranged
from hpabatch.model.objects.hpa import HPA


@dataclass(slots=True)
class AdapterSeries:
    """The series that prometheus-adapter would find, requested once in an import.

    The adapter looks for them by `seriesQuery`; which metrics it serves follows from their names
    and labels.
    """

    server: Server
    start_ms: int
    end_ms: int
    _names: dict[str, list[str]] = field(default_factory=dict)
    _labels: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict)

    def found(
        self, mappings: Mappings, hpas: Iterable[HPA]
    ) -> dict[str, dict[str, Collection[str]]]:
        """Return by selector the series that there are, with their labels as far as needed."""
        for selector in mappings.series_selectors():
            if selector not in self._names:
                self._names[selector] = self.server.label_values(
                    "__name__", [selector], self.start_ms, self.end_ms
                )
        for selector, series, narrowed in mappings.wanted_series(hpas, self._names):
            if (selector, series) not in self._labels:
                labels = self.server.label_names([narrowed], self.start_ms, self.end_ms)
                self._labels[selector, series] = frozenset(labels) - {"__name__"}
        return {
            selector: {name: self._labels.get((selector, name), frozenset()) for name in names}
            for selector, names in self._names.items()
        }


def read_metrics(
    reader: Reader,
    plan: MetricPlan,
    pods: pl.DataFrame,
    targets: Mapping[tuple[str, str], frozenset[tuple[str, str]]],
    heartbeats: Sequence[int],
    step_ms: int,
) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield table names with rows (times in ms) for each query of a plan.

    Args:
        reader: of the window.
        plan: see `Mappings.plan`.
        pods: rows of lives.POD_ROWS.
        targets: by namespace and HPA the kind and name of what it scaled in the window.
        heartbeats: instants (ms) at which the server scraped: at others an empty response, which is
            a 0 to KEDA, may be the server's own.
        step_ms: between two values.
    """
    for query in plan.queries:
        asked = query.within(reader.matchers())
        if query.kind != "pods":
            response = ranged(reader, query.title, asked.text(), step_ms, 1)
            ask = RangeRequest("", "", reader.span.after_ms, reader.span.until_ms, step_ms)
            if ask.last_ms >= ask.first_ms:
                times = range(ask.first_ms, ask.last_ms + 1, step_ms)
                instants = pl.Series("ts", times, dtype=pl.Int64)
                scraped = instants_near(instants, heartbeats, SILENT_MS)
                yield query.table, metric_rows(query, response, scraped, reader.findings)
            continue
        for names in chunks(_pods_of(query, pods, targets), reader.at_once):
            response = ranged(reader, query.title, asked.text(names), step_ms, len(names))
            yield query.table, metric_rows(query, response, None, reader.findings)


def _pods_of(
    query: MetricQuery,
    pods: pl.DataFrame,
    targets: Mapping[tuple[str, str], frozenset[tuple[str, str]]],
) -> list[str]:
    """Return the names of all pods that HPAs with this metric scale."""
    wanted = {one for hpa in query.hpas for one in targets.get((query.namespace, hpa), ())}
    mine = pods.filter(pl.col("namespace") == query.namespace)
    rows = mine.select("target_kind", "target", "pod").rows()
    return sorted({pod for kind, target, pod in rows if (kind, target) in wanted})
