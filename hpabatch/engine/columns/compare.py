"""Columns of comparisons."""

from __future__ import annotations

from typing import Final

from hpabatch.engine.columns.column import KEY, table
from hpabatch.engine.columns.replay import DECISIONS

DIFFERENCES: Final = table(
    "an HPA that differs",
    "`compare`; `differences` in JSON",
    *KEY,
    """
    differs string: decides: it decides differently; explains: the same, but for another reason
    ticks integer: ticks that were compared
    ticks_decided integer: of these, those with another decision
    ticks_explained integer: of these, those with the same decision for another reason
    first_ts timestamp: the first tick that differs (in its decision, if any does)
    replicas integer: the size that both saw then; null: not known
    """,
    *(
        column._replace(name=f"{column.name}{side}", meaning=f"{column.meaning} ({words})")
        for column in DECISIONS
        if column.name not in ("cluster", "namespace", "hpa", "ts", "replicas", "applied")
        for side, words in (("_from", "first side"), ("_to", "second side"))
    ),
    """
    most integer: the largest difference of the decided size, second side minus first; null:
        not known
    most_ts timestamp: when that was first
    replica_hours number: sum of the differences of the decided size over time; null: none is
        known
    cause string: the switches, or fields of the spec, that make the first difference; null: not
        found
    how string: alone: each of them does; together: all are needed; null: not found
    rule string: the same in words
    """,
)
