"""Several HPAs of one namespace under one controller, through the package sync by sync.

The JSON form is described at the top of tests/reference/generate.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.conformance.drive import Drive
from tests.conformance.golden import HPALane, Json, decode, selector_text, to_flags, to_profile
from tests.conformance.selector_store import SelectorStore

RESTART, DELETE, CREATE, SYNC, GONE = "restart", "delete", "create", "sync", "gone"


class Step(NamedTuple):
    """One thing that happens: to whom, and the HPA's entry or the sync's record."""

    what: str
    name: str = ""
    data: Json = {}  # noqa: RUF012 - never written to


def steps_of(timeline: Json) -> Iterator[list[Step]]:
    """Yield what happens from tick to tick; first the HPAs that are there from the start."""
    existing: set[str] = set()
    for number, tick in enumerate([{"create": timeline["hpas"]}, *timeline["ticks"]]):
        steps = [Step(RESTART)] if tick.get("restart") else []
        steps += [Step(DELETE, name) for name in tick.get("delete") or ()]
        steps += [Step(CREATE, entry["name"], entry) for entry in tick.get("create") or ()]
        existing -= set(tick.get("delete") or ())
        existing |= {step.name for step in steps if step.what == CREATE}
        for record in tick.get("hpas", ()) if number else ():
            name = record["name"]
            if name not in existing:
                steps.append(Step(GONE, name))
                continue
            if record.get("deleted_during_sync"):
                steps.append(Step(DELETE, name))
                existing.discard(name)
            shared = {"now": tick["now"], "pods": tick["pods"]}
            steps.append(Step(SYNC, name, {**shared, **record}))
        yield steps


class Group:
    """The HPAs of a group timeline, each name a lane, and the controller's selector store."""

    def __init__(self, timeline: Json, k8s: str) -> None:
        self.profile = to_profile(k8s, timeline["flags"])
        self.plan = list(steps_of(timeline))
        lanes: dict[str, HPALane] = {}
        for step in (step for steps in self.plan for step in steps):
            if step.what == CREATE:
                lane = lanes.setdefault(step.name, HPALane(timeline, self.profile))
                lane.begin(step.data["hpa"], step.data["selector"])
            elif step.what == SYNC:
                lanes[step.name].add(step.data)
        self.lane_of = {name: h for h, name in enumerate(lanes)}
        self.drive = Drive(list(lanes.values()), to_flags(timeline["flags"]), self.profile)
        self.store = SelectorStore()
        self.existing: dict[str, Json] = {}

    def run(self) -> list[list[Json | None]]:
        """Do all syncs; per tick one result per record, None for one whose HPA is gone."""
        results = []
        for steps in self.plan:
            done = [self.take(step) for step in steps]
            kept = zip(steps, done, strict=True)
            results.append([result for step, result in kept if step.what in (SYNC, GONE)])
        return results[1:]

    def take(self, step: Step) -> Json | None:
        """Let one thing happen."""
        if step.what == RESTART:
            for lane in self.lane_of.values():
                self.drive.forget(lane)
            self.store = SelectorStore()
            for name in self.existing:
                self.store.register("default", name)
            return None
        h = self.lane_of[step.name]
        if step.what == DELETE:
            self.store.forget("default", step.name)
            self.gone_entry = self.existing.pop(step.name)
        elif step.what == CREATE:
            self.existing[step.name] = step.data
            self.store.register("default", step.name)
            self.drive.begin(h, decode(step.data["hpa"]))
        elif step.what == GONE:
            self.drive.forget(h)
        elif step.what == SYNC:
            entry = self.existing.get(step.name) or self.gone_entry
            text = selector_text(step.data, entry["selector"])
            self.drive.check_selector(h, self.store, text, step.data["pods"])
            return self.drive.sync(h, step.data.get("status_update_error") or "")
        return None


def decide_group(timeline: Json, k8s: str) -> list[list[Json | None]]:
    """Return the `expected` of a group timeline."""
    return Group(timeline, k8s).run()
