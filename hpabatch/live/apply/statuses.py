"""Statuses and events of HPAs of the cluster, in upstream's words.

They have a thread and a rate budget of their own, so they never delay a scale. Of each HPA only the
newest status waits. Sources: horizontal.go, updateStatus; client-go, tools/record.
"""

from __future__ import annotations

import random
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from hpabatch.cluster.connection.errors import ApiError, Busy, NotFound, Unreachable
from hpabatch.cluster.connection.writes import Budget, Json, WriteClient
from hpabatch.live.apply.scales import TIMEOUT_S, Fence
from hpabatch.live.passes.lanes import LaneKey
from hpabatch.model.messages import COMPONENT, WARNING, Event
from hpabatch.model.objects.encode import encode_status
from hpabatch.model.objects.hpa import HPA, HPAStatus

_CONFLICT: Final = 409
_MOST_EVENTS: Final = 2000  # that wait; older ones are dropped
_MOST_KNOWN: Final = 4096  # objects whose events are limited
_BURST, _REFILL_PER_S = 25, 1 / 300  # of one object's events, as upstream's
DRAIN_S: Final = 3.0
_LEAST_WAIT_S, _MOST_WAIT_S = 0.5, 30.0  # after failures of the server


_Item = tuple[HPA, Event | None]
"""An HPA whose event waits, None: whose status does."""


class HpaStatuses:
    """Writer of statuses and events of the cluster's HPAs. Several threads may put."""

    def __init__(
        self, client: WriteClient, version: str, budget: Budget, fence: Fence,
        *, clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        """Prepare; `start` begins."""
        self.problem = ""
        self._wait_s = 0.0  # before the next request, after failures
        self._client, self._version, self._budget = client, version, budget
        self._fence, self._clock = fence, clock
        self._statuses: OrderedDict[LaneKey, HPA] = OrderedDict()  # that wait
        self._events: deque[tuple[HPA, Event]] = deque(maxlen=_MOST_EVENTS)
        self._spam: OrderedDict[str, Budget] = OrderedDict()
        self._is_events_turn = False
        self._until = float("inf")
        self._ready = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="statuses", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> bool:
        """Write what waits, for a few seconds, and end; return whether no request is on its way."""
        with self._ready:
            self._stopped = True
            self._ready.notify()
        if self._thread.is_alive():
            # Its last item, begun as the time for the rest was over, may take two requests.
            self._thread.join(DRAIN_S + 2 * TIMEOUT_S)
        return not self._thread.is_alive()

    def forget(self) -> None:
        """Drop what waits."""
        with self._ready:
            self._statuses.clear()
            self._events.clear()

    def put(self, key: LaneKey, document: HPA) -> None:
        """Write the status of an HPA; one of it that waits is replaced."""
        with self._ready:
            self._statuses[key] = document
            self._ready.notify()

    def tell(self, document: HPA, events: Sequence[Event]) -> None:
        """Write events about an HPA; of too many the oldest are dropped."""
        with self._ready:
            self._events.extend((document, event) for event in events)
            self._ready.notify()

    # ---- the thread

    def _run(self) -> None:
        while True:
            with self._ready:
                while not self._waiting() and not self._stopped:
                    self._ready.wait()
                if self._stopped and self._until == float("inf"):
                    self._until = self._clock() + DRAIN_S
                if not self._waiting() or self._clock() >= self._until:
                    return
                item = self._next()
            self._pause()
            try:
                self._write(*item)
            except Exception as error:  # noqa: BLE001 - one invalid response must not end the thread
                self.problem = f"{type(error).__name__}: {error}"
            with self._ready:
                wait_s = self._wait_s * random.uniform(0.5, 1)  # noqa: S311
                self._ready.wait_for(lambda: self._stopped, wait_s)

    def _next(self) -> _Item:
        """Return the next item: statuses and events in turn, so neither starves."""
        takes_event = bool(self._events) and (self._is_events_turn or not self._statuses)
        self._is_events_turn = not takes_event
        return (
            self._events.popleft() if takes_event else (self._statuses.popitem(last=False)[1], None)
        )

    def _pause(self) -> None:
        """Wait for the budget of one request, but not beyond the end."""
        time.sleep(min(self._budget.take(), max(self._until - self._clock(), 0.0)))

    def _waiting(self) -> bool:
        return bool(self._statuses or self._events)

    def _write(self, hpa: HPA, event: Event | None) -> None:
        try:
            if event is None:
                self._put_status(hpa)
            else:
                self._post_event(hpa, event)
        except NotFound:
            return  # the HPA or its namespace is gone
        except ApiError as error:
            if event is None and error.status == _CONFLICT:
                return  # the next pass writes on what is there then
            self.problem = error.text
            if isinstance(error, Unreachable | Busy):
                self._wait_s = min(max(2 * self._wait_s, _LEAST_WAIT_S), _MOST_WAIT_S)
            if event is None:
                self.tell(hpa, [Event(WARNING, "FailedUpdateStatus", error.text)])
            return
        self.problem, self._wait_s = "", 0.0

    def _put_status(self, hpa: HPA) -> None:
        root = f"/apis/autoscaling/{self._version}/namespaces/{quote(hpa.namespace)}"
        path = f"{root}/horizontalpodautoscalers/{quote(hpa.name)}"
        found = self._client.read(path, TIMEOUT_S)
        if str((found.get("metadata") or {}).get("uid")) != hpa.uid:
            return  # another object by now
        self._pause()
        if self._fence.refusal(TIMEOUT_S):
            return  # the next leader writes its own
        document = {**found, "status": encode_status(hpa.status)}
        self._client.write("PUT", f"{path}/status", document, TIMEOUT_S)

    def _post_event(self, hpa: HPA, event: Event) -> None:
        if self._fence.refusal(TIMEOUT_S) or not self._may_tell(hpa.uid):
            return
        root = f"/api/v1/namespaces/{quote(hpa.namespace)}/events"
        self._client.write("POST", root, _event(hpa, event, self._version), TIMEOUT_S)

    def _may_tell(self, uid: str) -> bool:
        """Return whether an object may have another event; known are those that had one last."""
        budget = self._spam.setdefault(uid, Budget(_REFILL_PER_S, _BURST, self._clock))
        self._spam.move_to_end(uid)
        if len(self._spam) > _MOST_KNOWN:
            self._spam.popitem(last=False)
        return budget.try_take()


def _event(hpa: HPA, event: Event, version: str) -> Json:
    name, stamp = f"{hpa.name}.{time.time_ns():x}", datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
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


def as_stored_status(document: HPA) -> HPA:
    """Return an HPA with its status as a server stores it: times have no fraction of a second."""
    status = document.status
    conditions = tuple(
        replace(c, last_transition_time=_whole_seconds(c.last_transition_time))
        for c in status.conditions
    )
    last = _whole_seconds(status.last_scale_time)
    return replace(document, status=replace(status, conditions=conditions, last_scale_time=last))


def _whole_seconds(time: str | None) -> str | None:
    return time if time is None or "." not in time else f"{time.partition('.')[0]}Z"


def differ(before: HPAStatus, after: HPAStatus) -> bool:
    """Return whether a status would be written: not where it is semantically equal."""
    return replace(before, current_metrics=before.current_metrics or None) != replace(
        after, current_metrics=after.current_metrics or None
    )
