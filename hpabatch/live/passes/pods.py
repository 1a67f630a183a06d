"""Pods of a pass as columns, the pods that a selector matches, and samples by pod."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from hpabatch.cluster.objects.types import ContainerUsage, PodKey, PodObject, PodSample, UsageSample
from hpabatch.engine.fleet.sources import CUSTOM_WINDOW_MS
from hpabatch.layout.records import I64, POD_STATE, Records, records
from hpabatch.model.quantity import MIN_INT64
from hpabatch.model.requests import PodRequest, RequestRules, pod_request
from hpabatch.model.selectors import Selector
from hpabatch.packing.texts import Texts, pod_flags

Samples = dict[PodKey, "tuple[int, int, int] | None"]
"""By pod that a response lists: (milli-units, UTC ms, window in ms), None: no value."""


class PodColumns:
    """All pods at a pass; a pod's slot is its place in the order of namespaces and names.

    Attributes:
        pods, keys: by slot.
        states: POD_STATE (P,), as kernels take them.
    """

    def __init__(self, pods: Mapping[PodKey, PodObject]) -> None:
        """Lay out these pods."""
        keys = sorted(pods)
        self.pods = [pods[key] for key in keys]
        self.keys = keys
        self.states: Records = records(POD_STATE, map(_state, self.pods))
        # Most selectors require a value of one label; "" stands for the namespace as a whole.
        self._by_label: dict[tuple[str, str, str], list[int]] = {}
        for slot, pod in enumerate(self.pods):
            for label, value in (("", ""), *pod.labels.items()):
                self._by_label.setdefault((pod.namespace, label, value), []).append(slot)

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


def usage_samples(items: Iterable[UsageSample], resource: str, container: str) -> Samples:
    """Return the usage of a resource, of one container or ("") of all of a pod.

    A pod whose containers do not all have the resource has no value of it (metrics/client.go). Of
    several items of a pod the last one with a value counts.
    """
    found: Samples = {}
    for item in items:
        key = item.namespace, item.pod
        value = (
            _value_in(item.containers, resource, container)
            if container else _sum_of(item.containers, resource)
        )  # fmt: skip
        if value is None:
            found.setdefault(key)
        else:
            found[key] = value, item.ts_ms, item.window_ms or 0
    return found


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


def custom_samples(items: Iterable[PodSample], namespace: str) -> Samples:
    """Return the samples of a custom metric; of several of one pod the last counts."""
    return {
        (namespace, item.pod): (
            item.value_milli,
            item.ts_ms,
            CUSTOM_WINDOW_MS if item.window_ms is None else item.window_ms,
        )
        for item in items
    }
