"""Several metrics: the largest valid one wins, failures and ties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.layout import codes
from hpabatch.packing.pack import MetricAnswer
from tests.rules.helpers import (
    FETCH_FAILED,
    NO_TOLERANCE,
    Json,
    external,
    hpa_spec,
    object_metric,
    pods_metric,
    replay,
    resource,
    some,
    status_with,
    tick,
    total,
    usages,
    wanted,
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


def test_zero_gives_way_even_to_a_negative_proposal() -> None:
    spec = hpa_spec(external(average="1"), object_metric(average="1"))
    ticks = [tick(0, 5, answers=[total(0), total(-3000)])]
    result = replay(spec, ticks, flags=NO_TOLERANCE)[0]
    assert [m["proposal"] for m in result["metrics"]] == [0, -3]
    assert (result["metric"], result["proposal"]) == (1, 0)


def test_all_metrics_failed_keeps_the_desired_number() -> None:
    result = queues(None, None)
    assert (result["current"], result["desired"], result["rescaled"]) == (5, 42, False)
    assert (result["metric"], result["invalid"]) == (-1, 2)
    assert (result["proposal"], result["stabilized"], result["limited"]) == (5, 5, 5)
    assert result["conditions"]["ScalingActive"] == "False FailedGetExternalMetric"
    assert "ScalingLimited" not in result["conditions"]


def test_the_condition_is_that_of_the_first_failed_metric() -> None:
    spec = hpa_spec(object_metric(average="1"), resource(50), external(value="1"))
    ticks = [tick(0, 5, answers=[total(1000), FETCH_FAILED, FETCH_FAILED])]
    result = replay(spec, ticks)[0]
    assert result["conditions"]["ScalingActive"] == "False FailedGetResourceMetric"
    assert result["invalid"] == 2


@pytest.mark.parametrize(
    ("metric", "reason"),
    [
        (object_metric(value="1"), "FailedGetObjectMetric"),
        (pods_metric("1"), "FailedGetPodsMetric"),
        (resource(50), "FailedGetResourceMetric"),
        (resource(50, container="app"), "FailedGetContainerResourceMetric"),
        (external(value="1"), "FailedGetExternalMetric"),
        ({"type": "Odd"}, "InvalidMetricSourceType"),
    ],
)
def test_each_kind_fails_with_its_own_reason(metric: Json, reason: str) -> None:
    result = replay(hpa_spec(metric), [tick(0, 5, answers=[FETCH_FAILED])])[0]
    assert result["conditions"]["ScalingActive"] == f"False {reason}"


@pytest.mark.parametrize(
    ("metric", "answer", "pods", "code"),
    [
        (resource(50), FETCH_FAILED, 0, codes.METRIC_FETCH_FAILED),
        (resource(50), MetricAnswer(codes.METRIC_ANSWER_EMPTY), 0, codes.METRIC_ANSWER_EMPTY),
        (resource(50), usages([], [7]), 0, codes.METRIC_NO_PODS),
        (resource(50), MetricAnswer(), 2, codes.METRIC_NO_SAMPLES),
        (pods_metric("1"), usages([], [7]), 0, codes.METRIC_NO_PODS),
        (external(value="1"), total(5000), 0, codes.METRIC_NO_PODS),
    ],
)
def test_why_a_metric_fails(metric: Json, answer: MetricAnswer, pods: int, code: int) -> None:
    result = replay(hpa_spec(metric), [tick(0, 5, some(pods), [answer])])[0]
    assert result["metrics"][0]["code"] == code
    assert result["metrics"][0]["proposal"] == 0


def test_object_averages_read_status_replicas() -> None:
    assert wanted(object_metric(average="10"), [], 5, 52_000, status=2) == 6
    assert wanted(object_metric(average="10"), [], 5, 52_000, status=5) == 5


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
