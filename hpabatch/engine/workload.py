"""What is known of a workload that is simulated, and where it came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hpabatch.arrays.simulation import Workload

__all__ = ["ASSUMED", "FITTED", "GIVEN", "NOT_IDENTIFIED", "RECORDED", "Fact", "Workload"]

RECORDED: Final = "recorded"
FITTED: Final = "fitted"
ASSUMED: Final = "assumed"
GIVEN: Final = "given"
NOT_IDENTIFIED: Final = "not identified"


@dataclass(frozen=True, slots=True)
class Fact:
    """One parameter of a plant as it is known: a value, its interval, and where it came from.

    `source` is RECORDED, FITTED, ASSUMED, GIVEN or NOT_IDENTIFIED.
    """

    name: str
    value: float | None
    unit: str
    low: float | None
    high: float | None
    source: str
    note: str = ""
