"""What was seen of a simulated run as the tables of a history."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

import hpabatch
from hpabatch.arrays.plant import NEVER_MS
from hpabatch.arrays.specs import lane_streams, stream_keys
from hpabatch.engine.simulate import SimulationCase
from hpabatch.history.schema import TABLES, empty_frame
from hpabatch.model.config import ControllerFlags
from hpabatch.model.encode import spec_to_json
from hpabatch.model.hpa import HPA, HPASpec, MetricIdentifier, MetricSpec
from hpabatch.model.plant import Pipeline, signal_name
from hpabatch.model.selectors import selector_from_object

CONTAINER: Final = "main"
MARK: Final = ("hpabatch", "simulated-run")
"""Namespace and name of a pod of no HPA: its samples are at a replay's ends, the first and the last
tick, and no table of pods is without rows.
"""

_INT: Final = pl.Int64()
_TEXT: Final = pl.String()


@dataclass(frozen=True, slots=True)
class Trace:
    """What was seen of a run; all columns int64, times ms.

    pods: `lane`, `pod` (its number) and a pod's life (`arrays.plant.COHORT`); of each pod rows for
        every pair of instants of its readiness, the latest last.
    vanished: `lane`, `pod`, `ts`: at which tick a pod was not there any more.
    samples: `stream` (over all lanes), `pod`, `ts`, `value`, `fetched_at`.
    totals: `stream`, `ts`, `value`, `fetched_at`.
    scales: `lane`, `ts`, `spec_replicas`, `status_replicas`: at every tick.
    """

    pods: pl.DataFrame
    vanished: pl.DataFrame
    samples: pl.DataFrame
    totals: pl.DataFrame
    scales: pl.DataFrame


@dataclass(frozen=True, slots=True)
class Stream:
    """What a stream of a lane measures; `window_ms` is that of its samples."""

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
        pipeline = plant.pipelines.get(signal.api) if signal is not None else None
        found.append(Stream(by_key[key], (pipeline or Pipeline()).window_ms))
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


def tables_of(trace: Trace, cases: Sequence[SimulationCase]) -> dict[str, pl.DataFrame]:
    """Return the tables of a run, with the columns of `history.schema`."""
    names = _names(cases)
    pods = _identified(trace.pods, names)
    lives = _lives(pods, trace.vanished)
    found = {
        "pods": lives,
        "pod_states": _states(pods),
        "pod_requests": _requests(lives, cases),
        **_samples(trace, cases, names),
    }
    marks = _marks(trace.scales["ts"], cases[0].workload.cluster)
    found |= {name: pl.concat([found[name], marks[name]], how="diagonal") for name in marks}
    found |= {
        "scales": _scales(trace.scales, names),
        "hpas": pl.concat([_hpas(case) for case in cases]),
        "controller": _controller(cases),
    }
    return {name: _conform(name, frame) for name, frame in found.items()}


def _names(cases: Sequence[SimulationCase]) -> pl.DataFrame:
    """Return what rows are named by, one row per lane."""
    rows = []
    for h, case in enumerate(cases):
        w, target = case.workload, case.periods[-1].spec.scale_target_ref
        rows.append((h, w.cluster, w.namespace, target.name, target.kind, f"workload-{h}"))
    names = ("cluster", "namespace", "target", "target_kind", "app")
    return pl.DataFrame(rows, schema={"lane": _INT, **dict.fromkeys(names, _TEXT)}, orient="row")


def _identified(frame: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """Return rows of pods with their names and uids beside their numbers."""
    joined = frame.join(names, on="lane", how="left", maintain_order="left")
    number = pl.col("pod").cast(_TEXT).str.zfill(5)
    joined = joined.with_columns(number="pod", pod=pl.concat_str("target", number, separator="-"))
    uid = pl.concat_str("namespace", "target_kind", "pod", separator="/")
    return joined.with_columns(uid=uid)


# ---- pods and scales


def _lives(pods: pl.DataFrame, vanished: pl.DataFrame) -> pl.DataFrame:
    """Return the lives of pods, one row each, as they were seen last."""
    last = pods.unique(["lane", "number"], keep="last", maintain_order=True).join(
        vanished.rename({"pod": "number", "ts": "missed"}),
        on=["lane", "number"],
        how="left",
        maintain_order="left",
    )
    # What made an end of a pod between two ticks was never seen: it was gone at the second.
    ends = [
        pl.min_horizontal(_unless_never(column), "missed").alias(name)
        for column, name in (("deletion_ms", "deletion_requested"), ("gone_ms", "gone"))
    ]
    return last.with_columns(
        *ends,
        labels=pl.concat_str(pl.lit('{"app":"'), "app", pl.lit('"}')),
        created="created_ms",
        started=pl.when(pl.col("scheduled") != 0).then("started_ms"),
    )


def _unless_never(column: str) -> pl.Expr:
    return pl.when(pl.col(column) < NEVER_MS).then(column)


def _states(pods: pl.DataFrame) -> pl.DataFrame:
    """Return the changes of readiness: not ready since `unready_ms`, ready since `ready_ms`."""
    pairs = pods.filter(pl.col("scheduled") != 0)
    keys = ["cluster", "namespace", "target", "uid"]
    # Of pods that were always ready both instants are one: then only the later counts.
    before = pairs.filter(pl.col("unready_ms") < pl.col("ready_ms")).select(
        *keys, ts="unready_ms", ready=pl.lit("False"), last_transition="unready_ms"
    )
    after = pairs.select(*keys, ts="ready_ms", ready=pl.lit("True"), last_transition="ready_ms")
    return pl.concat([before, after]).with_columns(phase=pl.lit("Running"))


def _requests(lives: pl.DataFrame, cases: Sequence[SimulationCase]) -> pl.DataFrame:
    rows = [
        (h, container, index, *_requested(case, container))
        for h, case in enumerate(cases)
        for index, container in enumerate(_containers(case))
    ]
    schema = {
        "lane": _INT,
        "container": _TEXT,
        "index": _INT,
        "cpu_milli": _INT,
        "memory_milli": _INT,
    }
    asked = pl.DataFrame(rows, schema=schema, orient="row")
    joined = lives.join(asked, on="lane", how="inner", maintain_order="left")
    return joined.with_columns(kind=pl.lit("app"), valid_from="created")


def _containers(case: SimulationCase) -> list[str]:
    """Return the containers of a workload's pods: those that a metric names, else one."""
    names = [name.split("/") for name in case.workload.plant.signals]
    return list(dict.fromkeys(n[1] for n in names if n[0] == "container")) or [CONTAINER]


def _requested(case: SimulationCase, container: str) -> tuple[int | None, int | None]:
    """Return (cpu, memory) requests of a container in milli.

    What is given of the pod as a whole is the first container's, the others ask for 0 of it.
    """
    first = _containers(case)[0] == container
    found: list[int | None] = []
    for resource in ("cpu", "memory"):
        signals = case.workload.plant.signals
        own = signals.get(f"container/{container}/{resource}")
        whole = signals.get(f"resource/{resource}")
        if own is not None:
            found.append(own.request_milli)
        elif whole is not None:
            found.append(whole.request_milli if first else 0)
        else:
            found.append(None)
    return found[0], found[1]


def _scales(scales: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """Return the changes of sizes; what a tick finds changed happened after the tick before."""
    before = pl.col("ts").shift(1).over("lane")
    changed = pl.col("spec_replicas", "status_replicas").diff().over("lane") != 0
    return (
        scales.with_columns(before=before, changed=pl.any_horizontal(changed))
        .filter(pl.col("before").is_null() | pl.col("changed"))
        .with_columns(ts=pl.coalesce(pl.col("before") + 1, "ts"))
        .join(names, on="lane", how="left", maintain_order="left")
        .with_columns(selector=pl.concat_str(pl.lit("app="), "app"))
    )


# ---- HPAs and their controller


def _hpas(case: SimulationCase) -> pl.DataFrame:
    """Return an HPA's specs; what was in force at the start is so from then on."""
    w = case.workload
    specs: dict[int, HPASpec] = {case.start_ms: case.periods[0].spec}
    for period in case.periods:
        specs[max(period.from_ms, case.start_ms)] = period.spec
    since = sorted(specs)
    texts = [spec_to_json(HPA(name=w.hpa, namespace=w.namespace, spec=specs[s])) for s in since]
    return pl.DataFrame(
        {
            "cluster": w.cluster,
            "namespace": w.namespace,
            "name": w.hpa,
            "uid": f"{w.namespace}/{w.hpa}",
            "valid_from": since,
            "valid_to": pl.Series([*since[1:], None], dtype=_INT),
            "spec": texts,
        }
    )


def _controller(cases: Sequence[SimulationCase]) -> pl.DataFrame:
    clusters = sorted({c.workload.cluster for c in cases})
    return pl.DataFrame(
        {
            "cluster": clusters,
            "ts": cases[0].start_ms,
            "event": "observed",
            "version": f"simulated by hpabatch {hpabatch.__version__}",
            "flags": json.dumps(_flag_words(cases[0].flags, cases[0].period_ms)),
        }
    )


def _flag_words(flags: ControllerFlags, period_ms: int) -> dict[str, str]:
    prefix = "horizontal-pod-autoscaler-"
    return {
        f"{prefix}sync-period": f"{period_ms}ms",
        f"{prefix}cpu-initialization-period": f"{flags.cpu_initialization_period_ms}ms",
        f"{prefix}initial-readiness-delay": f"{flags.initial_readiness_delay_ms}ms",
        f"{prefix}downscale-stabilization": f"{flags.downscale_stabilization_ms}ms",
        f"{prefix}tolerance": repr(flags.tolerance),
    }


# ---- samples


def _samples(
    trace: Trace, cases: Sequence[SimulationCase], names: pl.DataFrame
) -> dict[str, pl.DataFrame]:
    """Return the sample tables: `pod_metrics`, and the others where they have rows."""
    streams = _stream_frame(cases)
    rows = trace.samples.join(streams, on="stream", how="left", maintain_order="left")
    rows = _identified(rows, names)
    custom = rows.filter(pl.col("table") == "pod_custom_metrics").rename({"value": "value_milli"})
    usage = rows.filter(pl.col("table") == "pod_metrics")
    totals = trace.totals.join(streams, on="stream", how="left", maintain_order="left")
    totals = totals.join(names, on="lane", how="left", maintain_order="left")
    totals = totals.rename({"value": "value_milli"})
    series = {
        name: totals.filter(pl.col("table") == name).with_columns(series=pl.lit(""))
        for name in ("object_metrics", "external_metrics")
    }
    others = {"pod_custom_metrics": custom, **series}
    return {
        "pod_metrics": _container_rows(usage, cases),
        **{name: frame for name, frame in others.items() if not frame.is_empty()},
    }


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
        [(h, name, k == 0) for h, c in enumerate(cases) for k, name in enumerate(_containers(c))],
        schema={"lane": _INT, "own": _TEXT, "first": pl.Boolean()},
        orient="row",
    )
    spread = usage.join(containers, on="lane", how="left", maintain_order="left")
    # A value of the pod as a whole is the first container's, the others use nothing of it.
    whole = pl.col("container").is_null()
    spread = spread.filter(whole | (pl.col("container") == pl.col("own"))).with_columns(
        value=pl.when(whole & ~pl.col("first")).then(0).otherwise("value")
    )
    keys = ["cluster", "namespace", "target", "uid", "pod", "own", "ts"]
    of = {
        resource: pl.col("value").filter(pl.col("resource") == resource).first()
        for resource in ("cpu", "memory")
    }
    grouped = spread.group_by(keys, maintain_order=True).agg(
        pl.col("fetched_at").min(),
        pl.col("window_ms").first(),
        cpu_milli=of["cpu"],
        memory_bytes=of["memory"] // 1000,
    )
    return grouped.rename({"own": "container"})


def _marks(ticks: pl.Series, cluster: str) -> dict[str, pl.DataFrame]:
    """Return the rows of the pod that marks the first and the last tick."""
    namespace, name = MARK
    first, last = pl.select(first=ticks.min(), last=ticks.max()).row(0)
    pod = {"cluster": cluster, "namespace": namespace, "uid": name}
    since = pl.DataFrame({**pod, "pod": name, "created": first, "started": first})
    times = [first, last] if first < last else [first]
    samples = pl.DataFrame({"ts": times, "fetched_at": times}).with_columns(
        pl.lit(value).alias(column)
        for column, value in {**pod, "pod": name, "container": CONTAINER}.items()
    )
    request = pl.DataFrame({**pod, "container": CONTAINER, "kind": "app", "valid_from": first})
    state = {"ts": first, "phase": "Running", "ready": "True", "last_transition": first}
    return {
        "pods": since.with_columns(labels=pl.lit("{}")),
        "pod_states": pl.DataFrame({**pod, **state}),
        "pod_requests": request.with_columns(index=pl.lit(0, dtype=_INT)),
        "pod_metrics": samples,
    }


def _conform(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame with a table's columns and types; those it has not are null.

    Metrics that differ in no column of the table (an object under two API versions) are measured
    alike, so a key that comes twice says the same.
    """
    found = []
    for column, dtype in empty_frame(name).schema.items():
        if column in frame.columns:
            whole = dtype == pl.Datetime("ms", "UTC")
            value = pl.col(column).cast(_INT) if whole else pl.col(column)
            found.append(value.cast(dtype))
        else:
            found.append(pl.lit(None, dtype=dtype).alias(column))
    return frame.select(found).unique(TABLES[name].key, keep="first", maintain_order=True)
