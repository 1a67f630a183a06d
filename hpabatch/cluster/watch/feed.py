"""Stream of a cluster's changes: HPAs, pods, and scales of the HPAs' targets.

Workloads are watched only where some HPA scales that kind. A scale comes from the watch of its kind
where there is one, otherwise from a request. Only the scales of targets are passed on.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from hpabatch.cluster.apis.discovery import (
    REFRESH_S,
    Discovery,
    bad_version,
    missing_scale,
    read_scale_from,
    target_key,
)
from hpabatch.cluster.connection.client import ApiClient, NeverBegunError, RequestPool
from hpabatch.cluster.objects.decoders import BUILT_IN
from hpabatch.cluster.objects.types import (
    Change,
    HpaObject,
    Inbox,
    Kind,
    PodKey,
    ScaleKey,
    ScaleObject,
)
from hpabatch.cluster.watch.watch import HPAS, PODS, Watcher, WatchState
from hpabatch.layout import codes

_States = Mapping[str, tuple[WatchState, ...]]


class Cut(NamedTuple):
    """Changes between two cuts, in order, and the time of the second."""

    changes: list[Change]
    now_ms: int


class Feed(ABC):
    """Changes of a cluster's HPAs, pods and scales. One thread calls it."""

    def __init__(
        self,
        inbox: Inbox,
        client: ApiClient,
        apis: Discovery,
        *,
        workers: int = 8,
        deadline_s: float = REFRESH_S,
    ) -> None:
        """Prepare; `start` begins.

        Args:
            client: sends requests for scales; several threads use it.
            deadline_s: time limit of all requests for scales of a pass.
        """
        self.watches: dict[str, Watcher] = {}
        self._inbox, self._client, self._apis = inbox, client, apis
        self._deadline_s = deadline_s
        self._pool: RequestPool[ScaleObject] = RequestPool(workers)
        self._pending: list[Change] = []
        self._targets: dict[PodKey, ScaleKey] = {}
        self._owners: dict[ScaleKey, int] = {}
        self._states: _States = {}  # at the last cut
        self._seen: dict[ScaleKey, ScaleObject] = {}  # from watches
        self._asked: dict[ScaleKey, ScaleObject] = {}  # from requests
        self._told: dict[ScaleKey, ScaleObject] = {}  # as last passed on

    @abstractmethod
    def _watch(self, group: str, resource: str) -> Watcher:
        """Return the watch of a group ("" the core group) and resource."""

    def start(self) -> None:
        """Start the watches of HPAs and pods."""
        self._begin("autoscaling", HPAS)
        self._begin("", PODS)

    def end(self) -> None:
        """End running requests soon; for any thread."""
        self._pool.end()

    def stop(self) -> None:
        """End all watches."""
        for watch in self.watches.values():
            watch.stop()

    def read_scales(self) -> int:
        """Request the scales that no watch covers; return how many. Never raises.

        A late scale has that as its error. A scale whose request was not sent in time keeps its
        state. They are requested in any order, so that none is always the last one.
        """
        listing = {name: watch.states for name, watch in self.watches.items()}
        keys = {
            key for key in self._owners
            if "/" not in key.group and not _covers(self._states, key, lambda one: one.synced)
            # (a watch that has begun will cover it)
            and not _covers(listing, key, lambda one: not one.synced and not one.is_hopeless)
        }  # fmt: skip
        ordered = random.sample(sorted(keys), len(keys))
        calls = [partial(read_scale_from, self._client, self._apis, key) for key in ordered]
        results = self._pool.run(calls, self._pool.now() + self._deadline_s)
        for key, result in zip(ordered, results, strict=True):
            if isinstance(result, NeverBegunError):
                continue
            if isinstance(result, BaseException):
                text = str(result) or type(result).__name__
                result = ScaleObject(key, error=text, code=codes.SCALE_GET_FAILED)
            self._asked[key] = result
        return len(ordered)

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
        for change in changes:
            if change.kind is Kind.hpa:
                self._follow((change.key[0], change.key[1]), change.thing)
        found = [change for change in changes if self._note(change)]
        # What follows from the states of the watches, and from requests, was known 1 ms before.
        for key in sorted(self._owners):
            scale = self._scale_of(key)
            if scale != self._told.get(key):
                found.append(Change(Kind.scale, key, scale, now_ms - 1))
                self._tell(key, scale)
        # Changes of scales without an HPA are not passed on, so no stale scale may be kept.
        for key in sorted(self._told.keys() - self._owners.keys()):
            found.append(Change(Kind.scale, key, None, now_ms - 1))
            self._tell(key, None)
        for key in self._asked.keys() - self._owners.keys():
            del self._asked[key]
        return Cut(found, now_ms)

    def _note(self, change: Change) -> bool:
        """Take a change; return whether it is passed on."""
        key = change.key
        if not isinstance(key, ScaleKey):
            return True
        scale = change.thing if isinstance(change.thing, ScaleObject) else None
        if scale is None:
            self._seen.pop(key, None)
        else:
            self._seen[key] = scale
            self._asked.pop(key, None)
        if key in self._owners:
            self._tell(key, scale)
        return key in self._owners

    def _tell(self, key: ScaleKey, scale: ScaleObject | None) -> None:
        if scale is None:
            self._told.pop(key, None)
        else:
            self._told[key] = scale

    def _scale_of(self, key: ScaleKey) -> ScaleObject | None:
        """Return a target's scale, None: it is not known yet."""
        seen = self._seen.get(key)
        if _covers(self._states, key, lambda one: one.synced):
            return seen or missing_scale(key)
        return self._asked.get(key) or bad_version(key) or seen

    def _follow(self, key: PodKey, thing: object) -> None:
        after = None
        if isinstance(thing, HpaObject) and not thing.problem:
            after = target_key(key[0], thing.hpa.spec.scale_target_ref)
        before = self._targets.pop(key, None)
        if after is not None:
            self._targets[key] = after
            self._owners[after] = self._owners.get(after, 0) + 1
            resource = BUILT_IN.get((after.group, after.kind))
            if resource is not None:
                self._begin(after.group, resource)
        if before is not None:
            self._owners[before] -= 1
            if not self._owners[before]:
                del self._owners[before]

    def _begin(self, group: str, resource: str) -> None:
        name = f"{resource}.{group}" if group else resource
        if name not in self.watches:
            self.watches[name] = self._watch(group, resource)
            self.watches[name].start()


def _covers(states: _States, key: ScaleKey, holds: Callable[[WatchState], bool]) -> bool:
    """Return whether a watch of a target's built-in kind, in its namespace, is in some state."""
    resource = BUILT_IN.get((key.group, key.kind))
    name = f"{resource}.{key.group}" if key.group else str(resource)
    return any(one.namespace in ("", key.namespace) and holds(one) for one in states.get(name, ()))
