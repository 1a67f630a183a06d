"""Statuses, events and errors read out of a replay, where no golden data have their words."""

from __future__ import annotations

from dataclasses import replace

from hpabatch.layout import codes
from hpabatch.model.objects.hpa import HPASpec
from tests.engine.explained import syncs
from tests.packed import TickView
from tests.rules.helpers import EXACT_WISH, NO_TOLERANCE, hpa_spec, tick, wish

SPEC = hpa_spec(EXACT_WISH, low=2, high=9)
COMPUTE = (
    "failed to compute desired number of replicas based on listed metrics for Deployment/shop/web: "
)


def told(
    spec: HPASpec, view: TickView, k8s: str
) -> tuple[list[tuple[str, str, str]], str | None, dict[str, str | None]]:
    """Return events (type, reason, message), the error, and messages of conditions by type."""
    (sync,) = syncs(spec, [view], NO_TOLERANCE, k8s)
    events = [(e.type, e.reason, e.message) for e in sync.reader.events(sync.words, 0, "")]
    conditions = sync.reader.status(sync.words, 0).conditions
    return (
        events,
        sync.reader.error(sync.words, 0, ""),
        {c.type: c.message for c in conditions},
    )


def test_no_metrics_at_all() -> None:
    events, error, _ = told(replace(SPEC, metrics=()), tick(0, 5, answers=[]), "1.38")
    text = "invalid metrics (0 invalid out of 0), first error is: %!v(<nil>)"
    assert events == [("Warning", "FailedComputeMetricsReplicas", text)]
    assert error == COMPUTE + text


def test_old_versions_take_the_error_of_a_selector_for_a_format() -> None:
    view = wish(0, 5, 5, selector=codes.SELECTOR_INVALID, selector_error="100% y")
    events, _, conditions = told(SPEC, view, "1.26")
    raw = "couldn't convert selector into a corresponding internal selector object: 100% y"
    printed = raw.replace("% y", "%!y(MISSING)")
    assert events == [
        ("Warning", "InvalidSelector", raw),
        ("Warning", "FailedComputeMetricsReplicas", printed),
    ]
    assert conditions["ScalingActive"] == printed
