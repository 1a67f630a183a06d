"""Requests of a workload's pods, as the base of its cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import polars as pl

from hpabatch.engine.fleet.candidates import Candidate
from hpabatch.engine.fleet.plan import ReplayPlan
from hpabatch.engine.fleet.pod_columns import Row, request_of_rows
from hpabatch.model.plant import signal_name
from hpabatch.model.requests import RequestRules

# Containers that run beside each other; init containers have ended.
_RUNNING = ("app", "sidecar", "pod", "overhead")


_PLACE: Final = ("namespace", "target")


class Requested(NamedTuple):
    """The requests of one pod in milli (of cpu, of bytes); None: not recorded, or not set."""

    cpu_milli: int | None = None
    memory_milli: int | None = None


NOT_REQUESTED: Final = Requested()


def requested_of(
    plan: ReplayPlan, candidates: Sequence[Candidate], *, limits: bool = False
) -> dict[tuple[str, str, str, str], Requested]:
    """Return by target the requests of its newest pod, or its limits added up in the same way.

    Raises:
        HistoryError: the table of requests is broken.
    """
    found = {}
    for cluster in dict.fromkeys(candidate.cluster for candidate in candidates):
        theirs = [c for c in candidates if c.cluster == cluster]
        places = list(dict.fromkeys((c.target[1], c.target[3]) for c in theirs))
        rows = plan.requests_of(cluster, places)
        if limits:
            rows = rows.drop("cpu_milli", "memory_milli").rename(
                {"cpu_limit_milli": "cpu_milli", "memory_limit_milli": "memory_milli"}
            )
        newest = _newest(rows)
        for candidate in theirs:
            place = candidate.target[1], candidate.target[3]
            found[candidate.target] = newest.get(place, Requested())
    return found


def limits_of_signals(plan: ReplayPlan) -> dict[tuple[str, str, str], dict[str, int]]:
    """Return by HPA and signal what the newest pod of its target may use, in milli.

    Of Resource metrics the limits of all containers together, of ContainerResource metrics that of
    the container; nothing where one of them has none.

    Raises:
        HistoryError: the table of requests is broken.
    """
    found: dict[tuple[str, str, str], dict[str, int]] = {}
    rules = RequestRules(container_must_exist=True)
    for cluster in dict.fromkeys(candidate.cluster for candidate in plan.chosen):
        theirs = [c for c in plan.chosen if c.cluster == cluster]
        places = list(dict.fromkeys((c.target[1], c.target[3]) for c in theirs))
        pods = _newest_rows(plan.requests_of(cluster, places))
        for c in theirs:
            rows = tuple(pods.get((c.target[1], c.target[3]), ()))
            limits = {}
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


def _newest_rows(rows: pl.DataFrame) -> dict[tuple[str, str], list[Row]]:
    """Return by (namespace, target) the limits of the pod with the newest rows, as requests."""
    names = ["container", "kind", "index", "cpu_limit_milli", "memory_limit_milli"]
    found: dict[tuple[str, str], list[Row]] = {}
    for namespace, target, *row in (
        _newest_pods(rows).select("namespace", "target", *names).iter_rows()
    ):
        found.setdefault((namespace, target), []).append(tuple(row))
    return found


def _newest(rows: pl.DataFrame) -> dict[tuple[str, str], Requested]:
    """Return by (namespace, target) what the pod with the newest rows requests in all.

    Pod-level requests (kind `pod`) stand for those of the containers, overhead comes on top.
    """
    found = {}
    for key, pod in _newest_pods(rows).partition_by(_PLACE, as_dict=True).items():
        amounts = [_total(pod, column) for column in ("cpu_milli", "memory_milli")]
        found[str(key[0]), str(key[1])] = Requested(*amounts)
    return found


def _newest_pods(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the last rows of the containers of the pod with the newest ones, of each target."""
    running = rows.filter(pl.col("kind").is_in(_RUNNING)).sort("valid_from", "uid")
    last = running.group_by(_PLACE, maintain_order=True).agg(pl.col("uid").last())
    newest = running.join(last, on=[*_PLACE, "uid"], how="inner", maintain_order="left")
    return newest.unique([*_PLACE, "kind", "index", "container"], keep="last", maintain_order=True)


def _total(pod: pl.DataFrame, column: str) -> int | None:
    whole = pod.filter((pl.col("kind") == "pod") & pl.col(column).is_not_null())
    parts = whole if whole.height else pod.filter(pl.col("kind").is_in(["app", "sidecar"]))
    if parts.is_empty() or parts[column].null_count() == parts.height:
        return None
    overhead = pod.filter(pl.col("kind") == "overhead")[column].sum()
    return int(parts[column].sum()) + int(overhead or 0)
