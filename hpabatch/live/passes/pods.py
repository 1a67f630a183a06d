"""Pods of a pass as columns, the pods that a selector matches, and samples by pod."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from hpabatch.cluster.objects.types import ContainerUsage, PodKey, PodObject, PodSample, UsageSample
from hpabatch.engine.fleet.sources import CUSTOM_WINDOW_MS
from hpabatch.layout.records import I8, I64, POD_STATE, TIMING, Records, records, records_from
from hpabatch.model.quantity import MIN_INT64
from hpabatch.model.requests import PodRequest, RequestRules, pod_request
from hpabatch.model.selectors import Selector
from hpabatch.packing.pack import pod_flags
from hpabatch.packing.texts import Texts


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

    def put(self, at: I64, values: Sequence[int | None], ts_ms: I64, window_ms: I64) -> None:
        """Write items by slot; None: no value. Of several items of a slot the last counts."""
        has = np.array([value is not None for value in values], np.bool_)
        self.listed[at] = 1
        self.present[at[has]] = 1
        self.value_milli[at[has]] = np.array([v for v in values if v is not None], np.int64)
        self.timing.ts_ms[at[has]] = ts_ms[has]
        self.timing.window_ms[at[has]] = window_ms[has]


class PodColumns:
    """All pods at a pass; a pod's slot is its place in the order of namespaces and names.

    Attributes:
        pods: by slot.
        states: POD_STATE (P,), as kernels take them.
    """

    def __init__(self, pods: Mapping[PodKey, PodObject]) -> None:
        """Lay out these pods."""
        keys = sorted(pods)
        self.pods = [pods[key] for key in keys]
        self._slots = {key: slot for slot, key in enumerate(keys)}
        self.states: Records = records(POD_STATE, map(_state, self.pods))
        # Most selectors require a value of one label; "" stands for the namespace as a whole.
        self._by_label: dict[tuple[str, str, str], list[int]] = {}
        for slot, pod in enumerate(self.pods):
            for label, value in (("", ""), *pod.labels.items()):
                self._by_label.setdefault((pod.namespace, label, value), []).append(slot)

    def slot(self, namespace: str, name: str) -> int | None:
        """Return the slot of a pod, None if it is unknown."""
        return self._slots.get((namespace, name))

    def matching(self, namespace: str, selector: Selector | None) -> I64:
        """Return the slots of a namespace's pods that a selector matches, in order; None: none."""
        if selector is None:
            return np.zeros(0, np.int64)
        label = next(
            ((r.key, r.values[0]) for r in selector.requirements if r.operator in ("=", "==")),
            ("", ""),
        )
        slots = self._by_label.get((namespace, *label), ())
        return np.array([s for s in slots if selector.matches(self.pods[s].labels)], np.int64)

    def requests(
        self, resource: str, container: str, rules: RequestRules, texts: Texts
    ) -> list[tuple[int, int]]:
        """Return (known, milli or the number of the error in `texts`) by slot.

        "" for the resource: no requests are used.
        """
        if not resource:
            return [(1, 0)] * len(self.pods)
        found: list[tuple[int, int]] = []
        known: dict[int, PodRequest] = {}
        for pod in self.pods:
            template = pod.template
            request = known.get(id(template))
            if request is None or request.error is not None:  # an error names the pod
                request = known[id(template)] = pod_request(
                    pod.name,
                    [c.requests for c in template.containers],
                    [c.requests for c in template.init_containers],
                    template.pod_level,
                    template.overhead,
                    container=container,
                    resource=resource,
                    rules=rules,
                )
            failed = request.error is not None
            found.append((0, texts.number(request.error or "")) if failed else (1, request.milli))
        return found


def _state(pod: PodObject) -> tuple[int, int, int]:
    is_started = pod.started_ms is not None
    flags = pod_flags(pod.phase, pod.deletion_ms is not None, is_started, pod.ready)
    return flags, pod.started_ms or 0, pod.transition_ms or 0


def fill_usage(
    columns: Mapping[tuple[str, str], Samples], items: Iterable[UsageSample], pods: PodColumns
) -> dict[str, list[int]]:
    """Write the items of a metrics API's response to the columns of (resource, container).

    A pod whose containers do not all have a resource has no value of it (metrics/client.go).
    Items of unknown pods are left out. Returns by container the slots of listed pods that have no
    such container.
    """
    found = [(pods.slot(item.namespace, item.pod), item) for item in items]
    known = [(slot, item) for slot, item in found if slot is not None]
    at = np.array([slot for slot, _ in known], np.int64)
    ts_ms = np.array([item.ts_ms for _, item in known], np.int64)
    window_ms = np.array([item.window_ms or 0 for _, item in known], np.int64)
    lacking: dict[str, list[int]] = {}
    for (resource, container), samples in columns.items():
        if container:
            values = [_value_in(item.containers, resource, container) for _, item in known]
            lacking.setdefault(container, []).extend(
                slot for slot, item in known if all(c.name != container for c in item.containers)
            )
        else:
            values = [_sum_of(item.containers, resource) for _, item in known]
        samples.put(at, values, ts_ms, window_ms)
    return lacking


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
    samples: Samples, namespace: str, items: Iterable[PodSample], pods: PodColumns
) -> None:
    """Write the items of a custom metric's response; of several of one pod the last counts."""
    found = [(pods.slot(namespace, item.pod), item) for item in items]
    known = [(slot, item) for slot, item in found if slot is not None]
    windows = [CUSTOM_WINDOW_MS if item.window_ms is None else item.window_ms for _, item in known]
    samples.put(
        np.array([slot for slot, _ in known], np.int64),
        [item.value_milli for _, item in known],
        np.array([item.ts_ms for _, item in known], np.int64),
        np.array(windows, np.int64),
    )
