"""What the pods of a workload request: for what they cost, whatever its HPA measures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import polars as pl

from hpabatch.engine.candidates import Candidate
from hpabatch.engine.plan import ReplayPlan

# Containers that run beside each other; init containers have ended.
_RUNNING = ("app", "sidecar", "pod", "overhead")


class Requested(NamedTuple):
    """The requests of one pod in milli (of cpu, of bytes); None: not recorded, or not set."""

    cpu_milli: int | None = None
    memory_milli: int | None = None


NOT_REQUESTED: Final = Requested()


def requested_of(
    plan: ReplayPlan, candidates: Sequence[Candidate]
) -> dict[tuple[str, str, str, str], Requested]:
    """Return by target the requests of its newest pod (HistoryError: the table is broken)."""
    found = {}
    for cluster in dict.fromkeys(candidate.cluster for candidate in candidates):
        theirs = [c for c in candidates if c.cluster == cluster]
        places = list(dict.fromkeys((c.target[1], c.target[3]) for c in theirs))
        rows = plan.history.select("pod_requests", cluster, places)
        newest = _newest(rows)
        for candidate in theirs:
            place = candidate.target[1], candidate.target[3]
            found[candidate.target] = newest.get(place, Requested())
    return found


def _newest(rows: pl.DataFrame) -> dict[tuple[str, str], Requested]:
    """Return by (namespace, target) what the pod with the newest rows requests in all.

    Pod-level requests (kind `pod`) stand for those of the containers, overhead comes on top.
    """
    keys = ["namespace", "target"]
    running = rows.filter(pl.col("kind").is_in(_RUNNING)).sort("valid_from", "uid")
    last = running.group_by(keys, maintain_order=True).agg(pl.col("uid").last())
    newest = running.join(last, on=[*keys, "uid"], how="inner")
    newest = newest.unique([*keys, "kind", "index", "container"], keep="last", maintain_order=True)
    found = {}
    for key, pod in newest.partition_by(keys, as_dict=True).items():
        amounts = [_total(pod, column) for column in ("cpu_milli", "memory_milli")]
        found[str(key[0]), str(key[1])] = Requested(*amounts)
    return found


def _total(pod: pl.DataFrame, column: str) -> int | None:
    whole = pod.filter((pl.col("kind") == "pod") & pl.col(column).is_not_null())
    parts = whole if whole.height else pod.filter(pl.col("kind").is_in(["app", "sidecar"]))
    if parts.is_empty() or parts[column].null_count() == parts.height:
        return None
    overhead = pod.filter(pl.col("kind") == "overhead")[column].sum()
    return int(parts[column].sum()) + int(overhead or 0)
