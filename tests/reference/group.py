"""Several HPAs of one namespace under one controller, over shared pods.

The JSON form of a group timeline is described at the top of ``generate.py``. Upstream:
``pkg/controller/podautoscaler/horizontal.go`` (``reconcileKey``, ``enqueueHPA``, ``deleteHPA``).
"""

from __future__ import annotations

from typing import Any

from .controller import Controller
from .normalize import Memory
from .profiles import Profile
from .selector_store import SelectorStore

Json = dict[str, Any]


class ControllerGroup:
    """The controller, the HPAs that exist, and its memory by name, which may outlive them."""

    def __init__(self, timeline: Json, k8s: str | Profile = "1.38") -> None:
        self.timeline = timeline
        self.k8s = k8s
        self.store = SelectorStore()
        self.hpas: dict[str, Controller] = {}
        self.memories: dict[str, Memory] = {}
        for entry in timeline["hpas"]:
            self.create(entry)

    def create(self, entry: Json) -> None:
        """Add an HPA; under a name that the controller still remembers it gets the old memory."""
        name = entry["name"]
        own = {**self.timeline, "hpa": entry["hpa"], "selector": entry["selector"]}
        controller = Controller(own, self.k8s, self.store)
        controller.name = name
        controller.memory = self.memories.setdefault(name, controller.memory)
        self.hpas[name] = controller
        self.store.register(controller.key)

    def delete(self, name: str) -> None:
        """Delete an HPA: its selector goes at once, its memory when a sync finds it gone."""
        controller = self.hpas.pop(name)
        self.store.remove(controller.key)

    def restart(self) -> None:
        """Start a fresh controller: no memory, and no HPA's selector is known."""
        self.memories = {name: Memory() for name in self.hpas}
        for name, controller in self.hpas.items():
            controller.memory = self.memories[name]
        self.store.forget_selectors()

    def tick(self, tick: Json) -> list[Json | None]:
        """Apply what happened before, then do the syncs in their order; null: a deleted HPA."""
        if tick.get("restart"):
            self.restart()
        for name in tick.get("delete") or []:
            self.delete(name)
        for entry in tick.get("create") or []:
            self.create(entry)
        shared = {"now": tick["now"], "pods": tick["pods"]}
        return [self.sync(record["name"], {**shared, **record}) for record in tick["hpas"]]

    def sync(self, name: str, tick: Json) -> Json | None:
        """Reconcile one HPA (``reconcileKey``)."""
        controller = self.hpas.get(name)
        if controller is None:
            self.memories.pop(name, None)
            return None
        if tick.get("deleted_during_sync"):
            self.delete(name)
        return controller.tick(tick)


def run_group(timeline: Json, k8s: str | Profile = "1.38") -> list[list[Json | None]]:
    """Replay a group timeline; per tick one result per sync, in the order of the records."""
    group = ControllerGroup(timeline, k8s)
    return [group.tick(tick) for tick in timeline["ticks"]]
