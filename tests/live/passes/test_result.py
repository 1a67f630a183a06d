"""Labels of upstream's metrics, in columns: as `engine.explain.status` says them per tick."""

from __future__ import annotations

from hpabatch.layout import codes
from hpabatch.live.passes.result import (
    ACTIONS,
    ERRORS,
    metric_actions,
    metric_errors,
    reconcile_actions,
)
from hpabatch.model.versions import profile_for
from tests.live.made_passes import decisions_of, metrics_of, pass_of

NEWEST, OLD = profile_for("1.37"), profile_for("1.20")
RESOURCE, UNKNOWN = codes.SOURCE_RESOURCE, codes.SOURCE_UNKNOWN
FINE = (RESOURCE, codes.METRIC_OK, 3)
FAILED = (RESOURCE, codes.METRIC_FETCH_FAILED, 0)
NO_TYPE = (UNKNOWN, codes.METRIC_UNKNOWN_TYPE, 0)
SKIPPED = (RESOURCE, codes.METRIC_NOT_COMPUTED, 0)


def test_only_a_written_scale_is_an_action() -> None:
    decisions = decisions_of([5, 2, 3, 9], [3, 3, 3, 3])
    decisions.rescaled[3] = 0  # wanted, not written
    assert [ACTIONS[a] for a in reconcile_actions(decisions)] == [
        "scale_up", "scale_down", "none", "none",
    ]  # fmt: skip


def test_labels_of_metrics_compare_with_the_replicas_before() -> None:
    rows = [[(RESOURCE, codes.METRIC_OK, 4), FAILED], [], [(RESOURCE, codes.METRIC_OK, 2), NO_TYPE]]
    result = pass_of(0, [3, 3, 3], [3, 3, 3], metrics=metrics_of(rows))
    assert [ACTIONS[a] for a in metric_actions(result)] == [
        "scale_up", "none", "scale_down", "none",
    ]  # fmt: skip
    assert [ERRORS[e] for e in metric_errors(result, NEWEST)] == [
        "none", "internal", "none", "spec",
    ]  # fmt: skip
    assert [ERRORS[e] for e in metric_errors(result, OLD)][3] == "internal"
