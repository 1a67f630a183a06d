"""From the workloads of a trace to the tables of a history."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from hpabatch.engine.replay import ReplayParameters, ReplayResult, replay_history
from hpabatch.engine.summary import summarize
from hpabatch.history.reader import open_history
from hpabatch.history.schema import TIME
from hpabatch.history.writer import write_table

MINUTE_MS = 60_000
RAN_BEFORE_MS = 10 * MINUTE_MS
"""How long the pods of a trace's beginning are taken to have run: longer than any start-up rule."""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod's life in ms; `deleted_ms` and `gone_ms` None: it outlives the trace."""

    name: str
    created_ms: int
    ready_ms: int
    deleted_ms: int | None = None
    gone_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """A Deployment, its pods, and its recorded size as (ms, replicas) from the first on."""

    cluster: str
    namespace: str
    name: str
    request_milli: int
    target_pct: int
    max_replicas: int
    pods: Sequence[Pod]
    sizes: Sequence[tuple[int, int]]

    @property
    def place(self) -> dict[str, str]:
        return {"cluster": self.cluster, "namespace": self.namespace}

    def uid(self, pod: Pod) -> str:
        """Return a uid that is the same at every import."""
        name = f"{self.cluster}/{self.namespace}/{self.name}/{pod.name}/{pod.created_ms}"
        return str(uuid.uuid5(uuid.NAMESPACE_URL, name))

    def spec(self) -> str:
        """Return the HPA's spec: cpu only, minReplicas 1, no behavior."""
        goal = {"type": "Utilization", "averageUtilization": self.target_pct}
        return json.dumps(
            {
                "scaleTargetRef": {
                    "apiVersion": "apps/v1",
                    "kind": "Deployment",
                    "name": self.name,
                },
                "minReplicas": 1,
                "maxReplicas": self.max_replicas,
                "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": goal}}],
            }
        )


def _frame(rows: Sequence[Mapping[str, object]], *times: str) -> pl.DataFrame:
    frame = pl.DataFrame(rows, infer_schema_length=None)
    return frame.with_columns(pl.col(times).cast(pl.Int64).cast(TIME))


def write_workloads(workloads: Sequence[Workload], samples: pl.DataFrame, folder: Path) -> None:
    """Write a history.

    `samples` has namespace, target, pod, ts (ms), window_ms, cpu_milli and memory_bytes. Every pod
    has one container `app`, whose request is its workload's; it is Running and Ready from
    `ready_ms` on.
    """
    pods, requests, states, scales, hpas = [], [], [], [], []
    for w in workloads:
        for pod in w.pods:
            uid = {"uid": w.uid(pod)}
            life = {"created": pod.created_ms, "started": pod.created_ms, "gone": pod.gone_ms}
            life["deletion_requested"] = pod.deleted_ms
            labels = {"labels": json.dumps({"app": w.name}), "target": w.name, "pod": pod.name}
            pods.append(w.place | uid | labels | life)
            amounts = {"cpu_milli": w.request_milli, "cpu_limit_milli": w.request_milli}
            request = {"container": "app", "kind": "app", "index": 0, "valid_from": pod.created_ms}
            requests.append(w.place | uid | request | amounts)
            state = {"phase": "Running", "ready": "True", "last_transition": pod.ready_ms}
            states.append(w.place | uid | {"ts": pod.ready_ms} | state)
        for ms, size in w.sizes:
            scale = {"target_kind": "Deployment", "target": w.name, "selector": f"app={w.name}"}
            scale |= {"spec_replicas": size, "status_replicas": size}  # type: ignore[dict-item]
            scales.append(w.place | scale | {"ts": ms})
        valid = {"valid_from": w.sizes[0][0] - RAN_BEFORE_MS, "valid_to": None}
        hpas.append(w.place | {"name": w.name, "uid": f"hpa-{w.name}", "spec": w.spec()} | valid)
    empty = pl.lit(None, dtype=pl.Int64)
    tables = {
        "pods": _frame(pods, "created", "started", "gone", "deletion_requested"),
        "pod_requests": _frame(requests, "valid_from").with_columns(
            memory_milli=empty, memory_limit_milli=empty
        ),
        "pod_states": _frame(states, "ts", "last_transition"),
        "scales": _frame(scales, "ts"),
        "hpas": _frame(hpas, "valid_from", "valid_to"),
        "pod_metrics": _with_uids(workloads, samples),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, frame in tables.items():
        write_table(frame, folder / f"{name}.parquet", name)


def _with_uids(workloads: Sequence[Workload], samples: pl.DataFrame) -> pl.DataFrame:
    known = pl.DataFrame(
        [
            w.place | {"target": w.name, "pod": pod.name, "uid": w.uid(pod)}
            for w in workloads
            for pod in w.pods
        ]
    )
    joined = samples.join(known, on=["namespace", "target", "pod"], how="inner")
    return joined.with_columns(container=pl.lit("app"), ts=pl.col("ts").cast(TIME))


def replay_folder(folder: Path, parameters: ReplayParameters) -> ReplayResult:
    return replay_history(open_history(folder), parameters)


def summary_table(result: ReplayResult) -> pl.DataFrame:
    """Return one row per HPA: agreement, changes recorded and decided, ticks without a metric."""
    rows = summarize(result.decisions, result.hpas)
    return rows.select(
        "namespace",
        "hpa",
        "ticks",
        pl.col("agreement_share").round(4),
        "recorded_changes",
        "rescales",
        pl.col("applied_mean", "decided_mean").round(3),
        pl.col("invalid_share").round(4),
        pl.col("ratio_max").round(3),
    )


def print_table(frame: pl.DataFrame) -> None:
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_width_chars=200, tbl_hide_dataframe_shape=True):
        print(frame)  # noqa: T201
