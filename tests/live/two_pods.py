"""A synthetic HPA of two pods, for passes without a cluster."""

from __future__ import annotations

from hpabatch.cluster.objects.types import (
    Change,
    ContainerSpec,
    ContainerUsage,
    HpaObject,
    Kind,
    PodObject,
    PodTemplate,
    Response,
    Responses,
    ScaleKey,
    ScaleObject,
    Thing,
    UsageSample,
)
from hpabatch.model.objects.defaults import default_hpa
from hpabatch.model.objects.hpa import (
    HPA,
    CrossVersionObjectReference,
    HPASpec,
    MetricSpec,
    MetricTarget,
    ResourceMetricSource,
)
from hpabatch.model.quantity import Quantity
from hpabatch.model.requests import ContainerRequests

NOW_MS = 1_800_000_000_000
PERIOD_MS = 15_000
_CREATED_MS = NOW_MS - 3_600_000
_PODS = 2


def changes() -> list[Change]:
    names = [f"web-{k}" for k in range(_PODS)]
    key = ScaleKey("apps", "Deployment", "shop", "web")
    found: list[tuple[Kind, tuple[str, str] | ScaleKey, Thing]] = [
        (Kind.hpa, ("shop", "web"), _hpa()),
        (Kind.scale, key, ScaleObject(key, _PODS, _PODS, "app=web")),
    ]
    found += [(Kind.pod, ("shop", name), _pod(name)) for name in names]
    return [Change(kind, key, thing, _CREATED_MS, True) for kind, key, thing in found]


def _hpa() -> HpaObject:
    target = MetricTarget("Utilization", average_utilization=50)
    metric = MetricSpec("Resource", resource=ResourceMetricSource("cpu", target))
    spec = HPASpec(CrossVersionObjectReference("Deployment", "web", "apps/v1"), 1, 10, (metric,))
    hpa = HPA(name="web", namespace="shop", uid="web", spec=spec)
    return HpaObject("shop", "web", default_hpa(hpa))


def _pod(name: str) -> PodObject:
    container = ContainerSpec(ContainerRequests("app", {"cpu": Quantity.from_milli(100)}))
    return PodObject(
        "shop", name, name, {"app": "web"}, "ReplicaSet/web", _CREATED_MS, _CREATED_MS, None, "n",
        "Running", "True", _CREATED_MS, PodTemplate((container,)),
    )  # fmt: skip


def responses(now_ms: int) -> Responses:
    usage = (ContainerUsage("app", 100, None),)
    samples = tuple(UsageSample("shop", f"web-{k}", now_ms, 30_000, usage) for k in range(_PODS))
    return {"": Response(now_ms, samples)}
