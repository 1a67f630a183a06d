"""Several metrics: the largest valid one wins, failures and ties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rules.helpers import (
    FETCH_FAILED,
    NO_TOLERANCE,
    Json,
    external,
    hpa_spec,
    replay,
    status_with,
    tick,
    total,
)


def queues(*wishes: int | None, current: int = 5, high: int = 1000) -> Json:
    """Return the result of External metrics that propose these numbers (None: failed)."""
    metrics = [external(average="1", name=f"queue{k}") for k in range(len(wishes))]
    answers = [FETCH_FAILED if n is None else total(1000 * n) for n in wishes]
    ticks = [tick(0, current, answers=answers)]
    status = status_with(current=current, desired=42)
    spec = hpa_spec(*metrics, high=high)
    options = {"flags": NO_TOLERANCE, "recommendations": [(1, -7200)], "status": status}
    return replay(spec, ticks, **options)[0]


@pytest.mark.parametrize(
    ("wishes", "winner", "proposal"),
    [
        ([7], 0, 7),
        ([7, 9, 8], 1, 9),
        ([9, 9], 0, 9),  # a tie keeps the earlier one
        ([0, 0], 1, 0),  # but 0 gives way to whatever comes next
        ([0, 3], 1, 3),
        ([3, 0], 0, 3),
        ([None, 7], 1, 7),
        ([7, None, 8], 2, 8),
    ],
)
def test_the_largest_valid_proposal_wins(
    wishes: list[int | None], winner: int, proposal: int
) -> None:
    result = queues(*wishes)
    assert (result["metric"], result["proposal"]) == (winner, proposal)
    assert result["invalid"] == wishes.count(None)


@given(st.lists(st.one_of(st.none(), st.integers(0, 20)), min_size=1, max_size=5))
def test_combining_is_a_maximum_with_a_brake(wishes: list[int | None]) -> None:
    result = queues(*wishes, current=8)
    valid = [n for n in wishes if n is not None]
    held = not valid or (len(valid) < len(wishes) and max(valid) < 8)
    if held:
        assert (result["binding"], result["desired"]) == ("invalid_metric", 42)
    else:
        assert result["proposal"] == max(valid)
        assert wishes[result["metric"]] == max(valid)


def test_at_zero_a_lone_failed_metric_is_no_wish_for_zero() -> None:
    status = status_with(("ScaledToZero", "True", "ScaledToZero"), desired=3)
    ticks = [tick(0, 0, answers=[FETCH_FAILED])]
    result = replay(hpa_spec(external(average="1"), low=2), ticks, status=status)[0]
    assert (result["binding"], result["desired"], result["rescaled"]) == (
        "invalid_metric",
        3,
        False,
    )
    assert result["conditions"]["ScalingActive"] == "False FailedGetExternalMetric"
