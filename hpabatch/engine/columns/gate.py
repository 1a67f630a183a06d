"""Columns of gates."""

from __future__ import annotations

from typing import Final

from hpabatch.engine.columns.column import INTEGER, KEY, Column, table
from hpabatch.engine.columns.simulate import MEASURES

BASE: Final = "_base"
HEAD: Final = "_head"
MEASURED: Final = (
    "replica_hours",
    "pod_hours",
    "core_hours",
    "cost",
    "saturated_minutes",
    "at_max_minutes",
    "short_pod_hours",
    "unserved",
    "rescales",
)
"""Measures of both sides that a row has; limits may be about others, too."""
FINDINGS: Final = ("findings", "findings_high", "findings_medium", "findings_low")

GATE: Final = table(
    "an HPA whose settings or findings differ",
    "`gate`",
    *KEY,
    """
    change string: changed, new, removed; same: its settings are, it has a new finding
    settings string: each setting that differs, old -> new
    exceeded string: limits that it exceeds; null: none
    unknown string: why nothing trustworthy can be said; null: it can, or there is no history
    currency string: of the costs; null: no prices
    """,
    *(
        column._replace(name=f"{column.name}{end}", meaning=f"{side}: {column.meaning}")
        for column in MEASURES.some(*MEASURED)
        for end, side in ((BASE, "base"), (HEAD, "head"))
    ),
    *(
        Column(f"{name}{end}", INTEGER, f"{side}: {words}")
        for name, words in zip(
            FINDINGS,
            ("findings of its manifests", "of these, high", "of these, medium", "of these, low"),
            strict=True,
        )
        for end, side in ((BASE, "base"), (HEAD, "head"))
    ),
)
