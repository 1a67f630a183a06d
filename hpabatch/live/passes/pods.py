"""Pods of a cluster as columns that watch events update in place; a pod's slot is its state.

The pods that each selector matches are kept too: a change of a pod's labels or of a selector moves
only what it has to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from hpabatch.cluster.objects.types import ContainerUsage, PodKey, PodObject, PodSample, UsageSample
from hpabatch.engine.fleet.sources import CUSTOM_WINDOW_MS
from hpabatch.layout.records import I8, I64, POD_STATE, REQUEST, TIMING, Records, records_from
from hpabatch.live.passes.selections import Selections
from hpabatch.model.quantity import MIN_INT64
from hpabatch.model.requests import PodRequest, RequestRules, pod_request
from hpabatch.packing.texts import Texts, pod_flags

_FIRST_SLOTS = 1024


class Samples:
    """Samples of one source: `present`, `value_milli` and `timing` by slot (P,).

    `listed` is 1 where the newest response has an item of the pod, with or without a value.
    """

    __slots__ = ("listed", "present", "timing", "value_milli")

    def __init__(self, slots: int) -> None:
        """Begin without any sample."""
        self.listed: I8 = np.zeros(slots, np.int8)
        self.present: I8 = np.zeros(slots, np.int8)
        self.value_milli: I64 = np.zeros(slots, np.int64)
        self.timing: Records = records_from(TIMING, slots)

    def clear(self) -> None:
        """Clear all samples before a new response."""
        self.listed.fill(0)
        self.present.fill(0)

    def put(self, at: I64, values: Sequence[int | None], ts_ms: I64, window_ms: I64) -> None:
        """Write items by slot; None: no value. Of several items of a slot the last counts."""
        has = np.array([value is not None for value in values], np.bool_)
        self.listed[at] = 1
        self.present[at[has]] = 1
        self.value_milli[at[has]] = np.array([v for v in values if v is not None], np.int64)
        self.timing.ts_ms[at[has]] = ts_ms[has]
        self.timing.window_ms[at[has]] = window_ms[has]


class PodTable:
    """All pods of the cluster.

    Attributes:
        states: POD_STATE (P,) by slot, as kernels take them.
        names: names by slot, "" where a slot is free.
        selections: the pods that each selector matches.
    """

    def __init__(self, rules: RequestRules, texts: Texts) -> None:
        """Begin empty; errors of requests go to `texts`."""
        self.rules = rules
        self.texts = texts
        self.states: Records = records_from(POD_STATE, _FIRST_SLOTS)
        self.names: list[str] = [""] * _FIRST_SLOTS
        self.selections = Selections()
        self._pods: list[PodObject | None] = [None] * _FIRST_SLOTS
        self._slots: dict[PodKey, int] = {}
        self._free = list(range(_FIRST_SLOTS - 1, -1, -1))
        self._requests: dict[tuple[str, str], Records] = {}
        self._known: dict[tuple[int, str, str], tuple[object, PodRequest]] = {}

    def __len__(self) -> int:
        """Return the number of pods."""
        return len(self._slots)

    @property
    def room(self) -> int:
        """The number of slots, including free ones (P)."""
        return int(self.states.size)

    def slot(self, namespace: str, name: str) -> int | None:
        """Return the slot of a pod, None if it is unknown."""
        return self._slots.get((namespace, name))

    def labels(self, slot: int) -> Mapping[str, str]:
        """Return the labels of the pod of a slot."""
        pod = self._pods[slot]
        return pod.labels if pod else {}

    def pods_of(self, namespace: str) -> list[PodObject]:
        """Return the pods of a namespace, in the order of their names."""
        pods = (self._pods[slot] for slot in self.selections.slots_of(namespace))
        return sorted((pod for pod in pods if pod is not None), key=lambda pod: pod.name)

    def put(self, pod: PodObject) -> None:
        """Add or update a pod."""
        key = (pod.namespace, pod.name)
        slot = self._slots.get(key)
        if slot is None:
            slot = self._take_slot()
            self._slots[key] = slot
        before, self._pods[slot] = self._pods[slot], pod
        self.names[slot] = pod.name
        flags = pod_flags(
            pod.phase, pod.deletion_ms is not None, pod.started_ms is not None, pod.ready
        )
        self.states[slot] = (flags, pod.started_ms or 0, pod.transition_ms or 0)
        if before is None or before.template is not pod.template:
            for (resource, container), table in self._requests.items():
                table[slot] = self._request(pod, resource, container)
        if before is None or before.labels != pod.labels:
            self.selections.put_pod(slot, pod.namespace, pod.labels)

    def remove(self, namespace: str, name: str) -> None:
        """Remove a pod."""
        slot = self._slots.pop((namespace, name), None)
        if slot is not None:
            self._pods[slot], self.names[slot] = None, ""
            self.selections.remove_pod(slot)
            self._free.append(slot)

    def requests(
        self, keys: Iterable[tuple[str, str]]
    ) -> tuple[Records, dict[tuple[str, str], int]]:
        """Return REQUEST records by (resource, container) and slot, and the offset of each key.

        "" for the resource: no requests are used. Other keys are forgotten.
        """
        wanted = list(dict.fromkeys(keys))
        self._requests = {key: self._requests[key] for key in wanted if key in self._requests}
        for key in wanted:
            if key not in self._requests:
                table = records_from(REQUEST, self.room, known=1)
                for slot, pod in enumerate(self._pods):
                    if pod is not None:
                        table[slot] = self._request(pod, *key)
                self._requests[key] = table
        parts = [self._requests[key] for key in wanted]
        joined = np.concatenate([records_from(REQUEST, 0), *parts]).view(np.recarray)
        views = np.split(joined, len(parts)) if parts else []
        # The kernels read the tables that are updated in place.
        self._requests = {
            key: part.view(np.recarray) for key, part in zip(wanted, views, strict=True)
        }
        return joined, {key: k * self.room for k, key in enumerate(wanted)}

    def retell(self, texts: Texts) -> None:
        """Put the errors of requests into another table of messages."""
        self.texts = texts
        for (resource, container), table in self._requests.items():
            for slot in np.flatnonzero(table.known == 0).tolist():
                pod = self._pods[slot]
                if pod is not None:
                    table[slot] = self._request(pod, resource, container)

    def _request(self, pod: PodObject, resource: str, container: str) -> tuple[int, int]:
        """Return (known, milli or the number of the error message) of a pod."""
        if not resource:
            return 1, 0
        key = (id(pod.template), resource, container)
        known = self._known.get(key)
        if known is None or known[0] is not pod.template or known[1].error is not None:
            template = pod.template
            request = pod_request(
                pod.name,
                [c.requests for c in template.containers],
                [c.requests for c in template.init_containers],
                template.pod_level,
                template.overhead,
                container=container,
                resource=resource,
                rules=self.rules,
            )
            if len(self._known) > 2 * len(self._slots) + _FIRST_SLOTS:
                self._known.clear()
            known = self._known[key] = (template, request)
        request = known[1]
        if request.error is not None:
            return 0, self.texts.number(request.error)
        return 1, request.milli

    def _take_slot(self) -> int:
        if not self._free:
            room = self.room
            self._free = list(range(2 * room - 1, room - 1, -1))
            self.states = _longer(self.states, 2 * room)
            self.names += [""] * room
            self._pods += [None] * room
            self._requests = {k: _longer(t, 2 * room, 1) for k, t in self._requests.items()}
        return self._free.pop()


def _longer(table: Records, length: int, known: int = 0) -> Records:
    """Return a longer table that begins with the same rows."""
    found = records_from(table.dtype, length)
    if known:
        found.known = known
    found[: table.size] = table
    return found


def fill_usage(
    columns: Mapping[tuple[str, str], Samples], items: Iterable[UsageSample], pods: PodTable
) -> tuple[dict[str, list[int]], int]:
    """Write the items of a metrics API's response to the columns of (resource, container).

    A pod whose containers do not all have a resource has no value of it (metrics/client.go).
    Returns by container the slots of listed pods that have no such container, and how many items
    are of pods that are not known.
    """
    slots: list[int] = []
    known: list[UsageSample] = []
    strays = 0
    for item in items:
        slot = pods.slot(item.namespace, item.pod)
        if slot is None:
            strays += 1
        else:
            slots.append(slot)
            known.append(item)
    at = np.array(slots, np.int64)
    ts_ms = np.array([item.ts_ms for item in known], np.int64)
    window_ms = np.array([item.window_ms or 0 for item in known], np.int64)
    lacking: dict[str, list[int]] = {}
    for (resource, container), samples in columns.items():
        if container:
            values = [_value_in(item.containers, resource, container) for item in known]
            lacking.setdefault(container, []).extend(
                slot
                for slot, item in zip(slots, known, strict=True)
                if all(c.name != container for c in item.containers)
            )
        else:
            values = [_sum_of(item.containers, resource) for item in known]
        samples.put(at, values, ts_ms, window_ms)
    return lacking, strays


def _value_of(container: ContainerUsage, resource: str) -> int | None:
    if resource == "cpu":
        return container.cpu_milli
    return container.memory_milli if resource == "memory" else None


def _value_in(containers: tuple[ContainerUsage, ...], resource: str, name: str) -> int | None:
    for container in containers:
        if container.name == name:
            return _value_of(container, resource)
    return None


def _sum_of(containers: tuple[ContainerUsage, ...], resource: str) -> int | None:
    if len(containers) == 1:
        return _value_of(containers[0], resource)
    total = 0
    for container in containers:
        value = _value_of(container, resource)
        if value is None:
            return None
        total += value
    if not MIN_INT64 <= total < -MIN_INT64:
        total = (total - MIN_INT64) % 2**64 + MIN_INT64  # as Go's sums wrap
    return total if containers else None


def fill_custom(
    samples: Samples, namespace: str, items: Iterable[PodSample], pods: PodTable
) -> int:
    """Write the items of a custom metric's response; of several of one pod the last counts.

    Returns how many items are of pods that are not known.
    """
    found = [(pods.slot(namespace, item.pod), item) for item in items]
    known = [(slot, item) for slot, item in found if slot is not None]
    windows = [CUSTOM_WINDOW_MS if item.window_ms is None else item.window_ms for _, item in known]
    samples.put(
        np.array([slot for slot, _ in known], np.int64),
        [item.value_milli for _, item in known],
        np.array([item.ts_ms for _, item in known], np.int64),
        np.array(windows, np.int64),
    )
    return len(found) - len(known)
