"""Columns of findings."""

from __future__ import annotations

from typing import Final

from hpabatch.engine.columns.column import KEY, table

FINDINGS: Final = table(
    "an HPA and finding",
    "`findings`",
    *KEY,
    """
    finding string: its id, see docs/findings.md
    severity string: high, medium or low
    group string: act: a setting to correct; harm: a limit that does harm; ask: a question that is
        open
    score number: by which findings of a replay are sorted, 0 to 100; null: of anything else
    why string: what was found, with its numbers
    fix string: what to do
    evidence string: the numbers that it rests on, as a JSON object
    """,
)
