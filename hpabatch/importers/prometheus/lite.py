"""Lite import: a few series per HPA, imported as a table of workloads.

An HPA's status has the mean utilization (or usage, or value) that it saw and the number of
replicas; their product is the demand. That is a handful of series per HPA where its pods have
hundreds. The rows become a history as every table of workloads does (importers/table): as many
equal pods as there were replicas, marked as generated.

Requests are not known: one core and one GiB are assumed, so usage is in units of the request. A
utilization is a whole percentage, rounded down: the demand is up to one point too low.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import polars as pl
import yaml

from hpabatch.history.atomic import atomic_path
from hpabatch.importers.prometheus.reading.gauges import Gauge
from hpabatch.importers.prometheus.reading.reader import Reader
from hpabatch.importers.prometheus.reading.window_fleet import Fleet
from hpabatch.importers.table.request import TableRequest
from hpabatch.importers.table.run import ImportResult as TableResult
from hpabatch.importers.table.run import import_table

GIB = 2**30
LITE_TOLD = (
    "lite: the utilization that the HPA's status showed, of an assumed request of 1 core and 1 GiB"
)

METRIC = "metric."
"""Prefix of the column of a Pods metric."""

_HPA = "horizontalpodautoscaler"
_KEY = ["namespace", _HPA]
_PLACE = ["namespace", "kind", "workload", "ts"]

Kinds = Mapping[tuple[str, str, str], str]
"""By namespace, HPA and metric name: Resource, Pods, Object, External; others are unknown."""


def lite_rows(reader: Reader, fleet: Fleet, kinds: Kinds) -> pl.DataFrame:
    """Return a row per workload and scrape: replicas, cpu (cores), memory (bytes), Pods metrics.

    Of several HPAs on one workload the first by name counts. Metrics that no HPA's spec names and
    that are called neither cpu nor memory are left out (a finding).
    """
    query = reader.queries.get("hpa_metric")
    if query is None or not fleet.hpas.names:
        return pl.DataFrame()
    raw = reader.raw(query, fleet.hpas, 2)
    told = raw.joined([*_KEY, "metric_name", "metric_target_type"])
    inside = told.filter(pl.col("value").is_finite(), pl.col("value") >= 0)
    rows = _with_column(inside, kinds, reader)
    rows = rows.unique([*_KEY, "ts", "column"], keep="first", maintain_order=True)
    wide = rows.pivot("column", index=[*_KEY, "ts"], values="amount").sort([*_KEY, "ts"])
    sized = _at(wide, fleet.gauges["hpa_current"], "value", "replicas")
    placed = _at(sized, fleet.gauges["hpa_info"], "scaletargetref_kind", "kind")
    placed = _at(placed, fleet.gauges["hpa_info"], "scaletargetref_name", "workload")
    found = placed.filter(pl.col("replicas").is_not_null(), pl.col("workload").is_not_null())
    within = found.filter(pl.col("ts") > reader.span.after_ms)
    one = within.sort([*_PLACE, _HPA]).unique(_PLACE, keep="first", maintain_order=True)
    return one.drop(_HPA).with_columns(pl.col("replicas").cast(pl.Int64))


def _with_column(rows: pl.DataFrame, kinds: Kinds, reader: Reader) -> pl.DataFrame:
    """Return rows with the column that their value is for, and the amount in its unit."""
    known = [(*key, kind) for key, kind in kinds.items()]
    schema = dict.fromkeys((*_KEY, "metric_name", "kind"), pl.String)
    named = rows.join(
        pl.DataFrame(known, schema=schema, orient="row"), on=[*_KEY, "metric_name"], how="left"
    )
    name, form = pl.col("metric_name"), pl.col("metric_target_type")
    resource = pl.col("kind").fill_null("Resource").is_in(["Resource", "ContainerResource"])
    is_resource = resource & name.is_in(["cpu", "memory"])
    unit = pl.when(name == "memory").then(float(GIB)).otherwise(1.0)
    share = pl.when(form == "utilization").then(pl.col("value") / 100 * unit)
    amount = pl.when(is_resource).then(pl.coalesce(share, "value")).otherwise("value")
    column = (
        pl.when(is_resource)
        .then(name)
        .when((pl.col("kind") == "Pods") & (form == "average"))
        .then(pl.lit(METRIC) + name)
    )
    found = named.with_columns(column=column, amount=amount)
    lost = found.filter(pl.col("column").is_null()).select(*_KEY, "metric_name").n_unique()
    reader.findings.note("lite", "metrics of objects, external ones and unknown ones", lost)
    # A utilization comes with its usage; the request is not exported.
    return found.filter(pl.col("column").is_not_null()).sort(
        [*_KEY, "ts", "column", "metric_target_type"], descending=[False] * 4 + [True]
    )


def _at(rows: pl.DataFrame, gauge: Gauge, column: str, name: str) -> pl.DataFrame:
    """Return rows with the value of a gauge at their time."""
    said = gauge.changes.select(*_KEY, "ts", pl.col(column).alias(name)).sort("ts")
    return rows.sort("ts").join_asof(
        said, on="ts", by=_KEY, strategy="backward", check_sortedness=False
    )


def keep_rows(rows: pl.DataFrame, cluster: str, path: Path) -> None:
    """Keep a window's rows until all are there."""
    if rows.is_empty():
        return
    with atomic_path(path) as temporary:
        rows.with_columns(cluster=pl.lit(cluster)).write_parquet(temporary)


def import_rows(
    folder: Path, out: Path | str, progress: Callable[[str, float], None]
) -> TableResult | None:
    """Make all kept rows a history; None: there are none.

    Raises:
        UsageError, HistoryError: the store cannot be written.
    """
    files = sorted(folder.glob("*.parquet"))
    if not files:
        return None
    columns: dict[str, pl.DataType] = {}
    for file in files:
        columns.update(pl.read_parquet_schema(file))
    # The same columns in each: a metric may be there on some days only.
    whole = folder / "whole"
    for file in files:
        rows = pl.read_parquet(file)
        added = [pl.lit(None, dtype=d).alias(n) for n, d in columns.items() if n not in rows]
        with atomic_path(whole / file.name) as temporary:
            rows.with_columns(added).select(sorted(columns)).write_parquet(temporary)
    with atomic_path(whole / "map.yaml") as temporary:
        temporary.write_text(yaml.safe_dump(_table_map(list(columns)), sort_keys=True))
    request = TableRequest(
        inputs=tuple(str(whole / file.name) for file in files),
        map=str(whole / "map.yaml"),
        out=str(out),
        work=str(folder),
    )
    return import_table(request, progress)


def _table_map(columns: list[str]) -> dict[str, object]:
    """Return the map of the rows (docs/import.md)."""
    found: dict[str, object] = {
        "time": {"column": "ts", "unit": "ms"},
        "cluster": "cluster",
        "namespace": "namespace",
        "kind": "kind",
        "workload": "workload",
        "replicas": "replicas",
    }
    requests = {}
    for name, unit, request in (("cpu", "cores", "1"), ("memory", "bytes", "1Gi")):
        if name in columns:
            found[name] = {"column": name, "unit": unit, "of": "mean"}
            requests[name] = request
    metrics = sorted(name for name in columns if name.startswith(METRIC))
    if metrics:
        found["metrics"] = {
            name.removeprefix(METRIC): {"column": name, "of": "mean"} for name in metrics
        }
    return {"level": "workload", "columns": found, "requests": requests}
