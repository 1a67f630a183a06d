"""Random timelines in golden JSON form, drawn step by step along the reference's own decisions."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from .controller import Controller
from .generate_hpas import draw_behavior, draw_hpa, draw_metrics
from .generate_values import (
    bad_scale_selector,
    build_containers,
    chance,
    container_layout,
    error_text,
)
from .generate_worlds import LOADS, Apis, Load, Workload, sampled_containers
from .times import SECOND, format_time, parse_time

__all__ = ["behavior_timeline", "draw_behavior", "timeline"]

Json = dict[str, Any]

FIRST_NOW = parse_time("2026-03-01T00:00:00Z")
_MILLISECOND = SECOND // 1000
_SYNC_PERIOD = 15 * SECOND
_GATES = (
    "HPAScaleToZero",
    "HPAConfigurableTolerance",
    "HPAGeneration",
    "HPAOptimizedSelectorStore",
    "PodLevelResources",
)
CLOCKS = ("grid", "grid", "jitter", "irregular", "edges")


@dataclass
class Plan:
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
    extended: bool = False  # also what golden timelines do not have


@dataclass
class _World:
    """Target, load and metrics APIs at the current tick."""

    plan: Plan
    controller: Controller
    workload: Workload
    load: Load
    apis: Apis
    clock: Clock


@dataclass
class Clock:
    """The time of the ticks: exact grid, jitter, long gaps, or just onto the edge of a window."""

    rng: random.Random
    kind: str
    now: int
    history: list[int] = field(default_factory=list)

    def advance(self, controllers: list[Controller]) -> None:
        """Go to the next tick."""
        rng = self.rng
        self.history.append(self.now)
        step = _SYNC_PERIOD
        if self.kind == "jitter":
            step += rng.randint(-2000, 9000) * _MILLISECOND
        elif self.kind == "irregular":
            step = rng.choice([1, 5, 15, 15, 60, 299, 300, 301, 3601]) * SECOND
        elif self.kind == "edges" and controllers and chance(rng, 0.5):
            step = self._step_to_edge(rng.choice(controllers))
        elif chance(rng, 0.01):
            step = rng.choice([120, 600, 4000]) * SECOND
        self.now += step

    def _step_to_edge(self, controller: Controller) -> int:
        """Return the time until a past tick is just one window or period old (or 1 ms beside)."""
        rng = self.rng
        spans = [controller.downscale_stabilization_s]
        for rules in (controller.behavior or {}).values():
            spans.append(rules.get("stabilizationWindowSeconds") or 0)
            spans += [policy["periodSeconds"] for policy in rules["policies"]]
        past = rng.choice(self.history[-40:])
        edge = past + rng.choice(spans) * SECOND + rng.choice([0, 0, 0, -1, 1]) * _MILLISECOND
        step = edge - self.now
        return step if 0 < step <= 3600 * SECOND else _SYNC_PERIOD


def first_instant(rng: random.Random, clock: str) -> int:
    """Draw when a timeline starts."""
    now = FIRST_NOW + rng.randrange(100 * 86_400) * SECOND
    return now if clock == "grid" else now + rng.randrange(1000) * _MILLISECOND


def draw_flags(rng: random.Random, zero: bool, extended: bool) -> Json:
    """Draw the controller's settings."""
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
    if extended and chance(rng, 0.5):
        flags["feature_gates"] = {gate: chance(rng, 0.5) for gate in _GATES if chance(rng, 0.6)}
    return flags


def draw_containers(rng: random.Random) -> Json:
    """Draw the containers of all pods of a timeline."""
    layout = container_layout(rng)
    requests: list[Json] = [{"cpu": "100m", "memory": "100Mi"} for _ in layout]
    if chance(rng, 0.04):
        del requests[-1][rng.choice(["cpu", "memory"])]
    return build_containers(rng, layout, requests)


# --- one tick -------------------------------------------------------------------------------------


def spec_edits(plan: Plan, controller: Controller) -> Json:
    """Draw edits of an HPA before a tick."""
    rng = plan.rng
    edits: Json = {}
    if chance(rng, 0.012):
        behavior = draw_behavior(rng)
        if behavior is None:
            edits["remove_behavior"] = True
        else:
            edits["set_behavior"] = behavior
    if chance(rng, 0.008):
        lowest = 0 if plan.zero else 1
        edits["set_min_replicas"] = rng.randint(lowest, min(controller.maximum, 12))
    if chance(rng, 0.008):
        minimum = edits.get("set_min_replicas", controller.minimum)
        most = rng.choice([10, 30, plan.limit])
        edits["set_max_replicas"] = rng.randint(max(1, minimum), max(1, minimum, most))
    if plan.extended and chance(rng, 0.01):
        edits["set_metrics"] = draw_metrics(rng, plan.with_pods, plan.zero)
    if plan.extended and edits:
        edits["set_generation"] = controller.generation + 1
    return edits


def scale_faults(plan: Plan) -> Json:
    """Draw faults of the scale subresource in this tick."""
    rng, flaws = plan.rng, plan.flaws
    faults: Json = {}
    if chance(rng, flaws / 4):
        faults["scale_get_error"] = error_text(rng)
    if chance(rng, flaws / 2):
        faults["scale_update_error"] = error_text(rng)
    if chance(rng, flaws / 4):
        faults["selector"] = bad_scale_selector(rng)
    if plan.extended and chance(rng, flaws / 8):
        faults["status_update_error"] = error_text(rng)
    return faults


def change_by_hand(plan: Plan, workload: Workload, maximum: int) -> None:
    """Let somebody else change the target now and then, also to zero."""
    rng = plan.rng
    if chance(rng, 0.008):
        most = min(maximum + 3, 2**31 - 1)
        workload.replicas = 0 if chance(rng, 0.2) else rng.randint(1, most)
    elif workload.replicas == 0 and chance(rng, 0.03):
        workload.replicas = 1


def status_replicas(rng: random.Random, replicas: int) -> int:
    """Draw what the scale's status says."""
    return max(0, replicas + rng.randint(-2, 2)) if chance(rng, 0.05) else replicas


def _tick(world: _World) -> Json:
    """Draw one tick, let the reference decide, and let the target follow."""
    plan, controller, workload, now = world.plan, world.controller, world.workload, world.clock.now
    rng = plan.rng
    change_by_hand(plan, workload, controller.maximum)
    wished = world.load.next(now, controller.maximum)
    pods: list[Json] = []
    names: list[str] = []
    if plan.with_pods:
        workload.follow(now)
        pods = workload.written(now)
        names = [pod["name"] for pod in pods if pod["name"] in workload.sampled(now)]
    edits: Json = {"restart": True} if chance(rng, 0.006) else {}
    if plan.edits:
        edits.update(spec_edits(plan, controller))
    metrics = edits.get("set_metrics", controller.metrics)
    tick: Json = {
        "now": format_time(now),
        "spec_replicas": workload.replicas,
        "status_replicas": status_replicas(rng, workload.replicas),
        "pods": pods,
        "metrics": [
            world.apis.answer(metric, wished, workload.replicas, now, names) for metric in metrics
        ],
        **edits,
        **scale_faults(plan),
    }
    result = controller.tick(tick)
    if result["scale_to"] is not None and not chance(rng, plan.flaws / 4):
        workload.replicas = result["scale_to"]
    world.clock.advance([controller])
    return tick


def _run(plan: Plan) -> Json:
    """Draw the HPA and all ticks."""
    rng = plan.rng
    hpa = draw_hpa(rng, "hpa", "web", plan.limit, plan.with_pods, plan.zero)
    if plan.extended:
        hpa["metadata"]["generation"] = 1
    result: Json = {
        "id": f"reference-{rng.getrandbits(32):08x}",
        "tags": ["with_pods" if plan.with_pods else "behavior", plan.clock],
        "flags": draw_flags(rng, plan.zero, plan.extended),
        "hpa_submitted": hpa,
        "hpa": hpa,
        "containers": None,
        "ticks": [],
    }
    if plan.with_pods:
        result.update(draw_containers(rng))
    maximum = hpa["spec"]["maxReplicas"]
    workload = Workload(rng, "web", rng.randint(0 if plan.zero else 1, maximum))
    world = _World(
        plan,
        Controller(result),
        workload,
        Load(rng, plan.load, float(workload.replicas), 0.03 if plan.zero else 0.004),
        Apis(rng, plan.flaws, sampled_containers(result)),
        Clock(rng, plan.clock, first_instant(rng, plan.clock)),
    )
    for _ in range(plan.ticks):
        result["ticks"].append(_tick(world))
    return result


def timeline(rng: random.Random, ticks: int, extended: bool = False) -> Json:
    """Draw a timeline with pods and all kinds of metrics and faults (without ``expected``).

    ``extended``: also with edits of the metrics, generations, feature gates and failing status
    writes, which golden ones lack.
    """
    return _run(
        Plan(
            rng=rng,
            ticks=ticks,
            with_pods=True,
            edits=chance(rng, 0.4) or extended,
            zero=chance(rng, 0.2),
            clock=rng.choice(CLOCKS),
            flaws=rng.choice([0.0, 0.01, 0.03, 0.1]),
            limit=rng.choice([5, 12, 20, 30]),
            load=rng.choice(LOADS),
            extended=extended,
        )
    )


def behavior_timeline(rng: random.Random, ticks: int) -> Json:
    """Draw a timeline with External metrics only: many ticks, edits of the behavior, no pods."""
    return _run(
        Plan(
            rng=rng,
            ticks=ticks,
            with_pods=False,
            edits=True,
            zero=chance(rng, 0.2),
            clock=rng.choice(["grid", "jitter", "irregular", "edges", "edges"]),
            flaws=rng.choice([0.0, 0.0, 0.01, 0.05]),
            limit=rng.choice([20, 40, 60, 100, 100, 300, 1000, 5000, 1_000_000, 2**31 - 1]),
            load=rng.choice(LOADS),
        )
    )
