"""What a sweep came to: frames of settings, HPAs, results and blocks of time, and the evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl


@dataclass(frozen=True, slots=True)
class SweepResult:
    """All settings of all HPAs, measured; docs/sweep.md explains every column.

    `settings`: one row per setting; `hpas`: one per HPA; `results`: one per HPA and setting, with
    the measures of its whole run; `blocks`: one per HPA, setting and block of time (a week, or a
    day of a short history), with what can be added up. `parameters` are what was asked.
    """

    settings: pl.DataFrame
    hpas: pl.DataFrame
    results: pl.DataFrame
    blocks: pl.DataFrame
    evidence: dict[str, str]
    parameters: dict[str, Any]
