"""The status that an HPA had before a live loop first decided it, as recorded.

A controller that starts reads the HPA's status from the API server: whether it was scaled to zero
by its HPA, and which size was last desired, are in no controller's memory. A loop in the shadow
takes them from there too, once, and then goes on with its own.
Source: horizontal.go, reconcileAutoscaler (it begins with a copy of the object's status).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import polars as pl

from hpabatch.arrays.layout import (
    HEAD_CONDITIONS,
    I64,
    NO_TIME_MS,
    STATUS_CODES,
    STATUS_LAST_SCALE,
    STATUS_SETS,
    STATUS_TIMES,
    STATUS_WORDS,
    Memory,
    StatusMemory,
)
from hpabatch.arrays.memory import seed_status
from hpabatch.arrays.status import seed_status_memory
from hpabatch.engine.candidates import Candidate
from hpabatch.engine.frames import milliseconds
from hpabatch.model.decode import decode_hpa
from hpabatch.model.hpa import HPAStatus

_NEVER = "1970-01-01T00:00:00Z"  # of a condition without a time


class Seed(NamedTuple):
    """From an instant (ms) on lane `h` goes by this status; `first`: it had no tick before."""

    at_ms: int
    h: int
    status: HPAStatus
    first: bool


def status_seeds(
    statuses: pl.DataFrame,
    lanes: Sequence[tuple[Candidate, I64]],
    starts_ms: I64,
) -> tuple[Seed, ...]:
    """Return what lanes begin with, and what they begin anew with after a loop's start.

    Args:
        statuses: rows of `hpa_status` of one cluster, in the order of its key.
        lanes: each HPA with its instants, ms.
        starts_ms: when a loop began with empty memory.
    """
    rows = {
        (str(namespace), str(name)): part
        for (namespace, name), part in statuses.partition_by(
            "namespace", "name", as_dict=True, maintain_order=True
        ).items()
    }
    found = []
    for h, (candidate, instants) in enumerate(lanes):
        part = rows.get((candidate.namespace, candidate.name))
        if part is None or not instants.size:
            continue
        later = starts_ms[(starts_ms > instants[0]) & (starts_ms <= instants[-1])]
        part = part.sort("ts", maintain_order=True)
        seen_ms = milliseconds(part["ts"])
        for number, at_ms in enumerate([int(instants[0]), *later.tolist()]):
            k = int(np.searchsorted(seen_ms, at_ms, side="left")) - 1
            uid = _uid_at(candidate, at_ms)
            if k >= 0 and (not uid or part["uid"][k] == uid):
                status = _status(part.row(k, named=True))
                found.append(Seed(at_ms, h, status, number == 0))
    return tuple(sorted(found, key=lambda seed: (seed.at_ms, seed.h)))


def apply_seeds(
    seeds: Sequence[Seed],
    memory: Memory,
    status_memory: StatusMemory | None,
    status_before: dict[int, list[tuple[int, HPAStatus]]],
) -> None:
    """Write statuses to what lanes remember, instead of what they had.

    `status_before` notes them by lane, with their instants; `status_memory` None: nobody asked for
    statuses.
    """
    for at_ms, h, status, _ in seeds:
        memory.head[h, HEAD_CONDITIONS : HEAD_CONDITIONS + 4] = 0
        seed_status(memory, h, status)
        if status_memory is not None:
            for first in (STATUS_CODES, STATUS_TIMES, STATUS_WORDS, STATUS_SETS):
                status_memory.head[h, first : first + 4] = 0
            status_memory.head[h, STATUS_LAST_SCALE] = NO_TIME_MS
            seed_status_memory(status_memory, h, status)
        status_before.setdefault(h, []).append((at_ms, status))


def _uid_at(candidate: Candidate, at_ms: int) -> str:
    for period in candidate.periods:
        if period.from_ms <= at_ms < period.to_ms:
            return period.uid
    return ""


def _status(row: dict[str, object]) -> HPAStatus:
    """Return a row's status."""
    last_scale = row.get("last_scale_time")
    status: dict[str, object] = {
        "currentReplicas": row["current_replicas"],
        "desiredReplicas": row["desired_replicas"],
        "conditions": json.loads(str(row.get("conditions") or "[]")),
    }
    if row.get("current_metrics"):
        status["currentMetrics"] = json.loads(str(row["current_metrics"]))
    if row.get("observed_generation") is not None:
        status["observedGeneration"] = row["observed_generation"]
    if last_scale is not None:
        status["lastScaleTime"] = f"{last_scale:%Y-%m-%dT%H:%M:%SZ}"
    document = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "status": status}
    found = decode_hpa(document)[0].status
    dated = [
        c if c.last_transition_time else replace(c, last_transition_time=_NEVER)
        for c in found.conditions
    ]
    return replace(found, conditions=tuple(dated))
