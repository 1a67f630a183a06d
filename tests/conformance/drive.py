"""Syncs one by one, as a live controller makes them: what one sync comes to shows in the next.

For what a replay of recorded ticks has no use for: statuses that could not be written, and HPAs of
a namespace that look at each other's selectors.
"""

from __future__ import annotations

from hpabatch.engine.explain.status import LaneWords, StatusReader
from hpabatch.layout import codes
from hpabatch.layout.records import HEAD_CONDITIONS, HEAD_STATUS_CURRENT, HEAD_STATUS_DESIRED
from hpabatch.layout.results import STATUS_NEXT, empty_results
from hpabatch.model.objects.hpa import HPA, HPAStatus
from hpabatch.model.versions import ControllerFlags, Profile
from hpabatch.packing.memory import seed_status
from hpabatch.packing.status import empty_statuses, make_status_memory, seed_status_memory
from hpabatch.packing.texts import Texts
from hpabatch.rules.controller import controller_of
from hpabatch.rules.tick import restart_controller, wakes
from tests.compiled import replay_lane, status_lane
from tests.conformance.golden import HPALane, Json
from tests.conformance.results import status_fields, tick_result
from tests.conformance.selector_store import SelectorStore
from tests.packed import make_memory, pack_fleet

_CONDITIONS = slice(HEAD_CONDITIONS, HEAD_CONDITIONS + 4)
_STATUS_IN_HEAD = [
    HEAD_STATUS_CURRENT,
    HEAD_STATUS_DESIRED,
    *range(HEAD_CONDITIONS, HEAD_CONDITIONS + 4),
]


class Drive:
    """Lanes whose ticks are decided one after another, lanes in any order.

    `begin` every lane before its first tick.
    """

    def __init__(self, lanes: list[HPALane], flags: ControllerFlags, profile: Profile) -> None:
        self.profile, texts = profile, Texts()
        views = [lane.view() for lane in lanes]
        self.fleet = pack_fleet(views, flags, profile, texts)
        self.texts = texts
        self.memory = make_memory(self.fleet, recorded=False)
        self.results = empty_results(self.fleet.ticks.size, self.fleet.answers.size, details=True)
        self.statuses = empty_statuses(self.fleet.ticks.size)
        self.status_memory = make_status_memory(self.fleet)
        generations = [g for lane in lanes for g in lane.generations]
        self.status_memory.generations[:] = generations
        self.generations = dict(enumerate(generations))
        specs = [spec for view in views for spec in view.specs]
        self.reader = StatusReader(self.fleet, self.results, self.statuses, specs, texts, profile)
        self.next = [int(first) for first in self.fleet.lanes.first_tick]
        self.words = [LaneWords("") for _ in lanes]
        self.shown = [HPAStatus() for _ in lanes]

    def begin(self, h: int, hpa: HPA) -> None:
        """Begin with an HPA as it is created; the controller may remember an older one."""
        words = LaneWords(hpa.namespace or "default", hpa.status, hpa.name, self.generations)
        self.words[h], self.shown[h] = words, hpa.status
        # The first sync of an HPA that is created again forgets the old one's status by itself.
        t = self.next[h]
        if t == self.fleet.lanes.last_tick[h] or not self.fleet.ticks.recreated[t]:
            self.seed(h)

    def seed(self, h: int) -> None:
        """Begin with the status that the HPA has."""
        self.memory.head[h, _CONDITIONS] = codes.NO_CONDITION
        seed_status(self.memory, h, self.shown[h])
        self.status_memory.head[h] = make_status_memory(self.fleet).head[h]
        self.status_memory.head[h, STATUS_NEXT] = self.next[h]
        seed_status_memory(self.status_memory, h, self.shown[h])

    def forget(self, h: int) -> None:
        """Forget what the controller remembers of an HPA."""
        restart_controller(self.memory, h)

    def asks_metrics(self, h: int) -> bool:
        """Say whether the next sync comes to its metrics, before which the selector is checked."""
        tick = self.fleet.ticks[self.next[h]]
        if tick.scale not in (codes.SCALE_OK, codes.SCALE_UPDATE_FAILED):
            return False
        spec, current = self.fleet.specs[tick.spec], int(tick.replicas)
        if current == 0:
            return bool(wakes(self.memory.head[h], controller_of(self.fleet, h), spec))
        return bool(spec.min_replicas <= current <= spec.max_replicas)

    def check_selector(self, h: int, store: SelectorStore, text: str, pods: list[Json]) -> None:
        """Check the selector of the next sync against those of other HPAs, if it comes to that."""
        if not self.asks_metrics(h):
            return
        words, t = self.words[h], self.next[h]
        labels = [pod.get("labels") or {} for pod in pods]
        found = store.check(words.namespace, words.name, text, labels, self.profile)
        self.fleet.ticks.selector[t] = found.code
        self.fleet.ticks.selector_text[t] = self.texts.number(found.error)

    def sync(self, h: int, unwritten: str = "") -> Json:
        """Do the next sync of a lane; `unwritten`: why its status cannot be written."""
        t = self.next[h]
        self.next[h] += 1
        lane = self.fleet.lanes[h]
        streams = slice(int(lane.first_stream), int(lane.last_stream))
        head, status_head = self.memory.head[h], self.status_memory.head[h]
        shown_metrics = self.status_memory.shown[streams]
        before = head[_STATUS_IN_HEAD].copy(), status_head.copy(), shown_metrics.copy()
        replay_lane(self.fleet, self.memory, h, t, t + 1, False, self.results)
        status_lane(self.fleet, self.results, self.status_memory, h, t + 1, self.statuses)
        result = tick_result(self.reader, self.words[h], t, unwritten)
        if unwritten and result["status_written"]:
            head[_STATUS_IN_HEAD], status_head[:], shown_metrics[:] = before
            status_head[STATUS_NEXT] = self.next[h]
            if self.fleet.ticks.recreated[t]:
                self.seed(h)
            kept = status_fields(self.shown[h])
            return {**result, **kept, "last_scale_time_set": False}
        self.shown[h] = self.reader.status(self.words[h], t)
        return result
