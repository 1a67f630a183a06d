"""Options of a replay."""

from __future__ import annotations

from dataclasses import dataclass

from hpabatch.engine.fleet.request import (
    Budgets,
    ChosenHpas,
    GivenHpas,
    Instants,
    Lensed,
    Pipeline,
    Rules,
    StatedRequests,
    Syncs,
)
from hpabatch.inputs.workers import Spread
from hpabatch.model.options import option


@dataclass(frozen=True, kw_only=True)
class ReplayRequest(
    Lensed, Pipeline, Syncs, Instants, Budgets, Rules, StatedRequests, GivenHpas, ChosenHpas
):
    """A replay of recorded HPAs, or of those of manifests."""

    why: bool = option(
        "flag", "Add columns on what each metric asked for, pods by group and more.", False
    )


@dataclass(frozen=True, kw_only=True)
class ReplayToRequest(Spread, ReplayRequest):
    """A replay whose decisions go to a file; an interrupted one goes on."""

    score: bool = option("flag", "Judge the decided rescales by the recorded ones.", False)
    restart: bool = option("flag", "Discard what an interrupted run has left.", False)
