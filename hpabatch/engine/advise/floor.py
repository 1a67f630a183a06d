"""Floor of minReplicas, below which no recommendation goes.

It is what a PodDisruptionBudget or a topology spread of the target's pods needs, and at least 2;
where today's minReplicas is lower already, it is that one. Only `--bound min=any` lifts it.
"""

from __future__ import annotations

from hpabatch.engine.advise.bounds import Bounds
from hpabatch.engine.sweep.context import Context
from hpabatch.model.availability import Availability, Need
from hpabatch.model.objects.hpa import HPASpec

_FIELD = "min"


def floor_of(context: Context, bounds: Bounds) -> Need | None:
    """Return the floor of an HPA's minReplicas and its reason, None where it is lifted."""
    if _FIELD not in bounds.limits:
        return None
    return (context.availability or Availability()).need()


def below(floor: Need | None, today: HPASpec, spec: HPASpec) -> str:
    """Return why a spec's minReplicas is too low, "" if it is not; both have their defaults."""
    if floor is None or today.min_replicas is None or spec.min_replicas is None:
        return ""
    least = min(floor.pods, today.min_replicas)
    if spec.min_replicas >= least:
        return ""
    change = f"minReplicas {today.min_replicas} -> {spec.min_replicas}"
    if least < floor.pods:
        return f"{change} is below today's, and {_told(floor)}"
    return f"{change} is below {floor.pods}: {_told(floor)}"


def _told(floor: Need) -> str:
    return f"{floor.why} (--bound min=any lifts this)"
