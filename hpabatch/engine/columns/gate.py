"""Columns of gates."""

from __future__ import annotations

from typing import Final

from hpabatch.engine.columns.column import KEY, table
from hpabatch.engine.columns.simulate import MEASURES

BASE: Final = "base_"
HEAD: Final = "head_"
_MEASURED: Final = (
    *("replica_hours", "pod_hours", "core_hours", "cost", "saturated_minutes", "at_max_minutes"),
    *("short_pod_hours", "unserved", "rescales"),
)

GATE: Final = table(
    "an HPA whose settings or findings differ",
    "`gate`",
    *KEY,
    """
    change string: changed, new, removed; same: its settings are, it has a new finding or two specs
    settings string: each setting that differs, old -> new
    exceeded string: limits that it exceeds; null: none
    unknown string: why nothing trustworthy can be said; null: it can, or nothing was simulated
    base_findings integer: findings of base's manifests
    head_findings integer: findings of head's manifests
    currency string: of the costs; null: no prices
    """,
    *MEASURES.some(*_MEASURED, prefix=BASE, told="with base's settings: "),
    *MEASURES.some(*_MEASURED, prefix=HEAD, told="with head's settings: "),
)
