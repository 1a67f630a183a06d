"""Facts about a workload: each parameter of its plant, with interval and origin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

RECORDED: Final = "recorded"
FITTED: Final = "fitted"
ASSUMED: Final = "assumed"
GIVEN: Final = "given"
GUESSED: Final = "guessed"
NOT_IDENTIFIED: Final = "not identified"
BASE_TAKEN: Final = "plant not identified, base taken as 0"
"""The begin of a note: nothing speaks against shared work, and no base is known. Then fewer pods do
better than modelled, as what each uses by itself goes with it, and more pods do worse."""
OPEN: Final = "open"
"""Source of a ceiling that nothing tells: usage is not cut off, and ceilings are assumed."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One parameter of a plant as it is known: a value, its interval, and where it came from.

    `source` is RECORDED, FITTED, ASSUMED, GUESSED, GIVEN, NOT_IDENTIFIED or
    OPEN.
    """

    name: str
    value: float | None
    unit: str
    low: float | None
    high: float | None
    source: str
    note: str = ""


def facts_frame(facts: Mapping[tuple[str, str, str], Sequence[Fact]]) -> pl.DataFrame:
    """Return one row per HPA (cluster, namespace, name) and fact."""
    rows = [
        (*key, f.name, f.value, f.unit, f.low, f.high, f.source, f.note)
        for key, theirs in facts.items()
        for f in theirs
    ]
    text, number = pl.String(), pl.Float64()
    schema = {
        "cluster": text,
        "namespace": text,
        "hpa": text,
        "parameter": text,
        "value": number,
        "unit": text,
        "low": number,
        "high": number,
        "source": text,
        "note": text,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")
