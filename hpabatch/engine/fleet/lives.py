"""Lives of HPAs: as recorded, else those of their targets' data.

Nobody records in a table of usage when an HPA was created or deleted. Its import says from when to
when each workload has rows (provenance), and an HPA lives as long. That is looked up for each plan
and not written into `hpas`: a later import of the same workload then prolongs the life.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import polars as pl

from hpabatch.engine.fleet.candidates import (
    Candidate,
    Skipped,
    candidates_from_history,
    clusters_seen,
)
from hpabatch.engine.fleet.frames import ALWAYS_MS, NEVER_MS
from hpabatch.engine.fleet.parameters import SAMPLE_TABLES, sample_spacing_ms
from hpabatch.history.provenance import ROWS, TABLE, TARGET_ROWS
from hpabatch.history.reader import History
from hpabatch.model.versions import Profile

EDGE_MS = 300_000
EDGE_SPACINGS = 2.5
"""Data that begin or end this near the history's first or last, in ms or in the usual time between
two samples, are not the begin or end of a life: workloads are sampled at different times."""

_OUTSIDE = (
    "its specs were in force only at times at which its target {target} has no rows; import those "
    "times of the target, or correct valid_from and valid_to in hpas"
)

_Workload = tuple[str, str, str]
"""Cluster, namespace and name."""


@dataclass(frozen=True, slots=True)
class DataSpans:
    """First and last row of workloads that were imported from a table, and of the history, ms."""

    of: Mapping[_Workload, tuple[int, int]]
    first_ms: int
    last_ms: int
    edge_ms: int = EDGE_MS


def candidates_of(
    history: History, profile_of: Callable[[str], Profile]
) -> tuple[list[Candidate], list[Skipped]]:
    """Return the HPAs of a history, each for its own life, and those whose spec is refused."""
    seen = clusters_seen(history)
    found, skipped = candidates_from_history(history.read("hpas"), profile_of, seen)
    kept, outside = within_lives(found, history)
    return kept, skipped + outside


def within_lives(
    candidates: Iterable[Candidate], history: History
) -> tuple[list[Candidate], list[Skipped]]:
    """Return HPAs with their specs cut to their targets' data, unless their life was recorded.

    A gap within the data stays in the life; a target at 0 replicas has data while rows say so. HPAs
    of which nothing is left are returned apart, with the reason.
    """
    spans = _data_spans(history)
    if not spans.of:
        return list(candidates), []
    kept, outside = [], []
    for candidate in candidates:
        within = _within(candidate, spans)
        if within.periods:
            kept.append(within)
        else:
            reason = _OUTSIDE.format(target="/".join(candidate.target[2:]))
            outside.append(Skipped(candidate.cluster, candidate.namespace, candidate.name, reason))
    return kept, outside


def row_spans(history: History) -> dict[_Workload, tuple[int, int]]:
    """Return the first and last row (ms) of each workload that was imported from a table."""
    columns = ["cluster", "namespace", "name", "subject", "method", "valid_from", "valid_to"]
    rows = history.distinct(TABLE, columns)
    rows = rows.filter((pl.col("subject") == TARGET_ROWS) & (pl.col("method") == ROWS))
    times = rows.with_columns(pl.col("valid_from", "valid_to").to_physical()).drop_nulls("valid_to")
    found = times.group_by("cluster", "namespace", "name").agg(
        pl.col("valid_from").min(), pl.col("valid_to").max() - 1
    )
    return {(c, n, w): (first, last) for c, n, w, first, last in found.iter_rows()}


def _data_spans(history: History) -> DataSpans:
    """Return from when to when a history has rows of each workload, and any; empty: no table."""
    of = row_spans(history)
    if not of:
        return DataSpans({}, ALWAYS_MS, NEVER_MS)
    ends = pl.concat([history.span(table) for table in SAMPLE_TABLES]).drop("cluster")
    seen = [ms for column in ends for ms in column.drop_nulls().to_physical().to_list()]
    first = min([*seen, *(first for first, _ in of.values())])
    last = max([*seen, *(last for _, last in of.values())])
    edge = max(EDGE_MS, int(EDGE_SPACINGS * sample_spacing_ms(history)))
    return DataSpans(of, first, last, edge)


def _within(candidate: Candidate, spans: DataSpans) -> Candidate:
    """Return an HPA with its specs cut to its target's data, where nothing else says its life.

    Kinds are not compared: a history tells workloads apart by namespace and name.
    """
    cluster, namespace, _, target = candidate.target
    data = spans.of.get((cluster, namespace, target))
    if data is None or candidate.created:
        return candidate
    begins = data[0] - spans.first_ms > spans.edge_ms
    # A recorded deletion counts as it is.
    ends = spans.last_ms - data[1] > spans.edge_ms and candidate.periods[-1].to_ms == NEVER_MS
    from_ms = data[0] if begins else ALWAYS_MS
    to_ms = data[1] + 1 if ends else NEVER_MS
    cut = [
        replace(p, from_ms=max(p.from_ms, from_ms), to_ms=min(p.to_ms, to_ms))
        for p in candidate.periods
    ]
    return replace(candidate, periods=tuple(p for p in cut if p.from_ms < p.to_ms))
