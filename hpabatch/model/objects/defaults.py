"""Defaulting as the API server does it (pkg/apis/autoscaling/v2/defaults.go)."""

from __future__ import annotations

from dataclasses import replace

from hpabatch.model.objects.hpa import (
    HPA,
    Behavior,
    HPASpec,
    MetricSpec,
    MetricTarget,
    ResourceMetricSource,
    ScalingPolicy,
    ScalingRules,
)

DEFAULT_MIN_REPLICAS = 1
DEFAULT_CPU_UTILIZATION = 80  # percent of the request

DEFAULT_METRICS = (
    MetricSpec(
        type="Resource",
        resource=ResourceMetricSource(
            "cpu", MetricTarget("Utilization", average_utilization=DEFAULT_CPU_UTILIZATION)
        ),
    ),
)
DEFAULT_SCALE_UP = ScalingRules(
    stabilization_window_seconds=0,
    select_policy="Max",
    policies=(ScalingPolicy("Pods", 4, 15), ScalingPolicy("Percent", 100, 15)),
)
# The window stays unset: the controller fills it with its downscale-stabilization flag at run time.
DEFAULT_SCALE_DOWN = ScalingRules(
    stabilization_window_seconds=None,
    select_policy="Max",
    policies=(ScalingPolicy("Percent", 100, 15),),
)


def default_hpa(hpa: HPA) -> HPA:
    """Return the HPA with the defaults filled in; an absent behavior stays absent."""
    return replace(hpa, spec=default_spec(hpa.spec))


def default_spec(spec: HPASpec) -> HPASpec:
    """Return the spec with the defaults filled in; defaulting twice changes nothing more."""
    return replace(
        spec,
        min_replicas=DEFAULT_MIN_REPLICAS if spec.min_replicas is None else spec.min_replicas,
        metrics=spec.metrics or DEFAULT_METRICS,
        behavior=default_behavior(spec.behavior),
    )


def default_behavior(behavior: Behavior | None) -> Behavior | None:
    """Fill both directions of a behavior that is present, even if it is empty."""
    if behavior is None:
        return None
    return Behavior(
        _merge(behavior.scale_up, DEFAULT_SCALE_UP),
        _merge(behavior.scale_down, DEFAULT_SCALE_DOWN),
    )


def _merge(rules: ScalingRules | None, defaults: ScalingRules) -> ScalingRules:
    """Take the user's value where there is one; policies are replaced as a whole."""
    if rules is None:
        return defaults
    window = rules.stabilization_window_seconds
    select = rules.select_policy
    return ScalingRules(
        stabilization_window_seconds=(
            defaults.stabilization_window_seconds if window is None else window
        ),
        select_policy=defaults.select_policy if select is None else select,
        policies=defaults.policies if rules.policies is None else rules.policies,
        tolerance=rules.tolerance,
    )
