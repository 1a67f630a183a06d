"""Edge vectors, and where common explanations of the HPA differ from its code.

Unless said otherwise the tolerance is 0.1 and a pod requests 1000m of cpu. The texts of the last
vectors (errors and events) are no decisions and are tested where the texts are made.
"""

from __future__ import annotations

import math

import pytest

from hpabatch.layout import codes
from hpabatch.model.quantity import Quantity
from hpabatch.packing.pack import MetricAnswer
from tests.rules.helpers import (
    EXACT_WISH,
    FETCH_FAILED,
    NO_TOLERANCE,
    SCALED_TO_ZERO,
    Json,
    Pod,
    calculate,
    external,
    follow,
    hpa_spec,
    lane,
    object_metric,
    pods_metric,
    policies,
    replay,
    resource,
    sizes,
    some,
    status_with,
    tick,
    total,
    wanted,
    wish,
)

MAX_INT64 = 2**63 - 1
MIN_INT64 = -(2**63)


def unready(count: int) -> list[Pod]:
    """Return pods that were never ready, with a sample."""
    return some(count, 999, ready="False", transition_s=-86_400)


def missing(count: int, **fields: int) -> list[Pod]:
    """Return running pods without a sample."""
    return some(count, None, **fields)


def decided(spec_or_specs: object, *ticks: object, **options: object) -> Json:
    """Return the last tick's result; the initial recommendation is long gone."""
    options = {"recommendations": [(1, -7200)], "flags": NO_TOLERANCE} | options
    return replay(spec_or_specs, list(ticks), **options)[-1]  # type: ignore[arg-type]


# ---- missing and unready pods --------------------------------------------------------------------


def test_e1_missing_pods_are_charged_their_request_not_the_target() -> None:
    result = calculate(resource(60), some(8, 200) + missing(2), 10)
    assert result["utilization_pct"] == 20  # of the first pass, shown in the status
    assert result["ratio"] == 36 / 60
    assert result["proposal"] == 6  # with 100 % of the target it would be 28 % and 5


def test_e2_for_pods_metrics_missing_pods_are_charged_the_target() -> None:
    result = calculate(pods_metric("60m"), some(8, 20) + missing(2), 10)
    assert (result["average_milli"], result["ratio"]) == (20, 28 / 60)
    assert result["proposal"] == 5


def test_e3_missing_pods_turn_the_direction_so_nothing_happens() -> None:
    result = calculate(resource(50), some(3, 300) + missing(2), 5)
    assert (result["ratio"], result["proposal"]) == (58 / 50, 5)
    assert result["step"] == codes.STEP_DIRECTION_GUARD


def test_e4_a_target_above_100_charges_missing_pods_the_target() -> None:
    result = calculate(resource(150), some(3, 500) + missing(2), 5)
    assert (result["ratio"], result["proposal"]) == (90 / 150, 3)


def test_e5_unready_pods_are_absent_on_the_way_down() -> None:
    result = calculate(resource(60), some(5, 300) + unready(5), 10)
    assert (result["ratio"], result["proposal"]) == (0.5, 3)


def test_e6_unready_pods_at_zero_turn_the_direction() -> None:
    result = calculate(resource(60), some(3, 900) + unready(3), 6)
    assert (result["utilization_pct"], result["ratio"]) == (90, 45 / 60)
    assert (result["proposal"], result["step"]) == (6, codes.STEP_DIRECTION_GUARD)


def test_e7_unready_pods_at_zero_dampen_the_way_up() -> None:
    result = calculate(resource(60), some(3, 1200) + unready(1), 4)
    assert (result["ratio"], result["proposal"]) == (1.5, 6)


@pytest.mark.parametrize(("utilization", "ratio"), [(66, 1.1), (54, 0.9)])
def test_e8_e9_both_ends_of_the_tolerance_stay(utilization: int, ratio: float) -> None:
    result = calculate(resource(60), some(3, 10 * utilization), 3)
    assert (result["ratio"], result["proposal"]) == (ratio, 3)
    assert result["step"] == codes.STEP_TOLERANCE


@pytest.mark.parametrize(("utilization", "proposal"), [(67, 4), (53, 9)])
def test_one_percent_beyond_the_tolerance_moves(utilization: int, proposal: int) -> None:
    pods = 3 if utilization > 60 else 10
    assert wanted(resource(60), some(pods, 10 * utilization), pods) == proposal


def test_e10_utilization_is_a_truncated_percent() -> None:
    result = calculate(resource(60), some(3, 199, request=300), 3)
    assert (result["utilization_pct"], result["ratio"], result["average_milli"]) == (66, 1.1, 199)


@pytest.mark.parametrize(("utilization", "proposal"), [(60, 3), (61, 4)])
def test_e11_without_tolerance_only_equality_stays(utilization: int, proposal: int) -> None:
    pods = some(3, 10 * utilization)
    assert wanted(resource(60), pods, 3, flags=NO_TOLERANCE) == proposal


def test_e12_a_first_ratio_of_exactly_one_adds_nothing_for_missing_pods() -> None:
    result = calculate(resource(60), some(3, 600) + missing(2), 5, flags=NO_TOLERANCE)
    assert (result["ratio"], result["proposal"]) == (1.0, 5)
    assert result["step"] == codes.STEP_TOLERANCE_AFTER_SUBSTITUTION


# ---- External metrics ----------------------------------------------------------------------------


def test_e13_from_zero_a_value_scales_without_tolerance_or_pods() -> None:
    spec = hpa_spec(external(value="100"), low=0)
    ticks = [tick(0, 0, answers=[total(150_000)])]
    result = decided(spec, *ticks, status=status_with(SCALED_TO_ZERO))
    assert (result["proposal"], result["desired"]) == (2, 2)
    result = decided(spec, tick(0, 0, answers=[total(900_000)]), status=status_with(SCALED_TO_ZERO))
    assert (result["proposal"], result["desired"]) == (9, 4)


@pytest.mark.parametrize(("k8s", "average"), [("1.38", 0), ("1.36", MIN_INT64)])
def test_e14_nothing_queued_at_zero_stays_at_zero(k8s: str, average: int) -> None:
    result = calculate(external(average="1"), [], 0, 0, k8s=k8s)
    assert math.isnan(result["ratio"])
    assert (result["proposal"], result["average_milli"]) == (0, average)


def test_e15_a_negative_partial_sum_is_taken_as_overflow() -> None:
    result = calculate(external(average="1"), [], 1, -5000, 10_000)
    assert (result["proposal"], result["average_milli"]) == (2**31 - 1, MAX_INT64)


def test_e16_a_value_target_sums_mixed_signs() -> None:
    result = calculate(external(value="1"), some(1), 1, -5000, 10_000)
    assert (result["value_milli"], result["proposal"]) == (5000, 5)


BROKEN_CPU_AND_QUEUE = hpa_spec(resource(50), EXACT_WISH)


def with_broken_cpu(wished: int) -> Json:
    """Return the result at 5 replicas of a failed cpu metric and a queue that wants `wished`."""
    answers = [FETCH_FAILED, total(1000 * wished)]
    ticks = [tick(0, 5, some(5), answers)]
    status = status_with(current=5, desired=5)
    return decided(BROKEN_CPU_AND_QUEUE, *ticks, status=status)


def test_e17_with_an_invalid_metric_nothing_shrinks() -> None:
    result = with_broken_cpu(4)
    assert (result["desired"], result["rescaled"], result["invalid"]) == (5, False, 1)
    assert result["conditions"]["ScalingActive"] == "False FailedGetResourceMetric"
    assert result["binding"] == "invalid_metric"
    assert [m["code"] for m in result["metrics"]] == [codes.METRIC_FETCH_FAILED, codes.METRIC_OK]


def test_e18_with_an_invalid_metric_growing_goes_on() -> None:
    result = with_broken_cpu(7)
    assert (result["desired"], result["rescaled"], result["metric"]) == (7, True, 1)
    assert result["conditions"]["ScalingActive"] == "True ValidMetricFound"
    assert result["invalid"] == 1


def test_e19_with_an_invalid_metric_an_equal_wish_is_valid() -> None:
    result = with_broken_cpu(5)
    assert (result["desired"], result["rescaled"]) == (5, False)
    assert result["conditions"]["ScalingActive"] == "True ValidMetricFound"


# ---- bounds and zero -----------------------------------------------------------------------------


def test_e20_above_the_maximum_moves_at_once_even_if_disabled() -> None:
    behavior = {"scaleDown": {"selectPolicy": "Disabled"}}
    spec = hpa_spec(EXACT_WISH, high=10, behavior=behavior)
    result = decided(spec, wish(0, 12, 12))
    assert (result["desired"], result["rescaled"], result["binding"]) == (10, True, "forced_max")
    assert result["reason"] == "Current number of replicas above Spec.MaxReplicas"
    assert [m["code"] for m in result["metrics"]] == [codes.METRIC_NOT_COMPUTED]


def test_e21_zero_without_the_condition_is_disabled() -> None:
    result = decided(hpa_spec(EXACT_WISH), wish(0, 0, 5))
    assert (result["desired"], result["rescaled"], result["binding"]) == (0, False, "zero")
    assert result["conditions"]["ScalingActive"] == "False ScalingDisabled"


@pytest.mark.parametrize("k8s", ["1.36", "1.38"])
def test_e22_zero_with_minimum_zero_is_disabled_without_the_condition(k8s: str) -> None:
    result = decided(hpa_spec(EXACT_WISH, low=0), wish(0, 0, 5), k8s=k8s, gate=True)
    assert (result["desired"], result["binding"]) == (0, "zero")


def from_zero(minimum: int, wished: int, behavior: Json | None) -> Json:
    """Return the result at 0 replicas that the HPA itself had scaled to."""
    spec = hpa_spec(EXACT_WISH, low=minimum, high=100, behavior=behavior)
    return decided(spec, wish(0, 0, wished), status=status_with(SCALED_TO_ZERO))


def test_e23_a_raised_minimum_lifts_from_zero_on_the_behavior_path() -> None:
    result = from_zero(2, 0, {})
    assert (result["desired"], result["rescaled"]) == (2, True)
    assert result["reason"] == "Current number of replicas below Spec.MinReplicas"
    assert result["conditions"]["ScalingLimited"] == "False DesiredWithinRange"
    assert result["conditions"]["ScaledToZero"] == "False NotScaledToZero"


def test_e23_a_raised_minimum_lifts_from_zero_on_the_legacy_path_without_reason() -> None:
    result = from_zero(2, 0, None)
    assert (result["desired"], result["rescaled"], result["reason"]) == (2, True, "")
    assert result["conditions"]["ScalingLimited"] == "True TooFewReplicas"


def test_e34_the_rate_limit_from_zero_is_raised_to_the_minimum() -> None:
    up = policies(("Pods", 4, 15), ("Percent", 100, 15))
    result = from_zero(7, 9, {"scaleUp": up})
    assert (result["proposal"], result["stabilized"], result["desired"]) == (9, 9, 7)
    assert result["conditions"]["ScalingLimited"] == "True ScaleUpLimit"
    assert (result["reason"], result["binding"]) == ("{metric} above target", "min")


# ---- policies ------------------------------------------------------------------------------------


def four_pods_per_minute() -> Json:
    return {"scaleUp": policies(("Pods", 4, 60)), "scaleDown": {"stabilizationWindowSeconds": 0}}


def test_e24_a_rolling_budget_is_free_again_exactly_after_its_period() -> None:
    spec = hpa_spec(EXACT_WISH, behavior=four_pods_per_minute())
    results = follow(spec, 2, [(0, 20), (40, 20), (59.999, 20), (60, 20)])
    assert sizes(results) == [6, 6, 6, 10]
    assert results[1]["conditions"]["ScalingLimited"] == "True ScaleUpLimit"
    assert results[1]["binding"] == "policy_up"


def test_e25_a_scale_down_in_the_period_is_given_back_to_its_start() -> None:
    spec = hpa_spec(EXACT_WISH, behavior=four_pods_per_minute())
    results = follow(spec, 2, [(0, 20), (30, 3), (40, 20)])
    assert sizes(results) == [6, 3, 6]  # 3 - 4 + 3 = 2 at the start of the minute


def test_e26_ten_percent_of_100_are_11_pods_in_floats() -> None:
    spec = hpa_spec(EXACT_WISH, behavior={"scaleUp": policies(("Percent", 10, 60))})
    assert decided(spec, wish(0, 100, 500))["desired"] == 111


def down_by(percent: int, current: int, minimum: int) -> Json:
    rules = policies(("Percent", percent, 60), stabilizationWindowSeconds=0)
    spec = hpa_spec(EXACT_WISH, low=minimum, behavior={"scaleDown": rules})
    return decided(spec, wish(0, current, 0))


def test_e27_ninety_percent_down_from_10_reaches_the_minimum() -> None:
    result = down_by(90, 10, 1)
    assert result["desired"] == 1
    assert result["conditions"]["ScalingLimited"] == "True TooFewReplicas"


def test_e28_half_of_one_pod_is_none() -> None:
    result = down_by(50, 1, 0)
    assert (result["desired"], result["rescaled"]) == (0, True)
    assert result["conditions"]["ScaledToZero"] == "True ScaledToZero"


def test_e29_half_a_pod_more_is_one_pod_more() -> None:
    spec = hpa_spec(EXACT_WISH, behavior={"scaleUp": policies(("Percent", 50, 60))})
    assert decided(spec, wish(0, 1, 3))["desired"] == 2


# ---- windows -------------------------------------------------------------------------------------


def test_e30_the_legacy_window_raises_above_the_current_size() -> None:
    spec = hpa_spec(EXACT_WISH, high=10)
    ticks = [wish(0, 5, 3, scale=codes.SCALE_UPDATE_FAILED)]
    result = decided(spec, *ticks, recommendations=[(7, -240)])
    assert (result["stabilized"], result["limited"]) == (7, 7)
    assert result["reason"] == "All metrics below target"
    result = decided(spec, wish(0, 5, 3), recommendations=[(7, -240)])
    assert (result["desired"], result["binding"]) == (7, "window_down")
    assert result["conditions"]["AbleToScale"] == "True SucceededRescale"


def test_e30_without_a_move_the_condition_says_stabilized() -> None:
    result = decided(hpa_spec(EXACT_WISH), wish(0, 7, 3), recommendations=[(7, -240)])
    assert (result["desired"], result["rescaled"]) == (7, False)
    assert result["conditions"]["AbleToScale"] == "True ScaleDownStabilized"


def test_e31_the_windows_of_behavior_only_pull_the_current_size() -> None:
    spec = hpa_spec(EXACT_WISH, high=10, behavior={})
    result = decided(spec, wish(0, 5, 3), recommendations=[(7, -240)])
    assert (result["stabilized"], result["desired"], result["rescaled"]) == (5, 5, False)
    assert result["conditions"]["AbleToScale"] == "True ScaleDownStabilized"


@pytest.mark.parametrize(("behavior", "leaves_at"), [(None, 315), ({}, 300)])
def test_e32_a_fresh_controller_holds_for_a_window(behavior: Json | None, leaves_at: int) -> None:
    spec = hpa_spec(EXACT_WISH, behavior=behavior)
    results = follow(spec, 10, [(15.0 * k, 2) for k in range(23)])
    held = leaves_at // 15
    assert sizes(results) == [10] * held + [2] * (23 - held)


def test_e33_equal_bounds_read_metrics_and_never_move() -> None:
    spec = hpa_spec(EXACT_WISH, low=5, high=5)
    result = decided(spec, wish(0, 5, 9))
    assert (result["proposal"], result["desired"], result["rescaled"]) == (9, 5, False)
    assert result["conditions"]["ScalingLimited"] == "True TooManyReplicas"
    assert decided(spec, wish(0, 5, 1))["desired"] == 5


# ---- what cannot be computed ---------------------------------------------------------------------


def test_e35_an_unknown_metric_type_beside_a_valid_one() -> None:
    spec = hpa_spec({"type": "X"}, EXACT_WISH)
    result = decided(spec, tick(0, 5, answers=[MetricAnswer(), total(7000)]))
    assert (result["desired"], result["metric"], result["invalid"]) == (7, 1, 1)
    assert result["metrics"][0]["code"] == codes.METRIC_UNKNOWN_TYPE
    result = decided(spec, tick(0, 5, answers=[MetricAnswer(), total(4000)]))
    assert result["conditions"]["ScalingActive"] == "False InvalidMetricSourceType"


def test_e36_an_object_selector_fails_before_its_target_an_external_one_after() -> None:
    near: Json = {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}
    on_object = calculate(object_metric(selector=near), some(1), 1, 1000)
    assert on_object["code"] == codes.METRIC_BAD_SELECTOR
    on_external = calculate(external(selector=near), some(1), 1, 1000)
    assert on_external["code"] == codes.METRIC_BAD_TARGET
    good_target = calculate(external(value="1", selector=near), some(1), 1, 1000)
    assert good_target["code"] == codes.METRIC_BAD_SELECTOR


@pytest.mark.parametrize(
    ("selector", "reason"),
    [
        (codes.SELECTOR_INVALID, "False InvalidSelector"),
        (codes.SELECTOR_MISSING, "False InvalidSelector"),
        (codes.SELECTOR_AMBIGUOUS, "False AmbiguousSelector"),
    ],
)
def test_e37_a_bad_scale_selector_keeps_the_desired_number(selector: int, reason: str) -> None:
    ticks = [wish(0, 5, 7), wish(15, 7, 9, selector=selector)]
    result = decided(hpa_spec(EXACT_WISH), *ticks)
    assert (result["current"], result["desired"], result["rescaled"]) == (7, 7, False)
    assert result["conditions"]["ScalingActive"] == reason
    assert result["metrics"][0]["code"] == codes.METRIC_NOT_COMPUTED
    assert result["binding"] == "selector"


def test_e38_e39_an_unreadable_scale_keeps_the_status() -> None:
    ticks = [wish(0, 5, 7), wish(15, 99, 9, scale=codes.SCALE_GET_FAILED)]
    result = decided(hpa_spec(EXACT_WISH), *ticks)
    assert (result["current"], result["desired"], result["rescaled"]) == (5, 7, False)
    assert result["conditions"]["AbleToScale"] == "False FailedGetScale"
    assert result["binding"] == "scale_read"


def milli(text: str) -> int:
    return Quantity.parse(text).milli()


def test_e40_a_quantity_that_wraps_to_negative_is_overflow() -> None:
    values = [milli("8Ei"), milli("384m")]
    assert values == [-1000, 384]
    result = calculate(external(average="1"), [], 4, *values)
    assert (result["proposal"], result["average_milli"]) == (2**31 - 1, MAX_INT64)


@pytest.mark.parametrize(
    ("usage", "proposal", "ratio"), [("384m", 2**31 - 1, math.inf), ("0", -(2**31), math.nan)]
)
def test_e41_a_target_that_wraps_to_zero(usage: str, proposal: int, ratio: float) -> None:
    result = calculate(object_metric(value="1e18"), some(3), 3, milli(usage))
    assert result["proposal"] == proposal
    assert result["ratio"] == pytest.approx(ratio, nan_ok=True)


@pytest.mark.parametrize(
    ("usage", "average"),
    [("1000", 1_000_000), ("1Ki", 1_024_000), ("1024.5", 1_024_500), ("1536", 1_536_000)],
)
def test_e42_the_memory_average_in_milli(usage: str, average: int) -> None:
    metric = resource(average="1Ki", name="memory")
    assert calculate(metric, some(2, milli(usage)), 2)["average_milli"] == average


# ---- where common explanations differ ------------------------------------------------------------


def test_1_the_multiplier_is_the_number_of_counted_pods() -> None:
    # 10 replicas, of which 4 are ready with a sample: 4 x 2, not 10 x 2.
    assert wanted(resource(50), some(4, 1000) + some(6, phase="Failed"), 10) == 8
    # Object and External values count Running and Ready pods, averages none.
    assert wanted(external(value="1"), some(3) + some(4, ready="False"), 7, 5000) == 15
    assert wanted(external(average="1"), some(3), 7, 5000) == 5


def test_2_utilization_is_a_ratio_of_sums_and_an_integer() -> None:
    pods = [Pod(900, request=1000), Pod(10, request=100)]
    result = calculate(resource(60), pods, 2)
    assert result["utilization_pct"] == 82  # 910 of 1100 is 82.7; the mean of 90 and 10 is 50
    assert result["ratio"] == 82 / 60


def test_3_unready_pods_count_as_zero_only_on_the_way_up_and_for_cpu() -> None:
    down = calculate(resource(60), some(5, 300) + unready(5), 10)
    assert (down["ratio"], down["proposal"]) == (0.5, 3)
    memory = calculate(resource(60, name="memory"), some(3, 900) + unready(1), 4)
    assert memory["utilization_pct"] == (3 * 900 + 999) * 100 // 4000
    pending = calculate(
        resource(60, name="memory"), some(3, 1200) + some(1, 999, phase="Pending"), 4
    )
    assert (pending["utilization_pct"], pending["ratio"]) == (120, 90 / 60)


def test_4_a_pod_that_was_ready_once_counts_with_its_cpu() -> None:
    was_ready = some(1, 1000, ready="False", transition_s=-3600)
    assert calculate(resource(100), some(1, 1000) + was_ready, 2)["average_milli"] == 1000
    assert calculate(resource(100), was_ready, 1)["code"] == codes.METRIC_OK
    assert calculate(resource(100), unready(1), 1)["code"] == codes.METRIC_NO_SAMPLES


def test_5_missing_pods_are_charged_request_for_utilization_target_for_averages() -> None:
    utilization = calculate(resource(50), some(1, 100) + missing(1), 2)
    assert utilization["ratio"] == 55 / 50  # (100 + 1000) / 2000
    average = calculate(resource(average="500m"), some(1, 100) + missing(1), 2)
    assert average["ratio"] == 300 / 500  # (100 + 500) / 2


def test_6_failed_and_deleting_pods_are_removed_entirely() -> None:
    gone = some(2, 5000, phase="Failed") + some(2, 5000, deleting=True)
    result = calculate(resource(50), some(2, 1000) + gone, 6)
    assert (result["average_milli"], result["ratio"], result["proposal"]) == (1000, 2.0, 4)


@pytest.mark.parametrize(("k8s", "ratio", "proposal"), [("1.38", 2.0, 4), ("1.36", 1.0, 4)])
def test_6_succeeded_pods_are_removed_from_1_38_on(k8s: str, ratio: float, proposal: int) -> None:
    pods = some(2, 1000) + some(2, None, phase="Succeeded")
    result = calculate(resource(50), pods, 4, k8s=k8s)
    assert (result["ratio"], result["proposal"]) == (ratio, proposal)


def test_7_the_tolerance_is_applied_to_the_ratio_before_rounding() -> None:
    assert wanted(resource(100), some(100, 1100), 100) == 100  # 10 pods ignored
    assert wanted(resource(100), some(1, 1110), 1) == 2  # 0.11 pods are one


def test_8_policies_are_budgets_not_cool_downs() -> None:
    spec = hpa_spec(EXACT_WISH, behavior=four_pods_per_minute())
    assert sizes(follow(spec, 2, [(0, 3), (1, 4), (2, 6), (3, 9)])) == [3, 4, 6, 6]


def test_9_absent_behavior_is_not_the_default_behavior() -> None:
    assert decided(hpa_spec(EXACT_WISH), wish(0, 1, 100))["desired"] == 4
    assert decided(hpa_spec(EXACT_WISH, behavior={}), wish(0, 1, 100))["desired"] == 5


def test_9_the_legacy_limit_is_per_sync() -> None:
    moments = [(0.001 * k, 100) for k in range(4)]
    assert sizes(follow(hpa_spec(EXACT_WISH), 1, moments)) == [4, 8, 16, 32]
    assert sizes(follow(hpa_spec(EXACT_WISH, behavior={}), 1, moments)) == [5, 5, 5, 5]


def test_10_a_changed_maximum_acts_at_once_and_spends_the_budget() -> None:
    behavior = {"scaleDown": policies(("Pods", 1, 60), stabilizationWindowSeconds=0)}
    specs = [
        hpa_spec(EXACT_WISH, high=50, behavior=behavior),
        hpa_spec(EXACT_WISH, high=20, behavior=behavior),
    ]
    ticks = [wish(0, 50, 50), wish(15, 50, 50, spec=1), wish(30, 20, 1, spec=1)]
    results = replay(specs, ticks, flags=NO_TOLERANCE)
    assert sizes(results) == [50, 20, 20]
    assert results[2]["binding"] == "policy_down"  # start 50 less 1 is above 20


def test_11_zero_counts_only_if_the_hpa_itself_scaled_there() -> None:
    spec = hpa_spec(EXACT_WISH, low=0)
    ours = decided(spec, wish(0, 0, 3), status=status_with(SCALED_TO_ZERO))
    theirs = decided(spec, wish(0, 0, 3), status=status_with(("ScaledToZero", "False", "Other")))
    assert (ours["desired"], theirs["desired"]) == (3, 0)
    no_gate = decided(spec, wish(0, 0, 3), status=status_with(SCALED_TO_ZERO), gate=False)
    assert (no_gate["desired"], no_gate["binding"]) == (0, "zero")
    assert "ScaledToZero" not in no_gate["conditions"]


def test_12_one_failed_metric_stops_only_the_way_down() -> None:
    assert [with_broken_cpu(n)["desired"] for n in (4, 5, 6)] == [5, 5, 6]


def test_13_status_replicas_matter_only_for_averages_of_totals() -> None:
    average = external(average="10")
    assert wanted(average, [], 5, 52_000, status=5) == 5
    assert wanted(average, [], 5, 52_000, status=2) == 6
    assert wanted(average, [], 5, 21_000, status=2) == 2  # within: status, not spec
    assert wanted(resource(50), some(2, 1000), 5, status=2) == 4


def test_14_desired_replicas_is_the_applied_number() -> None:
    result = decided(hpa_spec(EXACT_WISH, high=6), wish(0, 5, 9))
    assert (result["proposal"], result["desired"]) == (9, 6)


def test_15_limits_are_no_requests() -> None:
    result = calculate(resource(50), some(1, 100, request=None), 1)
    assert result["code"] == codes.METRIC_NO_REQUEST


def test_16_a_pods_metric_selector_selects_series_not_pods() -> None:
    narrow: Json = {"matchLabels": {"path": "a"}}
    assert wanted(pods_metric("100m", narrow), some(3, 200), 3) == 6


def test_17_any_pod_of_the_selector_counts() -> None:
    # The pods are what the selector matches, whoever owns them: 3 of 5 replicas plus 4 others.
    assert wanted(resource(50), some(3, 500) + some(4, 1000), 5) == 11


def test_19_after_a_restart_the_windows_start_anew() -> None:
    spec = hpa_spec(EXACT_WISH)
    moments = [(0, 9), (15, 2), (30, 2)]
    ticks = [wish(s, 9, n, restart=s == 30) for s, n in moments]
    options = {"flags": NO_TOLERANCE, "recommendations": [(20, -60)]}
    held = replay(spec, ticks, **options)
    assert [r["stabilized"] for r in held] == [20, 20, 9]


# ---- the article with 10 pods at 85 %, failed pods and pods without metrics ----------------------


@pytest.mark.parametrize(
    ("pods", "current", "ratio", "proposal"),
    [
        pytest.param(some(6, 850) + some(2, phase="Failed") + missing(2), 10, 63 / 60, 10, id="A"),
        pytest.param(some(6, 850) + unready(2) + missing(2), 10, 51 / 60, 10, id="B"),
        pytest.param(some(8, 850) + some(2, phase="Failed") + missing(2), 10, 68 / 60, 12, id="C"),
        pytest.param(some(10, 850) + some(2, phase="Failed") + missing(2), 14, 70 / 60, 14, id="D"),
        pytest.param(some(10, 850) + unready(2) + missing(2), 14, 1.0, 14, id="E"),
        pytest.param(some(10, 850), 10, 85 / 60, 15, id="F"),
    ],
)
def test_readings_of_85_percent_with_failed_and_missing_pods(
    pods: list[Pod], current: int, ratio: float, proposal: int
) -> None:
    result = calculate(resource(60), pods, current)
    assert (result["utilization_pct"], result["average_milli"]) == (85, 850)
    assert (result["ratio"], result["proposal"]) == (ratio, proposal)


def test_the_article_itself_does_not_move() -> None:
    pods = some(10, 850) + some(2, phase="Failed") + missing(2)
    spec = hpa_spec(resource(60), low=12, high=16)
    result = replay(spec, [tick(0, 14, pods)])[0]
    assert (result["proposal"], result["desired"], result["rescaled"]) == (14, 14, False)


# ---- arithmetic seen through a decision ----------------------------------------------------------


def test_quantities_lose_their_last_bit_as_floats() -> None:
    # 2**53 and 2**53 + 1 are the same float: the ratio is exactly 1.
    target = f"{2**53}m"
    result = calculate(external(value=target), some(1), 1, 2**53 + 1, flags=NO_TOLERANCE)
    assert (result["ratio"], result["proposal"]) == (1.0, 1)


def test_garbage_of_the_first_pass_is_proposed_that_of_the_second_is_guarded() -> None:
    metric = pods_metric("1m")
    huge = 2**62
    assert wanted(metric, some(1, huge), 3) == -(2**31)
    assert wanted(metric, some(1, huge) + missing(1), 3) == 3
    spec = hpa_spec(metric)
    result = replay(spec, [tick(0, 3, some(1, huge))])[0]
    assert result["proposal"] == 0  # a negative proposal counts as none


def test_a_tolerance_is_read_as_a_float_of_its_digits() -> None:
    behavior: Json = {"scaleUp": {"tolerance": "0.3"}, "scaleDown": {"tolerance": "300m"}}
    one = lane(hpa_spec(EXACT_WISH, behavior=behavior), [])
    spec = one.fleet.specs[0]
    assert (float(spec.up_tolerance), float(spec.down_tolerance)) == (0.30000000000000004, 0.3)
