"""Both scores of a history, in the engine's own words."""

from __future__ import annotations

from collections.abc import Sequence

from hpabatch.engine.fidelity.request import FidelityParameters
from hpabatch.engine.fidelity.run import Fidelity, Scoring
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.fleet.plan import See, Select, as_recorded, plan_replay
from hpabatch.history.base import History
from hpabatch.inputs.plants import PlantOverride


def fidelity(
    history: History,
    parameters: ReplayParameters,
    choices: FidelityParameters | None = None,
    *,
    select: Select | None = None,
    plants: Sequence[PlantOverride] = (),
    see: See = as_recorded,
) -> Fidelity:
    """Return the scores of a history's HPAs."""
    plan = see(plan_replay(history, parameters, None, select))
    scoring = Scoring(plan, choices or FidelityParameters(), plants)
    list(scoring.usages())
    return scoring.fidelity()
