"""cpu and memory as prometheus-adapter served them (`resourceRules`), as rows of `pod_metrics`.

Follows pkg/resourceprovider/provider.go: what is not a number or negative is 0, thousandths are
truncated, a pod that lacks cpu or memory is left out, a container that lacks one has 0 of it. The
adapter lists running pods only, which the job's lives of pods stand for.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from hpabatch.history.columns import CPU_MILLI_MAX, MEMORY_BYTES_MAX
from hpabatch.importers.prometheus.client.samples import Findings, Samples
from hpabatch.importers.prometheus.metrics.adapter import ResourceQuery
from hpabatch.importers.prometheus.metrics.queries import go_milli

KEY = ("pod", "container", "ts")


def usage_rows(
    namespace: str,
    cpu: tuple[ResourceQuery, Samples],
    memory: tuple[ResourceQuery, Samples],
    findings: Findings,
) -> pl.DataFrame:
    """Return namespace, pod, container, ts, window_ms, cpu_milli and memory_bytes.

    Args:
        cpu, memory: the query and its answer, of the same pods at the same instants (query_range).
        findings: gets how many values no column can hold (infinities), which are left out.
    """
    cores = _values(*cpu, "cpu_milli", CPU_MILLI_MAX, findings)
    working_set = _values(*memory, "memory_milli", MEMORY_BYTES_MAX * 1000, findings)
    both = cores.join(working_set, on=KEY, how="full", coalesce=True)
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
    query: ResourceQuery, answer: Samples, column: str, most: int, findings: Findings
) -> pl.DataFrame:
    rows = answer.joined([query.pod_label, query.container_label])
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
    return rows.unique(KEY, keep="last", maintain_order=True).select(*KEY, column)
