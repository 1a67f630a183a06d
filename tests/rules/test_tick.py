"""One sync: the order of all rules, the status it leaves, and which rule bound the decision."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.layout import codes
from hpabatch.model.objects.hpa import HPASpec
from tests.packed import TickView
from tests.rules.helpers import (
    EXACT_WISH,
    FETCH_FAILED,
    NO_TOLERANCE,
    SCALED_TO_ZERO,
    Json,
    hpa_spec,
    lane,
    policies,
    replay,
    resource,
    some,
    status_with,
    tick,
    total,
    wish,
)

LONG_AGO: list[tuple[int, float]] = [(1, -7200)]
NO_WINDOWS = {"scaleUp": {}, "scaleDown": {"stabilizationWindowSeconds": 0}}


def decided(spec: HPASpec, *ticks: TickView, **options: Any) -> Json:
    """Return the last result, without an initial recommendation in the window."""
    options = {"flags": NO_TOLERANCE, "recommendations": LONG_AGO} | options
    return replay(spec, ticks, **options)[-1]


# ---- the scale -----------------------------------------------------------------------------------


def test_without_a_scale_only_the_condition_changes() -> None:
    status = status_with(("ScalingLimited", "True", "TooManyReplicas"), current=7, desired=8)
    result = decided(
        hpa_spec(EXACT_WISH), wish(0, 5, 9, scale=codes.SCALE_GET_FAILED), status=status
    )
    assert (result["current"], result["desired"], result["rescaled"]) == (7, 8, False)
    assert (result["proposal"], result["stabilized"], result["limited"]) == (7, 7, 7)
    assert (result["binding"], result["metric"], result["reason"]) == ("scale_read", -1, "")
    assert list(result["conditions"].items()) == [
        ("ScalingLimited", "True TooManyReplicas"),
        ("AbleToScale", "False FailedGetScale"),
    ]


def test_unrecorded_replicas_decide_nothing_and_change_nothing() -> None:
    status = status_with(("AbleToScale", "True", "ReadyForNewScale"), current=7, desired=8)
    one = lane(hpa_spec(EXACT_WISH), [wish(0, 0, 9, scale=codes.SCALE_UNKNOWN)], status=status)
    result = one.run()[0]
    assert (result["current"], result["desired"], result["binding"]) == (7, 8, "no_scale")
    assert result["conditions"] == {"AbleToScale": "True ReadyForNewScale"}
    assert result["metrics"][0]["code"] == codes.METRIC_NOT_COMPUTED
    assert one.memory.recs.ms.tolist() == [0] * one.memory.recs.size


def test_a_failed_write_keeps_the_desired_number_and_records_the_wish() -> None:
    ticks = [
        wish(0, 5, 9, scale=codes.SCALE_UPDATE_FAILED),
        wish(15, 5, 2),
    ]
    status = status_with(current=4, desired=4)
    first, second = replay(
        hpa_spec(EXACT_WISH), ticks, flags=NO_TOLERANCE, recommendations=LONG_AGO, status=status
    )
    assert (first["current"], first["desired"], first["rescaled"]) == (5, 4, False)
    assert (first["proposal"], first["limited"], first["binding"]) == (9, 9, "scale_write")
    assert first["reason"] == "{metric} above target"
    assert first["conditions"]["AbleToScale"] == "False FailedUpdateScale"
    assert "ScaledToZero" not in first["conditions"]
    assert second["stabilized"] == 9  # the wish of the failed sync is remembered


# ---- forced moves and zero -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("current", "desired", "binding", "reason"),
    [
        (11, 10, "forced_max", "Current number of replicas above Spec.MaxReplicas"),
        (2, 3, "forced_min", "Current number of replicas below Spec.MinReplicas"),
    ],
)
def test_forced_moves_ignore_metrics_and_record_no_wish(
    current: int, desired: int, binding: str, reason: str
) -> None:
    stale = ("ScalingActive", "False", "FailedGetResourceMetric")
    one = lane(
        hpa_spec(EXACT_WISH, low=3, high=10), [wish(0, current, 5)], status=status_with(stale)
    )
    result = one.run()[0]
    assert (result["desired"], result["rescaled"]) == (desired, True)
    assert (result["binding"], result["reason"], result["metric"]) == (binding, reason, -1)
    assert (result["proposal"], result["stabilized"], result["limited"]) == (
        current, current, desired,
    )  # fmt: skip
    assert result["conditions"] == {
        "ScalingActive": "False FailedGetResourceMetric",
        "AbleToScale": "True SucceededRescale",
        "ScaledToZero": "False NotScaledToZero",
    }
    assert one.memory.recs.value[0] == current  # the initial recommendation alone


@pytest.mark.parametrize(
    ("metric", "minimum", "gate", "goes_on"),
    [
        (EXACT_WISH, 0, True, True),
        (EXACT_WISH, 2, True, True),
        (resource(50), 0, True, False),  # nothing could ever wake it
        (resource(50), 2, True, True),
        (EXACT_WISH, 0, False, False),
        (EXACT_WISH, 2, False, False),
    ],
)
def test_when_zero_is_left(metric: Json, minimum: int, gate: bool, goes_on: bool) -> None:
    answer = total(3000) if metric is EXACT_WISH else FETCH_FAILED
    result = decided(
        hpa_spec(metric, low=minimum),
        tick(0, 0, answers=[answer]),
        status=status_with(SCALED_TO_ZERO, desired=6),
        gate=gate,
    )
    assert (result["binding"] != "zero") == goes_on
    if not goes_on:
        assert (result["desired"], result["current"], result["rescaled"]) == (0, 0, False)
        assert result["conditions"]["ScalingActive"] == "False ScalingDisabled"
    assert ("ScaledToZero" in result["conditions"]) == gate


def test_old_versions_leave_zero_whenever_the_minimum_is_zero() -> None:
    for minimum, desired in ((0, 3), (1, 0)):
        spec = hpa_spec(EXACT_WISH, low=minimum)
        assert decided(spec, wish(0, 0, 3), k8s="1.35", gate=True)["desired"] == desired


def test_lifting_from_zero_keeps_a_reason_that_there_is_or_has_its_own() -> None:
    spec = hpa_spec(EXACT_WISH, low=7, behavior={})
    at_zero = status_with(SCALED_TO_ZERO)
    result = decided(spec, wish(0, 0, 2), status=at_zero)
    assert (result["stabilized"], result["limited"], result["desired"]) == (2, 7, 7)
    assert (result["reason"], result["binding"]) == ("{metric} above target", "min")
    without = decided(hpa_spec(EXACT_WISH, low=2, behavior={}), wish(0, 0, 0), status=at_zero)
    assert (without["desired"], without["rescaled"]) == (2, True)
    assert without["reason"] == "Current number of replicas below Spec.MinReplicas"


# ---- which rule bound ----------------------------------------------------------------------------


def bound_by(spec: HPASpec, current: int, wished: int, **options: Any) -> str:
    return str(decided(spec, wish(0, current, wished), **options)["binding"])


def with_rules(**behavior: Json) -> HPASpec:
    return hpa_spec(EXACT_WISH, low=2, high=50, behavior=NO_WINDOWS | behavior)


@pytest.mark.parametrize(
    ("spec", "current", "wished", "binding"),
    [
        (with_rules(), 10, 12, "metric"),
        (with_rules(), 10, 10, "tolerance"),
        (with_rules(), 10, 50, "policy_up"),
        (with_rules(), 40, 60, "max"),
        (with_rules(), 10, 1, "min"),
        (with_rules(scaleUp={"selectPolicy": "Disabled"}), 10, 12, "disabled_up"),
        (with_rules(scaleDown={"selectPolicy": "Disabled"}), 10, 8, "disabled_down"),
        (
            with_rules(scaleDown=policies(("Pods", 1, 60), stabilizationWindowSeconds=0)),
            10,
            8,
            "policy_down",
        ),
        (hpa_spec(EXACT_WISH, low=2, high=50), 10, 50, "legacy_limit"),
        (hpa_spec(EXACT_WISH, low=2, high=20), 10, 50, "max"),
        (hpa_spec(EXACT_WISH, low=2, high=20), 10, 1, "min"),
    ],
)
def test_binding_rules(spec: HPASpec, current: int, wished: int, binding: str) -> None:
    assert bound_by(spec, current, wished) == binding


def test_binding_windows() -> None:
    both = {"scaleUp": {"stabilizationWindowSeconds": 60}}
    spec = hpa_spec(EXACT_WISH, behavior=both)
    assert bound_by(spec, 10, 15, recommendations=[(10, -30)]) == "window_up"
    assert bound_by(spec, 10, 8, recommendations=[(10, -30)]) == "window_down"
    assert bound_by(hpa_spec(EXACT_WISH), 10, 8, recommendations=[(10, -30)]) == "window_down"


def test_a_limit_that_binds_after_a_window_is_named() -> None:
    spec = hpa_spec(EXACT_WISH, high=12, behavior={})
    result = decided(spec, wish(0, 10, 8), recommendations=[(30, -30)])
    assert (result["stabilized"], result["binding"]) == (10, "window_down")
    legacy = decided(hpa_spec(EXACT_WISH, high=12), wish(0, 10, 8), recommendations=[(30, -30)])
    assert (legacy["stabilized"], legacy["limited"], legacy["binding"]) == (30, 12, "max")


def test_binding_missing_pods() -> None:
    spec = hpa_spec(resource(60))
    pods = some(6, 850) + some(2, phase="Failed") + some(2)
    assert replay(spec, [tick(0, 10, pods)])[0]["binding"] == "tolerance"
    pods = some(3, 300) + some(2)
    assert replay(hpa_spec(resource(50)), [tick(0, 5, pods)])[0]["binding"] == "pod_guard"


# ---- memory --------------------------------------------------------------------------------------


def test_a_restart_forgets_windows_and_budgets_but_not_the_status() -> None:
    behavior = {"scaleUp": policies(("Pods", 4, 600))}
    spec = hpa_spec(EXACT_WISH, behavior=behavior)
    spent, restarted = (
        decided(spec, wish(0, 5, 9), tick(15, 9, answers=[total(13_000)], restart=restart))
        for restart in (False, True)
    )
    assert (spent["desired"], restarted["desired"]) == (9, 13)
    kept = decided(spec, wish(0, 5, 9), wish(15, 9, 9, scale=codes.SCALE_GET_FAILED, restart=True))
    assert (kept["current"], kept["desired"]) == (5, 9)


def test_an_edited_spec_is_in_force_from_its_tick_on() -> None:
    specs = [hpa_spec(EXACT_WISH, behavior={}), hpa_spec(EXACT_WISH, high=6)]
    ticks = [wish(0, 5, 20), wish(15, 10, 20, spec=1), wish(30, 6, 20, spec=0)]
    results = replay(specs, ticks, flags=NO_TOLERANCE)
    assert [r["binding"] for r in results] == ["policy_up", "forced_max", "policy_up"]
    assert [r["desired"] for r in results] == [10, 6, 12]


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=20),
    st.integers(1, 30),
    st.sampled_from([None, {}, NO_WINDOWS]),
    st.integers(1, 10),
    st.integers(10, 30),
)
def test_what_every_tick_keeps(
    wishes: list[int], start: int, behavior: Json | None, low: int, high: int
) -> None:
    spec = hpa_spec(EXACT_WISH, low=low, high=high, behavior=behavior)
    ticks = [wish(15 * k, start, n) for k, n in enumerate(wishes)]
    for result in replay(spec, ticks, flags=NO_TOLERANCE):
        assert result["current"] == start
        assert result["rescaled"] == (result["desired"] != start)
        assert low <= result["desired"] <= high
        if low <= start <= high:
            limited = result["conditions"]["ScalingLimited"] != "False DesiredWithinRange"
            assert limited == (result["limited"] != result["stabilized"])
        else:
            assert result["binding"] in ("forced_min", "forced_max")


def test_foreign_conditions_keep_their_place_until_they_are_set() -> None:
    status = status_with(
        ("ScalingLimited", "True", "ByHand"),
        ("AbleToScale", "False", "ByHand"),
        ("Paused", "True", "ByHand"),
    )
    ticks = [tick(0, 5, answers=[FETCH_FAILED]), wish(15, 5, 5)]
    first, second = replay(hpa_spec(EXACT_WISH), ticks, flags=NO_TOLERANCE, status=status)
    assert list(first["conditions"].items()) == [
        ("ScalingLimited", "True"),
        ("AbleToScale", "True SucceededGetScale"),
        ("ScalingActive", "False FailedGetExternalMetric"),
    ]
    assert list(second["conditions"].items()) == [
        ("ScalingLimited", "False DesiredWithinRange"),
        ("AbleToScale", "True ReadyForNewScale"),
        ("ScalingActive", "True ValidMetricFound"),
    ]
