"""Bounds: how far a spec may be from today's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpabatch.engine.advise.bounds import has_no_more_pods, parse_bounds
from hpabatch.errors import UsageError
from hpabatch.model.objects.defaults import default_behavior, default_spec
from hpabatch.model.objects.hpa import (
    Behavior,
    HPASpec,
    MetricIdentifier,
    MetricSpec,
    MetricTarget,
    PodsMetricSource,
    ResourceMetricSource,
    ScalingPolicy,
)
from hpabatch.model.quantity import Quantity
from hpabatch.model.versions import ControllerFlags


def spec(cpu: int = 60, rps: str = "100", low: int = 2, high: int = 10) -> HPASpec:
    pods = PodsMetricSource(
        MetricIdentifier("rps"), MetricTarget("AverageValue", average_value=Quantity.parse(rps))
    )
    resource = ResourceMetricSource("cpu", MetricTarget("Utilization", average_utilization=cpu))
    metrics = (MetricSpec("Resource", resource=resource), MetricSpec("Pods", pods=pods))
    return default_spec(HPASpec(min_replicas=low, max_replicas=high, metrics=metrics))


def with_rules(**changes: object) -> HPASpec:
    """Return a spec with another way down."""
    behavior = default_behavior(Behavior())
    assert behavior is not None
    assert behavior.scale_down is not None
    down = replace(behavior.scale_down, **changes)  # type: ignore[arg-type]
    return replace(spec(), behavior=replace(behavior, scale_down=down))


@pytest.mark.parametrize(
    ("wanted", "fewer"),
    [
        (spec(), True),
        (spec(70, low=1), True),
        (spec(high=9, rps="101"), True),
        (spec(59), False),
        (spec(70, rps="99"), False),
        (spec(low=3), False),
        (spec(high=11), False),
        (with_rules(stabilization_window_seconds=299), True),
        (with_rules(stabilization_window_seconds=301), False),
        (with_rules(policies=(ScalingPolicy("Pods", 1, 60),)), False),
        (with_rules(tolerance=Quantity.parse("0.2")), False),
    ],
)
def test_specs_that_keep_no_more_pods_than_todays(wanted: HPASpec, fewer: bool) -> None:
    assert has_no_more_pods(spec(), wanted, ControllerFlags()) == fewer


@pytest.mark.parametrize(
    ("bounds", "wanted", "broken"),
    [
        ([], spec(80), []),
        ([], spec(81), ["target utilization 60 -> 81 is beyond --bound target=20"]),
        ([], spec(rps="120"), []),
        ([], spec(rps="121"), ["target averageValue 100 -> 121 is beyond --bound target=20"]),
        (["target=any"], spec(99, "900"), []),
        (["target=same"], spec(61), ["target utilization 60 -> 61 is beyond --bound target=same"]),
        (["target=x1.5"], spec(90, "66.7"), []),
        (["target=x1.5"], spec(39), ["target utilization 60 -> 39 is beyond --bound target=x1.5"]),
        ([], spec(high=20), []),
        ([], spec(high=21), ["maxReplicas 10 -> 21 is beyond --bound max=x2"]),
        ([], spec(high=4), ["maxReplicas 10 -> 4 is beyond --bound max=x2"]),
        (["max=3, min=same"], spec(high=13), []),
        (["max=3", "min=same"], spec(low=1), ["minReplicas 2 -> 1 is beyond --bound min=same"]),
        ([], spec(low=0), ["minReplicas 2 -> 0 is beyond --bound min=x2"]),
        ([], with_rules(stabilization_window_seconds=3600), []),
        (["scaleDown.window=60"], with_rules(stabilization_window_seconds=240), []),
        (
            ["scaleDown.window=60"],
            with_rules(stabilization_window_seconds=239),
            ["scaleDown.window 300 -> 239 is beyond --bound scaleDown.window=60"],
        ),
        (["tolerance=0.05"], with_rules(tolerance=Quantity.parse("50m")), []),
        (
            ["tolerance=0.05"],
            with_rules(tolerance=Quantity.parse("0.2")),
            ["scaleDown.tolerance 0.1 -> 0.2 is beyond --bound tolerance=0.05"],
        ),
        (["policies=same"], with_rules(), []),
        (
            ["policies=same", "select=same"],
            with_rules(policies=(ScalingPolicy("Pods", 1, 60),), select_policy="Min"),
            [
                "scaleDown.policies Percent 100/15s -> Pods 1/60s is beyond --bound policies=same",
                "scaleDown.select Max -> Min is beyond --bound select=same",
            ],
        ),
    ],
)
def test_what_is_too_far_is_told(bounds: list[str], wanted: HPASpec, broken: list[str]) -> None:
    assert parse_bounds(bounds).broken(spec(), wanted) == broken


def test_all_mistakes_come_in_one_message() -> None:
    with pytest.raises(UsageError) as raised:
        parse_bounds(["targets=3,max=x0.5", "policies=2", "min=few", "min=1", "nothing"])
    message = str(raised.value)
    for part in (
        "--bound targets=3: no such field; did you mean target?",
        "--bound max=x0.5: a factor is 1 or more",
        "--bound policies=2: expected same or any",
        "--bound min=few: expected a number, xFACTOR, same or any",
        "--bound min=1: min is bounded twice",
        "--bound nothing: no such field",
    ):
        assert part in message
