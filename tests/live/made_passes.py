"""Passes of the live loop, made from plain numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hpabatch.layout import codes
from hpabatch.layout.records import I64, Records
from hpabatch.layout.results import DECISION
from hpabatch.live.passes.result import (
    ACTION_NONE,
    NO_STATUS,
    MetricColumns,
    PassResult,
    Problem,
    reconcile_actions,
)
from hpabatch.model.objects.hpa import HPA


def decisions_of(ours: Sequence[int], current: Sequence[int] | None = None) -> Records:
    """Return decisions; the scale is written where ours is not the current size."""
    found = np.zeros(len(ours), DECISION).view(np.recarray)
    found.desired = ours
    found.current = ours if current is None else current
    found.proposal = ours
    found.rescaled = found.desired != found.current
    return found


def metrics_of(rows: Sequence[Sequence[tuple[int, int, int]]]) -> MetricColumns:
    """Return what metrics said: of each lane (source, code, proposal)s."""
    flat = np.array([row for lane in rows for row in lane], np.int64).reshape(-1, 3)
    start = np.cumsum([0, *(len(lane) for lane in rows)])
    return MetricColumns(start, flat[:, 0].astype(np.int8), flat[:, 1].astype(np.int8), flat[:, 2])


def pass_of(
    now_s: float,
    ours: Sequence[int],
    theirs: Sequence[int],
    *,
    names: Sequence[str] | None = None,
    current: Sequence[int] | None = None,
    metrics: MetricColumns | None = None,
    binding: Sequence[int] | None = None,
    problems: Sequence[Problem] = (),
    start: bool = False,
) -> PassResult:
    """Return a pass over HPAs of namespace `shop`; their uids are made of their names."""
    found = names if names is not None else [f"web-{k}" for k in range(len(ours))]
    decisions = decisions_of(ours, current)
    if binding is not None:
        decisions.binding = binding
    sizes: I64 = np.asarray(decisions.current, np.int64)
    return PassResult(
        now_ms=int(now_s * 1000),
        namespaces=["shop"] * len(found),
        names=list(found),
        uids=[f"uid-{name}" for name in found],
        targets=[f"Deployment/{name}" for name in found],
        decisions=decisions,
        spec_replicas=sizes,
        theirs_desired=np.array(theirs, np.int64),
        current_before=sizes,
        action=reconcile_actions(decisions),
        error=np.full(len(ours), ACTION_NONE, np.int8),
        metrics=metrics
        or metrics_of([[(codes.SOURCE_RESOURCE, codes.METRIC_OK, our)] for our in ours]),
        why=lambda h: f"because of {found[h]}",
        document=lambda h: HPA(name=found[h], namespace="shop"),
        duration_s=0.25,
        phases={"fetch": 0.1, "decide": 0.05},
        problems=problems,
        start=start,
    )


__all__ = ["NO_STATUS", "decisions_of", "metrics_of", "pass_of"]
