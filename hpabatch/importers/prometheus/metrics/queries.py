"""Queries for metrics of HPAs, and rows of the metric tables from their responses.

A query is evaluated at equidistant times, as the metrics server would have evaluated it then. Each
response is a row, unchanged ones too, because the HPA would have seen each of them. Values become
thousandths as that server makes them: Go's conversion of value × 1000, which truncates.

Empty responses make no rows of `metric_fetches`: the sync period and phase are estimated from the
times at which the controller asked, which the times of an import are not. A missing response shows
as a sample that grows too old.

A server of several clusters has each series once per cluster: a query has `$cluster` where the
matchers of the cluster go.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hpabatch.importers.prometheus.client.samples import Findings, Samples
from hpabatch.model.objects.field_errors import go_quote

CLUSTER_HOLE: Final = "$cluster"
"""Stands in PromQL for the matchers of a cluster."""

PODS_HOLE: Final = "$pods"
"""Stands in a Pods metric's PromQL for the names of the pods, as a regular expression."""


class ValueRule(StrEnum):
    """Conversion of values by the metrics server."""

    keda = "keda"
    """KEDA: one series; nothing, NaN and infinities are 0."""
    keda_strict = "keda_strict"
    """KEDA with ignoreNullValues: "false": nothing, NaN and infinities are errors, so no rows."""
    plain = "plain"
    """A mapping file: NaN, infinities and what has no 64 bits are no rows."""


def instants_near(instants: pl.Series, times_ms: Sequence[int], within_ms: int) -> pl.Series:
    """Return the instants (`ts`) that follow one of these ascending times by at most so long.

    With the times at which anything at all was scraped: those at which the server was there.
    """
    times = pl.Series("seen", times_ms, dtype=pl.Int64).to_frame()
    found = instants.to_frame().join_asof(times, left_on="ts", right_on="seen")
    return found.filter(pl.col("ts") - pl.col("seen") <= within_ms)["ts"]


@dataclass(frozen=True, slots=True)
class MetricQuery:
    """A metric of one or several HPAs of a namespace, and the PromQL that brings it.

    Attributes:
        kind: which table its rows are for.
        metric, selector: as in the history; the selector in Kubernetes' string form.
        promql: of a Pods metric with `$pods` where their names stand.
        label: whose value is the pod's or object's name; "" (objects, external): not looked at.
        object_kind, object_name: of an Object metric, as in the history.
    """

    kind: Literal["pods", "object", "external"]
    namespace: str
    metric: str
    selector: str
    promql: str
    rule: ValueRule
    label: str = ""
    object_kind: str = ""
    object_name: str = ""
    hpas: tuple[str, ...] = ()
    place: str = ""

    @property
    def table(self) -> str:
        """The table that the rows are for."""
        return {"pods": "pod_custom_metrics", "object": "object_metrics"}.get(
            self.kind, "external_metrics"
        )

    @property
    def title(self) -> str:
        """The name in messages: `pods metric shop/http_requests`."""
        return self.name(f"{self.namespace}/")

    def name(self, space: str = "") -> str:
        """Return the name of the metric, behind that of a namespace."""
        selector = f"{{{self.selector}}}" if self.selector else ""
        of = f" of {self.object_kind}/{self.object_name}" if self.object_name else ""
        return f"{self.kind} metric {space}{self.metric}{selector}{of}"

    def text(self, pods: Sequence[str] = (), matchers: str = "") -> str:
        """Return the PromQL for these pods, and of the cluster of these matchers ("": the only)."""
        filled = f"{matchers}," if matchers else ""
        promql = re.sub(rf"{re.escape(CLUSTER_HOLE)}\s*,?\s*", lambda _: filled, self.promql)
        return promql.replace(PODS_HOLE, "|".join(pods)) if self.kind == "pods" else promql


def metric_rows(
    query: MetricQuery,
    response: Samples,
    instants: pl.Series | None = None,
    findings: Findings | None = None,
) -> pl.DataFrame:
    """Return the rows of a metric's table, without cluster; of pods also without target and uid.

    Args:
        response: of the query at these instants (query_range). Of a Pods metric the responses for
            several groups of pods may come one by one.
        instants: when it was evaluated (`ts`), needed only for KEDA, to which no response is a 0;
            some of these times (`instants_near`) where the server may have been away at others.
    """
    noted = findings if findings is not None else Findings()
    if query.kind == "external":
        return _external_rows(query, response, instants, noted)
    rows = _named(query, response, noted)
    rows = _with_milli(query, rows, noted).with_columns(
        namespace=pl.lit(query.namespace),
        metric=pl.lit(query.metric),
        selector=pl.lit(query.selector),
    )
    if query.kind == "pods":
        rows = rows.rename({"name": "pod"}).with_columns(window_ms=pl.lit(None, dtype=pl.Int64))
        names = ("namespace", "metric", "selector", "pod", "ts", "window_ms", "value_milli")
        return rows.select(names).sort("pod", "ts")
    rows = rows.with_columns(kind=pl.lit(query.object_kind), name=pl.lit(query.object_name))
    names = ("namespace", "kind", "name", "metric", "selector", "ts", "value_milli")
    return rows.select(names).sort("ts")


def _named(query: MetricQuery, response: Samples, findings: Findings) -> pl.DataFrame:
    """Return name, ts and value of pods or of the object.

    Several series of one object are a mistake of the query, and no rows.
    """
    if query.label:
        rows = response.joined([query.label]).rename({query.label: "name"})
        nameless = rows["name"].null_count()
        findings.note("metric response without label", f"{query.title}: {query.label}", nameless)
        rows = rows.filter(pl.col("name").fill_null("") != "")
    else:
        rows = response.joined([]).with_columns(name=pl.lit(query.object_name))
    if query.kind == "object":
        rows = rows.filter(pl.col("name") == query.object_name)
    several = rows.height - rows.select("name", "ts").n_unique()
    findings.note("metric response with several series", query.title, several)
    return rows.filter(pl.len().over("name", "ts") == 1)


def _external_rows(
    query: MetricQuery, response: Samples, instants: pl.Series | None, findings: Findings
) -> pl.DataFrame:
    numbered = pl.DataFrame(
        {"series": response.series["series"], "name": series_names(response)},
        schema={"series": pl.UInt32(), "name": pl.String()},
    )
    rows = response.points.join(numbered, on="series", how="left").select("name", "ts", "value")
    if query.rule in (ValueRule.keda, ValueRule.keda_strict):
        rows = _keda_rows(query, rows, instants, findings)
    rows = _with_milli(query, rows, findings)
    return rows.select(
        namespace=pl.lit(query.namespace),
        metric=pl.lit(query.metric),
        selector=pl.lit(query.selector),
        series=pl.col("name"),
        ts=pl.col("ts"),
        value_milli=pl.col("value_milli"),
    ).sort("series", "ts")


def _keda_rows(
    query: MetricQuery,
    rows: pl.DataFrame,
    instants: pl.Series | None,
    findings: Findings,
) -> pl.DataFrame:
    """Return at most one row an instant: KEDA refuses several series, and may take none for 0."""
    rows = rows.with_columns(count=pl.len().over("ts"), name=pl.lit(""))
    several = rows.filter(pl.col("count") > 1)
    findings.note("metric response with several series", query.title, several["ts"].n_unique())
    finite = pl.col("value").is_finite()
    if query.rule == ValueRule.keda_strict:
        return rows.filter((pl.col("count") == 1) & finite).drop("count")
    if instants is not None:
        empty = instants.to_frame().join(rows, on="ts", how="anti")
        findings.note("empty metric response, 0 to KEDA", query.title, empty.height)
        zeros = empty.select(name=pl.lit(""), ts=pl.col("ts"), value=pl.lit(0.0), count=pl.lit(1))
        rows = pl.concat([rows, zeros.cast(rows.schema)])
    rows = rows.filter(pl.col("count") == 1)
    return rows.with_columns(value=pl.when(finite).then("value").otherwise(0.0)).drop("count")


def _with_milli(query: MetricQuery, rows: pl.DataFrame, findings: Findings) -> pl.DataFrame:
    values = rows["value"].to_numpy()
    milli, fits = go_milli(values)
    findings.note("metric value beyond 64 bits", query.title, int((~fits).sum()))
    rows = rows.drop("value").with_columns(value_milli=pl.Series(milli, dtype=pl.Int64))
    return rows.filter(pl.Series(fits)) if query.rule == ValueRule.plain else rows


def go_milli(values: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return `int64(value * 1000)` as Go computes it on amd64, and where the result is one.

    Elsewhere (NaN, infinities, too large) the processor gives the least number, -2^63.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        product = np.asarray(values, dtype=np.float64) * 1000.0
        fits = (product >= -(2.0**63)) & (product < 2.0**63)
    milli = np.full(product.shape, np.iinfo(np.int64).min, dtype=np.int64)
    milli[fits] = np.trunc(product[fits]).astype(np.int64)
    return milli, fits


def series_names(response: Samples) -> list[str]:
    """Return a name for each series: its labels by name, `queue="a",zone="b"`."""
    names = response.names
    return [
        ",".join(
            f"{name}={go_quote(value)}"
            for name, value in zip(names, row[1:], strict=True)
            if value is not None
        )
        for row in response.series.rows()
    ]
