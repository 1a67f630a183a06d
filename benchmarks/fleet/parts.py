"""Parts of the large fleets and of the demo: containers, a day's demand, rows of tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from hpabatch.history.columns import TIME
from hpabatch.history.schema import TABLES

Document = dict[str, Any]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Rows = list[dict[str, Any]]

DAY_MS = 86_400_000
MIB_MILLI = (1 << 20) * 1000
# The alphabet of Kubernetes' generated names: no vowels, nothing that looks like something else.
ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
# HPAs are older than the recording.
_HPA_AGE_DAYS = 40


@dataclass(frozen=True, slots=True)
class Container:
    """A container: its requests and its usage.

    `share` is its part of the pod's work; `memory_mib` at rest, plus `memory_load_mib` when the
    pod does its planned work. `kind` is app, sidecar or init. None is not set.
    """

    name: str
    kind: str = "app"
    cpu_request: int | None = None
    memory_request_mib: int = 256
    cpu_limit: int | None = None
    memory_limit_mib: int | None = None
    share: float = 1.0
    idle_milli: int = 4
    memory_mib: int = 120
    memory_load_mib: int = 40


def day_shape(hour: Floats, peak_hour: float, night: float) -> Floats:
    """Return the demand by the hour of the day, 1 at its peak: a cosine, narrow at the top."""
    wave = (1.0 + np.cos((hour - peak_hour) / 24.0 * 2.0 * np.pi)) / 2.0
    return np.asarray(night + (1.0 - night) * wave**1.3)


def burst_shape(since: Floats | Ints, minutes: float, height: Floats | float) -> Floats:
    """Return the factor of a burst by the minutes since its begin: up in 3, `minutes`, fading."""
    rise = np.clip(since / 3.0, 0.0, 1.0)
    fade = np.exp(-np.maximum(since - minutes, 0.0) / 8.0)
    return np.asarray(1.0 + height * rise * fade)


def recent_mean(values: npt.NDArray[np.floating[Any]], steps: int) -> Floats:
    """Return the mean of the last so many values, of fewer at the beginning."""
    total = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
    end = np.arange(1, len(values) + 1)
    begin = np.maximum(end - max(steps, 1), 0)
    return np.asarray((total[end] - total[begin]) / (end - begin))


def compact_json(document: Document) -> str:
    """Return JSON without blanks, keys in order: the same document is the same text."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def frame_of(table: str, rows: Rows) -> pl.DataFrame:
    """Return rows, at least one, as a frame of a table; times are milliseconds since 1970."""
    columns = [c for c in TABLES[table].columns if c.name in rows[0]]
    plain = {c.name: pl.Int64() if c.dtype == TIME else c.dtype for c in columns}
    return pl.DataFrame(rows, schema=plain).cast({c.name: c.dtype for c in columns})


def request_rows(containers: Sequence[Container]) -> Rows:
    """Return the requests of a pod template; sidecars share the numbering of init containers."""
    rows: Rows = []
    for c in containers:
        before = [row for row in rows if (row["kind"] == "app") == (c.kind == "app")]
        limit = c.memory_limit_mib
        rows.append({
            "container": c.name, "kind": c.kind, "index": len(before),
            "cpu_milli": c.cpu_request, "memory_milli": c.memory_request_mib * MIB_MILLI,
            "cpu_limit_milli": c.cpu_limit,
            "memory_limit_milli": None if limit is None else limit * MIB_MILLI,
        })  # fmt: skip
    return rows


def hpa_row(start_ms: int, name: str, uid: str, spec: Document, target: str) -> dict[str, Any]:
    """Return an HPA as it is from before the recording on."""
    created = start_ms - _HPA_AGE_DAYS * DAY_MS
    return {
        "name": name, "uid": uid, "valid_from": created, "valid_to": None,
        "spec": compact_json(spec), "labels": compact_json({"app": target}), "annotations": "{}",
        "created": created, "generation": 1,
    }  # fmt: skip


def controller_rows(start_ms: int, clusters: Sequence[str]) -> pl.DataFrame:
    """Return what is known of each cluster's controller: it started before the recording."""
    flags = compact_json({"horizontal-pod-autoscaler-sync-period": "15s"})
    row = {"ts": start_ms - DAY_MS, "event": "start", "version": "v1.38.0", "flags": flags}
    return frame_of("controller", [row | {"cluster": cluster} for cluster in clusters])
