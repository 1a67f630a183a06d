"""Random group timelines: several HPAs of one namespace, whose selectors may overlap.

The JSON form is described at the top of ``generate.py``.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from .controller import Controller
from .generate_hpas import draw_hpa
from .generate_timelines import (
    CLOCKS,
    Clock,
    Plan,
    change_by_hand,
    draw_containers,
    draw_flags,
    first_instant,
    scale_faults,
    spec_edits,
    status_replicas,
)
from .generate_values import chance
from .generate_worlds import LOADS, Apis, Load, Workload, sampled_containers
from .group import ControllerGroup
from .selector import SelectorError, matches, parse_selector
from .times import format_time

Json = dict[str, Any]

_NAMES = ("web", "web-2", "api", "a.hpa", "zz", "0", "batch")
_LABELS: dict[str, Json] = {
    "web": {"app": "web", "tier": "front"},
    "api": {"app": "api", "tier": "front", "level": "2"},
    "canary": {"app": "web", "track": "canary"},
    "batch": {"app": "batch"},
}
# Selectors that match the pods of several targets, or of none.
_BROAD = (
    "app",
    "app=web",
    "tier=front",
    "app in (web,api)",
    "app!=batch",
    "app notin (batch),!track",
    "level>1",
    "!tier",
    "app=nothing",
)
_STRAY: Json = {
    "name": "debug",
    "phase": "Running",
    "deletion_timestamp": None,
    "start_time": None,
    "ready": None,
}


@dataclass
class _World:
    """All targets and HPAs at the current tick."""

    plan: Plan
    timeline: Json
    group: ControllerGroup
    workloads: dict[str, Workload]
    loads: dict[str, Load]  # by HPA
    apis: Apis
    clock: Clock
    order: list[str]  # in which the HPAs are synced
    stray: list[Json]  # pods that belong to no target
    gone: set[str] = field(default_factory=set)  # deleted, and the controller does not know yet
    absent: list[Json] = field(default_factory=list)  # entries of HPAs that do not exist

    def workload_of(self, controller: Controller) -> Workload:
        """Return the target of an HPA."""
        return self.workloads[controller.target["name"]]


def _own_selector(target: str) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(_LABELS[target].items()))


def _draw_entry(plan: Plan, name: str, target: str) -> Json:
    """Draw an HPA and the usual selector of its scale."""
    rng = plan.rng
    selector = _own_selector(target)
    if chance(rng, 0.15):
        selector = rng.choice([f"app={_LABELS[target]['app']}", *_BROAD])
    hpa = draw_hpa(rng, name, target, plan.limit, True, plan.zero)
    if plan.extended:
        hpa["metadata"]["generation"] = 1
    return {"name": name, "selector": selector, "hpa": hpa}


# --- one tick -------------------------------------------------------------------------------------


def _comings_and_goings(world: _World) -> Json:
    """Draw restarts, deletions, and creations (also of what was deleted just now)."""
    plan, rng = world.plan, world.plan.rng
    changes: Json = {}
    if chance(rng, 0.006):
        changes["restart"] = True
        world.gone.clear()
    for name in list(world.group.hpas):
        if not chance(rng, 0.008):
            continue
        entry = _entry_of(world.timeline, name)
        changes.setdefault("delete", []).append(name)
        world.gone.add(name)
        world.absent.append(entry)
    for entry in list(world.absent):
        if not chance(rng, 0.1 if entry["name"] not in changes.get("delete", []) else 0.3):
            continue
        target = entry["hpa"]["spec"]["scaleTargetRef"]["name"]
        again = _draw_entry(plan, entry["name"], target) if chance(rng, 0.5) else entry
        changes.setdefault("create", []).append(again)
        world.absent.remove(entry)
        world.gone.discard(entry["name"])
    return changes


def _entry_of(timeline: Json, name: str) -> Json:
    """Return the latest entry of an HPA."""
    created = [entry for tick in timeline["ticks"] for entry in tick.get("create") or []]
    entry: Json = next(e for e in [*reversed(created), *timeline["hpas"]] if e["name"] == name)
    return entry


def _record(world: _World, name: str, pods: list[Json]) -> Json:
    """Draw what the controller reads in the sync of one HPA."""
    plan, rng, now = world.plan, world.plan.rng, world.clock.now
    controller = world.group.hpas[name]
    workload = world.workload_of(controller)
    edits = spec_edits(plan, controller) if plan.edits else {}
    faults = scale_faults(plan)
    if chance(rng, 0.01):
        faults.setdefault("selector", rng.choice(_BROAD))
    selector = faults.get("selector", controller.usual_selector)
    sampled = set().union(*(target.sampled(now) for target in world.workloads.values()))
    names = [pod["name"] for pod in _selected(selector, pods) if pod["name"] in sampled]
    wished = world.loads[name].next(now, controller.maximum)
    metrics = edits.get("set_metrics", controller.metrics)
    record: Json = {
        "name": name,
        "spec_replicas": workload.replicas,
        "status_replicas": status_replicas(rng, workload.replicas),
        "metrics": [
            world.apis.answer(metric, wished, workload.replicas, now, names) for metric in metrics
        ],
        **edits,
        **faults,
    }
    if plan.extended and chance(rng, 0.006):
        record["deleted_during_sync"] = True
        record["status_update_error"] = f'horizontalpodautoscalers.autoscaling "{name}" not found'
    return record


def _selected(selector: str, pods: list[Json]) -> list[Json]:
    try:
        requirements = parse_selector(selector)
    except SelectorError:
        return []
    return [pod for pod in pods if matches(requirements, pod["labels"])]


def _sync(world: _World, name: str, tick: Json) -> None:
    """Draw one sync of the tick, let the reference decide, and let the target follow."""
    group = world.group
    controller = group.hpas.get(name)
    record = {"name": name} if controller is None else _record(world, name, tick["pods"])
    tick["hpas"].append(record)
    result = group.sync(name, {"now": tick["now"], "pods": tick["pods"], **record})
    world.gone.discard(name)
    if controller is None or result is None:
        return
    if result["scale_to"] is not None:
        world.workload_of(controller).replicas = result["scale_to"]
    if name not in group.hpas:
        world.gone.add(name)
        world.absent.append(_entry_of(world.timeline, name))


def _tick(world: _World) -> Json:
    """Draw one tick, sync by sync."""
    plan, group, rng, now = world.plan, world.group, world.plan.rng, world.clock.now
    pods = list(world.stray)
    for workload in world.workloads.values():
        change_by_hand(plan, workload, plan.limit)
        workload.follow(now)
        pods += workload.written(now)
    tick: Json = {"now": format_time(now), **_comings_and_goings(world), "pods": pods, "hpas": []}
    group.tick(tick)  # only what comes before the syncs
    if chance(rng, 0.02):
        rng.shuffle(world.order)
    for name in world.order:
        late = chance(rng, 0.04 if name in group.hpas else 0.5)
        if not late and (name in group.hpas or name in world.gone):
            _sync(world, name, tick)
    world.clock.advance(list(group.hpas.values()))
    return tick


# --- the whole timeline ---------------------------------------------------------------------------


def group_timeline(rng: random.Random, ticks: int, extended: bool = False) -> Json:
    """Draw a group timeline (without ``expected``).

    ``extended``: also with edits of the metrics, generations, feature gates, failing status writes
    and HPAs that are deleted under way.
    """
    plan = Plan(
        rng=rng,
        ticks=ticks,
        with_pods=True,
        edits=chance(rng, 0.4) or extended,
        zero=chance(rng, 0.15),
        clock=rng.choice(CLOCKS),
        flaws=rng.choice([0.0, 0.01, 0.03, 0.1]),
        limit=rng.choice([3, 5, 8]),
        load=rng.choice(LOADS),
        extended=extended,
    )
    targets = rng.sample(list(_LABELS), rng.choice([2, 3, 4]))
    names = rng.sample(_NAMES, rng.choice([2, 2, 3, 4]))
    owned = targets if chance(rng, 0.7) else rng.choices(targets, k=len(names))
    entries = [_draw_entry(plan, *pair) for pair in zip(names, owned, strict=False)]
    result: Json = {
        "id": f"reference-group-{rng.getrandbits(32):08x}",
        "tags": ["group", plan.clock],
        "flags": draw_flags(rng, plan.zero, plan.extended),
        "hpas": entries,
        **draw_containers(rng),
        "ticks": [],
    }
    stray = [_STRAY | {"labels": rng.choice([{}, {"app": "web"}])}] if chance(rng, 0.2) else []
    world = _World(
        plan,
        result,
        ControllerGroup(result),
        {
            target: Workload(rng, target, rng.randint(1, plan.limit), _LABELS[target])
            for target in targets
        },
        {name: Load(rng, plan.load, 2.0, 0.03 if plan.zero else 0.004) for name in names},
        Apis(rng, plan.flaws, sampled_containers(result)),
        Clock(rng, plan.clock, first_instant(rng, plan.clock)),
        [entry["name"] for entry in entries],
        stray,
    )
    for _ in range(plan.ticks):
        result["ticks"].append(_tick(world))
    return result
