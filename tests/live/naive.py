"""The same passes, decided the plain way: HPA by HPA, from the documents of a `World`.

Two twins: the naive reference controller, and the package's batch replay over everything that an
HPA has seen, packed object by object. Scale events are the changes that really happened.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

from hpabatch.cluster.objects.types import Change, Kind, PodKey, ScaleKey
from hpabatch.engine.shards.initial import take_zero
from hpabatch.kernels.replay import replay_newest
from hpabatch.layout import codes
from hpabatch.layout.records import CHANGE, Fleet, records
from hpabatch.layout.results import DECISION, DETAIL, METRIC_DECISION, Results, empty_results
from hpabatch.model.objects.hpa import HPAStatus
from hpabatch.model.versions import Profile as Rules
from hpabatch.packing.memory import seed_status
from hpabatch.packing.texts import Texts
from tests.conformance.golden import HPALane, to_flags, to_profile
from tests.live.cases import World
from tests.live.documents import Json, custom_keys, hpa_of, key_of_target
from tests.packed import TickView, make_memory, pack_fleet
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

    ambiguous = ""

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
        except SelectorCheckError as problem:
            if problem.reason == "AmbiguousSelector":
                self.ambiguous = problem.text
            raise
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

    `zero`: ScaledToZero as the cluster's own controller last had it; `taken`: by tick, what of it
    was taken over before.
    """

    document: Json
    controller: Recorded
    lane: HPALane
    seed: HPAStatus
    target: ScaleKey
    fresh: bool = True
    recreated: bool = False
    here: bool = True
    pending: list[Sized] = field(default_factory=list)
    changes: list[Sized] = field(default_factory=list)
    results: list[Json] = field(default_factory=list)
    zero: str = ""
    taken: dict[int, str] = field(default_factory=dict)


class Naive:
    """All HPAs of a world, pass by pass."""

    def __init__(self, world: World, k8s: str) -> None:
        self.world, self.k8s = world, k8s
        self.flags = FLAGS | {"hpa_scale_to_zero": world.zero}
        self.rules: Rules = to_profile(k8s, self.flags)
        self.lives: dict[PodKey, Life] = {}
        self.over: list[tuple[PodKey, Life]] = []
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
            lane = HPALane({}, self.rules)
            lane.begin(document)
            seed = hpa_of(document).status
            target = key_of_target(key[0], document)
            life = Life(document, self._begin(document), lane, seed, target)
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
        self.over.append((key, life))

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
        life.changes += life.pending
        life.pending = []
        self._take_zero(life)
        if life.recreated or life.fresh:
            memory = controller.memory
            life.controller = controller = self._begin(document)
            controller.memory = memory
            if life.recreated:
                controller.status = Status()
        tick = self._tick(key, life, now_ms)
        if life.recreated:
            life.lane.begin(document)
        elif life.fresh:
            life.lane = HPALane({}, self.rules)
            life.lane.begin(document)
            life.seed = hpa_of(document).status
        scale = self.world.scales.get(life.target, {"code": codes.SCALE_UNKNOWN})
        view = replace(
            life.lane.add(tick), scale=scale.get("code", 0), scale_error=scale.get("error", "")
        )
        controller.ambiguous = ""
        if life.target in self.world.scales:
            result = controller.tick(tick)
        else:
            controller.edit(tick)
            result = {"desired_replicas": controller.status.desired_replicas}
            result["status_current_replicas"] = controller.status.current_replicas
            result["rescaled"], result["unknown"] = False, True
            result["conditions"] = [dict(c) for c in controller.status.conditions]
        if controller.ambiguous:
            view = replace(
                view, selector=codes.SELECTOR_AMBIGUOUS, selector_error=controller.ambiguous
            )
        life.lane.ticks[-1] = view
        life.fresh = life.recreated = False
        result["status"] = controller.status
        life.results.append(result)
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
        life.taken[len(life.results)] = life.zero
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


@dataclass
class Replayed:
    """A life as the batch replay decides it."""

    fleet: Fleet
    results: Results
    texts: Texts
    views: list[TickView]

    def metric_rows(self, t: int) -> list[Json]:
        """Return what each metric of the spec in force said at tick t."""
        spec = self.fleet.specs[self.fleet.ticks[t].spec]
        found = []
        for m in range(spec.first_metric, spec.last_metric):
            row = t + int(self.fleet.streams[self.fleet.metrics[m].stream].answer_offset)
            found.append(metric_row(self.results, row, self.texts))
        return found


def metric_row(results: Results, row: int, texts: Texts) -> Json:
    """Return one METRIC_DECISION and its DETAIL, texts as such."""
    said, detail = results.metrics[row], results.details[row]
    found: Json = {name: said[name].item() for name in METRIC_DECISION.names or ()}
    found["ratio"] = "nan" if found["ratio"] != found["ratio"] else found["ratio"]
    found |= {name: detail[name].item() for name in DETAIL.names or () if name != "text"}
    if found["code"] == codes.METRIC_NOT_COMPUTED:
        return {"code": codes.METRIC_NOT_COMPUTED}
    return found | {"text": texts[int(detail["text"])]}


def replay(life: Life, naive: Naive) -> Replayed:
    """Replay all ticks of a life in one call."""
    texts = Texts()
    fleet = pack_fleet([life.lane.view()], to_flags(naive.flags), naive.rules, texts)
    fleet.lanes.last_change[:] = len(life.changes)
    fleet = fleet._replace(changes=records(CHANGE, life.changes))
    memory = make_memory(fleet, recorded=True)
    seed_status(memory, 0, life.seed)
    results = empty_results(fleet.ticks.size, fleet.answers.size, details=True)
    # As one call; but what was taken over from the cluster lies between its ticks.
    for t in range(fleet.ticks.size):
        if t in life.taken:
            take_zero(memory.head[0], life.taken[t])
        fleet.lanes.last_tick[:] = t + 1
        replay_newest(fleet, memory, True, results)
    return Replayed(fleet, results, texts, list(life.lane.ticks))


def decision_row(row: Any) -> dict[str, int]:
    """Return a DECISION as plain numbers."""
    return {name: int(row[name]) for name in DECISION.names or ()}
