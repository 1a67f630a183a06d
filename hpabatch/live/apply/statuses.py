"""Statuses and events of HPAs of the cluster, in upstream's words.

They have a thread and a rate budget of their own, so they never delay a scale. Of each HPA only the
newest status waits. Sources: horizontal.go, updateStatus; client-go, tools/record.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, NamedTuple, Protocol
from urllib.parse import quote

from hpabatch.cluster.connection.errors import ApiError, NotFound
from hpabatch.cluster.connection.writes import Json, WriteClient
from hpabatch.live.apply.budget import Budget
from hpabatch.live.apply.scales import TIMEOUT_S, Fence
from hpabatch.live.passes.lanes import LaneKey
from hpabatch.model.messages import COMPONENT, WARNING, Event
from hpabatch.model.objects.encode_status import encode_status
from hpabatch.model.objects.hpa import HPA, HPAStatus

_CONFLICT: Final = 409
_MOST_EVENTS: Final = 2000  # that wait; older ones are dropped
_MOST_KNOWN: Final = 4096  # events that are counted on
_SAME_S: Final = 600.0
_BURST, _REFILL_PER_S = 25, 1 / 300  # of one object's events, as upstream's
DRAIN_S: Final = 3.0


class StatusSink(Protocol):
    """Writer of statuses."""

    def put(self, key: LaneKey, document: HPA) -> None:
        """Write a status that changed."""

    def tell(self, document: HPA, events: Sequence[Event]) -> None:
        """Write events."""

    def forget(self) -> None:
        """Forget what was written: another process wrote since."""

    def last(self, keys: Collection[LaneKey]) -> Mapping[LaneKey, HPAStatus]:
        """Return what other processes wrote last of these HPAs, where no HPA itself tells it."""

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """Write what waits, for a few seconds, and end."""

    @property
    def problem(self) -> str:
        """Why writes fail now, "" if they do not."""


class _Status(NamedTuple):
    """The status of an HPA that waits."""

    key: LaneKey
    document: HPA


class _Told(NamedTuple):
    """An event that waits."""

    document: HPA
    event: Event


@dataclass(slots=True)
class _Series:
    """An event that was written: equal ones raise its count."""

    name: str
    count: int
    first: str
    at: float


@dataclass(slots=True)
class _Queue:
    """What waits, and what was dropped."""

    statuses: OrderedDict[LaneKey, _Status] = field(default_factory=OrderedDict)
    events: deque[_Told] = field(default_factory=lambda: deque(maxlen=_MOST_EVENTS))


class HpaStatuses:
    """Writer of statuses and events of the cluster's HPAs. Several threads may put."""

    def __init__(
        self, client: WriteClient, version: str, budget: Budget, fence: Fence,
        *, events: bool = True, clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        """Prepare; `start` begins.

        Args:
            client: sends the requests.
            version: of autoscaling, v2 or v2beta2.
            budget: of these requests.
            fence: is asked before each.
            events: whether events are written, too.
            clock: monotonic seconds.
        """
        self.problem = ""
        self.failed = self.written = 0
        self._client, self._version, self._budget = client, version, budget
        self._fence, self._events, self._clock = fence, events, clock
        self._queue = _Queue()
        self._series: OrderedDict[tuple[str, ...], _Series] = OrderedDict()
        self._spam: dict[str, Budget] = {}
        self._ready = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="statuses", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Write what waits, for a few seconds, and end."""
        with self._ready:
            self._stopped = True
            self._ready.notify()
        if self._thread.is_alive():
            self._thread.join(DRAIN_S + TIMEOUT_S)

    def forget(self) -> None:
        """Drop what waits."""
        with self._ready:
            self._queue.statuses.clear()
            self._queue.events.clear()

    def last(self, keys: Collection[LaneKey]) -> Mapping[LaneKey, HPAStatus]:
        """Return nothing: the HPAs themselves have their statuses."""
        return {}

    def put(self, key: LaneKey, document: HPA) -> None:
        """Write the status of an HPA; one of it that waits is replaced."""
        with self._ready:
            self._queue.statuses[key] = _Status(key, document)
            self._ready.notify()

    def tell(self, document: HPA, events: Sequence[Event]) -> None:
        """Write events about an HPA; of too many the oldest are dropped."""
        if not self._events:
            return
        with self._ready:
            self._queue.events.extend(_Told(document, event) for event in events)
            self._ready.notify()

    # ---- the thread

    def _run(self) -> None:
        until = float("inf")
        while True:
            with self._ready:
                while not self._waiting() and not self._stopped:
                    self._ready.wait()
                if self._stopped and until == float("inf"):
                    until = self._clock() + DRAIN_S
                if not self._waiting() or self._clock() >= until:
                    return
                queue = self._queue
                item = (
                    queue.statuses.popitem(last=False)[1] if queue.statuses
                    else queue.events.popleft()
                )  # fmt: skip
            time.sleep(min(self._budget.take(), max(until - self._clock(), 0.0)))
            try:
                self._write(item)
            except Exception as error:  # noqa: BLE001 - one invalid response must not end the thread
                self.problem = f"{type(error).__name__}: {error}"

    def _waiting(self) -> bool:
        return bool(self._queue.statuses or self._queue.events)

    def _write(self, item: _Status | _Told) -> None:
        try:
            if isinstance(item, _Status):
                self._put_status(item)
            else:
                self._post_event(item)
        except NotFound:
            return  # the HPA or its namespace is gone
        except ApiError as error:
            self.failed += 1
            if isinstance(item, _Status) and error.status == _CONFLICT:
                return  # the next pass writes on what is there then
            self.problem = error.text
            if isinstance(item, _Status):
                failed = Event(WARNING, "FailedUpdateStatus", error.text)
                self.tell(item.document, [failed])
            return
        self.written += 1
        self.problem = ""

    def _put_status(self, item: _Status) -> None:
        path = _hpa_path(self._version, item.key)
        found = self._client.read(path, TIMEOUT_S)
        if str((found.get("metadata") or {}).get("uid")) != item.document.uid:
            return  # another object by now
        if self._fence.refusal(TIMEOUT_S):
            return  # the next leader writes its own
        document = {**found, "status": encode_status(item.document.status)}
        self._client.write("PUT", f"{path}/status", document, TIMEOUT_S)

    def _post_event(self, item: _Told) -> None:
        hpa, event = item.document, item.event
        if self._fence.refusal(TIMEOUT_S):
            return
        if not self._spam.setdefault(hpa.uid, Budget(_REFILL_PER_S, _BURST)).try_take():
            return
        root = f"/api/v1/namespaces/{quote(hpa.namespace)}/events"
        same = (hpa.uid, event.type, event.reason, event.message)
        now, known = self._clock(), self._series.get(same)
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        if known is not None and now - known.at < _SAME_S:
            known.count, known.at = known.count + 1, now
            more = {"count": known.count, "lastTimestamp": stamp}
            try:
                self._client.write("PATCH", f"{root}/{known.name}", more, TIMEOUT_S)
                return
            except NotFound:
                pass
        name = f"{hpa.name}.{time.time_ns():x}"
        self._client.write("POST", root, _event(item, name, stamp, self._version), TIMEOUT_S)
        self._series[same] = _Series(name, 1, stamp, now)
        if len(self._series) > _MOST_KNOWN:
            self._series.popitem(last=False)
            self._spam.clear()


def _hpa_path(version: str, key: LaneKey) -> str:
    namespace, name = quote(key[0]), quote(key[1])
    root = f"/apis/autoscaling/{version}/namespaces/{namespace}"
    return f"{root}/horizontalpodautoscalers/{name}"


def _event(item: _Told, name: str, stamp: str, version: str) -> Json:
    hpa, event = item.document, item.event
    return {
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": name, "namespace": hpa.namespace},
        "involvedObject": {
            "kind": "HorizontalPodAutoscaler", "namespace": hpa.namespace, "name": hpa.name,
            "uid": hpa.uid, "apiVersion": f"autoscaling/{version}",
        },
        "type": event.type, "reason": event.reason, "message": event.message,
        "source": {"component": COMPONENT}, "firstTimestamp": stamp, "lastTimestamp": stamp,
        "count": 1,
    }  # fmt: skip
