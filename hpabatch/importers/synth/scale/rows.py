"""Rows of a synthetic fleet's tables: of a block of workloads, of one of its days, of a slice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from hpabatch.history.columns import TIME
from hpabatch.history.schema import TABLES
from hpabatch.importers.synth.fleet import Ints, Signal, compact_json, new_uid, start_ms
from hpabatch.importers.synth.request import DAY_MS, DAY_S, SynthRequest
from hpabatch.importers.synth.scale.pods import PodLife
from hpabatch.importers.synth.scale.samples import PlayedWorkload, Samples
from hpabatch.importers.synth.scale.streams import Purpose
from hpabatch.importers.synth.scale.workload import KIND

# HPAs are older than the recording.
_HPA_AGE_DAYS = 40
_MIB_MILLI = (1 << 20) * 1000

Slice = Sequence[tuple[PlayedWorkload, Ints]]
"""Workloads, and which of their lives (places)."""

Columns = dict[str, list[Any]]


class BlockRows:
    """Rows of a block of workloads."""

    def __init__(self, settings: SynthRequest, block: Sequence[PlayedWorkload]) -> None:
        """Take the workloads in the order of the tables."""
        self.block = block
        self.settings = settings
        self.start_ms = start_ms(settings.first_day)
        self._end_s = settings.days * DAY_S
        self._changes = {"pod_states": self._states(), "scales": self._scales()}

    def entities(self) -> dict[str, pl.DataFrame]:
        """Return pods, their requests and HPAs of all days."""
        return {
            "pods": self._pods(),
            "pod_requests": self._requests(),
            "hpas": self._hpas(),
        }

    def changes(self, day: int) -> dict[str, pl.DataFrame]:
        """Return the changes of pods and scales on a day."""
        first = pl.lit(self.start_ms + day * DAY_MS).cast(TIME)
        last = pl.lit(self.start_ms + (day + 1) * DAY_MS).cast(TIME)
        return {
            table: frame.filter(pl.col("ts") >= first, pl.col("ts") < last)
            for table, frame in self._changes.items()
        }

    def samples(self, day: int, chosen: Slice) -> dict[str, pl.DataFrame]:
        """Return the samples of some pods on a day, and their workloads' own metrics.

        An Object or External metric stands with the workload's first pod of the day.
        """
        usage = [(p, c, p.usage(day, c)) for p, c in chosen]
        tables = {"pod_metrics": self._of_pods("pod_metrics", usage)}
        signals = [(p, c, p.work.signal) for p, c in chosen if p.work.signal is not None]
        custom = [(p, c, p.custom(day, c, s)) for p, c, s in signals if s.kind == "pods"]
        if custom:
            frame = self._of_pods("pod_custom_metrics", custom)
            tables["pod_custom_metrics"] = frame
        for kind in ("object", "external"):
            frames = [
                self._total(p, day, s)
                for p, c, s in signals
                if s.kind == kind and len(c) and c[0] == p.sampled(day)[0][0]
            ]
            if frames:
                tables[f"{kind}_metrics"] = pl.concat(frames)
        return tables

    def _of_pods(
        self, table: str, parts: Sequence[tuple[PlayedWorkload, Ints, Samples]]
    ) -> pl.DataFrame:
        lives, rows, begin = [], [], 0
        for played, chosen, samples in parts:
            lives.append(self._names(played, chosen))
            rows.append(samples.place + begin)
            begin += len(chosen)
        # In one chunk: a gather from many is ten times as slow.
        names = pl.concat(lives, rechunk=True)[np.concatenate(rows)]
        samples_of = [part[2] for part in parts]
        values: dict[str, pl.Series | pl.Expr] = {
            "ts": self._times([s.ts_ms for s in samples_of]),
            "window_ms": pl.lit(self.settings.step_ms, dtype=pl.Int64()),
        }
        first = _joined([s.first for s in samples_of])
        if table == "pod_metrics":
            values["container"] = self._containers(samples_of, parts[0][0])
            values["cpu_milli"] = first
            values["memory_bytes"] = _joined([s.second for s in samples_of])
        else:
            values["metric"] = pl.lit(_signal_of(parts[0][0]).metric)
            values["value_milli"] = first
        fetched = [s.fetched_ms for s in samples_of if s.fetched_ms is not None]
        if fetched:
            values["fetched_at"] = self._times(fetched)
        return names.with_columns(**values)

    def _containers(
        self, samples: Sequence[Samples], played: PlayedWorkload
    ) -> pl.Series | pl.Expr:
        names = [container.name for container in played.work.containers]
        if len(names) == 1:
            return pl.lit(names[0])
        return pl.Series(names).gather(np.concatenate([s.container for s in samples]))

    def _names(self, played: PlayedWorkload, chosen: Ints) -> pl.DataFrame:
        work, lives = played.work, played.lives
        return pl.DataFrame(
            {
                "uid": [lives[i].uid for i in chosen.tolist()],
                "pod": [lives[i].pod for i in chosen.tolist()],
            },
            schema={"uid": pl.String, "pod": pl.String},
        ).with_columns(
            cluster=pl.lit(work.cluster), namespace=pl.lit(work.namespace), target=pl.lit(work.name)
        )

    def _times(self, parts: Sequence[Ints]) -> pl.Series:
        return (_joined(parts) + self.start_ms).cast(TIME)

    def _total(self, played: PlayedWorkload, day: int, signal: Signal) -> pl.DataFrame:
        work = played.work
        ts_ms, milli = played.total(day, signal)
        names = {"cluster": work.cluster, "namespace": work.namespace, "metric": signal.metric}
        if signal.kind == "object":
            names |= {"kind": signal.object_kind, "name": signal.object_name}
        names |= {"selector": signal.selector}
        frame = pl.DataFrame({"ts": self._times([ts_ms]), "value_milli": milli})
        frame = frame.with_columns(**{name: pl.lit(text) for name, text in names.items()})
        if self.settings.late:
            # Metrics of the whole workload come from another adapter, which is never late.
            frame = frame.with_columns(fetched_at=pl.col("ts"))
        return frame

    def _pods(self) -> pl.DataFrame:
        columns: Columns = {}
        for played in self.block:
            work = played.work
            for life in self._own(played):
                labels = {"app": work.name, "pod-template-hash": life.revision}
                row = {
                    "cluster": work.cluster,
                    "namespace": work.namespace,
                    "target": work.name,
                    "uid": life.uid,
                    "pod": life.pod,
                    "labels": compact_json(labels),
                    "owner": f"ReplicaSet/{work.name}-{life.revision}",
                    "created": self._ms(life.created),
                    "started": self._ms(life.started),
                    "deletion_requested": self._ms(life.deleted),
                    "gone": self._ms(life.gone),
                    "node": life.node if life.started < self._end_s else None,
                }
                _append(columns, row)
        return _frame("pods", columns)

    def _requests(self) -> pl.DataFrame:
        columns: Columns = {}
        for played in self.block:
            template = _template(played)
            for life in self._own(played):
                own = {"uid": life.uid, "valid_from": self._ms(life.created)}
                for row in template:
                    _append(columns, row | own)
        return _frame("pod_requests", columns)

    def _hpas(self) -> pl.DataFrame:
        columns: Columns = {}
        created = self.start_ms - _HPA_AGE_DAYS * DAY_MS
        for played in self.block:
            work = played.work
            row = {
                "cluster": work.cluster,
                "namespace": work.namespace,
                "name": work.name,
                "uid": new_uid(played.streams.open(Purpose.profile, number=1)),
                "valid_from": created,
                "valid_to": None,
                "spec": compact_json(work.spec),
                "labels": compact_json({"app": work.name}),
                "annotations": "{}",
                "created": created,
                "generation": 1,
            }
            _append(columns, row)
        return _frame("hpas", columns)

    def _states(self) -> pl.DataFrame:
        columns: Columns = {}
        for played in self.block:
            work = played.work
            own = {"cluster": work.cluster, "namespace": work.namespace, "target": work.name}
            for life in self._own(played):
                for second, phase, ready, transition in life.states:
                    if second < self._end_s:
                        row = {
                            "uid": life.uid,
                            "ts": self._ms(second),
                            "phase": phase,
                            "ready": ready,
                            "last_transition": None if transition is None else self._ms(transition),
                        }
                        _append(columns, own | row)
        return _frame("pod_states", columns)

    def _scales(self) -> pl.DataFrame:
        columns: Columns = {}
        for played in self.block:
            work = played.work
            for second, (spec, status) in sorted(played.scales.items()):
                if second < self._end_s:
                    row = {
                        "cluster": work.cluster,
                        "namespace": work.namespace,
                        "target_kind": KIND,
                        "target": work.name,
                        "ts": self._ms(second),
                        "spec_replicas": spec,
                        "status_replicas": status,
                        "selector": work.selector,
                    }
                    _append(columns, row)
        return _frame("scales", columns)

    def _own(self, played: PlayedWorkload) -> list[PodLife]:
        """Return the lives that begin within the recording."""
        return [life for life in played.lives if life.created < self._end_s]

    def _ms(self, second: int) -> int | None:
        """Return a time since 1970, None if it is after the recording."""
        return self.start_ms + second * 1000 if second < self._end_s else None


def controller_rows(settings: SynthRequest, clusters: Sequence[str]) -> pl.DataFrame:
    """Return what is known of each cluster's controller: it started before the recording."""
    flags = compact_json({"horizontal-pod-autoscaler-sync-period": "15s"})
    columns: Columns = {}
    for cluster in clusters:
        row = {
            "cluster": cluster,
            "ts": start_ms(settings.first_day) - DAY_MS,
            "event": "start",
            "version": "v1.38.0",
            "flags": flags,
        }
        _append(columns, row)
    return _frame("controller", columns)


def _template(played: PlayedWorkload) -> list[dict[str, Any]]:
    """Return the requests of the pod template, without uid and time."""
    work, rows, places = played.work, [], {"app": 0, "sidecar": 0}
    for container in work.containers:
        memory, limit = container.memory_request_mib, container.memory_limit_mib
        row = {
            "cluster": work.cluster,
            "namespace": work.namespace,
            "target": work.name,
            "container": container.name,
            "kind": container.kind,
            "index": places[container.kind],
            "cpu_milli": container.cpu_request,
            "memory_milli": None if memory is None else memory * _MIB_MILLI,
            "cpu_limit_milli": container.cpu_limit,
            "memory_limit_milli": None if limit is None else limit * _MIB_MILLI,
        }
        places[container.kind] += 1
        rows.append(row)
    return rows


def _signal_of(played: PlayedWorkload) -> Signal:
    signal = played.work.signal
    if signal is None:
        raise RuntimeError(f"{played.work.name} has no metric of its own")
    return signal


def _append(columns: Columns, row: dict[str, Any]) -> None:
    for name, value in row.items():
        columns.setdefault(name, []).append(value)


def _joined(parts: Sequence[Ints]) -> pl.Series:
    return pl.Series(np.concatenate(parts))


def _frame(table: str, columns: Columns) -> pl.DataFrame:
    """Return columns as a frame of a table; times are milliseconds since 1970."""
    spec = TABLES[table]
    present = [c for c in spec.columns if c.name in columns or not columns]
    return pl.DataFrame(
        [
            pl.Series(
                c.name, columns.get(c.name, []), dtype=pl.Int64() if c.dtype == TIME else c.dtype
            ).cast(c.dtype)
            for c in present
        ]
    )
