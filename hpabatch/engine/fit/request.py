"""Options of a fit."""

from __future__ import annotations

from dataclasses import dataclass

from hpabatch.engine.fleet.request import ChosenHpas, Lensed, Pipeline, Rules, Syncs
from hpabatch.inputs.workers import Spread
from hpabatch.model.options import Request, option


@dataclass(frozen=True, kw_only=True)
class PlantFiles(Request):
    """Facts about workloads that a history does not show."""

    plant: tuple[str, ...] = option(
        "paths",
        "Plant file: facts about workloads that you state (YAML); may be repeated.",
        (),
        metavar="FILE",
    )


@dataclass(frozen=True, kw_only=True)
class FitRequest(Spread, PlantFiles, Lensed, Syncs, Pipeline, Rules, ChosenHpas):
    """A fit of the workloads behind HPAs."""
