"""Options of a capacity plan."""

from __future__ import annotations

from dataclasses import dataclass

from hpabatch.engine.fleet.request import ChosenHpas, Rules, Syncs
from hpabatch.engine.simulate.request import Work
from hpabatch.inputs.workers import Spread
from hpabatch.model.options import option


@dataclass(frozen=True, kw_only=True)
class PlanRequest(Work, Syncs, Rules, ChosenHpas, Spread):
    """A plan of what HPAs ask for without maxReplicas."""

    growth: str = option(
        "factors",
        "Factors on the recorded work, one plan for each, such as 1.0,1.5,2.0.",
        "1.0",
        metavar="FACTORS",
    )
    quota: tuple[str, ...] = option(
        "paths",
        "ResourceQuota manifests (YAML or JSON) of every cluster, or of one; may be repeated.",
        (),
        metavar="[CLUSTER=]FILE",
    )
