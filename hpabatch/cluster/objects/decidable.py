"""Which HPAs of a cluster can be decided, whatever a server of today would say of them."""

from __future__ import annotations

from hpabatch.model.objects.hpa import HPA
from hpabatch.model.objects.validate import validate_hpa
from hpabatch.model.versions import Profile

# What a server may have stored and the rules know what to do with: an unknown type of metric, a
# version or target that fails at the sync, names that no longer pass.
_DECIDABLE = ("metadata.", "spec.metrics", "spec.scaleTargetRef")


def undecidable(hpa: HPA, profile: Profile) -> str:
    """Return what makes it impossible to decide on a defaulted HPA, "" if nothing does.

    Not everything that a server refuses today does: older ones have stored it, and their own
    controller decides on it.
    """
    found = [
        str(complaint)
        for complaint in validate_hpa(hpa, profile)
        if not complaint.path.startswith(_DECIDABLE)
        and not (complaint.path == "spec.minReplicas" and hpa.spec.min_replicas == 0)
    ]
    return "; ".join(found)
