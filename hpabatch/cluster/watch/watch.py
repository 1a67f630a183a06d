"""Watcher of all objects of a kind: threads that put changes into an inbox."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from hpabatch.cluster.connection.client import ApiClient
from hpabatch.cluster.objects.inbox import Inbox, clock_ms
from hpabatch.cluster.objects.objects import Decoder
from hpabatch.cluster.objects.types import Kind
from hpabatch.cluster.watch.memory import Memory
from hpabatch.cluster.watch.part import Part, WatchLimits, WatchState

__all__ = ["Collection", "WatchLimits", "WatchState", "Watcher"]


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


@dataclass(slots=True)
class _Running:
    part: Part
    thread: threading.Thread


class Watcher:
    """Lists and watches a collection, and puts changes into an inbox.

    It lists the whole cluster. Where that is forbidden and namespaces are given, it lists each of
    these in a thread of its own, and continues with those that are allowed.
    """

    def __init__(
        self,
        client: ApiClient,
        inbox: Inbox,
        collection: Collection,
        decoder: Decoder,
        *,
        namespaces: Sequence[str] = (),
        everywhere: bool = True,
        tell: Callable[[str], None] | None = None,
        limits: WatchLimits | None = None,
        clock: Callable[[], int] = clock_ms,
    ) -> None:
        """Prepare; `start` begins.

        Args:
            client: sends the requests; several watchers may share it.
            inbox: receives the changes, of the decoder's kind.
            collection: the watched collection.
            decoder: decodes objects; several threads use it, one at a time.
            namespaces: watched where the whole cluster is not.
            everywhere: the whole cluster is tried first.
            tell: is called with messages about errors and recoveries, from any thread.
            limits: None: the defaults.
            clock: UTC ms, for the state.

        Raises:
            ValueError: neither everywhere nor a namespace.
        """
        if not everywhere and not namespaces:
            raise ValueError("a watcher needs a namespace, or to watch everywhere")
        self._client = client
        self._inbox = inbox
        self._collection = collection
        self._decoder = decoder
        self._namespaces = tuple(dict.fromkeys(namespaces))
        self._everywhere = everywhere
        self._tell = tell or _say_nothing
        self._limits = limits or WatchLimits()
        self._clock = clock
        self._decoding = threading.Lock()
        self._lock = threading.Lock()
        self._stopped = False
        self._running: list[_Running] = []

    @property
    def kind(self) -> Kind:
        """The kind of the changes."""
        return self._decoder.kind

    def start(self) -> None:
        """Start the threads; to be called once."""
        self._begin([""] if self._everywhere else self._namespaces)

    def stop(self, wait_s: float = 1.0) -> bool:
        """End all watches, and wait for their threads; return whether they all ended.

        A thread whose server does not respond may take longer; it puts no more changes.
        """
        until = time.monotonic() + wait_s
        with self._lock:
            self._stopped = True
            running = list(self._running)
        for one in running:
            one.part.stop()
        for one in running:
            if one.thread.ident is not None:
                one.thread.join(max(0.0, until - time.monotonic()))
        return not any(one.thread.is_alive() for one in running)

    @property
    def states(self) -> tuple[WatchState, ...]:
        """The states of its watches, by namespace."""
        with self._lock:
            running = list(self._running)
        return tuple(one.part.state for one in running)

    @property
    def state(self) -> WatchState:
        """The state as a whole: synced if all that is allowed was listed once.

        The error is that of the first watch that has one, `since_ms` the latest.
        """
        states = self.states
        if len(states) == 1:
            return states[0]
        whole = WatchState(self.kind, self._collection.label)
        if not states:
            return whole
        return replace(
            whole,
            synced=all(one.synced or one.refused for one in states)
            and any(one.synced for one in states),
            refused=all(one.refused for one in states),
            last_error=next((one.last_error for one in states if one.last_error), ""),
            since_ms=max(one.since_ms for one in states),
            objects=sum(one.objects for one in states),
            relists=sum(one.relists for one in states),
            events=sum(one.events for one in states),
            failed=sum(one.failed for one in states),
            broken=sum(one.broken for one in states),
        )

    @property
    def wrong(self) -> dict[str, str]:
        """Errors of objects that cannot be decoded now, by `namespace/name`."""
        with self._lock:
            running = list(self._running)
        return {name: text for one in running for name, text in one.part.broken.items()}

    def hurry(self) -> None:
        """Retry at once where the server was unreachable: it was reached."""
        with self._lock:
            running = list(self._running)
        for one in running:
            one.part.hurry()

    def _begin(self, namespaces: Sequence[str]) -> None:
        made = [self._make(namespace) for namespace in namespaces]
        with self._lock:
            if self._stopped:
                return
            self._running = made
            for one in made:
                one.thread.start()

    def _make(self, namespace: str) -> _Running:
        label = self._collection.label
        name = f"{label} in {namespace}" if namespace else label
        memory = Memory(
            self.kind, self._decoder, self._inbox, lambda text: self._tell(f"{name}: {text}"),
            self._decoding, self._client.hide,
        )  # fmt: skip
        part = Part(
            self._client, self._collection.path(namespace), memory,
            WatchState(self.kind, label, namespace), self._limits, self._tell,
            may_give_up=not namespace and bool(self._namespaces), clock=self._clock,
        )  # fmt: skip
        thread = threading.Thread(
            target=self._run, args=(part, namespace), name=f"watch {name}", daemon=True
        )
        return _Running(part, thread)

    def _run(self, part: Part, namespace: str) -> None:
        part.run()
        if not namespace and part.state.refused:
            self._begin(self._namespaces)


def _say_nothing(text: str) -> None:
    """Ignore a message."""
