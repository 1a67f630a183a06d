"""Resource requests of one pod, as the HPA's calculator sees them.

Follows calculatePodRequests in pkg/controller/podautoscaler/replica_calculator.go and, for pods
with pod-level requests, PodRequests in component-helpers resource/helpers.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hpabatch.model.quantity import MIN_INT64, Quantity
from hpabatch.model.versions import Profile

_POD_LEVEL_RESOURCES = frozenset({"cpu", "memory"})
_HUGE_PAGES = "hugepages-"


@dataclass(frozen=True, slots=True)
class ContainerRequests:
    """Requests of a container; `restart_policy` "Always" makes an init container a sidecar."""

    name: str
    requests: Mapping[str, Quantity] = field(default_factory=dict)
    restart_policy: str | None = None

    @property
    def is_sidecar(self) -> bool:
        """Whether an init container keeps running beside the app containers."""
        return self.restart_policy == "Always"


@dataclass(frozen=True, slots=True)
class RequestRules:
    """Rules of a Kubernetes version for a pod's request; see `model.versions.Profile`."""

    pod_level: bool = True
    sidecars: bool = True
    container_must_exist: bool = True
    names_pod: bool = True


NEWEST_RULES = RequestRules()


def request_rules(profile: Profile) -> RequestRules:
    """Return a profile's rules for a pod's request."""
    return RequestRules(
        pod_level=profile.gate_pod_level_resources,
        sidecars=profile.sidecars_counted,
        container_must_exist=profile.container_must_exist,
        names_pod=profile.errors_wrapped,
    )


@dataclass(frozen=True, slots=True)
class PodRequest:
    """A pod's request in milli-units (int64), or upstream's error message without a number."""

    milli: int
    error: str | None = None


def pod_request(
    pod: str,
    containers: Sequence[ContainerRequests],
    init_containers: Sequence[ContainerRequests] = (),
    pod_level: Mapping[str, Quantity] | None = None,
    overhead: Mapping[str, Quantity] | None = None,
    *,
    container: str = "",
    resource: str = "cpu",
    rules: RequestRules = NEWEST_RULES,
) -> PodRequest:
    """Return the request of pod `pod` for `resource`, of one container if `container` is named.

    Pod-level requests count only where the version has them, and never for a named container. The
    container branch adds milli-units, each rounded, and wraps; the pod-level branch adds quantities
    and rounds once: two containers of `100u` give 2 and 1.
    """
    if rules.pod_level and not container and any(map(_is_pod_level, pod_level or ())):
        effective = effective_request(
            containers, init_containers, pod_level or {}, overhead or {}, resource
        )
        if effective is None:
            return PodRequest(0, f"missing pod-level request for {resource} in Pod {pod}")
        return PodRequest(effective.milli())
    total = 0
    sidecars = [item for item in init_containers if item.is_sidecar and rules.sidecars]
    for item in (*containers, *sidecars):
        if container in ("", item.name):
            request = item.requests.get(resource)
            if request is None:
                place = f" in container {item.name} of Pod {pod}" if rules.names_pod else ""
                return PodRequest(0, f"missing request for {resource}{place}")
            total += request.milli()
        if container == item.name:
            return PodRequest(_wrap64(total))
    if container and rules.container_must_exist:
        return PodRequest(0, f"container {container} not found in Pod {pod}")
    return PodRequest(_wrap64(total))


def effective_request(
    containers: Sequence[ContainerRequests],
    init_containers: Sequence[ContainerRequests],
    pod_level: Mapping[str, Quantity],
    overhead: Mapping[str, Quantity],
    resource: str,
) -> Quantity | None:
    """Return a pod's effective request of a resource, None where nothing requests it.

    The sum of containers and sidecars, at least the need of any init container together with the
    sidecars before it; a pod-level request of the resource replaces that; overhead is added.
    """
    running: Quantity | None = None
    for item in containers:
        running = _plus(running, item.requests.get(resource))
    sidecars: Quantity | None = None
    starting: Quantity | None = None
    for item in init_containers:
        own = item.requests.get(resource)
        if item.is_sidecar:
            running = _plus(running, own)
            sidecars = _plus(sidecars, own)
            own = sidecars
        else:
            own = _plus(own, sidecars)
        starting = _larger(starting, own)
    effective = _larger(running, starting)
    if resource in pod_level and _is_pod_level(resource):
        effective = pod_level[resource]
    return _plus(effective, overhead.get(resource))


def _is_pod_level(resource: str) -> bool:
    return resource in _POD_LEVEL_RESOURCES or resource.startswith(_HUGE_PAGES)


def _plus(left: Quantity | None, right: Quantity | None) -> Quantity | None:
    if left is None or right is None:
        return left if right is None else right
    return left + right


def _larger(left: Quantity | None, right: Quantity | None) -> Quantity | None:
    """Return the larger; the first of two equal ones, as upstream keeps it."""
    if left is None or right is None:
        return left if right is None else right
    return right if right > left else left


def _wrap64(value: int) -> int:
    return (value - MIN_INT64) % 2**64 + MIN_INT64
