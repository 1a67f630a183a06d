"""One watch of one collection, in a thread of its own: list, watch, resume after any failure.

Nothing is lost between two watches: the next one resumes from the last resource version. Where
that is not possible, a list tells what changed meanwhile, as for the cluster's own controllers
(client-go tools/cache, Reflector).

After a failure the storage may be another: etcd restored from a backup, or emptied, counts from a
lower version. A server accepts a watch from a version that it has not reached, and leaves out all
changes until it has (staging/src/k8s.io/apiserver/pkg/storage/cacher, cacheWatcher.process). So a
resumed watch is preceded by a list of one object.
"""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from hpabatch.cluster.connection.client import PAGE_OBJECTS, ApiClient
from hpabatch.cluster.connection.errors import (
    ApiError,
    Busy,
    Expired,
    InvalidResponse,
    Refused,
    Unreachable,
)
from hpabatch.cluster.connection.stream import LINE_BYTES, WatchStream
from hpabatch.cluster.objects.inbox import clock_ms
from hpabatch.cluster.objects.types import Kind
from hpabatch.cluster.watch.memory import Memory

_SHORT_S: Final = 1.0
_SETTLED_S: Final = 5.0
"""A watch of this duration has begun: earlier failures no longer count."""
_MOST_SHORT: Final = 3
"""More watches in a row that end at once are a failure, even if each had an event."""
_MOST_BUSY: Final = 3
"""After this many refusals to resume from a resource version, the collection is listed."""
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
    longest_wait_s: float = 30.0
    page_objects: int = PAGE_OBJECTS
    line_bytes: int = LINE_BYTES


@dataclass(frozen=True, slots=True)
class WatchState:
    """State of a watch.

    Attributes:
        kind: of its changes.
        resource: e.g. pods or deployments.apps.
        namespace: "" for all.
        synced: everything was listed once.
        refused: it was never allowed to list.
        last_error: the current error, "" for none.
        since_ms: time of the last change of `synced` and `last_error` (UTC ms).
        objects: number of known objects.
        relists: lists after the first.
        events: of watches.
        failed: failed lists and watches.
        broken: objects and events that could not be decoded.
    """

    kind: Kind
    resource: str
    namespace: str = ""
    synced: bool = False
    refused: bool = False
    last_error: str = ""
    since_ms: int = 0
    objects: int = 0
    relists: int = 0
    events: int = 0
    failed: int = 0
    broken: int = 0


class Part:
    """Watch of one collection; `run` is the thread's. `state` and `stop` are for any thread."""

    def __init__(
        self,
        client: ApiClient,
        path: str,
        memory: Memory,
        state: WatchState,
        limits: WatchLimits,
        tell: Callable[[str], None],
        may_give_up: bool = False,
        clock: Callable[[], int] = clock_ms,
    ) -> None:
        """Prepare.

        Args:
            client: sends the requests.
            path: of the collection.
            memory: turns objects into changes.
            state: the initial state.
            limits: durations and sizes.
            tell: is called with a message when an error begins, changes or ends.
            may_give_up: `run` ends when the first list is forbidden.
            clock: UTC ms, for the state.
        """
        self._client = client
        self._path = path
        self._memory = memory
        self._limits = limits
        self._tell = tell
        self._may_give_up = may_give_up
        self._clock = clock
        self._state = replace(state, since_ms=clock())
        self._stopped = threading.Event()
        self._wake = threading.Event()
        self._hurries = False
        self._lock = threading.Lock()
        self._stream: WatchStream | None = None
        self._failures = 0
        self._short = 0
        self._lists = 0
        self._failed = False  # since the storage was last known to be the same

    @property
    def state(self) -> WatchState:
        """The current state."""
        memory = self._memory
        return replace(
            self._state, objects=len(memory), relists=max(0, self._lists - 1),
            events=memory.events, broken=memory.broken,
        )  # fmt: skip

    @property
    def broken(self) -> dict[str, str]:
        """Errors of objects that cannot be decoded now, by name."""
        return self._memory.wrong

    def hurry(self) -> None:
        """End the wait for an unreachable server: it was reached."""
        if self._hurries:
            self._wake.set()

    def stop(self) -> None:
        """End `run` soon."""
        with self._lock:
            self._stopped.set()
            self._wake.set()
            if self._stream is not None:
                self._stream.end()

    def run(self) -> None:
        """List and watch until `stop`."""
        while not self._stopped.is_set():
            try:
                if self._failed and self._memory.version:
                    self._check_storage()
                if not self._memory.version:
                    self._list()
                self._failed = False
                self._watch()
            except ApiError as error:
                if self._stopped.is_set():
                    return
                self._note(error)
                if self._state.refused and self._may_give_up:
                    return
                self._wait(error)
            except Exception as error:  # noqa: BLE001 - a bug must not silence a watch
                if self._stopped.is_set():
                    return
                self._note(InvalidResponse(f"{type(error).__name__}: {error}"))
                self._memory.begin_list()
                self._wait(None)

    def _check_storage(self) -> None:
        """Let a list follow where the API server's storage is another than before a failure."""
        first = next(self._client.list_pages(self._path, chunk=1))
        if not self._memory.is_of_same_storage(first.items, first.resource_version):
            self._memory.begin_list()

    def _list(self) -> None:
        version = ""
        for page in self._client.list_pages(self._path, chunk=self._limits.page_objects):
            if self._stopped.is_set():
                return
            if page.first:
                self._memory.begin_list()
            self._memory.add_page(page.items)
            version = page.resource_version
        if not version:
            raise InvalidResponse(f"{self._path}: the list has no resourceVersion", 200)
        self._memory.end_list(version)
        self._lists += 1
        if not self._state.synced:
            self._fine()
            self._state = replace(self._state, synced=True, since_ms=self._clock())

    def _watch(self) -> None:
        """Watch until the server ends the watch, as it does every few minutes."""
        limits, memory = self._limits, self._memory
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
        begun, events = time.monotonic(), self._memory.events
        self._fine()
        try:
            for line in stream:
                if self._stopped.is_set():
                    return
                self._memory.event(line)
                self._failures = 0
        finally:
            lasted_s = time.monotonic() - begun
            if lasted_s > _SETTLED_S:
                self._failures = 0
            self._short = self._short + 1 if lasted_s < _SHORT_S else 0
        if self._memory.events == events and self._short:
            raise Unreachable(f"{self._path}: the watch ended at once, without an event")
        if self._short > _MOST_SHORT:
            raise Unreachable(f"{self._path}: the watch ended at once, again and again")
        self._failures = 0

    def _fine(self) -> None:
        state = self._state
        if state.last_error:
            self._state = replace(state, last_error="", refused=False, since_ms=self._clock())
            self._tell(f"{self._name}: goes on")

    def _note(self, error: ApiError) -> None:
        self._failures += 1
        self._failed = True
        state, text = self._state, _QUERY.sub("", error.text)
        refused = isinstance(error, Refused) and error.status == 403 and not state.synced
        changed = state.last_error != text or state.refused != refused
        since_ms = self._clock() if changed else state.since_ms
        self._state = replace(
            state, refused=refused, last_error=text, since_ms=since_ms, failed=state.failed + 1
        )
        if changed:
            self._tell(f"{self._name}: {text}")

    def _wait(self, error: ApiError | None) -> None:
        """Decide whether to list or to resume, and wait before that."""
        hopeless = isinstance(error, Busy) and self._failures >= _MOST_BUSY
        # A collection that may be listed, but not watched, is listed repeatedly, as in client-go.
        unwatched = isinstance(error, Refused) and error.status == 403 and self._state.synced
        if hopeless or unwatched or not isinstance(error, Unreachable | Busy | Refused):
            self._memory.begin_list()
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
        self._hurries = isinstance(error, Unreachable)
        self._wake.wait(wait_s)
        self._hurries = False
        if not self._stopped.is_set():
            self._wake.clear()

    @property
    def _name(self) -> str:
        state = self._state
        return f"{state.resource} in {state.namespace}" if state.namespace else state.resource
