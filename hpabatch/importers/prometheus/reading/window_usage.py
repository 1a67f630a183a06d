"""What the containers of a window used: from raw counters, else as the adapter served it, else
from rates, and which of these it was.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

import polars as pl

from hpabatch.errors import RefusedError
from hpabatch.importers.prometheus.client.ask import RangeAsk
from hpabatch.importers.prometheus.client.samples import Samples, empty_samples, joined_samples
from hpabatch.importers.prometheus.metrics import adapter_usage
from hpabatch.importers.prometheus.metrics.mapping import Mappings
from hpabatch.importers.prometheus.pods.usage import rated_rows, usage_rows
from hpabatch.importers.prometheus.provenance import Source
from hpabatch.importers.prometheus.reading.reader import Reader, Things
from hpabatch.importers.prometheus.reading.sources_seen import SILENT_MS, downsampled

_CONTAINERS_EACH = 2
"""Containers that a pod is reckoned to have, for the size of questions only."""

_RATE_WINDOW_MS = {"sum_irate": 0, "sum_rate": 300_000, "sum_rate5m": 300_000}
"""What well-known recording rules average over; irate takes the last two samples."""

_USUAL_RATE_MS = 300_000
_CPU, _MEMORY = "pod_metrics.cpu_milli", "pod_metrics.memory_bytes"

COUNTER = "counter"
RATE = "rate"
ADAPTER = "adapter"
"""Methods of the table `provenance`."""


def read_usage(
    reader: Reader, mappings: Mappings, pods: Things, step_ms: int
) -> tuple[pl.DataFrame, list[Source]]:
    """Return what the containers of some pods used, and how that was come by.

    Returns:
        namespace, pod, container, ts (ms), window_ms, cpu_milli, memory_bytes, and pod_uid where
        samples tell it.

    Raises:
        RefusedError: the adapter's rules for cpu and memory cannot be asked so.
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
        return rows, [Source(_CPU, COUNTER, told), *gauge, *_made_fewer(reader, cpu)]
    rates, name = _first(reader, "cpu_rate", pods)
    window_ms = _RATE_WINDOW_MS.get(name.rpartition(":")[2], _USUAL_RATE_MS)
    rows = rated_rows(rates, memory, window_ms, reader.span, reader.findings)
    told = f"{name}: smoothed and late, as there is no counter; what a fit says of lags holds it"
    return rows, [*([Source(_CPU, RATE, told)] if rates.count else []), *gauge]


def _first(reader: Reader, name: str, pods: Things) -> tuple[Samples, str]:
    """Return the samples of the first series of a name that has any here and now, and which it is.

    Raw series are kept for weeks where recorded ones are kept for years.
    """
    query = reader.queries.get(name)
    for series in query.series if query is not None else ():
        assert query is not None
        one = replace(query, series=(series,))
        found = reader.raw(one, pods, _CONTAINERS_EACH, SILENT_MS)
        if found.count:
            return found, series
    return empty_samples(), ""


def _made_fewer(reader: Reader, cpu: Samples) -> list[Source]:
    """Return what to record of samples that a store made fewer with time."""
    told = downsampled(cpu, reader.spacing_ms)
    if told is None:
        return []
    reader.findings.note("downsampled", told)
    return [Source("pod_metrics.ts", "downsampled", told)]


def _served(reader: Reader, mappings: Mappings, pods: Things, step_ms: int) -> pl.DataFrame:
    """Return usage as prometheus-adapter served it, at every step."""
    frames = []
    for namespace, group in groupby(pods.names, key=lambda name: name[0]):
        names = tuple(name for _, name in group)
        answers = []
        for resource in ("cpu", "memory"):
            try:
                query = mappings.resource_query(resource, namespace, names)
            except ValueError as error:
                raise RefusedError(f"resourceRules of {resource}: {error}") from None
            if query is None:
                raise RefusedError(
                    f"the adapter's configuration has no resourceRules for {resource}"
                )
            promql = query.within(reader.matchers()).promql
            answers.append((query, ranged(reader, resource, promql, step_ms, len(names))))
        cpu, memory = answers
        rows = adapter_usage.usage_rows(namespace, cpu, memory, reader.findings)
        frames.append(rows.with_columns(pod_uid=pl.lit(None, dtype=pl.String)))
    return pl.concat(frames) if frames else pl.DataFrame(schema=_SERVED)


_SERVED = {
    **dict.fromkeys(("namespace", "pod", "container"), pl.String()),
    **dict.fromkeys(("ts", "window_ms", "cpu_milli", "memory_bytes"), pl.Int64()),
    "pod_uid": pl.String(),
}


def ranged(reader: Reader, name: str, promql: str, step_ms: int, series: int) -> Samples:
    """Return the values of an expression at every step of the window."""
    span, most = reader.span, max(1, min(10_000, reader.max_samples // max(1, series)))
    length = most * step_ms
    asks = [
        RangeAsk(name, promql, at, min(at + length, span.until_ms), step_ms)
        for at in range(span.after_ms, span.until_ms, length)
    ]
    return joined_samples(reader.fetcher.get([ask for ask in asks if ask.last_ms >= ask.first_ms]))
