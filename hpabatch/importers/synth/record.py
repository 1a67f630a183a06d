"""One synthetic workload's day as rows of the history's tables."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import polars as pl

from hpabatch.history.schema import TABLES
from hpabatch.importers.synth.fleet import Document, Workload
from hpabatch.importers.synth.load import (
    STEP_S,
    Floats,
    demand_milli,
    recorded_replicas,
    total_signal,
)
from hpabatch.importers.synth.pods import Life, PodFactory, ScaleRow, new_uid
from hpabatch.importers.synth.usage import Meter, Samples

CLUSTER = "demo"

# HPAs are older than their first recorded day.
HPA_AGE_DAYS = 40

Row = dict[str, Any]


class Recorder:
    """Turns one workload's day into rows of the history's tables."""

    def __init__(self, work: Workload, seed: int, day: date) -> None:
        """Open the workload's own random stream."""
        self.work = work
        self.day = day
        self.start_ms = start_ms(day)
        stream = zlib.crc32(f"{work.namespace}/{work.name}".encode())
        self.rng = np.random.Generator(
            np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(stream,)))
        )

    def tables(self) -> dict[str, pl.DataFrame]:
        """Play the day and return its rows, table by table."""
        demand = demand_milli(self.work, self.day.weekday(), self.rng)
        factory = PodFactory(self.work, self.rng)
        factory.run(recorded_replicas(self.work, demand, self.rng))
        lives = sorted(factory.lives, key=lambda life: (life.created, life.uid))
        meter = Meter(self.work, lives, demand, self.rng)
        return {
            "pods": self._pods(lives),
            "pod_requests": self._requests(lives),
            "pod_states": self._states(lives),
            "scales": self._scales(factory.scales),
            "hpas": self._hpas(),
            "pod_metrics": self._usage(meter.usage()),
            **self._signals(meter, demand),
        }

    def _ms(self, second: float | None) -> int | None:
        return None if second is None else self.start_ms + round(second * 1000)

    def _api_ms(self, second: float | None) -> int | None:
        """Return a time as the API has it: whole seconds."""
        return None if second is None else self.start_ms + int(np.floor(second)) * 1000

    def _rows(self, table: str, rows: Iterable[Row]) -> pl.DataFrame:
        """Return rows as a frame of a table; times are milliseconds since 1970."""
        spec = TABLES[table]
        own = {"cluster": CLUSTER, "namespace": self.work.namespace}
        full = [own | row for row in rows]
        present = [c for c in spec.columns if not full or c.name in full[0]]
        return pl.DataFrame(
            [
                pl.Series(
                    c.name,
                    [row.get(c.name) for row in full],
                    dtype=pl.Int64() if isinstance(c.dtype, pl.Datetime) else c.dtype,
                ).cast(c.dtype)
                for c in present
            ]
        )

    def _pods(self, lives: Sequence[Life]) -> pl.DataFrame:
        return self._rows(
            "pods",
            (
                {
                    "target": life.target,
                    "uid": life.uid,
                    "pod": life.name,
                    "labels": compact_json(self._labels(life)),
                    "owner": life.owner,
                    "created": self._api_ms(life.created),
                    "started": self._api_ms(life.started),
                    "deletion_requested": self._api_ms(life.deleted),
                    "gone": self._api_ms(life.gone),
                    "node": life.node if life.started is not None else None,
                }
                for life in lives
            ),
        )

    def _labels(self, life: Life) -> dict[str, str]:
        labels = dict(self.work.labels)
        if life.owner.startswith("ReplicaSet/"):
            labels["pod-template-hash"] = life.revision
        if life.owner.startswith("StatefulSet/"):
            labels["statefulset.kubernetes.io/pod-name"] = life.name
        if life.owner.startswith("Job/"):
            labels["job-name"] = life.target
        return labels

    def _requests(self, lives: Sequence[Life]) -> pl.DataFrame:
        rows = self._template()
        return self._rows(
            "pod_requests",
            (
                {
                    "target": life.target,
                    "uid": life.uid,
                    "valid_from": self._api_ms(life.created),
                    **row,
                }
                for life in lives
                for row in rows
            ),
        )

    def _template(self) -> list[Row]:
        """Return the requests of the pod template, without uid and time."""
        rows: list[Row] = []
        places = {"app": 0, "init": 0}
        for container in self.work.containers:
            # Sidecars stand among the init containers and share their numbering.
            in_list = "app" if container.kind == "app" else "init"
            rows.append(
                {
                    "container": container.name,
                    "kind": container.kind,
                    "index": places[in_list],
                    "cpu_milli": container.cpu_request,
                    "memory_milli": _mib_milli(container.memory_request_mib),
                    "cpu_limit_milli": container.cpu_limit,
                    "memory_limit_milli": _mib_milli(container.memory_limit_mib),
                }
            )
            places[in_list] += 1
        for kind, amounts in (("pod", self.work.pod_requests), ("overhead", self.work.overhead)):
            if amounts is not None:
                cpu, memory = amounts
                milli = None if memory is None else memory * 1000
                rows.append(
                    {
                        "container": "",
                        "kind": kind,
                        "index": 0,
                        "cpu_milli": cpu,
                        "memory_milli": milli,
                        "cpu_limit_milli": None,
                        "memory_limit_milli": None,
                    }
                )
        return rows

    def _states(self, lives: Sequence[Life]) -> pl.DataFrame:
        return self._rows(
            "pod_states",
            (
                {
                    "target": life.target,
                    "uid": life.uid,
                    "ts": self._ms(state.second),
                    "phase": state.phase,
                    "ready": state.ready,
                    "last_transition": self._api_ms(state.transition),
                }
                for life in lives
                for state in {state.second: state for state in life.states}.values()
            ),
        )

    def _scales(self, scales: Sequence[ScaleRow]) -> pl.DataFrame:
        latest = {row.second: row for row in scales}
        return self._rows(
            "scales",
            (
                {
                    "target_kind": self.work.kind,
                    "target": self.work.name,
                    "ts": self._ms(row.second),
                    "spec_replicas": row.spec_replicas,
                    "status_replicas": row.status_replicas,
                    "selector": self.work.selector,
                }
                for row in latest.values()
            ),
        )

    def _hpas(self) -> pl.DataFrame:
        created = self._api_ms(-HPA_AGE_DAYS * 86_400.0)
        rows: list[Row] = []
        for hpa in self.work.hpas:
            base: Row = {
                "name": hpa.name,
                "uid": new_uid(self.rng),
                "valid_from": created,
                "valid_to": None,
                "spec": compact_json(hpa.spec),
                "labels": compact_json({"app": self.work.name}),
                "annotations": "{}",
                "created": created,
                "generation": 1,
            }
            if hpa.edited is None:
                rows.append(base)
                continue
            hour, spec = hpa.edited
            at = self._api_ms(hour * 3600)
            edited = {"valid_from": at, "spec": compact_json(spec), "generation": 2}
            rows += [base | {"valid_to": at}, base | edited]
        return self._rows("hpas", rows)

    def _usage(self, samples: Iterable[Samples]) -> pl.DataFrame:
        frames = [
            self._of_pod(s, "container").with_columns(
                pl.Series("cpu_milli", s.first).replace(-1, None),
                pl.Series("memory_bytes", s.second),
            )
            for s in samples
        ]
        return pl.concat(frames) if frames else self._rows("pod_metrics", ())

    def _of_pod(self, samples: Samples, what: str) -> pl.DataFrame:
        life = samples.life
        return pl.DataFrame({"ts": self._times(samples.seconds)}).with_columns(
            cluster=pl.lit(CLUSTER),
            namespace=pl.lit(self.work.namespace),
            target=pl.lit(life.target),
            uid=pl.lit(life.uid),
            pod=pl.lit(life.name),
            window_ms=pl.lit(self.work.sample_window_ms, dtype=pl.Int64()),
            **{what: pl.lit(samples.name)},
        )

    def _times(self, seconds: Any) -> pl.Series:
        return pl.Series("ts", self.start_ms + seconds * 1000).cast(pl.Datetime("ms", "UTC"))

    def _signals(self, meter: Meter, demand: Floats) -> dict[str, pl.DataFrame]:
        parts: dict[str, list[pl.DataFrame]] = {}
        for signal in self.work.signals:
            if signal.kind == "pods":
                frames = [
                    self._of_pod(s, "metric").with_columns(pl.Series("value_milli", s.first))
                    for s in meter.custom(signal)
                ]
                parts.setdefault("pod_custom_metrics", []).extend(frames)
                continue
            units = total_signal(signal, demand, self.rng)
            seconds = np.arange(len(units)) * STEP_S + int(self.rng.integers(0, STEP_S))
            for series in signal.series:
                milli = np.rint(units / len(signal.series) * 10.0).astype(np.int64) * 100
                names = {"metric": signal.metric, "selector": signal.selector}
                if signal.kind == "object":
                    names |= {"kind": signal.object_kind, "name": signal.object_name}
                else:
                    names |= {"series": series}
                frame = pl.DataFrame(
                    [self._times(seconds), pl.Series("value_milli", milli)]
                ).with_columns(
                    cluster=pl.lit(CLUSTER),
                    namespace=pl.lit(self.work.namespace),
                    **{name: pl.lit(text) for name, text in names.items()},
                )
                parts.setdefault(f"{signal.kind}_metrics", []).append(frame)
        return {table: pl.concat(frames) for table, frames in parts.items() if frames}


def start_ms(day: date) -> int:
    """Return midnight UTC in milliseconds since 1970."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return int(midnight.timestamp()) * 1000


def _mib_milli(mib: int | None) -> int | None:
    return None if mib is None else (mib << 20) * 1000


def compact_json(document: Document) -> str:
    """Return JSON without blanks, keys in order: the same document is the same text."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"))
