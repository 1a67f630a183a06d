"""One sync: the order of all rules, the status it leaves, and which rule bound the decision."""

from __future__ import annotations

from typing import Any

import pytest

from hpabatch.layout import codes
from hpabatch.model.objects.hpa import HPASpec
from tests.packed import TickView
from tests.rules.helpers import (
    EXACT_WISH,
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
    wish,
)

LONG_AGO: list[tuple[int, float]] = [(1, -7200)]
NO_WINDOWS = {"scaleUp": {}, "scaleDown": {"stabilizationWindowSeconds": 0}}


def decided(spec: HPASpec, *ticks: TickView, **options: Any) -> Json:
    """Return the last result, without an initial recommendation in the window."""
    options = {"flags": NO_TOLERANCE, "recommendations": LONG_AGO} | options
    return replay(spec, ticks, **options)[-1]


# ---- the scale -----------------------------------------------------------------------------------


def test_unrecorded_replicas_decide_nothing_and_change_nothing() -> None:
    status = status_with(("AbleToScale", "True", "ReadyForNewScale"), current=7, desired=8)
    one = lane(hpa_spec(EXACT_WISH), [wish(0, 0, 9, scale=codes.SCALE_UNKNOWN)], status=status)
    result = one.run()[0]
    assert (result["current"], result["desired"], result["binding"]) == (7, 8, "no_scale")
    assert result["conditions"] == {"AbleToScale": "True ReadyForNewScale"}
    assert result["metrics"][0]["code"] == codes.METRIC_NOT_COMPUTED
    assert one.memory.recs.ms.tolist() == [0] * one.memory.recs.size


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
