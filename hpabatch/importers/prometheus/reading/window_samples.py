"""Usage and metrics of a window: the adapter, raw counters, else rates; values at every step."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

import numpy as np
import polars as pl

from hpabatch.errors import RefusedError
from hpabatch.history.columns import CPU_MILLI_MAX, MEMORY_BYTES_MAX
from hpabatch.importers.prometheus.client.http import Server
from hpabatch.importers.prometheus.client.queries import RangeRequest, chunks
from hpabatch.importers.prometheus.client.samples import (
    Findings,
    Samples,
    empty_samples,
    joined_samples,
)
from hpabatch.importers.prometheus.metrics.adapter import ResourceQuery
from hpabatch.importers.prometheus.metrics.mapping import Mappings, MetricPlan
from hpabatch.importers.prometheus.metrics.queries import (
    MetricQuery,
    go_milli,
    instants_near,
    metric_rows,
    with_matchers,
)
from hpabatch.importers.prometheus.pods.usage import usage_rows
from hpabatch.importers.prometheus.reading.gauges import SILENT_MS
from hpabatch.importers.prometheus.reading.reader import Reader, Things
from hpabatch.importers.prometheus.result import Source
from hpabatch.model.objects.hpa import HPA

_KEY = ("pod", "container", "ts")


def served_rows(
    namespace: str,
    cpu: tuple[ResourceQuery, Samples],
    memory: tuple[ResourceQuery, Samples],
    findings: Findings,
) -> pl.DataFrame:
    """Return usage as prometheus-adapter served it, without a pod that lacks cpu or memory.

    Args:
        cpu, memory: the query and its response, of the same pods and times (query_range).
        findings: gets the number of values that no column can hold (infinities); they are left out.
    """
    cores = _values(*cpu, "cpu_milli", CPU_MILLI_MAX, findings)
    working_set = _values(*memory, "memory_milli", MEMORY_BYTES_MAX * 1000, findings)
    both = cores.join(working_set, on=_KEY, how="full", coalesce=True)
    owner = ["pod", "ts"]
    both = both.filter(
        pl.col("cpu_milli").is_not_null().any().over(owner),
        pl.col("memory_milli").is_not_null().any().over(owner),
    )
    return both.select(
        namespace=pl.lit(namespace),
        pod=pl.col("pod"),
        container=pl.col("container"),
        ts=pl.col("ts"),
        window_ms=pl.lit(cpu[0].window_ms, dtype=pl.Int64),
        cpu_milli=pl.col("cpu_milli").fill_null(0),
        memory_bytes=(pl.col("memory_milli").fill_null(0) + 999) // 1000,
    ).sort("pod", "ts", "container")


def _values(
    query: ResourceQuery, response: Samples, column: str, most: int, findings: Findings
) -> pl.DataFrame:
    rows = response.joined([query.pod_label, query.container_label])
    rows = rows.select(
        pod=pl.col(query.pod_label),
        container=pl.col(query.container_label).fill_null(""),
        ts=pl.col("ts"),
        value=pl.col("value"),
    ).filter(pl.col("pod").is_not_null())
    values = rows["value"].to_numpy()
    with np.errstate(invalid="ignore"):
        milli, fits = go_milli(np.where(np.isnan(values) | (values < 0), 0.0, values))
    fits &= milli <= most
    findings.note("usage beyond all bounds", column, int((~fits).sum()))
    rows = rows.with_columns(pl.Series(column, milli, dtype=pl.Int64)).filter(pl.Series(fits))
    return rows.unique(_KEY, keep="last", maintain_order=True).select(*_KEY, column)


_CONTAINERS_EACH = 2
"""The number of containers of a pod that requests are sized for."""

_RATE_WINDOW_MS = {"sum_irate": 0, "sum_rate": 300_000, "sum_rate5m": 300_000}
"""Windows of well-known recording rules; irate takes the last two samples."""

_USUAL_RATE_MS = 300_000
_CPU, _MEMORY = "pod_metrics.cpu_milli", "pod_metrics.memory_bytes"

COUNTER = "counter"
RATE = "rate"
ADAPTER = "adapter"
"""Methods of the table `provenance`."""


def read_usage(
    reader: Reader, mappings: Mappings, pods: Things, step_ms: int
) -> tuple[pl.DataFrame, list[Source]]:
    """Return the usage of the containers of some pods, and its origin.

    Returns:
        namespace, pod, container, ts (ms), window_ms, cpu_milli, memory_bytes, and pod_uid where
        samples tell it.

    Raises:
        RefusedError: the adapter's rules for cpu and memory make no query.
    """
    if mappings.resource_query("cpu", "x", ("x",)) is not None:
        return _served(reader, mappings, pods, step_ms), [
            Source(_CPU, ADAPTER, "as prometheus-adapter's resourceRules made it"),
            Source(_MEMORY, ADAPTER, "as prometheus-adapter's resourceRules made it"),
        ]
    memory, _ = _first(reader, "memory", pods)
    cpu, name = _first(reader, "cpu", pods)
    gauge = [Source(_MEMORY, "gauge")] if memory.count else []
    if cpu.count:
        rows = usage_rows(cpu, memory, reader.span, reader.findings)
        told = f"differences of the recorded series {name}" if ":" in name else None
        return rows, [Source(_CPU, COUNTER, told), *gauge]
    rates, name = _first(reader, "cpu_rate", pods)
    window_ms = _RATE_WINDOW_MS.get(name.rpartition(":")[2], _USUAL_RATE_MS)
    rows = usage_rows(rates, memory, reader.span, reader.findings, rate_ms=window_ms)
    told = f"{name}: smoothed and late, as there is no counter; what a fit says of lags holds it"
    return rows, [*([Source(_CPU, RATE, told)] if rates.count else []), *gauge]


def _first(reader: Reader, name: str, pods: Things) -> tuple[Samples, str]:
    """Return the samples of the first series of a name that has any, and its name.

    Raw series are often kept for weeks, recorded ones for years.
    """
    query = reader.queries.get(name)
    for series in query.series if query is not None else ():
        assert query is not None
        one = replace(query, series=(series,))
        found = reader.raw(one, pods, _CONTAINERS_EACH, SILENT_MS)
        if found.count:
            return found, series
    return empty_samples(), ""


def _served(reader: Reader, mappings: Mappings, pods: Things, step_ms: int) -> pl.DataFrame:
    """Return usage as prometheus-adapter served it, at every step."""
    frames = []
    for namespace, group in groupby(pods.names, key=lambda name: name[0]):
        names = tuple(name for _, name in group)
        responses = []
        for resource in ("cpu", "memory"):
            query = mappings.resource_query(resource, namespace, names)
            if query is None:
                raise RefusedError(
                    f"the adapter's configuration has no resourceRules for {resource}"
                )
            promql = with_matchers(query.promql, reader.matchers())
            responses.append((query, ranged(reader, resource, promql, step_ms, len(names))))
        cpu, memory = responses
        rows = served_rows(namespace, cpu, memory, reader.findings)
        frames.append(rows.with_columns(pod_uid=pl.lit(None, dtype=pl.String)))
    return pl.concat(frames) if frames else pl.DataFrame(schema=_SERVED)


_SERVED = {
    **dict.fromkeys(("namespace", "pod", "container"), pl.String()),
    **dict.fromkeys(("ts", "window_ms", "cpu_milli", "memory_bytes"), pl.Int64()),
    "pod_uid": pl.String(),
}


def ranged(reader: Reader, name: str, promql: str, step_ms: int, series: int) -> Samples:
    """Return the values of an expression at every step of the window."""
    # Prometheus refuses more than 11,000 steps in one request.
    steps = max(1, min(10_000, reader.max_samples // max(1, series)))
    span, length = reader.span, steps * step_ms
    asks = [
        RangeRequest(name, promql, at, min(at + length, span.until_ms), step_ms)
        for at in range(span.after_ms, span.until_ms, length)
    ]
    return joined_samples(reader.server.get([ask for ask in asks if ask.last_ms >= ask.first_ms]))


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
        plan: see `Mappings.plan`.
        targets: by namespace and HPA the kind and name of what it scaled in the window.
        heartbeats: instants (ms) at which the server scraped: at others an empty response, which is
            a 0 to KEDA, may be the server's own.
    """
    for query in plan.queries:
        matchers = reader.matchers()
        if query.kind != "pods":
            response = ranged(reader, query.title, query.text((), matchers), step_ms, 1)
            ask = RangeRequest("", "", reader.span.after_ms, reader.span.until_ms, step_ms)
            if ask.last_ms >= ask.first_ms:
                times = range(ask.first_ms, ask.last_ms + 1, step_ms)
                instants = pl.Series("ts", times, dtype=pl.Int64)
                scraped = instants_near(instants, heartbeats, SILENT_MS)
                yield query.table, metric_rows(query, response, scraped, reader.findings)
            continue
        for names in chunks(_pods_of(query, pods, targets), reader.at_once):
            response = ranged(reader, query.title, query.text(names, matchers), step_ms, len(names))
            yield query.table, metric_rows(query, response, None, reader.findings)


def _pods_of(
    query: MetricQuery,
    pods: pl.DataFrame,
    targets: Mapping[tuple[str, str], frozenset[tuple[str, str]]],
) -> list[str]:
    wanted = {one for hpa in query.hpas for one in targets.get((query.namespace, hpa), ())}
    mine = pods.filter(pl.col("namespace") == query.namespace)
    rows = mine.select("target_kind", "target", "pod").rows()
    return sorted({pod for kind, target, pod in rows if (kind, target) in wanted})
