"""Options of a sweep."""

from __future__ import annotations

from dataclasses import dataclass

from hpabatch.engine.fleet.request import ChosenHpas, Rules, Syncs
from hpabatch.engine.simulate.request import VariedWork
from hpabatch.inputs.workers import Spread
from hpabatch.model.options import REQUIRED, option


@dataclass(frozen=True, kw_only=True)
class SweepRequest(VariedWork, Syncs, Rules, ChosenHpas):
    """A simulation of every HPA under every setting of a grid."""

    grid: tuple[str, ...] = option(
        "grids",
        "Values of a field; repeated, all combinations are settings.",
        REQUIRED,
        metavar="FIELD=VALUES",
    )
    group: tuple[str, ...] = option(
        "texts",
        "HPAs that get one common setting; may be repeated.",
        (),
        metavar="GROUP",
        unset="every HPA its own",
    )
    policy_sets: str | None = option(
        "path", "Policy sets of your own (YAML).", metavar="FILE", unset="gentle, default, fast"
    )
    fidelity: bool = option(
        "flag",
        "Score both halves of the model too; without scores advice has low confidence.",
        True,
    )


@dataclass(frozen=True, kw_only=True)
class SweepToRequest(Spread, SweepRequest):
    """A sweep whose parts may be computed by workers."""
