"""A workload as it is simulated: its plant, and the work that it is given over time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hpabatch.arrays.layout import I64
from hpabatch.model.plant import Plant

RECORDED: Final = "recorded"
FITTED: Final = "fitted"
ASSUMED: Final = "assumed"
GIVEN: Final = "given"
NOT_IDENTIFIED: Final = "not identified"


@dataclass(frozen=True, slots=True)
class Workload:
    """The workload of one HPA.

    `work` by signal name, shape (pieces,), milli-units: constant pieces of `resolution_ms` from
    `work_start_ms` on (of divisible and total signals the total, of per-pod ones per pod, of
    backlogs per second). `initial` is the target's size at the start.
    """

    cluster: str
    namespace: str
    hpa: str
    plant: Plant
    work: Mapping[str, I64]
    work_start_ms: int
    resolution_ms: int
    initial: int


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
