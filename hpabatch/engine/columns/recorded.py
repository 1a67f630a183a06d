"""Columns of assumed ceilings, and of what was recorded beside what the model says."""

from __future__ import annotations

from typing import Final

from hpabatch.engine.columns.column import NUMBER, Column, unit_of
from hpabatch.model.plant import CEILINGS_PCT, above_minutes

ABOVE_MINUTES: Final = tuple(above_minutes(pct) for pct in CEILINGS_PCT)
"""Measures of time above the assumed ceilings, the lowest first."""

RECORDED_MEASURES: Final = (
    "replica_hours",
    "pod_hours",
    "saturated_minutes",
    *ABOVE_MINUTES,
    "rescales",
)
"""Measures of a simulation that a recording has too."""


def recorded_name(measure: str) -> str:
    """Return the name of the column that has a measure as recorded."""
    return f"{measure}_recorded"


ABOVE: Final = tuple(
    Column(
        name,
        NUMBER,
        f"ceiling assumed: steps in which a pod was above {pct} % of the highest usage seen; null: "
        "a ceiling is known",
        "minutes",
    )
    for pct, name in zip(CEILINGS_PCT, ABOVE_MINUTES, strict=True)
)
RECORDED: Final = tuple(
    Column(
        recorded_name(name),
        NUMBER,
        f"{name} as recorded; null: not today's setting, or not known",
        unit_of(name),
    )
    for name in RECORDED_MEASURES
)
