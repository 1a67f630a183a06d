"""Watcher of all objects of a kind: list, watch, resume after any failure, changes into an inbox.

Nothing is lost between two watches: the next one resumes from the last resource version. Where
that is not possible, a list tells what changed meanwhile, as for the cluster's own controllers
(client-go tools/cache, Reflector). Of each object only uid and resource version are kept: they tell
what is new, what was deleted and created again, and, after a list, what vanished.

As those controllers, it has to be started again after etcd was restored from a backup or emptied: a
server accepts a watch from a version that it has not reached, and leaves out all changes until it
has (staging/src/k8s.io/apiserver/pkg/storage/cacher, cacheWatcher.process).
"""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import msgspec

from hpabatch.cluster.connection.client import LINE_BYTES, PAGE_OBJECTS, ApiClient, WatchStream
from hpabatch.cluster.connection.errors import (
    ApiError,
    Busy,
    Expired,
    InvalidResponse,
    Refused,
    Unreachable,
    error_of_event,
)
from hpabatch.cluster.objects.objects import UNREADABLE, Decoder, WireBytes
from hpabatch.cluster.objects.types import Inbox, PodKey, ScaleKey

_MOST_NAMED: Final = 1000
"""The most broken objects that are kept by name."""


class _Meta(msgspec.Struct, gc=False):
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None
    resourceVersion: str | None = None  # noqa: N815


class _Object(msgspec.Struct, gc=False):
    metadata: _Meta | None = None


class _Event(msgspec.Struct, gc=False):
    type: str | None = None
    object: msgspec.Raw = msgspec.Raw()


class _Seen(NamedTuple):
    """An object's last state; `key` None: it could not be decoded, and gave no change."""

    uid: str
    version: str
    key: PodKey | ScaleKey | None


_EVENT: Final = msgspec.json.Decoder(_Event)
_OBJECT: Final = msgspec.json.Decoder(_Object)


class Memory:
    """The known objects of one collection; turns lists and events into changes of an inbox.

    One thread uses it; `count`, `broken` and `events` may be read by others.

    Attributes:
        version: the resource version that a watch resumes from, "": a list is needed.
        broken: number of objects and events that could not be decoded.
    """

    def __init__(
        self,
        decoder: Decoder,
        inbox: Inbox,
        lock: threading.Lock | None = None,
        hide: Callable[[str], str] = str,
    ) -> None:
        """Begin with no objects.

        Args:
            inbox: takes the changes, of the decoder's kind.
            lock: held while the decoder works, where several memories share it.
            hide: removes secrets from the server's error messages.
        """
        self.version = ""
        self.events = 0
        self.broken = 0
        self._decoder = decoder
        self._put = inbox.put
        self._lock = lock or threading.Lock()
        self._hide = hide
        self._seen: dict[PodKey, _Seen] = {}
        self._listed: set[PodKey] = set()
        self._wrong: dict[str, str] = {}
        self._nameless: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._seen)

    @property
    def wrong(self) -> dict[str, str]:
        """Errors of objects that cannot be decoded now, by `namespace/name`; at most 1000.

        Objects without a readable name are those of the last list or its watch.
        """
        return {**self._nameless, **self._wrong}

    def begin_list(self) -> None:
        """Begin a list, possibly before another one ended."""
        self.version = ""
        self._listed = set()
        self._nameless = {}

    def add_page(self, items: Iterable[msgspec.Raw]) -> None:
        """Take a page of the list: new and changed objects become changes."""
        for item in items:
            meta = self._meta(item)
            if meta is not None:
                self._listed.add((meta.namespace or "", meta.name or ""))
                self._set(item, meta, listed=True)

    def end_list(self, version: str) -> None:
        """End the list: objects that it did not have become removals."""
        for name in [name for name in self._seen if name not in self._listed]:
            self._remove(name, listed=True)
        self._listed = set()
        self.version = version

    def event(self, line: bytes) -> None:
        """Take a line of a watch.

        Raises:
            ApiError: it is an error, or cannot be decoded: then an update is lost.
        """
        self.events += 1
        try:
            event = _EVENT.decode(line)
        except UNREADABLE as error:
            self.broken += 1
            raise InvalidResponse(f"an event cannot be read: {error}", 200) from None
        if event.type == "ERROR":
            raise error_of_event(event.object, hide=self._hide)
        if event.type not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK"):
            self._break("event", f"an event of the unknown type {event.type!r}")
            return
        meta = self._meta(event.object, nameless=event.type == "BOOKMARK")
        if meta is None:
            return
        if event.type == "DELETED":
            self._remove((meta.namespace or "", meta.name or ""), listed=False)
        elif event.type != "BOOKMARK":
            self._set(event.object, meta, listed=False)
        if meta.resourceVersion:
            self.version = meta.resourceVersion

    def _meta(self, item: WireBytes, nameless: bool = False) -> _Meta | None:
        try:
            meta = _OBJECT.decode(item).metadata
        except UNREADABLE as error:
            self._break("object", f"an object whose metadata cannot be read: {error}")
            return None
        if meta is None or not (meta.name or nameless):
            self._break("object", "an object without a name")
            return None
        return meta

    def _set(self, item: WireBytes, meta: _Meta, listed: bool) -> None:
        name = (meta.namespace or "", meta.name or "")
        uid, version = meta.uid or "", meta.resourceVersion or ""
        old = self._seen.get(name)
        if old is not None and old.uid != uid:
            self._remove(name, listed)
            old = None
        if old is not None and old.version == version != "":
            return
        try:
            with self._lock:
                found = self._decoder.decode(item)
        except Exception as error:  # noqa: BLE001 - one object must not end the whole watch
            self._break("/".join(name), str(error) or type(error).__name__)
            self._seen[name] = _Seen(uid, version, old.key if old is not None else None)
            return
        self._mend(name)
        self._put(self._decoder.kind, found.key, found.thing, listed)
        # Last, so that an object counts as unknown until its change was put.
        self._seen[found.key if found.key == name else name] = _Seen(uid, version, found.key)

    def _remove(self, name: PodKey, listed: bool) -> None:
        old = self._seen.get(name)
        if old is None:
            return
        if old.key is not None:
            self._put(self._decoder.kind, old.key, None, listed)
        del self._seen[name]
        self._mend(name)

    def _break(self, name: str, text: str) -> None:
        """Count an object, and keep its error; `name` has a "/" if the object has a name."""
        self.broken += 1
        known = self._wrong if "/" in name else self._nameless
        if name in known or len(known) < _MOST_NAMED:
            known[name] = self._hide(text)

    def _mend(self, name: PodKey) -> None:
        """Note that an object can be decoded, or is gone."""
        if self._wrong:
            self._wrong.pop("/".join(name), None)


_SHORT_S: Final = 1.0
_SETTLED_S: Final = 5.0
"""A watch of this duration has begun: earlier failures no longer count."""
_MOST_SHORT: Final = 3
"""More watches in a row that end at once are a failure, even if each had an event."""
_MOST_BUSY: Final = 3
"""After this many refusals to resume from a resource version, the collection is listed."""
_FAILED_OFTEN: Final = 3
"""Failed lists and watches after which workloads are no longer waited for."""
HPAS: Final = "horizontalpodautoscalers"
PODS: Final = "pods"
NEEDED: Final = (f"{HPAS}.autoscaling", PODS)
_QUERY: Final = re.compile(r'\?[^"\s]*(?=")')
"""The query of an address in an error: it differs at every attempt."""


@dataclass(frozen=True, slots=True)
class WatchLimits:
    """Durations and sizes of a watch.

    Attributes:
        shortest_s, longest_s: a watch is renewed after a random time between them.
        first_wait_s: approximate wait after an error; about twice as long after the next.
        longest_wait_s: the longest such wait.
        page_objects: of a list.
        line_bytes: the longest event.
    """

    shortest_s: int = 300
    longest_s: int = 600
    first_wait_s: float = 0.8
    longest_wait_s: float = 10.0
    page_objects: int = PAGE_OBJECTS
    line_bytes: int = LINE_BYTES


@dataclass(frozen=True, slots=True)
class WatchState:
    """State of a watch, or of several of one collection.

    Attributes:
        name: of the collection, e.g. pods or deployments.apps.
        namespace: "" for all.
        synced: everything was listed once.
        refused: it was never allowed to list.
        last_error: the current error, "" for none.
        relists: lists after the first.
        broken: objects and events that could not be decoded.
    """

    name: str
    namespace: str = ""
    synced: bool = False
    refused: bool = False
    last_error: str = ""
    objects: int = 0
    relists: int = 0
    failed: int = 0
    broken: int = 0

    @property
    def is_hopeless(self) -> bool:
        """Whether it is no longer waited for, where there is another way."""
        return self.refused or self.failed >= _FAILED_OFTEN

    @property
    def has_listed(self) -> bool:
        """Whether it need not be waited for.

        A watch of workloads that is forbidden, or fails repeatedly, counts as listed: their scales
        are requested one by one. Those of HPAs and pods are required.
        """
        return self.synced or (self.is_hopeless and self.name not in NEEDED)


class Collection(NamedTuple):
    """Objects of one resource: group ("" for the core group), version and plural name."""

    group: str
    version: str
    resource: str

    @property
    def label(self) -> str:
        """The name in messages and RBAC rules, e.g. `deployments.apps`."""
        return f"{self.resource}.{self.group}" if self.group else self.resource

    def path(self, namespace: str = "") -> str:
        """Return the API server's path of one namespace or of all."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        within = f"/namespaces/{namespace}" if namespace else ""
        return f"{root}{within}/{self.resource}"


class Watcher:
    """Lists and watches a collection, and puts changes into an inbox.

    It watches the whole cluster with one thread, or each of some namespaces; those that are
    forbidden do not hinder the others.
    """

    def __init__(
        self,
        client: ApiClient,
        inbox: Inbox,
        collection: Collection,
        decoder: Decoder,
        namespaces: Sequence[str] = (),
        limits: WatchLimits | None = None,
    ) -> None:
        """Prepare; `start` begins.

        Args:
            client: sends the requests; several watchers may share it.
            inbox: receives the changes, of the decoder's kind.
            decoder: decodes objects; several threads use it, one at a time.
            namespaces: only these; none: all.
            limits: None: the defaults.
        """
        decoding = threading.Lock()
        self._name = collection.label
        self._parts = [
            _Part(
                client, collection.path(namespace), Memory(decoder, inbox, decoding, client.hide),
                WatchState(collection.label, namespace), limits or WatchLimits(),
            )
            for namespace in dict.fromkeys(namespaces or [""])
        ]  # fmt: skip

    def start(self) -> None:
        """Start the threads; to be called once."""
        for part in self._parts:
            part.thread.start()

    def stop(self, wait_s: float = 1.0) -> bool:
        """End all watches, and wait for their threads; return whether they all ended.

        A thread whose server does not respond may take longer; it puts no more changes.
        """
        until = time.monotonic() + wait_s
        for part in self._parts:
            part.stop()
        for part in self._parts:
            if part.thread.is_alive():
                part.thread.join(max(0.0, until - time.monotonic()))
        return not any(part.thread.is_alive() for part in self._parts)

    @property
    def states(self) -> tuple[WatchState, ...]:
        """The states of its watches, by namespace ("": all)."""
        return tuple(part.state for part in self._parts)

    @property
    def state(self) -> WatchState:
        """The state as a whole: synced if all that is allowed was listed once.

        The error is that of the first watch that has one.
        """
        states = self.states
        if len(states) == 1:
            return states[0]
        return WatchState(
            self._name,
            synced=all(one.synced or one.refused for one in states)
            and any(one.synced for one in states),
            refused=all(one.refused for one in states),
            last_error=next((one.last_error for one in states if one.last_error), ""),
            objects=sum(one.objects for one in states),
            relists=sum(one.relists for one in states),
            failed=sum(one.failed for one in states),
            broken=sum(one.broken for one in states),
        )

    @property
    def wrong(self) -> dict[str, str]:
        """Errors of objects that cannot be decoded now, by `namespace/name`."""
        return {name: text for part in self._parts for name, text in part.memory.wrong.items()}


class _Part:
    """Watch of one namespace or of all, in a thread of its own; `state`, `stop`: for any thread."""

    def __init__(
        self, client: ApiClient, path: str, memory: Memory, state: WatchState, limits: WatchLimits
    ) -> None:
        """Prepare; `thread` is to be started."""
        name = f"watch {state.name} {state.namespace}"
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.memory = memory
        self._client = client
        self._path = path
        self._limits = limits
        self._state = state
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._stream: WatchStream | None = None
        self._failures = 0
        self._short = 0
        self._lists = 0

    @property
    def state(self) -> WatchState:
        """The current state."""
        memory, relists = self.memory, max(0, self._lists - 1)
        return replace(self._state, objects=len(memory), relists=relists, broken=memory.broken)

    def stop(self) -> None:
        """End the thread soon."""
        with self._lock:
            self._stopped.set()
            if self._stream is not None:
                self._stream.end()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                if not self.memory.version:
                    self._list()
                self._watch()
            except ApiError as error:
                if self._stopped.is_set():
                    return
                self._note(error)
                self._wait(error)
            except Exception as error:  # noqa: BLE001 - a bug must not silence a watch
                if self._stopped.is_set():
                    return
                self._note(InvalidResponse(f"{type(error).__name__}: {error}"))
                self.memory.begin_list()
                self._wait(None)

    def _list(self) -> None:
        version = ""
        for page in self._client.list_pages(self._path, chunk=self._limits.page_objects):
            if self._stopped.is_set():
                return
            if page.first:
                self.memory.begin_list()
            self.memory.add_page(page.items)
            version = page.resource_version
        if not version:
            raise InvalidResponse(f"{self._path}: the list has no resourceVersion", 200)
        self.memory.end_list(version)
        self._lists += 1
        if not self._state.synced:
            self._state = replace(self._state, synced=True, last_error="", refused=False)

    def _watch(self) -> None:
        """Watch until the server ends the watch, as it does every few minutes."""
        limits, memory = self._limits, self.memory
        stream = self._client.watch(
            self._path, memory.version, longest_line=limits.line_bytes,
            timeout_s=random.randint(limits.shortest_s, limits.longest_s),  # noqa: S311
        )  # fmt: skip
        with self._lock:
            if self._stopped.is_set():
                return
            self._stream = stream
        try:
            with stream:
                self._follow(stream)
        finally:
            with self._lock:
                self._stream = None

    def _follow(self, stream: WatchStream) -> None:
        """Take the events of a watch that has begun, until its end or a stop."""
        begun, events = time.monotonic(), self.memory.events
        self._state = replace(self._state, last_error="", refused=False)
        try:
            for line in stream:
                if self._stopped.is_set():
                    return
                self.memory.event(line)
                self._failures = 0
        finally:
            lasted_s = time.monotonic() - begun
            if lasted_s > _SETTLED_S:
                self._failures = 0
            self._short = self._short + 1 if lasted_s < _SHORT_S else 0
        if self.memory.events == events and self._short:
            raise Unreachable(f"{self._path}: the watch ended at once, without an event")
        if self._short > _MOST_SHORT:
            raise Unreachable(f"{self._path}: the watch ended at once, again and again")
        self._failures = 0

    def _note(self, error: ApiError) -> None:
        self._failures += 1
        state = self._state
        self._state = replace(
            state,
            refused=isinstance(error, Refused) and error.status == 403 and not state.synced,
            last_error=_QUERY.sub("", error.text),
            failed=state.failed + 1,
        )

    def _wait(self, error: ApiError | None) -> None:
        """Decide whether to list or to resume, and wait before that."""
        hopeless = isinstance(error, Busy) and self._failures >= _MOST_BUSY
        # A collection that may be listed, but not watched, is listed repeatedly, as in client-go.
        unwatched = isinstance(error, Refused) and error.status == 403 and self._state.synced
        if hopeless or unwatched or not isinstance(error, Unreachable | Busy | Refused):
            self.memory.begin_list()
        if isinstance(error, Expired) and self._failures == 1 and self._short <= _MOST_SHORT:
            return  # a list suffices, without a wait
        limits = self._limits
        wait_s = min(
            limits.first_wait_s * 2.0 ** min(self._failures - 1, 30), limits.longest_wait_s
        )
        # Random, so that watches that failed together do not retry together.
        wait_s *= random.uniform(0.5, 1.0)  # noqa: S311
        if isinstance(error, Busy) and error.retry_after is not None:
            wait_s = max(wait_s, min(error.retry_after, limits.longest_wait_s))
        self._stopped.wait(wait_s)
