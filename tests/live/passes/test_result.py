"""Labels of upstream's metrics, in columns: as `engine.explain.status` says them per tick."""

from __future__ import annotations

import numpy as np
import pytest

from hpabatch.layout import codes
from hpabatch.live.passes.result import (
    ACTIONS,
    ERRORS,
    metric_actions,
    metric_errors,
    reconcile_actions,
    reconcile_errors,
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


CASES = [
    # binding, scale, metrics, invalid metrics, label of 1.37, of 1.20
    (codes.BOUND_BY_METRIC, codes.SCALE_OK, [FINE], 0, "none", "none"),
    (codes.BOUND_BY_SCALE_READ, codes.SCALE_GET_FAILED, [SKIPPED], 0, "internal", "internal"),
    (codes.BOUND_BY_SCALE_READ, codes.SCALE_NO_RESOURCE, [SKIPPED], 0, "internal", "internal"),
    (codes.BOUND_BY_SCALE_READ, codes.SCALE_BAD_VERSION, [SKIPPED], 0, "spec", "spec"),
    (codes.BOUND_BY_SELECTOR, codes.SCALE_OK, [SKIPPED], 0, "internal", "internal"),
    (codes.BOUND_BY_INVALID_METRIC, codes.SCALE_OK, [FAILED, NO_TYPE], 2, "internal", "internal"),
    (codes.BOUND_BY_INVALID_METRIC, codes.SCALE_OK, [NO_TYPE, FAILED], 2, "spec", "internal"),
    (codes.BOUND_BY_SCALE_WRITE, codes.SCALE_UPDATE_FAILED, [FINE], 0, "internal", "internal"),
    (codes.BOUND_BY_METRIC, codes.SCALE_OK, [FINE, FAILED], 1, "internal", "none"),
    (codes.BOUND_BY_MAX, codes.SCALE_OK, [FINE, NO_TYPE], 1, "spec", "none"),
    (codes.BOUND_BY_FORCED_MAX, codes.SCALE_OK, [], 0, "none", "none"),
    (codes.BOUND_BY_NO_SCALE, codes.SCALE_UNKNOWN, [], 0, "none", "none"),
]


@pytest.mark.parametrize(("profile", "column"), [(NEWEST, 4), (OLD, 5)])
def test_errors_of_reconciliations(profile, column) -> None:  # type: ignore[no-untyped-def]
    decisions = decisions_of([3] * len(CASES))
    decisions.binding = [case[0] for case in CASES]
    decisions.invalid_metrics = [case[3] for case in CASES]
    scale = np.array([case[1] for case in CASES])
    metrics = metrics_of([case[2] for case in CASES])
    found = [ERRORS[e] for e in reconcile_errors(decisions, scale, metrics, profile)]
    assert found == [case[column] for case in CASES]


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
