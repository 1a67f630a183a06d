"""Random timelines in golden JSON form, drawn step by step along the reference's own decisions."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Any

from .controller import Controller
from .generate_values import (
    any_quantity,
    build_containers,
    chance,
    container_layout,
    metric_identifier,
    plain_quantity,
    tolerance_text,
    utilization_target,
)
from .times import SECOND, format_time, parse_time

Json = dict[str, Any]

_FIRST_NOW = parse_time("2026-03-01T00:00:00Z")
_MILLISECOND = SECOND // 1000
_SYNC_PERIOD = 15 * SECOND

# Percentages whose float product is off the exact one, and such above 100.
_PERCENTS = (1, 7, 8, 8, 10, 10, 25, 30, 30, 31, 31, 50, 90, 90, 100, 101, 150, 200, 900)
_POD_STEPS = (1, 1, 2, 3, 4, 4, 5, 10, 25, 100)
_HUGE_STEPS = (1_000_000, 2**31 - 1)
_PERIODS = (1, 5, 14, 15, 15, 16, 30, 45, 60, 60, 120, 180, 300, 600, 1800)
_WINDOWS = (0, 0, 0, 1, 15, 30, 45, 60, 120, 180, 300, 300, 600, 1200, 3600)
_LOADS = ("walk", "walk", "sine", "noise")
_BAD_SELECTORS = ("", "", "app=web,!", "cheddar cheese in (a", "app in (web", "!k=v", "a=b,,c")


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


# --- the HPA --------------------------------------------------------------------------------------


@dataclass
class _Plan:
    """What holds for the whole timeline."""

    rng: random.Random
    ticks: int
    with_pods: bool
    edits: bool
    zero: bool  # minReplicas may be 0
    clock: str
    flaws: float  # probability of each kind of fault per tick
    limit: int  # bound of maxReplicas
    load: str


def _draw_flags(rng: random.Random, zero: bool) -> Json:
    flags: Json = {
        "tolerance": rng.choice([0, 0.01, 0.05, 0.1, 0.1, 0.1, 0.2]),
        "cpu_initialization_period_s": rng.choice([0, 30, 120, 300]),
        "initial_readiness_delay_s": rng.choice([0, 10, 30]),
        "sync_period_s": 15,
    }
    window = rng.choice([0, 15, 60, 120, 300, 300, 600])
    if window:
        flags["downscale_stabilization_s"] = window
    if zero and chance(rng, 0.75):
        flags["hpa_scale_to_zero"] = True
    return flags


def _draw_metric(plan: _Plan, index: int) -> Json:
    rng = plan.rng
    kinds = ["External"]
    if plan.with_pods:
        kinds = ["Resource", "Resource", "Resource", "ContainerResource", "Pods"]
        kinds += ["Object", "External"] + ["Bogus"] * chance(rng, 0.2)
    if plan.zero and index == 0:
        kinds = ["External", "External", "Object"]
    kind = rng.choice(kinds)
    if kind == "Bogus":
        return {"type": "Bogus"}
    if kind in ("Resource", "ContainerResource"):
        return _draw_resource_metric(rng, kind)
    text = plain_quantity(rng.choice([1000, 1000, 2000, 500, 30_000, 333]))
    if kind == "Pods":
        target: Json = {"type": "AverageValue", "averageValue": text}
        return {
            "type": kind,
            "pods": {"metric": metric_identifier(rng, "qps", 0.02), **_of(target)},
        }
    # A Value target counts ready pods, so without pods it works only from zero.
    average = chance(rng, 0.6 if plan.with_pods else 0.97)
    target = {"type": "AverageValue", "averageValue": text}
    if not average:
        target = {"type": "Value", "value": text}
    if chance(rng, 0.02):
        target = {"type": "Utilization"}
    source = {"metric": metric_identifier(rng, f"load{index}", 0.02), **_of(target)}
    if kind == "Object":
        source["describedObject"] = {"kind": "Service", "name": "main", "apiVersion": "v1"}
    return {"type": kind, "object" if kind == "Object" else "external": source}


def _of(target: Json) -> Json:
    return {"target": target}


def _draw_resource_metric(rng: random.Random, kind: str) -> Json:
    source: Json = {"name": rng.choice(["cpu", "cpu", "memory"])}
    if kind == "ContainerResource":
        source["container"] = rng.choice(["app", "app", "app", "absent"])
    if chance(rng, 0.7):
        target: Json = {"type": "Utilization", "averageUtilization": utilization_target(rng)}
    else:
        size = "100Mi" if source["name"] == "memory" else "75m"
        target = {"type": "AverageValue", "averageValue": size}
    if chance(rng, 0.02):
        target = {"type": "Utilization"}
    source["target"] = target
    return {"type": kind, "resource" if kind == "Resource" else "containerResource": source}


def _draw_hpa(plan: _Plan) -> Json:
    rng = plan.rng
    maximum = plan.limit if chance(rng, 0.6) else rng.choice([1, 3, 8, 12, 20])
    minimum = 0 if plan.zero and chance(rng, 0.8) else min(maximum, rng.choice([1, 1, 2, 3, 10]))
    count = rng.choice([1, 1, 1, 2, 2, 3, 4])
    reference = {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}
    if chance(rng, 0.01):
        wrong = [{"kind": "Rollout"}, {"apiVersion": "apps/v1/extra"}, {"apiVersion": "v1"}]
        reference.update(rng.choice(wrong))  # the REST mapper does not know it
    spec: Json = {
        "scaleTargetRef": reference,
        "minReplicas": minimum,
        "maxReplicas": maximum,
        "metrics": [_draw_metric(plan, index) for index in range(count)],
    }
    behavior = draw_behavior(rng)
    if behavior is not None:
        spec["behavior"] = behavior
    return {
        "kind": "HorizontalPodAutoscaler",
        "apiVersion": "autoscaling/v2",
        "metadata": {"name": "hpa", "namespace": "default"},
        "spec": spec,
        "status": {"desiredReplicas": 0, "currentMetrics": None},
    }


# --- pods -----------------------------------------------------------------------------------------


@dataclass
class _Pod:
    """A simulated pod; all times in microseconds, whole seconds."""

    name: str
    scheduled: int  # when it leaves Pending
    ready_from: int
    sampled_from: int
    deleted: int | None = None
    fate: str = "Running"  # phase after fate_from
    fate_from: int = 0
    flaps: bool = False  # readiness comes and goes


@dataclass
class _World:
    """Target, pods and load at the current tick."""

    plan: _Plan
    timeline: Json
    controller: Controller
    now: int
    replicas: int
    load: float
    pods: list[_Pod] = field(default_factory=list)
    born: int = 0
    history: list[int] = field(default_factory=list)
    quiet_ticks: int = 0  # how long there is still no load at all


def _grow_and_shrink(world: _World) -> None:
    """Make the pods follow the scale: new ones start late, surplus ones terminate slowly."""
    rng = world.plan.rng
    second = world.now - world.now % SECOND
    world.pods = [p for p in world.pods if p.deleted is None or p.deleted > second - 30 * SECOND]
    live = [p for p in world.pods if p.deleted is None and p.fate == "Running"]
    for pod in live[world.replicas :]:
        pod.deleted = second
    for _ in range(world.replicas - len(live)):
        old = not world.history  # the pods of the first tick have been there for long
        scheduled = second - 86_400 * SECOND if old else second + rng.choice([0, 0, 2, 40]) * SECOND
        ready = scheduled + rng.choice([1, 5, 12, 30, 90]) * SECOND
        sampled = scheduled + rng.choice([0, 15, 30, 60]) * SECOND
        pod = _Pod(f"web-{world.born}", scheduled, ready, sampled)
        world.born += 1
        if chance(rng, 0.06):
            pod.fate = rng.choice(["Failed", "Succeeded", "Unknown"])
            pod.fate_from = world.now + rng.randint(0, 600) * SECOND
        pod.flaps = chance(rng, 0.15)
        world.pods.append(pod)


def _write_pod(world: _World, pod: _Pod) -> Json:
    """Write a pod as the lister sees it now."""
    written: Json = {"name": pod.name, "phase": "Running", "deletion_timestamp": None}
    if pod.deleted is not None:
        written["deletion_timestamp"] = format_time(pod.deleted)
    if world.now < pod.scheduled:
        written.update(phase="Pending", start_time=None, ready=None)
        return written
    if pod.fate != "Running" and world.now >= pod.fate_from:
        written["phase"] = pod.fate
    written["start_time"] = format_time(pod.scheduled)
    is_ready, transition = world.now >= pod.ready_from, pod.ready_from
    if not is_ready:
        transition = pod.scheduled
    elif pod.flaps:
        turns = (world.now - pod.ready_from) // (75 * SECOND)
        is_ready, transition = turns % 2 == 0, pod.ready_from + turns * 75 * SECOND
    status = "True" if is_ready else "False"
    written["ready"] = {"status": status, "last_transition_time": format_time(transition)}
    return written


# --- the metrics APIs -----------------------------------------------------------------------------


def _next_load(world: _World) -> float:
    """Let the wished number of replicas wander, swing or jump between 0 and above the maximum."""
    rng = world.plan.rng
    limit = world.controller.maximum
    if world.quiet_ticks > 0:
        world.quiet_ticks -= 1
        return 0.0
    if chance(rng, 0.03 if world.plan.zero else 0.004):
        world.quiet_ticks = rng.randint(1, 80)
    if chance(rng, 0.03):
        return rng.random() * limit * 1.2
    if world.plan.load == "noise":
        return max(0.0, rng.gauss(0.5, 0.25) * limit)
    if world.plan.load == "sine":
        phase = world.now / (1800 * SECOND) * 2 * math.pi
        return max(0.0, (0.5 + 0.5 * math.sin(phase)) * limit * rng.uniform(0.95, 1.05))
    drift = rng.uniform(-0.08, 0.08) * limit if chance(rng, 0.3) else 0.0
    wandered = world.load * rng.uniform(0.93, 1.07) + drift
    return min(max(0.0, wandered), 1.2 * limit)


def _answer(world: _World, metric: Json, pods: list[Json]) -> Json:
    """Draw the API's answer to one metric of the HPA."""
    plan = world.plan
    rng = plan.rng
    if chance(rng, plan.flaws):
        return rng.choice([{}, {"metrics_error": "the server is currently unable"}])
    kind = metric["type"]
    wished = world.load * rng.uniform(0.9, 1.1) if chance(rng, 0.5) else world.load
    if kind in ("Object", "External"):
        return _single_answer(world, metric, wished)
    if kind == "Bogus":
        return {}
    sampled = [
        pod
        for simulated, pod in zip(world.pods, pods, strict=True)
        if world.now >= simulated.sampled_from and not chance(rng, plan.flaws)
    ]
    samples = {
        pod["name"]: _sample(world, metric, wished / max(1, len(sampled))) for pod in sampled
    }
    if chance(rng, plan.flaws / 2):
        samples["web-gone"] = _sample(world, metric, 1.0)
    return {"pod_metrics": samples} if samples else {}


def _single_answer(world: _World, metric: Json, wished: float) -> Json:
    rng = world.plan.rng
    source = metric["object" if metric["type"] == "Object" else "external"]
    target = source["target"]
    unit = 1000
    for text in (target.get("value"), target.get("averageValue")):
        if text is not None:
            unit = int(float(text[:-1])) if text.endswith("m") else int(text) * 1000
    total = round(wished * unit)
    if "averageValue" not in target:
        total = round(unit * wished / max(1, world.replicas))
    if chance(rng, 0.02):
        total = rng.choice([0, -total, total * 1000])
    if metric["type"] == "Object":
        return {"object_value": any_quantity(rng, total)}
    part = rng.randint(0, max(0, total)) if chance(rng, 0.3) else 0
    parts = [part, total - part] if part else [total]
    return {"external_values": [any_quantity(rng, value) for value in parts]}


def _sample(world: _World, metric: Json, share: float) -> Json:
    """Draw one pod's sample; a share of 1.0 is the metric's target."""
    rng = world.plan.rng
    share *= rng.uniform(0.95, 1.05)
    stamp = world.now - world.now % SECOND - rng.randint(0, 40) * SECOND
    sample: Json = {"timestamp": format_time(stamp), "window_s": rng.choice([None, 15, 30])}
    if metric["type"] == "Pods":
        sample["value"] = any_quantity(rng, round(share * 1000))
        return sample
    source = metric["resource" if metric["type"] == "Resource" else "containerResource"]
    percent = source["target"].get("averageUtilization", 75)
    containers = world.timeline.get("containers") or []
    sidecars = world.timeline.get("init_containers") or []
    sample["containers"] = {
        container["name"]: {
            "cpu": plain_quantity(round(share * percent)),
            "memory": f"{round(share * percent * 1024)}Ki",
        }
        for container in containers + [c for c in sidecars if c.get("restart_policy")]
    }
    if chance(rng, world.plan.flaws / 4):
        del sample["containers"]["app"]["cpu"]
    return sample


# --- ticks ----------------------------------------------------------------------------------------


def _advance(world: _World) -> None:
    """Move the clock: exact grid, jitter, long gaps, or exactly onto the edge of a window."""
    plan = world.plan
    rng = plan.rng
    step = _SYNC_PERIOD
    if plan.clock == "jitter":
        step += rng.randint(-2000, 9000) * _MILLISECOND
    elif plan.clock == "irregular":
        step = rng.choice([1, 5, 15, 15, 60, 299, 300, 301, 3601]) * SECOND
    elif plan.clock == "edges" and world.history and chance(rng, 0.5):
        step = _step_to_edge(world)
    elif chance(rng, 0.01):
        step = rng.choice([120, 600, 4000]) * SECOND
    world.now += step


def _step_to_edge(world: _World) -> int:
    """Return the time until a past tick is exactly one window or period old (or 1 ms beside)."""
    rng = world.plan.rng
    behavior = world.controller.behavior or {}
    spans = [world.controller.downscale_stabilization_s]
    for rules in behavior.values():
        spans.append(rules.get("stabilizationWindowSeconds") or 0)
        spans += [policy["periodSeconds"] for policy in rules["policies"]]
    past = rng.choice(world.history[-40:])
    edge = past + rng.choice(spans) * SECOND + rng.choice([0, 0, 0, -1, 1]) * _MILLISECOND
    step = edge - world.now
    return step if 0 < step <= 3600 * SECOND else _SYNC_PERIOD


def _spec_edits(world: _World) -> Json:
    """Draw edits of the HPA before a tick, and restarts of the controller."""
    rng, controller = world.plan.rng, world.controller
    edits: Json = {}
    if chance(rng, 0.006):
        edits["restart"] = True
    if not world.plan.edits:
        return edits
    if chance(rng, 0.012):
        behavior = draw_behavior(rng)
        if behavior is None:
            edits["remove_behavior"] = True
        else:
            edits["set_behavior"] = behavior
    if chance(rng, 0.008):
        lowest = 0 if world.plan.zero else 1
        edits["set_min_replicas"] = rng.randint(lowest, min(controller.maximum, 12))
    if chance(rng, 0.008):
        minimum = edits.get("set_min_replicas", controller.minimum)
        most = rng.choice([10, 30, world.plan.limit])
        edits["set_max_replicas"] = rng.randint(max(1, minimum), max(1, minimum, most))
    return edits


def _scale_faults(world: _World) -> Json:
    """Draw faults of the scale subresource in this tick."""
    rng, flaws = world.plan.rng, world.plan.flaws
    faults: Json = {}
    if chance(rng, flaws / 4):
        faults["scale_get_error"] = "etcdserver: request timed out"
    if chance(rng, flaws / 2):
        faults["scale_update_error"] = "admission webhook denied the request"
    if chance(rng, flaws / 4):
        faults["selector"] = rng.choice(_BAD_SELECTORS)
    return faults


def _manual_change(world: _World) -> None:
    """Let somebody else change the target now and then, also to zero."""
    rng = world.plan.rng
    if chance(rng, 0.008):
        most = min(world.controller.maximum + 3, 2**31 - 1)
        world.replicas = 0 if chance(rng, 0.2) else rng.randint(1, most)
    elif world.replicas == 0 and chance(rng, 0.03):
        world.replicas = 1


def _tick(world: _World) -> Json:
    """Draw one tick, let the reference decide, and let the target follow."""
    plan = world.plan
    rng = plan.rng
    _manual_change(world)
    world.load = _next_load(world)
    pods: list[Json] = []
    if plan.with_pods:
        _grow_and_shrink(world)
        pods = [_write_pod(world, pod) for pod in world.pods]
    tick: Json = {
        "now": format_time(world.now),
        "spec_replicas": world.replicas,
        "status_replicas": world.replicas,
        "pods": pods,
        "metrics": [_answer(world, metric, pods) for metric in world.controller.metrics],
        **_spec_edits(world),
        **_scale_faults(world),
    }
    if chance(rng, 0.05):
        tick["status_replicas"] = max(0, world.replicas + rng.randint(-2, 2))
    result = world.controller.tick(tick)
    if result["scale_to"] is not None and not chance(rng, plan.flaws / 4):
        world.replicas = result["scale_to"]
    world.history.append(world.now)
    _advance(world)
    return tick


def _run(plan: _Plan) -> Json:
    """Draw the HPA and all ticks."""
    rng = plan.rng
    hpa = _draw_hpa(plan)
    result: Json = {
        "id": f"reference-{rng.getrandbits(32):08x}",
        "tags": ["with_pods" if plan.with_pods else "behavior", plan.clock],
        "flags": _draw_flags(rng, plan.zero),
        "hpa_submitted": hpa,
        "hpa": hpa,
        "containers": None,
        "ticks": [],
    }
    if plan.with_pods:
        layout = container_layout(rng)
        requests: list[Json] = [{"cpu": "100m", "memory": "100Mi"} for _ in layout]
        if chance(rng, 0.04):
            del requests[-1][rng.choice(["cpu", "memory"])]
        result.update(build_containers(rng, layout, requests))
    now = _FIRST_NOW + rng.randrange(100 * 86_400) * SECOND
    if plan.clock != "grid":
        now += rng.randrange(1000) * _MILLISECOND
    maximum = hpa["spec"]["maxReplicas"]
    replicas = rng.randint(0 if plan.zero else 1, maximum)
    world = _World(plan, result, Controller(result), now, replicas, load=float(replicas))
    for _ in range(plan.ticks):
        result["ticks"].append(_tick(world))
    return result


def timeline(rng: random.Random, ticks: int) -> Json:
    """Draw a timeline with pods and all kinds of metrics and faults (without ``expected``)."""
    return _run(
        _Plan(
            rng=rng,
            ticks=ticks,
            with_pods=True,
            edits=chance(rng, 0.4),
            zero=chance(rng, 0.2),
            clock=rng.choice(["grid", "grid", "jitter", "irregular", "edges"]),
            flaws=rng.choice([0.0, 0.01, 0.03, 0.1]),
            limit=rng.choice([5, 12, 20, 30]),
            load=rng.choice(_LOADS),
        )
    )


def behavior_timeline(rng: random.Random, ticks: int) -> Json:
    """Draw a timeline with External metrics only: many ticks, edits of the behavior, no pods."""
    return _run(
        _Plan(
            rng=rng,
            ticks=ticks,
            with_pods=False,
            edits=True,
            zero=chance(rng, 0.2),
            clock=rng.choice(["grid", "jitter", "irregular", "edges", "edges"]),
            flaws=rng.choice([0.0, 0.0, 0.01, 0.05]),
            limit=rng.choice([20, 40, 60, 100, 100, 300, 1000, 5000, 1_000_000, 2**31 - 1]),
            load=rng.choice(_LOADS),
        )
    )
