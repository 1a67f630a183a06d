"""The same passes, decided the plain way: HPA by HPA, from the documents of a `World`.

By the naive reference controller. Scale events are the changes that really happened.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from hpabatch.cluster.objects.types import Change, Kind, PodKey, ScaleKey
from hpabatch.model.versions import Profile as Rules
from tests.conformance.golden import to_profile
from tests.live.cases import World
from tests.live.documents import Json, custom_keys, key_of_target
from tests.reference.controller import Controller
from tests.reference.normalize import store_scale_event
from tests.reference.selector import matches
from tests.reference.selector_store import SelectorCheckError, SelectorStore, convert_selector
from tests.reference.status import Status
from tests.reference.times import format_time

FLAGS: Json = {
    "tolerance": 0.1,
    "cpu_initialization_period_s": 300,
    "initial_readiness_delay_s": 30,
    "downscale_stabilization_s": 300,
}
Sized = tuple[int, int, int]


class Recorded(Controller):
    """The reference, whose scale events are told from outside."""

    def rescale(self, *arguments: Any) -> bool:
        ups, downs = deepcopy(self.memory.ups), deepcopy(self.memory.downs)
        done = super().rescale(*arguments)
        self.memory.ups, self.memory.downs = ups, downs
        return done

    def check_selector(self, tick: Json) -> None:
        store = self.store
        if tick["spec_replicas"] == 0:
            self.store = None  # a target at zero is taken to keep what it had registered
        try:
            super().check_selector(tick)
        finally:
            self.store = store

    def spend(self, changes: list[Sized]) -> None:
        """Take in changes that happened since the last sync."""
        for ms, before, after in changes:
            if self.behavior is not None:
                up = after > before
                events = self.memory.ups if up else self.memory.downs
                rules = self.behavior["scaleUp" if up else "scaleDown"]
                store_scale_event(events, rules, before, after, ms * 1000)


@dataclass
class Life:
    """One HPA from the pass that finds it first to the one that finds it gone.

    `zero`: ScaledToZero as the cluster's own controller last had it.
    """

    document: Json
    controller: Recorded
    target: ScaleKey
    fresh: bool = True
    recreated: bool = False
    here: bool = True
    pending: list[Sized] = field(default_factory=list)
    zero: str = ""


class Naive:
    """All HPAs of a world, pass by pass."""

    def __init__(self, world: World, k8s: str) -> None:
        self.world, self.k8s = world, k8s
        self.flags = FLAGS | {"hpa_scale_to_zero": world.zero}
        self.rules: Rules = to_profile(k8s, self.flags)
        self.lives: dict[PodKey, Life] = {}
        self.sizes: dict[ScaleKey, int] = {}
        self.seen: set[ScaleKey] = set()
        self.stores: dict[str, SelectorStore] = {}

    # ---- what happens

    def apply(self, change: Change, document: Json | None) -> None:
        """Take in a change, with the document of the HPA, or what the scale is now."""
        if change.kind is Kind.hpa:
            self._hpa((change.key[0], change.key[1]), document)
        elif change.kind is Kind.scale and isinstance(change.key, ScaleKey):
            self._scale(change.key, document, change.seen_ms)
        for key in [k for k in self.sizes if k not in self.seen]:
            if all(life.target != key for life in self.lives.values()):
                del self.sizes[key]

    def _store(self, namespace: str) -> SelectorStore:
        return self.stores.setdefault(namespace, SelectorStore())

    def _begin(self, document: Json) -> Recorded:
        timeline = {"flags": self.flags, "hpa": document}
        namespace = document["metadata"]["namespace"]
        return Recorded(timeline, self.k8s, self._store(namespace))

    def _hpa(self, key: PodKey, document: Json | None) -> None:
        life = self.lives.get(key)
        if document is None:  # deleted, or refused
            if life is not None:
                life.here = False
                if life.fresh:
                    self._end(key)
            return
        if life is None:
            life = Life(document, self._begin(document), key_of_target(key[0], document))
            self.lives[key] = life
            self._store(key[0]).register(life.controller.key)
            return
        if document["metadata"]["uid"] != life.document["metadata"]["uid"]:
            life.recreated = True
            self._store(key[0]).remove(life.controller.key)
            self._store(key[0]).register(life.controller.key)
        life.here, life.document = True, document
        life.target = key_of_target(key[0], document)

    def _end(self, key: PodKey) -> None:
        life = self.lives.pop(key)
        self._store(key[0]).remove(life.controller.key)

    def _scale(self, key: ScaleKey, scale: Json | None, seen_ms: int) -> None:
        self.seen.discard(key)
        if scale is None:
            return
        self.seen.add(key)
        if scale.get("error"):
            return
        before, now = self.sizes.get(key), scale["replicas"]
        self.sizes[key] = now
        if before is not None and before != now:
            for life in self.lives.values():
                if life.target == key:
                    life.pending.append((seen_ms, before, now))

    # ---- a pass

    def decide(self, now_ms: int) -> dict[PodKey, Json]:
        """Decide every HPA; returns the reference's results."""
        for key in [key for key, life in self.lives.items() if not life.here]:
            self._end(key)
        return {key: self._sync(key, self.lives[key], now_ms) for key in sorted(self.lives)}

    def _sync(self, key: PodKey, life: Life, now_ms: int) -> Json:
        controller, document = life.controller, life.document
        if life.fresh:
            life.pending.clear()
        controller.spend(life.pending)
        life.pending = []
        self._take_zero(life)
        if life.recreated or life.fresh:
            memory = controller.memory
            life.controller = controller = self._begin(document)
            controller.memory = memory
            if life.recreated:
                controller.status = Status()
        tick = self._tick(key, life, now_ms)
        if life.target in self.world.scales:
            result = controller.tick(tick)
        else:
            controller.edit(tick)
            result = {"desired_replicas": controller.status.desired_replicas}
            result["status_current_replicas"] = controller.status.current_replicas
            result["rescaled"], result["unknown"] = False, True
            result["conditions"] = [dict(c) for c in controller.status.conditions]
        life.fresh = life.recreated = False
        result["status"] = controller.status
        return result

    def _take_zero(self, life: Life) -> None:
        """Take ScaledToZero over from the cluster's status where that has changed."""
        if not (self.rules.zero_needs_condition and self.rules.gate_scale_to_zero):
            return
        shown = life.document["status"].get("conditions") or []
        theirs = next((c for c in shown if c["type"] == "ScaledToZero"), None)
        before, life.zero = life.zero, theirs["status"] if theirs else ""
        if life.fresh or life.zero == before:
            return
        conditions = life.controller.status.conditions
        at = next((k for k, c in enumerate(conditions) if c["type"] == "ScaledToZero"), None)
        if theirs is None:
            if at is not None:
                del conditions[at]
            return
        own = {name: theirs.get(name) for name in ("type", "status", "reason", "message")}
        own["last_transition_time"] = theirs.get("lastTransitionTime")
        if at is None:
            conditions.append(own)
        else:
            conditions[at] = own

    def _tick(self, key: PodKey, life: Life, now_ms: int) -> Json:
        spec, meta = life.document["spec"], life.document["metadata"]
        scale = self.world.scales.get(life.target, {})
        pods = [pod for at, pod in sorted(self.world.pods.items()) if at[0] == key[0]]
        life.controller.target = spec["scaleTargetRef"]
        tick: Json = {
            "now": format_time(now_ms * 1000),
            "spec_replicas": self.sizes.get(life.target, 0),
            "status_replicas": scale.get("status_replicas", 0),
            "pods": pods,
            "selector": scale.get("selector", ""),
            "scale_get_error": scale.get("error"),
            "set_min_replicas": spec["minReplicas"],
            "set_max_replicas": spec["maxReplicas"],
            "set_metrics": spec["metrics"],
            "set_behavior": spec.get("behavior"),
            "remove_behavior": "behavior" not in spec,
            "set_generation": meta["generation"],
        }
        chosen = self._selected(tick["selector"], life.controller, pods)
        tick["metrics"] = [self._answer(life, metric, chosen) for metric in spec["metrics"]]
        return tick

    def _selected(self, text: str, controller: Recorded, pods: list[Json]) -> set[str]:
        try:
            requirements = controller_selector(text, controller)
        except SelectorCheckError:
            return set()
        return {pod["name"] for pod in pods if matches(requirements, pod["labels"])}

    def _answer(self, life: Life, metric: Json, chosen: set[str]) -> Json:
        namespace = life.target.namespace
        if metric["type"] in ("Resource", "ContainerResource"):
            error = self.world.usage_error(namespace)
            if error:
                return {"metrics_error": error}
            usage = self.world.usage
            names = sorted(name for name in chosen if (namespace, name) in usage)
            return {"pod_metrics": {name: usage[namespace, name] for name in names}}
        alone = life.document | {"spec": life.document["spec"] | {"metrics": [metric]}}
        at = next(iter(custom_keys(alone)), None)
        if at is None:
            return {}
        answer = self.world.custom.get(at, {"metrics_error": "never asked"})
        if "pod_metrics" in answer:
            found = answer["pod_metrics"]
            return {"pod_metrics": {n: found[n] for n in sorted(chosen) if n in found}}
        return answer


def controller_selector(text: str, controller: Recorded) -> Any:
    """Parse a scale's selector as the controller's version does."""
    return convert_selector(text, controller.profile)
