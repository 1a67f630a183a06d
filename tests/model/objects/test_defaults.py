"""Defaulting, rule by rule."""

from __future__ import annotations

from hpabatch.model.objects.defaults import DEFAULT_METRICS, default_hpa
from hpabatch.model.objects.hpa import (
    HPA,
    Behavior,
    ExternalMetricSource,
    HPASpec,
    MetricSpec,
    MetricTarget,
    ResourceMetricSource,
    ScalingPolicy,
    ScalingRules,
)
from hpabatch.model.quantity import Quantity

UP = ScalingRules(0, "Max", (ScalingPolicy("Pods", 4, 15), ScalingPolicy("Percent", 100, 15)))
DOWN = ScalingRules(None, "Max", (ScalingPolicy("Percent", 100, 15),))


def _spec(spec: HPASpec) -> HPASpec:
    return default_hpa(HPA(spec=spec)).spec


def test_unset_min_replicas_and_metrics() -> None:
    spec = _spec(HPASpec(max_replicas=3))
    assert spec.min_replicas == 1
    cpu = ResourceMetricSource("cpu", MetricTarget("Utilization", average_utilization=80))
    assert spec.metrics == DEFAULT_METRICS == (MetricSpec("Resource", resource=cpu),)


def test_set_values_stay() -> None:
    metric = MetricSpec("External", external=ExternalMetricSource())
    spec = _spec(HPASpec(min_replicas=0, max_replicas=3, metrics=(metric,)))
    assert spec.min_replicas == 0
    assert spec.metrics == (metric,)


def test_absent_behavior_stays_absent() -> None:
    assert _spec(HPASpec()).behavior is None


def test_empty_behavior_gets_both_directions() -> None:
    assert _spec(HPASpec(behavior=Behavior())).behavior == Behavior(UP, DOWN)


def test_the_users_values_win_one_by_one_and_policies_as_a_whole() -> None:
    tolerance = Quantity.parse("0")
    up = ScalingRules(stabilization_window_seconds=30, tolerance=tolerance)
    down = ScalingRules(select_policy="Disabled", policies=(ScalingPolicy("Pods", 1, 60),))
    behavior = _spec(HPASpec(behavior=Behavior(up, down))).behavior
    assert behavior == Behavior(
        ScalingRules(30, "Max", UP.policies, tolerance),
        ScalingRules(None, "Disabled", (ScalingPolicy("Pods", 1, 60),)),
    )


def test_a_window_of_zero_is_the_users() -> None:
    behavior = _spec(HPASpec(behavior=Behavior(None, ScalingRules(0)))).behavior
    assert behavior is not None
    assert behavior.scale_down is not None
    assert behavior.scale_down.stabilization_window_seconds == 0


def test_an_empty_list_of_policies_is_not_replaced() -> None:
    behavior = _spec(HPASpec(behavior=Behavior(ScalingRules(policies=())))).behavior
    assert behavior is not None
    assert behavior.scale_up is not None
    assert behavior.scale_up.policies == ()
