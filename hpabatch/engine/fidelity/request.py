"""Options of a fidelity score."""

from __future__ import annotations

from dataclasses import dataclass

from hpabatch.engine.fit.request import PlantFiles
from hpabatch.engine.fleet.request import ChosenHpas, Lensed, Pipeline, Rules, Syncs
from hpabatch.inputs.workers import Spread
from hpabatch.model.options import option

_MINUTE_MS = 60_000


@dataclass(frozen=True, kw_only=True)
class FidelityRequest(Spread, PlantFiles, Lensed, Syncs, Pipeline, Rules, ChosenHpas):
    """A score of how far each HPA's rules and plant can be trusted."""

    split: float = option(
        "real",
        "Share of each HPA's ticks that its plant is fitted on; the rest judges it.",
        0.5,
        metavar="SHARE",
        minimum=0.01,
        maximum=0.99,
    )
    horizon_ms: int = option(
        "duration",
        "Time after a change of the number of pods over which their usage is judged.",
        5 * _MINUTE_MS,
        metavar="TIME",
        minimum=_MINUTE_MS,
        maximum=1440 * _MINUTE_MS,
    )
