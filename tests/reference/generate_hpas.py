"""Random HPAs: behavior, metrics of all kinds with all kinds of targets, bounds."""

from __future__ import annotations

import random
from typing import Any

from .generate_values import chance, metric_identifier, plain_quantity, tolerance_text
from .generate_values import utilization_target as percent_target

Json = dict[str, Any]

# Percentages whose float product is off the exact one, and such above 100.
_PERCENTS = (1, 7, 8, 8, 10, 10, 25, 30, 30, 31, 31, 50, 90, 90, 100, 101, 150, 200, 900)
_POD_STEPS = (1, 1, 2, 3, 4, 4, 5, 10, 25, 100)
_HUGE_STEPS = (1_000_000, 2**31 - 1)
_PERIODS = (1, 5, 14, 15, 15, 16, 30, 45, 60, 60, 120, 180, 300, 600, 1800)
_WINDOWS = (0, 0, 0, 1, 15, 30, 45, 60, 120, 180, 300, 300, 600, 1200, 3600)


# --- behavior -------------------------------------------------------------------------------------


def draw_behavior(rng: random.Random) -> Json | None:
    """Draw ``spec.behavior`` after API defaulting; None is the legacy path."""
    draw = rng.random()
    if draw < 0.22:
        return None
    up = _draw_rules(rng) if draw < 0.6 or draw > 0.8 else {}
    down = _draw_rules(rng) if draw > 0.42 else {}
    if draw > 0.97:
        up, down = {}, {}
    return {"scaleUp": _default_up(up), "scaleDown": _default_down(down)}


def _draw_rules(rng: random.Random) -> Json:
    rules: Json = {}
    if chance(rng, 0.8):
        rules["stabilizationWindowSeconds"] = rng.choice(_WINDOWS)
    if chance(rng, 0.7):
        rules["selectPolicy"] = rng.choice(["Max", "Max", "Max", "Min", "Min", "Min", "Disabled"])
    if chance(rng, 0.85):
        rules["policies"] = [_draw_policy(rng) for _ in range(rng.choice([1, 1, 2, 2, 3, 5]))]
    if chance(rng, 0.2):
        rules["tolerance"] = tolerance_text(rng)
    return rules


def _draw_policy(rng: random.Random) -> Json:
    percent = chance(rng, 0.5)
    value = rng.choice(_PERCENTS if percent else _POD_STEPS)
    if chance(rng, 0.04):
        value = rng.choice(_HUGE_STEPS)
    return {
        "type": "Percent" if percent else "Pods",
        "value": value,
        "periodSeconds": rng.choice(_PERIODS),
    }


def _default_up(rules: Json) -> Json:
    """API defaulting of scaleUp."""
    policies = [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ]
    default = {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": policies}
    return {**default, **rules}


def _default_down(rules: Json) -> Json:
    """API defaulting of scaleDown; its window stays unset."""
    policies = [{"type": "Percent", "value": 100, "periodSeconds": 15}]
    return {"selectPolicy": "Max", "policies": policies, **rules}


# --- metrics --------------------------------------------------------------------------------------


def draw_metrics(rng: random.Random, with_pods: bool, zero: bool) -> list[Json]:
    """Draw the metrics of an HPA; with ``zero`` the first one works without pods."""
    count = rng.choice([1, 1, 1, 2, 2, 3, 4])
    return [_draw_metric(rng, index, with_pods, zero) for index in range(count)]


def _draw_metric(rng: random.Random, index: int, with_pods: bool, zero: bool) -> Json:
    kinds = ["External"]
    if with_pods:
        kinds = ["Resource", "Resource", "Resource", "ContainerResource", "Pods"]
        kinds += ["Object", "External"] + ["Bogus"] * chance(rng, 0.2)
    if zero and index == 0:
        kinds = ["External", "External", "Object"]
    kind = rng.choice(kinds)
    if kind == "Bogus":
        return {"type": rng.choice(["Bogus", 'Odd "kind"', "resource"])}
    if kind in ("Resource", "ContainerResource"):
        return _draw_resource_metric(rng, kind)
    text = plain_quantity(rng.choice([1000, 1000, 2000, 500, 30_000, 333]))
    if kind == "Pods":
        target: Json = {"type": "AverageValue", "averageValue": text}
        return {"type": kind, "pods": {"metric": metric_identifier(rng, "qps"), "target": target}}
    # A Value target counts ready pods, so without pods it works only from zero.
    average = chance(rng, 0.6 if with_pods else 0.97)
    target = {"type": "AverageValue", "averageValue": text}
    if not average:
        target = {"type": "Value", "value": text}
    if chance(rng, 0.03):
        wrong = [{"type": "Utilization"}, {"type": "Value", "averageValue": text}]
        target = rng.choice([*wrong, {"type": "AverageValue", "value": text}])
    source: Json = {"metric": metric_identifier(rng, f"load{index}"), "target": target}
    if kind == "Object":
        described = rng.choice(["Service", "Service", "Ingress", "Namespace"])
        source["describedObject"] = {"kind": described, "name": "main", "apiVersion": "v1"}
    return {"type": kind, "object" if kind == "Object" else "external": source}


def _draw_resource_metric(rng: random.Random, kind: str) -> Json:
    source: Json = {"name": rng.choice(["cpu", "cpu", "memory"])}
    if kind == "ContainerResource":
        source["container"] = rng.choice(["app", "app", "app", "absent"])
    if chance(rng, 0.7):
        target: Json = {"type": "Utilization", "averageUtilization": percent_target(rng)}
    else:
        size = "100Mi" if source["name"] == "memory" else "75m"
        target = {"type": "AverageValue", "averageValue": size}
    if chance(rng, 0.02):
        target = {"type": "Utilization"}
    source["target"] = target
    return {"type": kind, "resource" if kind == "Resource" else "containerResource": source}


# --- the whole HPA --------------------------------------------------------------------------------


def draw_hpa(
    rng: random.Random, name: str, target: str, limit: int, with_pods: bool, zero: bool
) -> Json:
    """Draw an HPA after API defaulting; ``limit`` bounds maxReplicas."""
    maximum = limit if chance(rng, 0.6) else rng.choice([1, 3, 8, 12, 20])
    minimum = 0 if zero and chance(rng, 0.8) else min(maximum, rng.choice([1, 1, 2, 3, 10]))
    reference = {"kind": "Deployment", "name": target, "apiVersion": "apps/v1"}
    if chance(rng, 0.01):
        wrong = [{"kind": "Rollout"}, {"apiVersion": "apps/v1/extra"}, {"apiVersion": "v1"}]
        wrong += [{"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout"}]
        reference.update(rng.choice(wrong))  # the REST mapper does not know it
    spec: Json = {
        "scaleTargetRef": reference,
        "minReplicas": minimum,
        "maxReplicas": maximum,
        "metrics": draw_metrics(rng, with_pods, zero),
    }
    behavior = draw_behavior(rng)
    if behavior is not None:
        spec["behavior"] = behavior
    return {
        "kind": "HorizontalPodAutoscaler",
        "apiVersion": "autoscaling/v2",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
        "status": {"desiredReplicas": 0, "currentMetrics": None},
    }
