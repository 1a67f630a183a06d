"""A simulated run as a history: replayed with its own decisions, it decides the same again.

Every pod is its own here. The run is made tick by tick, and what the rules saw at each tick is
noted; what nobody ever saw (a scrape between two others) is left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

import hpabatch
from hpabatch.arrays.layout import I64
from hpabatch.arrays.plant import (
    LANE_FULL,
    NEVER_MS,
    PIPELINES,
    SIGNAL_BACKLOG,
    SIGNAL_TOTAL,
)
from hpabatch.arrays.simulation import SimulatedFleet, pack_simulation
from hpabatch.arrays.specs import lane_streams, stream_keys
from hpabatch.engine.simulate import SimulationCase
from hpabatch.errors import UsageError
from hpabatch.history.schema import empty_frame
from hpabatch.kernels.simulate import simulate_fleet
from hpabatch.model.config import ControllerFlags, Profile
from hpabatch.model.encode import spec_to_json
from hpabatch.model.hpa import HPA, HPASpec, MetricSpec
from hpabatch.model.selectors import selector_from_object

CONTAINER: Final = "main"
_FIRST_COHORTS: Final = 64
_PODS: Final = ("weight", "pod", "created_ms", "scheduled", "started_ms", "ready_ms", "unready_ms",
                "deletion_ms", "gone_ms")  # fmt: skip

Progress = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class ExportedRun:
    """The tables of a history, and the arguments with which a replay decides the same again."""

    tables: dict[str, pl.DataFrame]
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Tick:
    """What was seen at a tick, row by row over all lanes: pods (n,), totals (s,) and scales."""

    now_ms: I64
    lane: I64
    pods: dict[str, I64]
    shown: I64
    present: dict[int, I64]
    values: dict[int, I64]
    sample_ms: dict[int, I64]
    totals: I64
    total_ms: I64
    total_shown: I64
    replicas: I64
    status_replicas: I64


def export_run(
    cases: Sequence[SimulationCase],
    profile: Profile,
    seed: int = 0,
    progress: Progress | None = None,
) -> ExportedRun:
    """Run cases and return the run as the tables of a history.

    All cases must share start, sync period and flags, and each HPA may come once; the history's
    clusters and names are those of the workloads.

    Raises:
        UsageError: the cases do not fit one history.
        ValueError: a metric has no signal in its workload's plant.
    """
    _check(cases)
    cohorts = _FIRST_COHORTS
    while True:
        recorder = _Recorder(cases, profile, seed, cohorts)
        if recorder.run(progress):
            break
        cohorts *= 4
    tables = recorder.tables()
    first = cases[0]
    pipelines = [p for c in cases for p in c.workload.plant.pipelines.values()]
    max_age_ms = max((p.max_age_ms for p in pipelines), default=60_000)
    arguments = (
        "--events",
        "decided",
        "--phase",
        f"{first.start_ms % first.period_ms}ms",
        "--sync-period",
        f"{first.period_ms}ms",
        "--max-age",
        f"{max_age_ms}ms",
    )
    return ExportedRun(tables, arguments)


def _check(cases: Sequence[SimulationCase]) -> None:
    if not cases:
        raise UsageError("there is no simulated HPA to export")
    for name in ("start_ms", "period_ms", "steps", "flags"):
        if len({getattr(case, name) for case in cases}) > 1:
            raise UsageError(
                f"the simulated HPAs differ in {name}, which one history cannot hold; export those "
                "that agree, one by one with --where"
            )
    ages = {p.max_age_ms for c in cases for p in c.workload.plant.pipelines.values()}
    if len(ages) > 1:
        raise UsageError(
            "the pipelines differ in max_age, of which a replay knows one; give one in the plant "
            "file"
        )
    keys = [(c.workload.cluster, c.workload.namespace, c.workload.hpa) for c in cases]
    if len(set(keys)) < len(keys):
        raise UsageError("an HPA is simulated under several settings; export one of them")
    targets = [_target(case) for case in cases]
    shared = next((t for t in targets if targets.count(t) > 1), None)
    if shared is not None:
        raise UsageError(
            f"several of the HPAs scale {shared[2]} {shared[1]}/{shared[3]}, whose pods one history "
            "holds once; export one of them with --where"
        )
    for case in cases:
        _check_containers(case)


def _target(case: SimulationCase) -> tuple[str, str, str, str]:
    ref = case.periods[-1].spec.scale_target_ref
    return case.workload.cluster, case.workload.namespace, ref.kind, ref.name


def _check_containers(case: SimulationCase) -> None:
    """Refuse a resource that is given of the pod and of a container: the rest is not known."""
    names = [name.split("/") for name in case.workload.plant.signals]
    whole = {parts[1] for parts in names if parts[0] == "resource"}
    for parts in names:
        if parts[0] == "container" and parts[-1] in whole:
            raise UsageError(
                f"{case.workload.namespace}/{case.workload.hpa}: {parts[-1]} is simulated of the "
                f"pod and of container {parts[1]} apart, which samples cannot tell; export the "
                "others with --where"
            )


class _Recorder:
    """Runs lanes tick by tick and keeps what was seen."""

    def __init__(
        self, cases: Sequence[SimulationCase], profile: Profile, seed: int, cohorts: int
    ) -> None:
        self.cases = cases
        lanes = [case.lane(individual=True) for case in cases]
        self.fleet: SimulatedFleet = pack_simulation(lanes, cases[0].flags, profile, seed, cohorts)
        self.ticks: list[_Tick] = []
        first = self.fleet.fleet.lanes.first_stream
        self.streams = [
            list(range(int(first[h]), int(self.fleet.fleet.lanes.last_stream[h])))
            for h in range(len(cases))
        ]
        self.most_streams = max(len(s) for s in self.streams)

    def run(self, progress: Progress | None) -> bool:
        """Run all ticks; False: a lane's pods did not fit."""
        f, steps = self.fleet, self.cases[0].steps
        for t in range(steps):
            simulate_fleet(f.simulation, f.fleet, f.memory, t + 1, f.results)
            if (f.simulation.states.status == LANE_FULL).any():
                return False
            self.ticks.append(self._look())
            if progress is not None and t % 64 == 0:
                progress(t / steps)
        return True

    def _look(self) -> _Tick:
        """Return what this tick's rules saw; pods created since are in the rows, not yet shown."""
        sim, fleet = self.fleet.simulation, self.fleet.fleet
        counts = sim.states.cohorts
        lane = np.repeat(np.arange(counts.size), counts)
        within = np.arange(lane.size) - np.repeat(np.cumsum(counts) - counts, counts)
        rows = sim.lanes.first_cohort[lane] + within
        pods = {name: np.array(sim.cohorts[name][rows], np.int64) for name in _PODS}
        seen = within < (fleet.ticks.last_row - fleet.ticks.first_row)[lane]
        shown = (fleet.row_state[rows] >= 0) & seen
        present, values, sample_ms = {}, {}, {}
        firsts = fleet.lanes.first_stream
        for k in range(self.most_streams):
            has = (fleet.lanes.last_stream - firsts)[lane] > k
            stream = np.where(has, firsts[lane] + k, firsts[lane])
            at = rows + fleet.streams.sample_offset[stream]
            present[k] = (fleet.present[at] != 0) & has & shown
            values[k] = fleet.value_milli[at]
            sample_ms[k] = np.array(fleet.timing.ts_ms[at])
        pipeline = self._total_pipelines()
        return _Tick(
            now_ms=np.array(fleet.ticks.now_ms, np.int64),
            lane=lane,
            pods=pods,
            shown=shown,
            present=present,
            values=values,
            sample_ms=sample_ms,
            totals=fleet.values_milli.copy(),
            total_ms=sim.scrapes.ts_ms[pipeline].copy(),
            total_shown=(fleet.answers.code == 0),
            replicas=np.array(fleet.ticks.replicas, np.int64),
            status_replicas=np.array(fleet.ticks.status_replicas, np.int64),
        )

    def _total_pipelines(self) -> I64:
        """Return per stream the row of its API's scrapes."""
        sim, fleet = self.fleet.simulation, self.fleet.fleet
        lane = np.repeat(
            np.arange(sim.lanes.size), fleet.lanes.last_stream - fleet.lanes.first_stream
        )
        signal = sim.workloads.first_signal[sim.lanes.workload[lane]] + np.maximum(
            sim.stream_signal, 0
        )
        api = sim.signals.pipeline[signal] - sim.workloads.first_pipeline[sim.lanes.workload[lane]]
        return np.asarray(lane * PIPELINES + api, np.int64)

    def tables(self) -> dict[str, pl.DataFrame]:
        """Return the tables of the run."""
        found = {
            "pods": self._pods(),
            "pod_states": self._states(),
            "pod_requests": self._requests(),
            "scales": self._scales(),
            "hpas": pl.concat([_hpas(case) for case in self.cases]),
            "controller": self._controller(),
            **self._samples(),
        }
        return {name: _conform(name, frame) for name, frame in found.items()}

    def _names(self) -> pl.DataFrame:
        """Return what rows are named by, one row per lane."""
        rows = []
        for h, case in enumerate(self.cases):
            w, target = case.workload, case.periods[-1].spec.scale_target_ref
            rows.append((h, w.cluster, w.namespace, target.name, target.kind, w.hpa))
        schema = ["lane", "cluster", "namespace", "target", "target_kind", "hpa"]
        return pl.DataFrame(rows, schema=schema, orient="row")

    def _identified(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return rows of pods with their names and uids instead of numbers."""
        joined = frame.join(self._names(), on="lane", how="left", maintain_order="left")
        number = pl.col("pod").cast(pl.String()).str.zfill(5)
        pod = pl.concat_str("target", number, separator="-")
        return joined.with_columns(
            pod=pod, uid=pl.concat_str("namespace", "target_kind", pod, separator="/")
        )

    def _seen_pods(self) -> pl.DataFrame:
        """Return every pod at every tick, as it was after it."""
        parts = [
            pl.DataFrame({"lane": t.lane, **t.pods, "tick": np.full(t.lane.size, k)})
            for k, t in enumerate(self.ticks)
        ]
        return pl.concat(parts)

    def _pods(self) -> pl.DataFrame:
        last = self._seen_pods().unique(["lane", "pod"], keep="last", maintain_order=True)
        started = pl.when(pl.col("scheduled") != 0).then(pl.col("started_ms"))
        frame = self._identified(last)
        return frame.select(
            "cluster",
            "namespace",
            "target",
            "uid",
            "pod",
            labels=pl.concat_str(
                pl.lit('{"app":"'), "target", pl.lit("-"), "target_kind", pl.lit('"}')
            ),
            created=pl.col("created_ms"),
            started=started,
            deletion_requested=_unless_never("deletion_ms"),
            gone=_unless_never("gone_ms"),
        )

    def _states(self) -> pl.DataFrame:
        """Return the changes of readiness: not ready since `unready_ms`, ready since `ready_ms`."""
        seen = self._seen_pods().filter(pl.col("scheduled") != 0)
        pairs = self._identified(
            seen.unique(["lane", "pod", "unready_ms", "ready_ms"], maintain_order=True)
        )
        keys = ["cluster", "namespace", "target", "uid"]
        # Of pods that were always ready both instants are one: then only the later counts.
        before = pairs.filter(pl.col("unready_ms") < pl.col("ready_ms")).select(
            *keys, ts="unready_ms", ready=pl.lit("False"), last_transition="unready_ms"
        )
        after = pairs.select(*keys, ts="ready_ms", ready=pl.lit("True"), last_transition="ready_ms")
        both = pl.concat([before, after]).filter(pl.col("ts") < NEVER_MS)
        return both.with_columns(phase=pl.lit("Running"))

    def _requests(self) -> pl.DataFrame:
        pods = self._identified(
            self._seen_pods().unique(["lane", "pod"], keep="last", maintain_order=True)
        ).select("lane", "cluster", "namespace", "target", "uid", valid_from="created_ms")
        rows = [
            (h, container, index, *_requested(case, container))
            for h, case in enumerate(self.cases)
            for index, container in enumerate(_containers(case))
        ]
        schema = {
            "lane": pl.Int64(),
            "container": pl.String(),
            "index": pl.Int64(),
            "cpu_milli": pl.Int64(),
            "memory_milli": pl.Int64(),
        }
        asked = pl.DataFrame(rows, schema=schema, orient="row")
        joined = pods.join(asked, on="lane", how="inner", maintain_order="left")
        return joined.drop("lane").with_columns(kind=pl.lit("app"))

    def _scales(self) -> pl.DataFrame:
        size = np.array([t.replicas for t in self.ticks])
        status = np.array([t.status_replicas for t in self.ticks])
        now_ms = np.array([t.now_ms for t in self.ticks])
        changed = np.ones(size.shape, np.bool_)
        changed[1:] = (size[1:] != size[:-1]) | (status[1:] != status[:-1])
        # What a tick finds changed happened after the tick before.
        ts = now_ms.copy()
        ts[1:] = now_ms[:-1] + 1
        t, h = np.nonzero(changed)
        frame = pl.DataFrame(
            {
                "lane": h,
                "ts": ts[t, h],
                "spec_replicas": size[t, h],
                "status_replicas": status[t, h],
            }
        ).join(self._names(), on="lane", how="left", maintain_order="left")
        return frame.select(
            "cluster",
            "namespace",
            "target_kind",
            "target",
            "ts",
            "spec_replicas",
            "status_replicas",
            selector=pl.concat_str(pl.lit("app="), "target", pl.lit("-"), "target_kind"),
        )

    def _controller(self) -> pl.DataFrame:
        case = self.cases[0]
        clusters = sorted({c.workload.cluster for c in self.cases})
        flags = _flag_words(case.flags, case.period_ms)
        return pl.DataFrame(
            {
                "cluster": clusters,
                "ts": [case.start_ms] * len(clusters),
                "event": ["observed"] * len(clusters),
                "version": [f"simulated by hpabatch {hpabatch.__version__}"] * len(clusters),
                "flags": [json.dumps(flags)] * len(clusters),
            }
        )

    def _samples(self) -> dict[str, pl.DataFrame]:
        """Return the sample tables: what was shown at some tick, each sample once."""
        parts: dict[str, list[pl.DataFrame]] = {}
        for h, case in enumerate(self.cases):
            for g, metric in zip(self.streams[h], _metrics_of(case), strict=True):
                if self.fleet.simulation.stream_signal[g] < 0:
                    continue
                table, frame = self._stream(h, g, metric)
                parts.setdefault(table, []).append(frame)
        tables = {name: pl.concat(frames, how="diagonal") for name, frames in parts.items()}
        if "pod_metrics" in tables:
            tables["pod_metrics"] = _container_rows(tables["pod_metrics"], self.cases)
        for name in ("pod_metrics", "pod_custom_metrics"):
            if name in tables:
                tables[name] = self._identified(tables[name]).drop("hpa", "lane", "target_kind")
        marks = self._marks()
        totals = [tables["external_metrics"]] if "external_metrics" in tables else []
        tables["external_metrics"] = pl.concat([*totals, marks], how="diagonal")
        return {name: frame.unique(maintain_order=True) for name, frame in tables.items()}

    def _marks(self) -> pl.DataFrame:
        """Return a series of no HPA that marks the first and the last tick: a replay's ends."""
        first, last = int(self.ticks[0].now_ms[0]), int(self.ticks[-1].now_ms[0])
        times = sorted({first, last})
        cluster = self.cases[0].workload.cluster
        return pl.DataFrame(
            {
                "cluster": cluster,
                "namespace": "hpabatch",
                "metric": "simulated_run",
                "selector": "",
                "series": "",
                "ts": times,
                "value_milli": 0,
                "fetched_at": times,
            }
        )

    def _stream(self, h: int, g: int, metric: MetricSpec) -> tuple[str, pl.DataFrame]:
        """Return the table of one stream of a lane and the samples that were shown."""
        sim, k = self.fleet.simulation, g - self.streams[h][0]
        kind = sim.signals.kind[
            sim.workloads.first_signal[sim.lanes.workload[h]] + sim.stream_signal[g]
        ]
        if kind in (SIGNAL_TOTAL, SIGNAL_BACKLOG):
            return self._total_rows(h, g, metric)
        chosen = [np.flatnonzero(t.present[k] & (t.lane == h)) for t in self.ticks]
        columns: dict[str, Any] = {
            "lane": h,
            "pod": _joined([t.pods["pod"][at] for t, at in zip(self.ticks, chosen, strict=True)]),
            "ts": _joined([t.sample_ms[k][at] for t, at in zip(self.ticks, chosen, strict=True)]),
            "value": _joined([t.values[k][at] for t, at in zip(self.ticks, chosen, strict=True)]),
            "fetched_at": _joined(
                [np.full(a.size, t.now_ms[h]) for t, a in zip(self.ticks, chosen, strict=True)]
            ),
        }
        frame = pl.DataFrame(columns).unique(["pod", "ts"], keep="first", maintain_order=True)
        window = int(sim.pipelines.window_ms[self._pipeline(h, g)])
        frame = frame.with_columns(window_ms=pl.lit(window))
        if metric.pods is not None:
            named = frame.with_columns(
                metric=pl.lit(metric.pods.metric.name),
                selector=pl.lit(str(selector_from_object(metric.pods.metric.selector))),
            )
            return "pod_custom_metrics", named.rename({"value": "value_milli"})
        container = metric.container_resource.container if metric.container_resource else None
        member = metric.container_resource or metric.resource
        name = member.name if member is not None else ""
        return "pod_metrics", frame.with_columns(
            container=pl.lit(container, dtype=pl.String()), resource=pl.lit(name)
        )

    def _pipeline(self, h: int, g: int) -> int:
        sim = self.fleet.simulation
        first = sim.workloads.first_signal[sim.lanes.workload[h]]
        return int(sim.signals.pipeline[first + sim.stream_signal[g]])

    def _total_rows(self, h: int, g: int, metric: MetricSpec) -> tuple[str, pl.DataFrame]:
        shown = [t for t in self.ticks if t.total_shown[g]]
        w = self.cases[h].workload
        columns: dict[str, Any] = {
            "ts": pl.Series([int(t.total_ms[g]) for t in shown], dtype=pl.Int64),
            "value_milli": pl.Series([int(t.totals[g]) for t in shown], dtype=pl.Int64),
            "fetched_at": pl.Series([int(t.now_ms[h]) for t in shown], dtype=pl.Int64),
        }
        frame = pl.DataFrame(columns).unique("ts", keep="first", maintain_order=True)
        frame = frame.with_columns(cluster=pl.lit(w.cluster), namespace=pl.lit(w.namespace))
        source = metric.object or metric.external
        if source is None:
            raise UsageError(f"{w.namespace}/{w.hpa}: a {metric.type} metric has no total")
        frame = frame.with_columns(
            metric=pl.lit(source.metric.name),
            selector=pl.lit(str(selector_from_object(source.metric.selector))),
        )
        if metric.object is None:
            return "external_metrics", frame.with_columns(series=pl.lit(""))
        described = metric.object.described_object
        name = w.namespace if described.kind == "Namespace" else described.name
        return "object_metrics", frame.with_columns(kind=pl.lit(described.kind), name=pl.lit(name))


def _joined(parts: Sequence[I64]) -> I64:
    return np.concatenate([np.zeros(0, np.int64), *parts]).astype(np.int64)


def _unless_never(column: str) -> pl.Expr:
    return pl.when(pl.col(column) < NEVER_MS).then(pl.col(column))


def _metrics_of(case: SimulationCase) -> list[MetricSpec]:
    """Return a metric for each stream of a lane, in order."""
    specs = [p.spec for p in case.periods]
    by_key = {
        key: metric
        for spec in specs
        for key, metric in zip(stream_keys(spec), spec.metrics, strict=True)
    }
    return [by_key[key] for key in lane_streams(specs)]


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


def _container_rows(samples: pl.DataFrame, cases: Sequence[SimulationCase]) -> pl.DataFrame:
    """Return one row per pod, container and time with both resources."""
    containers = pl.DataFrame(
        [(h, name, k == 0) for h, c in enumerate(cases) for k, name in enumerate(_containers(c))],
        schema={"lane": pl.Int64(), "name": pl.String(), "first": pl.Boolean()},
        orient="row",
    )
    spread = samples.with_columns(pl.col("lane").cast(pl.Int64())).join(
        containers, on="lane", how="left", maintain_order="left"
    )
    # A value of the pod as a whole is the first container's, the others use nothing of it.
    whole = pl.col("container").is_null()
    spread = spread.filter(whole | (pl.col("container") == pl.col("name"))).with_columns(
        value=pl.when(whole & ~pl.col("first")).then(0).otherwise("value")
    )
    keys = ["lane", "pod", "ts", "name"]
    grouped = spread.group_by(keys, maintain_order=True).agg(
        pl.col("fetched_at").min(),
        pl.col("window_ms").first(),
        cpu_milli=pl.col("value").filter(pl.col("resource") == "cpu").first(),
        memory=pl.col("value").filter(pl.col("resource") == "memory").first(),
    )
    return (
        grouped.with_columns(memory_bytes=pl.col("memory") // 1000)
        .rename({"name": "container"})
        .drop("memory")
    )


def _hpas(case: SimulationCase) -> pl.DataFrame:
    """Return an HPA's specs; what was in force at the start is so from then on."""
    w = case.workload
    periods = [p for p in case.periods if p.from_ms > case.start_ms]
    earlier = [p for p in case.periods if p.from_ms <= case.start_ms]
    first = earlier[-1] if earlier else case.periods[0]
    rows: list[tuple[int, HPASpec]] = [(case.start_ms, first.spec)]
    rows += [(p.from_ms, p.spec) for p in (periods if earlier else periods[1:])]
    ends: list[int | None] = [from_ms for from_ms, _ in rows[1:]]
    return pl.DataFrame(
        {
            "cluster": [w.cluster] * len(rows),
            "namespace": [w.namespace] * len(rows),
            "name": [w.hpa] * len(rows),
            "uid": [f"{w.namespace}/{w.hpa}"] * len(rows),
            "valid_from": [from_ms for from_ms, _ in rows],
            "valid_to": pl.Series([*ends, None], dtype=pl.Int64),
            "spec": [spec_to_json(HPA(name=w.hpa, namespace=w.namespace, spec=s)) for _, s in rows],
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


def _conform(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame with a table's columns and types; optional ones stay away."""
    schema = empty_frame(name).schema
    found = []
    for column, dtype in schema.items():
        if column in frame.columns:
            if dtype == pl.Datetime("ms", "UTC"):
                found.append(pl.col(column).cast(pl.Int64()).cast(dtype))
            else:
                found.append(pl.col(column).cast(dtype))
        else:
            found.append(pl.lit(None, dtype=dtype).alias(column))
    return frame.select(found)
