"""Explanations of decided ticks: every number agrees with the decision that it explains.

What each kind of decision is explained by is in `tests/report/explain/scenes.txt`.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from hpabatch.engine.explain import facts
from hpabatch.engine.explain.run import explain_sync
from hpabatch.engine.explain.sync import Sync
from hpabatch.layout import codes
from hpabatch.rules.numbers import INT32_MAX, div64, divide
from tests.conformance.golden import timeline_lane
from tests.engine.explained import scale_of_tick, syncs
from tests.reference.generate import behavior_timeline, timeline

GROUPS = (facts.READY, facts.UNREADY, facts.MISSING, facts.IGNORED, facts.STRAY)


@pytest.mark.parametrize("k8s", ["1.20", "1.32", "1.38"])
@pytest.mark.parametrize("seed", [1])
def test_any_tick_of_any_controller_can_be_explained(k8s: str, seed: int) -> None:
    for kind in (timeline, behavior_timeline):
        view = timeline_lane(kind(random.Random(seed), 20))
        for sync in syncs(view.specs, view.ticks, k8s=k8s):
            found, decision = explain_sync(sync, scale_of_tick(sync)), sync.decision
            assert found.decision.desired == decision.desired
            assert found.decision.rescaled == bool(decision.rescaled)
            for metric, (m, _) in zip(found.metrics, sync.metrics(), strict=False):
                _check_metric(metric, sync, m)
            proposals = [m.proposal for m in found.metrics if m.proposal is not None]
            assert decision.metric < 0 or max(decision.proposal, 0) in (0, *proposals)
            if found.windows is not None:
                _check_windows(found, found.windows)
            if found.limits is not None:
                _check_limits(found, found.limits)


def _check_metric(metric: facts.MetricFact, sync: Sync, m: int) -> None:
    """Hold what is derived from the sums over the pods against what the rule returned."""
    said = sync.results.metrics[sync.answer_row(m)]
    if metric.counts is not None:
        assert metric.counts == facts.Counts(
            *(sum(p.group == group for p in metric.pods) for group in GROUPS)
        )
    last, step = metric.last, said.step
    if said.code != codes.METRIC_OK or last is None:
        return
    value = last.utilization_pct if metric.target_pct is not None else None
    if metric.counts is not None and not metric.values_milli:
        if value is None:
            value = int(div64(last.usage_milli, last.pods))
        target = metric.target_pct or metric.target_milli or 0
        ratio = divide(float(value), float(target))
        assert np.array_equal(last.ratio, ratio, equal_nan=True)
    assert np.array_equal(last.ratio, said.ratio, equal_nan=True)
    if step == codes.STEP_RATIO and metric.proposal != INT32_MAX:
        assert metric.wanted == metric.proposal


def _check_windows(found: facts.Explanation, windows: facts.Windows) -> None:
    current, proposal = found.decision.current, found.decision.proposal
    assert windows.stabilized == found.decision.stabilized
    if windows.lowest is None:
        assert windows.stabilized == windows.highest
    elif windows.clamps_current:
        assert windows.stabilized == min(max(current, windows.lowest), windows.highest)
    else:
        assert windows.stabilized == (windows.lowest if proposal >= current else windows.highest)


def _check_limits(found: facts.Explanation, limits: facts.Limits) -> None:
    limited = limits.limited if found.raised_to is None else found.raised_to
    assert limited == found.decision.limited
    ends = [policy.limit for policy in limits.policies]
    if ends:
        best = max if (limits.direction == "up") == (limits.select == "Max") else min
        assert limits.limit == best(ends)
