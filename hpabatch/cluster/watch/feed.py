"""Stream of a cluster's changes: HPAs, pods, and scales of the HPAs' targets.

Workloads are watched only where some HPA scales that kind, and only the scales of targets are
passed on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hpabatch.cluster.apis.scales import ScaleBook, target_key
from hpabatch.cluster.objects.decoders import BUILT_IN
from hpabatch.cluster.objects.types import Change, HpaObject, Inbox, Kind, PodKey, ScaleKey
from hpabatch.cluster.watch.watch import HPAS, PODS, Watcher, WatchState


class Cut(NamedTuple):
    """Changes between two cuts, in order, and the time of the second."""

    changes: list[Change]
    now_ms: int


class Feed:
    """Changes of a cluster's HPAs, pods and scales. One thread calls it."""

    def __init__(
        self,
        inbox: Inbox,
        scales: Callable[[Callable[[ScaleKey], bool]], ScaleBook],
        watch: Callable[[str, str], Watcher],
    ) -> None:
        """Prepare; `start` begins.

        Args:
            scales: makes the book of scales, given which of them a watch covers.
            watch: makes the watch of a group ("" the core group) and resource.
        """
        self.watches: dict[str, Watcher] = {}
        self._inbox = inbox
        self._watch = watch
        self._scales = scales(self._shows)
        self._pending: list[Change] = []
        self._targets: dict[PodKey, ScaleKey] = {}
        self._owners: dict[ScaleKey, int] = {}
        self._states: dict[str, tuple[WatchState, ...]] = {}

    def start(self) -> None:
        """Start the watches of HPAs and pods."""
        self._begin("autoscaling", HPAS)
        self._begin("", PODS)

    def end(self) -> None:
        """End a running reading of scales soon; for any thread."""
        self._scales.end()

    def stop(self) -> None:
        """End all watches."""
        for watch in self.watches.values():
            watch.stop()
        self._scales.close()

    def read_scales(self) -> int:
        """Request the scales that no watch covers; return how many."""
        return self._scales.refresh([key for key in self._owners if not self._is_listing(key)])

    def learn(self) -> None:
        """Take in waiting changes, to learn which kinds have to be watched."""
        self._pending += self._cut().changes

    def cut(self) -> Cut:
        """Return the changes since the last cut."""
        found = self._cut()
        pending, self._pending = self._pending, []
        return Cut([*pending, *found.changes], found.now_ms)

    def _cut(self) -> Cut:
        # Before the cut: a list that ends meanwhile puts changes of the next cut.
        self._states = {name: watch.states for name, watch in self.watches.items()}
        changes, now_ms = self._inbox.cut()
        had = set(self._owners)
        fresh: set[ScaleKey] = set()
        for change in changes:
            if change.kind is Kind.hpa:
                self._follow((change.key[0], change.key[1]), change.thing, fresh)
        known = {key: self._scales.scale_of(key) for key in fresh}
        settled = self._scales.settle(changes, self._owners, now_ms)
        told = [c for c in settled if c.kind is not Kind.scale or c.key in self._owners]
        said = {c.key for c in told if c.kind is Kind.scale}
        for key in sorted(fresh):
            scale = known[key]
            if scale is not None and key not in said and key in self._owners:
                told.append(Change(Kind.scale, key, scale, now_ms - 1, listed=True))
        # Changes of scales without an HPA are not passed on, so no stale scale may be kept.
        left = sorted(had - self._owners.keys())
        told += [Change(Kind.scale, key, None, now_ms - 1) for key in left]
        return Cut(told, now_ms)

    def _follow(self, key: PodKey, thing: object, fresh: set[ScaleKey]) -> None:
        after = None
        if isinstance(thing, HpaObject) and not thing.problem:
            after = target_key(key[0], thing.hpa.spec.scale_target_ref)
        before = self._targets.get(key)
        if before == after:
            return
        if before is not None:
            del self._targets[key]
            self._owners[before] -= 1
            if not self._owners[before]:
                del self._owners[before]
        if after is not None:
            self._targets[key] = after
            if after not in self._owners:
                fresh.add(after)
            self._owners[after] = self._owners.get(after, 0) + 1
            resource = BUILT_IN.get((after.group, after.kind))
            if resource is not None:
                self._begin(after.group, resource)

    def _begin(self, group: str, resource: str) -> None:
        name = f"{resource}.{group}" if group else resource
        if name not in self.watches:
            self.watches[name] = self._watch(group, resource)
            self.watches[name].start()

    def _is_listing(self, key: ScaleKey) -> bool:
        """Whether a started watch will cover the scale once it has listed."""
        watch = self.watches.get(_name_of(key))
        return watch is not None and any(
            not one.synced and not one.is_hopeless and one.namespace in ("", key.namespace)
            for one in watch.states
        )

    def _shows(self, key: ScaleKey) -> bool:
        """Whether a watch covered the scale of a built-in kind at the last cut."""
        return any(
            one.synced and one.namespace in ("", key.namespace)
            for one in self._states.get(_name_of(key), ())
        )


def _name_of(key: ScaleKey) -> str:
    """Return the name of the watch of a built-in kind, "" of another kind."""
    resource = BUILT_IN.get((key.group, key.kind))
    if resource is None:
        return ""
    return f"{resource}.{key.group}" if key.group else resource
