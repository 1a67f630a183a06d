"""The samples of a simulated run as the rows of a history's sample tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from hpabatch.engine.simulate.case import SimulationCase
from hpabatch.history.schema import empty_frame
from hpabatch.model.objects.hpa import MetricIdentifier, MetricSpec
from hpabatch.model.plant import Pipeline, signal_name
from hpabatch.model.selectors import selector_from_object
from hpabatch.packing.specs import lane_streams, stream_keys

CONTAINER: Final = "main"
_MILLI_PER_BYTE: Final = 1000
_DAY_MS: Final = 86_400_000
_INT: Final = pl.Int64()
_TEXT: Final = pl.String()


@dataclass(frozen=True, slots=True)
class Stream:
    """The measurement of a lane's stream; `window_ms` is that of its samples."""

    metric: MetricSpec
    window_ms: int


def streams_of(case: SimulationCase) -> list[Stream]:
    """Return the streams of a case, in the order of its lane's."""
    specs, plant = [p.spec for p in case.periods], case.workload.plant
    by_key = {
        key: metric
        for spec in specs
        for key, metric in zip(stream_keys(spec), spec.metrics, strict=True)
    }
    found = []
    for key in lane_streams(specs):
        signal = plant.signals.get(signal_name(by_key[key]))
        pipeline = Pipeline() if signal is None else plant.pipeline_of(signal)
        found.append(Stream(by_key[key], pipeline.window_ms))
    return found


def source_of(metric: MetricSpec, namespace: str) -> tuple[str, ...] | None:
    """Return what an Object or External metric's samples are found by, None for other metrics.

    A table's name and its key: kind, name, metric and selector, or metric and selector.
    """
    if metric.object is not None:
        described = metric.object.described_object
        name = namespace if described.kind == "Namespace" else described.name
        return "object_metrics", described.kind, name, *_words_of(metric.object.metric)
    if metric.external is not None:
        return "external_metrics", *_words_of(metric.external.metric)
    return None


def _words_of(metric: MetricIdentifier) -> tuple[str, str]:
    """Return a metric's name and selector; one with a bad selector is never sampled."""
    try:
        return metric.name, str(selector_from_object(metric.selector))
    except ValueError:
        return metric.name, ""


def containers_of(case: SimulationCase) -> list[str]:
    """Return the containers of a workload's pods: those that a metric names, else one."""
    names = [name.split("/") for name in case.workload.plant.signals]
    return list(dict.fromkeys(n[1] for n in names if n[0] == "container")) or [CONTAINER]


def pod_samples(
    parts: Sequence[pl.DataFrame], cases: Sequence[SimulationCase], lives: pl.DataFrame
) -> dict[str, pl.DataFrame]:
    """Return `pod_metrics`, and `pod_custom_metrics` if it has rows."""
    streams = _stream_frame(cases)
    keys = ["cluster", "namespace", "target", "pod", "uid"]
    names = lives.select("lane", "number", *keys).sort(keys).with_row_index("rank")
    found: dict[str, list[pl.DataFrame]] = {"pod_metrics": [], "pod_custom_metrics": []}
    ranks = []
    for part in parts:
        for table, frame in _rows_of_part(part, streams, cases).items():
            named = frame.join(names, on=["lane", "number"], how="left", maintain_order="left")
            found[table].append(conform(table, named))
            if table == "pod_metrics":
                ranks.append(named.select(_rank(cases)).to_series())
    tables = {table: pl.concat(frames, rechunk=False) for table, frames in found.items()}
    tables["pod_metrics"] = tables["pod_metrics"][pl.concat(ranks).arg_sort()]
    return {t: f for t, f in tables.items() if t == "pod_metrics" or not f.is_empty()}


def _rank(cases: Sequence[SimulationCase]) -> pl.Expr:
    """Return the place of a row in the order of its table's key: of pod, time and container.

    The order of one number: to sort a million rows by their names takes 4 s.
    """
    containers = sorted({name for case in cases for name in containers_of(case)})
    first_ms = min(case.start_ms - case.workload.plant.pods.initial_age_ms for case in cases)
    since_ms = pl.col("ts").cast(_INT) - first_ms + _DAY_MS
    span_ms = max(case.steps * case.period_ms for case in cases) + 400 * _DAY_MS
    row = pl.col("rank").cast(_INT) * span_ms + since_ms
    return row * len(containers) + pl.col("container").replace_strict(
        containers, range(len(containers)), return_dtype=_INT
    )


def _rows_of_part(
    part: pl.DataFrame, streams: pl.DataFrame, cases: Sequence[SimulationCase]
) -> dict[str, pl.DataFrame]:
    """Return the rows of the tables of pods' samples, pods still being numbers."""
    rows = part.rename({"pod": "number", "value": "value_milli"}).join(
        streams, on="stream", how="left", maintain_order="left"
    )
    usage = rows.filter(pl.col("table") == "pod_metrics")
    custom = rows.filter(pl.col("table") == "pod_custom_metrics")
    same = ["lane", "number", "metric", "selector", "ts"]
    return {
        "pod_metrics": _container_rows(usage, cases),
        "pod_custom_metrics": custom.unique(same, keep="first", maintain_order=True),
    }


def total_samples(
    totals: pl.DataFrame, cases: Sequence[SimulationCase], names: pl.DataFrame
) -> dict[str, pl.DataFrame]:
    """Return the tables of Object and External metrics that have rows."""
    rows = totals.rename({"value": "value_milli"}).join(
        _stream_frame(cases), on="stream", how="left", maintain_order="left"
    )
    # (an object under two API versions is measured alike)
    same = ["lane", "table", "kind", "name", "metric", "selector", "ts"]
    rows = rows.unique(same, keep="first", maintain_order=True)
    rows = rows.join(names, on="lane", how="left", maintain_order="left")
    rows = rows.with_columns(series=pl.lit(""))
    parts = rows.partition_by("table", as_dict=True, maintain_order=True)
    return {str(key[0]): part for key, part in parts.items()}


def _stream_frame(cases: Sequence[SimulationCase]) -> pl.DataFrame:
    """Return what each stream's rows are named by, one row per stream of all lanes."""
    rows = [
        (h, stream.window_ms, *_stream_words(stream.metric, case.workload.namespace))
        for h, case in enumerate(cases)
        for stream in streams_of(case)
    ]
    texts = ("table", "metric", "selector", "kind", "name", "container", "resource")
    schema = {"lane": _INT, "window_ms": _INT, **dict.fromkeys(texts, _TEXT)}
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(
        stream=pl.int_range(pl.len(), dtype=_INT)
    )


def _stream_words(metric: MetricSpec, namespace: str) -> tuple[str | None, ...]:
    """Return table, metric, selector, kind, name, container and resource of a stream's rows."""
    source = source_of(metric, namespace)
    if source is not None:
        kind, name = source[1:3] if metric.object is not None else (None, None)
        return source[0], source[-2], source[-1], kind, name, None, None
    if metric.pods is not None:
        return "pod_custom_metrics", *_words_of(metric.pods.metric), None, None, None, None
    container = metric.container_resource.container if metric.container_resource else None
    member = metric.container_resource or metric.resource
    resource = member.name if member is not None else None
    return "pod_metrics", None, None, None, None, container, resource


def _container_rows(usage: pl.DataFrame, cases: Sequence[SimulationCase]) -> pl.DataFrame:
    """Return one row per pod, container and time with both resources."""
    containers = pl.DataFrame(
        [(h, name, k == 0) for h, c in enumerate(cases) for k, name in enumerate(containers_of(c))],
        schema={"lane": _INT, "own": _TEXT, "first": pl.Boolean()},
        orient="row",
    )
    spread = usage.join(containers, on="lane", how="left", maintain_order="left")
    # A value of the pod as a whole is the first container's, the others use nothing of it.
    whole = pl.col("container").is_null()
    spread = spread.filter(whole | (pl.col("container") == pl.col("own"))).with_columns(
        value_milli=pl.when(whole & ~pl.col("first")).then(0).otherwise("value_milli")
    )
    of = {
        resource: pl.col("value_milli").filter(pl.col("resource") == resource).first()
        for resource in ("cpu", "memory")
    }
    keys = ["lane", "number", "own", "ts"]
    grouped = spread.group_by(keys, maintain_order=True).agg(
        pl.col("fetched_at", "window_ms").first(),
        cpu_milli=of["cpu"],
        memory_bytes=of["memory"] // _MILLI_PER_BYTE,
    )
    return grouped.rename({"own": "container"})


def conform(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame with a table's columns and types; those it has not are null."""
    found = []
    for column, dtype in empty_frame(name).schema.items():
        if column in frame.columns:
            whole = dtype == pl.Datetime("ms", "UTC")
            value = pl.col(column).cast(_INT) if whole else pl.col(column)
            found.append(value.cast(dtype))
        else:
            found.append(pl.lit(None, dtype=dtype).alias(column))
    return frame.select(found)
