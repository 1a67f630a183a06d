"""Usage and metrics of a window: raw counters; values of queries at every step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import polars as pl

from hpabatch.importers.prometheus.client.queries import RangeRequest, chunks
from hpabatch.importers.prometheus.client.samples import (
    Samples,
    empty_samples,
    joined_samples,
)
from hpabatch.importers.prometheus.metrics.mapping import MetricPlan
from hpabatch.importers.prometheus.metrics.queries import (
    MetricQuery,
    instants_near,
    metric_rows,
)
from hpabatch.importers.prometheus.pods.usage import usage_rows
from hpabatch.importers.prometheus.reading.gauges import SILENT_MS
from hpabatch.importers.prometheus.reading.reader import Reader, Things
from hpabatch.importers.prometheus.result import Source

_CONTAINERS_EACH = 2
"""The number of containers of a pod that requests are sized for."""

_CPU, _MEMORY = "pod_metrics.cpu_milli", "pod_metrics.memory_bytes"

COUNTER = "counter"
"""Method of the table `provenance`."""


def read_usage(reader: Reader, pods: Things) -> tuple[pl.DataFrame, list[Source]]:
    """Return the usage of the containers of some pods, and its origin.

    Returns:
        namespace, pod, container, ts (ms), window_ms, cpu_milli, memory_bytes, and pod_uid where
        samples tell it.
    """
    memory, _ = _first(reader, "memory", pods)
    cpu, name = _first(reader, "cpu", pods)
    rows = usage_rows(cpu, memory, reader.span, reader.findings)
    told = f"differences of the recorded series {name}" if ":" in name else None
    found = [Source(_CPU, COUNTER, told)] if cpu.count else []
    return rows, [*found, *([Source(_MEMORY, "gauge")] if memory.count else [])]


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
