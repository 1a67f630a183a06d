"""Simulated runs as histories, whose replay decides the same again.

Every pod is its own here. What the rules saw at each tick is noted while it runs
(`kernels.trace`), as many ticks at once as the logs have room for; samples that no tick saw (a
scrape between two others) are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

import hpabatch
from hpabatch.engine.simulate.case import SimulationCase
from hpabatch.history.provenance import RUN
from hpabatch.history.schema import SIMULATED, empty_frame
from hpabatch.kernels.simulate import simulate_fleet
from hpabatch.layout.plant import (
    LANE_FULL,
    NEVER_MS,
    TRACE_COLUMNS,
    TRACED_NOTE,
    TRACED_POD,
    TRACED_SAMPLE,
    TRACED_SCALE,
    TRACED_TOTAL,
)
from hpabatch.model.objects.encode import spec_to_json
from hpabatch.model.objects.hpa import HPA, HPASpec, MetricIdentifier, MetricSpec
from hpabatch.model.plant import Pipeline, signal_name
from hpabatch.model.selectors import selector_from_object
from hpabatch.model.versions import GATES, PROFILES, Profile
from hpabatch.packing.simulation import SimulatedFleet, pack_simulation, tick_rows
from hpabatch.packing.specs import lane_streams, stream_keys

_FIRST_COHORTS: Final = 64


@dataclass(frozen=True, slots=True)
class ExportedRun:
    """The tables of a history, and the arguments with which a replay decides the same again."""

    tables: dict[str, pl.DataFrame]
    arguments: tuple[str, ...]


def export_run(cases: Sequence[SimulationCase], profile: Profile, seed: int = 0) -> ExportedRun:
    """Run cases and return the run as the tables of a history.

    All cases share start, steps, sync period, flags and their samples' max_age; each HPA comes
    once, and so does each target and each series. The history's clusters and names are those of the
    workloads.

    Raises:
        ValueError: a metric has no signal in its workload's plant.
    """
    trace, cohorts = None, _FIRST_COHORTS
    while trace is None:
        trace = _run(cases, profile, seed, cohorts)
        cohorts *= 4
    first, plain = cases[0], PROFILES[profile.name]
    gates = ",".join(
        f"{name}={str(getattr(profile, gate.field)).lower()}"
        for name, gate in GATES.items()
        if getattr(profile, gate.field) != getattr(plain, gate.field)
    )
    arguments = {
        "--k8s": profile.name,
        "--feature-gates": gates,
        "--events": "decided",
        "--phase": f"{first.start_ms % first.period_ms}ms",
        "--sync-period": f"{first.period_ms}ms",
        "--max-age": f"{_max_age_ms(cases)}ms",
    }
    words = tuple(word for pair in arguments.items() if pair[1] for word in pair)
    return ExportedRun(tables_of(trace, cases, profile), words)


def _run(
    cases: Sequence[SimulationCase], profile: Profile, seed: int, cohorts: int
) -> Trace | None:
    """Run all ticks and return what was seen; None: a lane's pods did not fit."""
    lanes = [case.lane(individual=True) for case in cases]
    f = pack_simulation(lanes, cases[0].flags, profile, seed, cohorts, trace_rows=LOG_ROWS)
    tracer, steps = Tracer(f), cases[0].steps
    ticks = tracer.ticks_at_once()
    for t in range(0, steps, ticks):
        simulate_fleet(f.simulation, f.fleet, f.memory, t + ticks, f.results)
        if (f.simulation.states.status == LANE_FULL).any():
            return None
        tracer.take()
    return tracer.trace()


def _max_age_ms(cases: Sequence[SimulationCase]) -> int:
    """Return the max_age of every API that is asked; a replay knows one."""
    plants = [case.workload.plant for case in cases]
    used = {p.pipelines.get(s.api, Pipeline()) for p in plants for s in p.signals.values()}
    (age_ms,) = {pipeline.max_age_ms for pipeline in used} or {Pipeline().max_age_ms}
    return age_ms


# ---- tables


_INT: Final = pl.Int64()
_TEXT: Final = pl.String()


def tables_of(
    trace: Trace, cases: Sequence[SimulationCase], profile: Profile
) -> dict[str, pl.DataFrame]:
    """Return the tables of a run, with the columns of `history.schema`."""
    names = _names(cases)
    pods = _identified(trace.pods, names)
    lives = _lives(pods, trace.vanished)
    found = {
        "pods": lives,
        "pod_states": _states(pods),
        "pod_requests": _requests(lives, cases),
        **pod_samples(trace.samples, cases, lives),
        "scales": _scales(trace.scales, names, cases),
        "hpas": pl.concat([_hpas(case) for case in cases]),
        "controller": _controller(cases, profile),
        "provenance": _provenance(cases),
        **total_samples(trace.totals, cases, names),
    }
    return {name: conform(name, frame) for name, frame in found.items()}


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
        pl.min_horizontal(pl.when(pl.col(column) < NEVER_MS).then(column), "missed").alias(name)
        for column, name in (("deletion_ms", "deletion_requested"), ("gone_ms", "gone"))
    ]
    return last.with_columns(
        *ends,
        labels=pl.concat_str(pl.lit('{"app":"'), "app", pl.lit('"}')),
        created="created_ms",
        started=pl.when(pl.col("scheduled") != 0).then("started_ms"),
    )


def _states(pods: pl.DataFrame) -> pl.DataFrame:
    """Return the changes of readiness: not ready since `unready_ms`, ready since `ready_ms`."""
    pairs = pods.filter(pl.col("scheduled") != 0)
    keys = ["cluster", "namespace", "target", "uid"]
    # Of pods that were always ready both instants are one: then only the later counts.
    before = pairs.filter(pl.col("unready_ms") < pl.col("ready_ms")).select(
        *keys, ts="unready_ms", ready=pl.lit("False"), last_transition="unready_ms"
    )
    after = pairs.select(*keys, ts="ready_ms", ready=pl.lit("True"), last_transition="ready_ms")
    both = pl.concat([before, after]).unique(maintain_order=True)
    return both.with_columns(phase=pl.lit("Running"))


def _requests(lives: pl.DataFrame, cases: Sequence[SimulationCase]) -> pl.DataFrame:
    rows = [
        (h, container, index, *_requested(case, container))
        for h, case in enumerate(cases)
        for index, container in enumerate(containers_of(case))
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


def _requested(case: SimulationCase, container: str) -> tuple[int | None, int | None]:
    """Return (cpu, memory) requests of a container in milli.

    What is given of the pod as a whole is the first container's, the others ask for 0 of it.
    """
    first = containers_of(case)[0] == container
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


def _scales(
    scales: pl.DataFrame, names: pl.DataFrame, cases: Sequence[SimulationCase]
) -> pl.DataFrame:
    """Return the changes of sizes; what a tick finds changed happened after the tick before."""
    first_ms, period_ms = cases[0].start_ms, cases[0].period_ms
    since = pl.when(pl.col("ts") > first_ms).then(pl.col("ts") - period_ms + 1).otherwise("ts")
    return (
        scales.with_columns(ts=since)
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


def _controller(cases: Sequence[SimulationCase], profile: Profile) -> pl.DataFrame:
    flags, period_ms = cases[0].flags, cases[0].period_ms
    words = {
        "sync-period": f"{period_ms}ms",
        "cpu-initialization-period": f"{flags.cpu_initialization_period_ms}ms",
        "initial-readiness-delay": f"{flags.initial_readiness_delay_ms}ms",
        "downscale-stabilization": f"{flags.downscale_stabilization_ms}ms",
        "tolerance": repr(flags.tolerance),
    }
    named = {f"horizontal-pod-autoscaler-{name}": text for name, text in words.items()}
    return pl.DataFrame(
        {
            "cluster": sorted({c.workload.cluster for c in cases}),
            "ts": cases[0].start_ms,
            "event": "observed",
            "version": profile.name,
            "flags": json.dumps(named),
        }
    )


def _provenance(cases: Sequence[SimulationCase]) -> pl.DataFrame:
    """Return the time that the run covers: a replay decides from its first tick to its last."""
    case = cases[0]
    return pl.DataFrame(
        {
            "cluster": sorted({c.workload.cluster for c in cases}),
            "namespace": "",
            "name": "",
            "subject": RUN,
            "valid_from": case.start_ms,
            "valid_to": case.start_ms + (case.steps - 1) * case.period_ms + 1,
            "method": SIMULATED,
            "detail": f"hpabatch {hpabatch.__version__}",
        }
    )


# ---- samples


CONTAINER: Final = "main"
_MILLI_PER_BYTE: Final = 1000


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
    samples: pl.DataFrame, cases: Sequence[SimulationCase], lives: pl.DataFrame
) -> dict[str, pl.DataFrame]:
    """Return `pod_metrics`, and `pod_custom_metrics` if it has rows."""
    rows = samples.rename({"pod": "number", "value": "value_milli"}).join(
        _stream_frame(cases), on="stream", how="left", maintain_order="left"
    )
    keys = ["cluster", "namespace", "target", "pod", "uid"]
    # Pods by the rank of their names: to sort a million rows by the names takes 4 s.
    names = lives.select("lane", "number", *keys).sort(keys).with_row_index("rank")
    same = ["lane", "number", "metric", "selector", "ts"]
    usage, custom = (
        frame.join(names, on=["lane", "number"], how="left", maintain_order="left")
        for frame in (
            _container_rows(rows.filter(pl.col("table") == "pod_metrics"), cases),
            rows.filter(pl.col("table") == "pod_custom_metrics").unique(
                same, keep="first", maintain_order=True
            ),
        )
    )
    found = {"pod_metrics": usage.sort("rank", "ts", "container")}
    return found if custom.is_empty() else found | {"pod_custom_metrics": custom}


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


# ---- what was seen while it ran


LOG_ROWS = 2_000_000
"""Rows of all logs together: 192 MB if every tick fills its room, which few do by a tenth."""
_PODS: Final = ("pod", "created_ms", "scheduled", "started_ms", "ready_ms", "unready_ms",
                "deletion_ms", "gone_ms", "startup")  # fmt: skip
# What follows the kind of a row and the tick's time, as `kernels.trace` writes it.
_ROWS: Final = {
    TRACED_POD: ("lane", "ts", *_PODS, "note"),
    TRACED_NOTE: ("lane", "ts", "note"),
    TRACED_SAMPLE: ("lane", "fetched_at", "stream", "pod", "ts", "value"),
    TRACED_TOTAL: ("lane", "fetched_at", "stream", "ts", "value"),
    TRACED_SCALE: ("lane", "ts", "spec_replicas", "status_replicas"),
}
_SAMPLE: Final = ("stream", "pod", "ts", "value", "fetched_at")
_TOTAL: Final = ("stream", "ts", "value", "fetched_at")
_SECOND_MS: Final = 1000


@dataclass(frozen=True, slots=True)
class Trace:
    """Observations of a run; all columns int64, times ms.

    pods: `lane`, `pod` (its number) and a pod's life (`layout.plant.COHORT`); of each pod rows for
        every pair of instants of its readiness, the latest last.
    vanished: `lane`, `pod`, `ts`: at which tick a pod was not there any more.
    samples: `stream` (over all lanes), `pod`, `ts`, `value`, `fetched_at`, by tick.
    totals: `stream`, `ts`, `value`, `fetched_at`.
    scales: `lane`, `ts`, `spec_replicas`, `status_replicas`: at the first tick, and at those that
        found another size.
    """

    pods: pl.DataFrame
    vanished: pl.DataFrame
    samples: pl.DataFrame
    totals: pl.DataFrame
    scales: pl.DataFrame


class Tracer:
    """Takes the rows out of the logs of a fleet of individual pods."""

    def __init__(self, fleet: SimulatedFleet) -> None:
        """Take a fleet that has not begun and has logs."""
        self.fleet = fleet
        self.kept: dict[int, list[pl.DataFrame]] = {what: [] for what in _ROWS}

    def ticks_at_once(self) -> int:
        """Return how many ticks fit into every lane's log."""
        sim, lanes = self.fleet.simulation, self.fleet.fleet.lanes
        streams = np.array(lanes["last_stream"] - lanes["first_stream"])
        rooms = np.array(sim.lanes["cohort_capacity"])
        most = max(map(tick_rows, rooms.tolist(), streams.tolist()))
        return int(sim.trace_log.shape[0] // sim.traces.size // most)

    def take(self) -> None:
        """Take out what the lanes have noted; all of them are at the same tick."""
        for what, frame in self._frames():
            self.kept[what].append(frame)
        # Of each pod what it came to with each pair of instants of its readiness.
        pods, same = pl.concat(self.kept[TRACED_POD]), ["lane", "pod", "unready_ms", "ready_ms"]
        self.kept[TRACED_POD] = [pods.unique(same, keep="last", maintain_order=True)]

    def _frames(self) -> Iterator[tuple[int, pl.DataFrame]]:
        """Yield the rows of each kind, in order of ticks and within one of lanes."""
        sim = self.fleet.simulation
        logs = sim.trace_log.reshape(sim.traces.size, -1, TRACE_COLUMNS)
        counts = np.array(sim.traces["rows"])
        rows = np.concatenate([log[:count] for log, count in zip(logs, counts, strict=True)])
        lane = np.repeat(np.arange(counts.size), counts)
        sim.traces["rows"] = 0
        for what, names in _ROWS.items():
            at = np.flatnonzero(rows[:, 0] == what)
            at = at[np.argsort(rows[at, 1], kind="stable")]
            columns = [lane[at], *(rows[at, k + 1] for k in range(len(names) - 1))]
            yield what, pl.DataFrame(dict(zip(names, columns, strict=True)))

    def trace(self) -> Trace:
        """Return what was noted."""
        pods = self._pods()
        last = pods.unique(["lane", "pod"], keep="last", maintain_order=True)
        vanished = last.filter(pl.col("end") < NEVER_MS)
        pods = pods.select("lane", *_PODS)
        return Trace(
            pods=pl.concat([self._as_they_began(pods), pods]),
            vanished=vanished.select("lane", "pod", ts="end"),
            samples=pl.concat(self.kept[TRACED_SAMPLE]).select(_SAMPLE),
            totals=pl.concat(self.kept[TRACED_TOTAL]).select(_TOTAL),
            scales=pl.concat(self.kept[TRACED_SCALE]),
        )

    def _pods(self) -> pl.DataFrame:
        """Return the pods in the order in which they changed or went, those that stay last.

        `end` is the tick of the first note of the lane that does not say the same of the pod.
        """
        next_notes = pl.concat(self.kept[TRACED_NOTE]).select(
            "lane", end="ts", note=pl.col("note") - 1
        )
        pods = self.kept[TRACED_POD][0].join(
            next_notes, on=["lane", "note"], how="left", maintain_order="left"
        )
        pods = pods.with_columns(pl.col("end").fill_null(NEVER_MS))
        return pods.sort("end", "lane", maintain_order=True)

    def _as_they_began(self, pods: pl.DataFrame) -> pl.DataFrame:
        """Return the scheduled pods as they were before any failure.

        Of one that failed in its first step in service nothing says afterwards that its tick saw it
        ready.
        """
        sim = self.fleet.simulation
        last = pods.filter(pl.col("scheduled") != 0)
        pods = last.unique(["lane", "pod"], keep="last", maintain_order=True)
        lane, started_ms = pods["lane"].to_numpy(), pods["started_ms"].to_numpy()
        workload = sim.lanes["workload"][lane]
        startup = sim.workloads["first_startup"][workload] + pods["startup"].to_numpy()
        ready_ms = started_ms + sim.startups["starting_ms"][startup]
        ready_ms = -(-ready_ms // _SECOND_MS) * _SECOND_MS
        at_start = pods["pod"].to_numpy() < sim.lanes["initial"][lane]
        return pods.with_columns(
            unready_ms="started_ms", ready_ms=pl.Series(np.where(at_start, started_ms, ready_ms))
        )
