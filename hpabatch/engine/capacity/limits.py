"""What a pod of each HPA adds to every amount: pods, requested and limited cores and memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hpabatch.engine.fleet.candidates import Candidate
from hpabatch.engine.fleet.plan import ReplayPlan
from hpabatch.engine.fleet.requested import Requested, _newest
from hpabatch.model.quota import CORES, GIB, LIMIT_CORES, LIMIT_GIB, PODS

Key = tuple[str, str, str]


def amounts_of(requested: Requested, limited: Requested | None = None) -> dict[str, int]:
    """Return what one pod holds: millicores and bytes (rounded up); what is not known is left out.

    `limited` None: limits are not asked for.
    """
    parts = {PODS: 1}
    for given, cores, memory in ((requested, CORES, GIB), (limited, LIMIT_CORES, LIMIT_GIB)):
        if given is not None and given.cpu_milli is not None:
            parts[cores] = given.cpu_milli
        if given is not None and given.memory_milli is not None:
            parts[memory] = -(-given.memory_milli // 1000)
    return parts


def limits_of(plan: ReplayPlan, candidates: Sequence[Candidate]) -> Mapping[Key, Requested]:
    """Return by HPA what the newest pod of its target is limited to, as requests are added up.

    Raises:
        HistoryError: the table of requests is broken.
    """
    found = {}
    for cluster in dict.fromkeys(candidate.cluster for candidate in candidates):
        theirs = [c for c in candidates if c.cluster == cluster]
        places = list(dict.fromkeys((c.target[1], c.target[3]) for c in theirs))
        rows = plan.history.select("pod_requests", cluster, places)
        limits = rows.drop("cpu_milli", "memory_milli").rename(
            {"cpu_limit_milli": "cpu_milli", "memory_limit_milli": "memory_milli"}
        )
        newest = _newest(limits)
        for c in theirs:
            found[c.cluster, c.namespace, c.name] = newest.get(
                (c.target[1], c.target[3]), Requested()
            )
    return found
