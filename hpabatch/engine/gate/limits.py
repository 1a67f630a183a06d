"""Limits of a gate: `MEASURE>+10`, `MEASURE>+5%`, `MEASURE>60`, `total:MEASURE>+5%`.

A signed number is about the difference of head and base, an unsigned one about head alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf, isfinite
from operator import ge, gt, le, lt
from typing import Any, Final

from hpabatch.engine.columns.column import INTEGER, NUMBER
from hpabatch.engine.columns.simulate import MEASURES
from hpabatch.errors import UsageError
from hpabatch.model.suggestions import did_you_mean

FINDINGS: Final = ("findings", "findings_high", "findings_medium", "findings_low")
_NOT_OF_A_RUN: Final = ("hours", "elastic_speedup", "capacity_milli", "censored_pct")
SIMULATED: Final = tuple(
    column.name
    for column in MEASURES
    if column.type in (INTEGER, NUMBER)
    and column.name not in _NOT_OF_A_RUN
    and not column.name.endswith("_recorded")
)
"""Measures of `hpabatch simulate` that a limit may be about."""
_NO_SUM: Final = ("_pct", "_s", "_longest_minutes", "overshoot", "jitter_per_hour")

_FORM: Final = re.compile(r"(total:)?([a-z0-9_]+) *(<=|>=|<|>) *([+-]?)([0-9]+(?:\.[0-9]+)?)(%?)")
_COMPARE: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "<": lt, "<=": le, ">": gt, ">=": ge,
}  # fmt: skip

Measures = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit: `of_total` of the sum over all HPAs, else of each; `of_change`: of head - base."""

    text: str
    measure: str
    exceeds: Callable[[float, float], bool]
    number: float
    of_change: bool
    of_share: bool
    of_total: bool

    @property
    def is_of_findings(self) -> bool:
        """Whether it needs no history."""
        return self.measure in FINDINGS

    def judge(self, base: float | None, head: float | None) -> bool | None:
        """Say whether it is exceeded; None: a measure that it needs is not known."""
        if head is None or not isfinite(head):
            return None
        value = head
        if self.of_change:
            if base is None or not isfinite(base):
                return None
            value = head - base
            if self.of_share and value:
                value = 100 * value / base if base else inf if value > 0 else -inf
        return self.exceeds(value, self.number)


def parse_limit(text: str) -> Limit:
    """Return a limit as --fail-on states it (UsageError: it is none)."""
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise UsageError(
            f"--fail-on {text!r}: expected MEASURE>NUMBER, such as saturated_minutes>+10 "
            "(more than base), replica_hours>+5%, at_max_minutes>60 or findings_high>0"
        )
    total, measure, sign, plus, number, percent = found.groups()
    if measure not in (*FINDINGS, *SIMULATED):
        near = did_you_mean(measure, (*FINDINGS, *SIMULATED))
        raise UsageError(
            f"--fail-on {text!r}: there is no measure {measure}{near or '; see docs/gate.md'}"
        )
    if percent and not plus:
        raise UsageError(f"--fail-on {text!r}: a percentage is of base; write its sign, +5%")
    if total and measure.endswith(_NO_SUM):
        raise UsageError(f"--fail-on {text!r}: {measure} makes no sum; leave total: out")
    value = float(f"{plus}{number}")
    limits = bool(plus), bool(percent), bool(total)
    return Limit(text.strip(), measure, _COMPARE[sign], value, *limits)
