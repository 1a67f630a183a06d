"""The status that an HPA had before a live loop first decided it, as recorded.

A controller that starts reads the HPA's status from the API server: whether it was scaled to zero
by its HPA, and which size was last desired, are in no controller's memory. A loop in the shadow
takes them from there too, once, and then goes on with its own.
Source: horizontal.go, reconcileAutoscaler (it begins with a copy of the object's status).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from hpabatch.engine.fleet.candidates import Candidate, SpecPeriod
from hpabatch.engine.fleet.frames import milliseconds
from hpabatch.history.checks import decode_cell
from hpabatch.layout.codes import IS_SCALED_TO_ZERO, NOT_SCALED_TO_ZERO, SCALED_TO_ZERO
from hpabatch.layout.records import I64, Memory
from hpabatch.layout.results import StatusMemory
from hpabatch.model.objects.decode import decode_hpa
from hpabatch.model.objects.hpa import HPAStatus
from hpabatch.model.versions import Profile
from hpabatch.packing.memory import seed_status
from hpabatch.packing.status import seed_status_memory
from hpabatch.rules.conditions import remove_condition, set_condition


class Seed(NamedTuple):
    """From an instant (ms) on lane `h` goes by this status; `first`: it had no tick before.

    `zero`: of it only the condition ScaledToZero counts.
    """

    at_ms: int
    h: int
    status: HPAStatus
    first: bool
    zero: bool = False


def begun_anew(candidate: Candidate, instants: I64, starts_ms: I64) -> I64:
    """Return the instants at which a loop decides an HPA of which it remembers nothing.

    Its first one, the one after it was gone or could not be decided, and where the loop began.

    Args:
        candidate: the HPA.
        instants: of all passes, ms, ascending.
        starts_ms: when a loop began with empty memory.
    """
    there = candidate.spec_of(instants) >= 0
    before = np.concatenate([np.zeros(1, np.bool_), there[:-1]])
    return instants[there & (~before | np.isin(instants, starts_ms))]


def status_seeds(
    statuses: pl.DataFrame,
    lanes: Sequence[tuple[Candidate, I64]],
    starts_ms: I64,
    with_zero: bool,
) -> tuple[Seed, ...]:
    """Return what lanes begin with, what they begin anew with, and who was scaled to zero.

    Args:
        statuses: rows of `hpa_status` of one cluster, in the order of its key.
        lanes: each HPA with the instants of all passes, ms.
        starts_ms: when a loop began with empty memory.
        with_zero: in this version the condition ScaledToZero decides whether a target at zero is
            looked at. It tells of writes of the scale, and those are not a shadow's.
    """
    rows = {
        (str(namespace), str(name)): part.sort("ts", maintain_order=True)
        for (namespace, name), part in statuses.partition_by(
            "namespace", "name", as_dict=True, maintain_order=True
        ).items()
    }
    none = statuses.clear()
    found = []
    for h, (candidate, instants) in enumerate(lanes):
        part = rows.get((candidate.namespace, candidate.name), none)
        seen_ms = milliseconds(part["ts"])
        for number, at_ms in enumerate(begun_anew(candidate, instants, starts_ms).tolist()):
            k = int(np.searchsorted(seen_ms, at_ms, side="left")) - 1
            inside = (p for p in candidate.periods if p.from_ms <= at_ms < p.to_ms)
            uid = next((p.uid for p in inside), "")
            known = k >= 0 and (not uid or part["uid"][k] == uid)
            status = _status(part.row(k, named=True)) if known else HPAStatus()
            if known or number:
                found.append(Seed(at_ms, h, status, number == 0))
        if with_zero:
            found += _zero_seeds(h, candidate, instants, starts_ms, part)
    return tuple(sorted(found, key=lambda seed: (seed.at_ms, seed.h)))


def apply_seeds(
    seeds: Sequence[Seed],
    memory: Memory,
    status_memory: StatusMemory | None,
    status_before: dict[int, list[tuple[int, HPAStatus]]],
) -> None:
    """Write statuses to what lanes remember, instead of what they had.

    `status_before` notes them by lane, with their instants; `status_memory` None: not asked for
    statuses.
    """
    for at_ms, h, status, _, zero in seeds:
        if zero:
            take_zero(memory.head[h], zero_of(status))
            continue
        seed_status(memory, h, status)
        if status_memory is not None:
            seed_status_memory(status_memory, h, status)
        status_before.setdefault(h, []).append((at_ms, status))


def takes_zero(profile: Profile) -> bool:
    """Say whether the condition ScaledToZero decides anything in a version."""
    return profile.zero_needs_condition and profile.gate_scale_to_zero


def zero_of(status: HPAStatus) -> str:
    """Return the status of the condition ScaledToZero, "" without one."""
    return next((c.status for c in status.conditions if c.type == "ScaledToZero"), "")


def take_zero(head: I64, zero: str) -> None:
    """Set a lane's condition ScaledToZero (HEAD row) as the cluster's own controller has it."""
    if zero:
        set_condition(head, IS_SCALED_TO_ZERO if zero == "True" else NOT_SCALED_TO_ZERO)
    else:
        remove_condition(head, SCALED_TO_ZERO)


def _zero_seeds(
    h: int, candidate: Candidate, instants: I64, starts_ms: I64, part: pl.DataFrame
) -> list[Seed]:
    """Return where the condition ScaledToZero is another than at the pass before."""
    if not part["conditions"].str.contains("ScaledToZero", literal=True).any():
        return []
    anew = set(begun_anew(candidate, instants, starts_ms).tolist())
    there = instants[candidate.spec_of(instants) >= 0]
    # The pass that sees each row; of several rows between two passes it sees the last.
    passes = np.searchsorted(there, milliseconds(part["ts"]), side="right")
    rows = [k for k in range(passes.size) if k + 1 == passes.size or passes[k] < passes[k + 1]]
    found, before = list[Seed](), ("", "")
    for k in rows:
        if passes[k] == there.size:
            break
        at_ms, status = int(there[passes[k]]), _status(part.row(k, named=True))
        uid, zero = str(part["uid"][k]), zero_of(status)
        had = before[1] if before[0] == uid else ""  # another object begins without a status
        if zero != had and at_ms not in anew:
            found.append(Seed(at_ms, h, status, first=False, zero=True))
        before = uid, zero
    return found


def _status(row: dict[str, object]) -> HPAStatus:
    last_scale = row.get("last_scale_time")
    status: dict[str, object] = {
        "currentReplicas": row["current_replicas"],
        "desiredReplicas": row["desired_replicas"],
        "conditions": decode_cell(
            str(row.get("conditions") or "[]"), list, "hpa_status.conditions"
        ),
    }
    if row.get("current_metrics"):
        status["currentMetrics"] = decode_cell(
            str(row["current_metrics"]), list, "hpa_status.current_metrics"
        )
    if row.get("observed_generation") is not None:
        status["observedGeneration"] = row["observed_generation"]
    if last_scale is not None:
        status["lastScaleTime"] = f"{last_scale:%Y-%m-%dT%H:%M:%SZ}"
    document = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "status": status}
    return decode_hpa(document)[0].status


def lives(periods: Sequence[SpecPeriod], now_ms: I64, anew_ms: I64) -> list[int]:
    """Return which of the objects that had an HPA's name each of its specs is of, from 0.

    One that a loop begins with nothing remembered (at one of `anew_ms`) counts as the object of
    the tick before: it has its own status to begin with, and none to forget. `now_ms`: all ticks.
    """
    found: list[int] = []
    decided = 0
    for k, period in enumerate(periods):
        life = found[-1] + (periods[k - 1].uid != period.uid) if k else 0
        at = int(np.searchsorted(now_ms, period.from_ms))
        if at < now_ms.size and now_ms[at] < period.to_ms:
            if now_ms[at] in anew_ms:
                life = decided
            decided = life
        found.append(life)
    return found
