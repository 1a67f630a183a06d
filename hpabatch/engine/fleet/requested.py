"""Requests of a workload's pods, as the base of its cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import polars as pl

from hpabatch.engine.fleet.candidates import Candidate
from hpabatch.engine.fleet.clocks import HpaKey
from hpabatch.engine.fleet.membership import ScaleKey
from hpabatch.engine.fleet.plan import ReplayPlan
from hpabatch.engine.fleet.pod_columns import request_of_rows
from hpabatch.model.plant import signal_name
from hpabatch.model.requests import RequestRules

# Containers that run beside each other; init containers have ended.
_RUNNING = ("app", "sidecar", "pod", "overhead")


_PLACE: Final = ("namespace", "target")
_ROW: Final = ("container", "kind", "index", "cpu_milli", "memory_milli")


class Requested(NamedTuple):
    """The requests of one pod in milli (of cpu, of bytes); None: not recorded, or not set."""

    cpu_milli: int | None = None
    memory_milli: int | None = None


NOT_REQUESTED: Final = Requested()


def requested_of(
    plan: ReplayPlan, candidates: Sequence[Candidate], *, limits: bool = False
) -> dict[ScaleKey, Requested]:
    """Return by target the requests of its newest pod, or its limits added up in the same way.

    Pod-level requests (kind `pod`) stand for those of the containers, overhead comes on top.

    Raises:
        HistoryError: the table of requests is broken.
    """
    pods = _newest_pods(plan, candidates, limits=limits)
    amounts = ("cpu_milli", "memory_milli")
    known = {place: Requested(*(_total(pod, n) for n in amounts)) for place, pod in pods.items()}
    return {c.target: known.get(_place(c), NOT_REQUESTED) for c in candidates}


def limits_of_signals(plan: ReplayPlan) -> dict[HpaKey, dict[str, int]]:
    """Return by HPA and signal what the newest pod of its target may use, in milli.

    Of Resource metrics the limits of all containers together, of ContainerResource metrics that of
    the container; nothing where one of them has none.

    Raises:
        HistoryError: the table of requests is broken.
    """
    found: dict[HpaKey, dict[str, int]] = {}
    rules = RequestRules(container_must_exist=True)
    pods = _newest_pods(plan, plan.chosen, limits=True)
    for c in plan.chosen:
        limits, pod = {}, pods.get(_place(c))
        rows = () if pod is None else tuple(pod.select(_ROW).iter_rows())
        for metric in c.spec.metrics:
            source = metric.resource or metric.container_resource
            if source is None or not rows:
                continue
            container = getattr(source, "container", "")
            known, milli = request_of_rows(rows, source.name, container, rules)
            if known and milli > 0:
                limits[signal_name(metric)] = milli
        found[c.key] = limits
    return found


def _place(candidate: Candidate) -> tuple[str, ...]:
    """Return cluster, namespace and name of the target, whose kind rows of requests do not say."""
    cluster, namespace, _, name = candidate.target
    return cluster, namespace, name


def _newest_pods(
    plan: ReplayPlan, candidates: Sequence[Candidate], *, limits: bool
) -> dict[tuple[str, ...], pl.DataFrame]:
    """Return by `_place` the last rows of the containers of the pod with the newest ones.

    With `limits` these are in place of the requests. A target without a row is not in it.
    """
    found: dict[tuple[str, ...], pl.DataFrame] = {}
    for cluster in dict.fromkeys(candidate.cluster for candidate in candidates):
        theirs = dict.fromkeys(_place(c) for c in candidates if c.cluster == cluster)
        rows = plan.requests_of(cluster, [(namespace, name) for _, namespace, name in theirs])
        if limits:
            rows = rows.drop("cpu_milli", "memory_milli").rename(
                {"cpu_limit_milli": "cpu_milli", "memory_limit_milli": "memory_milli"}
            )
        running = rows.filter(pl.col("kind").is_in(_RUNNING)).sort("valid_from", "uid")
        last = running.group_by(_PLACE, maintain_order=True).agg(pl.col("uid").last())
        newest = running.join(last, on=[*_PLACE, "uid"], how="inner", maintain_order="left")
        key = [*_PLACE, "kind", "index", "container"]
        newest = newest.unique(key, keep="last", maintain_order=True)
        for place, pod in newest.partition_by(_PLACE, as_dict=True).items():
            found[cluster, *map(str, place)] = pod
    return found


def _total(pod: pl.DataFrame, column: str) -> int | None:
    whole = pod.filter((pl.col("kind") == "pod") & pl.col(column).is_not_null())
    parts = whole if whole.height else pod.filter(pl.col("kind").is_in(["app", "sidecar"]))
    if parts.is_empty() or parts[column].null_count() == parts.height:
        return None
    overhead = pod.filter(pl.col("kind") == "overhead")[column].sum()
    return int(parts[column].sum()) + int(overhead or 0)
