"""Findings of a history: what replays of its HPAs show."""

from __future__ import annotations

from typing import Final

import polars as pl

from hpabatch.engine.columns.findings import FINDINGS
from hpabatch.engine.findings.catalogue import CATALOGUE
from hpabatch.engine.replay.attention import apply_rules
from hpabatch.engine.replay.summary import KEY

SEVERITIES: Final = ("high", "medium", "low")


def findings_of(summary: pl.DataFrame) -> pl.DataFrame:
    """Return the findings of a replay's summary, by severity, score and HPA."""
    kinds = pl.DataFrame(
        [(k.name, k.severity, k.group, k.fix) for k in CATALOGUE.values()],
        dict.fromkeys(("finding", "severity", "group", "fix"), pl.String()),
        orient="row",
    )
    found = apply_rules(summary).rename({"rule": "finding"}).collect()
    return sorted_findings(found.join(kinds, on="finding", how="left"))


def sorted_findings(found: pl.DataFrame) -> pl.DataFrame:
    """Return findings with the registered columns, the worst first."""
    order = pl.col("severity").replace_strict(
        SEVERITIES, range(len(SEVERITIES)), return_dtype=pl.Int8
    )
    down = [False, True, *[False] * len(KEY), False]
    by = [order, "score", *KEY, "finding"]
    return found.sort(by, descending=down, nulls_last=True).select(FINDINGS.names)
