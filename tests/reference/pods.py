"""Pods: their groups, and what they request.

Upstream: ``pkg/controller/podautoscaler/replica_calculator.go`` (``groupPods``,
``calculateRequests``, ``getReadyPodsCount``) and component-helpers ``PodRequests``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from . import quantity
from .gomath import wrap64
from .profiles import NEWEST, Profile
from .samples import CalculationError, Sample
from .times import parse_time

Json = dict[str, Any]

NO_PODS = "no pods returned by selector while calculating replica count"


class PodGroups(NamedTuple):
    """Result of ``groupPods``; a pod with a usable sample is only counted."""

    ready_count: int
    unready: set[str]
    missing: set[str]
    ignored: set[str]


def group_pods(
    pods: list[Json],
    samples: dict[str, Sample],
    resource: str,
    now: int,
    cpu_initialization_period: int,
    initial_readiness_delay: int,
    profile: Profile = NEWEST,
) -> PodGroups:
    """Calculator, grouping pods (``groupPods``): each pod takes the first branch that fits."""
    # kubernetes#141302 made finished pods equal to failed ones.
    terminal = ("Failed", "Succeeded") if profile.finished_pods_ignored else ("Failed",)
    groups = PodGroups(0, set(), set(), set())
    ready_count = 0
    for pod in pods:
        name = pod["name"]
        if pod.get("deletion_timestamp") is not None or pod["phase"] in terminal:
            groups.ignored.add(name)
        elif pod["phase"] == "Pending":
            groups.unready.add(name)
        elif name not in samples:
            groups.missing.add(name)
        elif resource == "cpu" and is_cpu_unready(
            pod, samples[name], now, cpu_initialization_period, initial_readiness_delay
        ):
            groups.unready.add(name)
        else:
            ready_count += 1
    return groups._replace(ready_count=ready_count)


def is_cpu_unready(
    pod: Json,
    sample: Sample,
    now: int,
    cpu_initialization_period: int,
    initial_readiness_delay: int,
) -> bool:
    """Calculator, grouping pods, step 4: is the cpu sample of a started pod not to be trusted?"""
    condition = pod.get("ready")
    if condition is None or pod.get("start_time") is None:
        return True
    start = parse_time(pod["start_time"])
    transition = parse_time(condition["last_transition_time"])
    not_ready = bool(condition["status"] == "False")  # "Unknown" is not "False"
    if start + cpu_initialization_period > now:
        return not_ready or sample.timestamp < transition + sample.window
    return not_ready and start + initial_readiness_delay > transition


def count_ready_pods(pods: list[Json]) -> int:
    """Calculator, Object and External values (``getReadyPodsCount``): Running and Ready pods."""
    if not pods:
        raise CalculationError(f"unable to calculate ready pods: {NO_PODS}")
    return sum(
        1
        for pod in pods
        if pod["phase"] == "Running" and (pod.get("ready") or {}).get("status") == "True"
    )


# --- requests -------------------------------------------------------------------------------------


def calculate_requests(
    pods: list[Json],
    container: str,
    resource: str,
    pod_level_gate: bool = True,
    profile: Profile = NEWEST,
) -> dict[str, int]:
    """Calculator, requests (``calculateRequests``): milli-units by pod, over all selected pods."""
    requests = {}
    for pod in pods:
        if pod_level_gate and not container and _has_pod_level_requests(pod):
            requests[pod["name"]] = _pod_level_request(pod, resource)
        else:
            requests[pod["name"]] = _container_requests(pod, container, resource, profile)
    return requests


def _has_pod_level_requests(pod: Json) -> bool:
    """component-helpers ``IsPodLevelRequestsSet``: any of the resources supported there."""
    return any(_is_pod_level_resource(name) for name in pod.get("pod_requests") or {})


def _is_pod_level_resource(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def _container_requests(pod: Json, container: str, resource: str, profile: Profile) -> int:
    """``calculateRequestsFromContainers``: the sum over app containers, then sidecars."""
    counted = list(pod.get("containers") or [])
    if profile.sidecars_counted:
        counted += [c for c in pod.get("init_containers") or [] if _is_sidecar(c)]
    total = 0
    for candidate in counted:
        if container and candidate["name"] != container:
            continue
        request = (candidate.get("requests") or {}).get(resource)
        if request is None:
            where = f" in container {candidate['name']} of Pod {pod['name']}"
            raise CalculationError(
                f"missing request for {resource}" + where * profile.request_errors_name_pod
            )
        total = wrap64(total + quantity.milli(request))
        if container:
            return total
    if container and profile.unknown_container_is_error:
        raise CalculationError(f"container {container} not found in Pod {pod['name']}")
    return total


def _is_sidecar(container: Json) -> bool:
    return bool(container.get("restart_policy") == "Always")


def _pod_level_request(pod: Json, resource: str) -> int:
    """component-helpers ``PodRequests`` for one resource: ``milli`` is taken once, at the end."""
    own = (pod.get("pod_requests") or {}).get(resource)
    if own is not None and _is_pod_level_resource(resource):
        return quantity.milli(own)
    aggregate = _aggregate_container_requests(pod, resource)
    if aggregate is None:
        raise CalculationError(f"missing pod-level request for {resource} in Pod {pod['name']}")
    return quantity.milli_of(aggregate)


def _aggregate_container_requests(pod: Json, resource: str) -> quantity.Quantity | None:
    """Sum of containers and sidecars, raised to the largest need of an init container."""
    total: quantity.Quantity | None = None
    sidecars: quantity.Quantity | None = None  # those started so far
    largest_init: quantity.Quantity | None = None
    for candidate in pod.get("containers") or []:
        total = _plus(total, _request_of(candidate, resource))
    for candidate in pod.get("init_containers") or []:
        request = _request_of(candidate, resource)
        if _is_sidecar(candidate):
            total = _plus(total, request)
            sidecars = _plus(sidecars, request)
            need = sidecars
        else:
            need = _plus(request, sidecars)
        largest_init = _larger(largest_init, need)
    return _larger(total, largest_init)


def _request_of(container: Json, resource: str) -> quantity.Quantity | None:
    text = (container.get("requests") or {}).get(resource)
    return None if text is None else quantity.parse(text)


def _plus(
    left: quantity.Quantity | None, right: quantity.Quantity | None
) -> quantity.Quantity | None:
    """Add two entries of a resource list, either of which may be absent."""
    if left is None or right is None:
        return right if left is None else left
    return quantity.add(left, right)


def _larger(
    left: quantity.Quantity | None, right: quantity.Quantity | None
) -> quantity.Quantity | None:
    """Return the larger of two entries of a resource list, either of which may be absent."""
    if left is None or right is None:
        return right if left is None else left
    return right if quantity.compare(right, left) > 0 else left
