"""Catalogue of findings: stable ids, severity, group and what to do."""

from __future__ import annotations

from typing import Final, NamedTuple

from hpabatch.engine.replay.attention import RULES

HIGH_WEIGHT: Final = 85.0
MEDIUM_WEIGHT: Final = 50.0
"""Weights of the rules of a replay from which on a finding is high, and medium."""


class Kind(NamedTuple):
    """A finding of the catalogue.

    Attributes:
        name: its stable id.
        severity: high, medium or low.
        group: act, harm or ask.
        fix: what to do.
        source: history: a replay shows it; spec: the spec alone does.
    """

    name: str
    severity: str
    group: str
    fix: str
    source: str


def _severity(weight: float) -> str:
    if weight >= HIGH_WEIGHT:
        return "high"
    return "medium" if weight >= MEDIUM_WEIGHT else "low"


CATALOGUE: Final[dict[str, Kind]] = {
    rule.name: Kind(rule.name, _severity(rule.weight), rule.group, rule.fix, "history")
    for rule in RULES
}
