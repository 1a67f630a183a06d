"""Specs and settings for the tests of settings."""

from __future__ import annotations

from hypothesis import strategies as st

from hpabatch.model.objects.defaults import default_spec
from hpabatch.model.objects.hpa import (
    Behavior,
    ContainerResourceMetricSource,
    CrossVersionObjectReference,
    ExternalMetricSource,
    HPASpec,
    MetricIdentifier,
    MetricSpec,
    MetricTarget,
    ObjectMetricSource,
    PodsMetricSource,
    ResourceMetricSource,
    ScalingPolicy,
    ScalingRules,
)
from hpabatch.model.quantity import Quantity
from hpabatch.model.settings.setting import Setting, setting_of

WEB = CrossVersionObjectReference("Deployment", "web", "apps/v1")


def utilization(percent: int) -> MetricTarget:
    return MetricTarget("Utilization", average_utilization=percent)


def average(text: str) -> MetricTarget:
    return MetricTarget("AverageValue", average_value=Quantity.parse(text))


def value(text: str) -> MetricTarget:
    return MetricTarget("Value", value=Quantity.parse(text))


def resource(name: str, target: MetricTarget) -> MetricSpec:
    return MetricSpec("Resource", resource=ResourceMetricSource(name, target))


def container(name: str, of: str, target: MetricTarget) -> MetricSpec:
    source = ContainerResourceMetricSource(name, of, target)
    return MetricSpec("ContainerResource", container_resource=source)


def pods(name: str, target: MetricTarget) -> MetricSpec:
    return MetricSpec("Pods", pods=PodsMetricSource(MetricIdentifier(name), target))


def of_object(name: str, target: MetricTarget) -> MetricSpec:
    described = CrossVersionObjectReference("Ingress", "web", "networking.k8s.io/v1")
    return MetricSpec(
        "Object", object=ObjectMetricSource(described, MetricIdentifier(name), target)
    )


def external(name: str, target: MetricTarget) -> MetricSpec:
    return MetricSpec("External", external=ExternalMetricSource(MetricIdentifier(name), target))


def spec(
    *metrics: MetricSpec, low: int | None = 2, high: int = 10, behavior: Behavior | None = None
) -> HPASpec:
    return default_spec(HPASpec(WEB, low, high, metrics, behavior))


CPU = resource("cpu", utilization(70))
MEMORY = resource("memory", average("100Mi"))
QUEUE = external("queue", average("30"))

METRICS = (
    CPU,
    resource("cpu", average("500m")),
    MEMORY,
    resource("memory", utilization(85)),
    container("cpu", "app", utilization(60)),
    container("memory", "app", average("1Gi")),
    pods("requests", average("1500m")),
    of_object("hits", value("2k")),
    of_object("hits", average("12345")),
    QUEUE,
    external("depth", value("100")),
)

_POLICIES = st.builds(
    ScalingPolicy, st.sampled_from(("Pods", "Percent")), st.integers(1, 200), st.integers(1, 1800)
)
_RULES = st.builds(
    ScalingRules,
    st.none() | st.integers(0, 3600),
    st.none() | st.sampled_from(("Max", "Min", "Disabled")),
    st.none() | st.lists(_POLICIES, min_size=1, max_size=3).map(tuple),
    st.none() | st.sampled_from(("0", "0.05", "50m", "100m", "300m", "1")).map(Quantity.parse),
)
_BEHAVIORS = st.none() | st.builds(Behavior, st.none() | _RULES, st.none() | _RULES)


@st.composite
def specs(draw: st.DrawFn, tolerances: bool = True, written: bool = False) -> HPASpec:
    """Valid specs, of a version with tolerances or one without; `written`: without defaults."""
    metrics = draw(st.lists(st.sampled_from(METRICS), max_size=3))
    low = draw(st.none() | st.integers(1, 20))
    behavior = draw(_BEHAVIORS)
    if behavior is not None and not tolerances:
        stripped = (
            None if rules is None else ScalingRules(
                rules.stabilization_window_seconds, rules.select_policy, rules.policies
            )
            for rules in (behavior.scale_up, behavior.scale_down)
        )  # fmt: skip
        behavior = Behavior(*stripped)
    high = (low or 1) + draw(st.integers(0, 50))
    found = HPASpec(WEB, low, high, tuple(metrics), behavior)
    return found if written else default_spec(found)


_FACTORS = ("x0.5", "x0.8", "x1", "x1.05", "x3")
_DIFFERENCES = ("+1", "-1", "+5", "-40", "+0")
_WINDOWS = st.integers(0, 3600).map(str)
_TARGETS = st.sampled_from(("1", "70", "250", "500m", "64Mi", "1k", "0.25"))
ABSOLUTE = {
    "target": _TARGETS,
    "target.cpu": _TARGETS,
    "target.memory": _TARGETS,
    "target.queue": _TARGETS,
    "target.container/app/cpu": _TARGETS,
    "min": st.integers(0, 40).map(str),
    "max": st.integers(1, 80).map(str),
    "tolerance": st.sampled_from(("0", "0.05", "5%", "50m", "0.333333", "1")),
    "scaleUp.tolerance": st.sampled_from(("0", "0.2")),
    "scaleDown.tolerance": st.sampled_from(("0.01", "0.2")),
    "scaleUp.window": _WINDOWS | st.just("1m"),
    "scaleDown.window": _WINDOWS | st.just("1h"),
    "policies": st.sampled_from(("gentle", "default", "fast")),
    "scaleUp.policies": st.sampled_from(("gentle", "default", "fast")),
    "scaleDown.policies": st.sampled_from(("gentle", "default", "fast")),
    "scaleUp.select": st.sampled_from(("Max", "min", "Disabled")),
    "scaleDown.select": st.sampled_from(("Max", "Min", "disabled")),
    "sync": st.sampled_from(("5s", "15", "1m", "1500ms")),
    "combine": st.sampled_from(("max", "min", "mean")),
    "percentage-of": st.sampled_from(("request", "limit")),
}
_RELATIVE_FIELDS = [
    name for name in ABSOLUTE if name.startswith(("target", "m")) or name.endswith(("e", "w"))
]
RELATIVE = {
    name: st.sampled_from((*_FACTORS, "+0.02", "-0.05") if "tolerance" in name
                          else _FACTORS + _DIFFERENCES)
    for name in _RELATIVE_FIELDS
    if name not in ("combine",)
}  # fmt: skip


@st.composite
def settings(draw: st.DrawFn, relative: bool = True) -> Setting:
    """Settings of up to five fields."""
    names = draw(st.lists(st.sampled_from(list(ABSOLUTE)), max_size=5, unique=True))
    values = {}
    for name in names:
        kinds = ABSOLUTE[name]
        if relative and name in RELATIVE:
            kinds = kinds | RELATIVE[name]
        values[name] = draw(kinds)
    return setting_of(values)
