"""Namespace quotas: the most that all pods of a namespace may request together.

Source: Kubernetes' ResourceQuota (core/v1); its evaluator of pods counts requests, limits and the
pods themselves (plugin quota: `cpu` and `memory` are other names of `requests.cpu` and
`requests.memory`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

PODS: Final = "pods"
CORES: Final = "cores"
GIB: Final = "gib"
LIMIT_CORES: Final = "limit_cores"
LIMIT_GIB: Final = "limit_gib"

JUDGED: Final[dict[str, str]] = {
    "pods": PODS,
    "count/pods": PODS,
    "cpu": CORES,
    "requests.cpu": CORES,
    "memory": GIB,
    "requests.memory": GIB,
    "limits.cpu": LIMIT_CORES,
    "limits.memory": LIMIT_GIB,
}
"""The supported resources of a quota, and the amount that each one limits."""

MILLI_UNITS: Final = frozenset({CORES, LIMIT_CORES})
"""Amounts that are counted in thousandths (of a core); pods and bytes are counted whole."""

MATCHING_SCOPES: Final = frozenset({"NotTerminating", "NotBestEffort"})
"""Scopes that match the pods of an autoscaled workload: these have no deadline, and have requests
(an HPA by utilization needs them).
"""

MOST: Final = 2**62
"""Stands for limits too large to count: no sum comes near."""


@dataclass(frozen=True, slots=True)
class Limit:
    """The most of an amount that a quota allows: millicores, bytes or pods.

    `key` is the resource as the quota writes it.
    """

    hard: int
    key: str
    quota: str


@dataclass(frozen=True, slots=True)
class Quota:
    """One ResourceQuota: the `limits` by amount, the smaller where two keys limit the same one.

    `cluster` None: of every cluster that has the namespace. `place` is its position in a file.
    """

    namespace: str
    name: str
    limits: Mapping[str, Limit]
    cluster: str | None = None
    place: str = field(default="", compare=False)

    def is_for(self, cluster: str, namespace: str) -> bool:
        """Whether it limits a namespace of a cluster."""
        return self.namespace == namespace and self.cluster in (None, cluster)


def tightest(quotas: Sequence[Quota], cluster: str, namespace: str) -> dict[str, Limit]:
    """Return, by amount, the smallest limit of a namespace: all its quotas must hold.

    Of equal ones the first counts.
    """
    found: dict[str, Limit] = {}
    for quota in quotas:
        if quota.is_for(cluster, namespace):
            for amount, limit in quota.limits.items():
                if amount not in found or limit.hard < found[amount].hard:
                    found[amount] = limit
    return found
