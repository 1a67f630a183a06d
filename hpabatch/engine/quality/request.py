"""Options of a look at what recordings are worth."""

from __future__ import annotations

from dataclasses import dataclass

from hpabatch.engine.fleet.request import ChosenHpas, Rules
from hpabatch.inputs.workers import Spread


@dataclass(frozen=True, kw_only=True)
class QualityRequest(Spread, Rules, ChosenHpas):
    """A look at what the recording of each HPA is worth."""
